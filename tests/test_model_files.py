"""Models from files of every kind, made by the libraries themselves; wrong files; nothing runs that was not allowed."""

import gzip
import hashlib
import os
import pickle
import sys

import joblib
import lightgbm
import numpy as np
import onnx
import pandas as pd
import pytest
import skops.io
import torch
import xgboost
from onnx import TensorProto, helper, numpy_helper
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, SplineTransformer, StandardScaler
from sklearn.svm import SVC

import controlshap as cs
from controlshap.model_files import load_model, with_arrays
from controlshap.model_files.said_columns import said_columns
from controlshap.model_files.ubjson import is_whole

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(90, 3))
NAMES = ["age", "debt", "rate"]
FRAME = pd.DataFrame(ROWS, columns=NAMES)
TWO = (ROWS @ [1.0, -0.8, 0.5] > 0).astype(int)
THREE = TWO + (ROWS[:, 0] > 0.5)


def explained(loaded, predict, data=FRAME, **settings):
    """The loaded model is explained as the bare function of its predictions."""
    settings = {"estimator": "permutation", "control": "none", "budget": 60, "rng": 5} | settings
    ours = cs.explain(loaded.model, data.iloc[:1], data.iloc[5:10], **settings)
    bare = cs.explain(predict, data.iloc[:1], data.iloc[5:10], **settings)
    np.testing.assert_allclose(ours.values, bare.values, rtol=0, atol=1e-6)
    return ours


# ------------------------------------------------------------------------------------------------ functions


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current directory; modules that are imported from it are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


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


