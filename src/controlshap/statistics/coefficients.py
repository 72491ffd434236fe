"""Coefficients of control variates: how much of the controls' known error is subtracted. Arrays only.

The regression of the model's estimate on the surrogates', from one covariance; shrunk as far as it could be chance, and
for functions that were fitted to the model a bounded correction to a prior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlshap._types import BoolArray, FloatArray

#: A control whose spread is below this share of its own size varies by rounding only.
ROUNDING = 1e-9
#: A share of the variance this close to 1 is never chance.
CERTAIN = 1e-6
#: How many times the expectation under no correlation an F statistic must be for the control to count at all.
CHANCE = 2.0
#: Degrees of freedom below which a prior for alpha is not changed.
PRIOR_DOF = 80.0
#: Largest correction to a prior.
MOST_CORRECTION = 1.0
#: One minus the leverage of a unit is taken to be at least this.
LEAST_LEFT = 0.1


@dataclass(frozen=True)
class Coefficients:
    """Regression of the model's estimates on the surrogates'.

    Attributes
    ----------
    alpha : ndarray of shape (components, outputs, surrogates)
        Shrunk towards 0 as far as the correlation could be chance.
    squared_correlation : ndarray of shape (components, outputs)
        Anticipated variance reduction, corrected for chance, 0 to 1.
    fitted : ndarray of the shape of `alpha`
        The part of alpha that was fitted, beyond a prior.
    """

    alpha: FloatArray
    squared_correlation: FloatArray
    fitted: FloatArray


def regress(
    covariances: FloatArray, dof: FloatArray, size: FloatArray, priors: FloatArray, rows: FloatArray | None = None
) -> Coefficients:
    """Coefficients from the covariance between functions: the best prior, and what the correlation adds to it.

    The prior that leaves the least variance in all components together is taken, or none; the regression then starts
    from there, and is shrunk towards it. Other arguments as for `_regress`.
    """
    whole, shifted = covariances[..., 0, 0], covariances
    offset = np.zeros((*whole.shape, covariances.shape[-1] - 1))
    if len(priors):
        offset = _best_prior(covariances, size, priors)
        change = np.zeros(covariances.shape)
        change[...] = np.eye(covariances.shape[-1])
        change[..., 0, 1:] = -offset
        shifted = change @ covariances @ change.swapaxes(-1, -2)
        if rows is not None:
            moved = rows[..., 0] - np.einsum("...cog,...kcog->...kco", offset, rows[..., 1:])
            rows = np.concatenate([moved[..., None], rows[..., 1:]], axis=-1)
    # With a good prior there is little to gain from few units, and a chance correlation to lose much from.
    least = PRIOR_DOF if len(priors) else 0.0
    dof = np.where(np.isfinite(dof), dof, 0.0)  # infinite where the model shows no variance: nothing to learn from
    fit = _bounded(_regress(shifted, dof, size, rows, least, certain=not len(priors)), priors)
    left = shifted[..., 0, 0] * (1.0 - fit.squared_correlation)
    reduction = np.where(whole > 0, 1.0 - left / np.where(whole > 0, whole, 1.0), 0.0)
    return Coefficients(offset + fit.alpha, np.clip(reduction, 0.0, 1.0), fit.alpha)


def _bounded(fit: Coefficients, priors: FloatArray) -> Coefficients:
    """A correction to the prior of a function that was fitted to the model: at most `MOST_CORRECTION`.

    Such a function is about as large as the model. A multiple of it comes from a few units in which, by chance, it
    hardly varied, and rare rows in the fold that it is used for would be multiplied as well.
    """
    has_prior = priors.any(axis=0)
    if not has_prior.any():
        return fit
    largest = np.abs(np.where(has_prior, fit.alpha, 0.0)).max(axis=-1)
    scale = MOST_CORRECTION / np.maximum(largest, MOST_CORRECTION)
    alpha = fit.alpha * scale[..., None]
    # of the variance that the whole coefficient explains, a part s of it explains s (2 - s)
    return Coefficients(alpha, fit.squared_correlation * scale * (2.0 - scale), alpha)


def _best_prior(covariances: FloatArray, size: FloatArray, priors: FloatArray) -> FloatArray:
    """The prior `(..., components, outputs, surrogates)` of the least variance, 0 for outputs that none helps."""
    # A control that varies in no component (what a complete pass cancels) has no business in the prior either.
    varies = _varies(covariances, size).any(axis=-3, keepdims=True)
    offsets = priors.reshape(-1, *[1] * (covariances.ndim - 2), priors.shape[1]) * np.where(varies, 1.0, 0.0)
    offsets = np.broadcast_to(offsets, (len(priors), *covariances.shape[:-2], priors.shape[1]))
    combined = np.concatenate([np.ones((*offsets.shape[:-1], 1)), -offsets], axis=-1)
    left = np.einsum("m...f,...fg,m...g->m...", combined, covariances, combined)
    pooled = left.sum(axis=-2, keepdims=True)
    best = pooled.argmin(axis=0, keepdims=True)
    # For all components or none: where one shows no noise at all without control, it may only not have met any yet.
    helps = np.take_along_axis(pooled, best, axis=0)[0] < covariances[..., 0, 0].sum(axis=-2, keepdims=True)
    return np.where(helps[..., None], np.take_along_axis(offsets, best[..., None], axis=0)[0], 0.0)


def _regress(
    covariances: FloatArray,
    dof: FloatArray,
    size: FloatArray,
    rows: FloatArray | None,
    least_dof: float,
    *,
    certain: bool,
) -> Coefficients:
    """Coefficients shrunk towards 0.

    Parameters
    ----------
    covariances : ndarray of shape (components, outputs, F, F)
        Model first, then the surrogates.
    dof : ndarray of shape (components, outputs)
        Degrees of freedom of the covariance.
    size : ndarray of shape (outputs, F - 1)
        Size of each surrogate's values; a control that varies by less than rounding is not used
        (0/0: rounding noise looks like a correlation).
    rows : ndarray of shape (n_roots, components, outputs, F), optional
        Roots that come from units: the coefficient is then kept only as far as it predicts units that are left out
        (a correlation made by one outlier does not).
    least_dof : float
        Degrees of freedom below which only a control that is the model itself is used.
    certain : bool
        Whether a control may be the model itself.
    """
    of_model = covariances[..., 0, 0]
    cross = covariances[..., 0, 1:]
    of_controls = covariances[..., 1:, 1:]
    n_controls = cross.shape[-1]
    sd = np.sqrt(np.einsum("...gg->...g", of_controls))
    used = _varies(covariances, size)
    inverse_sd = np.where(used, 1.0 / np.where(used, sd, 1.0), 0.0)
    correlation = of_controls * inverse_sd[..., :, None] * inverse_sd[..., None, :]
    # Several surrogates are often almost the same function: the pseudo-inverse splits between them.
    inverse = np.linalg.pinv(correlation, rcond=1e-8, hermitian=True)
    scaled_cross = cross * inverse_sd
    scaled_alpha = np.einsum("...gh,...h->...g", inverse, scaled_cross)
    explained = np.einsum("...g,...g->...", scaled_alpha, scaled_cross)
    n_used = used.sum(axis=-1)
    free = np.maximum(dof - n_used, 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip(np.where(of_model > 0, explained / of_model, 0.0), 0.0, 1.0)
        # F = (R^2/k) / ((1-R^2)/free); under no correlation F is about 1, and CHANCE/F above 1.
        chance = np.where(share > 0, np.maximum(n_used, 1) * (1.0 - share) / (share * free), np.inf)
    keep = np.clip(1.0 - CHANCE * chance, 0.0, 1.0)
    alpha = scaled_alpha * inverse_sd
    if rows is not None:
        keep = np.minimum(keep, _predictive_share(rows, alpha, inverse, inverse_sd) / np.maximum(share, 1e-300))
    # Too few degrees of freedom to tell a correlation from chance: no control, unless it is the model itself.
    is_model = (share > 1.0 - CERTAIN) & (dof > 0.0) & _many_roots(rows, n_controls) & certain
    keep = np.where(is_model, 1.0, np.where(dof > max(n_controls + 2, least_dof), np.clip(keep, 0.0, 1.0), 0.0))
    kept = alpha * keep[..., None]
    return Coefficients(kept, share * keep, kept)


def _many_roots(rows: FloatArray | None, n_controls: int) -> BoolArray | bool:
    """Whether more roots vary than could be fitted without error by that many controls."""
    if rows is None:
        return True
    squares = rows[..., 0] ** 2
    total, spread = squares.sum(axis=-3), (squares**2).sum(axis=-3)
    return np.asarray(total**2 > (n_controls + 1.0) * spread)


def _varies(covariances: FloatArray, size: FloatArray) -> BoolArray:
    """Whether each control varies by more than rounding, shape (..., surrogates)."""
    sd = np.sqrt(np.einsum("...gg->...g", covariances[..., 1:, 1:]))
    return np.asarray(sd > ROUNDING * np.maximum(size, np.finfo(float).tiny))


def _predictive_share(rows: FloatArray, alpha: FloatArray, inverse: FloatArray, inverse_sd: FloatArray) -> FloatArray:
    """1 - PRESS / total: the share of the variance that is predicted for roots left out, 1 at most."""
    residual = rows[..., 0] - np.einsum("...cog,...kcog->...kco", alpha, rows[..., 1:])
    scaled = rows[..., 1:] * inverse_sd[..., None, :, :, :]
    leverage = np.einsum("...kcog,...kcog->...kco", np.einsum("...kcog,...cogh->...kcoh", scaled, inverse), scaled)
    left_out = residual / np.maximum(1.0 - leverage, LEAST_LEFT)
    total = np.einsum("...kco,...kco->...co", rows[..., 0], rows[..., 0])
    press = np.einsum("...kco,...kco->...co", left_out, left_out)
    return np.where(total > 0, 1.0 - press / np.where(total > 0, total, 1.0), 0.0)


def extrapolation(
    alpha: FloatArray, error: FloatArray, covariances: FloatArray, dof: FloatArray, left: FloatArray, priors: FloatArray
) -> FloatArray:
    """`1 + d' C^-1 d / dof`: what the variance gains because a fitted alpha is multiplied by the error d.

    Where the surrogates' error is far outside what the units show of their spread (rows that matter are rare and were
    not met), this is large: the sample is known to be unlike the population. A correction to a prior is at most
    `MOST_CORRECTION`, and what it adds to the variance `left` (components, outputs) at most d squared times that.
    """
    inverse = np.linalg.pinv(covariances[..., 1:, 1:], rcond=1e-8, hermitian=True)
    distance = np.maximum(np.einsum("...g,...gh,...h->...", error, inverse, error), 0.0)
    used = (alpha != 0).any(axis=-1) & np.isfinite(dof)
    gain = np.minimum(distance, dof**2) / np.where(used, dof, 1.0)
    bounded = np.broadcast_to(priors.any(axis=0), error.shape)
    most = np.where(alpha == 0, 0.0, np.where(bounded, (MOST_CORRECTION * error) ** 2, np.inf)).sum(axis=-1)
    gain = np.where(most < gain * left, most / np.where(left > 0, left, 1.0), gain)
    factor: FloatArray = np.where(used, 1.0 + gain, 1.0)
    return factor
