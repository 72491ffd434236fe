"""`refine` goes on with the same run: the same numbers as one longer run, and no evaluation is paid for twice.

Models here work element by element, so that a row's prediction does not depend on the batch it comes in.
"""

import time
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import LinearRegression

import controlshap as cs
from controlshap.results import collect as collecting
from controlshap.testing import gaussian_quadratic_game, shapley_by_definition

RNG = np.random.default_rng(12)
NUMERIC = RNG.normal(size=(20, 5)) * [1.0, 0.7, 1.3, 0.5, 1.0]
NUMERIC[:, 1] += 0.6 * NUMERIC[:, 0]
LEVEL = np.eye(3)[RNG.integers(0, 3, 20)]
BACKGROUND = np.column_stack([NUMERIC[:, :4], LEVEL, NUMERIC[:, 4]])
X = np.column_stack([RNG.normal(size=(3, 4)), np.eye(3)[[0, 2, 1]], RNG.normal(size=3)])
GROUPS = {"pair": [1, 3], "level": [4, 5, 6]}
ARRAYS = (
    "values", "standard_errors", "base_values", "base_standard_errors", "uncontrolled_values",
    "uncontrolled_standard_errors", "variance_reduction", "degrees_of_freedom", "covariance", "n_evaluations",
    "status", "method", "controls", "data", "background_standard_errors",
)  # fmt: skip


def one_output(rows):
    score = rows[:, 0] * rows[:, 1] - rows[:, 2] * rows[:, 5] * rows[:, 3] + 0.5 * rows[:, 4] - rows[:, 7] * rows[:, 2]
    return np.tanh(0.6 * score) + 0.3 * rows[:, 6]


def two_outputs(rows):
    return np.column_stack([one_output(rows), np.sin(rows[:, 0] + rows[:, 2]) * rows[:, 3] ** 2 + rows[:, 7]])


class Counting:
    """A model that knows how many rows it was asked about."""

    def __init__(self, function=one_output):
        self.function, self.n = function, 0

    def __call__(self, rows):
        self.n += len(rows)
        return self.function(rows)


def make(model=one_output, background=BACKGROUND, **settings):
    # an evaluation that takes no time: "auto" then decides without a clock
    return cs.Explainer(model, background, **({"seconds_per_evaluation": 0.0} | settings))


def assert_same(one, other, *, rows=slice(None), but=()):
    for name in ARRAYS:
        if name in but:
            continue
        first, second = getattr(one, name), getattr(other, name)
        if first is None or second is None:
            assert first is second, name
        else:
            np.testing.assert_array_equal(first[rows], second[rows], err_msg=name)


CASES = {
    "walks": {"estimator": "permutation", "control": "none"},
    "walks, groups": {"estimator": "permutation", "control": "ridge", "groups": GROUPS},
    "walks, taylor": {"estimator": "permutation", "control": "taylor", "groups": GROUPS},
    "walks, trees": {"estimator": "permutation", "control": ["ridge", cs.Trees(n_folds=2)], "groups": GROUPS},
    "walks of two draws": {"estimator": cs.Permutation(n_draws=2), "control": "auto"},
    "walks one way": {"estimator": cs.Permutation(paired=False), "control": "auto"},
    "walks, outputs": {"estimator": "permutation", "control": "auto", "model": two_outputs},
    "walks, bootstrap": {"estimator": "permutation", "control": "none", "variance": "bootstrap", "groups": GROUPS},
    "kernel": {"estimator": "kernel", "control": "none"},
    "kernel, ridge": {"estimator": "kernel", "control": "ridge", "groups": GROUPS, "model": two_outputs},
    "kernel, taylor": {"estimator": "kernel", "control": "taylor", "groups": GROUPS},
    "kernel, auto": {"estimator": "kernel", "control": "auto"},
    "kernel of three draws": {"estimator": cs.Kernel(n_draws=3), "control": "auto", "model": two_outputs},
    "kernel one way": {"estimator": cs.Kernel(paired=False), "control": "none"},
    "walks, grouped": {"estimator": "permutation", "control": "none", "variance": cs.Grouped(4)},
    "auto": {},
    "correlated walks": {"features": "correlated", "estimator": "permutation", "control": "none"},
    "correlated, taylor": {"features": "correlated", "estimator": "permutation", "control": "taylor", "groups": GROUPS},
    "correlated, ridge": {"features": "correlated", "estimator": "permutation", "control": "ridge", "groups": GROUPS},
    "correlated, auto": {"features": "correlated", "control": "auto", "model": two_outputs},
}


