"""Input that looks odd but is legal, and gets the right values."""

import numpy as np
import pytest
from calibration_cases import check_nothing_seen

import controlshap as cs
from controlshap.testing import marginal_game, shapley_by_definition

RNG = np.random.default_rng(4)
BACKGROUND = RNG.normal(size=(10, 4))
X = RNG.normal(size=(2, 4))
ALONE = [[0], [1], [2], [3]]
ESTIMATORS = ["auto", "permutation", "kernel", "per_feature"]


def smooth(rows):
    return np.tanh(rows[:, 0] + rows[:, 1] * rows[:, 2]) + rows[:, 3] ** 2


def pairwise(rows):
    return rows[:, 0] * rows[:, 1] - 2.0 * rows[:, 2] * rows[:, 3] + rows[:, 1]


def exact_values(model, x, background):
    return shapley_by_definition(marginal_game(model, x, background, ALONE), 4)[:, 0]


def test_a_background_of_one_row_is_a_baseline():
    baseline = BACKGROUND[:1]
    explanation = cs.explain(smooth, X, baseline, rng=0)
    assert explanation.status.tolist() == ["exact", "exact"]
    assert explanation.standard_errors.max() == 0.0
    np.testing.assert_allclose(explanation.base_values, smooth(baseline)[0], rtol=1e-12)
    for x, values in zip(X, explanation.values, strict=True):
        np.testing.assert_allclose(values, exact_values(smooth, x, baseline), atol=1e-12)


@pytest.mark.parametrize("control", ["none", "taylor", "auto"])
@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
def test_pairs_solve_a_pairwise_model_on_a_baseline(estimator, control):
    # One draw, at most two-way interactions: every pair of walks, and any regression on pairs, is exact.
    explanation = cs.explain(pairwise, X[:1], BACKGROUND[:1], estimator=estimator, control=control, budget=300, rng=0)
    np.testing.assert_allclose(explanation.values[0], exact_values(pairwise, X[0], BACKGROUND[:1]), atol=1e-9)
    check_nothing_seen(explanation.standard_errors[0])


