"""Variance within blocks where some units are followed by their reverse at the same block.

Let a and b be the estimates of a block's value from a unit and from its reverse. Both are unbiased with variance V.
Their mean has variance P, which blocks with two pairs show. Half their difference has mean 0 and mean square D, which
all pairs show, and

    V = P + D

since a is their mean plus half their difference, and these two are uncorrelated: `cov(a + b, a - b) = V - V`. The mean
of a block with c pairs and s single units in v = 2 c + s visits therefore has variance `((4 c + s) P + s D) / v^2`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from controlshap._arrays import Array, sum_by, take, to_like
from controlshap._types import FloatArray, IntArray


@dataclass(frozen=True)
class ReversedPairs:
    """Pairs of a unit and its reverse: the first units, two by two.

    Attributes
    ----------
    block : ndarray of shape (n_pairs,)
        Block of each pair.
    visits : ndarray of shape (m,)
        Units of each block, among them those of pairs.
    """

    block: IntArray
    visits: IntArray

    @property
    def of_blocks(self) -> IntArray:
        """Pairs of each block."""
        return np.bincount(self.block, minlength=len(self.visits))

    def factors_within(self, values: Array, weights: FloatArray) -> list[tuple[Array, IntArray, FloatArray, IntArray]]:
        """Factors of `sum_b weights_b var(mean of block b)`, with their part, degrees of freedom of parts, and block.

        `values` are those of units `(..., n, c, o, f)`. Empty while no block has two pairs.
        """
        twice = np.flatnonzero((self.of_blocks >= 2)[self.block])
        if not len(twice):
            return []
        means, halves = self._split(values)
        of_pairs, of_halves = self._coefficients(weights)
        lenders, part = np.unique(self.block[twice], return_inverse=True)
        centers = sum_by(part, take(means, twice, axis=-4), len(lenders), axis=-4)
        counts = np.bincount(part)
        centers = centers / to_like(counts[:, None, None, None], centers)
        apart = take(means, twice, axis=-4) - take(centers, part, axis=-4)
        free = counts - 1.0
        found = [(math.sqrt(of_pairs / free.sum()) * apart, part.reshape(-1), free, self.block[twice])]
        if of_halves > 0.0:
            n = len(self.block)
            apart = math.sqrt(of_halves / (n - 1)) * (halves - halves.mean(axis=-4, keepdims=True))
            found.append((apart, np.zeros(n, dtype=np.int64), np.array([n - 1.0]), self.block))
        return found

    def noise_within(self, values: Array, weights: FloatArray) -> Array:
        """`sum_b weights_b var(mean of block b)`, `(..., c, o, f)`."""
        found = [(part**2).sum(axis=-4) for part, _, _, _ in self.factors_within(values, weights)]
        return sum(found[1:], found[0]) if found else 0.0 * values.sum(axis=-4)

    def _split(self, values: Array) -> tuple[Array, Array]:
        """Means of pairs, and half their differences."""
        n = 2 * len(self.block)
        first, second = values[..., 0:n:2, :, :, :], values[..., 1:n:2, :, :, :]
        return 0.5 * (first + second), 0.5 * (first - second)

    def _coefficients(self, weights: FloatArray) -> tuple[float, float]:
        """Coefficients of P and D in the sum."""
        pairs, visits = self.of_blocks, self.visits.astype(float)
        single = visits - 2.0 * pairs
        each = weights / visits**2
        return float((each * (4.0 * pairs + single)).sum()), float((each * single).sum())
