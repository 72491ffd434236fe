"""Rows that models of files are fitted to, small ONNX graphs, and a look at what was loaded."""

import sys

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper, numpy_helper

import controlshap as cs

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
