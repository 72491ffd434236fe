"""A budget that is too small is refused with the number that is enough, and no budget above it is overspent."""

import pickle

import numpy as np
import pytest

import controlshap as cs

ESTIMATORS = ["auto", "permutation", "kernel", "per_feature", cs.Permutation(paired=False), cs.Kernel(n_draws=3)]


BACKGROUND = np.random.default_rng(2).normal(size=(9, 4))


def total(rows):
    return rows.sum(axis=1)


def least(explainer, x):
    with pytest.raises(
        cs.BudgetTooSmallError, match=r"`budget` must be at least \d+ evaluations a row.*got 1"
    ) as caught:
        explainer(x, budget=1, rng=0)
    assert str(caught.value.needed) in str(caught.value)
    return caught.value.needed


@pytest.mark.parametrize("n_players", [2, 3, 5])
@pytest.mark.parametrize("control", ["none", "taylor"])
@pytest.mark.parametrize("features", ["independent", "correlated"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.filterwarnings("ignore::controlshap.WeakControlWarning")
def test_the_budget_that_the_error_asks_for_is_the_least_that_works(estimator, features, control, n_players):
    background = np.random.default_rng(1).normal(size=(30, n_players))
    explainer = cs.Explainer(total, background, features=features, estimator=estimator, control=control)
    needed = least(explainer, background[:1])
    explanation = explainer(background[:1], budget=needed, rng=0)
    assert explanation.n_evaluations[0] <= needed
    assert np.isfinite(explanation.standard_errors).all()
    with pytest.raises(cs.BudgetTooSmallError, match=f"got {needed - 1}"):
        explainer(background[:1], budget=needed - 1, rng=0)


@pytest.mark.slow
@pytest.mark.parametrize("features", ["independent", "correlated"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_an_automatic_control_never_makes_a_budget_too_small(estimator, features):
    background = np.random.default_rng(1).normal(size=(8, 3))
    settings = {"features": features, "estimator": estimator}
    needed = least(cs.Explainer(total, background, control="none", **settings), background[:1])
    explainer = cs.Explainer(total, background, control="auto", **settings)
    for budget in range(needed, needed + 40):
        assert explainer(background[:1], budget=budget, rng=0).n_evaluations[0] <= budget


def test_an_error_about_the_budget_asks_for_more_than_it_got():
    # Second differences come in at a budget of 10 here, and that pays for them only from 11 on.
    background = np.random.default_rng(1).normal(size=(30, 2))
    explainer = cs.Explainer(total, background, estimator="permutation", control="taylor")
    with pytest.raises(cs.BudgetTooSmallError, match=r"at least 11 evaluations.*got 10"):
        explainer(background[:1], budget=10, rng=0)


@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_a_budget_that_is_too_small_is_refused_before_any_model_call(features):
    def untouchable(rows):
        pytest.fail("the model was called")

    explainer = cs.Explainer(untouchable, BACKGROUND, features=features, estimator="permutation", control="none")
    with pytest.raises(cs.BudgetTooSmallError, match="at least"):
        explainer(np.ones(4), budget=4, rng=0)


def test_groups_make_the_least_budget_smaller():
    background = np.random.default_rng(1).normal(size=(30, 6))
    alone = least(cs.Explainer(total, background, estimator="kernel", control="none"), background[:1])
    groups = [[0, 1], [2, 3], [4, 5]]
    together = least(cs.Explainer(total, background, estimator="kernel", control="none", groups=groups), background[:1])
    assert together < alone


def test_an_error_about_the_budget_survives_the_way_back_from_a_worker():
    error = pickle.loads(pickle.dumps(cs.BudgetTooSmallError("too small", 12)))
    assert (str(error), error.needed) == ("too small", 12)


def test_enumeration_leaves_room_for_a_control_that_was_asked_for():
    # 60 evaluations enumerate both players on 30 rows, but not together with their derivatives.
    background = np.random.default_rng(1).normal(size=(30, 2))
    explainer = cs.Explainer(total, background, control="taylor")
    methods = [explainer(background[:1], budget=budget, rng=0).method[0] for budget in range(60, 70)]
    assert set(methods) == {"Permutation + Taylor", "Enumeration + Taylor"}


def test_more_draws_than_background_rows_waste_no_budget():
    rows = np.random.default_rng(0).normal(size=(22, 4))
    explanation = cs.explain(
        lambda rows: np.tanh(rows[:, 0] * rows[:, 1] + rows[:, 2]), rows[:2], rows[2:], budget=20_000, rng=0,
        estimator=cs.Kernel(n_draws=500), control="none",
    )  # fmt: skip
    assert (explanation.n_evaluations > 19_900).all()


@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
def test_a_budget_too_small_for_the_groups_is_refused_before_any_call(estimator):
    calls = []

    def model(rows):
        calls.append(len(rows))
        return total(rows)

    explainer = cs.Explainer(model, BACKGROUND, estimator=estimator, control="none", variance=cs.Grouped(20))
    with pytest.raises(cs.BudgetTooSmallError, match="40 units") as caught:
        explainer(BACKGROUND[:2], budget=60, rng=0)
    assert not calls
    if estimator == "permutation":  # two coalitions a group are singular for the kernel, and it says so
        assert np.isfinite(explainer(BACKGROUND[:2], budget=caught.value.needed, rng=0).values).all()
