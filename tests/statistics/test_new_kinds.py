"""What controls leave in background rows that units have not met is part of the errors."""

import numpy as np
import pytest

import controlshap as cs
from controlshap.statistics.analysis import Sample, left_in_rows, misses_rows
from controlshap.statistics.terms import MeanTerms
from controlshap.statistics.two_stage import TwoStageDesign

M, N_UNITS, PLAYERS = 50, 10, 3


def sample(at_rows, population=float(M), labels=None, n_telling=None):
    """Ten units on a background of fifty rows."""
    labels = np.arange(N_UNITS) if labels is None else labels
    terms = MeanTerms(np.zeros((len(labels), PLAYERS + 1, 1, 2)))
    design = TwoStageDesign(labels, population)
    return Sample(
        terms, design, np.zeros((0, 1, 2)), np.zeros((1, 2)), efficient=True, base_varies=False, at_rows=at_rows,
        n_telling=n_telling,
    )  # fmt: skip


def alpha(value):
    return np.full((PLAYERS + 1, 1, 1), value)


def test_a_row_that_the_control_does_not_know_is_a_jump_of_its_size():
    """Nine rows of ten are as the control says: one unit of the others would move the values by 6/10 of its part."""
    at_rows = np.zeros((M, 1, 2))
    at_rows[:, 0, :] = np.random.default_rng(0).normal(size=(M, 1))
    at_rows[:5, 0, 0] += 6.0
    left = at_rows[:, 0, 0] - at_rows[:, 0, 1]
    left = left - left.mean()
    found = left_in_rows(sample(at_rows), alpha(1.0))
    jump = (left**4).sum() / (left**2).sum() / N_UNITS**2
    variance = (left**2).mean() / N_UNITS
    np.testing.assert_allclose(found, min(jump, variance))
    assert left_in_rows(sample(at_rows[5:]), alpha(1.0)).max() < 1e-28  # all others are known
    assert np.isclose(left_in_rows(sample(at_rows), alpha(0.0)).max(), _mean_jump(at_rows[:, 0, 0]))


def _mean_jump(outputs):
    squares = (outputs - outputs.mean()) ** 2
    return min((squares**2).sum() / squares.sum() / N_UNITS**2, squares.mean() / N_UNITS)


@pytest.mark.parametrize(("population", "expected"), [(np.inf, np.inf), (float(N_UNITS), 0.0)])
def test_of_draws_nothing_is_known_and_after_a_pass_everything(population, expected):
    at_rows = np.random.default_rng(1).normal(size=(M, 1, 2))
    labels = np.arange(20) if np.isinf(population) else np.repeat(np.arange(N_UNITS), 2)
    assert (left_in_rows(sample(at_rows, population, labels), alpha(1.0)) == expected).all()


def test_rows_drawn_at_random_miss_one_that_matters():
    at_rows = np.random.default_rng(2).normal(size=(M, 1, 2))
    few, many = np.arange(20), np.arange(3 * M)
    assert misses_rows(sample(at_rows, np.inf, few)) is None  # no row has a third of the sum of squares
    at_rows[7, 0, 0] = 40.0
    assert misses_rows(sample(at_rows, np.inf, few)).all()
    assert misses_rows(sample(at_rows, np.inf, many)) is None
    assert misses_rows(sample(at_rows, float(M), few)) is None  # in cycles it is taken


def test_rows_drawn_at_random_miss_those_that_alone_tell_of_a_player():
    at_rows, few = np.random.default_rng(2).normal(size=(M, 1, 2)), np.arange(20)
    assert misses_rows(sample(at_rows, np.inf, few, np.array([M, 7, 50]))).all()  # 2.8 of these are expected
    assert misses_rows(sample(at_rows, np.inf, few, np.array([M, 8, 50]))) is None
    assert misses_rows(sample(at_rows, np.inf, few, np.array([M, 0, 50]))) is None  # of this player there is nothing


def test_groups_on_a_row_that_matters_are_not_called_reliable():
    rng = np.random.default_rng(3)
    background = rng.normal(size=(80, 4))
    background[0, 3] = 30.0

    def model(rows):
        return rows[:, 0] * rows[:, 1] + (rows[:, 3] > 20.0) * (rows[:, 0] > 0.0) * 50.0

    x = np.array([1.0, 1.0, 1.0, 0.0])
    for variance, reliable in (("grouped", False), ("auto", True)):
        explainer = cs.Explainer(model, background, estimator="permutation", variance=variance)
        assert (explainer(x, budget=600, rng=0).reliable == reliable).all()
