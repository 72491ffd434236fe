"""A function that predicts nothing of units that it does not know goes against them by construction."""

import numpy as np
import pytest

from controlshap.statistics.coefficients import regress

N, K = 400, 5
FITTED = np.array([[1.0], [0.5]])  # priors of a function that was fitted to other folds
NO_PRIOR = np.zeros((0, 1))


def predict_by_others(targets, fold):
    """What the mean of all other folds says of each unit, times what a regression would see as worth it."""
    return np.array([targets[fold != own].mean() for own in fold])


def coefficients(targets, control, priors):
    factors = np.stack([targets - targets.mean(), control - control.mean()], axis=-1)[:, None, None, :]
    covariance = np.einsum("ncof,ncog->cofg", factors, factors)
    return regress(covariance, np.full((1, 1), N - 1.0), np.full((1, 1, 1), 1.0), priors, factors=factors)


def folds_that_differ(seed):
    """Targets, and the mean of the other folds, which tells in the wrong direction where a unit is."""
    rng = np.random.default_rng(seed)
    fold = rng.permutation(N) % K
    targets = rng.normal(size=N) + rng.normal(size=K)[fold]
    return targets, predict_by_others(targets, fold)


@pytest.mark.parametrize("seed", range(10))
def test_means_of_others_are_no_control(seed):
    targets, control = folds_that_differ(seed)
    fit = coefficients(targets, control, FITTED)
    assert (fit.alpha == 0).all()
    assert (fit.squared_correlation == 0).all()


@pytest.mark.parametrize("seed", range(10))
def test_a_control_that_was_not_fitted_keeps_its_sign(seed):
    """Negative control: without a prior the same regression takes the coefficient, far below 0, at its word."""
    targets, control = folds_that_differ(seed)
    fit = coefficients(targets, control, NO_PRIOR)
    assert (fit.alpha < -1.0).all()
    assert (fit.squared_correlation > 0.1).all()


def test_a_function_that_helps_is_corrected():
    rng = np.random.default_rng(0)
    control = rng.normal(size=N)
    fit = coefficients(0.75 * control + 0.1 * rng.normal(size=N), control, FITTED)
    np.testing.assert_allclose(fit.alpha, 0.75, atol=0.02)
