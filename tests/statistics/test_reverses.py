"""Single units of which some are followed by their reverse: which blocks they visit, and the variance they report."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import Walking, count_twice, may_walk_singly

N_BLOCKS = 100
MEANS = np.random.default_rng(0).normal(size=N_BLOCKS)


@pytest.mark.parametrize("n_blocks", [100, 250])
@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("n_first", [0, 20])
def test_planned_units_come_in_pairs_and_then_alone(n_blocks, single, n_first):
    order, twice = np.random.default_rng(0).permutation(n_blocks), count_twice(n_blocks)
    for n_units in range(n_blocks + n_blocks // 4, 2 * (n_blocks + twice)):
        assert may_walk_singly(n_blocks, n_units)
        blocks, n_reversed = Walking(n_units, n_first, single).visits(order)
        assert len(blocks) in ({n_units} if single else {n_units - n_units % 2})
        assert_array_equal(blocks[:n_reversed:2], blocks[1:n_reversed:2])
        first = blocks[: 2 * n_first : 2]
        assert len(np.unique(first)) >= (2 * n_first) // 3
        counts = np.bincount(blocks, minlength=n_blocks)
        assert 4 <= (counts == 4).sum() <= twice
        if single and n_units >= n_blocks + 2 * twice + max(twice, n_first):
            assert counts.min() == 1
        # a pilot changes the order alone
        assert_array_equal(first, Walking(n_units, n_first, not single).visits(order)[0][: 2 * n_first : 2])


def simulate(n_units, single, correlation, seed, *, pairs_are_known=True, n_repeats=2000):
    """Estimates and reported variances of the mean over blocks; a unit and its reverse have correlated noise."""
    rng, estimates, reported = np.random.default_rng(seed), [], []
    for _ in range(n_repeats):
        labels, n_reversed = Walking(n_units, 10, single).visits(rng.permutation(N_BLOCKS))
        noise = rng.normal(size=len(labels))
        partner = noise[:n_reversed:2]
        noise[1:n_reversed:2] = correlation * partner + np.sqrt(1 - correlation**2) * noise[1:n_reversed:2]
        values = MEANS[labels] + noise
        design = TwoStageDesign(labels, N_BLOCKS, n_reversed=n_reversed if pairs_are_known else 0)
        estimates.append(design.weights @ values)
        reported.append(design.covariance_root(values[:, None, None, None]).variances()[0, 0, 0])
    return np.array(estimates), np.array(reported)


@pytest.mark.parametrize("correlation", [-0.9, 0.5])
@pytest.mark.parametrize(("n_units", "single"), [(115, True), (140, True), (190, True), (150, False)])
def test_the_reported_variance_is_the_observed_one(n_units, single, correlation, global_seed):
    estimates, reported = simulate(n_units, single, correlation, global_seed)
    z = (estimates.mean() - MEANS.mean()) / (estimates.std(ddof=1) / np.sqrt(len(estimates)))
    assert abs(z) < 3.9  # level 1e-4
    noise = np.sqrt(2 / len(estimates) + (reported.std() / reported.mean()) ** 2 / len(estimates))
    assert abs(reported.mean() / estimates.var(ddof=1) - 1.0) < 4 * noise


def test_a_reverse_that_counts_as_independent_gives_the_wrong_variance():
    # negative control: with noise that a reverse cancels too much, with noise that it repeats too little
    for correlation, wrong in ((-0.9, lambda ratio: ratio > 1.4), (0.5, lambda ratio: ratio < 0.9)):
        estimates, reported = simulate(190, True, correlation, 0, pairs_are_known=False)
        assert wrong(reported.mean() / estimates.var(ddof=1))


def test_without_two_pairs_at_a_block_nothing_says_how_far_the_pass_is():
    labels = np.repeat(np.arange(30), 2)
    design = TwoStageDesign(labels, N_BLOCKS, n_reversed=60)
    assert design.sampling_fraction == 0.0
    values = np.random.default_rng(0).normal(size=(60, 2, 1, 1))
    means = 0.5 * (values[::2] + values[1::2])
    assert_allclose(design.covariance_root(values).variances(), means.var(axis=0, ddof=1) / 30)
    assert_allclose(design.noise_within(values, design.block_means(values)), 0.0)
