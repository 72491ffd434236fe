"""Native files of xgboost and lightgbm: trees as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from controlshap._errors import InvalidArgumentError, MissingExtraError
from controlshap.model_files.ubjson import is_whole


def load_xgboost(path: Path) -> Any:
    """A booster; or the scikit-learn wrapper, where one wrote the file, so that it predicts as that did."""
    try:
        import xgboost
    except ImportError as error:
        raise MissingExtraError(f"`{path.name}` needs xgboost: pip install 'controlshap[xgboost]'.") from error
    content = bytearray(path.read_bytes())  # xgboost goes by the suffix where it is given a path
    if content[1] in b"LiU" and not is_whole(bytes(content)):
        raise _damaged(path, "xgboost", ValueError("it is cut off, or damaged"))
    try:
        booster = xgboost.Booster(model_file=content)
        kind = json.loads(booster.attr("scikit_learn") or "{}").get("_estimator_type")
        if kind in ("classifier", "regressor"):
            wrapper = xgboost.XGBClassifier() if kind == "classifier" else xgboost.XGBRegressor()
            wrapper.load_model(content)
            return wrapper
        objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    except (xgboost.core.XGBoostError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path, "xgboost", error) from error
    if objective == "multi:softmax":
        booster.set_param({"objective": "multi:softprob"})  # the same trees; labels have no Shapley values
    return booster


def load_lightgbm(path: Path) -> Any:
    """A booster."""
    try:
        import lightgbm
    except ImportError as error:
        raise MissingExtraError(f"`{path.name}` needs lightgbm: pip install 'controlshap[lightgbm]'.") from error
    content = path.read_text(errors="replace")
    if "\nend of trees" not in content or "\nend of parameters" not in content:  # lightgbm would end the process here
        raise _damaged(path, "lightgbm", ValueError("it is cut off: trees or parameters do not end"))
    try:
        return lightgbm.Booster(model_str=content)
    except (lightgbm.basic.LightGBMError, ValueError) as error:
        raise _damaged(path, "lightgbm", error) from error


def _damaged(path: Path, package: str, error: Exception) -> InvalidArgumentError:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return InvalidArgumentError(f"`model`: {str(path)!r} could not be read by {package} ({first}).")
