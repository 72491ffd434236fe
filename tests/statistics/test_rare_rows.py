"""Columns that few background rows differ in: a coefficient from the few units that met them must do no harm."""

import numpy as np
import pytest

import controlshap as cs
from controlshap.statistics import coefficients, crossfit
from controlshap.statistics.coefficients import regress
from controlshap.statistics.crossfit import participation
from controlshap.testing import marginal_game, shapley_by_definition

RNG = np.random.default_rng(0)
BACKGROUND = RNG.normal(size=(800, 6))
BACKGROUND[:, 4] = RNG.random(800) < 0.02
BACKGROUND[:, 5] = RNG.random(800) < 0.008
X = np.array([0.3, -0.2, 0.5, 0.1, 0.0, 0.0])


def model(rows):
    score = 2.5 * rows[:, 0] - 1.5 * rows[:, 1] + rows[:, 2] * rows[:, 3] - 2.0
    score = score + 3.0 * rows[:, 4] * (1.0 + rows[:, 1]) - 4.0 * rows[:, 5] * rows[:, 0]
    return 1.0 / (1.0 + np.exp(-score))


def explained(seed, n):
    """200 pairs of walks: 4 of them meet a row with column 4 set, and 1 or 2 one with column 5 set."""
    explainer = cs.Explainer(model, BACKGROUND, estimator="permutation", control=cs.LogisticRidge())
    return explainer(np.tile(X, (n, 1)), budget=1 + 200 * 10, rng=seed)


def whole_errors(explanation):
    """Reported errors of all values together, with and without control."""
    both = explanation.standard_errors, explanation.uncontrolled_standard_errors
    return [np.sqrt((errors**2).sum(axis=1)) for errors in both]


def test_rare_rows_do_no_harm(global_seed):
    explanation = explained(global_seed, 120)
    controlled, uncontrolled = whole_errors(explanation)
    assert (controlled < uncontrolled).mean() > 0.97
    assert (controlled / uncontrolled).max() < 1.5
    assert explanation.values.var(axis=0).sum() < 0.3 * explanation.uncontrolled_values.var(axis=0).sum()
    truth = np.ravel(shapley_by_definition(marginal_game(model, X, BACKGROUND, [[j] for j in range(6)]), 6))
    z = (explanation.values.mean(axis=0) - truth) / (explanation.values.std(axis=0, ddof=1) / np.sqrt(120))
    assert np.abs(z[:4]).max() < 4.5
    # all values together, in which the rare columns have their part: neither told too small nor much too large
    told = (explanation.standard_errors**2).sum(axis=1).mean()
    observed = ((explanation.values - truth) ** 2).sum(axis=1)
    ratio = told / observed.mean()
    assert 1.0 - 4.0 * observed.std() / observed.mean() / np.sqrt(120) < ratio < 2.5


def test_without_bounds_they_do(global_seed, monkeypatch):
    # Negative control: coefficients of thousands, from units in which the control hardly varies.
    monkeypatch.setattr(coefficients, "MOST_CORRECTION", 1e9)
    monkeypatch.setattr(crossfit, "OF_NORMAL", 1e9)
    explanation = explained(global_seed, 120)
    controlled, uncontrolled = whole_errors(explanation)
    assert (controlled / uncontrolled).max() > 5.0
    assert (controlled < uncontrolled).mean() < 0.8


def test_a_correction_to_a_prior_is_bounded(as_array):
    # A control that varied in a few units only, with a third of the model's variance "explained".
    covariances = as_array(np.array([[7.2e-7, 3.7e-11], [3.7e-11, 5.6e-15]]).reshape(1, 1, 2, 2))
    dof, size = as_array(np.full((1, 1), 250.0)), as_array(np.ones((1, 1)))
    fit = regress(covariances, dof, size, np.ones((1, 1)))
    assert fit.alpha.item() == pytest.approx(1.0 + coefficients.MOST_CORRECTION)
    assert 0.0 <= fit.squared_correlation.item() < 0.01
    # Other surrogates may be of any size.
    assert regress(covariances, dof, size, np.zeros((0, 1))).alpha.item() > 1000.0


def test_participation_counts_the_units_that_vary(as_array):
    factors = np.zeros((50, 1, 1, 3))
    factors[:4, ..., 0] = 2.0
    factors[:7, ..., 1] = -1.0  # and one control that does not vary, which is not used
    assert participation(as_array(factors)).item() == pytest.approx(4.0)
    factors[..., 0] = 0.0
    assert participation(as_array(factors)).item() == 0.0
    normal = np.random.default_rng(0).normal(size=(200_000, 1, 1, 2))
    assert participation(as_array(normal)).item() == pytest.approx(200_000 / 3, rel=0.03)
