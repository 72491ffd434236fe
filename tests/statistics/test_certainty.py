"""Ratios against plain loops; what they declare, and joint intervals, against simulated estimates.

An estimate is drawn around a known truth, so every claim is right or wrong. Counts of wrong claims are compared with
the level by a binomial test at 1e-4, and each family-wise test has a control without the correction, which must fail.
"""

import math

import numpy as np
import pytest
from conftest import make_data
from scipy.stats import binomtest, norm
from scipy.stats import t as student

import controlshap as cs
from controlshap.statistics.certainty import (
    N_DRAWS,
    contrast_errors,
    cut_ratios,
    magnitude_order,
    order_ratios,
    quantile,
    sign_ratios,
    simultaneous_tail,
    swap_probabilities,
)
from controlshap.statistics.stopping import Rule, Snapshot, Stopping
from controlshap.testing import marginal_game, shapley_by_definition

ALPHA = 0.05
RARE = 1e-4
FOREVER = math.inf


def random_covariance(p, rng):
    root = rng.normal(size=(p, p + 2))
    return root @ root.T / p


def equicorrelated(p, correlation):
    return np.full((p, p), correlation) + (1.0 - correlation) * np.eye(p)


def half(dof):
    """Far out in the tails half of the degrees of freedom count, and three of those that have as many."""
    return np.where(dof >= 6, 0.5 * np.asarray(dof), np.minimum(dof, 3.0))


def slow_ratio(gap, variance, dof, tail):
    return student.isf(tail, dof) * math.sqrt(variance) / gap if gap > 0 else math.inf


def slow_order_ratio(values, covariance, dof, alpha, i, j):
    """Errors of `s phi_i - phi_j` and `s phi_i + phi_j`, each against its own gap."""
    s = -1.0 if values[i] < 0 else 1.0
    tail = alpha / (2 * (len(values) - 1))
    worst = 0.0
    for other in (-1.0, 1.0):
        gap = s * values[i] + other * values[j]
        variance = covariance[i, i] + covariance[j, j] + 2 * s * other * covariance[i, j]
        worst = max(worst, slow_ratio(gap, variance, half(min(dof[i], dof[j], np.median(dof))), tail))
    return worst


@pytest.mark.parametrize("p", [2, 3, 7])
def test_order_ratios_are_those_of_a_plain_loop(p):
    rng = np.random.default_rng(p)
    for _ in range(20):
        values, dof = rng.normal(size=p), rng.uniform(2, 60, size=p)
        covariance = 0.1 * random_covariance(p, rng)
        found = order_ratios(values, covariance, dof, ALPHA)
        for i in range(p):
            for j in range(p):
                wanted = 0.0 if i == j else slow_order_ratio(values, covariance, dof, ALPHA, i, j)
                assert found[i, j] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("p", [1, 2, 6])
def test_a_cut_is_as_certain_as_the_least_certain_pair_across_it(p):
    rng = np.random.default_rng(p)
    ratios, order = rng.uniform(size=(p, p)), rng.permutation(p)
    wanted = [max(ratios[i, j] for i in order[:k] for j in order[k:]) for k in range(1, p)]
    assert cut_ratios(ratios, order).tolist() == wanted


@pytest.mark.parametrize("p", [1, 2, 6])
def test_sign_ratios_are_those_of_a_plain_loop(p):
    rng = np.random.default_rng(p)
    values, errors, dof = rng.normal(size=p), rng.uniform(0.1, 1, size=p), rng.uniform(2, 60, size=p)
    wanted = [slow_ratio(abs(values[i]), errors[i] ** 2, half(dof[i]), ALPHA / p) for i in range(p)]
    np.testing.assert_allclose(sign_ratios(values, errors, dof, ALPHA), wanted)


def test_errors_divided_by_the_ratio_are_just_small_enough():
    rng = np.random.default_rng(0)
    values, covariance, dof = rng.normal(size=5), random_covariance(5, rng), np.full(5, 12.0)
    order = magnitude_order(values)
    cuts = cut_ratios(order_ratios(values, covariance, dof, ALPHA), order)
    for k, ratio in enumerate(cuts):
        shrunk = order_ratios(values, covariance / ratio**2, dof, ALPHA)
        assert cut_ratios(shrunk, order)[k] == pytest.approx(1.0)


