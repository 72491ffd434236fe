"""How large the library is, and how many files and classes one explanation passes through.

    python benchmarks/house.py [SRC ...]

`SRC` is a folder that holds the package `controlshap` (by default this repository's `src`); several are shown side by
side. Prints a table in Markdown. The explained problem has 10 columns, 20 background rows and a budget of 500.
Complexity and private accesses are those of ruff (C901, SLF001).
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
#: Not part of the library: the reproduction of the paper, which version 0.1.0 had inside.
LEFT_OUT = ("reproduce",)


def names_passed(features: str) -> dict[str, list[str]]:
    """Files, functions and classes of the installed library that explaining one row passes through."""
    import numpy as np

    import controlshap as cs

    root = str(Path(cs.__file__).parent) + os.sep
    rng = np.random.default_rng(0)
    weights, background, x = rng.normal(size=10), rng.normal(size=(20, 10)), rng.normal(size=10)

    def model(rows: np.ndarray) -> np.ndarray:
        return np.tanh(rows @ weights + rows[:, 0] * rows[:, 1] * rows[:, 2])

    files, functions, classes = set(), set(), set()

    def watch(frame, event, _argument):
        code = frame.f_code
        if event != "call":
            return
        # the constructors of dataclasses are compiled from strings, so classes are counted by what is constructed
        if code.co_name in ("__init__", "__new__") and code.co_argcount:
            made = frame.f_locals[code.co_varnames[0]]
            made = made if isinstance(made, type) else type(made)
            if made.__module__.partition(".")[0] == "controlshap":
                classes.add(made)
        is_body = code.co_name == "<module>" or not code.co_flags & 0x02  # of a module or a class, when it is imported
        if code.co_filename.startswith(root) and not is_body:
            files.add(code.co_filename)
            if not code.co_name.startswith("<"):
                functions.add(code)

    sys.setprofile(watch)
    try:
        cs.Explainer(model, background, features=features)(x, budget=500, rng=0)
    finally:
        sys.setprofile(None)
    return {
        "files": sorted(path.removeprefix(root) for path in files),
        "functions": sorted(f"{code.co_filename.removeprefix(root)}:{code.co_qualname}" for code in functions),
        "classes": sorted(f"{made.__module__.removeprefix('controlshap.')}.{made.__qualname__}" for made in classes),
    }


def passed(source: Path, features: str) -> dict[str, list[str]]:
    """`names_passed` in a fresh interpreter that imports the package of `source`."""
    command = [sys.executable, __file__, "--passed", features]
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def modules_of(source: Path) -> list[Path]:
    """The library's modules."""
    package = source / "controlshap"
    return [path for path in sorted(package.rglob("*.py")) if path.relative_to(package).parts[0] not in LEFT_OUT]


def count_lines(path: Path) -> int:
    """All lines of a module."""
    return len(path.read_text(encoding="utf-8").splitlines())


def count_code(path: Path) -> int:
    """Lines of a module that are neither blank, comment nor docstring."""
    text = path.read_text(encoding="utf-8")
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if ast.get_docstring(node) is not None and first is not None:
                documented |= set(range(first.lineno, first.end_lineno + 1))
    code: set[int] = set()
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in blank:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - documented)


def count_imported(source: Path) -> int:
    """Modules of the library that importing it loads."""
    code = "import sys, controlshap; print(sum(name.startswith('controlshap') for name in sys.modules))"
    environment = os.environ | {"PYTHONPATH": str(source)}
    return int(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout)


def largest_function(modules: list[Path]) -> str:
    """Lines and name of the longest function."""
    lines, name = max(
        (node.end_lineno - node.lineno + 1, f"{path.parent.name}.{path.stem}.{node.name}")
        for path in modules
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return f"{lines} (`{name}`)"


def check(modules: list[Path], rule: str) -> list[dict] | None:
    """Violations of a rule of ruff; None without ruff."""
    settings = ["--isolated", "--no-cache", "--select", rule, "--config", "lint.mccabe.max-complexity=0"]
    command = [sys.executable, "-m", "ruff", "check", *settings, "--output-format", "json", *map(str, modules)]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode in (0, 1) and done.stdout else None


def highest_complexity(modules: list[Path]) -> tuple[str, str]:
    """The largest complexity with its function, and how many functions are above 12."""
    violations = check(modules, "C901")
    if violations is None:
        return "ruff is missing", "ruff is missing"
    numbers = []
    for violation in violations:
        name, number = re.fullmatch(r"`(.*)` is too complex \((\d+) > 0\)", violation["message"]).groups()
        path = Path(violation["filename"])
        numbers.append((int(number), f"{path.parent.name}.{path.stem}.{name}"))
    return f"{max(numbers)[0]} (`{max(numbers)[1]}`)", str(sum(number > 12 for number, _ in numbers))


def measure(source: Path) -> dict[str, str]:
    """One column of the table."""
    modules = modules_of(source)
    in_root = [path for path in modules if path.parent == source / "controlshap"]
    independent, correlated = passed(source, "independent"), passed(source, "correlated")
    private = check(modules, "SLF001")
    highest, above = highest_complexity(modules)
    column = {f"{kind}, default explanation": str(len(names)) for kind, names in independent.items()}
    paths = [source / "controlshap" / name for name in independent["files"]]
    column["lines of these files"] = f"{sum(map(count_lines, paths)):,}"
    column |= {f"{kind}, correlated features": str(len(names)) for kind, names in correlated.items()}
    return column | {
        "lines without the paper": f"{sum(map(count_lines, modules)):,}",
        "of these code": f"{sum(map(count_code, modules)):,}",
        "files": str(len(modules)),
        "modules loaded by `import controlshap`": str(count_imported(source)),
        "modules in the root": str(len(in_root)),
        "largest function, lines": largest_function(modules),
        "highest complexity": highest,
        "functions of complexity above 12": above,
        "private attributes of other objects": "ruff is missing" if private is None else str(len(private)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", type=Path, metavar="SRC", default=[SOURCE])
    parser.add_argument(
        "--names", choices=["files", "functions", "classes"], help="list what a default explanation passes"
    )
    parser.add_argument("--passed", choices=["independent", "correlated"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.passed:
        print(json.dumps(names_passed(arguments.passed)))
        return
    if arguments.names:
        for source in arguments.sources:
            print(*passed(source.resolve(), "independent")[arguments.names], sep="\n")
        return
    columns = [measure(source.resolve()) for source in arguments.sources]
    names = [source.name if len(columns) == 1 else str(source) for source in arguments.sources]
    print("| |", " | ".join(names), "|")
    print("|---" * (len(columns) + 1) + "|")
    for name in columns[0]:
        print(f"| {name} |", " | ".join(column[name] for column in columns), "|")


if __name__ == "__main__":
    main()
