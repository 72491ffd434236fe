"""The base install needs numpy and scipy only; what needs more says which extra to install."""

import subprocess
import sys
import textwrap

import pytest

EXTRAS = {
    "sklearn": ["sklearn"],
    "torch": ["torch"],
    "lightgbm": ["lightgbm"],
    "xgboost": ["xgboost"],
    "shap": ["shap"],
    "frames": ["narwhals", "pandas", "polars", "pyarrow"],
    "parallel": ["joblib", "cloudpickle", "threadpoolctl"],
    "plots": ["matplotlib"],
    "report": ["jinja2"],
    "command line": ["click", "tqdm"],
    "model files": ["skops", "onnxruntime"],
    "cluster": ["dask", "distributed"],
}
OPTIONAL = sum(EXTRAS.values(), ["numba"])

# Installed before anything else is imported: a package that is not there.
BLOCK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Absent())
"""

# What the base install can do, both value functions and all estimators.
BASE = """
import numpy as np
import controlshap as cs

rng = np.random.default_rng(0)
background, X = rng.normal(size=(12, 3)), rng.normal(size=(2, 3))

def model(rows):
    return np.tanh(rows[:, 0] + rows[:, 1] * rows[:, 2])

for features in ("independent", "correlated"):
    for estimator in ("auto", "permutation", "kernel", "per_feature"):
        settings = {"features": features, "estimator": estimator, "control": "taylor"}
        explanation = cs.explain(model, X, background, budget=400, rng=0, **settings)
        total = explanation.values.sum(axis=1) + explanation.base_values
        assert np.allclose(total, model(X), atol=1e-9), (features, estimator)

explainer = cs.Explainer(model, background, features="correlated", groups={"pair": [0, 1]})
first = explainer(X, budget=300, rng=1)
first.save(FOLDER + "/explanation")
assert (cs.load(FOLDER + "/explanation").values == first.values).all()
explainer.save(FOLDER + "/explainer")
again = cs.Explainer.load(FOLDER + "/explainer", model)
assert (again(X, budget=300, rng=1).values == first.values).all()
"""


def run(tmp_path, blocked, *parts):
    """Run code in a fresh interpreter where some packages cannot be imported."""
    head = f"BLOCKED = {blocked!r}\nFOLDER = {str(tmp_path)!r}\n"
    code = head + BLOCK + "\n".join(textwrap.dedent(part) for part in parts)
    done = subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_base_install_explains_saves_and_loads(tmp_path):
    run(
        tmp_path,
        OPTIONAL,
        BASE,
        "loaded = sorted(set(BLOCKED) & {name.partition('.')[0] for name in sys.modules})",
        "assert not loaded, loaded",
    )


def test_importing_the_library_loads_no_optional_package(tmp_path):
    # Nothing is blocked here: they are installed, and must not be touched.
    run(
        tmp_path,
        [],
        "import controlshap",
        f"loaded = sorted(set({OPTIONAL!r}) & set(sys.modules))",
        "assert not loaded, loaded",
    )


def test_importing_the_library_loads_what_a_default_explanation_needs(tmp_path):
    """No room that it does without, and nothing left for later: that would only move the time.

    Of a model that the ridge explains: what controls on trial are made of is loaded where they are tried.
    """
    run(
        tmp_path,
        OPTIONAL,
        """
        import sys
        import numpy as np
        import controlshap as cs

        def loaded():
            return {name for name in sys.modules if name.startswith("controlshap")}

        before, background = loaded(), np.random.default_rng(0).normal(size=(20, 10))
        rooms = {name.split(".")[1] for name in before if "." in name}
        others = {"cli", "compare", "datasets", "interactions", "plots", "report", "shap_compat", "storage", "testing"}
        assert not rooms & others, rooms & others
        cs.Explainer(lambda rows: 1 / (1 + np.exp(-rows.sum(axis=1))), background)(background[:1], budget=500, rng=0)
        assert loaded() == before, loaded() - before
        """,
    )


def test_every_public_name_is_found_and_listed(tmp_path):
    """Also those that are imported when they are first asked for; by name, by a star and in `dir()`."""
    run(
        tmp_path,
        OPTIONAL,
        """
        import importlib
        for room in ("", ".controls", ".estimators", ".values", ".variances"):
            package = importlib.import_module("controlshap" + room)
            assert set(package.__all__) <= set(dir(package))
            for name in package.__all__:
                assert getattr(package, name) is getattr(package, name), name
                assert name in vars(package)
            try:
                package.nothing
            except AttributeError as error:
                assert str(error) == f"module {package.__name__!r} has no attribute 'nothing'"
            else:
                raise AssertionError(room)
        from controlshap import *
        """,
    )


@pytest.mark.slow
@pytest.mark.parametrize("packages", EXTRAS.values(), ids=EXTRAS.keys())
def test_the_base_works_without_any_one_extra(tmp_path, packages):
    run(tmp_path, packages, BASE)


REFUSED = """
def refused(call, *words):
    try:
        call()
    except cs.MissingExtraError as error:
        assert isinstance(error, ImportError)
        for word in words:
            assert word in str(error), str(error)
    else:
        raise AssertionError(words)
"""


def test_what_needs_an_extra_names_it(tmp_path):
    run(
        tmp_path,
        OPTIONAL,
        BASE,
        REFUSED,
        """
        class Frame:
            columns = ["a", "b", "c"]

        refused(lambda: cs.Explainer(model, Frame()), "`background`", "pip install 'controlshap[frames]'", "array")
        refused(lambda: explainer(Frame()), "`X`", "controlshap[frames]")
        refused(lambda: explainer(X, budget=300, n_jobs=2), "`n_jobs=2`", "controlshap[parallel]", "n_jobs=1")
        refused(lambda: first.to_shap(), "`to_shap()`", "controlshap[shap]")
        refused(lambda: first.to_frame(), "`to_frame()`", "controlshap[frames]")
        refused(lambda: first.plot.bar(), "`explanation.plot.bar()`", "controlshap[plots]")
        refused(lambda: first.report(FOLDER + "/report.html"), "controlshap[report]")
        refused(lambda: first.save(FOLDER + "/values.parquet"), "controlshap[parquet]")
        """,
    )


def test_a_pandas_frame_without_narwhals_names_the_extra(tmp_path):
    run(
        tmp_path,
        ["narwhals"],
        BASE,
        REFUSED,
        """
        import pandas

        refused(lambda: cs.Explainer(model, pandas.DataFrame(background)), "narwhals", "controlshap[frames]")
        """,
    )
