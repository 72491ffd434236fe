"""Models in the own formats of xgboost (JSON, UBJSON) and lightgbm (text)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from controlshap._errors import InvalidArgumentError
from controlshap._imports import require


def load_xgboost(path: Path) -> Any:
    """Return a booster, or the scikit-learn wrapper that wrote the file, so that it predicts as the wrapper did."""
    xgboost = require("xgboost", extra="xgboost", feature=f"`{path.name}`")
    content = bytearray(path.read_bytes())  # given a path, xgboost would go by its suffix
    try:
        booster = xgboost.Booster(model_file=content)
        kind = json.loads(booster.attr("scikit_learn") or "{}").get("_estimator_type")
        if kind in ("classifier", "regressor"):
            wrapper = xgboost.XGBClassifier() if kind == "classifier" else xgboost.XGBRegressor()
            wrapper.load_model(content)
            return wrapper
        objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    except (xgboost.core.XGBoostError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, "xgboost", error) from error
    if objective == "multi:softmax":
        booster.set_param({"objective": "multi:softprob"})  # the same trees; labels have no Shapley values
    return booster


def load_lightgbm(path: Path) -> Any:
    """Return a booster."""
    lightgbm = require("lightgbm", extra="lightgbm", feature=f"`{path.name}`")
    try:
        return lightgbm.Booster(model_str=path.read_bytes().decode(errors="replace"))
    except (lightgbm.basic.LightGBMError, ValueError) as error:
        raise _unreadable(path, "lightgbm", error) from error


def _unreadable(path: Path, package: str, error: Exception) -> InvalidArgumentError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return InvalidArgumentError(
        f"`model`: {str(path)!r} could not be read by {package} ({reason}); it is damaged, or of another kind."
    )
