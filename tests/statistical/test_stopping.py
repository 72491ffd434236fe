"""Rules that end a run: what they certify is right at the level, and each row ends as it says.

Truth is by enumeration (independent) or the textbook conditional moments of a quadratic (correlated). Copies of one row
have streams of their own: they are independent replications. Wrong certificates are counted and compared with the level
by a binomial test at 1e-4.
"""

import math
import warnings

import numpy as np
import pytest
from conftest import make_data
from scipy.stats import binomtest

import controlshap as cs
from controlshap.statistics.stopping import Rule, Snapshot, Stopping, parse_rules
from controlshap.testing import gaussian_quadratic_game, marginal_game, shapley_by_definition

pytestmark = pytest.mark.slow

LEVEL = 0.95
RARE = 1e-4
N_RUNS = 120
RNG = np.random.default_rng(3)
BACKGROUND = RNG.normal(size=(100, 6))
WEIGHTS = np.array([1.0, -0.7, 0.5, 0.4, -0.3, 0.2])
ROW = np.array([0.8, -0.6, -1.1, -0.9, -0.4, 1.6])
X = np.array([ROW, -ROW, 0.3 * ROW, np.roll(ROW, 1)])


def smooth(rows):
    return np.tanh(0.5 * rows @ WEIGHTS + 0.4 * rows[:, 0] * rows[:, 1] * rows[:, 2])


def smooth2(rows):
    other = np.sin(rows[:, 3] - rows[:, 1]) * (1.0 + 0.3 * rows[:, 4]) + 0.2 * rows[:, 5] - 0.4 * rows[:, 2]
    return np.column_stack([smooth(rows), other])


def walks(model=smooth, **settings):
    return cs.Explainer(model, BACKGROUND, estimator="permutation", control="none", **settings)


def truth_of(model, row=ROW):
    columns = [[c] for c in range(6)]
    return np.asarray(shapley_by_definition(marginal_game(model, row, BACKGROUND, columns), 6)).reshape(6, -1)


def replicated(explainer, row, n=N_RUNS, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.NotConvergedWarning)
        return explainer(np.tile(row, (n, 1)), **settings)


def is_wrong(rule, values, truth):
    """Whether what the rule certifies about values `(p,)` is not so in truth."""
    kind, _, number = rule.partition(" ")
    if kind == "signs":
        return bool((np.sign(values) != np.sign(truth)).any())
    found, right = (np.argsort(-np.abs(one), kind="stable") for one in (values, truth))
    k = int(number) if number else len(values)
    if kind == "top":
        return set(found[:k]) != set(right[:k])
    return found[:k].tolist() != right[:k].tolist()


def n_wrong(rule, explanation, truth):
    values = explanation.values if explanation.values.ndim == 3 else explanation.values[..., None]
    ended = explanation.status == "converged"
    assert ended.any()
    wrong = [
        [is_wrong(rule, values[row, :, output], truth[:, output]) for output in range(values.shape[2])]
        for row in np.flatnonzero(ended)
    ]
    return np.sum(wrong, axis=0)


def within_level(counts, n=N_RUNS):
    return all(binomtest(int(one), n, 1 - LEVEL, alternative="greater").pvalue > RARE for one in counts)


RULES = ["signs", "top 1", "top 3", "ranking 2", "ranking"]


@pytest.mark.parametrize("rule", RULES)
def test_what_a_rule_certifies_is_right_at_the_level(rule, global_seed):
    explanation = replicated(walks(), ROW, stop=rule, budget=8000, rng=global_seed)
    assert within_level(n_wrong(rule, explanation, truth_of(smooth)))


@pytest.mark.parametrize("rule", ["signs", "top 3", "ranking 2"])
def test_certificates_are_caught_where_two_players_are_mistaken_for_each_other(rule, global_seed):
    explanation = replicated(walks(), ROW, n=60, stop=rule, budget=8000, rng=global_seed)
    truth = truth_of(smooth)[[3, 1, 2, 0, 4, 5]]
    assert not within_level(n_wrong(rule, explanation, truth), 60)


@pytest.mark.parametrize("rule", ["signs", "top 2"])
def test_what_a_rule_certifies_with_a_fitted_control_is_right_at_the_level(rule, global_seed):
    explainer = cs.Explainer(smooth, BACKGROUND, estimator="permutation", control="ridge")
    explanation = replicated(explainer, ROW, n=50, stop=rule, budget=4000, rng=global_seed)
    assert within_level(n_wrong(rule, explanation, truth_of(smooth)), 50)


