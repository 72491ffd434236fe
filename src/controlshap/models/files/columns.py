"""What a fitted model says about its columns: their names, their number, and whether it knows names at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SaidColumns:
    """Names (None when the model has none), number (None when it does not say), and whether it takes plain arrays."""

    names: tuple[str, ...] | None = None
    number: int | None = None
    takes_arrays: bool = False


def said_columns(model: Any) -> SaidColumns:
    """Ask scikit-learn estimators, the wrappers and the boosters of xgboost and lightgbm, and our own ONNX models."""
    if hasattr(model, "num_features") and hasattr(model, "feature_names"):  # xgboost.Booster
        return _said(model.feature_names, int(model.num_features()), fitted_on_arrays=False)
    if callable(getattr(model, "feature_name", None)) and hasattr(model, "num_feature"):  # lightgbm.Booster
        return _said(model.feature_name(), int(model.num_feature()), fitted_on_arrays=False)
    owner = model if hasattr(model, "predict") else getattr(model, "__self__", model)  # a bound method's estimator
    number = getattr(owner, "n_features_in_", None)
    names = getattr(owner, "feature_names_in_", None)
    return _said(names, None if number is None else int(number), fitted_on_arrays=number is not None)


def _said(names: Any, number: int | None, *, fitted_on_arrays: bool) -> SaidColumns:
    known = tuple(str(name) for name in names) if names is not None and len(names) else None
    # what lightgbm invents for data without names
    if known is not None and all(re.fullmatch(r"Column_\d+", name) for name in known):
        known = None
    return SaidColumns(known, number if known is None else len(known), known is None and fitted_on_arrays)
