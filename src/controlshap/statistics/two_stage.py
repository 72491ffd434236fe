"""Which background rows are visited, and what that means for the variance.

The background is a finite population of blocks (a block is the rows that one unit uses; one row by default), and blocks
are the clusters of a two-stage design. Units visit blocks in shuffled cycles, so the estimate is the mean over blocks
of the mean over visits. With `m` of `M` blocks visited, `v_b` visits to block b and f = m/M,

    var = (1 - f) s_between^2 / m  +  f / m^2  sum_b s_b^2 / v_b

where `s_between^2` is the variance of the block means and `s_b^2` the variance within a block
(Cochran, Sampling Techniques, section 10). A complete pass (f = 1) has no noise from the choice of
rows; independent draws (M infinite, f = 0) have all of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from controlshap._arrays import Array, concat, namespace, sum_by, take, to_like, weighted_sum, zeros
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.statistics.covariance_root import CovarianceRoot

#: With more units than this, a bias of order 1/n is below 1/64 of a standard error of order 1/sqrt(n), and variances
#: are taken between batches of units (docs/design.md).
MANY_UNITS = 4096


@dataclass(frozen=True)
class TwoStageDesign:
    """The block of each unit.

    Attributes
    ----------
    labels : ndarray of shape (n_units,)
        Block of each unit; all different for independent draws.
    population : float
        Number of blocks there are; infinite for draws from a distribution.
    exact_within : bool
        Whether one visit determines a block's value (all coalitions are enumerated), so that there
        is no variance within.
    sizes : ndarray of shape (n_units,) or None
        Units of each batch, where the means of batches take the place of units.
    taken : ndarray of shape (k,)
        Blocks of a take-all stratum: the others alone are a sample.
    """

    labels: IntArray
    population: float = math.inf
    exact_within: bool = False
    sizes: IntArray | None = None
    taken: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def independent(cls, n_units: int) -> TwoStageDesign:
        """Units that are independent of each other."""
        return cls(np.arange(n_units))

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.labels)

    @cached_property
    def _grouping(self) -> tuple[IntArray, IntArray]:
        counts = np.bincount(self.labels)
        visited = counts > 0
        return (np.cumsum(visited) - 1)[self.labels], counts[visited]

    @property
    def index(self) -> IntArray:
        """Number of the visited block of each unit, 0 to m - 1."""
        return self._grouping[0]

    @cached_property
    def visits(self) -> IntArray:
        """Visits of each visited block, shape (m,)."""
        if self.sizes is None:
            return self.counts
        return np.bincount(self.index, self.sizes).astype(np.int64)

    @property
    def counts(self) -> IntArray:
        """Units, or batches of them, in each visited block, shape (m,)."""
        return self._grouping[1]

    @property
    def n_blocks(self) -> int:
        """Visited blocks; independent units are blocks of their own, also in batches."""
        return int(self.visits.sum()) if self.is_independent else len(self.counts)

    @property
    def many(self) -> bool:
        """Whether there are so many blocks that a bias of order 1/n can be neglected."""
        return self.n_blocks > MANY_UNITS

    @cached_property
    def is_independent(self) -> bool:
        """Whether the units are i.i.d."""
        return math.isinf(self.population) and len(self.counts) == self.n_units

    @cached_property
    def sampled(self) -> BoolArray:
        """Which visited blocks `(m,)` are a sample, not part of a take-all stratum that was visited whole."""
        if not len(self.taken):
            return np.ones(len(self.counts), dtype=bool)
        labels = self.labels[np.unique(self.index, return_index=True)[1]]
        taken = np.isin(labels, self.taken)
        whole = int(taken.sum()) == len(self.taken) and not taken.all()
        return ~taken if whole else np.ones(len(labels), dtype=bool)

    @property
    def _sampled_share(self) -> float:
        """Share of the population that the sample represents."""
        return 1.0 - float((~self.sampled).sum()) / self.population

    @cached_property
    def sampling_fraction(self) -> float:
        """F = m/M of the sample, or 0 (conservative) where nothing shows the variance within its blocks."""
        if not self.exact_within and not (self.counts[self.sampled] >= 2).any():
            return 0.0
        return min(1.0, float(self.sampled.sum()) / (self.population - float((~self.sampled).sum())))

    @cached_property
    def block_weights(self) -> FloatArray:
        """Weight of each visited block in the estimate, shape (m,): 1/m where all are a sample."""
        return np.where(self.sampled, self._sampled_share / self.sampled.sum(), 1.0 / self.population)

    @cached_property
    def weights(self) -> FloatArray:
        """Weight of each unit in the estimate, shape (n_units,): 1/(m v_b); of a batch, the sum over its units."""
        if self.sizes is not None and self.is_independent:
            return np.asarray(self.sizes / self.sizes.sum())
        weights: FloatArray = (self.block_weights / self.visits)[self.index]
        return weights if self.sizes is None else weights * self.sizes

    @cached_property
    def _own(self) -> FloatArray:
        """Coefficient of s_b^2 for a block's own visits, shape (m,); 0 for those with one."""
        if self.exact_within:
            return np.zeros(len(self.visits))
        fraction = np.where(self.sampled, self.sampling_fraction, 1.0)
        return np.where(self.counts >= 2, fraction * self.block_weights**2 / self.visits, 0.0)

    @cached_property
    def _borrowed(self) -> FloatArray:
        """Further coefficient of s_b^2, shape (m,), for each sampled block with one visit that borrows all of s_b^2.

        Blocks of a take-all stratum are unlike the others and lend nothing.
        """
        single, lenders = (self.counts == 1) & self.sampled, (self.counts >= 2) & self.sampled
        if self.exact_within or not single.any():
            return np.zeros(len(self.visits))
        return np.where(lenders, self.sampling_fraction * float(self.block_weights[single].max()) ** 2, 0.0)

    @cached_property
    def _within(self) -> FloatArray:
        """Coefficient of s_b^2, shape (m,), where blocks with one visit have the mean s^2 of all others."""
        borrowers, lenders = int(((self.counts == 1) & self.sampled).sum()), int((self._borrowed > 0).sum())
        within: FloatArray = self._own + self._borrowed * borrowers / max(1, lenders)
        return within

    @cached_property
    def _between(self) -> float:
        m = int(self.sampled.sum())
        return self._sampled_share**2 * (1.0 - self.sampling_fraction) / (m * (m - 1)) if m > 1 else 0.0

    def coarsen(self, n_units: int) -> tuple[IntArray, TwoStageDesign]:
        """About n_units batches in all, within blocks, each of which replaces its units.

        Returns the batch of each unit, and the design of the batches: their means (see `even_out`) have the variances
        of the units, with fewer degrees of freedom and in less memory.
        """
        if self.is_independent:
            batch = np.arange(self.n_units) * n_units // self.n_units
            return batch, TwoStageDesign.independent(n_units)
        order = np.argsort(self.index, kind="stable")
        first = np.concatenate([[0], np.cumsum(self.visits)[:-1]])
        rank = np.empty(self.n_units, dtype=np.int64)
        rank[order] = np.arange(self.n_units) - np.repeat(first, self.visits)
        wanted = np.round(self.visits * n_units / self.n_units).astype(np.int64)
        batches = np.where(self.visits >= 2, np.clip(wanted, 2, self.visits), 1)
        start = np.concatenate([[0], np.cumsum(batches)[:-1]])
        batch = start[self.index] + rank * batches[self.index] // self.visits[self.index]
        labels, taken = np.repeat(np.arange(len(batches)), batches), np.flatnonzero(~self.sampled)
        return batch, TwoStageDesign(labels, self.population, self.exact_within, taken=taken)

    def even_out(self, batch_means: Array, sizes: IntArray) -> Array:
        """Scale deviations of batch means from their block's mean as if all batches of a block had the same size."""
        blocks = np.zeros(self.n_units, dtype=np.int64) if self.is_independent else self.index
        n_blocks = int(blocks.max()) + 1
        in_block = np.bincount(blocks, weights=sizes.astype(float))
        sums = sum_by(blocks, batch_means * _per_unit(sizes, batch_means), n_blocks, axis=-4)
        center = take(sums / _per_unit(in_block, sums), blocks, axis=-4)
        scale = np.sqrt(sizes * (np.bincount(blocks) / in_block)[blocks])
        return center + _per_unit(scale, batch_means) * (batch_means - center)

    def block_means(self, values: Array) -> Array:
        """Means `(..., m, c, o, f)` in each visited block, of `values` (..., n_units, c, o, f)."""
        if self.sizes is not None:
            values = values * _per_unit(self.sizes, values)
        return sum_by(self.index, values, len(self.counts), axis=-4) / _per_unit(self.visits, values)

    def noise_within(self, values: Array, means: Array) -> Array:
        """Weighted mean over blocks of s_b^2 / v_b, `(..., c, o, f)`, from blocks visited twice and more; 0 from none.

        Blocks that were visited once are taken to have the mean s_b^2 of sampled ones.
        """
        several = self.counts >= 2
        if self.exact_within or not several.any():
            return zeros((*means.shape[:-4], *means.shape[-3:]), means)
        squares = (values - take(means, self.index, axis=-4)) ** 2
        if self.sizes is not None:
            squares = squares * _per_unit(self.sizes, values)
        squares = sum_by(self.index, squares, len(self.counts), axis=-4)
        lenders = several & self.sampled if (several & self.sampled).any() else several
        coefficient = np.where(several, self.block_weights / self.visits, 0.0)
        # pooled over the lenders: a block with two visits tells little about its own variance
        free = np.where(lenders, self.counts - 1.0, 0.0)
        pooled = (coefficient * lenders).sum() + self.block_weights[~several].sum()
        coefficient = np.where(lenders, pooled / free.sum(), coefficient / np.maximum(self.counts - 1.0, 1.0))
        return weighted_sum(coefficient, squares, axis=-4)

    def covariance_root(self, pseudo_values: Array) -> CovarianceRoot:
        """Root of the two-stage covariance of the weighted mean of `pseudo_values` (..., n_units, c, o, f)."""
        means = self.block_means(pseudo_values)
        factors, parts, dof, blocks = [], [], [], []
        sampled = np.flatnonzero(self.sampled)
        if self._between > 0:
            some = means if len(sampled) == len(self.counts) else take(means, sampled, axis=-4)
            factors.append(self._between_factors(some))
            parts.append(np.zeros(len(sampled), dtype=np.int64))
            dof.append(np.array([len(sampled) - 1.0]))
            blocks.append(sampled)
        used = self._within > 0
        if used.any():
            units = np.flatnonzero(used[self.index])
            block = self.index[units]
            scale = np.sqrt(self._within[block] / (self.counts[block] - 1))
            if self.sizes is not None:
                scale *= np.sqrt(self.sizes[units])
            own = pseudo_values if len(units) == self.n_units else take(pseudo_values, units, axis=-4)
            deviations = _per_unit(scale, own) * (own - take(means, block, axis=-4))
            factors.append(deviations * self._lend(means, block))
            numbers = np.cumsum(used) - 1 + len(dof)
            parts.append(numbers[block])
            dof.append(self.counts[used] - 1.0)
            blocks.append(block)
        if not factors:
            return CovarianceRoot.zero_like(pseudo_values[..., 0, :, :, :])
        joined = factors[0] if len(factors) == 1 else concat(factors, axis=-4)
        return CovarianceRoot(joined, np.concatenate(parts), np.concatenate(dof), np.concatenate(blocks))

    def _lend(self, means: Array, block: IntArray) -> Array | float:
        """Factors `(..., n, 1, o, 1)` by which deviations in blocks `(n,)` also count for blocks with one visit.

        These borrow in proportion to their squared distance from the mean block, summed over players: a block unlike
        the others varies more, and had no second visit to show it.
        """
        lenders, borrowers = np.flatnonzero(self._borrowed > 0), np.flatnonzero((self.counts == 1) & self.sampled)
        if not len(lenders):
            return 1.0
        xp, of_players = namespace(means), means[..., :-1, :, 0]
        distance = ((of_players - of_players.mean(axis=-3, keepdims=True)) ** 2).sum(axis=-2)  # (..., m, o)
        of_lenders = take(distance, lenders, axis=-2).sum(axis=-2)
        of_borrowers = take(distance, borrowers, axis=-2).sum(axis=-2)
        ratio = of_borrowers / xp.where(of_lenders > 0, of_lenders, 1.0)
        ratio = xp.where(of_lenders > 0, ratio, len(borrowers) / len(lenders))[..., None, :]
        own, lent, both = (to_like(part[block, None], means) for part in (self._own, self._borrowed, self._within))
        return xp.sqrt((own + lent * ratio) / both)[..., :, None, :, None]

    def _between_factors(self, means: Array) -> Array:
        if self.sizes is None or not self.is_independent:
            return math.sqrt(self._between) * (means - means.mean(axis=-4, keepdims=True))
        # a batch mean has the variance of a unit over its size
        scale = np.sqrt(self.weights / (len(self.counts) - 1))
        center = weighted_sum(self.weights, means, axis=-4)[..., None, :, :, :]
        return _per_unit(scale, means) * (means - center)

    def resample(self, n_resamples: int, rng: np.random.Generator) -> FloatArray:
        """Bootstrap weights, shape (n_resamples, n_units), each row summing to 1.

        For independent units this is the ordinary bootstrap. Otherwise blocks and visits are perturbed by centred
        multinomial counts, scaled as by Rao and Wu, so that the bootstrap variance of a mean is the two-stage variance.
        """
        n, sampled = self.n_units, np.flatnonzero(self.sampled)
        if self.is_independent:
            counts: FloatArray = rng.multinomial(n, np.full(n, 1.0 / n), size=n_resamples) / n
            return counts
        change = np.zeros((n_resamples, n))
        if self._between > 0:
            m = len(sampled)
            of_block = np.zeros((n_resamples, len(self.visits)))
            of_block[:, sampled] = rng.multinomial(m, np.full(m, 1.0 / m), size=n_resamples) - 1.0
            change += math.sqrt(self._between) * (of_block / self.block_weights)[:, self.index]
        units_by_block = np.split(np.argsort(self.index, kind="stable"), np.cumsum(self.visits)[:-1])
        for block in np.flatnonzero(self._within > 0):
            members = units_by_block[block]
            v = len(members)
            counts = rng.multinomial(v, np.full(v, 1.0 / v), size=n_resamples) - 1.0
            # var(counts @ y / v) = (v-1) s^2 / v^2, which is to become _within * s^2
            scale = math.sqrt(self._within[block] * v * v / (v - 1)) / self.block_weights[block]
            change[:, members] += scale * counts
        result: FloatArray = self.weights * (1.0 + change)
        return result


def _per_unit(numbers: FloatArray | IntArray, values: Array) -> Array:
    """Numbers `(n,)`, shaped to broadcast along the units of `values` (..., n, c, o, f)."""
    return to_like(numbers[:, None, None, None], values)