@pytest.mark.parametrize("rule", ["signs", "top 2"])
def test_what_a_rule_certifies_from_regression_is_right_at_the_level(rule, global_seed):
    explainer = cs.Explainer(smooth, BACKGROUND, estimator="kernel", control="none")
    explanation = replicated(explainer, ROW, n=100, stop=rule, budget=6000, rng=global_seed)
    assert within_level(n_wrong(rule, explanation, truth_of(smooth)), 100)


@pytest.mark.parametrize("rule", ["signs", "top 3"])
def test_what_a_rule_certifies_is_right_for_every_output(rule, global_seed):
    explanation = replicated(walks(smooth2), ROW, stop=rule, budget=60_000, rng=global_seed, n=60)
    assert within_level(n_wrong(rule, explanation, truth_of(smooth2)), 60)


@pytest.mark.parametrize("rule", ["signs", "top 1", "ranking"])
def test_what_a_rule_certifies_is_right_for_groups_of_correlated_features(rule, global_seed):
    data = make_data(n_rows=40)
    rng = np.random.default_rng(5)
    slope, bend = rng.normal(size=(1, 7)), 0.25 * rng.normal(size=(1, 7, 7))

    def quadratic(rows):
        return rows @ slope[0] + np.einsum("ni,ij,nj->n", rows, bend[0], rows)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.SingularCovarianceWarning)
        explainer = cs.Explainer(
            quadratic, data.background, features="correlated", estimator="permutation", control="none",
            groups=data.groups,
        )  # fmt: skip
    moments = explainer._assembly.imputer.moments
    covariance = moments.correlation * np.outer(moments.scale, moments.scale)
    game = gaussian_quadratic_game(slope, bend, data.x, moments.mean, covariance, data.columns)
    truth = np.asarray(shapley_by_definition(game, 4)).reshape(4, 1)
    explanation = replicated(explainer, data.x, n=100, stop=rule, budget=4000, rng=global_seed)
    assert within_level(n_wrong(rule, explanation, truth), 100)


def share_of_wrong_signs(share_of_a_look, rng, n=1500, start=40, most=20_000):
    """A value just above 0, followed as its error shrinks, until its sign is certain or the budget ends."""
    stopping = Stopping(most, rules=(Rule("signs"),), alpha=1 - LEVEL)
    wrong = 0
    share = share_of_a_look(stopping.n_looks(start, most))
    for _ in range(n):
        total, units, following = 0.0, 0, start
        while following > units:
            total += math.sqrt(following - units) * rng.normal()
            units = following
            snapshot = Snapshot(np.array([[total / units + 1e-9]]), np.array([[[1 / units]]]), np.array([[math.inf]]))
            if stopping.error_ratio(snapshot, share) <= 1:
                wrong += total < 0
                break
            following = stopping.next_stage(units, most, 0.0)
    return wrong, n


def test_a_rule_that_is_looked_at_many_times_is_wrong_no_more_than_the_level_says(global_seed):
    wrong, n = share_of_wrong_signs(lambda n_looks: 1 / n_looks, np.random.default_rng(global_seed))
    assert within_level([wrong], n)


def test_looks_that_each_use_the_whole_level_are_wrong_too_often(global_seed):
    wrong, n = share_of_wrong_signs(lambda n_looks: 1.0, np.random.default_rng(global_seed))
    assert not within_level([wrong], n)


@pytest.mark.parametrize(("start", "most"), [(2, 2), (2, 3), (16, 1000), (40, 41), (40, 56), (40, 99_999)])
def test_the_number_of_looks_is_known_before_the_first(start, most):
    stopping = Stopping(1000, rules=(Rule("signs"),))
    stages = [start]
    while stages[-1] < most:
        stages.append(stopping.next_stage(stages[-1], most, 1.0))
    assert stages[-1] == most
    assert stopping.n_looks(start, most) == sum(n >= stopping.first_look or n == most for n in stages)


def test_a_run_without_anything_to_stop_for_is_looked_at_once():
    stopping = Stopping(1000)
    assert stopping.n_looks(stopping.first_stage(2, 500), 500) == 1
    assert walks()(ROW[None], budget=500, rng=0).look_shares.tolist() == [1.0]


