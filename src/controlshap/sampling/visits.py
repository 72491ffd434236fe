"""Which background rows each unit uses, one part of the units after the other. Arrays only.

The same visits as `visit_sequence` gives for all units together, without a number for each of them in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from controlshap._types import IntArray
from controlshap.statistics.batches import Numbers
from controlshap.statistics.two_stage import visit_sequence


@dataclass
class Visits:
    """Visits to blocks, in order.

    Attributes
    ----------
    n_blocks : int
        One where draws are independent; every unit then is a visit to it.
    entropy : int
        Seed of the visits.
    counts : ndarray of shape (n_blocks,)
        Visits so far.
    """

    n_blocks: int
    entropy: int
    n_units: int = 0
    counts: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.entropy)
        self.counts = np.zeros(self.n_blocks, dtype=np.int64)
        self._ahead = np.zeros(0, dtype=np.int64)

    def take(self, n_units: int) -> Numbers:
        """The next units."""
        block = np.zeros(n_units, dtype=np.int64) if self.n_blocks == 1 else self._blocks(n_units)
        # rank: visits before, and earlier ones among these
        order = np.argsort(block, kind="stable")
        numbers, start, among = np.unique(block[order], return_index=True, return_counts=True)
        rank = np.empty(n_units, dtype=np.int64)
        rank[order] = np.arange(n_units) - np.repeat(start, among)
        rank += self.counts[block]
        self.counts[numbers] += among
        unit = np.arange(self.n_units, self.n_units + n_units)
        self.n_units += n_units
        return Numbers(unit, block, rank)

    def _blocks(self, n_units: int) -> IntArray:
        parts = [self._ahead]
        n_ahead = len(self._ahead)
        if self.n_units == 0:
            # the first two passes are interwoven; every later one is a fresh shuffle
            parts = [visit_sequence(self.n_blocks, 2 * self.n_blocks, self._rng)]
            n_ahead = 2 * self.n_blocks
        while n_ahead < n_units:
            parts.append(self._rng.permutation(self.n_blocks))
            n_ahead += self.n_blocks
        known = np.concatenate(parts)
        self._ahead = known[n_units:]
        return known[:n_units]


@dataclass
class Replaced:
    """Background rows drawn with replacement, `(units, draws)`, in order."""

    n_rows: int
    n_draws: int
    entropy: int

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.entropy)

    def take(self, n_units: int) -> IntArray:
        """Rows of the next units."""
        return self._rng.integers(0, self.n_rows, (n_units, self.n_draws))
