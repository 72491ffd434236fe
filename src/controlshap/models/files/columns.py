"""The columns that a fitted model records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModelColumns:
    """The columns that a model was fitted on.

    Attributes
    ----------
    names : tuple of str or None
        In the order of the model; None if it has no names.
    number : int or None
        None if the model does not record it.
    takes_arrays : bool
        Whether it was fitted on arrays without names, and expects such arrays again.
    """

    names: tuple[str, ...] | None = None
    number: int | None = None
    takes_arrays: bool = False


def model_columns(model: Any) -> ModelColumns:
    """Read the columns off a scikit-learn estimator, a booster of xgboost or lightgbm, or an ONNX model."""
    columns = getattr(getattr(model, "source", None), "columns", None)
    if isinstance(columns, ModelColumns):  # OnnxModel
        return columns
    if hasattr(model, "num_features") and hasattr(model, "feature_names"):  # xgboost.Booster
        return _make_columns(model.feature_names, int(model.num_features()), fitted_on_arrays=False)
    if callable(getattr(model, "feature_name", None)) and hasattr(model, "num_feature"):  # lightgbm.Booster
        return _make_columns(model.feature_name(), int(model.num_feature()), fitted_on_arrays=False)
    owner = model if hasattr(model, "predict") else getattr(model, "__self__", model)  # a bound method's estimator
    number = getattr(owner, "n_features_in_", None)
    names = getattr(owner, "feature_names_in_", None)
    return _make_columns(names, None if number is None else int(number), fitted_on_arrays=number is not None)


def _make_columns(names: Any, number: int | None, *, fitted_on_arrays: bool) -> ModelColumns:
    known = tuple(str(name) for name in names) if names is not None and len(names) else None
    # names that lightgbm makes up for data without any
    if known is not None and all(re.fullmatch(r"Column_\d+", name) for name in known):
        known = None
    return ModelColumns(known, number if known is None else len(known), known is None and fitted_on_arrays)
