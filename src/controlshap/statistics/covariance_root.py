"""A covariance as its square root: factors whose outer products sum to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from controlshap._arrays import Array, at_least, concat, gram, namespace, sum_by, sum_products, to_like, zeros
from controlshap._types import FloatArray, IntArray


@dataclass(frozen=True)
class CovarianceRoot:
    """A covariance as a sum of outer products of factors, with the degrees of freedom of each part.

    Every step that is linear in the estimate (subtracting a control, enforcing efficiency) is applied to the factors;
    the covariance and its degrees of freedom follow.

    Attributes
    ----------
    factors : array of shape (..., n_factors, components, outputs, functions)
        The covariance of (c, f) with (d, g) for an output is `sum_k factors[k, c, o, f] factors[k, d, o, g]`.
    part : ndarray of shape (n_factors,)
        Part that each factor belongs to.
    dof : ndarray of shape (n_parts,)
        Degrees of freedom of each part.
    block : ndarray of shape (n_factors,) or None
        Block of units that each factor comes from, where factors come from units.
    """

    factors: Array
    part: IntArray
    dof: FloatArray
    block: IntArray | None = None

    @classmethod
    def zero(cls, shape: tuple[int, ...]) -> CovarianceRoot:
        """No variance, for estimates of a shape (components, outputs, functions)."""
        return cls.zero_like(np.zeros(shape))

    @classmethod
    def zero_like(cls, estimates: Array) -> CovarianceRoot:
        """No variance, for estimates `(..., components, outputs, functions)`."""
        shape = estimates.shape
        return cls(zeros((*shape[:-3], 0, *shape[-3:]), estimates), np.zeros(0, dtype=np.int64), np.zeros(0))

    def join(self, other: CovarianceRoot) -> CovarianceRoot:
        """The sum of two independent covariances; factors of the other belong to no block (-1)."""
        if not len(other.part):
            return self
        return CovarianceRoot(
            concat([self.factors, other.factors], axis=-4),
            np.concatenate([self.part, other.part + len(self.dof)]),
            np.concatenate([self.dof, other.dof]),
            None if self.block is None else np.concatenate([self.block, np.full(len(other.part), -1)]),
        )

    def variances(self) -> Array:
        """Diagonal of the covariance, `(..., components, outputs, functions)`."""
        return sum_products(self.factors, self.factors, axis=-4)

    def function_covariances(self) -> Array:
        """Covariance between functions for each component and output, `(..., components, outputs, F, F)`."""
        return gram(self.factors)

    def degrees_of_freedom(self) -> Array:
        """Satterthwaite's degrees of freedom, `(..., components, outputs, functions)`, with the unbiased plug-in.

        `E[V_k^2] = (1 + 2/d_k) E[V_k]^2`, hence d_k + 2 in the sum and - 2 at the end; a single part keeps its own
        degrees of freedom. Infinite where the variance is zero.
        """
        xp, shape = namespace(self.factors), self.factors.shape
        if len(self.dof) < 2:
            return zeros((*shape[:-4], *shape[-3:]), self.factors) + (self.dof[0] if len(self.dof) else math.inf)
        parts = sum_by(self.part, self.factors**2, len(self.dof), axis=-4)
        total = parts.sum(axis=-4, keepdims=True)
        # shares of the total, since squares of variances overflow for outputs beyond 1e77
        shares = parts / xp.where(total > 0, total, 1.0)
        of_part = to_like((1.0 / (self.dof + 2.0))[:, None, None, None], parts)
        spread = sum_products(shares**2, of_part, axis=-4)
        dof = xp.where(spread > 0, 1.0 / xp.where(spread > 0, spread, 1.0) - 2.0, math.inf)
        return at_least(dof, min(1.0, float(self.dof.min())))

    def degrees_of_freedom_of(self, factors: Array) -> Array:
        """Degrees of freedom `(..., components, outputs)` of one function's factors in the same parts."""
        return replace(self, factors=factors[..., None]).degrees_of_freedom()[..., 0]
