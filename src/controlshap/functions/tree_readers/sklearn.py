"""Fitted trees of scikit-learn."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from controlshap._types import FloatArray
from controlshap.functions.tree_readers.reading import Reading
from controlshap.functions.trees import Nodes

#: Losses whose prediction is the sum of the leaves itself.
_IDENTITY = ("squared_error", "absolute_error", "quantile")


def read_forest(model: Any, *, margin: bool) -> Reading | None:  # noqa: ARG001 (a mean has no link)
    """The mean of trees, `RandomForest*` and `ExtraTrees*`, or a single one, `DecisionTree*` and `ExtraTree*`."""
    trees = getattr(model, "estimators_", [model])
    if model.n_outputs_ != 1 and hasattr(model, "classes_"):
        return None  # probabilities of several targets are lists
    classes = len(model.classes_) if hasattr(model, "classes_") else 0
    # As the library explains classifiers: the probability of class 1 of two, else all of them.
    wanted = slice(1, 2) if classes == 2 else slice(None)
    values = [tree.tree_.value[:, 0, wanted] if classes else tree.tree_.value[:, :, 0] for tree in trees]
    nodes = [_nodes(tree.tree_, value / len(trees)) for tree, value in zip(trees, values, strict=True)]
    n_outputs = nodes[0].values.shape[1]
    predict = (lambda rows: model.predict_proba(rows)[:, wanted]) if classes else model.predict
    return Reading(nodes, predict, model.n_features_in_, float32=True, offset=np.zeros(n_outputs))


def read_gradient_boosting(model: Any, *, margin: bool) -> Reading | None:
    """`GradientBoosting*`: the value of a regressor, the margin of a classifier."""
    if not _is_constant(model.init_):
        return None
    n_outputs = model.estimators_.shape[1]
    nodes = [
        _nodes(tree.tree_, model.learning_rate * tree.tree_.value[:, 0, :1] * np.eye(n_outputs)[output])
        for stage in model.estimators_
        for output, tree in enumerate(stage)
    ]
    predict = model.decision_function if margin else model.predict
    return Reading(nodes, predict, model.n_features_in_, float32=True, offset=None)


def _is_constant(initial: Any) -> bool:
    """Whether boosting began at a constant, rather than at another model."""
    if isinstance(initial, str):
        return initial == "zero"
    dummy = sys.modules.get("sklearn.dummy")
    return dummy is not None and type(initial) in (dummy.DummyRegressor, dummy.DummyClassifier)


def read_histogram_boosting(model: Any, *, margin: bool) -> Reading | None:
    """`HistGradientBoosting*`: the value of a regressor, the margin of a classifier."""
    if not margin and model.loss not in _IDENTITY:
        return None
    if model.is_categorical_ is not None:
        return None  # its columns are in another order
    stages = model._predictors
    if any(tree.nodes["is_categorical"].any() for stage in stages for tree in stage):
        return None
    n_outputs = model.n_trees_per_iteration_
    trees = []
    for stage in stages:
        for output, tree in enumerate(stage):
            nodes = tree.nodes
            is_leaf = nodes["is_leaf"].astype(bool)
            trees.append(
                Nodes(
                    left=np.where(is_leaf, -1, nodes["left"].astype(np.int64)),
                    right=np.where(is_leaf, -1, nodes["right"].astype(np.int64)),
                    columns=nodes["feature_idx"].astype(np.int64),
                    thresholds=nodes["num_threshold"].astype(float),
                    nan_left=nodes["missing_go_to_left"].astype(bool),
                    values=nodes["value"][:, None] * np.eye(n_outputs)[output],
                    roots=np.zeros(1, dtype=np.int64),
                )
            )
    predict = model.decision_function if margin else model.predict
    offset = np.ravel(model._baseline_prediction).astype(float)
    return Reading(trees, predict, model.n_features_in_, float32=False, offset=offset)


def _nodes(tree: Any, values: FloatArray) -> Nodes:
    return Nodes(
        left=np.asarray(tree.children_left, dtype=np.int64),
        right=np.asarray(tree.children_right, dtype=np.int64),
        columns=np.asarray(tree.feature, dtype=np.int64),
        thresholds=np.asarray(tree.threshold, dtype=float),
        nan_left=np.asarray(tree.missing_go_to_left, dtype=bool),
        values=np.asarray(values, dtype=float),
        roots=np.zeros(1, dtype=np.int64),
    )
