"""Fitted boosters of lightgbm, from the text that the library itself saves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from controlshap._types import AnyArray
from controlshap.functions.tree_readers.reading import Reading, split_by_cuts
from controlshap.functions.trees import Nodes

#: Objectives whose prediction is the sum of the leaves itself ("regression sqrt" squares it).
_IDENTITY = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")
#: Objectives with a logistic or softmax link.
_LOGISTIC = ("binary", "multiclass", "multiclassova", "cross_entropy")
#: Bits of a decision: a category; NaN goes left. Above them stands what counts as missing: nothing, 0 or NaN.
_CATEGORY, _DEFAULT_LEFT, _MISSING = 1, 2, 4
_ZERO_MISSING, _NAN_MISSING = 1, 2


def read_lightgbm(model: Any, *, margin: bool) -> Reading | None:
    """`LGBM*` and `Booster`: the value of a regression, the margin of a classification."""
    booster = getattr(model, "booster_", model)
    header, trees = read_text(booster.model_to_string())
    objective = header.get("objective", "")
    known = objective.split(" ")[0] in _LOGISTIC if margin else objective in _IDENTITY
    if not known or booster.pandas_categorical or trees is None:
        return None
    predict = partial(booster.predict, raw_score=True) if margin else model.predict
    n_columns, n_outputs = int(header["max_feature_idx"]) + 1, int(header["num_tree_per_iteration"])
    # The mean that boosting starts from is inside the first tree.
    return Reading(trees, predict, n_columns, float32=False, offset=np.zeros(n_outputs))


def read_text(text: str) -> tuple[Mapping[str, str], list[Nodes] | None]:
    """Header and trees of a saved model; no trees where one has a split or a leaf that is not understood."""
    head, *blocks = text.partition("\nend of trees")[0].split("\nTree=")
    header = _read_fields(head)
    n_outputs = int(header["num_tree_per_iteration"])
    trees = []
    for number, block in enumerate(blocks):
        tree = _read_tree(_read_fields(block), n_outputs, number % n_outputs)
        if tree is None:
            return header, None
        trees.append(tree)
    if "average_output" in head.splitlines():  # boosting_type="rf"
        for tree in trees:
            tree.values[:] /= max(len(trees) // n_outputs, 1)
    return header, trees


def _read_fields(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _read_tree(fields: Mapping[str, str], n_outputs: int, output: int) -> Nodes | None:
    """One tree, or None with a split or a leaf that is not understood, or sets of very many categories."""

    def numbers(name: str, kind: type) -> AnyArray:
        return np.array(fields[name].split(), dtype=kind)

    leaves = numbers("leaf_value", float)
    n_inner, n_leaves = len(leaves) - 1, len(leaves)
    # a tree that is one leaf need not name its splits
    decisions = numbers("decision_type", np.int64) if n_inner else np.zeros(0, dtype=np.int64)
    missing = decisions // _MISSING
    sets = np.flatnonzero(decisions & _CATEGORY)
    missing[sets] = _NAN_MISSING  # of a set, NaN is no member
    if (missing == _ZERO_MISSING).any() or fields.get("is_linear", "0") != "0":
        return None
    values = np.zeros((n_inner + n_leaves, n_outputs))
    values[n_inner:, output] = leaves
    no_child = np.full(n_leaves, -1)
    if n_inner == 0:
        left = right = columns = no_child
        thresholds = np.zeros(1)
    else:
        children = (numbers(name, np.int64) for name in ("left_child", "right_child"))
        left, right = (np.append(np.where(c >= 0, c, n_inner + ~c), no_child) for c in children)  # ~c is a leaf
        columns = np.append(numbers("split_feature", np.int64), no_child)
        thresholds = np.append(numbers("threshold", float), np.zeros(n_leaves))
    # Where no NaN was seen in training, it is read as 0.
    nan_left = thresholds >= 0
    nan_left[:n_inner] = np.where(missing == _NAN_MISSING, decisions & _DEFAULT_LEFT > 0, nan_left[:n_inner])
    tree = Nodes(left, right, columns, thresholds, nan_left, values, roots=np.zeros(1, dtype=np.int64))
    if not len(sets):
        return tree
    ends, words = numbers("cat_boundaries", np.int64), numbers("cat_threshold", np.int64)
    members = [words[ends[at] : ends[at + 1]] for at in thresholds[sets].astype(int)]
    return split_by_cuts(tree, {int(node): _cut_categories(bits) for node, bits in zip(sets, members, strict=True)})


def _cut_categories(words: AnyArray) -> tuple[list[float], list[bool]]:
    """Cuts between categories, from 32 of them to a word, and whether what is below each of them is a member.

    A value is that category which is left when its decimals are cut off, so that 0 begins above -1.
    """
    member = np.concatenate([[False], (words[:, None] >> np.arange(32) & 1).ravel() > 0, [False]])
    changes = np.flatnonzero(member[1:] != member[:-1])  # the first category of a run, or the first behind it
    cuts = [-1.0 if category == 0 else float(np.nextafter(category, -np.inf)) for category in changes]
    return cuts, [place % 2 == 1 for place in range(len(cuts))]
