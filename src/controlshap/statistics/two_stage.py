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

from controlshap._arrays import Array, concat, sum_by, take, to_like, weighted_sum, zeros
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.statistics.covariance_root import CovarianceRoot

#: Below this sampling fraction the part of the variance within blocks, which is in proportion to it, is a tenth at
#: most, and not worth its visits (docs/mathematics.md, section 6).
FRESH_FRACTION = 0.1
#: After that, every fifth visit of the first pass is a second visit, to learn the part within blocks: a fifth of the
#: pass is the price, and of M rows M/5 show their own variance (docs/mathematics.md, section 6).
REVISIT_EVERY = 5
#: With more units than this, a bias of order 1/n is below 1/64 of a standard error of order 1/sqrt(n), and batches of
#: units serve for variances (docs/design.md).
MANY_UNITS = 4096
#: Visits that a block of the take-all stratum has first: three contrasts, the fewest degrees of freedom of an interval.
FIRST_VISITS = 4
#: Where the block alone tells of a player: what one visit in four shows (a rule of three other players does, in walks)
#: is missed by 12 visits one time in 30, by 4 one time in 3.
TELLING_VISITS = 12
#: Times as far as the others that such a block is: of 1,000 normal distances from the median none is 4 times the mean.
FAR = 4.0
#: Visits that are expected where none comes one time in 20: exp(-3) = 0.05.
RULE_OF_THREE = 3.0
NEVER = 2**62
TINY = 1e-300


def visit_sequence(n_blocks: int, n_units: int, rng: np.random.Generator | None) -> IntArray:
    """Blocks to visit, in order; a shorter sequence from an equal stream is a prefix of a longer one.

    The first pass visits every block once, in random order, with some second visits mixed in (they
    alone show the variance within a block); the second pass visits the blocks that have had one
    visit; every later pass is a fresh shuffle. Without `rng` the blocks stand for themselves in an order that is random
    already: those that have had one visit more than others are the first.
    """
    shuffle = np.arange if rng is None else rng.permutation
    order = shuffle(n_blocks)
    head = max(1, math.ceil(FRESH_FRACTION * n_blocks))
    fresh = REVISIT_EVERY - 1  # first visits between two second ones
    revisited = max(0, n_blocks - head) // fresh
    mixed = np.empty((revisited, REVISIT_EVERY), dtype=order.dtype)
    mixed[:, :fresh] = order[head : head + revisited * fresh].reshape(revisited, fresh)
    mixed[:, fresh] = order[:revisited]
    passes = [order[:head], mixed.ravel(), order[head + revisited * fresh :], order[revisited:]]
    n_visits = sum(len(part) for part in passes)
    while n_visits < n_units:
        passes.append(shuffle(n_blocks))
        n_visits += n_blocks
    return np.concatenate(passes)[:n_units]


