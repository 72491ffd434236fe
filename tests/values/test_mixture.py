"""A mixture of Gaussians against the textbook conditional distributions of its components."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from calibration_cases import check, check_together
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression

import controlshap as cs
from controlshap.crossfitting.network_walks import mean_coalitions, mean_walks
from controlshap.estimators.enumeration import all_coalitions
from controlshap.functions.network import Network
from controlshap.testing import mixture_quadratic_game, mixture_score_game, shapley_by_definition
from controlshap.testing.exhaustive import every_permutation
from controlshap.values.em import fit_mixture

RNG = np.random.default_rng(41)
TURNS = 0.6 * np.eye(5) + 0.5 * RNG.normal(size=(3, 5, 5))
CENTERS = 2.0 * RNG.normal(size=(3, 5))
BACKGROUND = np.concatenate(
    [c + RNG.normal(size=(n, 5)) @ t for c, t, n in zip(CENTERS, TURNS, (60, 90, 50), strict=True)]
)
X = 0.6 * BACKGROUND[0] + 0.4 * BACKGROUND[80]
GROUPS, COLUMNS = {"pair": [0, 3]}, [[0, 3], [1], [2], [4]]
SLOPE, BEND = 0.5 * RNG.normal(size=(2, 5)), 0.1 * RNG.normal(size=(2, 5, 5))


def model(rows):
    return rows @ SLOPE.T + np.einsum("ni,oij,nj->no", rows, BEND, rows)


THREE = cs.Mixture(n_components=3)


def make(features=THREE, function=model, **settings):
    return cs.Explainer(function, BACKGROUND, features=features, groups=GROUPS, **settings)


@cache
def moments():
    imputer = make().assembly.imputer
    return (
        imputer.weights,
        np.stack([part.moments.mean for part in imputer.parts]),
        np.stack([part.moments.covariance for part in imputer.parts]),
    )


@cache
def truth():
    return shapley_by_definition(mixture_quadratic_game(SLOPE, BEND, X, *moments(), COLUMNS), 4)


def test_rows_have_the_moments_of_the_mixture_given_every_coalition():
    imputer, n = make().assembly.imputer, 40_000
    draws = imputer.sample(n, np.random.default_rng(0))
    coalitions = all_coalitions(4)
    rows = imputer.coalition_rows(X, coalitions[None], draws[None])[0]
    assert_array_equal(rows[0], draws[:, :5])  # nobody: the draw itself
    game = mixture_quadratic_game(SLOPE, BEND, X, *moments(), COLUMNS)
    for members, of_coalition in zip(coalitions, rows, strict=True):
        values = model(of_coalition)
        error = values.std(axis=0) / np.sqrt(n) + 1e-9
        assert (np.abs(values.mean(axis=0) - game(frozenset(np.flatnonzero(members).tolist()))) < 4.5 * error).all()
        revealed = imputer.players.expand(members)
        assert_array_equal(of_coalition[:, revealed], np.broadcast_to(X[revealed], (n, revealed.sum())))


def test_walks_are_the_coalitions_of_their_prefixes():
    imputer = make().assembly.imputer
    permutations = every_permutation(4)
    draws = imputer.sample(3 * len(permutations), np.random.default_rng(3)).reshape(len(permutations), 3, -1)
    prefixes = np.argsort(permutations, axis=1)[:, None, :] < np.arange(1, 4)[None, :, None]
    walks = imputer.walk_rows(X, permutations, draws)
    assert_allclose(walks, imputer.coalition_rows(X, prefixes, draws), atol=1e-9)
    network = Network(0.3, SLOPE[0], 0.5 * BEND[0], 0.5 * SLOPE[1], SLOPE[0])
    means = mean_walks(imputer, X, permutations, [network])
    assert_allclose(means[:, 1:-1], mean_coalitions(imputer, X, prefixes, [network]), atol=1e-9)


def test_conditional_means_of_a_network_are_those_of_the_definition():
    imputer = make().assembly.imputer
    network = Network(0.3, np.zeros(5), 1.5 * SLOPE[:1], np.array([0.2]), np.array([2.0]))
    found = mean_coalitions(imputer, X, all_coalitions(4)[None], [network])[0, :, 0]
    game = mixture_score_game(lambda z: 0.3 + 2.0 * expit(1.5 * z + 0.2), SLOPE[0], X, *moments(), COLUMNS)
    expected = [game(frozenset(np.flatnonzero(one).tolist()))[0] for one in all_coalitions(4)]
    assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_linear_and_logistic_models_are_exact(kind):
    if kind == "linear":
        fitted = LinearRegression().fit(BACKGROUND, model(BACKGROUND)[:, 0])
        truth = mixture_quadratic_game(fitted.coef_[None], np.zeros((1, 5, 5)), X, *moments(), COLUMNS)
    else:
        fitted = LogisticRegression().fit(BACKGROUND, model(BACKGROUND)[:, 0] > 0)
        start = fitted.intercept_[0]
        truth = mixture_score_game(lambda z: expit(z + start), fitted.coef_[0], X, *moments(), COLUMNS)
    found = make(function=fitted)(X, rng=0)
    assert found.status[0] == "exact"
    assert found.n_evaluations[0] == 1
    assert_allclose(found.values[0], shapley_by_definition(truth, 4)[:, 0], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"control": "ridge"}, {"estimator": "kernel"}, {"control": "none"}], ids=str)
def test_values_are_unbiased_with_honest_errors(settings, global_seed):
    found = make(**settings)(np.tile(X, (80, 1)), budget=300, rng=global_seed)
    check(found, truth(), least=0.9)
    check_together(found, truth())
    assert_allclose(found.values.sum(axis=1) + found.base_values, np.tile(model(X[None]), (80, 1)), atol=1e-9)


def test_another_mixture_is_caught(global_seed):
    """Negative control: one Gaussian in place of three is seen."""
    found = make(cs.Mixture(1))(np.tile(X, (80, 1)), budget=300, rng=global_seed)
    with pytest.raises(AssertionError, match="biased"):
        check(found, truth(), least=0.9)


def test_one_component_is_the_gaussian():
    one, gaussian = (make(features).assembly.imputer for features in (cs.Mixture(1), "correlated"))
    # but for the thousandth of a variance that every component keeps
    assert_allclose(one.parts[0].moments.correlation, gaussian.moments.correlation, atol=2e-3)
    assert_allclose(one.parts[0].moments.mean, gaussian.moments.mean, atol=1e-12)


@pytest.mark.slow
def test_the_number_of_components_is_found(global_seed):
    assert len(make("mixture").assembly.imputer.weights) == 3
    rng = np.random.default_rng(global_seed)
    plain = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3))
    assert len(cs.Explainer(lambda rows: rows[:, 0], plain, features="mixture").assembly.imputer.weights) == 1


def test_a_fit_does_not_lose_likelihood_and_is_always_the_same():
    fits = [fit_mixture(BACKGROUND, k) for k in (1, 2, 3)]
    assert fits[0].log_likelihood < fits[1].log_likelihood < fits[2].log_likelihood
    again = fit_mixture(BACKGROUND, 3)
    assert_array_equal(again.means, fits[2].means)
    one = np.random.default_rng(0).normal(size=4000)[:, None] + np.array([[-4.0, 4.0]]).repeat(2000, 0).reshape(-1, 1)
    found = fit_mixture(one, 2)
    assert_allclose(np.sort(found.means[:, 0]), [-4.0, 4.0], atol=0.1)
    assert_allclose(found.covariances[:, 0, 0], [1.0, 1.0], atol=0.15)


def test_a_column_that_never_varies_gets_nothing_and_frames_are_taken():
    data, row = np.column_stack([BACKGROUND, np.full(200, 7.0)]), np.append(X, 8.0)
    found = cs.Explainer(lambda rows: model(rows[:, :5]), data, features=cs.Mixture(2), control="none")(row, budget=400)
    assert_allclose(found.values[0, 5], 0.0, atol=1e-12)
    frame = pd.DataFrame(BACKGROUND, columns=list("abcde"))
    explainer = cs.Explainer(lambda rows: model(rows.to_numpy()), frame, features=cs.Mixture(2))
    found = explainer(frame.iloc[:2], budget=300, rng=0)
    assert_allclose(found.values.sum(axis=1) + found.base_values, model(BACKGROUND[:2]), atol=1e-9)


def test_refining_and_a_shared_surrogate():
    explainer = make()
    refined = explainer.refine(explainer(X, budget=300, rng=1), budget=200)
    whole = explainer(X, budget=int(refined.n_evaluations[0]), rng=1)
    assert_array_equal(refined.values, whole.values)
    found = make().fit_surrogate(BACKGROUND[:10], budget=500, rng=0)(X, budget=300, rng=0)
    assert "SharedSurrogate" in found.method[0]
    assert (np.abs(found.values[0] - truth()) < 5.0 * found.standard_errors[0]).all()
