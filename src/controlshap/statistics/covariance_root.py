"""A covariance as its square root: rows whose outer products sum to it. Arrays only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from controlshap._types import FloatArray, IntArray


@dataclass(frozen=True)
class Roots:
    """A covariance as a sum of outer products of `rows`, with the degrees of freedom of each part.

    Everything that is linear in the estimate (subtracting a control, closing the sum) is done to the
    rows; the covariance and its degrees of freedom follow.

    Attributes
    ----------
    rows : ndarray of shape (n_roots, components, outputs, functions)
        The covariance of (c, f) with (d, g) for an output is `sum_k rows[k, c, o, f] rows[k, d, o, g]`.
    group : ndarray of shape (n_roots,)
        Part that each root belongs to.
    dof : ndarray of shape (n_parts,)
        Degrees of freedom of each part.
    block : ndarray of shape (n_roots,) or None
        Block of units that each root comes from, where roots come from units.
    """

    rows: FloatArray
    group: IntArray
    dof: FloatArray
    block: IntArray | None = None

    @classmethod
    def zero(cls, shape: tuple[int, ...]) -> Roots:
        """No variance at all."""
        return cls(np.zeros((0, *shape)), np.zeros(0, dtype=np.int64), np.zeros(0))

    def join(self, other: Roots) -> Roots:
        """The sum of two independent parts; roots of the other belong to no block (-1)."""
        return Roots(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.group, other.group + len(self.dof)]),
            np.concatenate([self.dof, other.dof]),
            None if self.block is None else np.concatenate([self.block, np.full(len(other.rows), -1)]),
        )

    def variances(self) -> FloatArray:
        """Shape of one root."""
        variances: FloatArray = np.einsum("k...,k...->...", self.rows, self.rows)
        return variances

    def function_covariances(self) -> FloatArray:
        """Covariance between functions per component and output, `(components, outputs, F, F)`."""
        covariances: FloatArray = np.einsum("kcof,kcog->cofg", self.rows, self.rows)
        return covariances

    def degrees_of_freedom(self) -> FloatArray:
        """Satterthwaite's degrees of freedom, shape of one root, with the unbiased plug-in.

        `E[V_k^2] = (1 + 2/d_k) E[V_k]^2`, hence d_k + 2 below and - 2 at the end; one part gives back
        its own degrees of freedom. Infinite where the variance is zero.
        """
        shape = self.rows.shape[1:]
        if len(self.dof) == 0:
            return np.full(shape, math.inf)
        if len(self.dof) == 1:
            return np.full(shape, self.dof[0])
        parts = sum_by(self.group, self.rows**2, len(self.dof))
        total = parts.sum(axis=0)
        # shares of the whole: squares of variances leave the range of doubles for outputs beyond 1e77
        shares = parts / np.where(total > 0, total, 1.0)
        spread = np.einsum("k...,k->...", shares**2, 1.0 / (self.dof + 2.0))
        dof = np.where(spread > 0, 1.0 / np.where(spread > 0, spread, 1.0) - 2.0, math.inf)
        result: FloatArray = np.maximum(dof, min(1.0, float(self.dof.min())))
        return result


def sum_by(labels: IntArray, values: FloatArray, n_labels: int) -> FloatArray:
    """Sum `values` (axis 0) over equal labels 0 to n_labels - 1; every label occurs."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(n_labels))
    sums: FloatArray = np.add.reduceat(values[order], starts, axis=0)
    return sums
