"""Tree ensembles as sums of boxes, with exact marginal Shapley values (`box_games`, `tree_patterns`).

A leaf is its value times a product of 0/1 indicators: for each column on its path, whether the row lies on its side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, final

import numpy as np
import numpy.typing as npt

from controlshap._errors import InvalidArgumentError
from controlshap._types import AnyArray, BoolArray, FloatArray, IntArray
from controlshap.data.players import Players
from controlshap.functions.base import KnownFunction, RowGames

if TYPE_CHECKING:
    from controlshap.functions.box_games import BoxGames


#: Bytes of scratch space; every array that grows with leaves times draws is cut to about this.
CHUNK_BYTES = 2**25
#: Rows up to which each is compared with every side by itself.
FEW_ROWS = 4


Words: TypeAlias = npt.NDArray[np.uint64]
"""Bits, 64 rows to a word."""
_Scalar = TypeVar("_Scalar", bound=np.generic)


@final
@dataclass(frozen=True)
class TreeFunction(KnownFunction):
    """A tree ensemble as leaves: `offset` plus the values of all leaves whose box the row lies in.

    Attributes
    ----------
    values : ndarray of shape (n_leaves, outputs)
    starts : ndarray of shape (n_leaves + 1,)
        Leaf `l` has the sides `starts[l]` to `starts[l + 1] - 1`, one per column on its path, columns increasing.
    columns, lowers, uppers : ndarray of shape (n_sides,)
        The column must lie in `(lower, upper]`.
    nan_accepted : ndarray of shape (n_sides,)
        Whether NaN passes this side.
    offset : ndarray of shape (outputs,)
    n_columns : int
        How many columns the model has.
    float32 : bool
        Whether the library rounds inputs to single precision before it compares.
    text : str or None
        The model in lightgbm's own words, where that library fitted it: it predicts faster.
    """

    values: FloatArray
    starts: IntArray
    columns: IntArray
    lowers: FloatArray
    uppers: FloatArray
    nan_accepted: BoolArray
    offset: FloatArray
    n_columns: int
    float32: bool
    text: str | None = None

    name = "tree form"
    tolerance = 1e-5  # some libraries predict in single precision

    @property
    def n_leaves(self) -> int:
        """Leaves of all trees together."""
        return len(self.values)

    @property
    def steps_a_draw(self) -> int:
        """One for each leaf."""
        return self.n_leaves

    @cached_property
    def leaf_of_side(self) -> IntArray:
        """The leaf of each side."""
        return np.repeat(np.arange(self.n_leaves), np.diff(self.starts))

    @cached_property
    def _leaf_starts(self) -> tuple[IntArray, IntArray, IntArray]:
        """Leaves of the sides, where each begins, and the leaves without sides (trees that are one leaf)."""
        leaf = self.leaf_of_side
        return leaf, run_starts(leaf), np.setdiff1d(np.arange(self.n_leaves), leaf)

    def select(self, leaves: IntArray) -> TreeFunction:
        """The sum of some leaves alone."""
        sizes = np.diff(self.starts)[leaves]
        sides = np.repeat(self.starts[leaves] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
        return replace(
            self, values=self.values[leaves], starts=np.append(0, np.cumsum(sizes)), columns=self.columns[sides],
            lowers=self.lowers[sides], uppers=self.uppers[sides], nan_accepted=self.nan_accepted[sides],
            offset=np.zeros_like(self.offset), text=None,
        )  # fmt: skip

    @cached_property
    def sides_of_column(self) -> tuple[IntArray, ...]:
        """The sides of each column."""
        order = np.argsort(self.columns, kind="stable")
        return tuple(np.split(order, np.searchsorted(self.columns[order], np.arange(1, self.n_columns))))

    @cached_property
    def beyond_lowers(self) -> FloatArray:
        """The first numbers beyond the lower bounds."""
        return np.nextafter(self.lowers, np.inf)

    @cached_property
    def beyond_uppers(self) -> FloatArray:
        """The first numbers beyond the upper bounds."""
        return np.nextafter(self.uppers, np.inf)

    @cached_property
    def _booster(self) -> Any:
        import lightgbm

        return lightgbm.Booster(model_str=self.text)

    def predict(self, rows: FloatArray) -> FloatArray:
        """Values `(n,)` or `(n, outputs)`, without a link."""
        if self.text is not None and len(rows) > FEW_ROWS:
            by_library: FloatArray = self._booster.predict(rows, num_threads=1)
            return by_library
        rows = self.round_inputs(rows, "rows")
        predictions = np.tile(self.offset, (len(rows), 1)).astype(float)
        leaf, first, everywhere = self._leaf_starts
        predictions += self.values[everywhere].sum(axis=0)
        if len(rows) <= FEW_ROWS:
            for row, total in zip(rows, predictions, strict=True):
                within = reduce_runs(np.logical_and, self.satisfies(row), first)
                total += self.values[leaf[first]][within].sum(axis=0)
            return _drop_single(predictions)
        for start, stop in self.row_blocks(len(rows)):
            inside = reduce_runs(np.bitwise_and, self.pack_satisfied(rows[start:stop]), first)
            which, row = np.nonzero(unpack_bits(inside, stop - start))
            for output, values in enumerate(self.values[leaf[first]].T):
                predictions[start:stop, output] += np.bincount(row, values[which], minlength=stop - start)
        return _drop_single(predictions)

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Shapley values `(draws, players, ...)` from the leaves."""
        return _drop_single(self._box_games(draws, players).draw_values(x))

    def mean_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Shapley values `(players, ...)` from counts of draws, which is faster than their mean."""
        return _drop_single(self._box_games(draws, players).mean_values(x))

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Pairwise interactions `(players, players, ...)` from counts of draws."""
        return _drop_single(self._box_games(draws, players).mean_interactions(x))

    def _box_games(self, draws: FloatArray, players: Players) -> BoxGames:
        from controlshap.functions.box_games import BoxGames  # which is made of boxes

        return BoxGames(self, draws, players)

    def games(self, draws: FloatArray, players: Players, some: IntArray) -> RowGames | None:
        """Draws counted by pattern; None where a leaf has too many players for that."""
        from controlshap.functions.tree_patterns import PatternGames  # which is made of boxes

        return PatternGames(self, draws, players, some) if PatternGames.fits(self, players) else None

    def round_inputs(self, rows: FloatArray, name: str) -> FloatArray:
        """Rows `(n, columns)` as the library compares them."""
        if rows.ndim != 2 or rows.shape[1] != self.n_columns:
            raise InvalidArgumentError(
                f"`{name}` must have the {self.n_columns} columns of the trees; got shape {rows.shape}."
            )
        if self.float32:
            with np.errstate(over="ignore"):
                rows = rows.astype(np.float32)
        rows = rows.astype(float)
        largest = np.finfo(float).max  # -inf would not be above an open lower side
        return np.clip(rows, -largest, largest)

    def row_blocks(self, n_rows: int) -> Iterator[tuple[int, int]]:
        """Ranges of rows whose bits fit into the scratch space."""
        n_words = int(np.clip(CHUNK_BYTES // (8 * max(len(self.columns), 1)), 1, 16))
        for start in range(0, n_rows, 64 * n_words):
            yield start, min(start + 64 * n_words, n_rows)

    def satisfies(self, row: FloatArray) -> BoolArray:
        """Whether one row (as the library compares it) passes each side."""
        at = row[self.columns]
        passed: BoolArray = (at > self.lowers) & (at <= self.uppers) | (np.isnan(at) & self.nan_accepted)
        return passed

    def pack_satisfied(self, rows: FloatArray) -> Words:
        """Which of the rows (as the library compares them) pass each side, as bits `(words, sides)`.

        The rows at most some bound are a first part of the column's sorted rows, so two tables of such parts serve
        all sides: no side is compared with a row.
        """
        n_rows = len(rows)
        bits = np.empty((-(-n_rows // 64), len(self.columns)), dtype=np.uint64)
        for column, sides in enumerate(self.sides_of_column):
            if not len(sides):
                continue
            known = np.flatnonzero(~np.isnan(rows[:, column]))
            known = known[np.argsort(rows[known, column], kind="stable")]
            rank = np.full(n_rows, n_rows)  # NaN is in no part
            rank[known] = np.arange(len(known))
            parts = pack_bits(rank < np.arange(len(known) + 1)[:, None])
            ordered = rows[known, column]
            below = np.searchsorted(ordered, self.lowers[sides], side="right")
            within = np.searchsorted(ordered, self.uppers[sides], side="right")
            passed = parts[:, within] & ~parts[:, below]
            if len(known) < n_rows:
                missing = pack_bits(rank[None] == n_rows)
                passed |= np.where(self.nan_accepted[sides], missing, np.uint64(0))
            bits[:, sides] = passed
        return bits


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


def _drop_single(values: FloatArray) -> FloatArray:
    """Values without the last axis, where there is one output."""
    return values[..., 0] if values.shape[-1] == 1 else values


def run_starts(keys: IntArray) -> IntArray:
    """Where a run of equal keys begins."""
    starts = np.ones(len(keys), dtype=bool)
    starts[1:] = keys[1:] != keys[:-1]
    return np.flatnonzero(starts)


def reduce_runs(operation: np.ufunc, array: npt.NDArray[_Scalar], starts: IntArray) -> npt.NDArray[_Scalar]:
    """Reduce runs along the last axis; unlike `reduceat`, also where there are none."""
    if not len(starts):
        return array[..., :0]
    reduced: npt.NDArray[_Scalar] = operation.reduceat(array, starts, axis=-1)
    return reduced


def pack_bits(flags: BoolArray) -> Words:
    """Flags `(n, rows)` as bits `(words, n)`."""
    n_words = -(-flags.shape[1] // 64)
    octets = np.zeros((len(flags), 8 * n_words), dtype=np.uint8)
    octets[:, : -(-flags.shape[1] // 8)] = np.packbits(flags, axis=1, bitorder="little")
    return np.ascontiguousarray(octets.view(np.uint64).T)


def unpack_bits(words: Words, n_rows: int) -> BoolArray:
    """Bits `(..., words, n)` as flags `(..., n, n_rows)`."""
    octets = np.ascontiguousarray(words.swapaxes(-1, -2)).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=n_rows, bitorder="little").view(np.bool_)


def count_bits(words: Words) -> IntArray:
    """Bits set in `(levels, words, n)`, as `(levels, n)`."""
    counts: IntArray = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
    return counts
