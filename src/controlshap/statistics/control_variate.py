"""Control variates: adjusted value and closed sum. Arrays only.

    phi_cv[j] = phi_f[j] - alpha[j] (phi_g[j] - known[j])          (the paper's equation 7)

with alpha the regression of the model's estimate on the surrogates', both taken from one
covariance. Everything is linear in the estimates, so it is done to the roots of the covariance as
well, and the standard errors follow.

Components are the players and, last, the base value; all components together sum to f(x).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from controlshap._types import FloatArray
from controlshap.statistics.coefficients import LEAST_LEFT, ROUNDING, Coefficients, extrapolation, regress
from controlshap.statistics.two_stage import Roots


@dataclass(frozen=True)
class KnownValues:
    """What is known about surrogates: values and, where simulated, the root of their covariance.

    Attributes
    ----------
    values : ndarray of shape (components, outputs, surrogates)
    roots : Roots
        Of the same trailing shape; empty when the values are exact.
    priors : ndarray of shape (candidates, surrogates)
        What alpha may be before any correlation is seen: 1 for a function that was fitted to the model. None at all for
        other surrogates.
    inflation : float
        How many times larger than their units show the variance of controlled values is.
    """

    values: FloatArray
    roots: Roots
    priors: FloatArray
    inflation: float = 1.0

    @classmethod
    def exact(cls, values: FloatArray) -> KnownValues:
        """Known values without error, of surrogates that were not fitted."""
        return cls(values, Roots.zero(values.shape), np.zeros((0, values.shape[-1])))

    @classmethod
    def stack(cls, parts: list[KnownValues]) -> KnownValues:
        """Several surrogates' values side by side; their errors are independent."""
        values = np.concatenate([part.values for part in parts], axis=-1)
        roots = Roots.zero(values.shape)
        start = 0
        for part in parts:
            width = part.values.shape[-1]
            rows = np.zeros((len(part.roots.rows), *values.shape))
            rows[..., start : start + width] = part.roots.rows
            roots = roots.join(Roots(rows, part.roots.group, part.roots.dof))
            start += width
        return cls(
            values,
            roots,
            scipy.linalg.block_diag(*(part.priors for part in parts)),
            max(part.inflation for part in parts),
        )


@dataclass(frozen=True)
class Estimate:
    """Values of all components with the root of their covariance, one function.

    Attributes
    ----------
    values : ndarray of shape (components, outputs)
    rows : ndarray of shape (n_roots, components, outputs)
    dof : ndarray of shape (components, outputs)
    """

    values: FloatArray
    rows: FloatArray
    dof: FloatArray

    @property
    def variances(self) -> FloatArray:
        """Squared standard errors, shape (components, outputs)."""
        variances: FloatArray = np.einsum("kco,kco->co", self.rows, self.rows)
        return variances

    @property
    def covariances(self) -> FloatArray:
        """Covariance of the components for each output, shape (outputs, components, components)."""
        covariances: FloatArray = np.einsum("kco,kdo->ocd", self.rows, self.rows, optimize=True)
        return covariances


def adjust(estimates: FloatArray, roots: Roots, known: KnownValues, size: FloatArray) -> tuple[Estimate, Coefficients]:
    """Subtract what the surrogates' known errors explain, alpha from the same units.

    Returns the adjusted estimate and the coefficients. Alpha was fitted to
    the same units, so the variance is in the regression form: `1 + d' C^-1 d / dof` times the residual variance, with
    d the surrogates' error; residuals are those that a unit has when it is left out (the HC3 form) where roots come
    from units, else they lose a degree of freedom for each control.
    """
    by_units = roots.block is not None
    dof = roots.degrees_of_freedom()[..., 0]
    total = roots.function_covariances()
    total[..., 1:, 1:] += known.roots.function_covariances()
    fit = regress(total, dof, size, known.priors, rows=roots.rows if by_units else None)
    error = estimates[..., 1:] - known.values
    values = estimates[..., 0] - np.einsum("cog,cog->co", fit.alpha, error)
    rows = roots.rows[..., 0] - np.einsum("cog,kcog->kco", fit.alpha, roots.rows[..., 1:])
    n_used = (fit.fitted != 0).sum(axis=-1)
    inverse = np.linalg.pinv(total[..., 1:, 1:], rcond=1e-8, hermitian=True)
    residual = Roots(rows[..., None], roots.group, roots.dof).degrees_of_freedom()[..., 0]
    free = np.maximum(residual - n_used, 1.0)
    if by_units:
        controls = roots.rows[..., 1:]
        leverage = np.einsum("kcog,cogh,kcoh->kco", controls, inverse, controls, optimize=True)
        rows = rows / np.maximum(1.0 - np.where(n_used > 0, leverage, 0.0), LEAST_LEFT)
    else:
        with np.errstate(invalid="ignore"):  # inf/inf where there is no variance
            rows = rows * np.sqrt(np.where(np.isinf(residual), 1.0, residual / free))
    left = np.einsum("kco,kco->co", rows, rows)
    rows = rows * np.sqrt(extrapolation(fit.fitted, error, total, residual, left, known.priors))
    rows = rows * np.sqrt(np.where((fit.alpha != 0).any(axis=-1), known.inflation, 1.0))
    known_rows = -np.einsum("cog,kcog->kco", fit.alpha, known.roots.rows)
    return Estimate(values, np.concatenate([rows, known_rows]), free), fit


