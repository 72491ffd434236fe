"""The fold of each unit, which is controlled by functions fitted to the other folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from controlshap._random import Purpose, stream
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.sampling.sampler import UnitSampler
from controlshap.sampling.units import CHUNK
from controlshap.statistics.size_strata import SizeStrata
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import UnitIds


@dataclass(frozen=True)
class Folds:
    """A fold for every unit.

    Attributes
    ----------
    n_folds : int
    of : callable
        Folds of some units; -1 for units of none, to which every function is fitted.
    shares : ndarray of shape (n_folds,)
        Share of the units that each fold has, but for those of rows that are taken all.
    of_kept : ndarray of shape (n_units,) or None
        Folds of all units; None where batches of them are kept.
    taken : ndarray of bool, shape (n_units,), or None
        Units of rows that are taken all; None where there are none.
    """

    n_folds: int
    of: Callable[[UnitIds], IntArray]
    shares: FloatArray
    of_kept: IntArray | None = None
    taken: BoolArray | None = None

    @property
    def of_samples(self) -> IntArray | None:
        """Folds of all units, and -1 for those of rows that are taken all."""
        if self.of_kept is None or self.taken is None:
            return self.of_kept
        return np.where(self.taken, -1, self.of_kept)


def deal_units(sampler: UnitSampler, n_folds: int, rng: np.random.Generator) -> Folds:
    """Deal the units of a sampler.

    Many independent units are dealt chunk by chunk, with streams of their own. Where many units are in blocks, each
    block had several visits, which go to different folds as in `deal`.
    """
    sizes = sampler.size_strata()
    if sizes is not None:
        return _deal_distinct(sizes, n_folds, rng)
    if not sampler.is_batched:
        strata = sampler.strata()
        fold, taken = deal(strata, n_folds, rng), ~strata.sampled[strata.index]
        counts = np.bincount(fold[~taken], minlength=int(fold.max()) + 1)
        own = taken if taken.any() else None
        return Folds(len(counts), lambda ids: fold[ids.unit], counts / counts.sum(), fold, own)
    shares = np.full(n_folds, 1.0 / n_folds)
    if sampler.strata().is_independent:
        return Folds(n_folds, lambda ids: deal_chunks(ids, n_folds, sampler.entropy, sampler.row), shares)
    first = rng.integers(0, n_folds, sampler.n_blocks)
    return Folds(n_folds, lambda ids: (first[ids.block] + ids.rank) % n_folds, shares)


def _deal_distinct(sizes: SizeStrata, n_folds: int, rng: np.random.Generator) -> Folds:
    """Deal pairs of coalitions size by size; those of sizes that are whole belong to no fold (-1)."""
    fold: IntArray = np.full(len(sizes.sizes), -1)
    sampled = np.flatnonzero(sizes.unseen > 0.0)
    n_folds = min(n_folds, len(sampled))
    if n_folds > 0:
        in_order = sampled[np.argsort(sizes.sizes[sampled], kind="stable")]
        fold[in_order] = (np.arange(len(sampled)) + rng.integers(0, n_folds)) % n_folds
    shares = np.bincount(fold[sampled], minlength=n_folds) / max(1, len(sampled))
    return Folds(n_folds, lambda ids: fold[ids.unit], shares, fold)


def deal(strata: TwoStageDesign, n_folds: int, rng: np.random.Generator) -> IntArray:
    """A fold for every unit.

    Where each background row was visited at least twice, its visits go to different folds: every fit then knows all
    rows, and what a pass over the background cancels stays cancelled in each fold. So do those of rows that are taken
    all. Other rows are dealt whole.
    """
    n_blocks = len(strata.visits)
    several = ~strata.sampled
    if n_blocks < strata.population or strata.visits.min() < 2:
        whole = (rng.permutation(n_blocks) % min(n_folds, n_blocks))[strata.index]
        if not several.any():
            return whole
    else:
        several[:], whole = True, np.zeros(strata.n_units, dtype=np.int64)
    first = rng.integers(0, n_folds, n_blocks)
    order = np.argsort(strata.index, kind="stable")
    start = np.cumsum(strata.visits) - strata.visits
    rank = np.empty(strata.n_units, dtype=np.int64)
    rank[order] = np.arange(strata.n_units) - np.repeat(start, strata.visits)
    return np.where(several[strata.index], (first[strata.index] + rank) % n_folds, whole)


def deal_chunks(ids: UnitIds, n_folds: int, entropy: int, row: int) -> IntArray:
    """Folds of independent units; each chunk has a random stream of its own."""
    fold, chunk = np.empty(len(ids), dtype=np.int64), ids.unit // CHUNK
    for k in np.unique(chunk):
        here = np.flatnonzero(chunk == k)
        order = stream(entropy, Purpose.FOLDS, row, int(k)).permutation(CHUNK)
        fold[here] = (order % n_folds)[ids.unit[here] - k * CHUNK]
    return fold
