"""Coefficients of control variates: how much of the controls' known error is subtracted.

The regression of the model's estimate on the surrogates', from one covariance; shrunk as far as it could be chance, and
for functions that were fitted to the model a bounded correction to a prior (docs/mathematics.md, sections 8 and 12).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlshap._arrays import (
    TINY,
    Array,
    at_least,
    concat,
    namespace,
    pseudo_inverse,
    quadratic_form,
    sum_products,
    to_like,
    zeros,
)
from controlshap._types import FloatArray

#: A control whose spread is below this share of its own size varies by rounding only: doubles are rounded to 1e-16 of
#: their size, and differences between means of many doubles to some thousand times that.
ROUNDING = 1e-9
#: A share of the variance this close to 1 is never chance: without correlation 1 - R^2 is below e with probability
#: e^((dof - 1)/2), a millionth with as few as three degrees of freedom.
CERTAIN = 1e-6
#: How many times its expectation under no correlation (about 1) an F statistic must be for the control to count at all.
#: A coefficient is multiplied by 1 - CHANCE/F, so that a useless control is left out more often than not (section 8).
CHANCE = 2.0
#: Degrees of freedom below which a prior for alpha is not changed (section 12; benchmarks/results/rare_rows.md).
PRIOR_DOF = 80.0
#: Largest correction to a prior: a function that was fitted to the model is about as large as the model (section 12).
MOST_CORRECTION = 1.0
#: One minus the leverage of a unit is taken to be at least this, so that no unit's residual counts more than tenfold
#: (section 8).
LEAST_LEFT = 0.1


@dataclass(frozen=True)
class Coefficients:
    """Regression of the model's estimates on the surrogates'.

    Attributes
    ----------
    alpha : array of shape (..., components, outputs, surrogates)
        Shrunk towards 0 as far as the correlation could be chance.
    squared_correlation : array of shape (..., components, outputs)
        Expected variance reduction, corrected for chance, 0 to 1.
    fitted : array of the shape of `alpha`
        The part of alpha that was fitted, beyond a prior.
    """

    alpha: Array
    squared_correlation: Array
    fitted: Array


def regress(
    covariances: Array, dof: Array, size: Array, priors: FloatArray, factors: Array | None = None
) -> Coefficients:
    """Coefficients from the covariance between functions: the best prior, and what the correlation adds to it.

    The prior that leaves the least variance in all components together is taken, or none; the regression starts from
    it and is shrunk towards it. Functions that were fitted to other units and help at no prior are left out: what they
    predict of units that they do not know then goes against these by construction (section 12).

    Parameters
    ----------
    covariances : array of shape (..., components, outputs, F, F)
        Model first, then the surrogates.
    dof : array of shape (..., components, outputs)
        Degrees of freedom of the covariance.
    size : array that broadcasts to (..., components, outputs, F - 1)
        Size of each surrogate's values; a control that varies by no more than rounding is not used, since rounding
        errors look correlated.
    priors : ndarray of shape (candidates, F - 1)
        Candidates for alpha before any correlation is seen.
    factors : array of shape (..., n_factors, components, outputs, F), optional
        Of the covariance, where they come from units: a coefficient is then kept only as far as it predicts units that
        are left out, which a correlation due to a single outlier does not.
    """
    xp = namespace(covariances)
    whole, shifted = covariances[..., 0, 0], covariances
    offset = zeros((*whole.shape, covariances.shape[-1] - 1), covariances)
    if len(priors):
        offset = _best_prior(covariances, size, priors)
        change = zeros(covariances.shape, covariances) + to_like(np.eye(covariances.shape[-1]), covariances)
        change[..., 0, 1:] = -offset
        shifted = change @ covariances @ change.swapaxes(-1, -2)
        if factors is not None:
            moved = factors[..., 0] - sum_products(offset[..., None, :, :, :], factors[..., 1:], axis=-1)
            factors = concat([moved[..., None], factors[..., 1:]], axis=-1)
        useless = to_like(priors.any(axis=0), offset) * xp.where(offset.any(axis=-1)[..., None], 0.0, 1.0) > 0
        size = xp.where(useless, np.inf, size)
    dof = xp.where(xp.isfinite(dof), dof, 0.0)  # infinite where the model shows no variance: nothing to learn from
    fit = _bound_correction(_regress(shifted, dof, size, factors, fitted_before=bool(len(priors))), priors)
    left = shifted[..., 0, 0] * (1.0 - fit.squared_correlation)
    reduction = xp.where(whole > 0, 1.0 - left / xp.where(whole > 0, whole, 1.0), 0.0)
    return Coefficients(offset + fit.alpha, xp.clip(reduction, 0.0, 1.0), fit.alpha)


def _bound_correction(fit: Coefficients, priors: FloatArray) -> Coefficients:
    """Bound the correction to the prior of a function that was fitted to the model by `MOST_CORRECTION`.

    A larger one comes from a few units in which the function hardly varied by chance, and would multiply rare rows in
    the fold that it is applied to as well.
    """
    has_prior = priors.any(axis=0)
    if not has_prior.any():
        return fit
    xp = namespace(fit.alpha)
    largest = xp.amax(xp.abs(xp.where(to_like(has_prior, fit.alpha), fit.alpha, 0.0)), axis=-1)
    scale = MOST_CORRECTION / at_least(largest, MOST_CORRECTION)
    alpha = fit.alpha * scale[..., None]
    # of the variance that the whole coefficient explains, a part s of it explains s (2 - s)
    return Coefficients(alpha, fit.squared_correlation * scale * (2.0 - scale), alpha)


def _best_prior(covariances: Array, size: Array, priors: FloatArray) -> Array:
    """The prior `(..., components, outputs, surrogates)` of the least variance, 0 for outputs without a helpful one."""
    xp = namespace(covariances)
    # A control that varies in no component (what a complete pass cancels) is left out of the prior, too.
    varies = _varies(covariances, size).any(axis=-3, keepdims=True)
    candidates = to_like(priors.reshape(-1, *[1] * (covariances.ndim - 2), priors.shape[1]), covariances)
    offsets = candidates * xp.where(varies, 1.0, 0.0)
    offsets = xp.broadcast_to(offsets, (len(priors), *covariances.shape[:-2], priors.shape[1]))
    combined = concat([xp.ones_like(offsets[..., :1]), -offsets], axis=-1)
    left = xp.einsum("m...f,...fg,m...g->m...", combined, covariances, combined)
    pooled = left.sum(axis=-2, keepdims=True)
    best = pooled.argmin(axis=0, keepdims=True)
    along = xp.take_along_axis if xp is np else xp.take_along_dim
    # For all components or none: a component that shows no noise without control may simply not have met any yet.
    helps = along(pooled, best, 0)[0] < covariances[..., 0, 0].sum(axis=-2, keepdims=True)
    return xp.where(helps[..., None], along(offsets, best[..., None], 0)[0], 0.0)


def _regress(
    covariances: Array, dof: Array, size: Array, factors: Array | None, *, fitted_before: bool
) -> Coefficients:
    """Coefficients shrunk towards 0; with `fitted_before` there was a prior, which explains most of the variance.

    With a good prior few units can add little, and a chance correlation can spoil much; and what the prior leaves of
    the model is never the control itself.
    """
    xp = namespace(covariances)
    of_model = covariances[..., 0, 0]
    cross = covariances[..., 0, 1:]
    of_controls = covariances[..., 1:, 1:]
    n_controls = cross.shape[-1]
    least_dof = max(n_controls + 2, PRIOR_DOF if fitted_before else 0.0)
    if fitted_before and xp is np and not (dof > least_dof).any():
        return Coefficients(np.zeros(cross.shape), np.zeros(of_model.shape), np.zeros(cross.shape))
    used = _varies(covariances, size)
    inverse_sd = xp.where(used, 1.0 / xp.where(used, _deviations(covariances), 1.0), 0.0)
    correlation = of_controls * inverse_sd[..., :, None] * inverse_sd[..., None, :]
    # Several surrogates are often almost the same function: the pseudo-inverse splits between them.
    inverse = pseudo_inverse(correlation)
    scaled_cross = cross * inverse_sd
    scaled_alpha = sum_products(inverse, scaled_cross[..., None, :], axis=-1)
    explained = sum_products(scaled_alpha, scaled_cross, axis=-1)
    n_used = used.sum(axis=-1)
    varied = of_model > 0
    share = xp.clip(xp.where(varied, explained / xp.where(varied, of_model, 1.0), 0.0), 0.0, 1.0)
    alpha = scaled_alpha * inverse_sd
    keep = _kept_by_chance(share, n_used, at_least(dof - n_used, 0.5))
    enough: Array = True
    if factors is not None:
        predictive = _predictive_share(factors, alpha, inverse, inverse_sd)
        keep = xp.minimum(keep, predictive / at_least(share, 1e-300))
        enough = _many_factors(factors, n_controls)
    # Too few degrees of freedom to tell a correlation from chance: no control, unless it is the model itself.
    is_model = (share > 1.0 - CERTAIN) & (dof > 0.0) & enough & (not fitted_before)
    keep = xp.where(is_model, 1.0, xp.where(dof > least_dof, xp.clip(keep, 0.0, 1.0), 0.0))
    kept = alpha * keep[..., None]
    return Coefficients(kept, share * keep, kept)


def _kept_by_chance(share: Array, n_used: Array, free: Array) -> Array:
    """`1 - CHANCE / F` between 0 and 1, with F = (R^2/k) / ((1-R^2)/free), about 1 under no correlation."""
    xp = namespace(share)
    explains = share > 0
    inverse_f = at_least(n_used, 1) * (1.0 - share) / xp.where(explains, share * free, 1.0)
    return xp.clip(1.0 - CHANCE * xp.where(explains, inverse_f, np.inf), 0.0, 1.0)


def _many_factors(factors: Array, n_controls: int) -> Array:
    """Whether more factors vary than could be fitted without error by that many controls."""
    squares = factors[..., 0] ** 2
    total, spread = squares.sum(axis=-3), (squares**2).sum(axis=-3)
    return total**2 > (n_controls + 1.0) * spread


def _deviations(covariances: Array) -> Array:
    """Standard deviations of the controls, `(..., surrogates)`."""
    xp = namespace(covariances)
    return xp.sqrt(xp.einsum("...gg->...g", covariances[..., 1:, 1:]))


def _varies(covariances: Array, size: Array) -> Array:
    """Whether each control varies by more than rounding, shape (..., surrogates)."""
    return _deviations(covariances) > ROUNDING * at_least(size, TINY)


def _predictive_share(factors: Array, alpha: Array, inverse: Array, inverse_sd: Array) -> Array:
    """1 - PRESS / total: the share of the variance of factors that are left out which is predicted, 1 at most."""
    xp = namespace(factors)
    model = factors[..., 0]
    residual = model - sum_products(alpha[..., None, :, :, :], factors[..., 1:], axis=-1)
    scaled = factors[..., 1:] * inverse_sd[..., None, :, :, :]
    leverage = quadratic_form(scaled, inverse[..., None, :, :, :, :])
    left_out = residual / at_least(1.0 - leverage, LEAST_LEFT)
    total = sum_products(model, model, axis=-3)
    press = sum_products(left_out, left_out, axis=-3)
    return xp.where(total > 0, 1.0 - press / xp.where(total > 0, total, 1.0), 0.0)


def extrapolation(alpha: Array, error: Array, covariances: Array, dof: Array, left: Array, priors: FloatArray) -> Array:
    """`1 + d' C^-1 d / dof`: the factor by which a fitted alpha, multiplied by the error d, increases the variance.

    It is large where the surrogates' error is far outside the spread that the units show (rows that matter are rare and
    were not met), so that the sample is known to be unlike the population. A correction to a prior is at most
    `MOST_CORRECTION`, and adds at most d squared times that to the variance `left` (..., components, outputs).
    """
    xp = namespace(covariances)
    if xp is np and not alpha.any():
        return np.ones(alpha.shape[:-1])
    inverse = pseudo_inverse(covariances[..., 1:, 1:])
    distance = at_least(quadratic_form(error, inverse), 0.0)
    used = (alpha != 0).any(axis=-1) & xp.isfinite(dof)
    gain = xp.minimum(distance, dof**2) / xp.where(used, dof, 1.0)
    bounded = to_like(priors.any(axis=0), error)
    most = xp.where(bounded, (MOST_CORRECTION * error) ** 2, np.inf)
    most = xp.where(alpha == 0, 0.0, most).sum(axis=-1)
    gain = xp.where(most < gain * left, most / xp.where(left > 0, left, 1.0), gain)
    return xp.where(used, 1.0 + gain, 1.0)
