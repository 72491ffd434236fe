"""How many second visits the first pass over the background has where the number of units is known before."""

import numpy as np
import pytest

from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import REVISIT_EVERY, count_enough, revisit_every, visit_sequence


@pytest.mark.parametrize("n_blocks", [5, 20, 50, 100, 333])
def test_a_pass_is_completed_as_soon_as_enough_second_visits_are_left(n_blocks):
    enough = count_enough(n_blocks)
    for n_units in range(2, 3 * n_blocks):
        usual = np.bincount(visit_sequence(n_blocks, n_units, np.random.default_rng(0)), minlength=n_blocks)
        every = revisit_every(n_blocks, n_units)
        counts = np.bincount(visit_sequence(n_blocks, n_units, np.random.default_rng(0), every), minlength=n_blocks)
        second = (counts >= 2).sum()
        assert (counts > 0).sum() >= (usual > 0).sum()
        assert second <= (usual >= 2).sum()
        assert second >= min((usual >= 2).sum(), enough - 1)
        if n_units >= n_blocks + enough:
            assert (counts > 0).all()


def test_a_few_units_of_many_blocks_have_the_usual_second_visits():
    assert revisit_every(1000, 200) == REVISIT_EVERY


@pytest.mark.parametrize("n_units", [90, 104, 108, 115])
def test_the_reported_variance_is_the_observed_one_near_a_pass(n_units, global_seed):
    n_blocks, n_repeats, rng = 100, 2000, np.random.default_rng(global_seed)
    means, spreads = rng.normal(size=n_blocks), rng.uniform(0.2, 2.0, size=n_blocks)
    every, estimates, reported = revisit_every(n_blocks, n_units), [], []
    for _ in range(n_repeats):
        labels = visit_sequence(n_blocks, n_units, rng, every)
        design = TwoStageDesign(labels, n_blocks)
        values = means[labels] + spreads[labels] * rng.normal(size=n_units)
        estimates.append(design.weights @ values)
        reported.append(float(design.covariance_root(values[:, None, None, None]).variances()[0, 0, 0]))
    ratio = np.mean(reported) / np.var(estimates, ddof=1)
    noise = np.sqrt(2 / n_repeats + (np.std(reported) / np.mean(reported)) ** 2 / n_repeats)
    assert 1 - 4 * noise < ratio < 1 + 4 * noise
    naive = np.var(means) / n_units  # negative control: rows as if drawn with replacement
    assert abs(naive / np.var(estimates, ddof=1) - 1.0) > 4 * noise