def test_the_order_does_not_depend_on_signs_of_values_with_their_errors():
    rng = np.random.default_rng(1)
    values, covariance, dof = rng.normal(size=5), 0.1 * random_covariance(5, rng), np.full(5, 9.0)
    flip = np.array([1.0, -1.0, -1.0, 1.0, -1.0])
    flipped = order_ratios(flip * values, covariance * np.outer(flip, flip), dof, ALPHA)
    np.testing.assert_allclose(flipped, order_ratios(values, covariance, dof, ALPHA))


def test_players_of_equal_magnitude_are_ordered_by_number():
    assert magnitude_order(np.array([1.0, -2.0, 2.0, -1.0])).tolist() == [1, 2, 0, 3]


def test_values_without_error_are_certain():
    values, none, dof = np.array([3.0, -2.0, 1.0]), np.zeros((3, 3)), np.full(3, FOREVER)
    assert (sign_ratios(values, np.zeros(3), dof, ALPHA) == 0).all()
    cuts = cut_ratios(order_ratios(values, none, dof, ALPHA), magnitude_order(values))
    assert (cuts == 0).all()


def test_an_estimate_of_zero_with_an_error_has_no_certain_sign():
    assert sign_ratios(np.zeros(2), np.ones(2), np.full(2, FOREVER), ALPHA).tolist() == [math.inf, math.inf]


def test_a_contrast_that_cancels_has_no_error_left_from_rounding():
    scale = np.array([0.1, 1 / 3])
    covariance = np.outer(scale, scale)
    apart = contrast_errors(covariance / np.outer(scale, scale), -1.0)
    assert apart[0, 1] == 0.0
    closed = np.array([[0.3, -0.3], [-0.3, 0.3]]) * (1 + 1e-16)
    assert contrast_errors(closed, 1.0)[0, 1] == 0.0


def test_two_players_with_a_known_sum_are_ordered_by_their_difference_alone():
    values, dof = np.array([2.0, 1.0]), np.full(2, FOREVER)
    covariance = 0.04 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    wanted = norm.isf(ALPHA / 2) * 0.4 / 1.0
    assert order_ratios(values, covariance, dof, ALPHA)[0, 1] == pytest.approx(wanted)


def estimates(truth, covariance, dof, n, rng):
    """Normal estimates, each with its covariance: the true one, or one with as many degrees of freedom."""
    root = np.linalg.cholesky(covariance)
    values = truth + rng.normal(size=(n, len(truth))) @ root.T
    if dof == FOREVER:
        return values, np.broadcast_to(covariance, (n, *covariance.shape))
    units = rng.normal(size=(n, dof, len(truth))) @ root.T
    return values, np.einsum("nui,nuj->nij", units, units) / dof


def n_wrong_orders(truth, covariance, alpha, rng, *, dof=FOREVER, used_dof=None, n=2500):
    """In how many replications some cut was declared with a player inside that is not larger than one outside."""
    size = np.abs(truth)
    freedom = np.full(len(truth), float(dof if used_dof is None else used_dof))
    wrong = 0
    for values, spread in zip(*estimates(truth, covariance, dof, n, rng), strict=True):
        order = magnitude_order(values)
        declared = cut_ratios(order_ratios(values, spread, freedom, alpha), order) <= 1.0
        ranked = size[order]
        wrong += any(ranked[: k + 1].min() <= ranked[k + 1 :].max() for k in np.flatnonzero(declared))
    return wrong


def n_wrong_signs(truth, covariance, alpha, rng, *, dof=FOREVER, n=4000):
    freedom = np.full(len(truth), float(dof))
    wrong = 0
    for values, spread in zip(*estimates(truth, covariance, dof, n, rng), strict=True):
        declared = sign_ratios(values, np.sqrt(np.diag(spread)), freedom, alpha) <= 1.0
        wrong += bool((declared & (np.sign(values) != np.sign(truth))).any())
    return wrong


def exceeds(count, n, share=ALPHA):
    return binomtest(count, n, share, alternative="greater").pvalue < RARE


