"""Control variates: coefficient, adjusted value, closed sum. Arrays only.

    phi_cv[j] = phi_f[j] - alpha[j] (phi_g[j] - known[j])          (the paper's equation 7)

with alpha the regression of the model's estimate on the surrogates', both taken from one
covariance. Everything is linear in the estimates, so it is done to the roots of the covariance as
well, and the standard errors follow.

Components are the players and, last, the base value; all components together sum to f(x).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlshap._types import FloatArray
from controlshap.strata import Roots

#: A control whose spread is below this share of its own size varies by rounding only.
ROUNDING = 1e-9
#: A share of the variance this close to 1 is never chance.
CERTAIN = 1e-6


@dataclass(frozen=True)
class KnownValues:
    """What is known about surrogates: values and, where simulated, the root of their covariance.

    Attributes
    ----------
    values : ndarray of shape (components, outputs, surrogates)
    roots : Roots
        Of the same trailing shape; empty when the values are exact.
    """

    values: FloatArray
    roots: Roots

    @classmethod
    def exact(cls, values: FloatArray) -> KnownValues:
        """Known values without error."""
        return cls(values, Roots.zero(values.shape))

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
        return cls(values, roots)


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


@dataclass(frozen=True)
class Coefficients:
    """Regression of the model's estimates on the surrogates'.

    Attributes
    ----------
    alpha : ndarray of shape (components, outputs, surrogates)
        Shrunk towards 0 as far as the correlation could be chance.
    squared_correlation : ndarray of shape (components, outputs)
        Anticipated variance reduction, corrected for chance, 0 to 1.
    """

    alpha: FloatArray
    squared_correlation: FloatArray


def regress(covariances: FloatArray, dof: FloatArray, size: FloatArray) -> Coefficients:
    """Coefficients from the covariance between functions.

    Parameters
    ----------
    covariances : ndarray of shape (components, outputs, F, F)
        Model first, then the surrogates.
    dof : ndarray of shape (components, outputs)
        Degrees of freedom of the covariance.
    size : ndarray of shape (outputs, F - 1)
        Size of each surrogate's values; a control that varies by less than rounding is not used
        (0/0: rounding noise looks like a correlation).
    """
    of_model = covariances[..., 0, 0]
    cross = covariances[..., 0, 1:]
    of_controls = covariances[..., 1:, 1:]
    n_controls = cross.shape[-1]
    sd = np.sqrt(np.einsum("...gg->...g", of_controls))
    used = sd > ROUNDING * np.maximum(size, np.finfo(float).tiny)
    inverse_sd = np.where(used, 1.0 / np.where(used, sd, 1.0), 0.0)
    correlation = of_controls * inverse_sd[..., :, None] * inverse_sd[..., None, :]
    scaled_cross = cross * inverse_sd
    # Several surrogates are often almost the same function: the pseudo-inverse splits between them.
    scaled_alpha = np.einsum("...gh,...h->...g", np.linalg.pinv(correlation, rcond=1e-8, hermitian=True), scaled_cross)
    explained = np.einsum("...g,...g->...", scaled_alpha, scaled_cross)
    n_used = used.sum(axis=-1)
    free = np.maximum(dof - n_used, 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip(np.where(of_model > 0, explained / of_model, 0.0), 0.0, 1.0)
        # F = (R^2/k) / ((1-R^2)/free); under no correlation F is about 1, and 1 - 1/F about 0.
        chance = np.where(share > 0, np.maximum(n_used, 1) * (1.0 - share) / (share * free), np.inf)
    keep = np.clip(1.0 - chance, 0.0, 1.0)
    # Too few degrees of freedom to tell a correlation from chance: no control, unless it is the model itself.
    keep = np.where((dof > n_controls + 2) | (share > 1.0 - CERTAIN), keep, 0.0)
    alpha = scaled_alpha * inverse_sd * keep[..., None]
    return Coefficients(alpha, share * keep)


def adjust(estimates: FloatArray, roots: Roots, known: KnownValues, size: FloatArray) -> tuple[Estimate, FloatArray]:
    """Subtract what the surrogates' known errors explain, alpha from the same units.

    Returns the adjusted estimate and the anticipated variance reduction `(components, outputs)`. The
    regression form of the variance is used: residuals with fewer degrees of freedom, times
    `1 + d' C^-1 d / dof` with d the surrogates' error, since alpha was fitted to the same units.
    """
    covariances = roots.function_covariances()
    dof = roots.degrees_of_freedom()[..., 0]
    noise = known.roots.function_covariances()
    total = covariances.copy()
    total[..., 1:, 1:] += noise
    fit = regress(total, dof, size)
    error = estimates[..., 1:] - known.values
    values = estimates[..., 0] - np.einsum("cog,cog->co", fit.alpha, error)
    rows = roots.rows[..., 0] - np.einsum("cog,kcog->kco", fit.alpha, roots.rows[..., 1:])
    n_used = (fit.alpha != 0).sum(axis=-1)
    spread = np.einsum("...gh,...h->...g", np.linalg.pinv(total[..., 1:, 1:], rcond=1e-8, hermitian=True), error)
    distance = np.where(n_used > 0, np.einsum("...g,...g->...", spread, error), 0.0)
    residual = Roots(rows[..., None], roots.group, roots.dof).degrees_of_freedom()[..., 0]
    free = np.maximum(residual - n_used, 1.0)
    with np.errstate(invalid="ignore"):
        lost = np.where(np.isinf(residual), 1.0, residual / free)
        fitted = np.where(np.isinf(residual), 1.0, 1.0 + np.minimum(distance, residual) / residual)
    rows = rows * np.sqrt(lost * fitted)
    known_rows = -np.einsum("cog,kcog->kco", fit.alpha, known.roots.rows)
    return Estimate(values, np.concatenate([rows, known_rows]), free), fit.squared_correlation


def close_sum(estimate: Estimate, total: FloatArray) -> Estimate:
    """Spread the gap between `total` (outputs,) and the sum of the components over the components.

    The best linear correction is by covariance with the sum, `C 1 / (1' C 1)`; with few degrees of
    freedom that is noisy and the plain variances are mixed in. The roots are projected as well, so the
    standard errors are those of the closed values.
    """
    gap = total - estimate.values.sum(axis=0)
    variances = estimate.variances
    n_components = len(variances)
    sums = estimate.rows.sum(axis=1)  # (n_roots, outputs)
    covariance = np.einsum("kco,ko->co", estimate.rows, sums)
    variance_of_sum = np.einsum("ko,ko->o", sums, sums)
    total_variance = variances.sum(axis=0)
    scale = np.maximum(np.abs(estimate.values).max(axis=0), np.abs(total))
    noisy = np.sqrt(variance_of_sum) > ROUNDING * np.maximum(scale, np.finfo(float).tiny)
    by_covariance = covariance / np.where(noisy, variance_of_sum, 1.0)
    by_variance = np.where(
        total_variance > 0, variances / np.where(total_variance > 0, total_variance, 1.0), 1.0 / n_components
    )
    dof = np.where(np.isfinite(estimate.dof), estimate.dof, 1e9).min(axis=0)
    trust = np.where(noisy, dof / (dof + 10.0), 0.0)
    share = trust * by_covariance + (1.0 - trust) * by_variance
    values = estimate.values + share * gap
    rows = estimate.rows - share[None] * sums[:, None]
    return Estimate(values, rows, estimate.dof)
