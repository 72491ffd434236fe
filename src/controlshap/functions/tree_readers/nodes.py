"""Nodes of trees, made into functions, and what the reader of a library returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from controlshap._types import AnyArray, BoolArray, FloatArray, IntArray
from controlshap.functions.bits import reduce_runs, run_starts
from controlshap.functions.trees import TreeFunction


@final
@dataclass(frozen=True)
class Nodes:
    """The nodes of one tree or, after `concatenate`, of many.

    Attributes
    ----------
    left, right : ndarray of shape (n_nodes,)
        Children; -1 at leaves. A row goes left when its value is at most the threshold.
    columns : ndarray of shape (n_nodes,)
        The column of each split (anything at leaves).
    thresholds : ndarray of shape (n_nodes,)
    nan_left : ndarray of shape (n_nodes,)
        Whether NaN goes left.
    values : ndarray of shape (n_nodes, outputs)
        Read at leaves only.
    roots : ndarray of shape (n_trees,)
    """

    left: IntArray
    right: IntArray
    columns: IntArray
    thresholds: FloatArray
    nan_left: BoolArray
    values: FloatArray
    roots: IntArray

    @staticmethod
    def concatenate(trees: Sequence[Nodes]) -> Nodes:
        """Join the nodes of several trees."""
        sizes = [len(tree.left) for tree in trees]
        shifts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        left, right = (np.concatenate(part) for part in ([t.left for t in trees], [t.right for t in trees]))
        inner = left >= 0
        return Nodes(
            np.where(inner, left + shifts, -1),
            np.where(inner, right + shifts, -1),
            np.concatenate([t.columns for t in trees]),
            np.concatenate([t.thresholds for t in trees]),
            np.concatenate([t.nan_left for t in trees]),
            np.concatenate([t.values for t in trees]),
            np.concatenate([t.roots + s for t, s in zip(trees, np.cumsum(sizes) - sizes, strict=True)]),
        )

    def to_function(
        self, n_columns: int, offset: FloatArray, *, float32: bool, text: str | None = None
    ) -> TreeFunction:
        """Intersect the splits on the way to each leaf."""
        parents = np.full(len(self.left), -1, dtype=np.int64)
        reached, by_level = self.roots, []
        while len(reached):  # one level of all trees at a time; nodes that a library has pruned are not met
            is_leaf = self.left[reached] < 0
            by_level.append(reached[is_leaf])
            inner = reached[~is_leaf]
            parents[self.left[inner]] = parents[self.right[inner]] = inner
            reached = np.concatenate([self.left[inner], self.right[inner]])
        leaves = np.concatenate(by_level)
        leaves = leaves[(self.values[leaves] != 0).any(axis=1)]  # a leaf of value 0 adds nothing, and they are many
        climbing, here, above = np.arange(len(leaves)), leaves, parents[leaves]
        steps: list[tuple[AnyArray, ...]] = []
        while len(climbing) or not steps:
            climbing, here, above = climbing[above >= 0], here[above >= 0], above[above >= 0]
            to_left = self.left[above] == here
            bound = self.thresholds[above]
            accepts = self.nan_left[above] == to_left
            bounds = (np.where(to_left, -np.inf, bound), np.where(to_left, bound, np.inf))
            steps.append((climbing, self.columns[above], *bounds, accepts))
            here, above = above, parents[above]
        leaf, column, lower, upper, accepts = (np.concatenate(part) for part in zip(*steps, strict=True))
        order = np.lexsort((column, leaf))
        leaf, column = leaf[order], column[order]
        first = run_starts(leaf * n_columns + column)
        return TreeFunction(
            values=self.values[leaves],
            starts=np.searchsorted(leaf[first], np.arange(len(leaves) + 1)),
            columns=column[first],
            lowers=reduce_runs(np.maximum, lower[order], first),
            uppers=reduce_runs(np.minimum, upper[order], first),
            nan_accepted=reduce_runs(np.logical_and, accepts[order], first),
            offset=offset,
            n_columns=n_columns,
            float32=float32,
            text=text,
        )


@final
@dataclass(frozen=True)
class Reading:
    """The trees of a fitted model; they are trusted once they have reproduced `predict`.

    Attributes
    ----------
    trees : list of Nodes
    predict : callable
        The model's own predictions, from rows.
    n_columns : int
    float32 : bool
        Whether inputs are rounded to single precision.
    offset : ndarray of shape (outputs,), or None
        Added to the leaves; None where it is to be derived from the predictions.
    tolerance : float
        Largest relative error of a prediction in the library's own arithmetic.
    """

    trees: Sequence[Nodes]
    predict: Callable[[FloatArray], Any]
    n_columns: int
    float32: bool
    offset: FloatArray | None
    tolerance: float = 1e-6
