"""Interactions where absent columns depend on present ones: along coalitions, against the definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom
from sklearn.linear_model import LinearRegression, LogisticRegression

import controlshap as cs
from controlshap.testing import (
    copula_game,
    copula_sum_game,
    empirical_game,
    gaussian_quadratic_game,
    interactions_by_definition,
)

RNG = np.random.default_rng(4)
BACKGROUND = RNG.normal(size=(60, 5)) @ (np.eye(5) + 0.5 * RNG.normal(size=(5, 5)))
X = BACKGROUND[3] + 0.2
ALONE, GROUPS = [[c] for c in range(5)], [[0, 1], [2, 3], [4]]
MEAN, COVARIANCE = BACKGROUND.mean(axis=0), np.cov(BACKGROUND, rowvar=False)
SLOPES, BENDS = RNG.normal(size=(2, 5)), 0.3 * RNG.normal(size=(2, 5, 5))
BENDS = BENDS + BENDS.swapaxes(1, 2)
PARTS = [np.sin, np.exp, np.tanh, np.square, np.cos]
GIVEN = cs.GaussianConditional(mean=MEAN, covariance=COVARIANCE)
COPULA = cs.GaussianConditional(margins="empirical")


def quadratic(rows):
    return rows @ SLOPES.T + np.einsum("ni,oij,nj->no", rows, BENDS, rows)


def added(rows):
    return sum(part(rows[:, c]) for c, part in enumerate(PARTS))


def smooth(rows):
    return np.tanh(rows @ SLOPES.T + 0.2 * rows[:, :1] * rows[:, 1:2])


def index_of(game, n_players=5):
    return interactions_by_definition(game, n_players)


TRUTHS = {
    "gaussian": lambda: index_of(gaussian_quadratic_game(SLOPES, BENDS, X, MEAN, COVARIANCE, ALONE)),
    "groups": lambda: index_of(gaussian_quadratic_game(SLOPES, BENDS, X, MEAN, COVARIANCE, GROUPS), 3),
    "copula": lambda: index_of(copula_sum_game([lambda v, f=f: f(v)[:, None] for f in PARTS], X, BACKGROUND, ALONE)),
    "near rows": lambda: index_of(empirical_game(smooth, X, BACKGROUND, ALONE, 0.5)),
}
CASES = {
    "walks": ("gaussian", quadratic, GIVEN, {"estimator": "permutation", "control": "none"}, 1500),
    "walks, ridge": ("gaussian", quadratic, GIVEN, {"estimator": "permutation", "control": "ridge"}, 1500),
    "kernel": ("gaussian", quadratic, GIVEN, {"estimator": "kernel", "control": "none"}, 1500),
    "all coalitions": ("groups", quadratic, GIVEN, {"groups": GROUPS, "control": "ridge"}, 400),
    "copula": ("copula", added, COPULA, {"estimator": "permutation"}, 1500),
    "near rows": ("near rows", smooth, cs.Empirical(bandwidth=0.5), {"estimator": "permutation"}, 1500),
    "near rows, kernel": ("near rows", smooth, cs.Empirical(bandwidth=0.5), {"estimator": "kernel"}, 1500),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_bias_and_honest_errors(name, global_seed):
    truth_name, model, features, settings, budget = CASES[name]
    index = TRUTHS[truth_name]()
    pairs = np.triu_indices(len(index), 1)
    truth = index[pairs]
    explainer = cs.Explainer(model, BACKGROUND, features=features, **settings)
    found = [explainer(X[None], budget=budget, interactions=2, rng=100 * global_seed + run) for run in range(40)]
    values, errors = (
        np.array([getattr(one, field)[0].reshape(truth.shape) for one in found])
        for field in ("interaction_indices", "interaction_standard_errors")
    )
    gaps = values - truth
    # means of 40 runs against their spread: at most 20 numbers, Student's t with 39 degrees of freedom at level 1e-5
    z = gaps.mean(axis=0) / (gaps.std(axis=0, ddof=1) / np.sqrt(40))
    assert np.abs(z).max() < 6.0
    low, high = (np.array([one.interactions.confidence_interval(0.95)[side][0] for one in found]) for side in (0, 1))
    covered = (low[:, *pairs].reshape(values.shape) <= truth) & (truth <= high[:, *pairs].reshape(values.shape))
    assert covered.mean() >= binom.ppf(1e-4, 40, 0.93) / 40  # at worst all pairs of a run are as one
    reported = np.sqrt((errors**2).mean() / (gaps**2).mean())
    assert 0.7 < reported < 1.4 * np.sqrt(2.0)
    assert not 0.7 < reported / 3.0 < 1.4 * np.sqrt(2.0)
    sums = found[0].interactions.values.sum(axis=2)
    assert_allclose(sums, found[0].values, atol=1e-9)


EXACT = {
    "linear": (LinearRegression().fit(BACKGROUND, BACKGROUND @ SLOPES[0]), GIVEN),
    "logistic": (LogisticRegression().fit(BACKGROUND, BACKGROUND[:, 0] > 0), GIVEN),
    "draws of rows": (smooth, cs.GaussianConditional(margins="empirical", draws="background")),
}


@pytest.mark.parametrize("name", EXACT)
def test_known_forms_and_finite_draws_are_exact(name):
    model, features = EXACT[name]
    explainer = cs.Explainer(model, BACKGROUND, features=features)
    explanation = explainer(X[None], budget=10_000, interactions=2, rng=0)
    found = explanation.interactions
    assert explanation.status[0] == "exact"
    assert_array_equal(found.standard_errors, 0.0)
    assert_allclose(found.values.sum(axis=2), explanation.values, atol=1e-9)
    if name == "linear":
        nothing = np.zeros((1, 5, 5))
        game = gaussian_quadratic_game(model.coef_[None], nothing, X, MEAN, COVARIANCE, ALONE)
        assert_allclose(found.index[0], index_of(game)[..., 0], atol=1e-9)
    elif name == "draws of rows":
        assert_allclose(found.index[0], index_of(copula_game(model, X, BACKGROUND, ALONE)), atol=1e-9)


def test_groups_and_rows_that_a_function_draws():
    groups = {"first": [0, 1], "others": [2, 3, 4]}
    for features in (GIVEN, "copula", "empirical", cs.Mixture(n_components=2)):
        explainer = cs.Explainer(smooth, BACKGROUND, features=features, groups=groups)
        explanation = explainer(X[None], budget=400, interactions=2, rng=0)
        found = explanation.interactions
        assert found.index.shape == (1, 2, 2, 2)
        assert (found.standard_errors[0, 0, 1] >= 0).all()
        assert_allclose(found.values.sum(axis=2), explanation.values, atol=1e-9)