def test_a_run_that_is_never_certain_uses_the_shares_of_all_its_looks():
    with pytest.warns(cs.NotConvergedWarning):
        explanation = walks()(ROW[None], stop="ranking", budget=2000, rng=0)
    assert len(explanation.stages[0]) * explanation.look_shares[0] == pytest.approx(1.0)


def test_rules_are_first_looked_at_with_enough_units_for_far_quantiles():
    assert walks()(ROW[None], stop="top 1", level=0.01, rng=0).stages[0][0] == 40
    assert walks()(ROW[None], tolerance=10.0, rng=0).stages[0] == (16,)


@pytest.mark.parametrize(
    ("rule", "is_certified"),
    [
        ("top 2", lambda ranking: ranking.top(2) is not None),
        ("ranking 2", lambda ranking: ranking.n_ordered[0] >= 2),
        ("ranking", lambda ranking: ranking.n_ordered[0] == 6),
    ],
)
def test_what_a_rule_stopped_for_is_certified_by_the_ranking(rule, is_certified):
    for seed in range(10):
        explanation = replicated(walks(), ROW, n=1, stop=rule, budget=20_000, level=0.9, rng=seed)
        if explanation.status[0] == "converged":
            assert is_certified(explanation.ranking(0.9))


def test_a_rule_is_met_for_all_outputs_before_it_ends_the_run():
    explanation = walks(smooth2)(X, stop="top 1", budget=200_000, rng=1)
    ranking = explanation.ranking()
    assert (explanation.status == "converged").all()
    assert all(ranking.top(1, row=row, output=output) is not None for row in range(4) for output in range(2))


def test_the_ends_of_signs_are_away_from_zero():
    explanation = walks()(X, stop="signs", rng=2)
    low, high = explanation.confidence_interval()
    assert (explanation.status == "converged").all()
    assert ((low > 0) | (high < 0)).all()


def test_each_row_stops_on_its_own():
    explanation = walks()(X, stop="top 2", rng=4)
    assert len(set(explanation.n_evaluations.tolist())) > 1
    assert [stages[-1] * 10 + 1 for stages in explanation.stages] == explanation.n_evaluations.tolist()


def test_a_row_does_not_depend_on_how_long_others_took():
    together = walks()(X, stop="top 2", rng=4)
    alone = walks()(X[:1], stop="top 2", rng=4)
    np.testing.assert_array_equal(alone.values[0], together.values[0])
    assert alone.n_evaluations[0] == together.n_evaluations[0]


def test_several_rules_end_a_run_when_all_are_met():
    both = walks()(X, stop=["signs", "top 2"], rng=5)
    for rule in ("signs", "top 2"):
        assert (walks()(X, stop=rule, rng=5).n_evaluations <= both.n_evaluations).all()
    ranking = both.ranking()
    assert all(ranking.top(2, row=row) is not None for row in range(4))


def test_several_rules_share_the_level():
    snapshot = Snapshot(np.array([[2.0], [0.5]]), 0.01 * np.eye(2)[None], np.full((2, 1), 20.0))
    rules = Rule("signs"), Rule("top", 1)
    both = Stopping(100, rules=rules, alpha=0.1).error_ratio(snapshot, 0.5)
    assert both == max(rule.ratio(snapshot, 0.1 * 0.5 / 2) for rule in rules)


def test_a_rule_and_a_tolerance_are_both_reached():
    explanation = walks()(X, stop="top 1", tolerance=0.02, rng=6)
    errors, spread = explanation.standard_errors.max(axis=1), np.ptp(explanation.values, axis=1)
    assert (explanation.status == "converged").all()
    assert (errors <= 0.02 * spread).all()
    assert all(explanation.ranking().top(1, row=row) is not None for row in range(4))


def test_an_absolute_tolerance_bounds_the_largest_error_of_every_output():
    explanation = walks(smooth2)(X, absolute_tolerance=0.01, rng=7)
    assert (explanation.status == "converged").all()
    assert explanation.standard_errors.max() <= 0.01


def test_a_smaller_absolute_tolerance_takes_more_evaluations():
    few, many = (walks()(ROW[None], absolute_tolerance=one, rng=8).n_evaluations[0] for one in (0.02, 0.004))
    assert many > few


