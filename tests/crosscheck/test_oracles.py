"""The oracles themselves, against games whose values are known by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from controlshap.estimators.enumeration import all_coalitions, shapley_matrix, shapley_values
from controlshap.testing import game_from_values, gaussian_quadratic_game, pathwise_game, shapley_by_definition


def test_a_unanimity_game_is_shared_equally_by_its_members():
    members = frozenset({0, 2, 3})
    values = shapley_by_definition(lambda s: np.array([1.0 if members <= s else 0.0]), 5)
    assert_allclose(values[:, 0], [1 / 3, 0, 1 / 3, 1 / 3, 0], atol=1e-14)


@pytest.mark.parametrize("n_players", [1, 2, 3, 6])
def test_the_matrix_form_equals_the_definition(n_players):
    table = np.random.default_rng(n_players).normal(size=(2**n_players, 2))
    assert_allclose(shapley_values(table), shapley_by_definition(game_from_values(table), n_players), atol=1e-12)


def test_rows_of_the_shapley_matrix_give_the_sum_rule():
    matrix = shapley_matrix(5)
    expected = np.zeros(32)
    expected[0], expected[-1] = -1, 1
    assert_allclose(matrix.sum(axis=0), expected, atol=1e-14)
    assert all_coalitions(5)[0b01101].tolist() == [True, False, True, True, False]


def test_a_group_is_not_the_sum_of_its_columns_when_features_are_correlated():
    rng = np.random.default_rng(1)
    covariance = np.cov(rng.normal(size=(3, 50)) + rng.normal(size=50))
    x, slope = np.array([1.0, -0.5, 2.0]), np.array([[1.0, 2.0, -1.0]])
    settings = (slope, np.zeros((1, 3, 3)), x, np.zeros(3), covariance)
    single = shapley_by_definition(gaussian_quadratic_game(*settings, [[0], [1], [2]]), 3)
    grouped = shapley_by_definition(gaussian_quadratic_game(*settings, [[0], [1, 2]]), 2)
    assert abs(single[1:].sum() - grouped[1]) > 0.05
    assert_allclose(single.sum(), grouped.sum())


def test_pathwise_draws_have_the_textbook_conditional_moments():
    # b + A_S (x - b) with b ~ N(mu, Sigma) has the conditional mean and covariance: check through a quadratic.
    rng = np.random.default_rng(2)
    factor = rng.normal(size=(3, 3))
    covariance, mean, x = factor @ factor.T, rng.normal(size=3), rng.normal(size=3)
    bend = rng.normal(size=(3, 3))
    draws = rng.multivariate_normal(mean, covariance, size=40_000)
    draws = np.concatenate([draws, 2 * mean - draws])  # antithetic: the mean is exact
    sampled = pathwise_game(lambda r: np.einsum("ni,ij,nj->n", r, bend, r), x, draws, covariance, [[0], [1], [2]])
    exact = gaussian_quadratic_game(np.zeros((1, 3)), bend[None], x, mean, covariance, [[0], [1], [2]])
    for coalition in (frozenset(), frozenset({1}), frozenset({0, 2})):
        values = sampled(coalition), exact(coalition)
        assert_allclose(*values, rtol=0.05)
