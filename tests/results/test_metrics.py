"""The paper's measures against slow loops over their definitions, and against numbers worked out by hand."""

from itertools import permutations
from math import comb

import numpy as np
import pytest
from scipy.stats import rankdata

import controlshap as cs
from controlshap.metrics import efficiency_gap, rank_changes, variance_reduction

RNG = np.random.default_rng(21)
RUNS = RNG.normal(size=(9, 4, 6))


def ranks_by_counting(values):
    """1 + how many are smaller + half of the other equal ones."""
    return [1 + sum(o < v for o in values) + 0.5 * (sum(o == v for o in values) - 1) for v in values]


def rank_changes_by_definition(runs):
    """The paper: sum over ordered pairs a != b, divided by C(n, 2)."""
    ranks = [ranks_by_counting(run) for run in runs]
    total = 0.0
    for a, b in permutations(range(len(runs)), 2):
        total += sum(abs(ranks[a][j] - ranks[b][j]) for j in range(len(runs[0])))
    return total / comb(len(runs), 2)


def variance_by_definition(values):
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values) / (len(values) - 1)


# RankChgs


def test_rank_changes_agree_with_the_definition_row_by_row():
    expected = [rank_changes_by_definition(RUNS[:, row]) for row in range(4)]
    np.testing.assert_allclose(rank_changes(RUNS), expected, rtol=1e-12)


def test_rank_changes_of_fifty_runs_are_divided_by_the_number_of_unordered_pairs():
    runs = RNG.normal(size=(50, 5))
    ranks = rankdata(runs, axis=1)
    total = sum(np.abs(ranks[a] - ranks[b]).sum() for a in range(50) for b in range(50))
    np.testing.assert_allclose(rank_changes(runs), total / 1225, rtol=1e-12)


def test_two_players_that_swap_in_two_runs_count_four():
    # each of two players moves by one place, and the pair is counted in both orders
    assert rank_changes([[1.0, 2.0], [2.0, 1.0]]) == 4.0


def test_rank_changes_rank_signed_values_unless_asked_for_magnitudes():
    runs = np.array([[-3.0, 1.0, 2.0], [3.0, 1.0, 2.0]])
    assert rank_changes(runs) == 2 * (2 + 1 + 1)
    assert rank_changes(runs, by="magnitude") == 0.0
    np.testing.assert_allclose(rank_changes(RUNS, by="magnitude"), rank_changes(np.abs(RUNS)), rtol=1e-12)


def test_ties_share_the_mean_of_their_ranks():
    runs = RNG.integers(0, 3, size=(7, 6)).astype(float)
    np.testing.assert_allclose(rank_changes(runs), rank_changes_by_definition(runs), rtol=1e-12)


def test_runs_that_agree_have_no_rank_changes():
    assert rank_changes(np.tile(RUNS[:1], (5, 1, 1))).tolist() == [0.0] * 4
    assert rank_changes(np.exp(np.tile(RUNS[:1], (5, 1, 1))) * RNG.uniform(1, 2, size=(5, 1, 1))).max() == 0.0


def test_rank_changes_do_not_depend_on_the_order_of_runs_or_players():
    expected = rank_changes(RUNS)
    np.testing.assert_allclose(rank_changes(RUNS[RNG.permutation(9)]), expected, rtol=1e-12)
    np.testing.assert_allclose(rank_changes(RUNS[..., RNG.permutation(6)]), expected, rtol=1e-12)


def test_rank_changes_keep_all_axes_between_runs_and_players():
    assert rank_changes(RUNS[:, 0]).shape == ()
    shaped = RNG.normal(size=(5, 2, 3, 4))
    found = rank_changes(shaped)
    assert found.shape == (2, 3)
    np.testing.assert_allclose(found[1, 2], rank_changes_by_definition(shaped[:, 1, 2]), rtol=1e-12)


def test_random_ranks_change_as_often_as_probability_says(global_seed):
    # E|a - b| of two uniform ranks of p is (p^2 - 1) / (3 p); p players; both orders of a pair
    p, n, rows = 6, 20, 400
    found = rank_changes(np.random.default_rng(global_seed).normal(size=(n, rows, p)))
    expected = 2 * (p**2 - 1) / 3
    assert abs(found.mean() - expected) < 4.5 * found.std(ddof=1) / np.sqrt(rows)


# VarReduc


def test_variance_reduction_agrees_with_the_definition():
    controlled = 0.4 * RNG.normal(size=(9, 4, 6))
    found = variance_reduction(RUNS, controlled)
    assert found.shape == (4, 6)
    for row in range(4):
        for j in range(6):
            plain = variance_by_definition(RUNS[:, row, j].tolist())
            other = variance_by_definition(controlled[:, row, j].tolist())
            np.testing.assert_allclose(found[row, j], (plain - other) / plain, rtol=1e-10)


def test_variance_reduction_is_the_share_of_variance_that_is_gone():
    np.testing.assert_allclose(variance_reduction(RUNS, 0.5 * RUNS + 3.0), np.full((4, 6), 0.75), rtol=1e-12)
    np.testing.assert_allclose(variance_reduction(RUNS, 2.0 * RUNS), np.full((4, 6), -3.0), rtol=1e-12)
    assert (variance_reduction(RUNS, np.ones_like(RUNS)) == 1.0).all()


