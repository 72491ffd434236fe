"""Load a model from a file or a reference `module:function`."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._checks import as_path
from controlshap._errors import InvalidArgumentError
from controlshap._files import hash_file
from controlshap._imports import require
from controlshap.models.files.boosters import load_lightgbm, load_xgboost
from controlshap.models.files.columns import model_columns
from controlshap.models.files.onnx import load_onnx
from controlshap.models.files.pickles import load_pickle, load_torch
from controlshap.models.files.references import is_reference, load_reference
from controlshap.models.files.skops import has_compiled_parts, load_skops
from controlshap.models.files.trial import trial
from controlshap.models.model import Model, as_model

#: The kind of model that each suffix stands for; under other suffixes the first bytes decide.
SUFFIXES = {
    ".skops": "skops",
    ".onnx": "onnx",
    ".json": "xgboost",
    ".ubj": "xgboost",
    ".txt": "lightgbm",
    ".joblib": "pickle",
    ".pkl": "pickle",
    ".pickle": "pickle",
    ".pt": "torch",
    ".pth": "torch",
}
_FIRST_BYTES = {b"{": "xgboost", b"tree": "lightgbm", b"\x08": "onnx", b"\x80": "pickle"}
_WORDS = {
    "skops": "a skops file",
    "onnx": "an ONNX model",
    "xgboost": "an xgboost model",
    "lightgbm": "a lightgbm model",
    "pickle": "a pickle",
    "torch": "a torch file",
}
_LOADERS: dict[str, Callable[[Path], Any]] = {
    "skops": load_skops,
    "onnx": load_onnx,
    "xgboost": load_xgboost,
    "lightgbm": load_lightgbm,
    "pickle": load_pickle,
    "torch": load_torch,
}
KNOWN = ".skops, .onnx, .json and .ubj (xgboost), .txt (lightgbm), .joblib, .pkl and .pt"


@dataclass(frozen=True)
class LoadedModel:
    """A model and its origin.

    Attributes
    ----------
    model : object
        The `model` argument of `Explainer`.
    sha256 : str
        Hash of the model's file; for `module:function`, of the file that holds the module.
    kind : str
        "function", "skops", "onnx", "xgboost", "lightgbm", "pickle" or "torch".
    feature_names : tuple of str or None
        Names of the model's columns in its order, if it has any.
    n_columns : int or None
        Number of columns, if the model records it.
    takes_arrays : bool
        Whether it was fitted on arrays without names, and expects such arrays again.
    """

    model: Any
    sha256: str
    kind: str
    feature_names: tuple[str, ...] | None = None
    n_columns: int | None = None
    takes_arrays: bool = False


def load_model(reference: str | Path, *, allow_pickle: bool = False) -> LoadedModel:
    """Load a model.

    Parameters
    ----------
    reference : str or Path
        `module:function` (the current directory is searched first; also `module:object.attribute`), or a file:
        skops, ONNX, xgboost (.json, .ubj) or lightgbm (.txt), joblib, pickle, torch.
    allow_pickle : bool
        Whether files may be loaded whose loading runs code: joblib, pickle, torch.

    Returns
    -------
    LoadedModel
    """
    path = as_path(reference, "model")
    if not path.exists():
        if is_reference(str(reference)):
            model, sha256 = load_reference(str(reference))
            return _with_origin(model, sha256, "function")
        raise InvalidArgumentError(
            f"`model`: there is no file {str(reference)!r}. Give a model file ({KNOWN}) or a function as "
            "module:function."
        )
    kind = _find_kind(path)
    if kind in ("pickle", "torch") and not allow_pickle:
        raise InvalidArgumentError(
            f"`model`: {str(path)!r} holds {_WORDS[kind]}, and loading one runs code that the file brings along. Give "
            "--allow-pickle (allow_pickle=True) if you trust its source, or save the model as skops, ONNX or in "
            "xgboost's or lightgbm's own format."
        )
    if kind in ("xgboost", "lightgbm") or (kind == "skops" and has_compiled_parts(path)):
        with trial(_LOADERS[kind], path):
            require(kind, extra=kind, feature=f"`{path.name}`")  # which takes as long as in the other process
    return _with_origin(_LOADERS[kind](path), hash_file(path), kind)


def _find_kind(path: Path) -> str:
    """Return the kind of model by the suffix, or by the first bytes if the suffix is unknown; both must agree."""
    if path.is_dir():
        raise InvalidArgumentError(f"`model`: {str(path)!r} is a folder; give one file.")
    with path.open("rb") as file:
        first = file.read(64).lstrip()
    if not first:
        raise InvalidArgumentError(f"`model`: {str(path)!r} is empty.")
    by_suffix = SUFFIXES.get(path.suffix.lower())
    by_content = next((kind for magic, kind in _FIRST_BYTES.items() if first.startswith(magic)), None)
    if zipfile.is_zipfile(path):
        members = {Path(name).name for name in zipfile.ZipFile(path).namelist()}
        by_content = "skops" if "schema.json" in members else "torch" if "data.pkl" in members else None
    kind = by_suffix or by_content
    if kind is None:
        raise InvalidArgumentError(
            f"`model`: {str(path)!r} is not a model file that can be read. Known are {KNOWN}, or a function as "
            "module:function."
        )
    if by_content not in (None, kind) and (kind, by_content) != ("torch", "pickle"):  # torch's old format is a pickle
        raise InvalidArgumentError(
            f"`model`: {str(path)!r} ends in {path.suffix} but holds {_WORDS[by_content]}. If that is what it should "
            f"be, rename it to {' or '.join(suffix for suffix in SUFFIXES if SUFFIXES[suffix] == by_content)}."
        )
    return kind


def _with_origin(model: Any, sha256: str, kind: str) -> LoadedModel:
    if isinstance(model, type) or not (callable(model) or hasattr(model, "predict") or hasattr(model, "predict_proba")):
        what = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
        raise InvalidArgumentError(
            f"`model` must be callable or a fitted model with `predict_proba` or `predict`; this holds {what}."
        )
    columns = model_columns(model)
    return LoadedModel(model, sha256, kind, columns.names, columns.number, columns.takes_arrays)


class ArrayInput:
    """Passes the values of a frame to a prediction function; a class, so that it can be pickled."""

    def __init__(self, predict: Any) -> None:
        self.predict = predict

    def __call__(self, rows: Any) -> Any:
        """Predictions of the loaded model."""
        return self.predict(np.asarray(rows))


def with_arrays(model: Any) -> Model:
    """Return a model that is given arrays although the rows are frames."""
    known = as_model(model)
    return replace(known, predict=ArrayInput(known.predict))