# ------------------------------------------------------------------------------------------------ skops


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), SVC(C=2.0)),
        RandomForestRegressor(3, random_state=0),
        GradientBoostingClassifier(n_estimators=3),
        HistGradientBoostingClassifier(max_iter=3),
        MLPClassifier((3,), max_iter=30, random_state=0),
        CalibratedClassifierCV(LogisticRegression()),
        GaussianProcessClassifier(),
        KNeighborsClassifier(),
        make_pipeline(SplineTransformer(), LogisticRegression()),
        xgboost.XGBClassifier(n_estimators=3, n_jobs=1),
        lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_fitted_estimators_come_back_from_skops(estimator, tmp_path):
    estimator.fit(FRAME, TWO)
    skops.io.dump(estimator, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert loaded.kind == "skops"
    assert loaded.feature_names == tuple(NAMES)
    assert not loaded.takes_arrays
    method = "predict_proba" if hasattr(estimator, "predict_proba") else "predict"
    np.testing.assert_allclose(getattr(loaded.model, method)(FRAME), getattr(estimator, method)(FRAME))


def test_other_types_in_a_skops_file_are_refused_by_name_and_nothing_runs(tmp_path):
    estimator = make_pipeline(FunctionTransformer(os.system), LogisticRegression())
    skops.io.dump(estimator, tmp_path / "model.skops")
    with pytest.raises(cs.InvalidArgumentError, match=r"types that are not in the list.*posix\.system"):
        load_model(tmp_path / "model.skops")
    # functions of packages that hold estimators are not harmless for that
    estimator = make_pipeline(FunctionTransformer(np.testing.assert_raises), LogisticRegression())
    skops.io.dump(estimator, tmp_path / "model.skops")
    with pytest.raises(cs.InvalidArgumentError, match="assert_raises"):
        load_model(tmp_path / "model.skops", allow_pickle=True)


def test_an_estimator_fitted_on_arrays_is_given_arrays(tmp_path):
    estimator = LogisticRegression().fit(ROWS, TWO)
    skops.io.dump(estimator, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert loaded.feature_names is None
    assert (loaded.n_columns, loaded.takes_arrays) == (3, True)
    model = with_arrays(loaded.model)
    assert model.source is loaded.model  # its exact form is still recognised
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explanation = cs.explain(model, FRAME.iloc[:1], FRAME.iloc[5:10], rng=0)
    assert explanation.status.tolist() == ["exact"]
    assert explanation.feature_names == tuple(NAMES)


# ------------------------------------------------------------------------------------------------ ONNX


def save_onnx(path, nodes, inputs, outputs, tensors=()):
    """A graph of a few nodes; inputs and outputs are (name, type, shape)."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*one) for one in inputs],
        [one if not isinstance(one, tuple) else helper.make_tensor_value_info(*one) for one in outputs],
        [numpy_helper.from_array(array, name) for name, array in tensors],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def linear_onnx(path, weights, outputs="output", batch=None, kind=TensorProto.FLOAT):
    weights = np.asarray(weights, dtype=np.float32 if kind == TensorProto.FLOAT else np.float64)
    nodes = [helper.make_node("MatMul", ["rows", "weights"], [outputs])]
    shape = [batch, weights.shape[1]]
    return save_onnx(path, nodes, [("rows", kind, [batch, 3])], [(outputs, kind, shape)], [("weights", weights)])


def classifier_onnx(path, classes, zipmap=False, named="probabilities"):
    """A linear classifier as scikit-learn's are exported: labels, and probabilities or their ZipMap."""
    k = len(classes)
    labels = {"classlabels_strings": classes} if isinstance(classes[0], str) else {"classlabels_ints": classes}
    weights = np.linspace(-1, 1, 3 * k).reshape(k, 3)
    nodes = [
        helper.make_node(
            "LinearClassifier", ["rows"], ["label", named], domain="ai.onnx.ml", coefficients=weights.ravel().tolist(),
            intercepts=[0.0] * k, post_transform="SOFTMAX", multi_class=1, **labels,
        )
    ]  # fmt: skip
    kind = TensorProto.STRING if isinstance(classes[0], str) else TensorProto.INT64
    out = (named, TensorProto.FLOAT, [None, k])
    if zipmap:
        keys = {"classlabels_strings": classes} if kind == TensorProto.STRING else {"classlabels_int64s": classes}
        nodes.append(helper.make_node("ZipMap", [named], ["zipped"], domain="ai.onnx.ml", **keys))
        value = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
        out = helper.make_value_info("zipped", helper.make_sequence_type_proto(helper.make_map_type_proto(kind, value)))
    save_onnx(path, nodes, [("rows", TensorProto.FLOAT, [None, 3])], [("label", kind, [None]), out])

    def predict(rows):
        scores = np.exp(np.asarray(rows, dtype=np.float32) @ weights.T.astype(np.float32))
        return scores / scores.sum(axis=1, keepdims=True)

    return predict


def test_an_onnx_regression_of_one_tensor(tmp_path):
    for kind in (TensorProto.FLOAT, TensorProto.DOUBLE):
        loaded = load_model(linear_onnx(tmp_path / "model.onnx", [[1.0], [2.0], [-1.0]], kind=kind))
        assert (loaded.kind, loaded.feature_names, loaded.n_columns) == ("onnx", None, 3)
        explained(loaded, lambda rows: np.asarray(rows) @ [1.0, 2.0, -1.0])
        explained(loaded, lambda rows: np.asarray(rows) @ [1.0, 2.0, -1.0], features="correlated")


def test_two_float_outputs_of_a_regression_are_both_explained_but_probabilities_give_class_1(tmp_path):
    weights = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    loaded = load_model(linear_onnx(tmp_path / "model.onnx", weights))
    assert explained(loaded, lambda rows: np.asarray(rows) @ weights).values.shape == (1, 3, 2)
    loaded = load_model(linear_onnx(tmp_path / "model.onnx", weights, outputs="Probabilities"))
    assert explained(loaded, lambda rows: (np.asarray(rows) @ weights)[:, 1]).values.shape == (1, 3)


@pytest.mark.parametrize("zipmap", [False, True])
def test_an_onnx_classifier_gives_probabilities_not_labels(zipmap, tmp_path):
    predict = classifier_onnx(tmp_path / "two.onnx", [0, 1], zipmap, named="scores")
    explanation = explained(load_model(tmp_path / "two.onnx"), lambda rows: predict(rows)[:, 1])
    assert explanation.output_names is None
    predict = classifier_onnx(tmp_path / "three.onnx", ["high", "low", "middle"], zipmap)
    explanation = explained(load_model(tmp_path / "three.onnx"), predict)
    assert explanation.output_names == ("high", "low", "middle")
    predict = classifier_onnx(tmp_path / "three.onnx", [-1, 0, 12], zipmap)
    assert explained(load_model(tmp_path / "three.onnx"), predict).output_names == ("-1", "0", "12")


def columns_onnx(path):
    """One input a column, text too, as pipelines with a ColumnTransformer are exported: debt + 2 [job = clerk]."""
    nodes = [
        helper.make_node("LabelEncoder", ["job"], ["code"], domain="ai.onnx.ml", keys_strings=["clerk"],
                         values_floats=[2.0], default_float=0.0),
        helper.make_node("Cast", ["children"], ["many"], to=TensorProto.FLOAT),
        helper.make_node("Sum", ["debt", "code", "many"], ["variable"]),
    ]  # fmt: skip
    inputs = [
        ("debt", TensorProto.FLOAT, [None, 1]),
        ("job", TensorProto.STRING, [None, 1]),
        ("children", TensorProto.INT64, [None, 1]),
    ]
    return save_onnx(path, nodes, inputs, [("variable", TensorProto.FLOAT, [None, 1])])


def test_an_onnx_model_with_one_input_a_column_takes_them_by_name(tmp_path):
    loaded = load_model(columns_onnx(tmp_path / "model.onnx"))
    assert loaded.feature_names == ("debt", "job", "children")
    frame = pd.DataFrame({"job": ["clerk", "cook"], "children": [1, 3], "debt": [0.5, 0.25]})
    expected = [3.5, 3.25]
    np.testing.assert_allclose(loaded.model.predict(frame), expected)
    np.testing.assert_allclose(loaded.model.predict(frame[["debt", "job", "children"]].to_numpy(object)), expected)
    with pytest.raises(cs.InvalidArgumentError, match="'children' takes tensor"):
        loaded.model.predict(frame.assign(children=0.5))
    with pytest.raises(cs.InvalidArgumentError, match="'job' takes text; got None"):
        loaded.model.predict(frame.assign(job=pd.Series(["clerk", None], dtype=object)))


@pytest.mark.parametrize("batch", [1, 4])
def test_an_onnx_model_of_a_fixed_batch_is_fed_in_such_batches(batch, tmp_path):
    loaded = load_model(linear_onnx(tmp_path / "model.onnx", [[1.0], [2.0], [-1.0]], batch=batch))
    np.testing.assert_allclose(loaded.model.predict(FRAME), ROWS @ [1.0, 2.0, -1.0], atol=1e-5)


def test_an_onnx_model_travels_as_bytes(tmp_path):
    loaded = load_model(linear_onnx(tmp_path / "model.onnx", [[1.0], [2.0], [-1.0]]))
    other = pickle.loads(pickle.dumps(loaded.model.source))
    np.testing.assert_array_equal(other(ROWS), loaded.model.source(ROWS))
    one = cs.explain(loaded.model, FRAME[:3], FRAME[5:10], budget=60, rng=0)
    two = cs.explain(loaded.model, FRAME[:3], FRAME[5:10], budget=60, rng=0, n_jobs=2)
    np.testing.assert_array_equal(one.values, two.values)


def test_onnx_models_that_cannot_be_explained_say_why(tmp_path):
    rows, file = ("rows", TensorProto.FLOAT, [None, 3]), tmp_path / "model.onnx"
    save_onnx(file, [helper.make_node("ArgMax", ["rows"], ["label"], axis=1)], [rows],
              [("label", TensorProto.INT64, [None, 1])])  # fmt: skip
    with pytest.raises(cs.InvalidArgumentError, match="class labels only"):
        load_model(file)
    nodes = [helper.make_node("Neg", ["rows"], ["a"]), helper.make_node("Abs", ["rows"], ["b"])]
    save_onnx(file, nodes, [rows], [(name, TensorProto.FLOAT, [None, 3]) for name in "ab"])
    with pytest.raises(cs.InvalidArgumentError, match=r"which of its outputs.*a tensor\(float\), b tensor"):
        load_model(file)
    save_onnx(file, [helper.make_node("Add", ["rows", "more"], ["a"])],
              [rows, ("more", TensorProto.FLOAT, [None, 3])], [("a", TensorProto.FLOAT, [None, 3])])  # fmt: skip
    with pytest.raises(cs.InvalidArgumentError, match="one input for each column"):
        load_model(file)
    save_onnx(file, [helper.make_node("NoSuchThing", ["rows"], ["a"])], [rows], [("a", TensorProto.FLOAT, [None, 3])])
    with pytest.raises(cs.InvalidArgumentError, match="could not be read by onnxruntime"):
        load_model(file)
    linear_onnx(file, np.ones((3, 400)))
    onnx.save(onnx.load(file), file, save_as_external_data=True, location="weights.bin", size_threshold=0)
    with pytest.raises(cs.InvalidArgumentError, match="could not be read by onnxruntime"):
        load_model(file)


# ------------------------------------------------------------------------------------------------ boosters


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_xgboost_files(suffix, tmp_path):
    file = tmp_path / f"m.{suffix}"
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(FRAME, TWO), 3)
    booster.save_model(file)
    loaded = load_model(file)
    assert (loaded.kind, loaded.feature_names) == ("xgboost", tuple(NAMES))
    explained(loaded, lambda rows: booster.predict(xgboost.DMatrix(rows)))
    wrapper = xgboost.XGBClassifier(n_estimators=20, early_stopping_rounds=1, n_jobs=1)
    wrapper.fit(FRAME, TWO, eval_set=[(FRAME, 1 - TWO)], verbose=False)
    assert wrapper.best_iteration == 0
    wrapper.save_model(file)
    explained(load_model(file), lambda rows: wrapper.predict_proba(rows)[:, 1])


def test_an_xgboost_file_is_read_by_its_content_under_a_suffix_that_says_nothing(tmp_path):
    booster = xgboost.train({"nthread": 1}, xgboost.DMatrix(FRAME, TWO), 3)
    for form in ("json", "ubj"):
        (tmp_path / "m.model").write_bytes(booster.save_raw(form))
        np.testing.assert_array_equal(load_model(tmp_path / "m.model").model.predict(xgboost.DMatrix(FRAME)),
                                      booster.predict(xgboost.DMatrix(FRAME)))  # fmt: skip


def test_an_xgboost_classifier_that_gives_labels_gives_probabilities(tmp_path):
    for objective in ("multi:softprob", "multi:softmax"):
        settings = {"objective": objective, "num_class": 3, "nthread": 1, "seed": 0}
        xgboost.train(settings, xgboost.DMatrix(ROWS, THREE), 3).save_model(tmp_path / f"{objective[6:]}.json")
    soft, hard = (load_model(tmp_path / f"{name}.json") for name in ("softprob", "softmax"))
    assert (soft.feature_names, soft.n_columns) == (None, 3)
    assert explained(hard, lambda rows: soft.model.predict(xgboost.DMatrix(np.asarray(rows)))).values.shape == (1, 3, 3)


def test_lightgbm_files(tmp_path):
    booster = lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, lightgbm.Dataset(FRAME, TWO), 3)
    booster.save_model(tmp_path / "m.txt")
    loaded = load_model(tmp_path / "m.txt")
    assert (loaded.kind, loaded.feature_names) == ("lightgbm", tuple(NAMES))
    explained(loaded, booster.predict)
    bare = lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, lightgbm.Dataset(ROWS, TWO), 3)
    bare.save_model(tmp_path / "m.txt")
    loaded = load_model(tmp_path / "m.txt")
    assert (loaded.feature_names, loaded.n_columns) == (None, 3)
    explained(loaded, lambda rows: bare.predict(np.asarray(rows)))