def explainer_of(settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.SingularCovarianceWarning)  # the one-hot block
        return make(**settings)


@pytest.mark.parametrize("settings", CASES.values(), ids=CASES.keys())
def test_refining_equals_one_longer_run_bit_for_bit(settings):
    explainer = explainer_of(settings)
    short = explainer(X[:2], budget=380, rng=5)
    refined = explainer.refine(short, budget=410)
    assert (refined.n_evaluations > short.n_evaluations).all()
    for row in range(2):  # a row that agrees with the background in more places has cheaper units
        longer = explainer(X[:2], budget=int(short.n_evaluations[row]) + 410, rng=5)
        assert_same(refined, longer, rows=[row])


@pytest.mark.parametrize("control", ["none", "auto"])
def test_refining_kernelshap_over_the_whole_background_equals_one_longer_run(control):
    explainer = make(background=BACKGROUND[:8], estimator=cs.Kernel(n_draws=8, reuse=True), control=control)
    short = explainer(X[:2], budget=700, rng=5)
    refined = explainer.refine(short, budget=500)
    for row in range(2):
        longer = explainer(X[:2], budget=int(short.n_evaluations[row]) + 500, rng=5)
        assert_same(refined, longer, rows=[row])


def test_refining_what_auto_made_of_a_large_budget_equals_one_longer_run():
    explainer = make(background=BACKGROUND[:10])
    short = explainer(X[:1], budget=2000, rng=5)
    assert short.method[0].startswith("Kernel + CoalitionProcess")
    refined = explainer.refine(short, budget=300)
    assert_same(refined, explainer(X[:1], budget=int(short.n_evaluations[0]) + 300, rng=5))


def test_refining_per_feature_sampling_equals_one_run_of_as_many_units():
    explainer = make(estimator="per_feature", control="none", groups=GROUPS)
    refined = explainer.refine(explainer(X, budget=380, rng=5), budget=2000)
    for row in range(3):
        n_units = refined.stages[row][-1]
        assert_same(refined, explainer(X, budget=1 + 20 * n_units, rng=5), rows=[row])


def test_refining_sampled_draws_that_are_enumerated_equals_one_longer_run():
    for p in (1, 2):
        explainer = make(lambda rows: np.sin(rows).sum(axis=1), BACKGROUND[:, :p], features="correlated")
        short = explainer(X[:, :p], budget=200, rng=5)
        assert short.method.tolist() == ["Enumeration"] * 3
        longer = explainer(X[:, :p], budget=int(short.n_evaluations[0]) + 150, rng=5)
        assert_same(explainer.refine(short, budget=150), longer)


def test_units_beyond_one_random_stream_and_one_batch_are_continued():
    # 2 evaluations a unit: 370 units, then 850, over streams of 256
    explainer = make(estimator="kernel", control="none", memory_limit=2**20)
    short = explainer(X[:1], budget=741, rng=5)
    assert_same(explainer.refine(short, budget=960), explainer(X[:1], budget=1701, rng=5))


def test_refining_twice_equals_refining_once():
    explainer = make(estimator="permutation", control="ridge", groups=GROUPS)  # 8 evaluations a unit
    rows = X + 0.01  # agree with the background nowhere: every unit has its 8 evaluations
    short = explainer(rows, budget=161, rng=5)
    twice = explainer.refine(explainer.refine(short, budget=80), budget=240)
    assert_same(twice, explainer.refine(short, budget=320))
    assert_same(twice, explainer(rows, budget=481, rng=5))
    assert twice.settings["refinements"] == 2


def test_the_number_of_workers_does_not_change_what_a_refinement_finds():
    explainer = make(estimator="permutation", control="ridge", groups=GROUPS)
    short = explainer(X, budget=200, rng=5, n_jobs=2)
    alone, together = explainer.refine(short, budget=200), explainer.refine(short, budget=200, n_jobs=2)
    assert_same(alone, together)
    for one, other in zip(alone.evaluations, together.evaluations, strict=True):
        np.testing.assert_array_equal(one, other)


