"""The front door: a reference or a file in, a model with its hash out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controlshap._errors import InvalidArgumentError
from controlshap._files import hash_file
from controlshap.models.files.boosters import load_lightgbm, load_xgboost
from controlshap.models.files.columns import SaidColumns, said_columns
from controlshap.models.files.kinds import KNOWN, RUNS_CODE, kind_of
from controlshap.models.files.loaded import LoadedModel
from controlshap.models.files.onnx import load_onnx
from controlshap.models.files.pickles import load_pickle, load_torch, refuse_code
from controlshap.models.files.references import is_reference, load_reference
from controlshap.models.files.skops import load_skops


def load_model(reference: str | Path, *, allow_pickle: bool = False) -> LoadedModel:
    """Load a model.

    Parameters
    ----------
    reference : str or Path
        `module:function` (the current directory is looked into first; also `module:object.attribute`), or a file:
        skops, ONNX, xgboost (.json, .ubj) or lightgbm (.txt), joblib, pickle, torch.
    allow_pickle : bool
        Whether files may be loaded whose loading runs code: joblib, pickle, torch.

    Returns
    -------
    LoadedModel
    """
    path = Path(reference)
    if not path.exists():
        if is_reference(str(reference)):
            model, sha256 = load_reference(str(reference))
            return _loaded(model, sha256, "function", said_columns(model))
        raise InvalidArgumentError(
            f"`model`: there is no file {str(reference)!r}. Give a model file ({KNOWN}) or a function as "
            "module:function."
        )
    kind = kind_of(path)
    if kind in RUNS_CODE and not allow_pickle:
        raise refuse_code(path, kind)
    sha256 = hash_file(path)
    model, said = load_onnx(path) if kind == "onnx" else _load(path, kind)
    if hash_file(path) != sha256:
        raise InvalidArgumentError(
            f"`model`: {str(path)!r} changed while it was read. Wait until it is written, and run again."
        )
    return _loaded(model, sha256, "pickle" if kind == "compressed" else kind, said)


def _load(path: Path, kind: str) -> tuple[Any, SaidColumns]:
    model = _load_object(path, kind)
    return model, said_columns(model)


def _load_object(path: Path, kind: str) -> Any:
    if kind == "skops":
        return load_skops(path)
    if kind == "xgboost":
        return load_xgboost(path)
    if kind == "lightgbm":
        return load_lightgbm(path)
    if kind in ("torch", "torchscript"):
        return load_torch(path, kind)
    return load_pickle(path, kind)


def _loaded(model: Any, sha256: str, kind: str, said: SaidColumns) -> LoadedModel:
    if isinstance(model, type) or not (callable(model) or hasattr(model, "predict") or hasattr(model, "predict_proba")):
        what = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
        raise InvalidArgumentError(
            f"`model` must be callable or a fitted model with `predict_proba` or `predict`; this holds {what}."
        )
    return LoadedModel(model, sha256, kind, said.names, said.number, said.takes_arrays)
