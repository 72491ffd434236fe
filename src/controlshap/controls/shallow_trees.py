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
from controlshap.functions.base import KnownFunction, Sum
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
#: Cells whose gains are computed at once: they stay in the processor's cache.
AT_ONCE = 2**14
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

    def fit(self, data: FoldedRows, fold: int | None) -> KnownFunction:
        """Fit by boosting, a level of a tree at a time."""
        return self.fit_folds(data, (fold,))[0]

    def fit_folds(self, data: FoldedRows, folds: Sequence[int | None]) -> tuple[KnownFunction, ...]:
        """The trees of all folds grow side by side."""
        left = tuple(k for k in folds if (self, k) not in data.memo)
        if left:
            self._keep(data, left, self._begin(data, left).grow(self.n_trees))
        return tuple(data.memo[self, k] for k in folds)

    def leaves(self, data: FoldedRows, folds: Sequence[int], limit: float) -> float:
        """Sum of squares that is left of some folds; infinite where some of the trees leave far too much."""
        boosting, squares = self._begin(data, folds), np.inf
        targets = [self.targets(data, k, len(data.rows)).outputs[data.fold == k] for k in folds]
        rows = [data.rows[data.fold == k] for k in folds]
        for share, most in (*CHECKS, (1.0, np.inf)):
            boosting.grow(max(1, round(share * self.n_trees)))
            found = [boosting.function(place).predict(of_fold) for place, of_fold in enumerate(rows)]
            squares = float(sum(((y - f) ** 2).sum() for y, f in zip(targets, found, strict=True)))
            if squares > most * limit:
                return np.inf
        self._keep(data, folds, boosting)
        return squares

    def _begin(self, data: FoldedRows, folds: Sequence[int | None]) -> Boosting:
        """Trees to be grown for some folds."""
        rows = data.thin(self.max_rows)
        cuts, codes = rows.remember_rows("cuts", lambda: _cut(rows))
        keep = [rows.others(k) for k in folds]
        targets = [self.targets(data, k, self.max_rows).outputs[own] for k, own in zip(folds, keep, strict=True)]
        return Boosting(cuts, [codes[own] for own in keep], targets, self.depth, self.learning_rate)

    def _keep(self, data: FoldedRows, folds: Sequence[int | None], boosting: Boosting) -> None:
        """Remember the fits of some folds."""
        for place, k in enumerate(folds):
            trees = boosting.function(place)
            data.memo[self, k] = trees if self.start is None else Sum(self.start.fit(data, k), trees)


class Boosting:
    """Trees fitted one after the other to what is left of targets, by least squares, for several sets of rows at once.

    Targets are rounded to whole multiples of a small unit, so that sums are exact and splits that divide the rows alike
    are found in the same order anywhere; one sum holds a count, in its upper bits, and what is left, in its lower ones.

    Sums by node, column and bin are a product with a matrix of ones, a column for each row and a line for each of these
    cells. Sets have trees of their own, whose nodes have numbers of their own.
    """

    def __init__(
        self, cuts: FloatArray, codes: Sequence[IntArray], targets: Sequence[FloatArray], depth: int, rate: float
    ) -> None:
        from scipy.sparse import csc_array  # takes 30 ms, and many explanations try no trees

        self.cuts, self.codes, self.depth, self.rate = cuts, np.concatenate(codes), depth, rate
        self.means = [float(own.mean()) for own in targets]
        self.left = np.concatenate([own - mean for own, mean in zip(targets, self.means, strict=True)])
        self.n_rows = np.array([len(own) for own in targets])
        self.trees: list[tuple[IntArray, IntArray, FloatArray]] = []
        (n, p), n_bins = self.codes.shape, cuts.shape[1]
        self._places = (self.codes + n_bins * np.arange(p)).astype(np.int32)
        parts = np.ones(n * p), self._places.ravel(), (p * np.arange(n + 1)).astype(np.int32)
        shapes = [(len(targets) * 2**level * cuts.size, n) for level in range(depth)]
        self._cells = [csc_array(parts, shape=shape) for shape in shapes]
        self._indices = np.empty_like(self._places)

    def grow(self, n_trees: int) -> Boosting:
        """Go on until there are so many trees."""
        n_leaves = len(self.n_rows) * 2**self.depth
        while len(self.trees) < n_trees:
            columns, chosen, node = self._tree()
            n_rows = np.bincount(node, minlength=n_leaves)
            values = self.rate * np.bincount(node, self.left, minlength=n_leaves) / np.maximum(n_rows, 1)
            self.left = self.left - values[node]
            self.trees.append((columns, chosen, values.reshape(len(self.n_rows), -1)))
        return self

    def function(self, place: int) -> LevelTrees:
        """The trees of one of the sets as a function with known values."""
        columns, chosen, values = (np.stack([part[place] for part in parts]) for parts in zip(*self.trees, strict=True))
        return LevelTrees(columns, self.cuts[columns, chosen], values, self.means[place], self.codes.shape[1])

    def _tree(self) -> tuple[IntArray, IntArray, IntArray]:
        """One tree of each set: column and cut of every inner node in the order of levels, and the leaf of every row.

        A node without a split worth having gets the last cut, which is infinite.
        """
        n, n_sets = len(self.codes), len(self.n_rows)
        shift = MANTISSA - int(self.n_rows.max()).bit_length()
        largest = np.maximum.reduceat(np.abs(self.left), np.cumsum(self.n_rows) - self.n_rows)
        unit = 0.5 * 2.0**shift / (self.n_rows * np.maximum(largest, SMALLEST))
        node = np.repeat(np.arange(n_sets), self.n_rows)
        packed = np.rint(self.left * unit[node]) + 2.0**shift
        starts, codes, columns, chosen = self.codes.shape[1] * np.arange(n), self.codes.ravel(), [], []
        for level in range(self.depth):
            column, cut = self._split(level, node, packed, shift)
            columns.append(column.reshape(n_sets, -1))
            chosen.append(cut.reshape(n_sets, -1))
            node = 2 * node + (codes[starts + column[node]] > cut[node])
        return np.concatenate(columns, axis=1), np.concatenate(chosen, axis=1), node

    def _split(self, level: int, node: IntArray, packed: FloatArray, shift: int) -> tuple[IntArray, IntArray]:
        """Column and cut of each node of a level, from the sums of `packed` (n,) by node, column and bin."""
        np.add(self._places, (self.cuts.size * node).astype(np.int32)[:, None], out=self._indices)
        cells = self._cells[level]
        cells.indices = self._indices.ravel()
        of_cells: FloatArray = cells @ packed
        sums, parts = of_cells.reshape(-1, *self.cuts.shape), []
        step = max(1, AT_ONCE // self.cuts.size)
        for start in range(0, len(sums), step):
            running = sums[start : start + step].astype(np.int64).cumsum(axis=2)
            parts.append(_best(_gains(running, shift)))
        column, cut = (np.concatenate(part) for part in zip(*parts, strict=True))
        return column, cut


def _best(gain: FloatArray) -> tuple[IntArray, IntArray]:
    """Column and cut of the largest gain `(nodes, columns, bins)` of each node.

    Columns often divide few rows alike: the first of them, whatever the last bits of the gains.
    """
    n_bins, flat = gain.shape[2], gain.reshape(len(gain), -1)
    best = (flat >= (1.0 - ROUNDING) * flat.max(axis=1, keepdims=True)).argmax(axis=1)
    column, cut = np.divmod(best, n_bins)
    return column, np.where(flat[np.arange(len(flat)), best] > 0.0, cut, n_bins - 1)


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
