"""Boosted trees of a few levels, fitted in milliseconds.

Each tree is grown a level at a time: the sums of residuals by node, column and bin show the best split of every node of
a level at once. Cuts are values of the columns, so that a hybrid row, which has values of x and of background rows, is
told apart as by its own numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray, IntArray
from controlshap.controls.base import Control, FoldedRows, check_at_least
from controlshap.controls.ridge import RIDGE, LogisticRidge
from controlshap.functions.base import KnownFunction, Sum
from controlshap.functions.trees import Nodes, TreeFunction

#: Most cuts of a column: twice as many take 1.3 times as long and leave as much.
MOST_CUTS = 31
#: Fewest rows of a leaf.
LEAF_ROWS = 5
#: Share by which gains differ through rounding.
ROUNDING = 1e-9


@final
@dataclass(frozen=True)
class ShallowTrees(Control):
    """A few boosted trees, fitted in milliseconds to what a ridge leaves over: for forests, boosting and steps.

    Parameters
    ----------
    n_trees, depth, learning_rate
        The ensemble; a tree of depth d has 2^d leaves.
    start : LogisticRidge or None
        Fitted first; the trees take its residuals. None fits the trees to the model alone.
    n_folds : int
        As for LogisticRidge.
    max_rows : int
        Most evaluated rows that a fit uses.
    on_trial : bool
        As for Polynomial.
    """

    n_trees: int = 10
    depth: int = 6
    learning_rate: float = 0.5
    start: LogisticRidge | None = RIDGE
    n_folds: int = 5
    max_rows: int = 4000
    on_trial: bool = False

    is_fitted = True

    def __post_init__(self) -> None:
        check_at_least(self, n_trees=1, depth=1, n_folds=2, max_rows=100)
        if not 0.0 < self.learning_rate <= 1.0:
            raise InvalidArgumentError(f"`learning_rate` must lie in (0, 1]; got {self.learning_rate!r}.")

    def fit(self, data: FoldedRows, fold: int | None) -> KnownFunction:
        """Fit by boosting, a level of a tree at a time."""
        return data.remember((self, fold), lambda: self._fit(data, data.thin(self.max_rows), fold))

    def _fit(self, data: FoldedRows, thin: FoldedRows, fold: int | None) -> KnownFunction:

        settings = (self.n_trees, self.depth, self.learning_rate)
        if self.start is None:
            return fit_shallow_trees(thin, fold, thin.outputs, *settings)
        first = self.start.fit(data, fold)
        return Sum(first, fit_shallow_trees(thin, fold, thin.outputs - first.predict(thin.rows), *settings))


def fit_shallow_trees(
    data: FoldedRows, fold: int | None, targets: FloatArray, n_trees: int, depth: int, rate: float
) -> TreeFunction:
    """Fit to targets `(n,)` of the rows outside a fold, by least squares."""
    cuts, codes = data.remember("cuts", lambda: _cut(data))
    keep = data.others(fold)
    codes, left = codes[keep], targets[keep]
    mean = float(left.mean())
    trees, left = [], left - mean
    for _ in range(n_trees):
        columns, chosen, node = _grow(codes, left, depth, cuts.shape[1])
        n_rows = np.bincount(node, minlength=2**depth)
        values = rate * np.bincount(node, left, minlength=2**depth) / np.maximum(n_rows, 1)
        left = left - values[node]
        trees.append(_nodes(columns, cuts[columns, chosen], values))
    return Nodes.concatenate(trees).to_function(data.rows.shape[1], np.array([mean]), float32=False)


def _cut(data: FoldedRows) -> tuple[FloatArray, IntArray]:
    """Cuts `(columns, most + 1)`, increasing and the last ones infinite, and the number of cuts below each value.

    By rows of no fold (x and the background) where there are any: no fold has a part in them.
    """
    of_none = np.flatnonzero(data.fold < 0)
    rows = data.rows[of_none] if len(of_none) > 1 else data.rows
    found = []
    for column in rows.T:
        values = np.unique(column)
        between = 0.5 * (values[1:] + values[:-1])
        if len(between) > MOST_CUTS:
            between = between[np.linspace(0, len(between) - 1, MOST_CUTS).astype(np.int64)]
        found.append(between)
    cuts = np.full((len(found), max(len(one) for one in found) + 1), np.inf)
    for own, one in zip(cuts, found, strict=True):
        own[: len(one)] = one
    codes = [np.searchsorted(one, column) for one, column in zip(found, data.rows.T, strict=True)]
    return cuts, np.stack(codes, axis=1)


def _grow(codes: IntArray, left: FloatArray, depth: int, n_bins: int) -> tuple[IntArray, IntArray, IntArray]:
    """One tree: column and cut of every inner node in the order of levels, and the leaf of every row.

    A node without a split worth having gets the last cut, which is infinite.
    """
    n, p = codes.shape
    places = codes + n_bins * np.arange(p)
    repeated, node = np.repeat(left, p), np.zeros(n, dtype=np.int64)
    columns, chosen = [], []
    for level in range(depth):
        n_nodes = 2**level
        cells = (places + (p * n_bins * node)[:, None]).ravel()
        shape = n_nodes, p, n_bins
        counts = np.bincount(cells, minlength=n_nodes * p * n_bins).reshape(shape).cumsum(axis=2)
        sums = np.bincount(cells, repeated, minlength=n_nodes * p * n_bins).reshape(shape).cumsum(axis=2)
        above, sums_above = counts[:, :, -1:] - counts, sums[:, :, -1:] - sums
        gain = sums**2 / np.maximum(counts, 1) + sums_above**2 / np.maximum(above, 1)
        gain = np.where((counts >= LEAF_ROWS) & (above >= LEAF_ROWS), gain, 0.0).reshape(n_nodes, -1)
        # columns often divide few rows alike: the first of them, whatever the last bits of the sums
        best = (gain >= (1.0 - ROUNDING) * gain.max(axis=1, keepdims=True)).argmax(axis=1)
        column, cut = np.divmod(best, n_bins)
        cut = np.where(gain[np.arange(n_nodes), best] > 0.0, cut, n_bins - 1)
        columns.append(column)
        chosen.append(cut)
        node = 2 * node + (codes[np.arange(n), column[node]] > cut[node])
    return np.concatenate(columns), np.concatenate(chosen), node


def _nodes(columns: IntArray, thresholds: FloatArray, values: FloatArray) -> Nodes:
    """A whole tree: the children of node i are 2 i + 1 and 2 i + 2."""
    n_inner, n_leaves = len(columns), len(values)
    children, none = 2 * np.arange(n_inner) + 1, np.full(n_leaves, -1)
    return Nodes(
        left=np.concatenate([children, none]),
        right=np.concatenate([children + 1, none]),
        columns=np.concatenate([columns, np.zeros(n_leaves, dtype=np.int64)]),
        thresholds=np.concatenate([thresholds, np.zeros(n_leaves)]),
        nan_left=np.zeros(n_inner + n_leaves, dtype=bool),
        values=np.concatenate([np.zeros(n_inner), values])[:, None],
        roots=np.zeros(1, dtype=np.int64),
    )
