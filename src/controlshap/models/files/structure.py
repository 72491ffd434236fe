"""Trees of model files: libraries follow their numbers without checking them, out of memory or in circles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import BoolArray, IntArray

#: Deepest nesting of objects that is searched for trees.
DEEPEST = 12


@dataclass(frozen=True)
class StoredTree:
    """The nodes of a tree; the first is its root.

    Attributes
    ----------
    left, right : ndarray of int
        Children of each node; leaves have none.
    features : ndarray of int
        Column that each node looks at.
    """

    left: IntArray
    right: IntArray
    is_leaf: BoolArray
    features: IntArray
    n_features: int

    def find_fault(self) -> str | None:
        """The first fault of the tree, or None."""
        n = len(self.left)
        if not (len(self.right) == len(self.is_leaf) == len(self.features) == n):
            return "its arrays have different lengths"
        inner = ~self.is_leaf
        children = np.concatenate([self.left[inner], self.right[inner]])
        if n == 0 or ((children < 1) | (children >= n)).any():
            return "a node has a child that is not there"
        if ((self.features[inner] < 0) | (self.features[inner] >= self.n_features)).any():
            return "a node looks at a column that is not there"
        # with no node a child twice, and never the root, whoever starts at the root cannot come back to a node
        return "a node is the child of two" if len(np.unique(children)) < len(children) else None


def refuse_bad_trees(model: Any) -> None:
    """Raise where a tree of a loaded model refers to missing nodes, or leads in circles."""
    for number, tree in enumerate(stored_trees(model)):
        fault = tree.find_fault()
        if fault is not None:
            raise InvalidArgumentError(f"`model`: tree {number} of the file is damaged: {fault}. Save the model again.")


def stored_trees(model: Any) -> Iterator[StoredTree]:
    """All trees of a model, or of the models that it is made of."""
    seen: set[int] = set()
    level = [model]
    for _ in range(DEEPEST):
        deeper: list[Any] = []
        for part in level:
            if id(part) in seen:
                continue
            seen.add(id(part))
            yield from _own_trees(part)
            deeper += _members(part)
        level = deeper


def _members(part: Any) -> list[Any]:
    if isinstance(part, dict):
        return list(part.values())
    if isinstance(part, (list, tuple)) or (isinstance(part, np.ndarray) and part.dtype == object):
        return list(np.ravel(part)) if isinstance(part, np.ndarray) else list(part)
    return list(vars(part).values()) if hasattr(part, "__dict__") and not isinstance(part, type) else []


def _own_trees(part: Any) -> Iterator[StoredTree]:
    kind = f"{type(part).__module__}.{type(part).__name__}"
    if kind == "sklearn.tree._tree.Tree":
        leaf = part.children_left == -1
        yield StoredTree(part.children_left, part.children_right, leaf, part.feature, part.n_features)
    elif kind.endswith("predictor.TreePredictor"):
        nodes = part.nodes
        left, right = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
        yield StoredTree(left, right, nodes["is_leaf"].astype(bool), nodes["feature_idx"].astype(np.int64), 2**31)
    elif kind == "xgboost.core.Booster":
        yield from _xgboost_trees(json.loads(bytes(part.save_raw("json"))))
    elif kind == "lightgbm.basic.Booster":
        yield from lightgbm_trees(part.model_to_string())


def _xgboost_trees(content: dict[str, Any]) -> Iterator[StoredTree]:
    booster = content["learner"]["gradient_booster"]
    n_features = int(content["learner"]["learner_model_param"]["num_feature"])
    model = booster.get("gbtree", booster).get("model", {})
    for tree in model.get("trees", ()):
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        yield StoredTree(left, right, left == -1, np.array(tree["split_indices"]), n_features)


def lightgbm_trees(text: str) -> Iterator[StoredTree]:
    """The trees of lightgbm's text; a child below 0 is a leaf, the first -1."""
    head, *blocks = text.split("\nTree=")
    n_features = 1 + int(_fields(head).get("max_feature_idx", "-1"))
    for block in blocks:
        fields = _fields(block)
        n_leaves = int(fields["num_leaves"])
        if n_leaves < 2:
            continue
        left, right = (np.array(fields[name].split(), dtype=np.int64) for name in ("left_child", "right_child"))
        features = np.array(fields["split_feature"].split(), dtype=np.int64)
        n = n_leaves - 1  # inner nodes; leaves are put behind them
        if not len(left) == len(right) == len(features) == n:
            raise InvalidArgumentError("`model`: a tree of the file has arrays of the wrong length. Save it again.")
        none = np.zeros(n_leaves, dtype=np.int64)
        left, right = (np.concatenate([np.where(side < 0, n + ~side, side), none]) for side in (left, right))
        is_leaf = np.arange(n + n_leaves) >= n
        yield StoredTree(left, right, is_leaf, np.concatenate([features, none]), n_features)


def _fields(block: str) -> dict[str, str]:
    lines = (line.partition("=") for line in block.split("\n\n")[0].splitlines())
    return {name: value for name, _, value in lines}
