"""Control variates: adjusted values, and values that sum to f(x).

    phi_cv[j] = phi_f[j] - alpha[j] (phi_g[j] - known[j])          (the paper's equation 7)

with alpha from the regression of the model's estimate on the surrogates', both taken from one covariance. Everything is
linear in the estimates, so it is done to the factors of the covariance as well, and the standard errors follow.

Components are the players and, last, the base value; all components together sum to f(x). Arrays may have leading axes
for explained rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from controlshap._arrays import (
    TINY,
    Array,
    at_least,
    concat,
    diagonal,
    namespace,
    pseudo_inverse,
    quadratic_form,
    sum_products,
    zeros,
)
from controlshap._types import FloatArray
from controlshap.statistics.coefficients import LEAST_LEFT, ROUNDING, Coefficients, extrapolation, regress
from controlshap.statistics.covariance_root import CovarianceRoot

#: Degrees of freedom at which the covariance with the sum and the plain variances have equal weight in how a gap is
#: spread (docs/mathematics.md, section 8, "Closing the sum").
EVEN_DOF = 10.0


@dataclass(frozen=True)
class KnownValues:
    """Known values of surrogates and, where they were simulated, the root of their covariance.

    Attributes
    ----------
    values : array of shape (..., components, outputs, surrogates)
    root : CovarianceRoot
        Of the same trailing shape; empty when the values are exact.
    priors : ndarray of shape (candidates, surrogates)
        Candidates for alpha before any correlation is seen: 1 for a function that was fitted to the model, no
        candidate for other surrogates.
    inflation : float
        Factor by which the variance of controlled values exceeds what their units show.
    shared : bool
        Whether the same simulation serves all rows, so that the errors of known values do not average out.
    """

    values: Array
    root: CovarianceRoot
    priors: FloatArray
    inflation: float = 1.0
    shared: bool = False

    @classmethod
    def exact(cls, values: Array) -> KnownValues:
        """Known values without error, of surrogates that were not fitted."""
        return cls(values, CovarianceRoot.zero_like(values), np.zeros((0, values.shape[-1])))

    @classmethod
    def stack(cls, parts: list[KnownValues]) -> KnownValues:
        """Several surrogates' values side by side; their errors are independent."""
        values = concat([part.values for part in parts], axis=-1)
        root = CovarianceRoot.zero_like(values)
        start = 0
        for part in parts:
            width = part.values.shape[-1]
            own = part.root.factors
            factors = zeros((*own.shape[:-1], values.shape[-1]), own)
            factors[..., start : start + width] = own
            root = root.join(CovarianceRoot(factors, part.root.part, part.root.dof))
            start += width
        return cls(
            values,
            root,
            scipy.linalg.block_diag(*(part.priors for part in parts)),
            max(part.inflation for part in parts),
            any(part.shared for part in parts),
        )


@dataclass(frozen=True)
class Estimate:
    """Values of all components with the root of their covariance, one function.

    Attributes
    ----------
    values : array of shape (..., components, outputs)
    factors : array of shape (..., n_factors, components, outputs)
    dof : array of shape (..., components, outputs)
    allowance : array of shape (..., components, outputs) or None
        Variances of independent errors beside the factors; None for none.
    """

    values: Array
    factors: Array
    dof: Array
    allowance: Array | None = None

    @property
    def variances(self) -> Array:
        """Squared standard errors, shape (..., components, outputs)."""
        of_factors = sum_products(self.factors, self.factors, axis=-3)
        return of_factors if self.allowance is None else of_factors + self.allowance

    @property
    def covariances(self) -> Array:
        """Covariance of the components for each output, shape (..., outputs, components, components)."""
        if isinstance(self.factors, np.ndarray):
            covariances = np.einsum("...kco,...kdo->...ocd", self.factors, self.factors, optimize=True)
        else:
            by_output = self.factors.movedim(-1, -3)
            covariances = by_output.swapaxes(-1, -2) @ by_output
        if self.allowance is not None:
            variances = diagonal(covariances)
            variances += self.allowance.swapaxes(-1, -2)
        return covariances


