"""Which fold each unit belongs to: a function that controls it was fitted to the other folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from controlshap._random import Purpose, stream
from controlshap._types import FloatArray, IntArray
from controlshap.sampling.sampler import CHUNK, Sampler
from controlshap.statistics.batches import Numbers
from controlshap.statistics.two_stage import Strata


class Folds(Protocol):
    """A fold for every unit."""

    @property
    def n_folds(self) -> int:
        """Number of folds."""

    def of(self, units: Numbers) -> IntArray:
        """Folds of some units."""

    def shares(self) -> FloatArray:
        """Share of the units that each fold has."""

    def drawn(self) -> tuple[IntArray, IntArray | None]:
        """Background rows `(n, draws)` of units or of visited blocks, and their folds where each has one."""


def deal_units(sampler: Sampler, n_folds: int, rng: np.random.Generator) -> Folds:
    """Deal the units of a sampler."""
    if sampler.merging is None:
        return Dealt(sampler, deal(sampler.strata(), n_folds, rng))
    if sampler.strata().is_independent:
        return DealtByChunk(sampler, n_folds)
    return DealtByBlock(sampler, n_folds, rng.integers(0, n_folds, sampler.n_blocks))


def deal(strata: Strata, n_folds: int, rng: np.random.Generator) -> IntArray:
    """A fold for every unit.

    Where each background row was visited at least twice, its visits go to different folds: every fit then knows all
    rows, and what a pass over the background cancels stays cancelled in each fold. Otherwise rows are dealt whole.
    """
    if _twice(strata):
        first = rng.integers(0, n_folds, len(strata.visits))
        order = np.argsort(strata.index, kind="stable")
        start = np.cumsum(strata.visits) - strata.visits
        rank = np.empty(strata.n_units, dtype=np.int64)
        rank[order] = np.arange(strata.n_units) - np.repeat(start, strata.visits)
        return (first[strata.index] + rank) % n_folds
    n_blocks = len(strata.visits)
    return (rng.permutation(n_blocks) % min(n_folds, n_blocks))[strata.index]


def _twice(strata: Strata) -> bool:
    """Whether each block of the background was visited at least twice."""
    return bool(len(strata.visits) == strata.population and strata.visits.min() >= 2)


@dataclass(frozen=True)
class Dealt:
    """Folds of units that are kept one by one."""

    sampler: Sampler
    fold: IntArray

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1

    def of(self, units: Numbers) -> IntArray:
        """Folds of some units."""
        return self.fold[units.unit]

    def shares(self) -> FloatArray:
        """Share of the units that each fold has."""
        return np.asarray(np.bincount(self.fold) / len(self.fold))

    def drawn(self) -> tuple[IntArray, IntArray | None]:
        """Background rows and folds of all units."""
        return self.sampler.draw_index(), self.fold


@dataclass(frozen=True)
class DealtByBlock:
    """Folds of many units by their blocks, the same as `deal` gives: each has been visited several times.

    Attributes
    ----------
    first : ndarray of shape (n_blocks,)
        Fold of the first visit.
    """

    sampler: Sampler
    n_folds: int
    first: IntArray

    def of(self, units: Numbers) -> IntArray:
        """Folds of some units."""
        return (self.first[units.block] + units.rank) % self.n_folds

    def shares(self) -> FloatArray:
        """Alike but for one unit of a block."""
        return np.full(self.n_folds, 1.0 / self.n_folds)

    def drawn(self) -> tuple[IntArray, IntArray | None]:
        """Background rows of all blocks, which have several folds."""
        return self.sampler.rows_of_blocks(np.arange(self.sampler.n_blocks)), None


@dataclass(frozen=True)
class DealtByChunk:
    """Folds of many independent units: chunks are dealt one by one, by streams of their own."""

    sampler: Sampler
    n_folds: int

    def of(self, units: Numbers) -> IntArray:
        """Folds of some units."""
        found = np.empty(len(units), dtype=np.int64)
        chunk = units.unit // CHUNK
        for k in np.unique(chunk):
            rng = stream(self.sampler.entropy, Purpose.FOLDS, self.sampler.row, int(k))
            here = np.flatnonzero(chunk == k)
            found[here] = (rng.permutation(CHUNK) % self.n_folds)[units.unit[here] - k * CHUNK]
        return found

    def shares(self) -> FloatArray:
        """Share of the units that each fold has."""
        return np.full(self.n_folds, 1.0 / self.n_folds)

    def drawn(self) -> tuple[IntArray, IntArray | None]:
        """All rows of the background: many draws with replacement meet them."""
        return np.arange(len(self.sampler.base.rows))[:, None], None
