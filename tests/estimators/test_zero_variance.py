"""Cases in which stochastic code must be exact, for any seed: deterministic tests of random code."""

import warnings

import numpy as np
import pytest
from calibration_cases import check_nothing_seen
from numpy.testing import assert_allclose

import controlshap as cs
from controlshap.testing import marginal_game, shapley_by_definition


def quadratic(seed=0, n_columns=7, outputs=2):
    rng = np.random.default_rng(seed)
    slope = rng.normal(size=(outputs, n_columns))
    bend = rng.normal(size=(outputs, n_columns, n_columns))
    bend = bend + bend.transpose(0, 2, 1)

    def model(rows):
        return rows @ slope.T + 0.5 * np.einsum("ni,oij,nj->no", rows, bend, rows)

    return model, lambda row: slope + bend @ row, lambda row: bend


def truth_of(model, data):
    return shapley_by_definition(marginal_game(model, data.x, data.background, data.columns), len(data.columns))


@pytest.mark.parametrize("estimator", ["permutation", cs.Permutation(paired=False), "per_feature", "kernel"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_surrogate_equal_to_the_model_leaves_no_error(data, estimator, seed):
    model, gradient, hessian = quadratic()
    control = cs.Taylor(gradient=gradient, hessian=hessian)
    explainer = cs.Explainer(model, data.background, estimator=estimator, control=control, groups=data.groups)
    # below one pass over the background: after it, pairs alone are exact for a quadratic
    explanation = explainer(data.x, budget=120, rng=seed)
    assert_allclose(explanation.values[0], truth_of(model, data), atol=1e-8)
    check_nothing_seen(explanation.standard_errors[0])
    assert explanation.uncontrolled_standard_errors.max() > 1e-3


@pytest.mark.parametrize("estimator", ["permutation", "per_feature", "kernel", cs.Kernel(n_draws=3)])
@pytest.mark.parametrize("draws", ["gaussian", "background"])
def test_a_linear_surrogate_equal_to_the_model_leaves_no_error_with_correlated_features(data, estimator, draws):
    slope = np.random.default_rng(0).normal(size=7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.SingularCovarianceWarning)
        explainer = cs.Explainer(
            lambda rows: rows @ slope,
            data.background,
            features=cs.GaussianConditional(draws=draws),
            estimator=estimator,
            control=cs.Taylor(gradient=lambda row: slope),
            groups=data.groups,
        )
    results = [explainer(data.x, budget=600, rng=seed) for seed in range(3)]
    for result in results[1:]:
        assert_allclose(result.values, results[0].values, atol=1e-8)
    check_nothing_seen(results[0].standard_errors[0])


@pytest.mark.parametrize("seed", [0, 1])
def test_an_additive_model_is_exact_after_one_pass_over_the_background(data, seed):
    def additive(rows):
        return np.sin(rows).sum(axis=1)

    explainer = cs.Explainer(
        additive, data.background, estimator=cs.Permutation(paired=False), control="none", groups=data.groups
    )
    # 24 rows need 30 units for a complete first pass (every fifth is a second visit); 3 evaluations each
    explanation = explainer(data.x, budget=1 + 3 * 30, rng=seed)
    assert_allclose(explanation.values[0], truth_of(additive, data)[:, 0], atol=1e-12)
    check_nothing_seen(explanation.standard_errors[0])


@pytest.mark.parametrize("estimator", ["permutation", cs.Kernel(n_draws=24)])
def test_pairs_are_exact_for_two_way_interactions(data, estimator):
    model, _, _ = quadratic()
    explainer = cs.Explainer(model, data.background, estimator=estimator, control="none", groups=data.groups)
    explanation = explainer(data.x, budget=1500, rng=0)
    assert_allclose(explanation.values[0], truth_of(model, data), atol=1e-8)
    check_nothing_seen(explanation.standard_errors[0])


@pytest.mark.parametrize("estimator", ["permutation", cs.Kernel(n_draws=24)])
def test_pairs_are_not_exact_for_three_way_interactions(data, estimator):
    # Negative control of the test above.
    def cubic(rows):
        return rows[:, 0] * rows[:, 1] * rows[:, 2]

    explainer = cs.Explainer(cubic, data.background, estimator=estimator, control="none", groups=data.groups)
    explanation = explainer(data.x, budget=1500, rng=0)
    assert np.abs(explanation.values[0] - truth_of(cubic, data)[:, 0]).max() > 1e-4
    assert explanation.standard_errors.max() > 1e-4


@pytest.mark.parametrize("estimator", ["permutation", "per_feature", cs.Kernel(n_draws=24)])
def test_a_player_that_changes_nothing_gets_nothing(data, estimator):
    def model(rows):
        return np.tanh(rows[:, 0] + rows[:, 1] * rows[:, 4])  # column 2 is not used

    explainer = cs.Explainer(model, data.background, estimator=estimator, control="none", groups=data.groups)
    explanation = explainer(data.x, budget=1600, rng=0)
    if isinstance(estimator, str):
        assert abs(explanation.values[0, 2]) < 1e-12
    else:  # least squares spreads the residuals of the others
        assert abs(explanation.values[0, 2]) < 5 * explanation.standard_errors[0, 2]


@pytest.mark.parametrize("features", ["independent", "correlated"])
@pytest.mark.parametrize("estimator", ["permutation", "per_feature", "kernel", cs.Kernel(paired=False)])
@pytest.mark.parametrize("control", ["none", "taylor"])
@pytest.mark.parametrize("coefficient", ["units", "folds"])
@pytest.mark.parametrize("budget", [170, 1000])
def test_values_sum_to_the_prediction(data, features, estimator, control, coefficient, budget):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        explainer = cs.Explainer(
            data.model2, data.background, features=features, estimator=estimator, control=control, groups=data.groups,
            coefficient=coefficient,
        )  # fmt: skip
        explanation = explainer(data.background[:2] + 0.1 * (np.arange(7) < 4), budget=budget, rng=3)
    total = explanation.values.sum(axis=1) + explanation.base_values
    assert_allclose(total, data.model2(explanation.data), atol=1e-9)
    assert (explanation.n_evaluations <= budget).all()


def test_pairs_leave_nothing_for_a_quadratic_control_and_rounding_is_not_taken_for_correlation(data):
    # Over a fully visited background with pairs, the Taylor control varies by rounding only: 0/0 must become 0.
    explainer = cs.Explainer(data.model, data.background, control="taylor", estimator="permutation", groups=data.groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.WeakControlWarning)
        explanation = explainer(data.x, budget=2000, rng=0)
    assert (explanation.variance_reduction == 0).all()
    assert_allclose(explanation.values, explanation.uncontrolled_values, atol=1e-12)