@dataclass(frozen=True)
class Closing:
    """How a gap between the sum of the components and what it must be is spread.

    Attributes
    ----------
    shares : ndarray of shape (components, outputs)
        Of the gap, summing to 1.
    leverage : ndarray of shape (n_roots, outputs)
        How much each root had to say in the shares.
    """

    shares: FloatArray
    leverage: FloatArray

    def project(self, rows: FloatArray) -> FloatArray:
        """Roots `(n_roots, components, outputs)` of the closed values: each sums to zero."""
        projected: FloatArray = rows - self.shares * rows.sum(axis=1)[:, None]
        return projected


def closing(estimate: Estimate, total: FloatArray) -> Closing:
    """Best spread of a gap between `total` (outputs,) and the sum of the components.

    The best linear correction is by covariance with the sum, `C 1 / (1' C 1)`; with few degrees of freedom that is
    noisy and the plain variances are mixed in.
    """
    variances = estimate.variances
    sums = estimate.rows.sum(axis=1)  # (n_roots, outputs)
    covariance = np.einsum("kco,ko->co", estimate.rows, sums)
    variance_of_sum = np.einsum("ko,ko->o", sums, sums)
    total_variance = variances.sum(axis=0)
    scale = np.maximum(np.abs(estimate.values).max(axis=0), np.abs(total))
    noisy = np.sqrt(variance_of_sum) > ROUNDING * np.maximum(scale, np.finfo(float).tiny)
    divisor = np.where(noisy, variance_of_sum, 1.0)
    by_covariance = covariance / divisor
    varied = total_variance > 0
    # Without any variance a gap is rounding: it goes to the players in equal parts, not to the base value.
    even = np.full(variances.shape, 1.0 / max(1, len(variances) - 1))
    even[-1] = 0.0
    by_variance = np.where(varied, variances / np.where(varied, total_variance, 1.0), even)
    dof = np.where(np.isfinite(estimate.dof), estimate.dof, 1e9).min(axis=0)
    # A gap far outside what the units show of the sum's spread: they are unlike the population, and so is their slope.
    distance = (total - estimate.values.sum(axis=0)) ** 2 / divisor
    trust = np.where(noisy, dof / (dof + 10.0 + distance), 0.0)
    return Closing(trust * by_covariance + (1.0 - trust) * by_variance, trust * sums**2 / divisor)


def close_sum(estimate: Estimate, total: FloatArray) -> Estimate:
    """Make the components sum to `total` (outputs,), and the roots to zero: the errors are those of closed values."""
    spread = closing(estimate, total)
    values = estimate.values + spread.shares * (total - estimate.values.sum(axis=0))
    rows = spread.project(estimate.rows) / np.maximum(1.0 - spread.leverage, LEAST_LEFT)[:, None]
    return Estimate(values, rows, estimate.dof)


def mix(one: Estimate, other: Estimate, part: float) -> Estimate:
    """`1 - part` of one estimate and `part` of another from the same units, root by root."""
    return Estimate(
        (1.0 - part) * one.values + part * other.values, (1.0 - part) * one.rows + part * other.rows, other.dof
    )