SAVED = {
    "walks": {"estimator": "permutation", "control": "ridge", "groups": GROUPS, "model": two_outputs},
    "kernel": {"estimator": cs.Kernel(n_draws=3), "control": "taylor"},
    "correlated": {"features": "correlated", "estimator": "permutation", "control": "taylor", "groups": GROUPS},
}


@pytest.mark.parametrize("settings", SAVED.values(), ids=SAVED.keys())
def test_refining_goes_on_after_explanation_and_explainer_were_on_disk(tmp_path, settings):
    explainer = explainer_of(settings)
    short = explainer(X, budget=380, rng=2**70)
    expected = explainer.refine(short, budget=300)
    loaded = cs.load(short.save(tmp_path / "explanation"))
    assert loaded.stages == short.stages
    explainer.save(tmp_path / "explainer")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.SingularCovarianceWarning)
        again = cs.Explainer.load(tmp_path / "explainer", settings.get("model", one_output))
    assert_same(again.refine(loaded, budget=300), expected)
    refined = cs.load(expected.save(tmp_path / "refined"))
    assert_same(again.refine(refined, budget=100), explainer.refine(expected, budget=100))


def test_an_explainer_made_anew_with_the_same_settings_goes_on_too():
    short = make(estimator="kernel")(X, budget=300, rng=5)
    one, other = (make(estimator="kernel").refine(short, budget=200) for _ in range(2))
    assert_same(one, other)


def test_rows_of_a_frame_are_refined():
    frame = pd.DataFrame(BACKGROUND, columns=[f"c{i}" for i in range(8)])
    model = Counting(lambda rows: np.sin(rows["c0"] * rows["c1"]) + rows["c7"])
    explainer = make(model, frame, estimator="permutation")
    short = explainer(frame[:2], budget=100, rng=5)
    before = model.n
    refined = explainer.refine(short, budget=100)
    assert model.n - before == (refined.n_evaluations - short.n_evaluations).sum()
    assert_same(refined, explainer(frame[:2], budget=int(short.n_evaluations[0]) + 100, rng=5))


@pytest.mark.parametrize(
    "settings",
    [
        {"estimator": "permutation", "control": "none"},
        {"estimator": "kernel", "control": "taylor"},
        {"estimator": "per_feature", "control": "none"},
        {"estimator": cs.Kernel(n_draws=20, reuse=True), "control": "none"},
        {"features": "correlated", "estimator": "kernel", "control": "none"},
    ],
    ids=str,
)
def test_the_model_is_asked_only_for_what_is_new(settings):
    model = Counting()
    explainer = explainer_of({"model": model} | settings)
    short = explainer(X, budget=1200, rng=5)
    before = model.n
    refined = explainer.refine(short, budget=1500)
    added = refined.n_evaluations - short.n_evaluations
    assert model.n - before == added.sum()
    assert (added > 0).all()
    assert (added <= 1500).all()


def test_what_is_kept_is_every_evaluation_and_nothing_else():
    explainer = make(estimator="permutation", control="taylor")
    explanation = explainer(X, budget=300, rng=5)
    for made in (explanation, explainer.refine(explanation, budget=200)):
        assert [len(outputs) for outputs in made.evaluations] == made.n_evaluations.tolist()


def test_evaluations_stay_within_the_sum_of_the_budgets():
    explainer = make(estimator="per_feature", control="taylor", groups=GROUPS)
    explanation, total = explainer(X, budget=300, rng=5), 300
    for budget in (7, 150, 400, 33):
        before = explanation.n_evaluations
        explanation, total = explainer.refine(explanation, budget=budget), total + budget
        assert (explanation.n_evaluations <= total).all()
        assert (explanation.n_evaluations <= before + budget).all()


def test_a_budget_below_the_cost_of_a_unit_changes_no_number():
    model = Counting()
    explainer = make(model, estimator="permutation")
    short = explainer(X, budget=300, rng=5)
    before = model.n
    assert_same(explainer.refine(short, budget=1), short)
    assert model.n == before


def test_the_earlier_explanation_is_left_as_it_was():
    explainer = make(estimator="permutation", control="ridge")
    short, same = explainer(X, budget=300, rng=5), explainer(X, budget=300, rng=5)
    explainer.refine(short, budget=300)
    assert_same(short, same)
    assert (short.settings, short.stages) == (same.settings, same.stages)
    np.testing.assert_array_equal(short.look_shares, [1.0, 1.0, 1.0])
    assert [len(outputs) for outputs in short.evaluations] == short.n_evaluations.tolist()


