"""The control that is fitted to the evaluations: exact where it can be, unbiased and honest where it cannot."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from test_calibration import DATA, check, replicate

import controlshap as cs
from controlshap.exact_forms.ridge_fit import RidgeData
from controlshap.surrogates.learned import ridge_walks
from controlshap.testing import marginal_game, shapley_by_definition

WEIGHTS = np.array([1.0, -2.0, 0.5, 1.5, 0.7, -0.3, 0.2])


def ridge(rows):
    return expit(rows @ WEIGHTS - 0.4)


def test_a_ridge_function_is_found_again():
    rows = np.random.default_rng(0).normal(size=(400, 7))
    data = RidgeData.standardise(rows, expit(rows @ WEIGHTS - 0.4))
    found = data.ridge(data.fit())
    assert_allclose(found.coef, WEIGHTS, rtol=0.02)  # the penalty shrinks a little
    assert (found.low, found.width) == (0.0, 1.0)


def test_separable_data_keep_bounded_coefficients():
    rows = np.random.default_rng(1).normal(size=(300, 3))
    data = RidgeData.standardise(rows, (rows[:, 0] > 0).astype(float))
    found = data.ridge(data.fit())
    assert np.isfinite(found.coef).all()
    assert np.abs(rows @ found.coef).max() < 200


def test_constant_columns_and_constant_outputs_are_no_trouble():
    rows = np.column_stack([np.random.default_rng(2).normal(size=50), np.ones(50)])
    found = RidgeData.standardise(rows, np.full(50, 7.0))
    parameters = found.ridge(found.fit())
    assert np.isfinite(parameters.coef).all()
    assert parameters.coef[1] == 0.0


def test_walks_of_a_ridge_are_those_of_its_function():
    rng = np.random.default_rng(3)
    data = RidgeData.standardise(rng.normal(size=(50, 4)), rng.random(50))
    found = data.ridge(rng.normal(size=5))
    x, b, permutation = rng.normal(size=4), rng.normal(size=4), rng.permutation(4)
    walked = ridge_walks(found, found.coef * x, (found.coef * b)[None], permutation[None])[0]
    row, before = b.copy(), expit(found.intercept + found.coef @ b)
    for player in permutation:
        row[player] = x[player]
        after = expit(found.intercept + found.coef @ row)
        assert_allclose(walked[player], found.width * (after - before), atol=1e-12)
        before = after


@pytest.mark.parametrize("budget", [150, 400, 1500])
def test_a_model_that_is_a_ridge_loses_almost_all_of_its_error(data, budget):
    explainer = cs.Explainer(ridge, data.background, estimator="permutation", control="ridge", groups=data.groups)
    explanation = explainer(data.x, budget=budget, rng=0)
    truth = shapley_by_definition(marginal_game(ridge, data.x, data.background, data.columns), 4)[:, 0]
    plain = np.abs(explanation.uncontrolled_values[0] - truth).max()
    assert np.abs(explanation.values[0] - truth).max() < 0.1 * plain
    assert explanation.variance_reduction.min() > 0.9
    assert explanation.n_evaluations[0] <= budget


@pytest.mark.parametrize("budget", [120, 300, 1200])
def test_the_fitted_control_is_unbiased_and_honest(budget, global_seed):
    settings = ("independent", "permutation", cs.LogisticRidge(), "analytic")
    explanation, truth = replicate(settings, budget, global_seed, n=300)
    check(explanation, truth, least=0.93 if budget >= 1000 else 0.88)
    # two-way products between -1 and 1 are not what a ridge knows best: it must not hurt
    ratio = explanation.values.var(axis=0) / explanation.uncontrolled_values.var(axis=0)
    assert np.median(ratio) < 1.05
    assert ratio.max() < 1.2  # a ratio of paired estimates from 300 replications


def test_a_model_that_no_ridge_fits_is_not_made_worse(global_seed):
    def bumps(rows):
        return np.sign(np.sin(3 * rows[:, 0]) * np.sin(3 * rows[:, 2])) * np.cos(2 * rows[:, 1])

    explainer = cs.Explainer(bumps, DATA.background, estimator="permutation", control="ridge", groups=DATA.groups)
    explanation = explainer(np.tile(DATA.x, (300, 1)), budget=300, rng=global_seed)
    ratio = explanation.values.var(axis=0) / explanation.uncontrolled_values.var(axis=0)
    assert ratio.max() < 1.15


def test_several_outputs_and_workers(data):
    explainer = cs.Explainer(data.model2, data.background, estimator="permutation", control="ridge", groups=data.groups)
    rows = data.background[:3]
    one, two = explainer(rows, budget=400, rng=5), explainer(rows, budget=400, rng=5, n_jobs=2)
    assert_array_equal(one.values, two.values)
    assert one.values.shape == (3, 4, 2)
    assert_allclose(one.values.sum(axis=1) + one.base_values, data.model2(rows), atol=1e-9)
    plain = cs.Explainer(data.model2, data.background, estimator="permutation", control="none", groups=data.groups)
    assert_allclose(one.uncontrolled_values, plain(rows, budget=400, rng=5).values, atol=1e-14)
    assert (one.n_evaluations == plain(rows, budget=400, rng=5).n_evaluations).all()


def test_it_stops_early_and_stands_beside_other_controls(data):
    both = ["ridge", "taylor"]
    explainer = cs.Explainer(ridge, data.background, estimator="permutation", control=both, groups=data.groups)
    explanation = explainer(data.x, tolerance=0.02, budget=20_000, rng=0)
    assert explanation.status[0] == "converged"
    assert explanation.method[0] == "Permutation + LogisticRidge + Taylor"
    assert explanation.n_evaluations[0] < 2000


def test_auto_uses_it_for_walks_with_independent_features(data):
    explanation = cs.explain(data.model, data.x, data.background, groups=data.groups, budget=200, rng=0)
    assert explanation.method[0] == "Permutation + LogisticRidge"


@pytest.mark.parametrize(
    "settings", [{"estimator": "kernel"}, {"estimator": "per_feature"}, {"estimator": cs.Permutation(n_draws=2)}]
)
def test_what_it_cannot_control_is_refused(data, settings):
    with pytest.raises(cs.NoClosedFormError, match="controls permutation walks"):
        cs.explain(data.model, data.x, data.background, control="ridge", budget=900, rng=0, **settings)


def test_correlated_features_are_refused(plain_data):
    background = plain_data.background[:, :4]
    with pytest.raises(cs.NoClosedFormError, match="features='independent'"):
        cs.explain(lambda rows: rows[:, 0], background[0], background, features="correlated", control="ridge", rng=0)


@pytest.mark.parametrize(("settings", "match"), [({"n_folds": 1}, "`n_folds`"), ({"max_rows": 10}, "`max_rows`")])
def test_bad_settings_are_refused(settings, match):
    with pytest.raises(cs.InvalidArgumentError, match=match):
        cs.LogisticRidge(**settings)


def test_missing_values_are_refused_before_any_call(data):
    calls = []

    def model(rows):
        calls.append(len(rows))
        return np.nan_to_num(rows).sum(axis=1)

    background = data.background.copy()
    background[0, 0] = np.nan
    explainer = cs.Explainer(model, background, control="ridge", estimator="permutation")
    with pytest.raises(cs.InvalidArgumentError, match="`control='ridge'` needs finite rows"):
        explainer(data.x, budget=400, rng=0)
    assert sum(calls) == len(background)  # the background itself, once
