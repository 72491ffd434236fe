"""Bounds by betting hold for any number of units: by all sequences there are, and where t fails."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from controlshap._types import FloatArray
from controlshap.statistics.betting import finite_bounds, lower_bound

CHANCES = (0.02, 0.1, 0.3, 0.5, 0.8, 0.97)
Bound = Callable[[FloatArray], FloatArray]


def chances_of_error(bound: Bound, low: float, high: float) -> FloatArray:
    """Exact probabilities that the lower bound of 14 units, which are low or high, is above their mean."""
    highs = np.array(list(product([False, True], repeat=14)))  # every sequence is a column
    bounds, n_high = bound(np.where(highs, high, low).T), highs.sum(axis=1)
    found = []
    for chance in CHANCES:
        weights = chance**n_high * (1.0 - chance) ** (14 - n_high)
        found.append(weights[bounds > chance * high + (1.0 - chance) * low + 1e-12].sum())
    return np.array(found)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (-1.0, 0.1), (-0.05, 0.02)])
def test_no_more_sequences_err_than_alpha(low: float, high: float) -> None:
    assert (chances_of_error(lambda units: lower_bound(units, np.ones(units.shape), 0.3), low, high) <= 0.3).all()


def test_students_bound_errs_more_often() -> None:
    """The negative control: of units that rarely fall the t interval claims too much."""

    def student(units: FloatArray) -> FloatArray:
        return np.asarray(units.mean(axis=0) - 1.77 * units.std(axis=0, ddof=1) / np.sqrt(14.0))  # 5 %, 13 degrees

    assert chances_of_error(student, -1.0, 0.1).max() > 0.3


def test_bounds_say_something_of_fourteen_units() -> None:
    assert lower_bound(np.ones((14, 1)), np.ones((14, 1)), 0.05)[0] > -0.5


def test_units_beyond_the_range_are_refused() -> None:
    with pytest.raises(ValueError, match="range"):
        finite_bounds(np.full((20, 1), 1.1), np.ones((20, 1)), 0.05)


@pytest.mark.parametrize("reach", [1.0, 3.0])
def test_rare_jumps_are_held_where_t_fails(reach: float, global_seed: int) -> None:
    """One unit in 100 moves the value: of 100 units a third show nothing, and Student's t says 0."""
    rng = np.random.default_rng(global_seed)
    units = (rng.random((100, 400)) < 0.01).astype(float)
    low, high = finite_bounds(units, np.full(units.shape, reach), 0.05)
    held = (low <= 0.01) & (high >= 0.01)
    assert held.mean() >= 0.95
    student = np.abs(units.mean(axis=0) - 0.01) <= 1.98 * units.std(axis=0, ddof=1) / 10.0
    assert student.mean() < 0.75


def test_intervals_are_not_much_wider_than_t(global_seed: int) -> None:
    rng = np.random.default_rng(global_seed)
    for n, spread, most in ((300, 0.3, 1.5), (1000, 0.3, 1.3), (1000, 0.1, 1.5)):
        units = np.clip(rng.normal(0.0, spread, (n, 50)), -1.0, 1.0)
        low, high = finite_bounds(units, np.ones(units.shape), 0.05)
        student = 1.96 * units.std(axis=0, ddof=1) / np.sqrt(n)
        assert ((high - low) / 2.0 / student).mean() < most


def test_few_units_have_the_whole_range() -> None:
    low, high = finite_bounds(np.zeros((5, 2)), np.full((5, 2), 2.0), 0.05)
    assert (low == -2.0).all()
    assert (high == 2.0).all()
