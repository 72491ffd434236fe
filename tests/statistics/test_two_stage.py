"""Two-stage variances and their bootstrap, against simulation over the design itself."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2

from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import visit_sequence


def population(seed, n_blocks=20):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n_blocks) * 2.0, rng.uniform(0.2, 2.0, size=n_blocks)


def simulate(n_units, n_blocks, n_repeats, seed, as_array=np.asarray):
    """Estimates and reported variances of the mean of a population of noisy blocks."""
    means, spreads = population(1, n_blocks)
    rng = np.random.default_rng(seed)
    estimates, reported, dofs = [], [], []
    for _ in range(n_repeats):
        labels = visit_sequence(n_blocks, n_units, rng)
        design = TwoStageDesign(labels, n_blocks)
        values = means[labels] + spreads[labels] * rng.normal(size=n_units)
        estimates.append(design.weights @ values)
        root = design.covariance_root(as_array(values[:, None, None, None]))
        reported.append(float(root.variances()[0, 0, 0]))
        dofs.append(float(root.degrees_of_freedom()[0, 0, 0]))
    return np.array(estimates), np.array(reported), np.array(dofs), means.mean()


@pytest.mark.parametrize("n_units", [8, 15, 27, 35, 40, 70])
def test_the_reported_variance_is_the_observed_one(n_units, global_seed, as_array):
    n_repeats = 2000
    estimates, reported, dofs, truth = simulate(n_units, 20, n_repeats, global_seed, as_array)
    z = (estimates.mean() - truth) / (estimates.std(ddof=1) / np.sqrt(n_repeats))
    assert abs(z) < 3.9  # level 1e-4
    ratio = reported.mean() / estimates.var(ddof=1)
    # spread of the ratio: of the observed variance (chi-squared) and of the mean of the reported ones
    noise = np.sqrt(2 / n_repeats + (reported.std() / reported.mean()) ** 2 / n_repeats)
    assert 1 - 4 * noise < ratio < 1 + 4 * noise
    # Satterthwaite: the reported variance varies like chi-squared with the reported degrees of freedom
    if n_units >= 35:
        assert 0.6 < (2 * reported.mean() ** 2 / reported.var()) / np.median(dofs) < 1.7


def test_without_second_visits_the_variance_is_conservative():
    # two fresh rows of twenty, nothing revisited: the finite-population correction is left out
    estimates, reported, _, _ = simulate(2, 20, 4000, 0)
    assert 1.0 < reported.mean() / estimates.var() < 1.3


def test_the_naive_variance_is_wrong_in_cycles():
    # Negative control: counting visits as independent units overstates the variance of a full cycle.
    estimates, _, _, _ = simulate(40, 20, 1000, 0)
    means, spreads = population(1)
    naive = (means.var() + (spreads**2).mean()) / 40
    assert naive > 1.5 * estimates.var()


@pytest.mark.parametrize(("n_units", "n_blocks"), [(30, np.inf), (15, 20), (35, 20), (50, 20)])
def test_the_bootstrap_has_the_same_variance(n_units, n_blocks, monkeypatch):
    # resamples know no values, so single visits borrow the mean there
    monkeypatch.setattr(TwoStageDesign, "_lend", lambda *_: 1.0)
    rng = np.random.default_rng(0)
    if np.isinf(n_blocks):
        design = TwoStageDesign.independent(n_units)
    else:
        design = TwoStageDesign(visit_sequence(n_blocks, n_units, rng), n_blocks)
    values = rng.normal(size=(n_units, 3, 1, 1)) + 0.5 * design.labels[:, None, None, None]
    weights = design.resample(20_000, rng)
    assert_allclose(weights.sum(axis=1), 1.0)
    resampled = (weights @ values[:, :, 0, 0]).var(axis=0)
    expected = design.covariance_root(values).variances()[:, 0, 0]
    if np.isinf(n_blocks):
        expected = expected * (n_units - 1) / n_units  # the ordinary bootstrap divides by n
    band = chi2.ppf([5e-5, 1 - 5e-5], 19_999) / 19_999
    ratio = resampled / expected
    assert (ratio > band[0] - 0.03).all()
    assert (ratio < band[1] + 0.03).all()


def test_one_part_keeps_its_degrees_of_freedom_and_parts_combine(as_array):
    rng = np.random.default_rng(0)
    one = CovarianceRoot(as_array(rng.normal(size=(9, 2, 1, 1))), np.zeros(9, dtype=int), np.array([8.0]))
    assert_allclose(one.degrees_of_freedom(), 8.0)
    nothing = CovarianceRoot.zero_like(as_array(np.ones((2, 1, 1))))
    assert_allclose(one.join(nothing).variances(), one.variances())
    both = one.join(one)
    assert_allclose(both.variances(), 2.0 * one.variances())
    assert (both.degrees_of_freedom() > 8.0).all()
    assert np.isinf(np.asarray(nothing.degrees_of_freedom())).all()


def test_an_exact_block_has_no_variance_within(as_array):
    values = np.random.default_rng(0).normal(size=(20, 1, 1, 1))
    whole = TwoStageDesign(np.arange(20), 20, exact_within=True)
    assert whole.covariance_root(as_array(values)).variances() == 0
    half = TwoStageDesign(np.arange(10), 20, exact_within=True).covariance_root(as_array(values[:10]))
    assert_allclose(half.variances()[0, 0, 0], 0.5 * values[:10].var(ddof=1) / 10)


@pytest.mark.parametrize("n_blocks", [1, 2, 5, 20, 37])
def test_without_shuffles_the_first_blocks_have_one_visit_more(n_blocks):
    for n_units in range(1, 4 * n_blocks + 3):
        shuffled = np.bincount(visit_sequence(n_blocks, n_units, np.random.default_rng(3)), minlength=n_blocks)
        counts = np.bincount(visit_sequence(n_blocks, n_units, None), minlength=n_blocks)
        assert_array_equal(counts, np.sort(shuffled)[::-1])


def test_single_visits_borrow_in_proportion_to_their_distance():
    """Blocks of noise in proportion to their distance: by the mean of near blocks, those far away vary too little."""
    rng = np.random.default_rng(3)
    n_blocks, n_single = 40, 10
    centers = np.concatenate([rng.normal(size=(n_blocks - n_single, 3)), 10.0 * rng.normal(size=(n_single, 3))])
    spread = np.linalg.norm(centers - centers.mean(axis=0), axis=1)
    labels = np.concatenate([np.arange(n_blocks), np.arange(n_blocks - n_single)])  # the far ones were visited once
    design = TwoStageDesign(labels, n_blocks)
    draws = rng.normal(size=(400, len(labels), 3))
    values = np.zeros((400, len(labels), 4, 1, 1))
    values[:, :, :3, 0, 0] = centers[labels] + spread[labels][:, None] * draws
    true = (design.weights**2 * spread[labels] ** 2).sum()
    found = np.mean([design.covariance_root(one).variances()[:3, 0, 0].mean() for one in values])
    assert 0.7 * true < found < 1.5 * true
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TwoStageDesign, "_lend", lambda *_: 1.0)
        by_mean = np.mean([design.covariance_root(one).variances()[:3, 0, 0].mean() for one in values])
    assert by_mean < 0.3 * true  # Negative control
