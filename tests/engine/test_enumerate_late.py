"""A run that may end early and does not: all coalitions take the place of sampling once it has cost as much."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import controlshap as cs

BACKGROUND = np.random.default_rng(0).normal(size=(60, 8))
X = np.random.default_rng(1).normal(size=(2, 8))
#: Evaluations of all coalitions of a row.
EVERY = 1 + 60 * (2**8 - 2)


def tied(rows):
    """The last four columns have no effect, so that no order of all is ever certain."""
    return np.tanh(rows[:, 0] + rows[:, 1] * rows[:, 2]) + rows[:, 3]


def explainer():
    return cs.Explainer(tied, BACKGROUND)


def test_an_order_that_stays_open_is_enumerated_for_at_most_twice_the_price():
    exact = explainer()(X, budget=EVERY + 60, rng=0)
    assert (exact.status == "exact").all()
    found = explainer()(X, stop="ranking", budget=10 * EVERY, rng=0)
    assert (found.status == "exact").all()
    assert (found.n_evaluations <= 2.1 * EVERY).all()
    assert_array_equal(found.values, exact.values)
    assert not found.standard_errors.any()


def test_a_budget_that_does_not_pay_for_both_is_spent_on_sampling():
    with pytest.warns(cs.NotConvergedWarning):
        found = explainer()(X[:1], stop="ranking", budget=int(1.9 * EVERY), rng=0)
    assert found.status[0] == "budget reached"


def test_what_is_certain_before_is_not_enumerated():
    found = explainer()(X, stop="top 1", budget=10 * EVERY, rng=0)
    assert (found.status == "converged").all()
    assert (found.n_evaluations < EVERY).all()


def test_a_run_that_is_continued_is_enumerated_at_the_same_point():
    one = explainer()
    with pytest.warns(cs.NotConvergedWarning):
        begun = one(X, stop="ranking", budget=EVERY - 1, rng=0)
    assert (begun.status == "budget reached").all()
    found = one.refine(begun, stop="ranking", budget=10 * EVERY)
    whole = one(X, stop="ranking", budget=10 * EVERY, rng=0)
    assert (found.status == "exact").all()
    assert_array_equal(found.values, whole.values)


def test_the_plan_says_so():
    text = str(explainer().plan(X, stop="ranking", budget=10 * EVERY))
    assert f"{EVERY:,}" in text.replace("\n", " ")
