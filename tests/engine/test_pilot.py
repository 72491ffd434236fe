"""A pilot of walks: rough models are left to KernelSHAP, smooth ones are not, and both estimates count."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import controlshap as cs
from controlshap.engine.pilot import SHARE, Prediction, count_pilot
from controlshap.statistics.control_variate import Estimate, combine
from controlshap.statistics.visits import choose_take_all
from controlshap.testing import marginal_game, shapley_by_definition

RNG = np.random.default_rng(0)
BACKGROUND, X, PLANES, SLOPES = (
    RNG.normal(size=(20, 10)), RNG.normal(size=10), RNG.normal(size=(10, 12)) / np.sqrt(10.0), RNG.normal(size=10),
)  # fmt: skip


def rough(rows):
    return np.cos(4.0 * rows @ PLANES).sum(axis=1)


def smooth(rows):
    return np.tanh(0.5 * rows @ SLOPES) + 0.1 * rows[:, 0] * rows[:, 1]


def test_rough_models_are_left_to_kernelshap_and_smooth_ones_are_not():
    found = cs.Explainer(rough, BACKGROUND)(X, budget=1000, rng=0)
    assert found.method[0].startswith("Permutation + Kernel + LogisticRidge")
    assert found.n_evaluations[0] <= 1000
    assert_allclose(found.values[0].sum() + found.base_values[0], rough(X[None])[0], atol=1e-9)
    assert "Kernel" not in cs.Explainer(smooth, BACKGROUND)(X, budget=1000, rng=0).method[0]


def test_walks_that_stay_are_those_without_a_pilot():
    explainer = cs.Explainer(smooth, BACKGROUND)
    walks = cs.Explainer(smooth, BACKGROUND, estimator=explainer.plan(budget=1000).estimator)
    assert_allclose(explainer(X, budget=1000, rng=0).values, walks(X, budget=1000, rng=0).values, atol=1e-14)


@pytest.mark.parametrize("model", [rough, smooth])
def test_a_run_with_a_pilot_can_go_on(model):
    explainer = cs.Explainer(model, BACKGROUND)
    once = explainer.refine(explainer(X, budget=600, rng=1), budget=600)
    again = explainer.refine(explainer.refine(explainer(X, budget=600, rng=1), budget=400), budget=200)
    assert once.method[0] == again.method[0]
    assert_allclose(once.values, again.values, atol=1e-12)
    assert (explainer.refine(once, budget=2000).standard_errors.max() < once.standard_errors.max()).all()


def test_outputs_share_the_walks_of_a_pilot():
    """Two outputs alike are one: the walks of the pilot and their reverses are found once, not once for each output."""
    rows = np.random.default_rng(1).normal(size=(100, 10))
    alone, both = cs.Explainer(smooth, rows), cs.Explainer(lambda a: np.stack([smooth(a), smooth(a)], axis=1), rows)
    assert alone.plan(budget=1200).alternative is not None
    alone, both = (explainer(X, budget=1200, rng=0) for explainer in (alone, both))
    assert both.method[0] == alone.method[0]
    assert_allclose(both.values[0], np.stack([alone.values[0]] * 2, axis=1), atol=1e-12)


def test_a_pilot_is_a_quarter_and_neither_few_walks_nor_most_of_them():
    assert [count_pilot(n) for n in (19, 20, 32, 100)] == [0, 8, 8, 100 * SHARE]


def test_a_prediction_weighs_what_a_pilot_leaves_with_what_it_cost():
    """A quarter of the evaluations has four times the variance of all; twice as good a rest is worth leaving for."""
    same, twice = Prediction(1.0, 4.0, 4.0 / 3.0, 0.25), Prediction(1.0, 4.0, 2.0 / 3.0, 0.25)
    assert_allclose([same.gain, same.worth], 1.0)
    assert_allclose([twice.gain, twice.worth], [1.75, 2.0])
    unknown = Prediction(1.0, np.inf, 2.0 / 3.0, 0.25)  # what a pilot estimates does not count if its error is unknown
    assert_allclose(unknown.gain, 1.5)
    assert unknown.worth == np.inf


@pytest.mark.parametrize("settings", [{"estimator": "permutation"}, {"control": "none"}, {"variance": "bootstrap"}])
def test_what_is_asked_for_is_not_left(settings):
    explainer = cs.Explainer(rough, BACKGROUND, **settings)
    assert explainer.plan(budget=1000).alternative is None
    assert "pilot" not in str(explainer.plan(budget=1000))
    assert "pilot" in str(cs.Explainer(rough, BACKGROUND).plan(budget=1000))
    assert cs.Explainer(rough, BACKGROUND).plan(budget=1000, tolerance=0.1).alternative is None


def test_the_errors_of_two_estimates_add_up():
    factors = np.zeros((4, 3, 1))
    factors[:, :2] = np.random.default_rng(0).normal(size=(4, 2, 1))
    first = Estimate(np.array([[1.0], [0.0], [2.0]]), 3.0 * factors, np.full((3, 1), 10.0))
    second = Estimate(np.array([[0.0], [1.0], [2.0]]), factors, np.full((3, 1), 20.0))
    both = combine(first, second, 0.9)
    assert_allclose(both.values[:, 0], [0.1, 0.9, 2.0])
    assert_allclose(both.variances[:2], (0.1**2 * 9.0 + 0.9**2) * second.variances[:2])
    assert (both.dof[:2] > 20.0).all()
    assert np.isinf(both.dof[2, 0])  # the base value has no error


@pytest.mark.slow
def test_noise_between_rows_that_a_pass_ends_is_no_reason_to_leave():
    """The largest of nine: 62 pairs of walks meet all 50 rows, KernelSHAP has ten times their error."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(52, 9))
    explainer = cs.Explainer(lambda rows: rows.max(axis=1), rows[:50])
    for x in rows[50:]:
        found = explainer(np.tile(x, (8, 1)), budget=1000, rng=1)
        assert not any("Kernel" in method for method in found.method)