def test_a_higher_level_takes_more_evaluations():
    counts = [walks()(X, stop="signs", level=level, rng=9).n_evaluations for level in (0.5, 0.95, 0.999)]
    assert (counts[0] <= counts[1]).all()
    assert (counts[1] <= counts[2]).all()
    assert counts[0].sum() < counts[2].sum()


def test_a_budget_that_ends_first_is_told_with_the_way_out():
    with pytest.warns(cs.NotConvergedWarning, match=r"Row 0 .*stop='ranking' within the limits.*Raise `budget`"):
        explanation = walks()(ROW[None], stop="ranking", budget=600, rng=0)
    assert explanation.status.tolist() == ["budget reached"]
    assert explanation.n_evaluations[0] <= 600


def test_a_time_that_ends_first_is_told_with_the_way_out():
    with pytest.warns(cs.NotConvergedWarning, match=r"Row 0 .*stop='ranking 3' within the limits.*`time_limit`"):
        explanation = walks()(ROW[None], stop="ranking 3", time_limit=1e-6, rng=0)
    assert explanation.status.tolist() == ["time reached"]


def test_a_time_limit_alone_is_no_goal_to_miss():
    assert walks()(ROW[None], time_limit=1e-6, rng=0).status.tolist() == ["time reached"]


def test_all_that_was_asked_for_is_in_the_warning():
    with pytest.warns(
        cs.NotConvergedWarning, match=r"tolerance=0\.001 and absolute_tolerance=0\.0001 and stop='top 2'"
    ):
        walks()(ROW[None], tolerance=0.001, absolute_tolerance=0.0001, stop="top 2", budget=600, rng=0)


def test_exact_rows_need_no_rule():
    explanation = cs.Explainer(smooth, BACKGROUND)(X, stop="ranking", rng=0)
    assert (explanation.status == "exact").all()
    assert (explanation.ranking().n_ordered == 6).all()


