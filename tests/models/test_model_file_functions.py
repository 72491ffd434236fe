"""Models that are functions of a module: where they are found, and what is wrong where they are not."""

import hashlib
import sys

import pytest
from model_file_cases import FRAME, explained, here

import controlshap as cs
from controlshap.models.files import load_model

FIXTURES = (here,)  # pytest finds them by their names


def test_a_function_comes_from_the_current_directory_with_the_hash_of_its_file(here):
    source = (
        "class Inner:\n    @staticmethod\n    def score(rows):\n        return rows['age'] * 2\n\nmodel = Inner()\n"
    )
    (here / "scoring_here.py").write_text(source)
    loaded = load_model("scoring_here:model.score")
    assert loaded.kind == "function"
    assert loaded.sha256 == hashlib.sha256(source.encode()).hexdigest()
    assert loaded.feature_names is None
    explained(loaded, lambda rows: rows["age"] * 2)
    package = here / "pack_here"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("def predict(rows):\n    return rows.sum(axis=1)\n")
    assert (
        load_model("pack_here.inner:predict").sha256 == hashlib.sha256((package / "inner.py").read_bytes()).hexdigest()
    )


def test_the_current_directory_comes_before_installed_packages(here):
    (here / "colorsys.py").write_text("def predict(rows):\n    return rows.sum(axis=1)\n")  # unloaded standard library
    sys.modules.pop("colorsys", None)
    assert load_model("colorsys:predict").model(FRAME).shape == (90,)


def test_a_file_in_the_shadow_of_a_loaded_module_is_an_error(here):
    (here / "json.py").write_text("def predict(rows):\n    return rows.sum(axis=1)\n")
    with pytest.raises(cs.InvalidArgumentError, match=r"json\.py .* name of a module that is loaded already"):
        load_model("json:dumps")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("no_such_module:predict", "no module 'no_such_module'"),
        ("scoring.py:predict", r"no module.*Write 'scoring:predict'"),
        ("scoring:predlct", r"has no 'predlct'; did you mean 'predict'\?"),
        ("scoring:model.nothing", "an object of type"),
        ("scoring:Model", "the class Model"),
        ("scoring:number", "a float"),
        ("scoring", "there is no file 'scoring'"),
        ("missing.onnx", "there is no file 'missing.onnx'"),
        (".", "is a folder"),
    ],
)
def test_a_wrong_reference_says_what_is_wrong(here, reference, message):
    (here / "scoring.py").write_text(
        "number = 1.5\nclass Model:\n    def predict(self, rows): return 0\n"
        "model = Model()\ndef predict(rows): return 0\n"
    )
    with pytest.raises(cs.InvalidArgumentError, match=message):
        load_model(reference)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import a_package_that_is_not_there\n", "ModuleNotFoundError: No module named 'a_package_that_is_not_there'"),
        ("def predict(rows:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(source, message, here):
    (here / "broken.py").write_text(source)
    with pytest.raises(cs.InvalidArgumentError, match=f"importing 'broken' failed by {message}"):
        load_model("broken:predict")