# ------------------------------------------------------------------------------------------------ files that run code


class Bomb:
    """Unpickling it makes a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


WRITERS = {
    "model.pkl": lambda path: path.write_bytes(pickle.dumps(LogisticRegression().fit(FRAME, TWO))),
    "old.pickle": lambda path: path.write_bytes(pickle.dumps(LogisticRegression().fit(FRAME, TWO), protocol=0)),
    "model.joblib": lambda path: joblib.dump(LogisticRegression().fit(FRAME, TWO), path),
    "joblib.pkl": lambda path: joblib.dump(LogisticRegression().fit(FRAME, TWO), path),
    "zlib.joblib": lambda path: joblib.dump(LogisticRegression().fit(FRAME, TWO), path, compress=3),
    "gzip.joblib": lambda path: joblib.dump(LogisticRegression().fit(FRAME, TWO), path, compress=("gzip", 3)),
    "xz.joblib": lambda path: joblib.dump(LogisticRegression().fit(FRAME, TWO), path, compress=("xz", 3)),
    "net.pt": lambda path: torch.save(net(), path),
    "legacy.pth": lambda path: torch.save(net(), path, _use_new_zipfile_serialization=False),
    "script.pt": lambda path: torch.jit.script(net()).save(str(path)),
    "suffix.bin": lambda path: path.write_bytes(pickle.dumps(LogisticRegression().fit(FRAME, TWO))),
}


@pytest.mark.parametrize("name", WRITERS)
def test_files_that_run_code_are_loaded_on_request_only(name, tmp_path):
    file = tmp_path / name
    WRITERS[name](file)
    with pytest.raises(cs.InvalidArgumentError, match=r"loading one runs code.*--allow-pickle"):
        load_model(file)
    loaded = load_model(file, allow_pickle=True)
    assert loaded.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    if loaded.kind in ("torch", "torchscript"):
        module = net()
        explained(loaded, lambda rows: module(torch.tensor(np.asarray(rows), dtype=torch.float32)).detach().numpy())
        other = pickle.loads(pickle.dumps(loaded.model))
        assert torch.equal(other(torch.ones(2, 3)), loaded.model(torch.ones(2, 3)))
    else:
        assert (loaded.kind, loaded.feature_names) == ("pickle", tuple(NAMES))
        explained(loaded, lambda rows: LogisticRegression().fit(FRAME, TWO).predict_proba(rows)[:, 1])


@pytest.mark.parametrize(
    "name", ["m.pkl", "m.joblib", "m.onnx", "m.skops", "m.json", "m.txt", "m.ubj", "m.pt", "m", "m.model"]
)
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_under_any_name_never_runs_unasked(name, protocol, tmp_path):
    made = tmp_path / "made"
    (tmp_path / name).write_bytes(pickle.dumps([Bomb(made), 1], protocol=protocol))
    with pytest.raises(cs.InvalidArgumentError, match=r"pickle|runs code"):
        load_model(tmp_path / name)
    assert not made.exists()
    if (tmp_path / name).suffix in (".onnx", ".skops", ".json", ".txt", ".ubj", ".pt"):
        with pytest.raises(cs.InvalidArgumentError, match=r"but holds a pickle.*rename it"):
            load_model(tmp_path / name, allow_pickle=True)
        assert not made.exists()


def test_a_torch_file_with_weights_only_or_classes_that_are_gone(tmp_path):
    torch.save(net().state_dict(), tmp_path / "weights.pt")
    with pytest.raises(cs.InvalidArgumentError, match=r"weights .* without the module"):
        load_model(tmp_path / "weights.pt", allow_pickle=True)
    (tmp_path / "gone.pkl").write_bytes(b"cno_such_module\nThing\n(tR.")
    with pytest.raises(cs.MissingExtraError, match="module 'no_such_module'"):
        load_model(tmp_path / "gone.pkl", allow_pickle=True)
    (tmp_path / "gone.pkl").write_bytes(pickle.dumps({"a": 1})[:-4])
    with pytest.raises(cs.InvalidArgumentError, match="could not be unpickled"):
        load_model(tmp_path / "gone.pkl", allow_pickle=True)
    (tmp_path / "dict.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(cs.InvalidArgumentError, match="this holds a dict"):
        load_model(tmp_path / "dict.pkl", allow_pickle=True)


def test_classes_of_a_pickle_are_found_in_the_current_directory(here):
    (here / "own_classes.py").write_text("class Own:\n    def predict(self, rows):\n        return rows['age']\n")
    (here / "m.pkl").write_bytes(b"cown_classes\nOwn\n(tR.")
    assert type(load_model("m.pkl", allow_pickle=True).model).__name__ == "Own"


# ------------------------------------------------------------------------------------------------ wrong files


def half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def make_half(kind, path):
    if kind == "xgboost":
        xgboost.train({"nthread": 1}, xgboost.DMatrix(ROWS, TWO), 3).save_model(path)
    elif kind == "lightgbm":
        data = lightgbm.Dataset(ROWS, TWO)
        lightgbm.train({"verbose": -1, "num_threads": 1}, data, 3).save_model(path)
    elif kind == "onnx":
        linear_onnx(path, np.ones((3, 1)))
    else:
        skops.io.dump(LogisticRegression().fit(ROWS, TWO), path)
    half(path)


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [("xgboost", "json"), ("xgboost", "ubj"), ("lightgbm", "txt"), ("onnx", "onnx"), ("skops", "skops")],
)
def test_half_a_file_is_an_error_of_one_sentence(kind, suffix, tmp_path):
    make_half(kind, tmp_path / f"m.{suffix}")
    with pytest.raises(cs.InvalidArgumentError, match=r"damaged|could not be read") as caught:
        load_model(tmp_path / f"m.{suffix}")
    assert len(str(caught.value)) < 400


def test_every_cut_of_an_xgboost_file_is_an_error(tmp_path):
    """Without our own look at the file xgboost ends the process on some of these."""
    whole = bytes(xgboost.train({"nthread": 1}, xgboost.DMatrix(FRAME, TWO), 3).save_raw("ubj"))
    assert is_whole(whole)
    assert not any(is_whole(whole[:end]) for end in range(len(whole)))
    assert not is_whole(whole + b"Z")
    assert not is_whole(b"[" * 5000)
    for end in range(60, len(whole), 97):
        (tmp_path / "m.ubj").write_bytes(whole[:end])
        with pytest.raises(cs.InvalidArgumentError, match="cut off"):
            load_model(tmp_path / "m.ubj")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.onnx", b"", "is empty"),
        ("m.onnx", b"a,b\n1,2\n", "ends in .onnx but is not an ONNX model.*plain text"),
        ("m.json", b'{"a": 1}', "JSON that is not an xgboost model"),
        ("m.json", b'{"tree_info": []}', "dump of a lightgbm model"),
        ("m.txt", b"hello", "is not a lightgbm model"),
        ("m.csv", b"a,b\n1,2\n", "not a model file that can be read; it holds plain text.*module:function"),
        ("m.h5", b"\x89HDF\r\n\x1a\n0000", "HDF5"),
        ("m.cbm", b"CBM1....", "CatBoost"),
        ("m.parquet", b"PAR1....PAR1", "Parquet"),
        ("m.model", b"binf....", "old binary format"),
        ("m.safetensors", (20).to_bytes(8, "little") + b'{"a": {"dtype": 1}} ', "weights only"),
        ("m.bin", bytes(range(255, 100, -1)), "not a model file that can be read. Known are"),
        ("m.skops", b"PK\x03\x04 cut off", "cut off or damaged"),
    ],
)
def test_a_file_of_a_wrong_kind_is_told_in_one_sentence(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(cs.InvalidArgumentError, match=message):
        load_model(tmp_path / name)


def test_a_model_under_the_suffix_of_another_kind(tmp_path):
    linear_onnx(tmp_path / "m.skops", np.ones((3, 1)))
    with pytest.raises(
        cs.InvalidArgumentError, match=r"ends in \.skops but holds an ONNX model.*rename it to \.onnx\."
    ):
        load_model(tmp_path / "m.skops")
    np.savez(tmp_path / "m.npz", a=ROWS)
    with pytest.raises(cs.InvalidArgumentError, match="arrays"):
        load_model(tmp_path / "m.npz")
    (tmp_path / "m.csv.gz").write_bytes(gzip.compress(b"a,b"))
    with pytest.raises(cs.InvalidArgumentError, match="compressed data"):
        load_model(tmp_path / "m.csv.gz")


@pytest.mark.parametrize(
    ("package", "name", "content"),
    [
        ("skops.io", "m.skops", "skops"),
        ("onnxruntime", "m.onnx", "onnx"),
        ("xgboost", "m.json", "xgboost"),
        ("lightgbm", "m.txt", "lightgbm"),
    ],
)
def test_a_missing_package_is_named(package, name, content, tmp_path, monkeypatch):
    if content == "skops":
        skops.io.dump(LogisticRegression().fit(ROWS, TWO), tmp_path / name)
    elif content == "onnx":
        linear_onnx(tmp_path / name, np.ones((3, 1)))
    else:
        (tmp_path / name).write_bytes(b'{"learner": 1}' if content == "xgboost" else b"tree\nversion=v4\n")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(cs.MissingExtraError, match=rf"needs {package.split('.')[0]}: pip install"):
        load_model(tmp_path / name)


def test_what_models_say_about_their_columns():
    assert said_columns(lambda rows: rows).number is None
    frame = FRAME.assign(job=np.where(TWO, "cook", "clerk"))
    encode = ColumnTransformer([("job", OneHotEncoder(), ["job"])], remainder="passthrough")
    pipeline = make_pipeline(encode, LogisticRegression()).fit(frame, TWO)
    assert said_columns(pipeline).names == (*NAMES, "job")
    assert said_columns(pipeline.predict_proba).names == (*NAMES, "job")
    wrapper = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1, n_jobs=1).fit(ROWS, TWO)
    assert (said_columns(wrapper).names, said_columns(wrapper).takes_arrays) == (None, True)
