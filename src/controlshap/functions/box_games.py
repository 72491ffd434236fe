"""Exact marginal Shapley values of sums of boxes, draw by draw.

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
from typing import NamedTuple, final

import numpy as np
from scipy import special

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray, IntArray
from controlshap.data.players import Players
from controlshap.functions.tree_pairs import leaf_weights
from controlshap.functions.trees import (
    CHUNK_BYTES,
    TreeFunction,
    Words,
    count_bits,
    pack_bits,
    reduce_runs,
    run_starts,
    unpack_bits,
)

#: A block of leaves that stays in the processor's cache is worked through several times faster.
_CACHE_BYTES = 2**20


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
        of_both, of_mixed = leaf_weights(len(self._gain))
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
