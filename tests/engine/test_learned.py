"""Controls that are fitted to the evaluations: exact where they can be, and no trouble where they cannot."""

import warnings

import numpy as np
import pytest
from calibration_cases import check_nothing_seen
from conftest import make_data
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import controlshap as cs
from controlshap.controls.ridge import RidgeData
from controlshap.statistics.base_sample import REPEATED
from controlshap.testing import marginal_game, pathwise_game, shapley_by_definition

WEIGHTS = np.array([1.0, -2.0, 0.5, 1.5, 0.7, -0.3, 0.2])
OTHER = np.array([-0.5, 0.4, 1.0, 0.3, -0.6, 0.2, 0.5])
DATA = make_data()
RNG = np.random.default_rng(3)
SLOPE, BEND = RNG.normal(size=7), 0.3 * RNG.normal(size=(7, 7))
TRAIN = RNG.normal(size=(300, 7))
FOREST = RandomForestRegressor(12, max_depth=5, random_state=0).fit(TRAIN, np.tanh(TRAIN @ WEIGHTS) + TRAIN[:, 0] ** 2)
CLASSES = RandomForestClassifier(8, max_depth=5, random_state=0).fit(TRAIN, np.digitize(TRAIN @ WEIGHTS, [-1.0, 1.0]))


def ridge(rows):
    return expit(rows @ WEIGHTS - 0.4)


def ridges(rows):
    return np.column_stack([ridge(rows), expit(1.0 - rows @ OTHER)])


def network(rows):
    return 2.0 * expit(0.6 * rows @ WEIGHTS - 0.4) - 1.5 * expit(0.6 * rows @ OTHER + 0.2) + 0.3 * rows[:, 0]


def quadratic(rows):
    return rows @ SLOPE + np.einsum("ni,ij,nj->n", rows, BEND, rows)


def truth_of(model, data=DATA):
    game = marginal_game(model, data.x, data.background, data.columns)
    return shapley_by_definition(game, len(data.columns))


def explain(model, control, budget, *, rng=0, data=DATA, x=None, **settings):
    explainer = cs.Explainer(model, data.background, control=control, groups=data.groups, **settings)
    return explainer(data.x if x is None else x, budget=budget, rng=rng)


# ------------------------------------------------------------------------------------------------------ the ridge's fit


def test_a_ridge_function_is_found_again():
    rows = np.random.default_rng(0).normal(size=(400, 7))
    data = RidgeData.standardise(rows, ridge(rows))
    found = data.network(data.fit())
    assert_allclose(found.weights[0], WEIGHTS, rtol=0.02)  # the penalty shrinks a little
    assert_allclose(found.predict(rows), ridge(rows), atol=1e-3)
    assert (found.constant, found.scales.tolist(), found.linear.any()) == (0.0, [1.0], False)


def test_separable_data_keep_bounded_coefficients():
    rows = np.random.default_rng(1).normal(size=(300, 3))
    data = RidgeData.standardise(rows, (rows[:, 0] > 0).astype(float))
    found = data.network(data.fit())
    assert np.isfinite(found.weights).all()
    assert np.abs(rows @ found.weights[0]).max() < 200


def test_constant_columns_and_constant_outputs_are_no_trouble():
    rows = np.column_stack([np.random.default_rng(2).normal(size=50), np.ones(50)])
    data = RidgeData.standardise(rows, np.full(50, 7.0))
    found = data.network(data.fit())
    assert np.isfinite(found.weights).all()
    assert found.weights[0, 1] == 0.0


# ------------------------------------------------------------------------------------ the surrogate is the model itself


