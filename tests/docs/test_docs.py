"""What is written runs and is true: examples, docstrings, exported names, file names, and nothing of one machine."""

import doctest
import importlib
import inspect
import pkgutil
import re
import shutil
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

import controlshap
from controlshap.plots import Plots

ROOT = Path(__file__).resolve().parents[2]
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if page.is_file()]
WITH_LINKS = [
    *PAGES,
    *(ROOT / name for name in ("CONTRIBUTING.md", "VISION.md", "CHANGELOG.md", "benchmarks/README.md")),
]
WITH_FILE_NAMES = [ROOT / "docs" / "mathematics.md", ROOT / "CONTRIBUTING.md"]
MODULES = [
    "controlshap", *(module.name for module in pkgutil.walk_packages(controlshap.__path__, prefix="controlshap."))
]  # fmt: skip


def relative(path):
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after the fence, the line of its first line, its text."""

    info: tuple[str, ...]
    line: int
    text: str


def fenced_blocks(text):
    """All fenced blocks of a Markdown page, whatever their language."""
    blocks, fence, info, start, lines = [], None, (), 0, []
    for number, line in enumerate(text.splitlines(), start=1):
        opened = re.match(r"\s*(`{3,}|~{3,})\s*([^`]*)$", line)
        if fence is None:
            if opened:
                fence, info, start, lines = opened[1], tuple(opened[2].split()), number + 1, []
        elif opened and not opened[2] and opened[1].startswith(fence):
            blocks.append(Block(info, start, textwrap.dedent("\n".join(lines)) + "\n"))
            fence = None
        else:
            lines.append(line)
    assert fence is None, f"the block before line {start} is never closed"
    return blocks


def python_blocks(text):
    """Blocks to run: `python` alone; `python no-run` is left out, and any other word is a mistake."""
    found = []
    for block in fenced_blocks(text):
        if block.info[:1] == ("python",):
            assert block.info[1:] in ((), ("no-run",)), f"line {block.line - 1}: unknown fence {' '.join(block.info)!r}"
            if not block.info[1:]:
                found.append(block)
    return found


def run_blocks(text, filename):
    """Run a page's blocks in order in one namespace; a traceback points at the page's own lines."""
    namespace = {"__name__": "__main__"}
    for block in python_blocks(text):
        exec(compile("\n" * (block.line - 1) + block.text, filename, "exec"), namespace)


# those that say what is printed are run by tests/docs/test_site.py, which compares
WITHOUT_OUTPUT = [page for page in PAGES if "```text output" not in page.read_text(encoding="utf-8")]


@pytest.mark.seconds
@pytest.mark.parametrize("page", WITHOUT_OUTPUT, ids=relative)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    run_blocks(page.read_text(encoding="utf-8"), str(page))


EXAMPLE = """
```python
first = 1
```
~~~python no-run
raise AssertionError
~~~
- in a list

  ````python
  second = first + 1
  assert second == {expected}, "```"
  ````

