"""The code keeps what CONTRIBUTING says of it: names, docstrings, and capabilities in place of types."""

import ast
import inspect
import pkgutil
import re
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

import controlshap as cs
from controlshap.functions.base import KnownFunction
from controlshap.statistics.terms import LeastSquaresTerms, MeanTerms

SOURCE = Path(cs.__file__).parent
TREES = {path.relative_to(SOURCE): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: What strategies and functions with known values are asked for their capabilities by.
BASES = (cs.Estimator, cs.ValueFunction, cs.Imputer, cs.Control, cs.Variance, KnownFunction)
#: A function is a verb or a noun: no name is a participle alone.
PARTICIPLE = re.compile(r"_*([a-z]+ed|made|told|said|known|shown|given|taken|found|kept|left|drawn|put|spent)")
#: First words that leave out what is described.
NOUNLESS = re.compile(r"(What|Of|Those|Itself|Whoever)\b")


def nodes(trees, *kinds):
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, kinds):
                yield path, node


def repeated_classes(trees):
    places = defaultdict(list)
    for path, node in nodes(trees, ast.ClassDef):
        places[node.name].append(str(path))
    return {name: where for name, where in places.items() if len(where) > 1}


def participles(trees):
    for path, node in nodes(trees, *FUNCTIONS):
        is_value = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
        if PARTICIPLE.fullmatch(node.name) and not is_value and node.name not in ("need", "_seed"):
            yield f"{path}:{node.lineno} {node.name}"


def poor_docstrings(trees):
    for path, node in nodes(trees, *FUNCTIONS, ast.ClassDef, ast.Module):
        text = ast.get_docstring(node)
        if text and not text.startswith("See `") and (len(text.split()) < 3 or NOUNLESS.match(text)):
            yield f"{path} {getattr(node, 'name', '')}: {text.splitlines()[0]}"


def subclasses(base):
    for derived in base.__subclasses__():
        yield derived
        yield from subclasses(derived)


def strategies():
    """Rooms of all concrete strategies, terms and functions with known values, by their names."""
    for module in pkgutil.walk_packages(cs.__path__, "controlshap."):  # a class is known once its module is imported
        if not module.name.endswith("__main__"):
            import_module(module.name)
    of_the_library = [c for base in BASES for c in subclasses(base) if c.__module__.startswith("controlshap.")]
    classes = [c for c in of_the_library if not inspect.isabstract(c)] + [MeanTerms, LeastSquaresTerms]
    return {c.__name__: c.__module__.split(".")[1] for c in classes}


def questions_about_types(trees):
    """Questions about concrete classes outside their room, and about attributes that a base class declares."""
    rooms, declared = strategies(), {name for base in BASES for name in vars(base) if not name.startswith("__")}
    declared -= {"predict", "name", "check"}  # models and explanations have these too
    for path, node in nodes(trees, ast.Call, ast.Compare):
        place = f"{path}:{node.lineno} {ast.unparse(node)}"
        if isinstance(node, ast.Compare):  # with a class, or with a strategy of some settings
            parts = [item for part in node.comparators for item in getattr(part, "elts", [part])]
            made = [part.func for part in parts if isinstance(part, ast.Call)]
            asked = node.comparators if ast.unparse(node.left).startswith("type(") else made
        elif isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
            asked = node.args[1:]
        elif isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            if isinstance(node.args[1], ast.Constant) and node.args[1].value in declared:
                yield place
            continue
        else:
            continue
        names = {name.id for kind in asked for name in ast.walk(kind) if isinstance(name, ast.Name)}
        names |= {name.attr for kind in asked for name in ast.walk(kind) if isinstance(name, ast.Attribute)}
        if any(rooms.get(name, path.parts[0]) != path.parts[0] for name in names):
            yield place


def test_no_class_name_is_used_twice():
    assert repeated_classes(TREES) == {}


def test_functions_are_not_named_by_a_participle():
    assert list(participles(TREES)) == []


def test_docstrings_are_sentences_with_their_noun():
    assert list(poor_docstrings(TREES)) == []


def test_strategies_are_asked_for_capabilities_and_not_for_types():
    assert list(questions_about_types(TREES)) == []


@pytest.mark.parametrize("code", [
    "def f(variance): return isinstance(variance, LeastSquares)",
    "def f(estimator): return isinstance(estimator, (int, estimators.Kernel))",
    "def f(control): return type(control) is Taylor",
    "def f(control): return control not in (None, Taylor())",
    "def f(terms): return isinstance(terms, MeanTerms)",
    "def f(estimator): return getattr(estimator, 'paired', False)",
    "def f(control): return hasattr(control, 'fit')",
])  # fmt: skip
def test_a_question_about_a_type_is_seen(code):
    """Negative control."""
    assert list(questions_about_types({Path("engine/row.py"): ast.parse(code)}))


def test_files_that_the_design_names_are_there():
    root = Path(__file__).resolve().parents[2]
    paths = [
        str(path.relative_to(root))
        for folder in ("src", "tests", "benchmarks")
        for path in (root / folder).rglob("*.py")
    ]
    for page in ("docs/design.md", "docs/mathematics.md", "CONTRIBUTING.md"):
        for name in re.findall(r"(?<![*\w])[\w/]+\.py\b", (root / page).read_text(encoding="utf-8")):
            assert any(f"/{path}".endswith(f"/{name}") for path in [*paths, "dev.py"]), f"{page} names {name}"


def test_poor_names_and_docstrings_are_seen():
    """Negative control."""
    tree = ast.parse(
        'class A:\n    def joined(self):\n        """Of the parts."""\nclass B:\n    """Yes."""\nclass A: ...'
    )
    trees = {Path("a.py"): tree}
    assert list(repeated_classes(trees)) == ["A"]
    assert len(list(participles(trees))) == 1
    assert len(list(poor_docstrings(trees))) == 2
