"""Mean absolute values: the correction for noise against numerical integration, and errors against replications.

An explanation whose rows are an even grid of quantiles of N(v, s^2) integrates any function of an estimate; one whose
players are replications shows the distribution of a summary.
"""

from dataclasses import replace
from math import erf, exp, pi, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import controlshap as cs

RNG = np.random.default_rng(4)
BACKGROUND = RNG.normal(size=(12, 3))
AT = [0.0, 0.5, 1.0, 2.0, 4.0]
LARGEST = sqrt(2 / pi) * (2 - sqrt(2))


def model(rows):
    return np.sin(rows[:, 0]) * rows[:, 1] + rows[:, 2] ** 2


def explanation_of(values, errors):
    """An explanation with these values and standard errors."""
    values = np.asarray(values, dtype=float)
    made = cs.explain(model, BACKGROUND[:1], BACKGROUND, rng=0)
    names = tuple(f"x{i}" for i in range(values.shape[1]))
    errors = np.broadcast_to(np.asarray(errors, dtype=float), values.shape)
    return replace(made, values=values, standard_errors=errors, feature_names=names)


def quantiles(v, s, n=20_000):
    return (v + s * norm.ppf((np.arange(n) + 0.5) / n))[:, None]


def folded(w):
    """E|w + z| of a standard normal z, as textbooks have it."""
    return sqrt(2 / pi) * exp(-(w**2) / 2) + w * erf(w / sqrt(2))


def integrate(function, v):
    """E function(w) of w ~ N(v, 1)."""
    weighted = [quad(lambda w: function(w) * norm.pdf(w - v), *ends)[0] for ends in ((v - 9, 0), (0, v + 9))]
    return sum(weighted)


# The correction.


@pytest.mark.parametrize("s", [1.0, 0.03])
@pytest.mark.parametrize("v", AT)
def test_the_corrected_mean_is_what_integration_says(v, s):
    found = explanation_of(quantiles(v * s, s), s).summary()
    expected = integrate(lambda w: 2 * abs(w) - folded(abs(w)), v)
    np.testing.assert_allclose(found.mean_absolute / s, expected, atol=1e-3)
    np.testing.assert_allclose(found.uncorrected / s, integrate(abs, v), atol=1e-3)


@pytest.mark.parametrize("v", AT)
def test_the_bias_that_is_left_is_within_its_bound_and_small_where_it_was_large(v):
    found = explanation_of(quantiles(v, 1.0), 1.0).summary()
    left, before = abs(found.mean_absolute[0] - v), abs(found.uncorrected[0] - v)
    np.testing.assert_allclose(found.bias_bound, LARGEST, rtol=1e-12)
    assert left <= found.bias_bound[0] + 1e-3
    # beyond a standard error there was little to take off, and a little too much is taken
    assert left < (0.6 * before if v <= 1.0 else 0.1)


def test_the_bound_is_reached_where_the_value_is_zero():
    found = explanation_of(quantiles(0.0, 1.0), 1.0).summary()
    np.testing.assert_allclose(found.mean_absolute, found.bias_bound, atol=1e-3)
    np.testing.assert_allclose(found.uncorrected, sqrt(2 / pi), atol=1e-3)


def test_the_bound_holds_for_every_value():
    left = [abs(integrate(lambda w: 2 * abs(w) - folded(abs(w)), v) - v) for v in np.linspace(0.0, 6.0, 61)]
    assert max(left) <= LARGEST + 1e-9
    assert max(left[5:]) < 0.1


def test_the_correction_knows_no_sign():
    values = RNG.normal(size=(30, 4))
    one, other = explanation_of(values, 0.4).summary(), explanation_of(-values, 0.4).summary()
    np.testing.assert_allclose(one.mean_absolute, other.mean_absolute, rtol=1e-12)