GAP = 1e-6
COUPLES = np.repeat([40.0, 30.0, 20.0, 10.0], 2) - GAP * np.tile([0, 1], 4)
HARD = {
    "couples that hardly differ": (COUPLES, np.eye(8)),
    "couples of opposite sign": (COUPLES * np.tile([1, -1], 4), np.eye(8)),
    "couples with common errors": (COUPLES, equicorrelated(8, 0.9)),
    "couples with opposed errors": (COUPLES, equicorrelated(8, -0.99 / 7)),
    "a chain that hardly differs": (5.0 - GAP * np.arange(6), np.eye(6)),
    "a chain with common errors": (5.0 - GAP * np.arange(6), equicorrelated(6, 0.95)),
    "a ladder of small steps": (np.array([12.0, 10.0, 8.0, 6.0, 4.0, 2.0]), np.eye(6)),
    "values near zero": (GAP * np.array([3.0, -2.0, 1.0, -4.0]), np.eye(4)),
    "large and null players": (np.array([9.0, 9.0 - GAP, 0.0, 0.0, 0.0]), np.eye(5)),
    "two players": (np.array([GAP, 0.0]), np.eye(2)),
}


@pytest.mark.parametrize("dof", [FOREVER, 5], ids=["known covariance", "five degrees of freedom"])
@pytest.mark.parametrize("case", HARD)
def test_all_orders_of_a_row_are_right_together_at_the_level(case, dof, global_seed):
    truth, covariance = HARD[case]
    wrong = n_wrong_orders(truth, covariance, ALPHA, np.random.default_rng(global_seed), dof=dof, n=1500)
    assert not exceeds(wrong, 1500)


def test_a_tie_of_two_players_uses_up_the_level(global_seed):
    n = 4000
    wrong = n_wrong_orders(np.array([5.0, 5.0]), np.eye(2), ALPHA, np.random.default_rng(global_seed), n=n)
    assert binomtest(wrong, n, ALPHA).pvalue > RARE


def test_pairs_without_correction_are_wrong_too_often(global_seed):
    rng = np.random.default_rng(global_seed)
    wrong = n_wrong_orders(COUPLES, np.eye(8), ALPHA * (len(COUPLES) - 1), rng)
    assert exceeds(wrong, 2500)


def test_normal_quantiles_for_few_degrees_of_freedom_are_wrong_too_often(global_seed):
    rng = np.random.default_rng(global_seed)
    wrong = n_wrong_orders(COUPLES, np.eye(8), ALPHA, rng, dof=5, used_dof=FOREVER)
    assert exceeds(wrong, 2500)


SIGNS = {
    "independent": np.eye(6),
    "common errors": equicorrelated(6, 0.9),
    "opposed errors": equicorrelated(6, -0.99 / 5),
}


@pytest.mark.parametrize("dof", [FOREVER, 5], ids=["known covariance", "five degrees of freedom"])
@pytest.mark.parametrize("case", SIGNS)
def test_all_signs_of_a_row_are_right_together_at_the_level(case, dof, global_seed):
    truth = GAP * np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    wrong = n_wrong_signs(truth, SIGNS[case], ALPHA, np.random.default_rng(global_seed), dof=dof)
    assert not exceeds(wrong, 4000)


def test_independent_signs_use_up_the_level(global_seed):
    truth = np.full(6, GAP)
    wrong = n_wrong_signs(truth, np.eye(6), ALPHA, np.random.default_rng(global_seed))
    assert binomtest(wrong, 4000, 1 - (1 - ALPHA / 6) ** 6).pvalue > RARE


def test_signs_without_correction_are_wrong_too_often(global_seed):
    truth = np.full(6, GAP)
    wrong = n_wrong_signs(truth, np.eye(6), 6 * ALPHA, np.random.default_rng(global_seed))
    assert exceeds(wrong, 4000)


JOINT = {
    "independent": np.eye(6),
    "common errors": equicorrelated(6, 0.9),
    "a closed sum": equicorrelated(6, -0.2),
    "one exact value": np.diag([1.0, 1.0, 1.0, 0.0, 1.0]),
}


def share_covered(covariance, critical, rng, n=20_000):
    spectrum, vectors = np.linalg.eigh(covariance)
    errors = rng.normal(size=(n, len(covariance))) @ (vectors * np.sqrt(np.maximum(spectrum, 0.0))).T
    return float((np.abs(errors) <= critical * np.sqrt(np.diag(covariance)) + 1e-7).all(axis=1).mean())


@pytest.mark.parametrize("case", JOINT)
def test_simultaneous_bounds_hold_together_at_the_level(case, global_seed):
    covariance, dof = JOINT[case], np.full(len(JOINT[case]), FOREVER)
    critical = quantile(dof, simultaneous_tail(covariance, dof, ALPHA))
    share = share_covered(covariance, critical, np.random.default_rng(global_seed))
    # the quantile comes from N_DRAWS draws of its own
    error = np.sqrt(ALPHA * (1 - ALPHA) * (1 / N_DRAWS + 1 / 20_000))
    assert abs(share - (1 - ALPHA)) < norm.isf(RARE / 2) * error