# Estimators that take v(0) as given keep its draws of the first budget: no equality, but nothing is lost either.

SLOPE, BEND = RNG.normal(size=(1, 3)), 0.3 * RNG.normal(size=(1, 3, 3))
SMALL = RNG.normal(size=(60, 3)) * [1.0, 0.8, 1.2]
SMALL[:, 1] += 0.7 * SMALL[:, 0]


def quadratic(rows):
    return rows @ SLOPE[0] + np.einsum("ni,ij,nj->n", rows, BEND[0], rows)


@pytest.mark.parametrize("estimator", ["kernel", "per_feature"])
def test_a_v0_that_keeps_its_first_draws_leaves_refined_values_unbiased_and_calibrated(estimator, global_seed):
    n, x = 200, np.array([0.9, -0.6, 1.1])
    explainer = make(quadratic, SMALL, features="correlated", estimator=estimator, control="none")
    moments = explainer._assembly.imputer.moments
    covariance = moments.correlation * np.outer(moments.scale, moments.scale)
    game = gaussian_quadratic_game(SLOPE, BEND, x, moments.mean, covariance, [[0], [1], [2]])
    truth = shapley_by_definition(game, 3)[:, 0]
    short = explainer(np.tile(x, (n, 1)), budget=200, rng=global_seed)
    refined = explainer.refine(short, budget=600)
    observed = refined.values.std(axis=0, ddof=1)
    limit = norm.isf(1e-4 / 6)
    assert (np.abs(refined.values.mean(axis=0) - truth) < limit * observed / np.sqrt(n)).all()
    assert refined.values.std(axis=0).sum() < short.values.std(axis=0).sum()
    # a variance from n values is known to sqrt(2 / n), for tails as light as these
    ratio = (refined.standard_errors**2).mean(axis=0) / observed**2
    assert (np.abs(np.log(ratio)) < limit * np.sqrt(3.0 / n)).all()


# Ends before the budget.


def test_a_run_that_ended_early_is_continued_to_what_a_run_without_goals_finds():
    explainer = make(estimator="permutation", control="ridge", groups=GROUPS)
    early = explainer(X, budget=5000, tolerance=0.2, rng=5)
    assert (early.status == "converged").all()
    assert max(len(stages) for stages in early.stages) > 1
    refined = explainer.refine(early, budget=400)
    for row in range(3):
        longer = explainer(X, budget=int(early.n_evaluations[row]) + 400, rng=5)
        assert_same(refined, longer, rows=[row])


def test_goals_end_a_refinement_as_soon_as_they_are_reached():
    explainer = make(estimator="permutation", control="none", groups=GROUPS)
    short = explainer(X, budget=200, rng=5)
    refined = explainer.refine(short, budget=50_000, absolute_tolerance=0.01)
    assert (refined.status == "converged").all()
    assert (refined.standard_errors.max(axis=1) <= 0.01).all()
    assert (refined.n_evaluations > short.n_evaluations).all()
    assert (refined.n_evaluations < 20_000).all()
    assert all(later[: len(first)] == first for first, later in zip(short.stages, refined.stages, strict=True))


@pytest.mark.parametrize("goal", [{"absolute_tolerance": 1.0}, {"stop": "top 1", "level": 0.5}], ids=str)
def test_a_goal_that_is_reached_already_costs_nothing(goal):
    model = Counting(lambda rows: 5.0 * rows[:, 0] + one_output(rows))
    explainer = make(model, estimator="permutation", control="none", groups=GROUPS)
    short = explainer(np.abs(X) + 2.0, budget=1000, rng=5)
    before = model.n
    refined = explainer.refine(short, budget=50_000, **goal)
    assert (refined.status == "converged").all()
    assert model.n == before
    np.testing.assert_array_equal(refined.values, short.values)


def test_a_goal_out_of_reach_of_the_added_budget_is_told():
    explainer = make(estimator="permutation", control="none")
    short = explainer(X[:1], budget=200, rng=5)
    with pytest.warns(
        cs.NotConvergedWarning, match=r"Row 0 did not reach absolute_tolerance=1e-06 .*explainer\.refine"
    ):
        refined = explainer.refine(short, budget=200, absolute_tolerance=1e-6)
    assert refined.status.tolist() == ["budget reached"]
    # looks in between change nothing in what is found
    assert_same(refined, explainer.refine(short, budget=200))