ESTIMATORS = {
    f"{kind.__name__}, {'paired' if paired else 'unpaired'}, {n_draws} draws": kind(paired=paired, n_draws=n_draws)
    for kind in (cs.Permutation, cs.Kernel)
    for paired in (True, False)
    for n_draws in (1, 3)
}
#: Model, control, and the share of the error that a fit may leave: the penalties leave 1e-3 or so, a given forest
#: nothing; a network is found by few steps from its start, and 26 pairs of walks hardly determine a quadratic.
SAME = {
    "ridge": (ridge, "ridge", 0.01),
    "two ridges": (ridges, cs.LogisticRidge(n_folds=3), 0.01),
    "network": (network, cs.RidgeNetwork(2), 0.35),
    "quadratic": (quadratic, "polynomial", 0.3),
    "forest": (FOREST.predict, cs.Trees(model=FOREST), 1e-9),
    "three classes": (CLASSES.predict_proba, cs.Trees(model=CLASSES), 1e-9),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("budget", [130, 700])
def test_a_surrogate_that_is_the_model_leaves_no_error(name, estimator, budget):
    model, control, share = SAME[name]
    explanation = explain(model, control, budget, estimator=ESTIMATORS[estimator])
    truth = truth_of(model).reshape(explanation.values[0].shape)
    told, plain = explanation.standard_errors, explanation.uncontrolled_standard_errors
    exact = name == "quadratic" and estimator.startswith("Permutation, paired") and budget == 700
    limit = share * plain.max() + 1e-12
    if exact:  # pairs over a complete pass leave nothing of a quadratic
        check_nothing_seen(plain[0])
    if exact or share <= 1e-9:
        check_nothing_seen(told[0])
    else:
        assert told.max() < limit
    # the error is what was told, so small: 7 of its own standard errors, with few degrees of freedom
    assert np.abs(explanation.values[0] - truth).max() < 7.0 * limit
    assert explanation.n_evaluations[0] <= budget
    if not exact and name != "network":
        # of players whose plain contributions are alike in all units there is nothing to reduce
        assert np.median(explanation.variance_reduction) > (0.6 if name == "quadratic" else 0.99)


def test_a_surrogate_that_is_not_the_model_leaves_an_error():
    # Negative control of the test above.
    for control in (cs.Trees(model=FOREST), "polynomial"):
        explanation = explain(network, control, 700, estimator=cs.Permutation(paired=False))
        assert explanation.standard_errors.max() > 0.02 * explanation.uncontrolled_standard_errors.max()


@pytest.mark.parametrize("budget", [150, 400, 1500])
def test_a_model_that_is_a_ridge_loses_almost_all_of_its_error(budget):
    explanation = explain(ridge, "ridge", budget, estimator="permutation")
    truth = truth_of(ridge)[:, 0]
    plain = np.abs(explanation.uncontrolled_values[0] - truth).max()
    assert np.abs(explanation.values[0] - truth).max() < 0.1 * plain
    assert explanation.variance_reduction.min() > 0.9
    assert explanation.n_evaluations[0] <= budget


@pytest.mark.parametrize("draws", ["gaussian", "background"])
@pytest.mark.parametrize("control", ["ridge", "network"])
def test_correlated_features_lose_almost_all_of_it_too(control, draws):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.SingularCovarianceWarning)
        features = cs.GaussianConditional(draws=draws)
        explanation = explain(ridge, control, 150, estimator="permutation", features=features)
    # what is left is the error of the simulated values, as if many times as many walks had been evaluated
    assert explanation.standard_errors.max() < 0.3 * explanation.uncontrolled_standard_errors.max()
    if draws == "background":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cs.SingularCovarianceWarning)
            explainer = cs.Explainer(ridge, DATA.background, features)
        moments = explainer._assembly.imputer.moments
        covariance = moments.correlation * np.outer(moments.scale, moments.scale)
        game = pathwise_game(ridge, DATA.x, DATA.background, covariance, DATA.columns)
        z = (explanation.values[0] - shapley_by_definition(game, 4)[:, 0]) / explanation.standard_errors[0]
        assert np.abs(z).max() < 6.5  # t with 19 degrees of freedom, level 1e-5


# ---------------------------------------------------------------------------------------------- what goes along with it


QUICK = {
    "ridge": cs.LogisticRidge(n_folds=3),
    "network": cs.RidgeNetwork(2, n_folds=3, max_rows=300),
    "polynomial": cs.Polynomial(n_folds=3),
    "trees": cs.Trees(n_trees=5, n_leaves=5, n_folds=3),
    "all": [cs.LogisticRidge(), "taylor", cs.Polynomial(), cs.Trees(n_trees=4, n_leaves=4, start=None, n_folds=3)],
}