def test_pointwise_bounds_do_not_hold_together(global_seed):
    critical = quantile(np.full(6, FOREVER), ALPHA / 2)
    assert share_covered(np.eye(6), critical, np.random.default_rng(global_seed)) < 0.8


@pytest.mark.parametrize("case", ["independent", "common errors"])
def test_simultaneous_bounds_of_few_degrees_of_freedom_hold_together(case, global_seed):
    n, dof = 4000, 6
    rng = np.random.default_rng(global_seed)
    values, spreads = estimates(np.zeros(6), JOINT[case], dof, n, rng)
    freedom = np.full(6, float(dof))
    critical = quantile(freedom, simultaneous_tail(spreads[0], freedom, ALPHA))
    missed = int((np.abs(values) > critical * np.sqrt(np.einsum("npp->np", spreads))).any(axis=1).sum())
    assert not exceeds(missed, n)


def test_values_that_miss_together_need_less_than_independent_ones():
    dof = np.full(6, FOREVER)
    tails = [simultaneous_tail(equicorrelated(6, c), dof, ALPHA) for c in (0.0, 0.5, 0.9, 1.0)]
    assert tails == sorted(tails)
    assert tails[0] == pytest.approx(-math.expm1(math.log1p(-ALPHA) / 6) / 2, rel=0.15)
    assert tails[-1] == pytest.approx(ALPHA / 2, rel=0.15)


def test_a_single_value_has_the_usual_interval():
    dof = np.full(3, FOREVER)
    assert simultaneous_tail(np.diag([0.0, 2.0, 0.0]), dof, ALPHA) == ALPHA / 2
    assert simultaneous_tail(np.eye(1), dof[:1], ALPHA) == ALPHA / 2


def test_levels_beyond_the_draws_fall_back_on_a_bound_that_needs_none():
    alpha = 10 / N_DRAWS
    found = simultaneous_tail(equicorrelated(6, 0.9), np.full(6, FOREVER), alpha)
    assert found == pytest.approx(-math.expm1(math.log1p(-alpha) / 6) / 2)


def swaps_of_couples(rng, n_couples=300, correlation=0.4, scale=1.0):
    """Chances of couples far from each other, and whether a rerun swapped them; all gaps in truth are as likely."""
    heights = 1e4 + 100.0 * np.arange(n_couples)
    gaps = rng.uniform(-8.0, 8.0, size=n_couples)
    truth = np.column_stack([heights + gaps / 2, heights - gaps / 2]) * np.where(
        rng.random((n_couples, 2)) < 0.5, -1, 1
    )
    block = equicorrelated(2, correlation)
    root = np.linalg.cholesky(block)
    first, again = (truth + rng.normal(size=truth.shape) @ root.T for _ in range(2))
    covariance = np.kron(np.eye(n_couples), block)
    values = first.reshape(-1)
    order = magnitude_order(values)
    chances = swap_probabilities(values, scale * covariance, np.full(len(values), FOREVER), order)[::2]
    couple = order[::2] // 2
    before, after = (np.abs(one[couple, 0]) > np.abs(one[couple, 1]) for one in (first, again))
    return chances, before != after


def swap_z(rng, low, high, scale=1.0):
    found = [swaps_of_couples(rng, scale=scale) for _ in range(30)]
    chances, swapped = (np.concatenate(part) for part in zip(*found, strict=True))
    used = (chances > low) & (chances <= high)
    spread = np.sqrt((chances[used] * (1 - chances[used])).sum())
    return (swapped[used].sum() - chances[used].sum()) / spread


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.1), (0.1, 0.3), (0.3, 0.5)])
def test_neighbours_swap_in_a_rerun_as_often_as_said(low, high, global_seed):
    assert abs(swap_z(np.random.default_rng(global_seed), low, high)) < norm.isf(RARE / 2)


def test_a_chance_that_forgets_the_error_of_the_rerun_is_caught(global_seed):
    assert swap_z(np.random.default_rng(global_seed), 0.0, 0.3, scale=0.5) > norm.isf(RARE / 2)


