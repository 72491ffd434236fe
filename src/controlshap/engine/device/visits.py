"""How often background rows are visited: the same numbers for every explained row. Arrays only.

After any number of units some rows have had `v` visits and some `v + 1`, and which is random. Numbering the rows of
each explained row so that those with one more visit come first gives all of them one layout: units are a rectangle of
v by m and a last, shorter line, and sums over visits are sums over slices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.statistics.two_stage import visit_sequence


@dataclass(frozen=True)
class Visits:
    """Unit number s belongs to block s % m.

    Attributes
    ----------
    n_blocks : int
        Blocks that are visited, m; as many as units where draws are independent.
    fewest : int
        Visits of each, v.
    extra : int
        How many of them (the first) have one visit more.
    population : float
        Blocks there are; infinite for independent draws.
    """

    n_blocks: int
    fewest: int
    extra: int
    population: float

    @classmethod
    def independent(cls, n_units: int) -> Visits:
        """Units that share nothing."""
        return cls(n_units, 1, 0, math.inf)

    @classmethod
    def in_cycles(cls, n_rows: int, n_units: int) -> Visits:
        """What the library's shuffled cycles come to."""
        counts = np.bincount(visit_sequence(n_rows, n_units, np.random.default_rng(0)), minlength=n_rows)
        counts = counts[counts > 0]
        fewest = int(counts.min())
        return cls(len(counts), fewest, int((counts - fewest).sum()), float(n_rows))

    @property
    def n_units(self) -> int:
        """Number of units."""
        return self.n_blocks * self.fewest + self.extra

    @property
    def labels(self) -> IntArray:
        """Block of each unit, shape (n_units,)."""
        return np.arange(self.n_units) % self.n_blocks

    @property
    def counts(self) -> IntArray:
        """Visits of each block, shape (m,)."""
        return self.fewest + (np.arange(self.n_blocks) < self.extra).astype(np.int64)

    @property
    def share(self) -> float:
        """Share of the population that was visited; 0 (conservative) where nothing shows the variance within."""
        if math.isinf(self.population) or (self.fewest == 1 and self.extra == 0):
            return 0.0
        return min(1.0, self.n_blocks / self.population)

    @property
    def between(self) -> float:
        """Coefficient of the spread of block means."""
        m = self.n_blocks
        return (1.0 - self.share) / (m * (m - 1)) if m > 1 else 0.0

    @property
    def several(self) -> Visits:
        """The blocks with two visits and more, by themselves."""
        if self.fewest >= 2:
            return self
        return Visits(self.extra, 2, 0, self.population)

    @property
    def several_units(self) -> IntArray:
        """Units of these blocks, in the layout of `several`."""
        if self.fewest >= 2:
            return np.arange(self.n_units)
        first = np.arange(self.extra)
        return np.concatenate([first, self.n_blocks + first])

    @property
    def within(self) -> FloatArray:
        """Coefficient of the variance within each of these blocks; the others borrow their mean."""
        some = self.several
        if some.n_blocks == 0:
            return np.zeros(0)
        borrowed = (self.n_blocks - some.n_blocks) / some.n_blocks
        coefficients: FloatArray = self.share / self.n_blocks**2 * (1.0 / some.counts + borrowed)
        return coefficients
