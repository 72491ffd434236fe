"""Boosted trees of a few levels, fitted in milliseconds.

Each tree is grown a level at a time: the sums of residuals by node, column and bin show the best split of every node of
a level at once. Cuts are values of the columns, so that a hybrid row, which has values of x and of background rows, is
told apart as by its own numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray, IntArray
from controlshap.controls.base import Control, FoldedRows, check_at_least
from controlshap.controls.ridge import RIDGE, LogisticRidge
from controlshap.functions.level_trees import LevelTrees

#: Most cuts of a column. On 32 trials that trees stood, of 96 (the kinds of `benchmarks/fitted_controls.py` that were
#: looked at, 500 and 2,000 evaluations), 31 left 1.03 times as much, and 15 1.11 times.
MOST_CUTS = 23
#: Fewest rows of a leaf.
LEAF_ROWS = 5
#: Share by which gains differ through rounding.
ROUNDING = 1e-9
#: Bits of a double that hold whole numbers, less one for the sign.
MANTISSA = 52
#: Smallest size of targets that is told from 0.
SMALLEST = 1e-290
#: A trial ends after this share of the trees where these leave more than this many times its limit: of 59 that stood
#: it 4 left so much, and those that did not grew 4 trees of ten (`benchmarks/fitted_controls.py --trials`).
CHECKS = ((0.3, 1.35), (0.6, 1.15))


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

    def fit_targets(self, data: FoldedRows, fold: int | None) -> LevelTrees:
        """Fit by boosting, a level of a tree at a time."""
        return self._begin(data, fold).grow(self.n_trees).function()

    def leaves(self, data: FoldedRows, folds: Sequence[int], limit: float) -> float:
        """Sum of squares that is left of some folds; infinite where some of the trees leave far too much."""
        targets = [self.targets(data, k, len(data.rows)).outputs[data.fold == k] for k in folds]
        rows, squares = [data.rows[data.fold == k] for k in folds], np.inf
        for share, most in (*CHECKS, (1.0, np.inf)):
            begun = [self._begin(self.targets(data, k, self.max_rows), k) for k in folds]
            grown = [trees.grow(max(1, round(share * self.n_trees))).function() for trees in begun]
            found = [trees.predict(of_fold) for trees, of_fold in zip(grown, rows, strict=True)]
            squares = float(sum(((y - f) ** 2).sum() for y, f in zip(targets, found, strict=True)))
            if squares > most * limit:
                return np.inf
        return squares

    def _begin(self, data: FoldedRows, fold: int | None) -> Boosting:
        """The trees that were grown for a fold so far."""

        def begin() -> Boosting:
            cuts, codes = data.remember_rows("cuts", lambda: _cut(data))
            keep = data.others(fold)
            return Boosting(cuts, codes[keep], data.outputs[keep], self.depth, self.learning_rate)

        return data.remember((self, fold, "begun"), begin)


class Boosting:
    """Trees fitted one after the other to what is left of targets `(n,)`, by least squares.

    Targets are rounded to whole multiples of a small unit, so that sums are exact and splits that divide the rows alike
    are found in the same order anywhere; one sum holds a count, in its upper bits, and what is left, in its lower ones.

    Sums by node, column and bin are a product with a matrix of ones, a column for each row and a line for each of these
    cells.
    """

    def __init__(self, cuts: FloatArray, codes: IntArray, targets: FloatArray, depth: int, rate: float) -> None:
        from scipy.sparse import csc_array  # takes 30 ms, and many explanations try no trees

        (n, p), n_bins = codes.shape, cuts.shape[1]
        self.cuts, self.codes, self.depth, self.rate = cuts, codes, depth, rate
        self.mean = float(targets.mean())
        self.left = targets - self.mean
        self.trees: list[tuple[IntArray, IntArray, FloatArray]] = []
        self._places = (codes + n_bins * np.arange(p)).astype(np.int32)
        parts = np.ones(n * p), self._places.ravel(), (p * np.arange(n + 1)).astype(np.int32)
        self._cells = [csc_array(parts, shape=(2**level * p * n_bins, n)) for level in range(depth)]
        self._indices = np.empty_like(self._places)

    def grow(self, n_trees: int) -> Boosting:
        """Go on until there are so many trees."""
        while len(self.trees) < n_trees:
            columns, chosen, node = self._tree()
            n_rows = np.bincount(node, minlength=2**self.depth)
            values = self.rate * np.bincount(node, self.left, minlength=2**self.depth) / np.maximum(n_rows, 1)
            self.left = self.left - values[node]
            self.trees.append((columns, chosen, values))
        return self

    def function(self) -> LevelTrees:
        """The trees as a function with known values."""
        columns, chosen, values = (np.stack(part) for part in zip(*self.trees, strict=True))
        return LevelTrees(columns, self.cuts[columns, chosen], values, self.mean, self.codes.shape[1])

    def _tree(self) -> tuple[IntArray, IntArray, IntArray]:
        """One tree: column and cut of every inner node in the order of levels, and the leaf of every row.

        A node without a split worth having gets the last cut, which is infinite.
        """
        (n, p), n_bins = self.codes.shape, self.cuts.shape[1]
        shift = MANTISSA - n.bit_length()
        unit = 0.5 * 2.0**shift / (n * max(float(np.abs(self.left).max()), SMALLEST))
        packed = np.rint(self.left * unit) + 2.0**shift
        node, starts, columns, chosen = np.zeros(n, dtype=np.int64), p * np.arange(n), [], []
        for level in range(self.depth):
            sums = self._sums(level, node, packed).cumsum(axis=2)
            gain = _gains(sums, shift).reshape(len(sums), -1)
            # columns often divide few rows alike: the first of them, whatever the last bits of the gains
            best = (gain >= (1.0 - ROUNDING) * gain.max(axis=1, keepdims=True)).argmax(axis=1)
            column, cut = np.divmod(best, n_bins)
            cut = np.where(gain[np.arange(len(gain)), best] > 0.0, cut, n_bins - 1)
            columns.append(column)
            chosen.append(cut)
            node = 2 * node + (self.codes.ravel()[starts + column[node]] > cut[node])
        return np.concatenate(columns), np.concatenate(chosen), node

    def _sums(self, level: int, node: IntArray, packed: FloatArray) -> IntArray:
        """Sums `(nodes, columns, bins)` of `packed` (n,) over the rows of each node of a level."""
        np.add(self._places, (self.cuts.size * node).astype(np.int32)[:, None], out=self._indices)
        cells = self._cells[level]
        cells.indices = self._indices.ravel()
        of_cells: FloatArray = cells @ packed
        return of_cells.astype(np.int64).reshape(-1, *self.cuts.shape)


def _gains(packed: IntArray, shift: int) -> FloatArray:
    """Sums of squares that splits explain, but for a factor of each node, from running sums `(nodes, columns, bins)`.

    With c of n rows below the cut and their sum s of S: `(s - S c / n)^2 / (c (n - c))`.
    """
    whole = (packed + (1 << (shift - 1))) >> shift
    below, gain = whole.astype(float), (packed - (whole << shift)).astype(float)
    n_rows, total = below[:, :1, -1:], gain[:, :1, -1:].copy()
    both = (n_rows - below) * below
    # least where one side has the fewest rows of a leaf
    allowed = both >= np.where(n_rows >= 2 * LEAF_ROWS, LEAF_ROWS * (n_rows - LEAF_ROWS), np.inf)
    gain -= np.multiply(below, total / np.maximum(n_rows, 1.0), out=below)
    gain *= gain
    gain /= np.maximum(both, 1.0, out=both)
    gain *= allowed
    return gain


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
    return cuts, code_by(cuts, data.rows)


def code_by(cuts: FloatArray, rows: FloatArray) -> IntArray:
    """Numbers of the cuts below each value."""
    below = np.zeros(rows.shape, dtype=np.uint8)  # there are fewer than 256
    for cut in cuts.T[:-1]:  # the last ones are infinite
        below += rows > cut
    return below.astype(np.int64)
