"""Distributions of the samplers, by chi-squared against exact probabilities, with negative controls."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare

from controlshap.estimators.kernel import sample_coalitions, size_probabilities
from controlshap.estimators.permutation import sample_permutations
from controlshap.statistics.visits import block_rows, visit_sequence
from controlshap.testing.exhaustive import every_coalition, every_permutation

LEVEL = 1e-4


def coalition_counts(coalitions):
    return np.bincount(coalitions @ (1 << np.arange(coalitions.shape[1])), minlength=2 ** coalitions.shape[1])


def test_coalitions_follow_the_shapley_kernel(global_seed):
    sampled = sample_coalitions(5, 40_000, np.random.default_rng(global_seed))
    everything, probabilities = every_coalition(5)
    observed = coalition_counts(sampled)[1:-1]
    expected = np.zeros(32)
    expected[everything @ (1 << np.arange(5))] = probabilities
    assert chisquare(observed, 40_000 * expected[1:-1]).pvalue > LEVEL
    # negative control: uniform over sizes is another distribution
    assert chisquare(observed, np.full(30, 40_000 / 30)).pvalue < LEVEL


def test_the_probability_of_a_coalition_is_the_papers_kernel():
    everything, probabilities = every_coalition(6)
    sizes = everything.sum(axis=1)
    binomial = np.array([6, 15, 20, 15, 6])[sizes - 1]
    kernel = 5 / (binomial * sizes * (6 - sizes))
    assert_allclose(probabilities, kernel / kernel.sum())
    assert_allclose(size_probabilities(6).sum(), 1)


def test_permutations_are_uniform(global_seed):
    sampled = sample_permutations(4, 24_000, np.random.default_rng(global_seed))
    codes = sampled @ (4 ** np.arange(4))
    _, observed = np.unique(codes, return_counts=True)
    assert len(observed) == 24
    assert chisquare(observed).pvalue > LEVEL
    assert len(every_permutation(4)) == 24


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 10, 37, 100])
def test_shorter_visits_are_a_prefix_of_longer_ones(n_blocks):
    long = visit_sequence(n_blocks, 5 * n_blocks, np.random.default_rng(0))
    for n in (1, n_blocks // 2, n_blocks, 2 * n_blocks + 1):
        assert_array_equal(visit_sequence(n_blocks, n, np.random.default_rng(0)), long[:n])


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 10, 37, 100])
def test_visits_are_balanced(n_blocks):
    for n in range(1, 6 * n_blocks):
        visits = np.bincount(visit_sequence(n_blocks, n, np.random.default_rng(1)), minlength=n_blocks)
        if n >= 1.4 * n_blocks:
            assert visits.min() >= 1
        if n >= 2 * n_blocks:
            assert visits.max() - visits.min() <= 1
        if n > 0.5 * n_blocks > 5:
            assert visits.max() >= 2  # something shows the variance within a row


@pytest.mark.parametrize(("n_rows", "n_draws"), [(10, 1), (10, 10), (10, 3), (97, 10), (100, 10), (5, 8), (12, 8)])
def test_blocks_use_every_row_equally_often(n_rows, n_draws):
    blocks = block_rows(n_rows, n_draws)
    counts = np.bincount(blocks.ravel(), minlength=n_rows)
    assert (counts == counts[0]).all()
    assert blocks.shape[1] == min(n_draws, n_rows)
    assert all(len(set(block)) == len(block) for block in blocks.tolist())
