"""Fitted boosters of lightgbm."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from controlshap.functions.tree_readers.nodes import Nodes, Reading

#: Objectives whose prediction is the sum of the leaves itself ("regression sqrt" squares it).
_IDENTITY = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")
#: Objectives with a logistic or softmax link.
_LOGISTIC = ("binary", "multiclass", "multiclassova", "cross_entropy")


def read_lightgbm(model: Any, *, margin: bool) -> Reading | None:
    """`LGBM*` and `Booster`: the value of a regression, the margin of a classification."""
    booster = getattr(model, "booster_", model)
    dump = booster.dump_model()
    objective = str(dump.get("objective", ""))
    known = objective.split(" ")[0] in _LOGISTIC if margin else objective in _IDENTITY
    if not known or dump.get("pandas_categorical"):
        return None
    per_stage = int(dump["num_tree_per_iteration"])
    trees = []
    for number, info in enumerate(dump["tree_info"]):
        tree = _nodes(info["tree_structure"], per_stage, number % per_stage)
        if tree is None:
            return None
        trees.append(tree)
    if dump.get("average_output"):  # boosting_type="rf"
        n_stages = max(len(trees) // per_stage, 1)
        for tree in trees:
            tree.values[:] /= n_stages
    predict = partial(booster.predict, raw_score=True) if margin else model.predict
    n_columns = int(dump["max_feature_idx"]) + 1
    # The mean that boosting starts from is inside the first tree.
    return Reading(trees, predict, n_columns, float32=False, offset=np.zeros(per_stage))


def _nodes(root: Mapping[str, Any], n_outputs: int, output: int) -> Nodes | None:
    """One tree, or None with a split that is not an interval or a leaf that is not a constant."""
    found: list[Mapping[str, Any]] = [root]
    children: list[tuple[int, int]] = []
    for node in found:  # grows on the way
        if "split_feature" in node:
            if node["decision_type"] != "<=" or node["missing_type"] not in ("None", "NaN"):
                return None  # a category, or zeros that count as missing
            children.append((len(found), len(found) + 1))
            found += [node["left_child"], node["right_child"]]
        elif "leaf_coeff" in node:
            return None
        else:
            children.append((-1, -1))
    thresholds = np.array([node.get("threshold", 0.0) for node in found], dtype=float)
    # Where no NaN was seen in training ("None"), it is read as 0.
    nan_left = [
        node.get("default_left", False) if node.get("missing_type") == "NaN" else threshold >= 0
        for node, threshold in zip(found, thresholds, strict=True)
    ]
    values = np.zeros((len(found), n_outputs))
    values[:, output] = [node.get("leaf_value", 0.0) for node in found]
    left, right = np.array(children, dtype=np.int64).T
    return Nodes(
        left=left,
        right=right,
        columns=np.array([node.get("split_feature", 0) for node in found], dtype=np.int64),
        thresholds=thresholds,
        nan_left=np.array(nan_left, dtype=bool),
        values=values,
        roots=np.zeros(1, dtype=np.int64),
    )
