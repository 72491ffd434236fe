"""Rows of a unit that need no model evaluation.

Where x and a background row agree in a player, a coalition with it and one without it are the same row: a step of a
walk that changes nothing, or one of the ends, whose outputs are known. Rows are identified by a key of 64 bits, the sum
over columns of a random function of column and value, so that the keys of coalitions follow from those of x and of the
background row alone. Among n rows two share a key with a chance below n^2 / 2^65: 3e-12 for 10,000.

Which rows of a unit are evaluated depends on the unit alone, so that its cost is known in advance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.players import Players

Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class KnownRows:
    """x and the background, whose outputs are known.

    Beside `recall` it has the methods of a value function, by which estimators find out which of their rows are new.

    Attributes
    ----------
    players : Players
    keys : ndarray of shape (n,)
        In increasing order.
    outputs : ndarray of shape (n, outputs)
    """

    players: Players
    keys: Keys
    outputs: FloatArray

    @classmethod
    def of(cls, players: Players, rows: FloatArray, outputs: FloatArray) -> KnownRows:
        """From rows `(n, columns)` and outputs `(n, outputs)`."""
        keys, first = np.unique(_player_keys(players, rows).sum(axis=-1), return_index=True)
        return cls(players, keys, outputs[first])

    def coalition_keys(self, x: FloatArray, coalitions: BoolArray, draws: FloatArray) -> Keys:
        """Keys `(u, k, d)` of coalitions `(u, k, players)` and draws `(u, d, columns)`."""
        of_draws = _player_keys(self.players, draws)
        joining = _player_keys(self.players, x) - of_draws
        joined = np.einsum("ukp,udp->ukd", coalitions.astype(np.uint64), joining)
        return np.asarray(joined + of_draws.sum(axis=-1)[:, None], dtype=np.uint64)

    def walk_keys(self, x: FloatArray, permutations: IntArray, draws: FloatArray) -> Keys:
        """Keys `(u, players - 1, d)` of the prefixes 1 to players - 1 of each permutation."""
        of_draws = _player_keys(self.players, draws)
        joining = np.take_along_axis(_player_keys(self.players, x) - of_draws, permutations[:, None], axis=2)
        joined = np.cumsum(joining[:, :, :-1], axis=2, dtype=np.uint64) + of_draws.sum(axis=-1)[:, :, None]
        return np.ascontiguousarray(joined.swapaxes(1, 2))

    def coalition_rows(self, x: FloatArray, coalitions: BoolArray, draws: FloatArray) -> BoolArray:
        """Which rows of coalitions are new, `(u, k, d)`."""
        return self._new(self.coalition_keys(x, coalitions, draws))[0]

    def walk_rows(self, x: FloatArray, permutations: IntArray, draws: FloatArray) -> BoolArray:
        """Which rows of walks are new, `(u, players - 1, d)`."""
        return self._new(self.walk_keys(x, permutations, draws))[0]

    def recall(self, keys: Keys, ask: Callable[[IntArray], FloatArray]) -> FloatArray:
        """Outputs `(u, k, d, outputs)` of rows by their keys `(u, k, d)`; `ask` gives those of new rows by number."""
        new, first = self._new(keys)
        flat = keys.reshape(-1)
        outputs = self.outputs[np.minimum(np.searchsorted(self.keys, flat), len(self.keys) - 1)]
        shown = np.flatnonzero(new)
        if len(shown):
            outputs[shown] = ask(shown)
        return outputs[first.reshape(-1)].reshape(*keys.shape, outputs.shape[1])

    def _new(self, keys: Keys) -> tuple[BoolArray, IntArray]:
        """Which rows are neither known nor repeated within their unit, and for each the number of the first like it."""
        u, k, d = keys.shape
        numbers = np.arange(keys.size).reshape(keys.shape)
        order = np.argsort(keys, axis=1, kind="stable")
        in_order = np.take_along_axis(keys, order, axis=1)
        differs = np.ones((u, k, d), dtype=bool)
        differs[:, 1:] = in_order[:, 1:] != in_order[:, :-1]
        # the first of equal keys, in their order: places of equal ones follow each other
        start = np.maximum.accumulate(np.where(differs, np.arange(k)[None, :, None], 0), axis=1)
        first = np.empty_like(numbers)
        np.put_along_axis(first, order, np.take_along_axis(np.take_along_axis(numbers, order, 1), start, 1), axis=1)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return (first == numbers) & (self.keys[at] != keys), first


def _player_keys(players: Players, rows: FloatArray) -> Keys:
    """Contribution of each player to the keys of rows `(..., columns)`, shape (..., players)."""
    bits = np.ascontiguousarray(rows, dtype=np.float64).view(np.uint64)
    by_column = _scramble(bits ^ _scramble(np.arange(1, rows.shape[-1] + 1, dtype=np.uint64)))
    if not players.is_grouped:
        return by_column
    order = np.argsort(players.owner, kind="stable")
    starts = np.cumsum(players.sizes) - players.sizes
    summed: Keys = np.add.reduceat(by_column[..., order], starts, axis=-1)
    return summed


def _scramble(numbers: Keys) -> Keys:
    """The finaliser of splitmix64: close to a random function of 64 bits."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    scrambled: Keys = z ^ (z >> np.uint64(31))
    return scrambled
