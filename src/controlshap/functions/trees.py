"""Tree ensembles as sums of boxes, and their exact marginal Shapley values.

A leaf is its value times a product of 0/1 indicators, one per player on its path. In the game of one draw it is worth
something to the players who tell `x` from the draw; with `a` players whom only `x` satisfies and `b` whom only the
draw does, each of the former gets `(a-1)! b! / (a+b)!` of its value and each of the latter `-a! (b-1)! / (a+b)!`.
Players satisfied by both count for nothing, and one satisfied by neither makes the leaf worth 0.

The sets of draws that satisfy a player of a leaf do not depend on `x`. They are held as bits, 64 draws to a word, so
that one operation serves 64 games: intersecting them leaves the draws for which a leaf is worth something, and
splitting these by `a` gives the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from scipy import special

from controlshap._errors import InvalidArgumentError
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.players import Players
from controlshap.functions.base import KnownFunction, RowGames
from controlshap.functions.bits import Words, count_bits, pack_bits, reduce_runs, run_starts, unpack_bits
from controlshap.functions.tree_pairs import pair_weights

#: Bytes of scratch space; every array that grows with leaves times draws is cut to about this.
CHUNK_BYTES = 2**25
#: Rows up to which each is compared with every side by itself.
FEW_ROWS = 4
#: A block of leaves that stays in the processor's cache is worked through several times faster.
_CACHE_BYTES = 2**20


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
        return _drop_single(BoxGames(self, draws, players).draw_values(x))

    def mean_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Shapley values `(players, ...)` from counts of draws, which is faster than their mean."""
        return _drop_single(BoxGames(self, draws, players).mean_values(x))

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Pairwise interactions `(players, players, ...)` from counts of draws."""
        return _drop_single(BoxGames(self, draws, players).mean_interactions(x))

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


class _DrawBlock(NamedTuple):
    """Some draws, and which of them satisfy each factor `(words, factors)`."""

    start: int
    stop: int
    bits: Words


class _AtRow(NamedTuple):
    """Which factors x satisfies; both kinds in the order of leaves."""

    satisfied: IntArray
    failed: IntArray
    n_satisfied: IntArray
    n_failed: IntArray


class _Batch(NamedTuple):
    """Leaves with equally many satisfied factors; `at[k]` are the numbers of their k-th among `_AtRow.satisfied`.

    `met[k]` `(words, n)` are the draws that satisfy it, `levels[a]` `(words, n)` those for which the leaf is worth
    something and `a` factors are satisfied by x only.
    """

    leaves: IntArray
    at: IntArray
    met: Words
    levels: Words


@final
class BoxGames:
    """The marginal games of a fixed set of draws: `mean_values` and `draw_values` at any row.

    A factor is a player on the path of a leaf: the AND of all sides that are the player's columns.
    """

    def __init__(self, boxes: TreeFunction, draws: FloatArray, players: Players) -> None:
        if players.n_columns != boxes.n_columns:
            raise InvalidArgumentError(
                f"`players` must divide the {boxes.n_columns} columns of the trees; they have {players.n_columns}."
            )
        self.boxes, self.players = boxes, players
        self.draws = boxes.round_inputs(draws, "draws")
        if not len(draws):
            raise InvalidArgumentError("`draws` must have at least one row.")
        self._order, self._first, self._leaf, self._player = find_factors(boxes, players)
        self._n_factors = np.bincount(self._leaf, minlength=boxes.n_leaves)
        self._gain, self._loss = factor_weights(int(self._n_factors.max(initial=0)))

    def mean_values(self, x: FloatArray) -> FloatArray:
        """Shapley values `(players, outputs)` of the mean game."""
        row = self._at_row(x)
        gains, losses = np.zeros(len(row.satisfied)), np.zeros(self.boxes.n_leaves)
        for block in self._blocks():
            for batch in self._batches(row, block, min(_CACHE_BYTES, CHUNK_BYTES), pair_bytes=0):
                n_failed = row.n_failed[batch.leaves]
                top = len(batch.levels)
                losses[batch.leaves] += np.einsum("an,an->n", count_bits(batch.levels), self._loss[:top, n_failed])
                weights = self._gain[1:top, n_failed]
                for at, met in zip(batch.at, batch.met, strict=True):
                    gains[at] += np.einsum("an,an->n", count_bits(batch.levels[1:] & ~met), weights)
        factors = np.concatenate([row.satisfied, row.failed])
        weights = np.concatenate([gains, -losses[self._leaf[row.failed]]]) / len(self.draws)
        moved = np.flatnonzero(weights)
        factors, weights = factors[moved], weights[moved]
        return self._scatter(self._player[factors], weights, self._leaf[factors], self.players.n_players)

    def draw_values(self, x: FloatArray) -> FloatArray:
        """Shapley values `(n_draws, players, outputs)` of each draw's game."""
        row = self._at_row(x)
        n_players = self.players.n_players
        values = np.zeros((len(self.draws) * n_players, self.boxes.values.shape[1]))
        failed_from = np.cumsum(row.n_failed) - row.n_failed
        for block in self._blocks():
            n_draws = block.stop - block.start
            here = values[block.start * n_players : block.stop * n_players]
            for batch in self._batches(row, block, CHUNK_BYTES, pair_bytes=128):  # a dozen arrays of numbers
                level, which, draw = np.nonzero(unpack_bits(batch.levels, n_draws))
                leaf = batch.leaves[which]
                n_failed = row.n_failed[leaf]
                gain, loss = self._gain[level, n_failed], self._loss[level, n_failed]
                for at, met in zip(batch.at, batch.met, strict=True):
                    alone = np.flatnonzero(~unpack_bits(met, n_draws)[which, draw])
                    player = self._player[row.satisfied[at]][which[alone]]
                    here += self._scatter(draw[alone] * n_players + player, gain[alone], leaf[alone], len(here))
                for k in range(int(n_failed.max(initial=0))):
                    some = np.flatnonzero(n_failed > k)
                    player = self._player[row.failed[failed_from[leaf[some]] + k]]
                    here += self._scatter(draw[some] * n_players + player, -loss[some], leaf[some], len(here))
        return values.reshape(len(self.draws), n_players, -1)

    def mean_interactions(self, x: FloatArray) -> FloatArray:
        """Pairwise interactions `(players, players, outputs)` of the mean game, 0 on the diagonal.

        Of a leaf with `a` players whom only x satisfies and `b` whom only the draw does, two of the former have
        `(a-2)! b! / (a+b-1)!` of its value, two of the latter `a! (b-2)! / (a+b-1)!`, and one of each
        `-(a-1)! (b-1)! / (a+b-1)!`.
        """
        row, p = self._at_row(x), self.players.n_players
        mixed, neither = np.zeros(len(row.satisfied)), np.zeros(self.boxes.n_leaves)
        index = np.zeros((p * p, self.boxes.values.shape[1]))
        of_both, of_mixed = pair_weights(len(self._gain))
        for block in self._blocks():
            for batch in self._batches(row, block, min(_CACHE_BYTES, CHUNK_BYTES), pair_bytes=0):
                n_failed, top = row.n_failed[batch.leaves], len(batch.levels)
                neither[batch.leaves] += np.einsum("an,an->n", count_bits(batch.levels), of_both.T[:top, n_failed])
                for k, at in enumerate(batch.at):
                    alone = batch.levels[1:] & ~batch.met[k]
                    mixed[at] += np.einsum("an,an->n", count_bits(alone), of_mixed[1:top, n_failed])
                    for other in range(k):
                        counts = count_bits(alone[1:] & ~batch.met[other])
                        weights = np.einsum("an,an->n", counts, of_both[2:top, n_failed])
                        pairs = self._pairs(row.satisfied[at], row.satisfied[batch.at[other]])
                        index += self._scatter(pairs, weights, batch.leaves, p * p)
        index += self._count_failed_pairs(row, mixed, neither)
        matrix = index.reshape(p, p, -1) / len(self.draws)
        return matrix + matrix.swapaxes(0, 1)

    def _count_failed_pairs(self, row: _AtRow, mixed: FloatArray, neither: FloatArray) -> FloatArray:
        """Pairs with a factor that x fails, from the weights of satisfied factors and of leaves."""
        n_places = self.players.n_players**2
        index = np.zeros((n_places, self.boxes.values.shape[1]))
        first = np.cumsum(row.n_failed) - row.n_failed
        leaf = self._leaf[row.satisfied]
        for k in range(int(row.n_failed.max(initial=0))):
            some = np.flatnonzero((row.n_failed[leaf] > k) & (mixed != 0))
            failed = row.failed[first[leaf[some]] + k]
            index -= self._scatter(self._pairs(row.satisfied[some], failed), mixed[some], leaf[some], n_places)
            leaves = np.flatnonzero((row.n_failed > k) & (neither != 0))
            for other in range(k):
                pairs = self._pairs(row.failed[first[leaves] + k], row.failed[first[leaves] + other])
                index += self._scatter(pairs, neither[leaves], leaves, n_places)
        return index

    def _pairs(self, one: IntArray, other: IntArray) -> IntArray:
        """Places of the players of two factors in a flat matrix."""
        return self._player[one] * self.players.n_players + self._player[other]

    def _scatter(self, places: IntArray, weights: FloatArray, leaves: IntArray, n_places: int) -> FloatArray:
        """Add weights times the leaves' values at their places, `(n_places, outputs)`."""
        columns = [np.bincount(places, weights * values[leaves], minlength=n_places) for values in self.boxes.values.T]
        return np.stack(columns, axis=1)

    def _at_row(self, x: FloatArray) -> _AtRow:
        boxes = self.boxes
        passed = boxes.satisfies(boxes.round_inputs(np.reshape(x, (1, -1)), "x")[0])
        if self.players.is_grouped:
            passed = reduce_runs(np.logical_and, passed[self._order], self._first)
        satisfied = np.flatnonzero(passed)
        n_satisfied = np.bincount(self._leaf[satisfied], minlength=boxes.n_leaves)
        return _AtRow(satisfied, np.flatnonzero(~passed), n_satisfied, self._n_factors - n_satisfied)

    def _blocks(self) -> Iterator[_DrawBlock]:
        for start, stop in self.boxes.row_blocks(len(self.draws)):
            bits = self.boxes.pack_satisfied(self.draws[start:stop])
            if self.players.is_grouped:
                bits = reduce_runs(np.bitwise_and, bits[:, self._order], self._first)
            yield _DrawBlock(start, stop, bits)

    def _batches(self, row: _AtRow, block: _DrawBlock, chunk_bytes: int, pair_bytes: int) -> Iterator[_Batch]:
        """The leaves worth something for some draw, in batches of like ones; a pair is a leaf and a draw."""
        everyone = pack_bits(np.ones((1, block.stop - block.start), dtype=bool))
        alive = np.repeat(everyone, self.boxes.n_leaves, axis=1)
        failed_leaf = self._leaf[row.failed]
        first = run_starts(failed_leaf)
        alive[:, failed_leaf[first]] = reduce_runs(np.bitwise_and, block.bits[:, row.failed], first)
        live = np.flatnonzero(alive.any(axis=0) & (self._n_factors > 0))
        live = live[np.argsort(row.n_satisfied[live], kind="stable")]
        counts = row.n_satisfied[live]
        from_ = np.cumsum(row.n_satisfied) - row.n_satisfied
        for count in np.unique(counts):
            same = live[slice(*np.searchsorted(counts, [count, count + 1]))]
            leaf_bytes = 16 * len(everyone) * (int(count) + 1) + pair_bytes * (block.stop - block.start)
            size = max(1, chunk_bytes // leaf_bytes)
            for start in range(0, len(same), size):
                leaves = same[start : start + size]
                at = from_[leaves] + np.arange(count)[:, None]
                met = np.take(block.bits, row.satisfied[at], axis=1).transpose(1, 0, 2)
                levels = np.zeros((count + 1, len(everyone), len(leaves)), dtype=np.uint64)
                levels[0] = alive[:, leaves]
                for k, satisfied in enumerate(met):  # a draw that fails the k-th factor moves up one level
                    moved = levels[: k + 1] & ~satisfied
                    levels[: k + 1] ^= moved
                    levels[1 : k + 2] |= moved
                yield _Batch(leaves, at, met, levels)


def find_factors(boxes: TreeFunction, players: Players) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Sides in the order of leaves and players, where the factors begin there, and the factors' leaves and players."""
    leaf, player = boxes.leaf_of_side, players.owner[boxes.columns]
    order = np.lexsort((player, leaf)) if players.is_grouped else np.arange(len(leaf))
    leaf, player = leaf[order], player[order]
    first = run_starts(leaf * players.n_players + player)
    return order, first, leaf[first], player[first]


def factor_weights(most: int) -> tuple[FloatArray, FloatArray]:
    """Weights of a leaf: for each of `a` factors of x only and, taken off, for each of `b` of the draw only."""
    a, b = np.arange(most + 1)[:, None], np.arange(most + 1)[None]
    with np.errstate(divide="ignore"):
        ways = special.binom(a + b, a)
        # (a-1)! b! / (a+b)! and a! (b-1)! / (a+b)!
        return np.where(a > 0, 1 / (a * ways), 0.0), np.where(b > 0, 1 / (b * ways), 0.0)


def _drop_single(values: FloatArray) -> FloatArray:
    """Values without the last axis, where there is one output."""
    return values[..., 0] if values.shape[-1] == 1 else values