@pytest.mark.parametrize("settings", [{"stop": "top 2"}, {"stop": ["signs", "top 2"], "tolerance": 0.05}], ids=str)
def test_rows_stop_at_the_same_bits_with_any_number_of_workers(settings):
    one, two = (walks()(X, rng=10, budget=50_000, n_jobs=n_jobs, **settings) for n_jobs in (1, 2))
    for name in ("values", "covariance", "n_evaluations", "status", "look_shares"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert one.stages == two.stages


BAD = {
    "an unknown rule": ({"stop": "sign"}, r"`stop` must be 'signs', 'top 5', .*list of them; got 'sign'"),
    "a top without number": ({"stop": "top"}, r"`stop` must be .*got 'top'"),
    "signs with a number": ({"stop": "signs 3"}, r"`stop` must be .*got 'signs 3'"),
    "a number in a list": ({"stop": ["signs", 3]}, r"`stop` must be .*got 3"),
    "no player": ({"stop": "top 0"}, r"`stop='top 0'` needs a number from 1 to 5: there are 6 players"),
    "all players": ({"stop": "top 6"}, r"`stop='top 6'` needs a number from 1 to 5: there are 6 players"),
    "too many places": ({"stop": ["signs", "ranking 9"]}, r"`stop='ranking 9'` needs a number from 1 to 5"),
    "level 1": ({"level": 1}, r"`level` must lie between 0 and 1; got 1\. Use for example 0\.95"),
    "level 0": ({"level": 0.0}, r"`level` must lie between 0 and 1; got 0\.0"),
    "level in per cent": ({"stop": "signs", "level": 95}, r"`level` must lie between 0 and 1; got 95"),
    "level text": ({"level": "high"}, r"`level` must lie between 0 and 1; got 'high'"),
    "level true": ({"level": True}, r"`level` must lie between 0 and 1; got True"),
    "level not a number": ({"level": math.nan}, r"`level` must lie between 0 and 1; got nan"),
    "no time": ({"time_limit": 0}, r"`time_limit` must be positive, seconds for each row; got 0\. Leave it out"),
    "time text": ({"time_limit": "1 h"}, r"`time_limit` must be positive.*got '1 h'"),
    "time not a number": ({"time_limit": math.nan}, r"`time_limit` must be positive.*got nan"),
    "negative error": ({"absolute_tolerance": -0.1}, r"`absolute_tolerance` must be positive.*got -0\.1.*`tolerance`"),
    "error zero": ({"absolute_tolerance": 0.0}, r"`absolute_tolerance` must be positive, a standard error.*got 0\.0"),
    "error true": ({"absolute_tolerance": True}, r"`absolute_tolerance` must be positive.*got True"),
    "share zero": ({"tolerance": 0.0}, r"`tolerance` must be positive, a share.*got 0\.0\. Use for example 0\.01"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_goals_are_refused_by_name_before_any_evaluation(case):
    settings, message = BAD[case]
    asked = []

    def counting(rows):
        asked.append(len(rows))
        return rows.sum(axis=1)

    with pytest.raises(cs.InvalidArgumentError, match=message):
        cs.Explainer(counting, BACKGROUND)(ROW[None], **settings)
    assert asked == []


@pytest.mark.parametrize(
    ("stop", "rules"),
    [
        (None, ()),
        ("signs", (Rule("signs"),)),
        ("top 3", (Rule("top", 3),)),
        ("ranking", (Rule("ranking"),)),
        (" ranking  2 ", (Rule("ranking", 2),)),
        (("signs", "top 1"), (Rule("signs"), Rule("top", 1))),
    ],
)
def test_rules_are_read_from_words(stop, rules):
    assert parse_rules(stop, 6) == rules


def test_the_order_of_the_largest_says_nothing_about_the_rest():
    values = np.array([[9.0], [5.0], [1.0], [1.0]])
    snapshot = Snapshot(values, 0.01 * np.eye(4)[None], np.full((4, 1), 50.0))
    assert Rule("ranking", 2).ratio(snapshot, 0.05) < 1
    assert Rule("ranking").ratio(snapshot, 0.05) == math.inf


def test_a_set_of_the_largest_says_nothing_about_their_order():
    values = np.array([[5.0], [-5.0], [1.0]])
    snapshot = Snapshot(values, 0.01 * np.eye(3)[None], np.full((3, 1), 50.0))
    assert Rule("top", 2).ratio(snapshot, 0.05) < 1
    assert Rule("ranking", 2).ratio(snapshot, 0.05) == math.inf


@pytest.mark.parametrize("kind", ["signs", "ranking"])
def test_a_rule_is_as_far_as_its_worst_output(kind):
    rng = np.random.default_rng(0)
    values, covariance, dof = (
        rng.normal(size=(4, 3)),
        np.stack([s * np.eye(4) for s in (1, 2, 3)]),
        np.full((4, 3), 9.0),
    )
    parts = [Snapshot(values[:, [o]], covariance[[o]], dof[:, [o]]) for o in range(3)]
    assert Rule(kind).ratio(Snapshot(values, covariance, dof), 0.05) == max(Rule(kind).ratio(o, 0.05) for o in parts)


@pytest.mark.parametrize("features", ["independent", "correlated"])
@pytest.mark.parametrize("rule", ["signs", "ranking"])
def test_one_player_can_be_stopped_for(rule, features):
    explainer = cs.Explainer(lambda rows: np.tanh(rows[:, 0]), BACKGROUND[:, :1], features=features)
    explanation = explainer(np.array([[2.0], [1.5]]), stop=rule, rng=0)
    assert set(explanation.status) <= {"exact", "converged"}
    assert (explanation.values > 0).all()


def test_one_player_has_no_others_to_be_among():
    explainer = cs.Explainer(lambda rows: rows[:, 0] ** 3, BACKGROUND[:, :1])
    with pytest.raises(cs.InvalidArgumentError, match=r"`stop='top 1'`.*one player only"):
        explainer(np.array([[2.0]]), stop="top 1")


def test_two_players_can_be_told_apart():
    explainer = cs.Explainer(
        lambda rows: np.tanh(rows[:, 0] + 0.1 * rows[:, 1]), BACKGROUND[:, :2], features="correlated", control="none"
    )
    explanation = explainer(np.array([[2.0, 1.0]]), stop=["signs", "ranking"], rng=0)
    assert explanation.ranking().names() == ("x0", "x1")
    assert explanation.status.tolist() == ["converged"]


def test_a_control_saves_evaluations_in_proportion_to_its_gain():
    explanation = cs.Explainer(smooth, BACKGROUND, estimator="permutation", control="ridge")(X, budget=2000, rng=0)
    np.testing.assert_allclose(explanation.evaluations_saved, (explanation.gain - 1) * explanation.n_evaluations)
    assert (explanation.evaluations_saved > 0).all()


def test_evaluations_saved_are_those_that_plain_sampling_needs():
    settings = {"estimator": "permutation", "seconds_per_evaluation": 0.0}
    controlled = cs.Explainer(smooth, BACKGROUND, control="ridge", **settings)(ROW[None], budget=2000, rng=0)
    as_many = int(controlled.n_evaluations[0] + controlled.evaluations_saved[0])
    plain = walks()(ROW[None], budget=as_many, rng=0)
    ratio = (plain.standard_errors**2).sum() / (controlled.standard_errors**2).sum()
    # both variances are known to a fifth or so
    assert 0.5 < ratio < 2.0


@pytest.mark.parametrize("control", ["none", "auto"])
def test_nothing_is_saved_without_control_or_error(control):
    explainer = walks() if control == "none" else cs.Explainer(smooth, BACKGROUND)
    assert explainer(X, budget=10_000, rng=0).evaluations_saved.tolist() == [0.0] * 4


def rare(rows):
    """One column matters in two of a hundred background rows only."""
    return 1.0 * (rows[:, 0] > 0) + 10.0 * (rows[:, 1] > 0) * (rows[:, 2] > 0)


def test_an_error_of_zero_certifies_nothing_before_every_background_row_was_seen():
    background = np.random.default_rng(0).normal(size=(200, 3))
    background[:, 1] = np.arange(200) < 4
    x = np.array([1.0, 0.0, 1.0])
    truth = cs.Explainer(rare, background)(x, budget=2000).values[0]
    explainer = cs.Explainer(rare, background, estimator="permutation", control="none")
    found = replicated(explainer, x, n=50, stop="signs", budget=20_000, rng=0)
    certified = found.status == "converged"
    assert (np.sign(found.values[certified]) == np.sign(truth)).all()
    short = explainer(x, budget=100, rng=1)
    assert not short.complete[0]
    assert not short.ranking().separated[:, -1].any()


def test_a_generous_time_limit_lets_a_row_run_to_its_budget():
    found = walks()(ROW[None], budget=3000, time_limit=60.0, rng=0)
    assert found.status.tolist() == ["budget reached"]
    assert found.look_shares.tolist() == [1.0]
    np.testing.assert_allclose(found.values, walks()(ROW[None], budget=3000, rng=0).values, atol=1e-10)


def test_with_a_time_limit_no_rule_is_looked_at_before_forty_units():
    found = walks()(np.tile(ROW, (5, 1)), stop="signs", budget=50_000, time_limit=60.0, rng=0)
    assert all(stages[-1] >= 40 for stages in found.stages)


def test_ties_without_error_are_not_separated():
    background = np.tile(np.random.default_rng(0).normal(size=(50, 1)), (1, 6))
    found = cs.Explainer(lambda rows: np.sin(rows).sum(axis=1), background)(np.full(6, 0.3), budget=10_000, rng=0)
    assert found.status.tolist() == ["exact"]
    assert not found.ranking().separated.any()


@pytest.mark.parametrize("goal", [{"tolerance": 1e-200}, {"absolute_tolerance": 1e-200}], ids=str)
def test_a_tolerance_out_of_reach_ends_with_the_budget(goal):
    with pytest.warns(cs.NotConvergedWarning):
        assert walks()(ROW[None], budget=500, rng=0, **goal).status.tolist() == ["budget reached"]


@pytest.mark.parametrize("stop", [5, True, [], [5]], ids=str)
def test_a_rule_that_is_no_text_is_refused_by_name(stop):
    with pytest.raises(cs.InvalidArgumentError, match="`stop` must be"):
        walks()(ROW[None], stop=stop)


def test_an_error_of_few_degrees_of_freedom_is_not_small_enough():
    values, covariance = np.array([[1.0], [0.0]]), 0.009**2 * np.eye(2)[None]
    stopping = Stopping(1000, tolerance=0.01)
    known, guessed = (Snapshot(values, covariance, np.full((2, 1), dof)) for dof in (np.inf, 2.0))
    assert stopping.error_ratio(known, 1.0) == pytest.approx(0.9)
    assert stopping.error_ratio(guessed, 1.0) == pytest.approx(0.9 * 4.302653 / 1.959964, rel=1e-5)
