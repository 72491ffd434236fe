"""`Explainer.plan`: what would be done is what is done, nothing is evaluated for it, and no clock has a say."""

import time

import numpy as np
import pytest

import controlshap as cs
from controlshap.engine.choice import TREES, TRIALS, pays_from

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
    planned = (plan.estimator, *plan.prepared_controls, *plan.fitted_controls)
    tried = {type(control).__name__ for control in plan.fitted_controls if control.on_trial}
    names = [type(part).__name__ for part in planned if type(part).__name__ not in tried]
    left = [] if plan.alternative is None else [[names[0], type(plan.alternative).__name__, *names[1:]]]
    assert [name for name in explanation.method[0].split(" + ") if name not in tried] in [names, *left]
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
    assert [type(control).__name__ for control in stated.controls] == ["LogisticRidge", "Polynomial", "Trees"]
    assert pays_from(TRIALS, 1_000, 1) < pays_from(TREES, 1_000, 1) < 0.01
    silent = cs.Explainer(model, BACKGROUND).plan(budget=1_000)
    names = [type(control).__name__ for control in silent.controls]
    assert names == ["LogisticRidge", "Polynomial", "ShallowTrees"], "the last two on trial"


def test_trials_are_left_out_of_models_that_are_faster_than_they_are():
    """The seconds from which they pay fall with the budget, since a part of their time is fixed."""
    explainer = cs.Explainer(model, BACKGROUND, seconds_per_evaluation=1e-7)
    least = [pays_from(TRIALS, budget, 1) for budget in (500, 5_000)]
    assert least[0] > least[1] > 1e-7
    plan = explainer.plan(budget=1_000)
    assert [type(control).__name__ for control in plan.controls] == ["LogisticRidge"]
    assert "trials of others pay from" in plan.reasons["control"]
    slower = cs.Explainer(model, BACKGROUND, seconds_per_evaluation=1.01 * least[0]).plan(budget=500)
    assert "Polynomial" in [type(control).__name__ for control in slower.controls]
    assert "trials" not in slower.reasons["control"]


def kinds_of_units(rows=X[:1], f=model, budget=150, background=BACKGROUND, settings=None, **limits):
    plan = cs.Explainer(f, background, **(settings or {})).plan(rows, budget=budget, **limits)
    return plan.estimator, plan.reasons["estimator"]


def test_single_walks_up_to_one_pass_over_the_background():
    """8 rows of a walk over 30 background rows are a pass of 240 evaluations, and 264 are 1.1 of them."""
    below, reason = kinds_of_units(budget=264)
    assert below == cs.Permutation(paired=False)
    assert "at most one pass" in reason
    assert kinds_of_units(budget=265)[0] == cs.Permutation()
    assert kinds_of_units(budget=264, tolerance=0.1)[0] == cs.Permutation(), "it may take many passes"
    for settings in ({"control": "none"}, {"features": "correlated"}):
        assert kinds_of_units(settings=settings)[0] == cs.Permutation(), "measured with fitted controls only"
    asked = cs.Explainer(model, BACKGROUND, estimator="permutation").plan(X[:1], budget=150)
    assert asked.estimator == cs.Permutation(), "what was asked for is done"


def test_a_pass_is_shorter_for_a_row_that_agrees_with_the_background():
    background = BACKGROUND.copy()
    background[:, 4:] = 0.0
    rows = np.stack([X[0], np.append(X[1, :4], np.zeros(5))])
    explainer = cs.Explainer(model, background)
    assert explainer.plan(rows[:1], budget=150).estimator == cs.Permutation(paired=False)
    assert explainer.plan(rows[1:], budget=150).estimator == cs.Permutation(), "a pass is 90 evaluations"
    assert explainer.plan(rows, budget=150).notes == (
        "1 of 2 rows get another estimator than the first, which this is about",
    )
    with_both = explainer(rows, budget=150, rng=0)
    assert (with_both.n_evaluations <= 150).all()


