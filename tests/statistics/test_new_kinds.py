"""What controls leave in background rows that units have not met is part of the errors."""

import numpy as np
import pytest

from controlshap.statistics.analysis import Sample, left_in_rows
from controlshap.statistics.terms import MeanTerms
from controlshap.statistics.two_stage import TwoStageDesign

M, N_UNITS, PLAYERS = 50, 10, 3


def sample(at_rows, population=float(M), labels=None):
    """Ten units on a background of fifty rows."""
    labels = np.arange(N_UNITS) if labels is None else labels
    terms = MeanTerms(np.zeros((len(labels), PLAYERS + 1, 1, 2)))
    design = TwoStageDesign(labels, population)
    return Sample(
        terms, design, np.zeros((0, 1, 2)), np.zeros((1, 2)), efficient=True, base_varies=False, at_rows=at_rows
    )


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