@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
@pytest.mark.parametrize("name", QUICK)
def test_several_outputs_and_workers(name, estimator):
    settings = {"estimator": estimator, "groups": DATA.groups}
    rows = DATA.background[:3] + 0.1 * (np.arange(7) < 4)
    explainer = cs.Explainer(DATA.model2, DATA.background, control=QUICK[name], **settings)
    one, two = explainer(rows, budget=400, rng=5), explainer(rows, budget=400, rng=5, n_jobs=2)
    assert_array_equal(one.values, two.values)
    assert one.values.shape == (3, 4, 2)
    assert_allclose(one.values.sum(axis=1) + one.base_values, DATA.model2(rows), atol=1e-9)
    few = cs.Explainer(DATA.model2, DATA.background, control=QUICK[name], memory_limit=2**20, **settings)
    assert_allclose(few(rows, budget=400, rng=5).values, one.values, atol=1e-9)
    if name != "all":  # derivatives cost evaluations, and change the draws that are left
        plain = cs.Explainer(DATA.model2, DATA.background, control="none", **settings)(rows, budget=400, rng=5)
        assert_allclose(one.uncontrolled_values, plain.values, atol=1e-14)
        assert_array_equal(one.n_evaluations, plain.n_evaluations)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("binary", ["linear", "threshold"])
def test_correlated_features_and_several_outputs(name, estimator, binary):
    rows = DATA.background[:2] + 0.1 * (np.arange(7) < 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        features = cs.GaussianConditional(binary=binary)
        control = QUICK[name] if binary == "linear" or name != "all" else [QUICK["ridge"], QUICK["polynomial"]]
        one = explain(DATA.model2, control, 400, x=rows, features=features, estimator=estimator)
    assert_allclose(one.values.sum(axis=1) + one.base_values, DATA.model2(rows), atol=1e-9)
    assert (one.standard_errors > 0).all()
    assert (one.standard_errors < 3.0 * one.uncontrolled_standard_errors).all()


@pytest.mark.parametrize("control", ["ridge", "polynomial"])
def test_a_base_value_that_is_known_stays_known(control):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.SingularCovarianceWarning)
        features = cs.GaussianConditional(draws="background")
        explanation = explain(ridge, control, 300, estimator="permutation", features=features)
    assert_allclose(explanation.base_values[0], ridge(DATA.background).mean(), atol=1e-12)
    assert explanation.base_standard_errors[0] == 0.0


@pytest.mark.parametrize("control", ["ridge", "polynomial", cs.Trees(n_trees=5, n_leaves=5)])
@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
def test_it_stops_early(control, estimator):
    explainer = cs.Explainer(ridge, DATA.background, estimator=estimator, control=control, groups=DATA.groups)
    explanation = explainer(DATA.x, tolerance=0.02, budget=20_000, rng=0)
    assert explanation.status[0] == "converged"
    spread = np.ptp(explanation.values[0])
    assert explanation.standard_errors.max() <= 0.02 * spread
    # ten standard errors: stopping looks for small ones, and finds some that are too small
    assert np.abs(explanation.values[0] - truth_of(ridge)[:, 0]).max() < 0.2 * spread
    plain = cs.Explainer(ridge, DATA.background, estimator=estimator, control="none", groups=DATA.groups)
    assert explanation.n_evaluations[0] <= plain(DATA.x, tolerance=0.02, budget=20_000, rng=0).n_evaluations[0]


def test_it_stands_beside_other_controls():
    explainer = cs.Explainer(
        ridge, DATA.background, estimator="permutation", control=["ridge", "taylor"], groups=DATA.groups
    )
    explanation = explainer(DATA.x, tolerance=0.02, budget=20_000, rng=0)
    assert explanation.status[0] == "converged"
    assert set(explanation.method[0].split(" + ")) == {"Permutation", "LogisticRidge", "Taylor"}
    assert explanation.n_evaluations[0] < 2000


@pytest.mark.parametrize("name", ["ridge", "network", "polynomial", "trees"])
def test_fewer_units_than_a_fit_needs_leave_the_control_out(name):
    explanation = explain(DATA.model, QUICK[name], 19, estimator="permutation")
    assert_array_equal(explanation.values, explanation.uncontrolled_values)
    assert_array_equal(explanation.standard_errors, explanation.uncontrolled_standard_errors)
    for budget in (25, 31):  # and the fewest with which it is fitted
        assert np.isfinite(explain(DATA.model, QUICK[name], budget, estimator="permutation").standard_errors).all()


def test_a_large_background_keeps_the_noise_of_rows_only():
    data = make_data(n_rows=2100, grouped=True)
    estimator = cs.Permutation(paired=False)
    explanation = explain(FOREST.predict, cs.Trees(model=FOREST), 400, data=data, estimator=estimator)
    # only the values of visited rows are computed, so that their mean over the background stays unknown
    assert (explanation.standard_errors > 0).all()
    assert (explanation.standard_errors < explanation.uncontrolled_standard_errors).all()
    truth = truth_of(FOREST.predict, data)[:, 0]
    assert np.abs((explanation.values[0] - truth) / explanation.standard_errors[0]).max() < 5.0