def test_goals_of_a_refinement_do_not_change_estimator_and_control():
    explainer = make(background=BACKGROUND[:10])
    short = explainer(X[:1], budget=2000, rng=5)
    refined = explainer.refine(short, budget=20_000, absolute_tolerance=1e-3)
    assert refined.method.tolist() == short.method.tolist() == ["Kernel + CoalitionProcess + CoalitionProcess"]


# Rows that are exact.


def bent_regression(background):
    """A linear regression that says something else far from its background, and counts its rows."""
    model = LinearRegression().fit(background, background @ [1.0, 2.0, -1.0, 0.5, 0.3])
    counting = Counting(
        lambda rows: (
            rows @ model.coef_
            + model.intercept_
            + np.where(rows[:, 0] > 10, np.sin(rows[:, 1] * rows[:, 2]) * rows[:, 3], 0.0)
        )
    )
    model.predict = counting
    return model, counting


@pytest.mark.filterwarnings("ignore::controlshap.NotExactWarning")  # the model leaves its form far out
def test_exact_rows_stay_as_they_are_beside_refined_ones():
    background = BACKGROUND[:, [0, 1, 2, 3, 7]]
    model, counting = bent_regression(background)
    rows = RNG.normal(size=(4, 5))
    rows[[1, 2], 0] = 11.0
    explainer = make(model, background)
    short = explainer(rows, budget=200, rng=5)
    assert short.status.tolist() == ["exact", "budget reached", "budget reached", "exact"]
    before = counting.n
    refined = explainer.refine(short, budget=150)
    added = refined.n_evaluations - short.n_evaluations
    assert (added > 0).tolist() == [False, True, True, False]
    assert counting.n - before == added.sum()
    assert_same(refined, short, rows=[0, 3])
    np.testing.assert_array_equal(refined.look_shares, [1.0, 0.5, 0.5, 1.0])
    longest = explainer.refine(refined, budget=5000)
    assert_same(longest, short, rows=[0, 3])


def test_an_explanation_without_sampled_rows_comes_back_unchanged():
    model = Counting()
    explainer = make(model, groups=GROUPS)
    exact = explainer(X, budget=2000, rng=5)
    assert (exact.status == "exact").all()
    before = model.n
    refined = explainer.refine(exact, budget=1000)
    assert_same(refined, exact)
    assert model.n == before
    assert refined.look_shares.tolist() == [1.0, 1.0, 1.0]


# What whoever refines has seen.


def test_each_refinement_halves_the_share_of_rankings_and_simultaneous_intervals():
    explainer = make(estimator="permutation", control="none")
    explanation = explainer(X, budget=300, rng=5)
    for number in (1, 2, 3):
        explanation = explainer.refine(explanation, budget=100)
        np.testing.assert_array_equal(explanation.look_shares, np.full(3, 0.5**number))
        assert explanation.settings["refinements"] == number
    direct = replace(explanation, look_shares=np.ones(3))
    low, high = explanation.confidence_interval(simultaneous=True)
    narrower = direct.confidence_interval(simultaneous=True)
    sampled = explanation.standard_errors > 1e-9
    assert sampled.sum() >= 15
    assert (low < narrower[0])[sampled].all()
    assert (high > narrower[1])[sampled].all()
    np.testing.assert_array_equal(explanation.confidence_interval(), direct.confidence_interval())


def test_looks_within_a_refinement_share_its_half():
    explainer = make(estimator="permutation", control="none", groups=GROUPS)
    short = explainer(X, budget=801, rng=5)  # 100 units, 8 evaluations each
    refined = explainer.refine(short, budget=100_000, absolute_tolerance=0.05)
    # looks after 100, 140, 196, ... units and at 12,600
    looks, n = 1, 100
    while n < 12_600:
        looks, n = looks + 1, int(np.ceil(1.4 * n))
    np.testing.assert_allclose(refined.look_shares, np.full(3, 0.5 / looks))


