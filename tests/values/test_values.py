"""Rows of both value functions, against rows built one at a time from the definition."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import controlshap as cs
from controlshap.data.players import resolve_players
from controlshap.estimators.enumeration import all_coalitions
from controlshap.testing import conditional_map
from controlshap.testing.exhaustive import every_permutation


def bind(value_function, data):
    names = tuple(f"c{i}" for i in range(data.background.shape[1]))
    players = resolve_players(data.groups, names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.SingularCovarianceWarning)
        return value_function.bind(data.background, players, names)


def covariance_of(imputer):
    moments = imputer.moments
    return moments.correlation * np.outer(moments.scale, moments.scale)


def test_marginal_rows_take_x_on_the_coalition_and_one_background_row_elsewhere(data):
    imputer = bind(cs.Marginal(), data)
    draws = data.background[:6].reshape(2, 3, 7)
    coalitions = all_coalitions(4)[[[0, 5, 15], [2, 8, 7]]]
    rows = imputer.coalition_rows(data.x, coalitions, draws)
    for u in range(2):
        for k in range(3):
            for d in range(3):
                expected = draws[u, d].copy()
                for player in np.flatnonzero(coalitions[u, k]):
                    expected[data.columns[player]] = data.x[data.columns[player]]
                assert_array_equal(rows[u, k, d], expected)


@pytest.mark.parametrize("draw_from", ["gaussian", "background"])
def test_gaussian_rows_are_pathwise_conditioned_for_every_coalition(data, draw_from):
    imputer = bind(cs.GaussianConditional(draws=draw_from), data)
    covariance = covariance_of(imputer)
    draws = imputer.sample(3, np.random.default_rng(0))[None]
    coalitions = all_coalitions(4)[None]
    rows = imputer.coalition_rows(data.x, coalitions, draws)
    for k, coalition in enumerate(coalitions[0]):
        revealed = [c for player in np.flatnonzero(coalition) for c in data.columns[player]]
        matrix = conditional_map(covariance, revealed)
        for d in range(3):
            expected = draws[0, d] + matrix @ (data.x - draws[0, d])
            assert_allclose(rows[0, k, d], expected, atol=1e-9)
            assert_array_equal(rows[0, k, d, revealed], data.x[revealed])  # to the bit


@pytest.mark.parametrize("value_function", [cs.Marginal(), cs.GaussianConditional()])
def test_walk_rows_are_the_coalition_rows_of_the_prefixes(data, value_function):
    imputer = bind(value_function, data)
    permutations = every_permutation(4)
    draws = imputer.sample(2 * len(permutations), np.random.default_rng(3)).reshape(len(permutations), 2, 7)
    walks = imputer.walk_rows(data.x, permutations, draws)
    ranks = np.argsort(permutations, axis=1)
    prefixes = ranks[:, None, :] < np.arange(1, 4)[None, :, None]
    assert_allclose(walks, imputer.coalition_rows(data.x, prefixes, draws), atol=1e-8)


def test_gaussian_draws_have_the_stated_mean_and_covariance(data):
    imputer = bind(cs.GaussianConditional(), data)
    n = 200_000
    draws = imputer.sample(n, np.random.default_rng(4))
    covariance = covariance_of(imputer)
    sd = np.sqrt(np.diag(covariance))
    z = (draws.mean(axis=0) - imputer.moments.mean) / sd * np.sqrt(n)
    assert np.abs(z).max() < 4.5  # family-wise level below 1e-4 for seven columns
    sampled = np.cov(draws, rowvar=False)
    # var of a sample covariance is at most 2 var_i var_j / n
    assert (np.abs(sampled - covariance) < 5 * np.sqrt(2 / n) * np.outer(sd, sd)).all()


def test_a_diagonal_covariance_and_shared_draws_give_the_marginal_rows(plain_data):
    data = plain_data
    diagonal = np.diag(data.background.var(axis=0))
    gaussian = bind(cs.GaussianConditional(covariance=diagonal, draws="background"), data)
    marginal = bind(cs.Marginal(), data)
    draws = data.background[:5][:, None]
    coalitions = all_coalitions(7)[[3, 17, 64, 100, 127]][:, None]
    assert_allclose(
        gaussian.coalition_rows(data.x, coalitions, draws),
        marginal.coalition_rows(data.x, coalitions, draws),
        atol=1e-12,
    )


def test_a_singular_covariance_is_conditioned_to_the_limit_and_names_the_columns(data):
    names = tuple(f"c{i}" for i in range(7))
    players = resolve_players(data.groups, names)
    with pytest.warns(cs.SingularCovarianceWarning, match=r"'c4', 'c5', 'c6'") as caught:
        imputer = cs.GaussianConditional(min_eigenvalue=1e-3).bind(data.background, players, names)
    assert "c0" not in str(caught[0].message)
    assert_allclose(np.linalg.eigvalsh(imputer.moments.correlation)[0], 1e-3, rtol=1e-6)


def test_an_impossible_row_does_not_blow_up(data):
    # x has two levels of the block at once: no background row has that, and the covariance calls it impossible.
    imputer = bind(cs.GaussianConditional(), data)
    x = data.x.copy()
    x[4:] = [1, 1, 0]
    rows = imputer.coalition_rows(x, all_coalitions(4)[None], data.background[None, :1])
    # the coefficients of a conditional mean are bounded by 1/(2 sqrt(min_eigenvalue)) in standard units
    limit = 1 / (2 * np.sqrt(1e-4)) * np.sqrt(3)
    gap = np.linalg.norm((x - data.background[0]) / imputer.moments.scale)
    moved = np.abs(rows - data.background[0]) / imputer.moments.scale
    assert moved.max() <= limit * gap
    assert moved.max() < 20


def test_constant_columns_stay_constant_and_move_nothing():
    rng = np.random.default_rng(5)
    background = np.column_stack([rng.normal(size=30), np.full(30, 2.0), rng.normal(size=30)])
    names = ("a", "b", "c")
    imputer = cs.GaussianConditional().bind(background, resolve_players(None, names), names)
    assert (imputer.sample(10, rng)[:, 1] == 2.0).all()
    x = np.array([0.3, 5.0, 0.1])
    rows = imputer.coalition_rows(x, np.array([[[False, True, False]]]), background[None, :1])
    assert_allclose(rows[0, 0, 0], [background[0, 0], 5.0, background[0, 2]])


def test_thresholded_columns_show_codes_and_keep_their_frequencies(data):
    rng = np.random.default_rng(6)
    binary = (data.background[:, :1] + rng.normal(size=(24, 1)) > 0.6).astype(float) * 3 + 1  # codes 1 and 4
    background = np.column_stack([data.background, binary])
    names = tuple(f"c{i}" for i in range(8))
    players = resolve_players(data.groups, names)
    with pytest.warns(cs.SingularCovarianceWarning):
        imputer = cs.GaussianConditional(binary="threshold").bind(background, players, names)
    n = 100_000
    inputs = imputer.to_inputs(imputer.sample(n, rng))
    assert set(np.unique(inputs[:, 7])) == {1.0, 4.0}
    share = (binary == 4).mean()
    assert abs((inputs[:, 7] == 4).mean() - share) < 4.5 * np.sqrt(share * (1 - share) / n)
    assert_array_equal(inputs[:, 4:7].sum(axis=1), 1.0)
    # explained rows and background rows lie on their own side of the cut
    assert_array_equal(imputer.to_inputs(background), background)


@pytest.mark.parametrize("x", [0.5, 7.0])
def test_a_thresholded_column_that_holds_no_code_is_refused(x):
    numeric = np.random.default_rng(0).normal(size=(20, 3))
    background = np.column_stack([numeric, (numeric[:, 0] > 0).astype(float)])
    value_function = cs.GaussianConditional(binary="threshold")
    explainer = cs.Explainer(lambda rows: rows.sum(axis=1), background, features=value_function)
    with pytest.raises(cs.InvalidArgumentError, match=r"binary='threshold'.*row 0 holds .* in 'x3'.*binary='linear'"):
        explainer(np.array([0.1, 0.2, 0.3, x]), budget=200, rng=0)
