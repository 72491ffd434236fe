"""What loading a model gives: the model, where it came from, and what it says about its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LoadedModel:
    """A model and its origin.

    Attributes
    ----------
    model : object
        What `Explainer` takes.
    sha256 : str
        Hash of the model's file; for `module:function`, of the file that holds the module.
    kind : str
        "function", "skops", "onnx", "xgboost", "lightgbm", "pickle", "torch" or "torchscript".
    feature_names : tuple of str or None
        Names of the model's columns in its order, when it says them.
    n_columns : int or None
        Number of columns, when it says that.
    takes_arrays : bool
        Whether it was fitted on arrays without names, and wants such arrays again.
    """

    model: Any
    sha256: str
    kind: str
    feature_names: tuple[str, ...] | None = None
    n_columns: int | None = None
    takes_arrays: bool = False