@dataclass(frozen=True)
class TakeAll:
    """Blocks that are visited several times at once, since what they show alone is a large part of a value.

    f(b) is known for all rows before anything is sampled. A row far from the others in f(x) - f(b) is one of a kind: a
    sample that lacks it shows nothing of it (Cochran, section 5A.9).

    Attributes
    ----------
    blocks : ndarray of shape (k,)
    every : int
        Units from one visit to these blocks to the next, after the first visits.
    first_visits : int
        Visits that each of them has first.
    """

    blocks: IntArray
    every: int
    first_visits: int = FIRST_VISITS

    @property
    def n_first(self) -> int:
        """Units up to which each of these blocks has had its first visits, in turns with others."""
        return 2 * self.first_visits * len(self.blocks)

    def visits(self, positions: IntArray) -> tuple[BoolArray, IntArray]:
        """Which units `(n,)` at positions in the sequence visit these blocks, and the block of each that does."""
        after = positions - self.n_first
        theirs = np.where(after < 0, positions % 2 == 0, after % self.every == 0)
        number = np.where(after < 0, positions // 2, after // self.every)
        return theirs, self.blocks[number[theirs] % len(self.blocks)]


def choose_take_all(changes: FloatArray, differs: BoolArray, n_units: int) -> TakeAll | None:
    """Blocks to be taken all, if there will be so many units; None for none.

    `changes` (n_blocks, outputs) is f(x) - f(b), and `differs` (n_blocks, players) says where players are not as in x.
    A block is taken if its share of the distances from the median is worth the first visits and is FAR times the mean
    and the median share of those that are left, as long as half of the units suffice. Blocks that alone tell of some
    player, and which a sample would miss more than one time in 20, are taken if half of the units suffice for all of
    them, and then have more first visits.
    """
    most = min(len(changes) - 2, n_units // (2 * FIRST_VISITS))
    if most <= 0:
        return None
    distance = np.abs(changes - np.median(changes, axis=0))
    total = distance.sum(axis=0)
    share = (distance / np.where(total > 0, total, 1.0)).max(axis=1, initial=0.0)
    order, k = np.argsort(-share, kind="stable"), 0
    while k < most and share[order[k]] * n_units >= FIRST_VISITS * share.sum() > 0:
        left = share[order[k:]]
        if left[0] <= FAR * max(float(np.median(left)), float(left.mean())):
            break
        k += 1
    n_telling = differs.sum(axis=0)
    rare = (n_telling > 0) & (n_telling * n_units < RULE_OF_THREE * len(changes))
    telling = np.setdiff1d(np.flatnonzero((differs & rare).any(axis=1)), order[:k])
    if 2 * FIRST_VISITS * (k + len(telling)) > n_units:
        telling = telling[:0]
    blocks = np.concatenate([order[:k], telling])[:most]
    if not len(blocks):
        return None
    visits = min(TELLING_VISITS, n_units // (2 * len(blocks))) if len(telling) else FIRST_VISITS
    first = visits * len(blocks)
    extra = min(n_units * share[blocks].sum() / max(share.sum(), TINY), n_units / 2) - first
    return TakeAll(blocks, max(2, int((n_units - 2 * first) / extra)) if extra >= 1.0 else NEVER, visits)


def block_rows(n_rows: int, n_draws: int) -> IntArray:
    """Rows of each block, shape (n_blocks, n_draws): every row is in equally many blocks.

    Blocks are windows of `n_draws` consecutive rows of a circle (the caller shuffles it), so the mean
    over all blocks is the mean over all rows, also when `n_draws` does not divide `n_rows`.
    """
    n_draws = min(n_draws, n_rows)
    n_blocks = n_rows // math.gcd(n_rows, n_draws)
    starts = np.arange(n_blocks) * n_draws
    return (starts[:, None] + np.arange(n_draws)) % n_rows


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
        """Units that share nothing."""
        return cls(np.arange(n_units))

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.labels)

    @cached_property
    def _grouping(self) -> tuple[IntArray, IntArray]:
        _, index, counts = np.unique(self.labels, return_inverse=True, return_counts=True)
        return index.reshape(-1), counts

    @property
    def index(self) -> IntArray:
        """Number of the visited block of each unit, 0 to m - 1."""
        return self._grouping[0]

    @property
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

    @property
    def is_independent(self) -> bool:
        """Whether the units are i.i.d."""
        return math.isinf(self.population) and len(self.counts) == self.n_units

    @cached_property
    def sampled(self) -> BoolArray:
        """Which visited blocks `(m,)` are a sample; those of a take-all stratum, once it was visited whole, are not."""
        labels = self.labels[np.unique(self.index, return_index=True)[1]]
        taken = np.isin(labels, self.taken)
        whole = int(taken.sum()) == len(self.taken) and not taken.all()
        return ~taken if whole else np.ones(len(labels), dtype=bool)

    @property
    def _sampled_share(self) -> float:
        """Share of the population that the sample stands for."""
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

    @property
    def weights(self) -> FloatArray:
        """Weight of each unit in the estimate: 1/(m v_b), shape (n_units,); of a batch, its units' together."""
        if self.sizes is not None and self.is_independent:
            return np.asarray(self.sizes / self.sizes.sum())
        weights: FloatArray = (self.block_weights / self.visits)[self.index]
        return weights if self.sizes is None else weights * self.sizes

    @cached_property
    def _within(self) -> FloatArray:
        """Coefficient of s_b^2, shape (m,); sampled blocks with one visit borrow the mean s^2 of those with more."""
        several, sampled = self.counts >= 2, self.sampled
        if self.exact_within or not several.any():
            return np.zeros(len(self.visits))
        borrowed = (~several & sampled).sum() / max(1, (several & sampled).sum())
        coefficient = self.block_weights**2 * (1.0 / self.visits + borrowed * sampled)
        return np.where(several, np.where(sampled, self.sampling_fraction, 1.0) * coefficient, 0.0)

    @property
    def _between(self) -> float:
        m = int(self.sampled.sum())
        return self._sampled_share**2 * (1.0 - self.sampling_fraction) / (m * (m - 1)) if m > 1 else 0.0

    def coarsen(self, n_units: int) -> tuple[IntArray, TwoStageDesign]:
        """Batches of about n_units units in all, within blocks, each to be taken as one unit.

        Returns the batch of each unit, and the design of the batches: variances of batch means (see `even_out`) are
        those of units, with fewer degrees of freedom and in less memory.
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

    def even_out(self, batch_means: FloatArray, sizes: IntArray) -> FloatArray:
        """Scale deviations of batch means from their block's mean as if all batches of a block had the same size."""
        trailing = [1] * (batch_means.ndim - 1)
        blocks = np.zeros(self.n_units, dtype=np.int64) if self.is_independent else self.index
        n_blocks = int(blocks.max()) + 1
        shaped = sizes.reshape(-1, *trailing)
        in_block = sum_by(blocks, shaped.astype(float), n_blocks)
        center = (sum_by(blocks, batch_means * shaped, n_blocks) / in_block)[blocks]
        number = sum_by(blocks, np.ones_like(shaped, dtype=float), n_blocks)
        scale = np.sqrt(shaped * (number / in_block)[blocks])
        result: FloatArray = center + scale * (batch_means - center)
        return result

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
        # pooled over the lenders: single blocks of two visits say little of their own variance
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
            factors.append(_per_unit(scale, own) * (own - take(means, block, axis=-4)))
            numbers = np.cumsum(used) - 1 + len(dof)
            parts.append(numbers[block])
            dof.append(self.counts[used] - 1.0)
            blocks.append(block)
        if not factors:
            return CovarianceRoot.zero_like(pseudo_values[..., 0, :, :, :])
        joined = factors[0] if len(factors) == 1 else concat(factors, axis=-4)
        return CovarianceRoot(joined, np.concatenate(parts), np.concatenate(dof), np.concatenate(blocks))

    def _between_factors(self, means: Array) -> Array:
        if self.sizes is None or not self.is_independent:
            return math.sqrt(self._between) * (means - means.mean(axis=-4, keepdims=True))
        # a batch mean has the variance of a unit over its size
        scale = np.sqrt(self.weights / (len(self.counts) - 1))
        center = weighted_sum(self.weights, means, axis=-4)[..., None, :, :, :]
        return _per_unit(scale, means) * (means - center)

    def resample(self, n_resamples: int, rng: np.random.Generator) -> FloatArray:
        """Bootstrap weights, shape (n_resamples, n_units), each row summing to 1.

        Independent units: the ordinary bootstrap. Otherwise blocks and visits are perturbed by
        centred multinomial counts, scaled (as Rao and Wu do) so that the bootstrap variance of a mean
        is the two-stage variance above.
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
    """Numbers `(n,)` along the axis of units of `values` (..., n, c, o, f)."""
    return to_like(numbers[:, None, None, None], values)