def test_neighbours_without_error_never_swap_unless_they_tie():
    values, dof = np.array([3.0, -1.0, 1.0]), np.full(3, FOREVER)
    assert swap_probabilities(values, np.zeros((3, 3)), dof, np.array([0, 1, 2])).tolist() == [0.0, 0.5]


DATA = make_data(n_rows=60, grouped=False)


@pytest.fixture(scope="module")
def replications():
    explainer = cs.Explainer(DATA.model, DATA.background, estimator="permutation", control="none")
    return explainer(np.tile(DATA.x, (400, 1)), budget=3000, rng=11)


def n_rows_covered(explanation, **settings):
    truth = shapley_by_definition(marginal_game(DATA.model, DATA.x, DATA.background, DATA.columns), 7)
    truth = np.asarray(truth).reshape(-1)
    low, high = explanation.confidence_interval(0.95, **settings)
    return int(((low <= truth) & (truth <= high)).all(axis=1).sum())


def test_simultaneous_intervals_of_an_explanation_hold_whole_rows(replications):
    assert binomtest(n_rows_covered(replications, simultaneous=True), 400, 0.95).pvalue > RARE


def test_pointwise_intervals_of_an_explanation_miss_some_value_of_many_rows(replications):
    assert binomtest(n_rows_covered(replications), 400, 0.95, alternative="less").pvalue < RARE


def test_simultaneous_intervals_are_wider_where_a_run_was_looked_at(replications):
    explainer = cs.Explainer(DATA.model, DATA.background, estimator="permutation", control="none")
    stopped = explainer(DATA.x[None], tolerance=0.02, rng=0)
    assert stopped.look_shares[0] < 1
    for explanation, tail in ((replications, 0.05), (stopped, 0.05 * stopped.look_shares[0])):
        low, high = explanation.confidence_interval(0.95, simultaneous=True)
        reach = (high - low)[0] / 2 / explanation.standard_errors[0]
        dof = explanation.degrees_of_freedom[0]
        assert (reach >= quantile(half(dof), tail / 2) * (1 - 1e-12)).all()
        assert (reach <= quantile(half(dof), tail / 2 / 7) * (1 + 1e-12)).all()


def test_simultaneous_intervals_of_exact_values_have_no_width():
    exact = cs.Explainer(DATA.model, DATA.background)(DATA.x[None], budget=10_000, rng=0)
    low, high = exact.confidence_interval(simultaneous=True)
    assert exact.status[0] == "exact"
    assert (low == high).all()


def test_simultaneous_intervals_have_the_shape_of_the_values_for_several_outputs():
    explainer = cs.Explainer(DATA.model2, DATA.background, estimator="permutation", control="none")
    explanation = explainer(np.tile(DATA.x, (2, 1)), budget=500, rng=0)
    low, high = explanation.confidence_interval(simultaneous=True)
    pointwise, _ = explanation.confidence_interval()
    assert low.shape == high.shape == explanation.values.shape
    sampled = explanation.standard_errors > 0
    assert (low[sampled] < pointwise[sampled]).all()
    assert (low[~sampled] == high[~sampled]).all()


@pytest.mark.parametrize(
    "goals",
    [
        {"rules": (Rule("signs"),)},
        {"rules": (Rule("top", 2), Rule("ranking", 3))},
        {"rules": (Rule("ranking"),)},
        {"tolerance": 0.1},
        {"absolute": 0.2, "rules": (Rule("top", 1),)},
    ],
)
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_rows_together_are_as_far_as_each_alone(goals, n_outputs):
    rng = np.random.default_rng(0)
    r, p = 30, 5
    values, dof = rng.normal(size=(r, p, n_outputs)), rng.uniform(2.0, 90.0, size=(r, p, n_outputs))
    values[3, 1], values[4] = values[3, 2], 0.0  # a tie, and nothing at all
    root = rng.normal(size=(r, n_outputs, p, p)) * 0.1
    root[5], root[6, :, 0] = 0.0, 0.0  # no error, in all and in one
    covariance = root @ root.swapaxes(-1, -2)
    stopping = Stopping(100, **goals)
    together = stopping.error_ratio(Snapshot(values, covariance, dof), 0.5)
    alone = [stopping.error_ratio(Snapshot(*parts), 0.5) for parts in zip(values, covariance, dof, strict=True)]
    np.testing.assert_array_equal(together, alone)
    assert together.shape == (r,)
    assert len(set(alone)) > r // 2