def adjust(estimates: Array, root: CovarianceRoot, known: KnownValues, size: Array) -> tuple[Estimate, Coefficients]:
    """Subtract what the surrogates' known errors explain, with alpha from the same units.

    Returns the adjusted estimate and the coefficients. Since alpha was fitted to the same units, the variance is that
    of a regression: `1 + d' C^-1 d / dof` times the residual variance, with d the surrogates' error. Where factors
    come from units, the residual of a unit is that of a fit without it (the HC3 form); else residuals lose a degree of
    freedom for each control.
    """
    xp, by_units = namespace(estimates), root.block is not None
    total = root.function_covariances()
    total[..., 1:, 1:] += known.root.function_covariances()
    dof = root.degrees_of_freedom_of(root.factors[..., 0])
    fit = regress(total, dof, size, known.priors, factors=root.factors if by_units else None)
    error = estimates[..., 1:] - known.values
    values = estimates[..., 0] - sum_products(fit.alpha, error, axis=-1)
    controls, alpha = root.factors[..., 1:], fit.alpha[..., None, :, :, :]
    factors = root.factors[..., 0] - sum_products(alpha, controls, axis=-1)
    n_used = (fit.fitted != 0).sum(axis=-1)
    residual = root.degrees_of_freedom_of(factors)
    free = at_least(residual - n_used, 1.0)
    if by_units:
        if xp is not np or n_used.any():
            inverse = pseudo_inverse(total[..., 1:, 1:])[..., None, :, :, :, :]
            leverage = xp.where((n_used > 0)[..., None, :, :], quadratic_form(controls, inverse), 0.0)
            factors = factors / at_least(1.0 - leverage, LEAST_LEFT)
    else:
        varied = xp.isfinite(residual)
        lost = xp.where(varied, xp.where(varied, residual, 1.0) / free, 1.0)
        factors = factors * xp.sqrt(lost)[..., None, :, :]
    left = sum_products(factors, factors, axis=-3)
    factor = xp.sqrt(extrapolation(fit.fitted, error, total, residual, left, known.priors))
    factors = factors * factor[..., None, :, :]
    if known.inflation != 1.0:
        inflation = zeros(values.shape, values) + known.inflation
        factor = xp.sqrt(xp.where((fit.alpha != 0).any(axis=-1), inflation, 1.0))
        factors = factors * factor[..., None, :, :]
    of_known = -sum_products(alpha, known.root.factors, axis=-1)
    return Estimate(values, concat([factors, of_known], axis=-3), free), fit


def project(factors: Array, shares: Array) -> Array:
    """Factors `(..., n_factors, components, outputs)` of values whose gap was spread: each sums to zero."""
    return factors - shares * factors.sum(axis=-2)[..., None, :]


def efficiency_shares(estimate: Estimate, total: Array) -> tuple[Array, Array]:
    """Shares `(..., components, outputs)` of the gap between `total` (..., outputs) and the sum of the components.

    They sum to 1. The best linear correction is by covariance with the sum, `C 1 / (1' C 1)`; with few degrees of
    freedom that is noisy, and the plain variances are mixed in. Returns the leverage `(..., n_factors, outputs)` of
    each factor in them, too.
    """
    xp = namespace(estimate.values)
    values, variances = estimate.values, estimate.variances
    sums = estimate.factors.sum(axis=-2)  # (..., n_factors, outputs)
    covariance = sum_products(estimate.factors, sums[..., None, :], axis=-3)
    variance_of_sum = sum_products(sums, sums, axis=-2)
    total_variance = variances.sum(axis=-2)
    scale = xp.maximum(xp.amax(xp.abs(values), axis=-2), xp.abs(total))
    noisy = xp.sqrt(variance_of_sum) > ROUNDING * at_least(scale, TINY)
    divisor = xp.where(noisy, variance_of_sum, 1.0)
    by_covariance = covariance / divisor[..., None, :]
    varied = (total_variance > 0)[..., None, :]
    # Without any variance the gap is rounding: it goes to the players in equal parts, not to the base value.
    even = zeros(variances.shape, variances)
    even[..., :-1, :] = 1.0 / max(1, variances.shape[-2] - 1)
    by_variance = xp.where(varied, variances / xp.where(varied, total_variance[..., None, :], 1.0), even)
    dof = xp.amin(xp.where(xp.isfinite(estimate.dof), estimate.dof, 1e9), axis=-2)
    # A gap far beyond the spread of the sum that the units show: they are unlike the population, and so is their slope.
    distance = (total - values.sum(axis=-2)) ** 2 / divisor
    trust = xp.where(noisy, dof / (dof + EVEN_DOF + distance), 0.0)[..., None, :]
    return trust * by_covariance + (1.0 - trust) * by_variance, trust * sums**2 / divisor[..., None, :]


def enforce_efficiency(estimate: Estimate, total: Array) -> Estimate:
    """Make the components sum to `total` (..., outputs), and the factors to zero."""
    shares, leverage = efficiency_shares(estimate, total)
    values = estimate.values + shares * (total - estimate.values.sum(axis=-2))[..., None, :]
    left = at_least(1.0 - leverage, LEAST_LEFT)[..., None, :]
    return Estimate(values, project(estimate.factors, shares[..., None, :, :]) / left, estimate.dof)


def combine(first: Estimate, second: Estimate, part: float) -> Estimate:
    """`1 - part` of one estimate and `part` of another, independent one."""
    one, other = first.variances, second.variances
    allowances = [
        np.zeros_like(one) if estimate.allowance is None else estimate.allowance for estimate in (first, second)
    ]
    of_first, of_second = (1.0 - part) ** 2 * one, part**2 * other
    whole = of_first + of_second
    # Welch and Satterthwaite
    spread = of_first**2 / first.dof + of_second**2 / second.dof
    dof = np.where(spread > 0, whole**2 / np.where(spread > 0, spread, 1.0), np.inf)
    return Estimate(
        (1.0 - part) * first.values + part * second.values,
        np.concatenate([(1.0 - part) * first.factors, part * second.factors]),
        dof,
        (1.0 - part) ** 2 * allowances[0] + part**2 * allowances[1],
    )


def mix(first: Estimate, second: Estimate, part: float) -> Estimate:
    """`1 - part` of one estimate and `part` of another from the same units, factor by factor."""
    return Estimate(
        (1.0 - part) * first.values + part * second.values,
        (1.0 - part) * first.factors + part * second.factors,
        second.dof,
    )