```text
not Python
```
"""


def test_blocks_share_a_namespace_and_a_wrong_one_is_caught():
    run_blocks(EXAMPLE.format(expected=2), "page.md")
    with pytest.raises(AssertionError) as caught:
        run_blocks(EXAMPLE.format(expected=3), "page.md")
    assert caught.traceback[-1].lineno + 1 == 12
    with pytest.raises(AssertionError, match="unknown fence 'python norun'"):
        python_blocks("```python norun\n```\n")
    with pytest.raises(AssertionError, match="never closed"):
        python_blocks("```python\n")


@pytest.mark.parametrize("name", MODULES)
def test_the_doctests_of_a_module_pass(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_doctests_are_found_and_a_wrong_one_is_caught():
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test.name for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert {"controlshap.explainer.Explainer", "controlshap.estimators.enumeration.shapley_values"} <= set(found)
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner().run(wrong, out=lambda text: None).failed == 1


def test_the_exported_names_are_sorted_and_complete():
    exported = controlshap.__all__
    assert exported == sorted(exported)
    assert len(exported) == len(set(exported))
    own = {
        name
        for name in dir(controlshap)
        if not name.startswith("_")
        and getattr(getattr(controlshap, name), "__module__", "").partition(".")[0] == "controlshap"
    }  # fmt: skip
    assert set(exported) == own | {"__version__", "metrics"}


@pytest.mark.parametrize("name", [name for name in controlshap.__all__ if name != "__version__"])
def test_every_exported_name_has_a_docstring_of_its_own(name):
    docstring = vars(getattr(controlshap, name)).get("__doc__") or getattr(controlshap, name).__doc__
    assert docstring
    assert docstring.strip()
    # what `dataclass` writes where there is none
    assert not docstring.startswith(f"{name}("), docstring
    parent = getattr(controlshap, name).__mro__[1] if inspect.isclass(getattr(controlshap, name)) else None
    assert parent is None or docstring != parent.__doc__


@pytest.mark.parametrize("page", [page for page in WITH_LINKS if page.is_file()], ids=relative)
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:|#", target):
            assert (page.parent / target.partition("#")[0]).exists(), target


#: What users call. Strategies have one method each that the library calls; their classes have examples where they pay.
FOR_USERS = (
    controlshap.Explainer, controlshap.Explanation, controlshap.Difference, controlshap.Ranking, controlshap.Summary,
    controlshap.Interactions, controlshap.PairRanking, controlshap.KernelExplainer, controlshap.EncodedSpace, Plots,
)  # fmt: skip


def test_every_public_method_has_a_worked_example():
    """In its docstring, or in a block of the API page or the gallery, which are run."""
    pages = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("api.md", "gallery.md")]
    code = "\n".join(block.text for page in pages for block in python_blocks(page))
    missing = []
    for kind in FOR_USERS:
        for name, member in vars(kind).items():
            called = not name.startswith("_") and (callable(member) or isinstance(member, property | classmethod))
            shown = re.search(rf"\.{name}\b", code) or ">>>" in (inspect.getdoc(getattr(kind, name)) or "")
            if called and not shown:
                missing.append(f"{kind.__name__}.{name}")
    functions = ("explain", "load", "difference", "encoded_space", "one_hot_groups")
    missing += [name for name in functions if f"cs.{name}(" not in code]
    assert not missing, "add these to the blocks of docs/api.md"


GUIDES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name in ("docs", "tutorials")]


@pytest.mark.parametrize("page", [page for page in GUIDES if page.stem not in ("api", "changelog")], ids=relative)
def test_a_page_begins_with_a_question(page):
    first = page.read_text(encoding="utf-8").split("\n\n")[1]
    assert re.match(r"\*.*?\?\*", first.replace("\n", " ")), first


@pytest.mark.parametrize("page", WITH_FILE_NAMES, ids=relative)
def test_the_files_that_a_page_names_exist(page):
    folders = [ROOT, ROOT / "src" / "controlshap"]
    named = set(re.findall(r"`([\w./-]+(?:\.(?:py|md|toml|cff)|/))`", page.read_text(encoding="utf-8")))
    assert len(named) > 10
    missing = sorted(name for name in named if not any((folder / name).exists() for folder in folders))
    assert not missing


def test_the_citation_has_the_version_of_the_software():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == controlshap.__version__


# Put together from parts, so that this file does not hold what it looks for.
OF_ONE_MACHINE = {
    "a package registry": re.compile(
        r"(?:py" + r"pi\.(?:org|python)|python" + r"hosted\.|ana" + r"conda\.org|download\.py" + r"torch\.org)"
        r"|--(?:extra-)?index" + r"-url[ =]"
    ),
    "a folder of one machine": re.compile(r"(?<![\w.~-])/(?:ro" + r"ot|wo" + r"rk|ho" + r"me|Us" + r"ers)/"),
}  # fmt: skip


def repository_files():
    """Every file that is or may be committed; without git, every file outside of tools' own folders."""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if listed.returncode == 0 and listed.stdout:
            return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    return walked_files()


def walked_files():
    found = []
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part not in (".ci", ".gitignore", ".github") for part in parts)
        made = {"__pycache__", "build", "dist", "demo_output", "_build"} & set(parts)
        if path.is_file() and not hidden and not made and not any(part.endswith(".egg-info") for part in parts):
            found.append(path)
    return found


def traces(text):
    """What a text holds that belongs to one machine."""
    return [f"{what}: {match[0]}" for what, pattern in OF_ONE_MACHINE.items() for match in pattern.finditer(text)]


def test_no_file_names_a_registry_or_a_folder_of_one_machine():
    files = repository_files()
    assert {ROOT / "pyproject.toml", ROOT / "src/controlshap/__init__.py"} <= set(files)
    found = {}
    for path in files:
        content = path.read_bytes()
        if b"\0" not in content:  # not a picture
            found[relative(path)] = traces(content.decode("utf-8", errors="replace"))
    assert {name: what for name, what in found.items() if what} == {}


def test_files_are_found_without_git():
    walked = {relative(path) for path in walked_files()}
    assert {"pyproject.toml", "tests/docs/test_docs.py", "src/controlshap/__init__.py", "docs/mathematics.md"} <= walked
    assert not any(name.startswith((".venv", ".git/")) for name in walked)


@pytest.mark.parametrize(
    "text",
    [
        "https://py" + "pi.org/simple",
        "https://files.python" + "hosted.org/x",
        "pip install --index" + "-url https://x",
        "see /ro" + "ot/x",
        "'/wo" + "rk/main'",
        "file:///ho" + "me/me/x",
    ],
)
def test_a_trace_is_caught(text):
    assert traces(text)


@pytest.mark.parametrize("text", ["../work/data", "a/home/b", "framework/ and homework/", "pip install controlshap"])
def test_a_harmless_text_is_not(text):
    assert not traces(text)