@pytest.mark.parametrize("variance", ["auto", "bootstrap", "grouped"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_one_player_gets_all_of_it(estimator, variance):
    def model(rows):
        return np.exp(rows[:, 0])

    x, background = X[:, :1], BACKGROUND[:, :1]
    explanation = cs.explain(model, x, background, estimator=estimator, variance=variance, budget=50, rng=0)
    np.testing.assert_allclose(explanation.values[:, 0], model(x) - model(background).mean(), rtol=1e-12)
    assert explanation.status.tolist() == ["exact", "exact"]
    assert explanation.standard_errors.max() == 0.0


def test_one_group_of_all_columns_gets_all_of_it():
    explanation = cs.explain(smooth, X, BACKGROUND, groups={"all": [0, 1, 2, 3]}, budget=50, rng=0)
    assert explanation.feature_names == ("all",)
    np.testing.assert_allclose(explanation.values[:, 0], smooth(X) - smooth(BACKGROUND).mean(), rtol=1e-12)


@pytest.mark.parametrize("variance", ["analytic", "bootstrap", "grouped"])
def test_an_exact_value_has_no_error_whatever_the_variance_method(variance):
    explanation = cs.explain(smooth, X, BACKGROUND, variance=variance, rng=0)
    assert explanation.status.tolist() == ["exact", "exact"]
    assert explanation.standard_errors.max() == 0.0
    assert np.isinf(explanation.degrees_of_freedom).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("control", ["none", "taylor"])
def test_a_constant_column_is_worth_nothing_where_x_is_that_constant(estimator, control):
    background = BACKGROUND.copy()
    background[:, 2] = 1.5
    x = np.where(np.arange(4) == 2, 1.5, X)
    explanation = cs.explain(pairwise, x, background, estimator=estimator, control=control, budget=800, rng=0)
    # The closed sum may spread a rounding error over all values.
    tolerance = 4.0 * explanation.standard_errors[:, 2] + 1e-9
    assert (np.abs(explanation.values[:, 2]) <= tolerance).all()


def test_a_constant_column_gets_its_value_where_x_differs():
    background = BACKGROUND.copy()
    background[:, 2] = 1.5
    explanation = cs.explain(smooth, X, background, rng=0)
    for x, values in zip(X, explanation.values, strict=True):
        np.testing.assert_allclose(values, exact_values(smooth, x, background), atol=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_constant_column_is_independent_of_correlated_ones(estimator):
    slopes = np.array([1.0, -2.0, 3.0, 0.5])
    background = BACKGROUND.copy()
    background[:, 2] = 1.5
    explanation = cs.explain(
        lambda rows: rows @ slopes,
        X,
        background,
        features="correlated",
        estimator=estimator,
        # A linear model is its own Taylor polynomial, so the adjusted values are exact.
        control=cs.Taylor(gradient=lambda x: slopes),
        budget=600,
        rng=0,
    )
    np.testing.assert_allclose(explanation.values[:, 2], 3.0 * (X[:, 2] - 1.5), atol=1e-8)


def holed_model(rows):
    return smooth(np.where(np.isnan(rows), 0.25, rows)) + np.isnan(rows).sum(axis=1)


HOLED_X = np.where(np.arange(4) == 1, np.nan, X)
HOLED_BACKGROUND = BACKGROUND.copy()
HOLED_BACKGROUND[::3, 0] = np.nan


@pytest.mark.parametrize("background", [BACKGROUND, HOLED_BACKGROUND], ids=["full", "holed"])
@pytest.mark.parametrize("features", ["independent", cs.Marginal()], ids=str)
def test_missing_values_of_independent_features_go_to_the_model(features, background):
    explanation = cs.explain(holed_model, HOLED_X, background, features=features, rng=0)
    for x, values in zip(HOLED_X, explanation.values, strict=True):
        np.testing.assert_allclose(values, exact_values(holed_model, x, background), atol=1e-12)


@pytest.mark.parametrize("background", [BACKGROUND, HOLED_BACKGROUND], ids=["full", "holed"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_automatic_control_stays_away_from_missing_values(estimator, background):
    # A budget below one visit to each row, where a control would be worth its derivatives.
    explanation = cs.explain(holed_model, HOLED_X, background, estimator=estimator, budget=60, rng=0)
    assert np.isfinite(explanation.values).all()
    np.testing.assert_array_equal(explanation.values, explanation.uncontrolled_values)


def test_a_taylor_control_of_missing_values_is_refused():
    explainer = cs.Explainer(holed_model, BACKGROUND, estimator="permutation", control="taylor")
    with pytest.raises(
        cs.InvalidArgumentError, match=r"`control='taylor'` needs finite rows.*Use control='none', or imp"
    ):
        explainer(HOLED_X, budget=400, rng=0)


FORMS = {
    "lists": ([list(row) for row in X], [list(row) for row in BACKGROUND]),
    "column order": (np.asfortranarray(X), np.asfortranarray(BACKGROUND)),
    "strided": (np.repeat(X, 2, axis=1)[:, ::2], np.repeat(BACKGROUND, 2, axis=0)[::2]),
}


@pytest.mark.parametrize(("rows", "background"), FORMS.values(), ids=FORMS.keys())
def test_the_form_of_the_rows_does_not_matter(rows, background):
    plain = cs.explain(smooth, X, BACKGROUND, estimator="permutation", budget=200, rng=0)
    other = cs.explain(smooth, rows, background, estimator="permutation", budget=200, rng=0)
    np.testing.assert_array_equal(plain.values, other.values)


def test_a_single_row_may_come_without_its_axis():
    several = cs.explain(smooth, X[:1], BACKGROUND, budget=100, rng=0)
    one = cs.explain(smooth, X[0], BACKGROUND, budget=100, rng=0)
    assert one.values.shape == (1, 4)
    np.testing.assert_array_equal(one.values, several.values)


def test_whole_numbers_and_truth_values_are_numbers():
    background = RNG.integers(0, 2, size=(10, 4))
    as_floats = cs.explain(smooth, background[:2].astype(float), background.astype(float), rng=0)
    np.testing.assert_array_equal(cs.explain(smooth, background[:2], background, rng=0).values, as_floats.values)
    truth = background.astype(bool)
    np.testing.assert_array_equal(cs.explain(smooth, truth[:2], truth, rng=0).values, as_floats.values)


def test_a_row_of_the_background_is_a_row_like_any_other():
    explanation = cs.explain(smooth, BACKGROUND[3], BACKGROUND, rng=0)
    np.testing.assert_allclose(explanation.values[0], exact_values(smooth, BACKGROUND[3], BACKGROUND), atol=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("control", ["none", "taylor"])
def test_nothing_is_worth_anything_where_x_is_the_whole_background(estimator, control):
    background = np.repeat(X[:1], 5, axis=0)
    explanation = cs.explain(smooth, X[0], background, estimator=estimator, control=control, budget=400, rng=0)
    np.testing.assert_allclose(explanation.values, 0.0, atol=1e-14)
    np.testing.assert_allclose(explanation.standard_errors, 0.0, atol=1e-14)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_background_above_the_limit_is_sampled_and_the_error_of_the_base_is_told(estimator):
    background = np.random.default_rng(6).normal(size=(60, 4))
    with pytest.warns(cs.ControlShapWarning, match=r"`background` has 60 rows; 20 of them.*Set `max_background`"):
        explainer = cs.Explainer(smooth, background, estimator=estimator, max_background=20)
    explanation = explainer(X, budget=5000, rng=0)
    assert explainer.n_background_evaluations == 20 + 16
    sample = explainer._assembly.background
    assert len(sample) == 20
    assert {tuple(row) for row in sample} <= {tuple(row) for row in background}
    of_base = np.sqrt((1.0 - 20 / 60) / 20) * smooth(sample).std(ddof=1)
    np.testing.assert_allclose(explanation.base_standard_errors, of_base)
    # the sample is the background: the same values as if it had been given
    given = cs.explain(smooth, X, sample, estimator=estimator, budget=5000, rng=0)
    np.testing.assert_array_equal(explanation.values, given.values)
    assert (given.base_standard_errors == 0).all()
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values, smooth(X), atol=1e-9)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_a_model_that_writes_to_its_input_changes_nothing_else(estimator, features):
    def careless(rows):
        rows *= 2.0
        return smooth(rows)

    x, background = X.copy(), BACKGROUND.copy()
    settings = {"features": features, "estimator": estimator, "control": "taylor", "budget": 300, "rng": 0}
    explanation = cs.explain(careless, x, background, **settings)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(background, BACKGROUND)
    careful = cs.explain(lambda rows: smooth(2.0 * rows), X, BACKGROUND, **settings)
    np.testing.assert_array_equal(explanation.values, careful.values)
    np.testing.assert_array_equal(explanation.data, X)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_degrees_of_freedom_and_intervals_do_not_depend_on_the_scale_of_the_output(scale):
    rng = np.random.default_rng(0)
    background, x, weights = rng.normal(size=(20, 8)), rng.normal(size=(1, 8)), rng.normal(size=8)

    def explained(factor):
        def model(rows):
            return factor * np.tanh(rows @ weights) * (1 + rows[:, 0] * rows[:, 1] * rows[:, 2])

        return cs.explain(model, x, background, estimator="permutation", control="none", budget=400, rng=0)

    one, other = explained(1.0), explained(scale)
    np.testing.assert_allclose(other.degrees_of_freedom, one.degrees_of_freedom, rtol=1e-9)
    for ours, theirs in zip(other.confidence_interval(0.95), one.confidence_interval(0.95), strict=True):
        np.testing.assert_allclose(ours / scale, theirs, rtol=1e-9)