@pytest.mark.slow
def test_errors_after_a_pilot_mean_what_they_say():
    truth = shapley_by_definition(marginal_game(rough, X, BACKGROUND, [(j,) for j in range(10)]), 10)[:, 0]
    found = cs.Explainer(rough, BACKGROUND)(np.tile(X, (200, 1)), budget=600, rng=2)
    assert np.mean(["Kernel" in method for method in found.method]) > 0.6
    z = (found.values.mean(axis=0) - truth) / (found.values.std(axis=0, ddof=1) / np.sqrt(200))
    assert np.abs(z).max() < 4.4  # family-wise 1e-4 over 10 players
    told, observed = (found.standard_errors**2).mean(), ((found.values - truth) ** 2).mean()
    assert 0.9 < np.sqrt(told / observed) < 1.2
    low, high = found.confidence_interval(0.95)
    assert 0.93 < ((low <= truth) & (truth <= high)).mean() < 0.985
    alone = cs.Explainer(rough, BACKGROUND, estimator="permutation")(np.tile(X, (200, 1)), budget=600, rng=2)
    assert observed < 0.85 * ((alone.values - truth) ** 2).mean()


def test_a_row_that_stands_out_is_no_reason_to_leave():
    """Half of the walks are at one row; their scatter says nothing of the others'."""
    rng = np.random.default_rng(14)
    rows = rng.normal(size=(102, 10))
    rows[17] = 6.0
    explainer = cs.Explainer(lambda a: ((a > 3).sum(axis=1) >= 4) * 5.0 + a[:, 0], rows[:100])
    assert all(m.startswith("Permutation + LogisticRidge") for m in explainer(rows[100:], budget=2500, rng=0).method)


@pytest.mark.slow
def test_rows_that_are_taken_all_do_not_keep_a_rough_model_from_kernelshap():
    """Two rows are far from the others; KernelSHAP visits them at once, as the walks did, and errors stay honest."""
    rng = np.random.default_rng(5)
    rows, planes = rng.normal(size=(102, 10)), rng.normal(size=(10, 12)) / np.sqrt(10.0)
    rows[:2] *= 4.0

    def saturated(some):
        return np.abs(6.0 * np.cos(4.0 * some @ planes)).sum(axis=1) + 40.0 * (np.abs(some).max(axis=1) > 5.0)

    changes = (saturated(rows[-1:]) - saturated(rows[:100]))[:, None]
    assert set(choose_take_all(changes, np.ones((100, 10), dtype=bool), 100).blocks) == {0, 1}
    truth = shapley_by_definition(marginal_game(saturated, rows[-1], rows[:100], [(j,) for j in range(10)]), 10)[:, 0]
    found = cs.Explainer(saturated, rows[:100])(np.tile(rows[-1], (60, 1)), budget=1500, rng=2)
    assert np.mean(["Kernel" in method for method in found.method]) > 0.9
    alone = cs.Explainer(saturated, rows[:100], estimator="permutation")(np.tile(rows[-1], (60, 1)), budget=1500, rng=2)
    observed = ((found.values - truth) ** 2).mean()
    assert observed < 0.85 * ((alone.values - truth) ** 2).mean()
    assert 0.9 < np.sqrt((found.standard_errors**2).mean() / observed) < 1.3
    low, high = found.confidence_interval(0.95)
    assert 0.93 < ((low <= truth) & (truth <= high)).mean() < 0.985