def test_settings_tell_of_the_first_budget_and_the_refinements():
    explainer = make(estimator="permutation")
    short = explainer(X, budget=300, rng=5)
    refined = explainer.refine(short, budget=500)
    assert (short.settings["refinements"], refined.settings["refinements"]) == (0, 1)
    assert refined.settings == short.settings | {"refinements": 1}
    assert refined.entropy == short.entropy


# Refusals.


def test_an_explanation_of_other_players_is_refused_with_both_names():
    short = make(estimator="permutation")(X, budget=300, rng=5)
    with pytest.raises(cs.InvalidArgumentError, match=r"`explanation` is about the players \['x0'.*'pair'.*made it"):
        make(estimator="permutation", groups=GROUPS).refine(short, budget=300)


def test_an_explanation_that_was_not_kept_is_refused_with_the_way_out():
    explainer = make(estimator="permutation")
    short = explainer(X, budget=300, rng=5, keep=False)
    assert short.evaluations is None
    with pytest.raises(cs.InvalidArgumentError, match=r"`explanation` does not hold its evaluations.*keep=True"):
        explainer.refine(short, budget=300)
    assert_same(short, explainer(X, budget=300, rng=5))


@pytest.mark.parametrize("settings", [{"estimator": "kernel"}, {"features": "correlated", "control": "none"}], ids=str)
def test_an_explanation_of_an_explainer_with_other_settings_is_refused(settings):
    short = make(estimator="per_feature", control="none")(X, budget=1500, rng=5)
    with pytest.raises(cs.InvalidArgumentError, match=r"`explanation` was made with .*Refine it with the explainer"):
        explainer_of(settings).refine(short, budget=1500)


@pytest.mark.parametrize("thing", [None, X, {"values": X}], ids=["None", "an array", "a dict"])
def test_what_is_no_explanation_is_refused(thing):
    with pytest.raises(cs.InvalidArgumentError, match=r"`explanation` must be an Explanation.*got (None|nd|dict)"):
        make().refine(thing)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("budget", 0), ("budget", 2.5), ("tolerance", -1.0), ("stop", "soon"), ("level", 1.5), ("time_limit", 0)],
)
def test_limits_of_a_refinement_are_checked_as_those_of_a_call(argument, value):
    explainer = make(estimator="permutation")
    short = explainer(X, budget=300, rng=5)
    with pytest.raises(cs.InvalidArgumentError, match=f"`{argument}"):
        explainer.refine(short, **{argument: value})


# What is kept.


def test_evaluations_are_dropped_beyond_a_limit_unless_asked_for(monkeypatch):
    explainer = make(estimator="permutation", control="none")
    n_bytes = 8 * int(explainer(X, budget=300, rng=5).n_evaluations.sum())
    monkeypatch.setattr(collecting, "KEPT", n_bytes)
    assert explainer(X, budget=300, rng=5).evaluations is not None
    monkeypatch.setattr(collecting, "KEPT", n_bytes - 1)
    dropped = explainer(X, budget=300, rng=5)
    assert dropped.evaluations is None
    with pytest.raises(cs.InvalidArgumentError, match=r"more than 64 MB. Explain the rows again .* with keep=True"):
        explainer.refine(dropped, budget=100)
    kept = explainer(X, budget=300, rng=5, keep=True)
    assert kept.evaluations is not None
    assert explainer.refine(explainer.refine(kept, budget=100), budget=100).evaluations is not None


def test_what_was_not_kept_is_not_on_disk_either(tmp_path):
    explanation = make(estimator="permutation")(X, budget=300, rng=5, keep=False)
    assert cs.load(explanation.save(tmp_path)).evaluations is None


def test_what_a_goal_of_a_refinement_has_certified_the_ranking_certifies():
    rng = np.random.default_rng(1)
    w = np.array([1, 0.95, 0.9, 0.7, 0.6, 0.5])
    b, x = rng.normal(size=(200, 6)), rng.normal(size=(60, 6))
    e = make(
        lambda r: np.tanh((r * w).sum(1)) + 0.3 * r[:, 0] * r[:, 1] * r[:, 2],
        b,
        estimator="permutation",
        control="none",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.NotConvergedWarning)
        refined = e.refine(e(x[:20], budget=100, rng=0), budget=30_000, stop="top 2")
    assert (refined.status == "converged").sum() > 5
    assert refined.ranking(0.95).separated[refined.status == "converged", 1].all()


