"""Blocks that are visited several times at once: which are chosen, and that values and variances stay right."""

import numpy as np
import pytest

import controlshap as cs
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.crossfit import Blocks, adjust_by_folds, deal_folds
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import FIRST_VISITS, choose_take_all, visit_sequence
from controlshap.testing import marginal_game, shapley_by_definition

N_BLOCKS = 20
MEANS = np.random.default_rng(0).normal(size=N_BLOCKS)
MEANS[3] = 40.0
SPREADS = np.random.default_rng(1).uniform(0.2, 1.0, size=N_BLOCKS)
SPREADS[3] = 8.0
ALL_DIFFER = np.ones((N_BLOCKS, 2), dtype=bool)


def visits(take_all, n_units, rng):
    """The sequence of visits, as units have it."""
    theirs, taken = take_all.visits(np.arange(n_units))
    others = np.setdiff1d(np.arange(N_BLOCKS), take_all.blocks)
    labels = np.empty(n_units, dtype=np.int64)
    labels[theirs] = taken
    labels[~theirs] = others[visit_sequence(len(others), n_units - len(taken), rng)]
    return labels


def test_a_block_that_stands_out_is_chosen_and_others_are_not():
    assert choose_take_all(MEANS[:, None], ALL_DIFFER, 60).blocks.tolist() == [3]
    assert choose_take_all(np.delete(MEANS, 3)[:, None], ALL_DIFFER[1:], 60) is None
    assert choose_take_all(np.zeros((N_BLOCKS, 1)), ALL_DIFFER, 60) is None
    assert choose_take_all(MEANS[:, None], ALL_DIFFER, 7) is None  # no room for first visits in half of the units
    # in any output, whatever its unit
    assert choose_take_all(np.column_stack([1e6 * np.sin(np.arange(20)), MEANS]), ALL_DIFFER, 60).blocks.tolist() == [3]


def test_blocks_that_alone_tell_of_a_player_are_chosen_while_they_are_few():
    differs = ALL_DIFFER.copy()
    differs[:, 1] = np.arange(N_BLOCKS) == 7
    quiet = np.sin(np.arange(N_BLOCKS))[:, None]
    assert choose_take_all(quiet, differs, 16).blocks.tolist() == [7]
    assert choose_take_all(quiet, differs, 60) is None  # three visits are expected: a sample will do
    differs[:, 1] = np.isin(np.arange(N_BLOCKS), [7, 8])
    assert choose_take_all(quiet, differs, 15) is None  # half of the units is not enough for both
    assert choose_take_all(quiet, differs, 16).first_visits == 4
    assert choose_take_all(quiet, differs, 28).first_visits == 7  # more than f(b) alone would ask for
    differs[:, 1] = np.arange(N_BLOCKS) == 7
    assert choose_take_all(quiet, differs, 72) is None  # twelve visits are more than a small part of the units
    assert choose_take_all(quiet, differs, 73).first_visits == 12
    assert choose_take_all(quiet, differs, 240) is None  # and there are as many without


def test_first_visits_come_in_turns_and_shares_of_units_follow():
    chosen = choose_take_all(MEANS[:, None], ALL_DIFFER, 400)
    labels = visits(chosen, 400, np.random.default_rng(0))
    assert (labels[: 2 * FIRST_VISITS : 2] == 3).all()
    assert (labels[1 : 2 * FIRST_VISITS : 2] != 3).all()
    assert 0.3 < (labels == 3).mean() <= 0.5  # its share of the distances is above one half, of which half is allowed


