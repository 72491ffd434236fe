"""Fitted boosters of xgboost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from controlshap._types import FloatArray
from controlshap.functions.tree_readers.reading import Reading
from controlshap.functions.trees import Nodes

#: Objectives whose prediction is the sum of the leaves itself.
_IDENTITY = (
    "reg:squarederror",
    "reg:linear",
    "reg:absoluteerror",
    "reg:pseudohubererror",
    "reg:quantileerror",
    "reg:squaredlogerror",
)
#: Objectives with a logistic or softmax link.
_LOGISTIC = ("binary:logistic", "reg:logistic", "multi:softprob", "multi:softmax")


def read_xgboost(model: Any, *, margin: bool) -> Reading | None:
    """`XGB*` and `Booster`: the value of a regression, the margin of a classification."""
    wrapped = hasattr(model, "get_booster")
    booster = model.get_booster() if wrapped else model
    if wrapped and not np.isnan(model.missing):
        return None  # another code for missing values
    if wrapped and getattr(model, "best_iteration", None) is not None:
        booster = booster[: model.best_iteration + 1]  # early stopping: the wrapper predicts with these
    learner = json.loads(booster.save_raw("json"))["learner"]
    forest, about = learner["gradient_booster"], learner["learner_model_param"]
    known = learner["objective"]["name"] in (_LOGISTIC if margin else _IDENTITY)
    if not known or forest["name"] != "gbtree" or int(about.get("num_target", 1)) > 1:
        return None
    if "c" in learner.get("feature_types", []):
        return None
    n_outputs = max(int(about["num_class"]), 1)
    trees = []
    for tree, output in zip(forest["model"]["trees"], forest["model"]["tree_info"], strict=True):
        if any(tree["split_type"]) or int(tree["tree_param"]["size_leaf_vector"]) > 1:
            return None  # a category, or a leaf of several targets
        trees.append(_nodes(tree, n_outputs, output))

    def predict(rows: FloatArray) -> Any:
        if not margin:
            return model.predict(rows) if wrapped else booster.predict(_matrix(rows, booster))
        return booster.predict(_matrix(rows, booster), output_margin=True)

    # The score that boosting starts from is stored on a scale that changed between versions; predictions tell it.
    return Reading(trees, predict, int(about["num_feature"]), float32=True, offset=None, tolerance=1e-5)


def _matrix(rows: FloatArray, booster: Any) -> Any:
    import xgboost

    return xgboost.DMatrix(rows, feature_names=booster.feature_names, feature_types=booster.feature_types)


def _nodes(tree: Mapping[str, Any], n_outputs: int, output: int) -> Nodes:
    left = np.array(tree["left_children"], dtype=np.int64)
    stored = np.array(tree["split_conditions"], dtype=np.float32)  # thresholds, and at leaves their values
    values = np.zeros((len(left), n_outputs))
    values[:, output] = np.where(left < 0, stored, 0.0)
    return Nodes(
        left=left,
        right=np.array(tree["right_children"], dtype=np.int64),
        columns=np.array(tree["split_indices"], dtype=np.int64),
        # Left is below the threshold, and so at most the number before it.
        thresholds=np.nextafter(stored, np.float32(-np.inf)).astype(float),
        nan_left=np.array(tree["default_left"], dtype=bool),
        values=values,
        roots=np.zeros(1, dtype=np.int64),
    )