def test_a_score_out_of_reach_leaves_the_control_out():
    def steep(rows):
        return expit(1e4 * (rows[:, 0] - 0.1) + 1e3 * rows[:, 2])

    explanation = explain(steep, "ridge", 400, estimator="permutation")
    assert np.isfinite(explanation.values).all()
    assert_allclose(explanation.values.sum() + explanation.base_values[0], steep(DATA.x[None])[0], atol=1e-9)


def test_models_that_are_constant_or_enormous_are_no_trouble():
    for name, control in QUICK.items():
        still = explain(lambda rows: np.full(len(rows), 4.0), control, 400, estimator="permutation")
        assert np.abs(still.values).max() < 1e-12, name
        assert still.standard_errors.max() < 1e-12, name
    for name in ("ridge", "network", "polynomial", "trees"):
        small = explain(DATA.model, QUICK[name], 400, estimator="permutation")
        large = explain(lambda rows: 1e9 * DATA.model(rows) + 1e9, QUICK[name], 400, estimator="permutation")
        ratio = large.standard_errors / large.uncontrolled_standard_errors
        assert_allclose(ratio, small.standard_errors / small.uncontrolled_standard_errors, rtol=0.2, err_msg=name)


def test_auto_uses_it_for_walks_with_independent_features():
    explanation = cs.explain(DATA.model, DATA.x, DATA.background, groups=DATA.groups, budget=200, rng=0)
    assert explanation.method[0].startswith("Permutation + LogisticRidge")


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("control", ["ridge", "network", "polynomial", "trees"])
def test_what_it_cannot_control_is_refused(control):
    with pytest.raises(cs.NoClosedFormError, match="controls permutation walks and KernelSHAP"):
        explain(DATA.model, control, 900, estimator="per_feature")


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: cs.LogisticRidge(n_folds=1), "`n_folds`"),
        (lambda: cs.LogisticRidge(max_rows=10), "`max_rows`"),
        (lambda: cs.RidgeNetwork(0), "`n_hidden`"),
        (lambda: cs.RidgeNetwork(n_folds=1), "`n_folds`"),
        (lambda: cs.RidgeNetwork(n_hidden=2.0), "`n_hidden`"),
        (lambda: cs.Polynomial(degree=3), "`degree`"),
        (lambda: cs.Polynomial(max_terms=0), "`max_terms`"),
        (lambda: cs.Trees(n_trees=0), "`n_trees`"),
        (lambda: cs.Trees(n_leaves=1), "`n_leaves`"),
        (lambda: cs.Trees(n_folds=True), "`n_folds`"),
        (lambda: cs.Trees(learning_rate=0.0), "`learning_rate`"),
        (lambda: cs.Trees(start="ridge"), "`start`"),
        (lambda: cs.Trees(model=ridge), "`model`"),
        (lambda: cs.Trees(model=RandomForestRegressor()), "`model`"),
    ],
)
@pytest.mark.filterwarnings("ignore::controlshap.NotExactWarning")  # of a forest that was never fitted
def test_bad_settings_are_refused(make, match):
    with pytest.raises(cs.InvalidArgumentError, match=match):
        make()


def test_a_given_forest_with_too_few_outputs_is_refused():
    with pytest.raises(cs.InvalidArgumentError, match="fewer outputs"):
        explain(DATA.model2, cs.Trees(model=FOREST), 400, estimator="permutation")


@pytest.mark.parametrize("control", ["ridge", "network", "polynomial", "trees"])
def test_missing_values_are_refused_before_any_call(control):
    calls = []

    def model(rows):
        calls.append(len(rows))
        return np.nan_to_num(rows).sum(axis=1)

    x = DATA.x.copy()
    x[0] = np.nan  # where the background has no gap, there is no flag for one
    explainer = cs.Explainer(model, DATA.background, control=control, estimator="permutation")
    with pytest.raises(cs.InvalidArgumentError, match=r"`control`.* needs finite rows"):
        explainer(x, budget=400, rng=0)
    assert sum(calls) == len(DATA.background) + REPEATED  # the background itself, once, and some rows again