@pytest.mark.parametrize("estimator", [cs.Permutation(n_draws=2), "per_feature"], ids=str)
def test_an_explanation_with_too_few_evaluations_for_the_run_is_refused(estimator):
    short = make(estimator="permutation", control="none")(X, budget=300, rng=5)
    with pytest.raises(cs.InvalidArgumentError, match="`explanation`"):
        make(estimator=estimator, control="none").refine(short, budget=3000)


@pytest.mark.parametrize("rows", [BACKGROUND[::-1] * 2.0, BACKGROUND[:15]], ids=["other rows", "fewer rows"])
def test_an_explanation_over_another_background_is_refused(rows):
    short = make(estimator="permutation", control="none")(X, budget=300, rng=5)
    with pytest.raises(cs.InvalidArgumentError, match="`explanation`"):
        make(background=rows, estimator="permutation", control="none").refine(short, budget=300)


@pytest.mark.parametrize("n_jobs", [0, "two", True])
def test_workers_of_a_refinement_are_checked(n_jobs):
    e = make(estimator="permutation")
    with pytest.raises(cs.InvalidArgumentError, match="`n_jobs`"):
        e.refine(e(X, budget=300, rng=5), n_jobs=n_jobs)


def test_per_feature_sampling_spends_an_added_budget_of_several_units():
    e = make(estimator="per_feature", control="none", groups=GROUPS)
    short = e(X, budget=1000, rng=5)
    assert (e.refine(short, budget=100).n_evaluations > short.n_evaluations).all()  # a unit is 20 at most


def test_an_enumeration_that_ran_out_of_time_is_not_paid_for_again():
    def slow(rows):
        time.sleep(2e-4 * len(rows))
        return one_output(rows)

    model = Counting(slow)
    e = make(model, groups=GROUPS)
    short = e(X[:1], budget=100_000, time_limit=0.05, rng=5)
    assert short.status.tolist() == ["time reached"]
    before = model.n
    refined = e.refine(short, budget=100_000)
    assert model.n - before == refined.n_evaluations[0] - short.n_evaluations[0]


@pytest.mark.slow
def test_evaluations_beyond_the_limit_are_not_held_until_the_end(monkeypatch):
    monkeypatch.setattr(collecting, "KEPT", 1000)
    e = make(estimator="permutation", control="none")
    rows = np.tile(X[:1], (60, 1))
    peaks = []
    for keep in (False, None):
        e(rows[:1], budget=20_000, rng=0, keep=keep)
        tracemalloc.start()
        e(rows, budget=20_000, rng=0, keep=keep)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 3e6, peaks  # 60 rows x 160 kB = 9.6 MB


def test_refining_what_is_certified_with_the_same_rule_keeps_it_certified():
    explainer = make(estimator="permutation", control="none")
    certified = explainer(X, budget=100_000, stop="top 2", rng=3)
    refined = explainer.refine(certified, budget=100_000, stop="top 2")
    done = (certified.status == "converged") & (refined.status == "converged")
    assert done.any()
    assert refined.ranking(0.95).separated[done, 1].all()


@pytest.mark.parametrize("estimator", ["permutation", cs.PerFeature(own_draws=True), cs.Kernel(n_draws=3)], ids=str)
def test_rows_with_replacement_go_on_and_are_saved(estimator, tmp_path):
    rng = np.random.default_rng(0)
    background, X = rng.normal(size=(30, 4)), rng.normal(size=(2, 4))

    def model(rows):
        return np.tanh(rows[:, 0] * rows[:, 1] + rows[:, 2]) + rows[:, 3]

    settings = {"features": cs.Marginal(replace=True), "estimator": estimator, "control": cs.Taylor(seed=np.int64(3))}
    explainer = cs.Explainer(model, background, **settings)
    explainer.save(tmp_path / "explainer")
    again = cs.Explainer.load(tmp_path / "explainer", model)
    first = explainer(X, budget=600, rng=1)
    longer = again.refine(first, budget=1500)
    assert (again(X, budget=600, rng=1).values == first.values).all()
    assert (longer.standard_errors < first.standard_errors)[:, :3].all()
    if not isinstance(estimator, cs.PerFeature):  # which spends less than it may, so that its units are others
        whole = explainer(X, budget=int(longer.n_evaluations.max()), rng=1)
        np.testing.assert_allclose(longer.values, whole.values, rtol=0, atol=1e-12)