def test_exact_values_have_nothing_to_correct():
    values = RNG.normal(size=(30, 4))
    found = explanation_of(values, 0.0).summary()
    np.testing.assert_allclose(found.mean_absolute, np.abs(values).mean(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(found.mean_absolute, found.uncorrected)
    np.testing.assert_allclose(found.mean_square, (values**2).mean(axis=0), rtol=1e-12)
    assert (found.standard_errors == 0).all()
    assert (found.bias_bound == 0).all()


def test_exact_and_sampled_rows_go_together():
    values, errors = np.array([[1.0], [0.2]]), np.array([[0.0], [0.5]])
    found = explanation_of(values, errors).summary()
    corrected = 2 * 0.2 - 0.5 * folded(0.2 / 0.5)
    np.testing.assert_allclose(found.mean_absolute, (1.0 + corrected) / 2, rtol=1e-10)
    np.testing.assert_allclose(found.bias_bound, LARGEST * 0.25, rtol=1e-10)


# Errors.

N_ROWS, N_RUNS = 60, 1500


def runs(seed, true_values, s):
    """Estimates `(rows, replications)` of true values `(rows,)` or `(rows, replications)`."""
    true_values = true_values if true_values.ndim == 2 else true_values[:, None]
    return true_values + s * np.random.default_rng((seed, 3)).normal(size=(len(true_values), N_RUNS))


@pytest.mark.parametrize("v", [*AT, 8.0])
def test_standard_errors_cover_the_scatter_of_the_mean(v, global_seed):
    true_values = np.full(N_ROWS, v)
    found = explanation_of(runs(global_seed, true_values, 1.0), 1.0).summary()
    scatter = found.mean_absolute.var(ddof=1)
    noise = 4.5 * sqrt(2 / N_RUNS)
    ratio = (found.standard_errors**2).mean() / scatter
    assert 1 - noise < ratio
    # on the safe side by 1.17 / 0.67 at most, where all values are 0, and right far away from it
    assert ratio < (1 + noise) * (1.0 if v > 5 else 1.75)


def test_errors_and_bound_together_hold_the_mean_over_these_rows(global_seed):
    true_values = np.random.default_rng(global_seed).normal(size=N_ROWS) * np.repeat([0.1, 3.0], N_ROWS // 2)
    found = explanation_of(runs(global_seed, true_values, 0.5), 0.5).summary()
    truth = np.abs(true_values).mean()
    reach = norm.ppf(0.975) * found.standard_errors + found.bias_bound
    assert (np.abs(found.mean_absolute - truth) <= reach).mean() > 0.95
    # the correction brings it nearer
    assert abs(found.mean_absolute.mean() - truth) < 0.8 * abs(found.uncorrected.mean() - truth)


def test_errors_alone_hold_the_mean_of_values_away_from_zero(global_seed):
    true_values = 3.0 + np.random.default_rng(global_seed).normal(size=N_ROWS) ** 2
    found = explanation_of(runs(global_seed, true_values, 0.5), 0.5).summary()
    share = (np.abs(found.mean_absolute - true_values.mean()) <= norm.ppf(0.975) * found.standard_errors).mean()
    assert abs(share - 0.95) < 4.5 * sqrt(0.05 * 0.95 / N_RUNS)


def test_sampled_rows_have_the_error_of_their_choice(global_seed):
    rng = np.random.default_rng((global_seed, 8))
    true_values = rng.choice([-1.0, 1.0], size=(N_ROWS, N_RUNS)) * (2.0 + rng.exponential(size=(N_ROWS, N_RUNS)))
    explanation = explanation_of(runs(global_seed, true_values, 0.3), 0.3)
    fixed, sampled = explanation.summary(), explanation.summary(sampled_rows=True)
    np.testing.assert_array_equal(fixed.mean_absolute, sampled.mean_absolute)
    # |v| has mean 3 and variance 1; noise of 0.3 on top
    scatter = sampled.mean_absolute.var(ddof=1)
    assert abs(np.log((sampled.standard_errors**2).mean() / scatter)) < 4.5 * sqrt(3 / N_RUNS)
    np.testing.assert_allclose((sampled.standard_errors**2).mean(), 1.09 / N_ROWS, rtol=0.1)
    np.testing.assert_allclose(fixed.standard_errors, 0.3 / sqrt(N_ROWS), rtol=0.05)
    covered = np.abs(sampled.mean_absolute - 3.0) <= norm.ppf(0.975) * sampled.standard_errors
    assert covered.mean() > 0.92 - 4.5 * sqrt(0.05 * 0.95 / N_RUNS)
    assert (np.abs(fixed.mean_absolute - 3.0) <= norm.ppf(0.975) * fixed.standard_errors).mean() < 0.7


@pytest.mark.parametrize("v", AT)
def test_the_mean_square_is_unbiased(v, global_seed):
    true_values = v * np.random.default_rng(global_seed).normal(size=N_ROWS)
    found = explanation_of(runs(global_seed, true_values, 1.0), 1.0).summary().mean_square
    assert abs(found.mean() - (true_values**2).mean()) < 4.5 * found.std(ddof=1) / sqrt(N_RUNS)


def test_a_real_explanation_holds_the_truth_within_its_errors_and_bound(global_seed):
    rng = np.random.default_rng((global_seed, 2))
    background, rows = rng.normal(size=(30, 6)), rng.normal(size=(80, 6))

    def product(rows):
        return rows[:, 0] * rows[:, 1] * rows[:, 2] + 0.1 * rows[:, 3] * rows[:, 4] * rows[:, 5]

    explainer = cs.Explainer(product, background, control="none")
    truth = np.abs(explainer(rows, budget=5000).values).mean(axis=0)
    sampled = cs.Explainer(product, background, estimator="permutation", control="none")(rows, budget=300, rng=0)
    found = sampled.summary()
    assert (np.abs(found.mean_absolute - truth) <= 4.5 * found.standard_errors + found.bias_bound).all()
    assert (found.mean_absolute < found.uncorrected).all()


# Shapes, order, words and frames.


def two_outputs(rows):
    return np.column_stack([model(rows), rows[:, 0] * rows[:, 2] - rows[:, 1]])


@pytest.mark.parametrize("sampled_rows", [False, True])
def test_outputs_are_summarised_one_by_one(sampled_rows):
    explainer = cs.Explainer(two_outputs, BACKGROUND, estimator="permutation", control="none")
    explanation = explainer(BACKGROUND[:5], budget=60, rng=0)
    found = explanation.summary(sampled_rows=sampled_rows)
    for output in range(2):
        one = explanation_of(explanation.values[..., output], explanation.standard_errors[..., output])
        alone = one.summary(sampled_rows=sampled_rows)
        for name in ("mean_absolute", "standard_errors", "bias_bound", "uncorrected", "mean_square", "order"):
            np.testing.assert_allclose(getattr(found, name)[:, output], getattr(alone, name), rtol=1e-12)
    assert found.mean_absolute.shape == (3, 2)
    assert found.n_rows == 5


def test_the_order_is_by_decreasing_importance():
    found = explanation_of([[0.1, -3.0, 2.0], [0.2, 2.5, -2.0]], 0.0).summary()
    assert found.order.tolist() == [1, 2, 0]
    assert explanation_of([[1.0, -1.0, 1.0]], 0.0).summary().order.tolist() == [0, 1, 2]


def test_a_summary_says_what_it_holds():
    found = explanation_of([[0.1, -3.0], [0.2, 2.5]], 0.0).summary()
    assert repr(found) == ("Mean absolute values over 2 rows: x1 2.75, x0 0.15")
    assert repr(explanation_of(np.ones((1, 7)), 0.0).summary()).endswith(", 2 more")


def test_a_frame_has_a_line_for_each_player():
    explanation = explanation_of(RNG.normal(size=(6, 3)), 0.3)
    found = explanation.summary()
    frame = found.to_frame()
    assert list(frame["feature"]) == ["x0", "x1", "x2"]
    for name in ("mean_absolute", "standard_errors", "bias_bound", "uncorrected", "mean_square"):
        np.testing.assert_array_equal(frame[name], getattr(found, name))
    assert "output" not in frame


def test_a_frame_has_a_line_for_each_player_and_output():
    found = cs.explain(two_outputs, BACKGROUND[:4], BACKGROUND, groups={"pair": [0, 2]}, rng=0).summary()
    frame = found.to_frame()
    assert len(frame) == 4
    for player, name in enumerate(found.feature_names):
        for output in range(2):
            line = frame[(frame["feature"] == name) & (frame["output"] == output)]
            assert line["mean_absolute"].tolist() == [found.mean_absolute[player, output]]


def test_one_row_is_summarised_by_itself():
    explanation = explanation_of([[0.5, -2.0]], 0.1)
    found = explanation.summary()
    assert found.n_rows == 1
    np.testing.assert_allclose(found.mean_absolute, [0.5, 2.0], rtol=1e-4)
    np.testing.assert_allclose(found.standard_errors, 0.1, rtol=0.1)
