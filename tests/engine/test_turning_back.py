"""Between one pass of single walks and two: some walks turn back, as the first of them show to be better."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import controlshap as cs
from controlshap.engine.pilot import Noise
from controlshap.testing import marginal_game, shapley_by_definition

RNG = np.random.default_rng(0)
BACKGROUND, X, CENTERS = RNG.normal(size=(100, 8)), RNG.normal(size=8), RNG.normal(size=(60, 8))
WALKS = cs.Permutation(paired=False, reverses=True)


def bumps(rows):
    """A kernel machine, of which a ridge explains little and of whose noise a reverse takes most."""
    return np.exp(-((rows[:, None] - CENTERS) ** 2).sum(axis=2) / 16.0) @ np.sin(np.arange(60.0))


def test_auto_takes_them_between_one_pass_and_two():
    explainer = cs.Explainer(bumps, BACKGROUND)
    chosen = [explainer.plan(X, budget=budget).estimator for budget in (700, 800, 1400, 1600)]
    assert chosen == [cs.Permutation(paired=False), WALKS, WALKS, cs.Permutation()]
    for settings in ({"variance": "bootstrap"}, {"control": "none"}, {"features": "correlated"}):
        assert not cs.Explainer(bumps, BACKGROUND, **settings).plan(X, budget=1000).estimator.reverses
    assert not explainer.plan(X, budget=1000, tolerance=0.1).estimator.reverses
    assert not cs.Explainer(bumps, BACKGROUND[:30]).plan(X, budget=300).estimator.reverses  # two pairs at many rows


def test_every_second_of_the_first_walks_is_the_one_before_from_its_end():
    design = WALKS.sample(8, 5, np.random.default_rng(0))
    assert_array_equal(WALKS.reverse(design), design[:, ::-1])
    with pytest.raises(cs.InvalidArgumentError, match="single walks"):
        cs.Permutation(reverses=True)


def test_errors_near_a_pass_are_far_below_those_of_pairs():
    truth = shapley_by_definition(marginal_game(bumps, X, BACKGROUND, np.arange(8)[:, None]), 8)[:, 0]
    errors = {}
    for estimator in (WALKS, cs.Permutation()):
        found = cs.Explainer(bumps, BACKGROUND, estimator=estimator, control=cs.LogisticRidge())(
            np.tile(X, (10, 1)), budget=1400, rng=0
        )
        errors[estimator] = ((found.values - truth) ** 2).mean()
        assert (found.n_evaluations <= 1400).all()
        assert_allclose(found.values.sum(axis=1) + found.base_values, bumps(X[None])[0], atol=1e-9)
    assert errors[WALKS] < 0.5 * errors[cs.Permutation()]


def test_a_run_can_go_on():
    explainer = cs.Explainer(bumps, BACKGROUND)
    once = explainer.refine(explainer(X, budget=1000, rng=1), budget=1200)
    again = explainer.refine(explainer.refine(explainer(X, budget=1000, rng=1), budget=700), budget=500)
    assert_allclose(once.values, again.values, atol=1e-12)
    assert_allclose(once.standard_errors, again.standard_errors, atol=1e-12)


def test_single_walks_are_preferred_where_half_differences_are_below_the_noise_between_rows():
    for n_walks, rows in ((120, 100), (160, 100), (190, 100), (80, 100)):
        for total, half in ((2.0, 0.5), (2.0, 4.0)):
            noise = Noise(total, min(total, half), half)
            better = noise.of_singles(n_walks, rows) < noise.of_pairs(n_walks // 2, rows)
            assert better == (half < total * min(1.0, rows / n_walks))
