"""`Explainer.plan`: what would be done is what is done, nothing is evaluated for it, and no clock has a say."""

import time

import numpy as np
import pytest

import controlshap as cs

RNG = np.random.default_rng(0)
BACKGROUND = RNG.normal(size=(30, 9))
X = RNG.normal(size=(3, 9))


def model(rows):
    return np.tanh(rows.sum(axis=1) + rows[:, 0] * rows[:, 1] * rows[:, 2])


class Counted:
    def __init__(self):
        self.n = 0

    def __call__(self, rows):
        self.n += len(rows)
        return model(rows)


SETTINGS = [{}, {"estimator": "kernel"}, {"features": "correlated"}, {"estimator": "per_feature"}, {"control": "none"},
            {"control": "taylor", "variance": "bootstrap"}, {"control": ["ridge", "taylor"]}]  # fmt: skip
LIMITS = [{"budget": 400}, {"budget": 9_000}, {"budget": 40_000}, {"budget": 3_000, "stop": "top 2"}]


@pytest.mark.filterwarnings("ignore::controlshap.ControlShapWarning")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_what_is_planned_is_done_within_its_costs(settings, limits):
    counted = Counted()
    explainer = cs.Explainer(counted, BACKGROUND, **settings)
    plan = explainer.plan(X[:1], **limits)
    assert counted.n == explainer.n_background_evaluations, "the plan itself costs nothing but the background"
    explanation = explainer(X[:1], rng=0, **limits)
    names = [type(part).__name__ for part in (plan.estimator, *plan.prepared_controls, *plan.fitted_controls)]
    assert explanation.method[0] == " + ".join(names)
    assert plan.costs.least <= explanation.n_evaluations[0] <= plan.budget
    if plan.is_exact:
        assert explanation.status[0] == "exact"


def test_a_plan_reads_as_text():
    text = str(cs.Explainer(model, BACKGROUND).plan(budget=900))
    assert "paired walks over the background in cycles" in text
    assert "1 for the row, 56 units of 16" in text
    assert str(cs.Explainer(model, BACKGROUND[:, :9]).plan(budget=20_000)).startswith("estimator   Enumeration()")


def test_rows_that_differ_are_counted():
    background, rows = BACKGROUND.copy(), X.copy()
    rows[1, 2] = np.nan
    plan = cs.Explainer(lambda r: model(np.nan_to_num(r)), background).plan(rows, budget=900)
    assert plan.notes == ("1 of 3 rows get other controls (missing values, or out of a shared surrogate's reach)",)


def test_a_budget_that_is_too_small_is_refused_by_the_plan():
    counted = Counted()
    with pytest.raises(cs.BudgetTooSmallError, match="`budget` must be at least"):
        cs.Explainer(counted, BACKGROUND).plan(budget=10)
    assert counted.n == 0


def test_a_slower_model_gives_the_same_bits():
    def slow(rows):
        time.sleep(2e-4 * len(rows))
        return model(rows)

    fast_result, slow_result = (cs.Explainer(f, BACKGROUND)(X[:2], budget=1_000, rng=0) for f in (model, slow))
    np.testing.assert_array_equal(fast_result.values, slow_result.values)
    np.testing.assert_array_equal(fast_result.standard_errors, slow_result.standard_errors)
    assert (fast_result.method == slow_result.method).all()


def test_time_that_is_stated_has_a_say():
    """Negative control: without the statement there are no trees."""
    pytest.importorskip("sklearn")
    stated = cs.Explainer(model, BACKGROUND, seconds_per_evaluation=0.01).plan(budget=1_000)
    assert [type(control).__name__ for control in stated.controls] == ["LogisticRidge", "Trees"]
    silent = cs.Explainer(model, BACKGROUND).plan(budget=1_000)
    assert [type(control).__name__ for control in silent.controls] == ["LogisticRidge"]
