"""Models from ONNX files, as the exporters write them."""

import pickle

import numpy as np
import onnx
import pandas as pd
import pytest
from model_file_cases import FRAME, ROWS, columns_onnx, explained, linear_onnx, save_onnx
from onnx import TensorProto, helper

import controlshap as cs
from controlshap.models.files import load_model


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
    assert explanation.output_labels == ("probability of class 1",)
    predict = classifier_onnx(tmp_path / "three.onnx", ["high", "low", "middle"], zipmap)
    explanation = explained(load_model(tmp_path / "three.onnx"), predict)
    assert explanation.output_names == ("high", "low", "middle")
    predict = classifier_onnx(tmp_path / "three.onnx", [-1, 0, 12], zipmap)
    assert explained(load_model(tmp_path / "three.onnx"), predict).output_names == ("-1", "0", "12")


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