def test_the_divisor_of_the_variances_does_not_matter_for_equally_many_runs():
    controlled = RNG.normal(size=RUNS.shape)
    expected = 1.0 - controlled.var(axis=0) / RUNS.var(axis=0)
    np.testing.assert_allclose(variance_reduction(RUNS, controlled), expected, rtol=1e-10)


def test_without_variance_to_begin_with_there_is_nothing_to_reduce():
    still = np.ones((5, 2))
    assert variance_reduction(still, still).tolist() == [0.0, 0.0]
    assert variance_reduction(still, RNG.normal(size=(5, 2))).tolist() == [-np.inf, -np.inf]


def test_numbers_of_runs_may_differ():
    plain, controlled = RNG.normal(size=(4000, 2)), 0.5 * RNG.normal(size=(2000, 2))
    # a variance of n normal values is known to sqrt(2 / n)
    np.testing.assert_allclose(
        variance_reduction(plain, controlled), 0.75, atol=5 * 0.25 * np.sqrt(2 / 4000 + 2 / 2000)
    )


def test_repeated_explanations_give_the_measures_of_their_controls():
    background = RNG.normal(size=(30, 4))

    def model(rows):
        return np.tanh(rows[:, 0] + rows[:, 1] * rows[:, 2]) + rows[:, 3]

    explainer = cs.Explainer(model, background, estimator="permutation", control="taylor")
    runs = [explainer(background[:3], budget=150, rng=seed) for seed in range(12)]
    plain = np.stack([run.uncontrolled_values for run in runs])
    controlled = np.stack([run.values for run in runs])
    assert np.median(variance_reduction(plain, controlled)) > 0
    assert rank_changes(controlled).shape == (3,)


# Efficiency


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_efficiency_gap_is_what_the_sum_misses(n_outputs):
    background = RNG.normal(size=(12, 3))

    def model(rows):
        both = np.column_stack([np.sin(rows[:, 0]) * rows[:, 1], rows[:, 2] ** 2 + rows[:, 0]])
        return both if n_outputs == 2 else both[:, 0]

    explanation = cs.explain(model, background[:4], background, rng=0)
    predictions = model(background[:4])
    assert efficiency_gap(explanation, predictions).shape == predictions.shape
    np.testing.assert_allclose(efficiency_gap(explanation, predictions), 0.0, atol=1e-12)
    np.testing.assert_allclose(efficiency_gap(explanation, predictions - 0.5), 0.5, rtol=1e-10)
    np.testing.assert_allclose(efficiency_gap(explanation, predictions + 0.5), 0.5, rtol=1e-10)


def test_walks_that_do_not_close_their_sum_show_a_gap():
    background = RNG.normal(size=(12, 3))

    def model(rows):
        return np.exp(rows[:, 0] * rows[:, 1]) + rows[:, 2]

    rows = background[:2]
    for closes, most in ((True, 1e-10), (False, np.inf)):
        explanation = cs.explain(
            model, rows, background, estimator=cs.Permutation(closes_sum=closes), control="none", budget=30, rng=0
        )
        gap = efficiency_gap(explanation, model(rows))
        assert (gap <= most).all()
        assert closes or gap.max() > 1e-3


# Refusals


@pytest.mark.parametrize("runs", [RUNS[0, 0], RUNS[:1], 3.0, []], ids=["one axis", "one run", "a number", "nothing"])
def test_less_than_two_runs_are_refused_by_name(runs):
    with pytest.raises(cs.InvalidArgumentError, match=r"`runs` must hold two runs or more"):
        rank_changes(runs)
    with pytest.raises(cs.InvalidArgumentError, match=r"`uncontrolled` must hold two runs or more"):
        variance_reduction(runs, RUNS)
    with pytest.raises(cs.InvalidArgumentError, match=r"`controlled` must hold two runs or more"):
        variance_reduction(RUNS, runs)


def test_values_that_do_not_match_are_refused():
    with pytest.raises(cs.InvalidArgumentError, match=r"`uncontrolled` and `controlled` must be of the same values"):
        variance_reduction(RUNS, RUNS[..., :5])
    with pytest.raises(cs.InvalidArgumentError, match=r"`by` must be 'value' or 'magnitude'; got 'size'"):
        rank_changes(RUNS, by="size")


def test_predictions_of_another_shape_are_refused():
    explanation = cs.explain(lambda rows: rows[:, 0] * rows[:, 1], RUNS[:3, 0], RUNS[:, 1], rng=0)
    with pytest.raises(cs.InvalidArgumentError, match=r"`predictions` must have shape \(3,\); got \(3, 1\)"):
        efficiency_gap(explanation, np.zeros((3, 1)))


def test_missing_runs_are_refused():
    with pytest.raises(cs.InvalidArgumentError, match="`uncontrolled` must be finite"):
        cs.metrics.variance_reduction([[np.nan], [1.0]], [[1.0], [2.0]])