@pytest.mark.parametrize("n_units", [9, 16, 24, 40, 90])
def test_values_are_unbiased_and_variances_right(n_units, global_seed, as_array):
    chosen, rng, n_repeats = (
        choose_take_all(MEANS[:, None], ALL_DIFFER, n_units),
        np.random.default_rng(global_seed),
        1500,
    )
    estimates, reported, ordinary = [], [], []
    for _ in range(n_repeats):
        labels = visits(chosen, n_units, rng)
        values = MEANS[labels] + SPREADS[labels] * rng.normal(size=n_units)
        design = TwoStageDesign(labels, N_BLOCKS, taken=chosen.blocks)
        assert design.weights.sum() == pytest.approx(1.0)
        estimates.append(design.weights @ values)
        reported.append(float(design.covariance_root(as_array(values[:, None, None, None])).variances()[0, 0, 0]))
        ordinary.append(TwoStageDesign(labels, N_BLOCKS).weights @ values)
    estimates, reported = np.array(estimates), np.array(reported)
    error = estimates.std(ddof=1) / np.sqrt(n_repeats)
    assert abs(estimates.mean() - MEANS.mean()) < 3.9 * error
    noise = np.sqrt(2 / n_repeats + (reported.std() / reported.mean()) ** 2 / n_repeats)
    assert 1 - 4 * noise < reported.mean() / estimates.var(ddof=1) < 1 + 4 * noise + 0.1
    if n_units < N_BLOCKS:  # Negative control: by the weights of a plain sample the value is far off
        assert abs(np.mean(ordinary) - MEANS.mean()) > 20 * error


def test_one_row_that_matters_is_covered_and_costs_less(global_seed):
    rng = np.random.default_rng(8)
    background, x, slope = rng.normal(size=(60, 6)), rng.normal(size=6), rng.normal(size=6)
    background[0] = 4.0

    def model(rows):
        return np.tanh(rows @ slope / 2) + 20.0 * (rows[:, :3] > 3).all(axis=1)

    truth = np.ravel(shapley_by_definition(marginal_game(model, x, background, [[j] for j in range(6)]), 6))
    explainer = cs.Explainer(model, background, estimator="permutation", control="none")
    found = explainer(np.tile(x, (100, 1)), budget=300, rng=global_seed)
    low, high = found.confidence_interval(0.95)
    assert ((low <= truth) & (truth <= high)).mean(axis=0).min() > 0.86  # binomial, level 1e-4 for each player
    independent = cs.Explainer(model, background, cs.Marginal(replace=True), "permutation", "none")
    drawn = independent(np.tile(x, (100, 1)), budget=300, rng=global_seed)
    assert ((found.values - truth) ** 2).mean() < 0.2 * ((drawn.values - truth) ** 2).mean()


@pytest.mark.parametrize("seed", range(5))
def test_gaps_of_blocks_taken_all_cancel_those_of_the_others_whatever_the_shares(seed, as_array):
    """The sum over a taken block is known, and far off; all others together are as far below the mean."""
    rng, taken = np.random.default_rng(seed), np.arange(N_BLOCKS) == 3
    means = rng.normal(size=(N_BLOCKS, 4)) * [3.0, 1.0, 1.0, 0.1]
    means[:, 0] -= means.sum(axis=1)
    design = TwoStageDesign(np.arange(N_BLOCKS), 3.0 * N_BLOCKS, taken=np.array([3]))
    of_taken = design.block_weights[taken].sum()
    means[:, 3] += np.where(taken, 500.0, -500.0 * of_taken / (1.0 - of_taken))
    values = as_array(means[:, :, None, None])
    root = design.covariance_root(values)

    def close(folds):
        blocks = Blocks(values, root, CovarianceRoot.zero_like(values[0]), folds, design.block_weights)
        return np.asarray(adjust_by_folds(blocks, None, None, as_array(np.zeros(1)))[0].values)[:, 0]

    raw = design.block_weights @ means
    assert raw.sum() == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(close(deal_folds(design.sampled, rng)), raw, atol=1e-9)
    # Negative control: with a fold of its own, by whose shares the gap is spread
    assert np.abs(close(deal_folds(np.ones(N_BLOCKS, dtype=bool), rng)) - raw).max() > 0.01