@pytest.mark.parametrize("budget", [150, 900])
def test_labels_go_to_kernelshap(budget):
    def labels(rows):
        return (model(rows) > 0.2).astype(float)

    estimator, reason = kinds_of_units(f=labels, budget=budget)
    assert estimator == cs.Kernel()
    assert "whole numbers" in reason
    explanation = cs.Explainer(labels, BACKGROUND)(X[:1], budget=budget, rng=0)
    assert explanation.method[0] == "Kernel + LogisticRidge"
    assert kinds_of_units(f=lambda r: labels(r) + 0.5, budget=budget)[0] != cs.Kernel(), "not by two values alone"
    assert kinds_of_units(f=labels, budget=50)[0] == cs.Permutation(paired=False), "too little for a regression"
    assert kinds_of_units(f=labels, budget=budget, background=BACKGROUND[:9])[0] != cs.Kernel()


def test_a_label_of_the_row_alone_decides_nothing():
    """All f(b) are whole numbers and f(x) is not: known only when the row begins."""

    def mixed(rows):
        return np.where((rows == X[0]).all(axis=1), 0.5, np.rint(model(rows)))

    explanation = cs.Explainer(mixed, BACKGROUND)(X[:1], budget=900, rng=0)
    assert explanation.method[0].startswith("Permutation")


def test_a_default_budget_is_raised_to_what_is_exact():
    """510 coalitions of 30 rows: 15,301 evaluations, between 10,000 and four times that."""
    counted = Counted()
    explainer = cs.Explainer(counted, BACKGROUND)
    plan = explainer.plan(X[:1])
    assert (plan.is_exact, plan.budget) == (True, 1 + 510 * 30)
    explanation = explainer(X[:1], rng=0)
    assert explanation.status[0] == "exact"
    assert counted.n == 30 + 16 + 1 + 510 * 30
    assert not explainer.plan(X[:1], budget=10_000).is_exact, "a budget that was set is kept"
    assert not explainer.plan(X[:1], tolerance=0.01).is_exact, (
        "a run that may end early is not sent through all of them"
    )
    more = np.concatenate([BACKGROUND] * 3)
    assert not cs.Explainer(model, more).plan(X[:1]).is_exact, "45,901 are too many"
    assert not cs.Explainer(model, BACKGROUND, estimator="permutation").plan(X[:1]).is_exact


def test_a_budget_just_short_of_exact_says_so():
    explainer = cs.Explainer(model, BACKGROUND)
    note = "nearly exact: budget=15301 covers all coalitions, without sampling error"
    assert explainer.plan(X, budget=8_000).notes == (note,)
    assert note in str(explainer.plan(budget=8_000))
    assert explainer.plan(X, budget=7_000).notes == (), "twice as much is not just short"
    assert explainer.plan(X, budget=15_301).is_exact


@pytest.mark.parametrize(("n_rows", "n_players", "fewest"), [(30, 12, 79), (20, 12, 65), (9, 12, 65), (100, 12, 144),
                                                             (30, 9, 60), (100, 9, 77), (101, 9, 109)])  # fmt: skip
def test_the_whole_background_from_so_many_pairs_of_coalitions_on(n_rows, n_players, fewest):
    """1.2 sqrt(M) pairs a player, or with up to 100 rows a quarter of all, 64 of 256, and 0.85 sqrt(M) a player."""
    background = np.random.default_rng(1).normal(size=(n_rows, n_players))

    def chosen(n_pairs):
        return cs.Explainer(model, background).plan(budget=1 + 2 * n_rows * n_pairs).estimator

    assert chosen(fewest) == cs.Kernel(n_draws=n_rows, reuse=True)
    assert chosen(fewest - 1) == cs.Permutation()


@pytest.mark.parametrize("settings", [{"estimator": "per_feature", "control": "polynomial"},
                                      {"features": "correlated", "control": "coalitions"}], ids=str)  # fmt: skip
def test_a_plan_refuses_what_its_call_refuses(settings):
    explainer = cs.Explainer(model, BACKGROUND, **settings)
    for ask in (explainer.plan, explainer):
        with pytest.raises(cs.NoClosedFormError):
            ask(X, budget=400)
