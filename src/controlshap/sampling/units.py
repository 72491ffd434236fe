"""The units of one row in order: which background rows, coalitions and draws each has.

Unit n is the same however many units there are and however they are divided into batches: its design and its draws come
from the random stream of its chunk, and its background rows from a sequence of visits. Nothing is stored, so that many
units need no more memory than few; to get them again, the stream is restarted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from controlshap._random import Purpose, stream
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.estimators.base import Estimator, UnitDraws
from controlshap.statistics.base_sample import BaseSample
from controlshap.statistics.visits import (
    REVISIT_EVERY,
    TakeAll,
    UnitIds,
    block_rows,
    choose_take_all,
    revisit_every,
    visit_sequence,
)
from controlshap.values.base import Imputer

#: Units that share a random stream.
CHUNK = 256

Visiting = Literal["in cycles", "once", "at random", "with replacement", "no rows"]
"""How units come by blocks of background rows; "no rows" where draws come from a distribution."""


@dataclass(frozen=True)
class Units:
    """Some consecutive units.

    Attributes
    ----------
    ids : UnitIds
    rows : ndarray of shape (units, draws) or None
        Numbers of their background rows, where there is a finite background.
    design
        What `Estimator.sample` made, units on axis 0.
    draws : UnitDraws
    """

    ids: UnitIds
    rows: IntArray | None
    design: Any
    draws: UnitDraws


@dataclass
class UnitStream:
    """The units of one row, one batch after the other."""

    estimator: Estimator
    imputer: Imputer
    base: BaseSample
    entropy: int
    row: int
    visiting: Visiting
    take_all: TakeAll | None = None
    every: int = REVISIT_EVERY
    dealt: list[Any] = field(default_factory=list)
    n_units: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        rng = stream(self.entropy, Purpose.VISITS, self.row)
        n_rows = len(self.base.rows) if self.base.finite else 1
        circle = rng.permutation(n_rows)
        self._n_players = self.imputer.players.n_players
        self._n_draws = self.estimator.unit_draws(self._n_players)
        self._blocks = circle[block_rows(n_rows, self._n_draws)]
        self._rng = np.random.default_rng(int(rng.integers(0, 2**62)))
        self._ahead = np.zeros(0, dtype=np.int64)
        self._order = self._ahead
        self._visits = np.zeros(self.n_labels, dtype=np.int64)

    @property
    def n_blocks(self) -> int:
        """Blocks of a finite background; a block is the rows that one unit uses."""
        return len(self._blocks)

    @property
    def n_labels(self) -> int:
        """Blocks that `UnitIds.block` tells apart: 1 where every unit draws rows of its own."""
        return 1 if self.visiting == "with replacement" else self.n_blocks

    @property
    def in_blocks(self) -> bool:
        """Whether blocks are visited in an order of their own, so that units of a block are not independent."""
        return self.visiting in ("in cycles", "once")

    def restart(self) -> UnitStream:
        """A stream of the same units, from the first."""
        return replace(self)

    def visit(self, n_units: int) -> tuple[UnitIds, IntArray | None]:
        """The next units, and the numbers of their background rows `(units, draws)`."""
        block = self._next_blocks(n_units)
        # rank: earlier visits to the block, before these units and among them
        order = np.argsort(block, kind="stable")
        labels, start, among = np.unique(block[order], return_index=True, return_counts=True)
        rank = np.empty(n_units, dtype=np.int64)
        rank[order] = np.arange(n_units) - np.repeat(start, among)
        rank += self._visits[block]
        self._visits[labels] += among
        ids = UnitIds(np.arange(self.n_units, self.n_units + n_units), block, rank)
        self.n_units += n_units
        if self.visiting == "with replacement":
            return ids, self._rng.integers(0, len(self.base.rows), (n_units, self._n_draws))
        return ids, self.block_rows(block) if self.base.finite else None

    def block_rows(self, blocks: IntArray) -> IntArray:
        """Background rows `(n, draws)` of blocks `(n,)`."""
        if self.n_blocks == 1:
            return np.broadcast_to(self._blocks, (len(blocks), self._blocks.shape[1]))
        return self._blocks[blocks]

    def plan_visits(self, changes: FloatArray, differs: BoolArray, n_units: int, *, early: bool) -> None:
        """Choose blocks to be taken all, from f(x) - f(b) `(rows, outputs)` and what differs `(rows, players)`.

        Where the run cannot end before its last unit, the first pass has no more second visits than are enough.
        """
        if self.visiting == "in cycles" and self.n_blocks > 1:
            self.take_all = self.choose_taken(changes, differs, n_units)
            if self.take_all is None and not early:
                self.every = revisit_every(self.n_blocks, n_units)

    def choose_taken(self, changes: FloatArray, differs: BoolArray, n_units: int) -> TakeAll | None:
        """Blocks to be taken all if there will be so many units; None for none."""
        tells = np.asarray(differs[self._blocks].any(axis=1))
        return choose_take_all(changes[self._blocks].mean(axis=1), tells, n_units)

    @property
    def taken(self) -> IntArray:
        """Blocks of the take-all stratum."""
        return np.zeros(0, dtype=np.int64) if self.take_all is None else self.take_all.blocks

    def _next_blocks(self, n_units: int) -> IntArray:
        if self.n_labels == 1:
            return np.zeros(n_units, dtype=np.int64)
        if self.visiting == "at random":
            return self._rng.integers(0, self.n_blocks, n_units)
        if self.take_all is None:
            return self._next_in_cycles(n_units)
        theirs, taken = self.take_all.visits(np.arange(self.n_units, self.n_units + n_units))
        blocks = np.empty(n_units, dtype=np.int64)
        blocks[theirs], blocks[~theirs] = taken, self._next_in_cycles(n_units - len(taken))
        return blocks

    def _next_in_cycles(self, n_units: int) -> IntArray:
        parts = [self._ahead]
        if self.n_units == 0 and self.visiting == "once":
            parts = [self._rng.permutation(self.n_blocks)]
        elif self.n_units == 0:
            # the first two passes are interwoven; every later one is a fresh shuffle
            others = np.arange(self.n_blocks)
            others = np.setdiff1d(others, self.taken) if len(self.taken) else others
            parts = [others[visit_sequence(len(others), 2 * len(others), self._rng, self.every)]]
        n_ahead = len(parts[0])
        while n_ahead < n_units:
            parts.append(self._rng.permutation(self.n_blocks))
            n_ahead += self.n_blocks
        ahead = np.concatenate(parts)
        self._ahead = ahead[n_units:]
        return ahead[:n_units]

    def make(self, ids: UnitIds, rows: IntArray | None) -> Units:
        """Consecutive units with their designs and draws."""
        start, stop = int(ids.unit[0]), int(ids.unit[-1]) + 1
        return Units(ids, rows, self.design(start, stop), self._draws(start, stop, rows))

    def design(self, start: int, stop: int) -> Any:
        """The designs of units `start` to `stop` (excluded)."""
        if self.estimator.without_replacement:
            return self._sequence(stop)[start:stop]
        if self.estimator.exact_per_draw:  # nothing random, and large: the same coalitions for every unit
            rng = stream(self.entropy, Purpose.COALITIONS, self.row)
            return self.estimator.sample(self._n_players, stop - start, rng)
        first, last = start // CHUNK, -(-stop // CHUNK)
        streams = (stream(self.entropy, Purpose.COALITIONS, self.row, k) for k in range(first, last))
        design = np.concatenate([self.estimator.sample(self._n_players, CHUNK, rng) for rng in streams])
        return design[start - first * CHUNK : stop - first * CHUNK]

    def _sequence(self, n_units: int) -> Any:
        """The designs of the first units, and some more."""
        if not self.dealt or len(self.dealt[0]) < n_units:
            most = min(self.estimator.n_distinct(self._n_players), max(CHUNK, 2 * n_units))
            rng = stream(self.entropy, Purpose.COALITIONS, self.row)
            self.dealt[:] = [self.estimator.sample(self._n_players, int(most), rng)]
        return self.dealt[0]

    def _draws(self, start: int, stop: int, rows: IntArray | None) -> UnitDraws:
        redraws, at_mean = self.estimator.redraws_when_joined, self.base.mean
        if rows is not None:
            spare = self._fresh(1, start, stop)[0] if redraws else None
            return UnitDraws(self.base.rows[rows], self.base.values[rows], spare, at_mean)
        sets = self._fresh(2 if redraws else 1, start, stop)
        return UnitDraws(sets[0], None, sets[1] if redraws else None, at_mean)

    def draws_of(self, units: IntArray) -> FloatArray:
        """Draws `(units, draws, columns)` from a distribution, of units in increasing order."""
        n_sets, parts = 2 if self.estimator.redraws_when_joined else 1, []
        for chunk in np.unique(units // CHUNK):
            some = units[units // CHUNK == chunk]
            parts.append(self._fresh(n_sets, int(some[0]), int(some[-1]) + 1)[0, some - some[0]])
        return np.concatenate(parts)

    def _fresh(self, n_sets: int, start: int, stop: int) -> FloatArray:
        """Independent draws `(n_sets, units, draws, columns)`."""
        first, last = start // CHUNK, -(-stop // CHUNK)
        sets = []
        for chunk in range(first, last):
            rng = stream(self.entropy, Purpose.DRAWS, self.row, chunk)
            drawn = self.imputer.sample(n_sets * CHUNK * self._n_draws, rng)
            sets.append(drawn.reshape(n_sets, CHUNK, self._n_draws, -1))
        return np.concatenate(sets, axis=1)[:, start - first * CHUNK : stop - first * CHUNK]


def chunk_stop(start: int, n_units: int, at_once: int) -> int:
    """End of the next batch of at most `at_once` units: the end of a chunk where whole ones fit."""
    whole = (start // CHUNK + max(1, at_once // CHUNK)) * CHUNK
    return min(n_units, whole, start + at_once)
