"""Model files that are cut, of a wrong kind or wrongly named, and packages that are missing."""

import sys

import lightgbm
import numpy as np
import pytest
import skops.io
import xgboost
from model_file_cases import ROWS, TWO, linear_onnx
from sklearn.linear_model import LogisticRegression

import controlshap as cs
from controlshap.models.files import load_model

pytestmark = pytest.mark.seconds


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


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.onnx", b"", "is empty"),
        ("m.onnx", b"a,b\n1,2\n", "could not be read by onnxruntime"),
        ("m.onnx", b'{"a": 1}', r"ends in .onnx but holds an xgboost model.*rename it to .json or .ubj\."),
        ("m.json", b'{"a": 1}', "could not be read by xgboost"),
        ("m.json", b"tree\nversion=v4", r"ends in .json but holds a lightgbm model.*rename it to .txt\."),
        ("m.txt", b"hello", "could not be read by lightgbm"),
        ("m.csv", b"a,b\n1,2\n", "not a model file that can be read. Known are.*module:function"),
        ("m.h5", b"\x89HDF\r\n\x1a\n0000", "not a model file that can be read"),
        ("m.skops", b"PK\x03\x04 cut off", "could not be read by skops"),
    ],
)
def test_a_file_of_a_wrong_kind_is_an_error_of_one_sentence(name, content, message, tmp_path):
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
    with pytest.raises(cs.InvalidArgumentError, match="not a model file"):
        load_model(tmp_path / "m.npz")


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
