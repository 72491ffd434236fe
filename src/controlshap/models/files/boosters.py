"""Native files of xgboost and lightgbm: trees as data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._optional import require
from controlshap.models.files.ubjson import DEEPEST, is_whole

_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SIZES = re.compile(rb"^tree_sizes=([\d ]*)\r?$", re.MULTILINE)
_OPEN, _CLOSE = list(b"[{"), list(b"]}")


def load_xgboost(path: Path) -> Any:
    """A booster; or the scikit-learn wrapper, where one wrote the file, so that it predicts as that did."""
    xgboost = require("xgboost", extra="xgboost", feature=f"`{path.name}`")
    content = bytearray(path.read_bytes())  # xgboost goes by the suffix where it is given a path
    if content[1] in b"LiU":
        if not is_whole(bytes(content)):
            raise _damaged(path, "xgboost", ValueError("it is cut off, or damaged"))
    elif json_depth(content) > DEEPEST:  # xgboost would end the process here
        raise _damaged(path, "xgboost", ValueError("it is nested more deeply than any model"))
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


def json_depth(content: bytes | bytearray) -> int:
    """How deeply lists and objects are nested, without building them."""
    marks = np.frombuffer(_TEXT.sub(b"", content), dtype=np.uint8)
    steps = np.isin(marks, _OPEN).astype(np.int64) - np.isin(marks, _CLOSE)
    return int(np.cumsum(steps).max(initial=0))


def load_lightgbm(path: Path) -> Any:
    """A booster."""
    lightgbm = require("lightgbm", extra="lightgbm", feature=f"`{path.name}`")
    content = path.read_bytes()
    if not _trees_are_whole(content) or b"\nend of parameters" not in content:  # lightgbm would end the process here
        raise _damaged(path, "lightgbm", ValueError("it is cut off or damaged: trees or parameters do not end"))
    try:
        return lightgbm.Booster(model_str=content.decode(errors="replace"))
    except (lightgbm.basic.LightGBMError, ValueError) as error:
        raise _damaged(path, "lightgbm", error) from error


def _trees_are_whole(content: bytes) -> bool:
    """Whether each tree begins where the header says."""
    sizes = _SIZES.search(content)
    if sizes is None or b"\nend of trees" not in content:
        return False
    at = content.find(b"Tree=0\n", sizes.end())
    for number, size in enumerate(sizes[1].split()):
        if at < 0 or not content.startswith(b"Tree=%d\n" % number, at):
            return False
        at += int(size)
    return True


def _damaged(path: Path, package: str, error: Exception) -> InvalidArgumentError:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return InvalidArgumentError(f"`model`: {str(path)!r} could not be read by {package} ({first}).")
