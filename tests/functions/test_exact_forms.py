"""Logistic and linear forms against enumeration; recognised models are exact with one evaluation."""

import sys

import lightgbm
import numpy as np
import pytest
import xgboost
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge

import controlshap as cs
from controlshap.functions import logistic
from controlshap.functions.logistic import leave_one_out, logistic_nodes, logistic_values, score_bound
from controlshap.functions.recognise import agrees, recognise
from controlshap.models.model import as_model
from controlshap.testing import marginal_game, shapley_by_definition
from controlshap.testing.oracles import conditional_map


@pytest.mark.parametrize("n_players", [1, 2, 3, 6, 9])
def test_logistic_values_are_those_of_the_definition(n_players, monkeypatch):
    rng = np.random.default_rng(n_players)
    at_x, at_draws = rng.normal(size=n_players), 2.0 * rng.normal(size=(5, n_players))
    at_draws[0, 0] = at_x[0]  # a player who changes nothing
    values = logistic_values(-0.4, at_x, at_draws)
    for draw in range(5):

        def game(coalition, draw=draw):
            chosen = [at_x[j] if j in coalition else at_draws[draw, j] for j in range(n_players)]
            return expit(-0.4 + np.sum(chosen))

        assert_allclose(values[draw], shapley_by_definition(game, n_players)[:, 0], atol=1e-11)
    assert values[0, 0] == 0.0
    monkeypatch.setattr(logistic, "BATCH", 1)  # one draw at a time
    assert_allclose(logistic_values(-0.4, at_x, at_draws), values, atol=1e-14)


def test_products_without_one_factor_survive_zeros():
    factors = np.array([[2.0, 0.0], [0.0, 0.0], [3.0, 5.0]])
    assert_allclose(leave_one_out(factors), [[0.0, 0.0], [6.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("bound", [0.5, 10.0, 60.0, 200.0])
@pytest.mark.parametrize("precision", [1e-8, 1e-12])
def test_the_quadrature_of_the_sigmoid_keeps_its_precision_up_to_the_bound(bound, precision):
    z = np.linspace(-bound, bound, 4001)
    frequencies, weights = logistic_nodes(bound, precision)
    error = np.abs(0.5 + np.sin(np.outer(z, frequencies)) @ weights - expit(z)).max()
    assert error < precision
    # negative control: the rule is periodic, so far outside the bound it is badly wrong
    far = bound + np.log(1 / precision) + 0.7
    assert abs(0.5 + np.sin(far * frequencies) @ weights - expit(far)) > 0.1


@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0])
def test_few_nodes_are_as_good_as_those_that_are_exact_for_polynomials(scale, monkeypatch):
    rng = np.random.default_rng(3)
    at_x, at_draws = scale * rng.normal(size=40), scale * rng.normal(size=(20, 40))
    values = logistic_values(0.3, at_x, at_draws, 1e-8)
    monkeypatch.setattr(logistic, "NATS", 1e-9)  # all 20 nodes
    every = logistic_values(0.3, at_x, at_draws, 1e-8)
    assert_allclose(values, every, atol=1e-8)
    # one node is where the search begins, and not where it ends
    monkeypatch.setattr(logistic, "NATS", 1e9)
    assert_allclose(logistic_values(0.3, at_x, at_draws, 1e-8), every, atol=1e-8)
    # negative control: it is not enough
    monkeypatch.setattr(logistic, "enough_nodes", lambda n_players: 1)
    assert np.abs(logistic_values(0.3, at_x, at_draws, 1e-8) - every).max() > 1e-6


@pytest.mark.parametrize("bound", [1.0, 3.0, 6.0, 9.0])
def test_fitted_sines_are_fewer_than_those_of_the_midpoint_rule(bound):
    fitted, midpoint = logistic.logistic_nodes(bound, 1e-8), logistic.midpoint_nodes(bound, 1e-8)
    assert len(fitted[0]) <= 0.85 * len(midpoint[0])


def test_logistic_values_are_exact_where_mixes_reach_further_than_the_ends():
    # Parts of opposite sign cancel at x and at the draw but not on the way: a bound from the end points would be wrong.
    at_x, at_draws = np.array([6.0, -6.0, 1.0]), np.array([[-6.0, 6.0, 0.5], [0.0, 1.0, -2.0]])
    assert score_bound(0.2, at_x, at_draws) > 12
    values = logistic_values(0.2, at_x, at_draws)
    for draw in range(2):

        def game(coalition, draw=draw):
            return expit(0.2 + sum(at_x[j] if j in coalition else at_draws[draw, j] for j in range(3)))

        assert_allclose(values[draw], shapley_by_definition(game, 3)[:, 0], atol=1e-11)


def fitted(kind, data):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 7))
    if kind == "logistic":
        return LogisticRegression(C=10).fit(
            X, X[:, 0] + X[:, 1] * X[:, 2] > 0
        ), lambda m: lambda r: m.predict_proba(r)[:, 1]
    if kind == "several outputs":
        return LinearRegression().fit(X, X[:, :2] ** 2 + X[:, 2:4]), lambda m: m.predict
    model = {"linear": LinearRegression(), "ridge": Ridge(), "lasso": Lasso(alpha=0.01)}[kind]
    return model.fit(X, X[:, 0] - 2 * X[:, 3]), lambda m: m.predict


@pytest.mark.parametrize("kind", ["linear", "ridge", "lasso", "logistic", "several outputs"])
@pytest.mark.parametrize("grouped", [True, False])
def test_recognised_models_are_exact_with_one_evaluation(data, kind, grouped):
    model, function = fitted(kind, data)
    groups = data.groups if grouped else None
    columns = data.columns if grouped else [[c] for c in range(7)]
    explanation = cs.explain(model, data.x, data.background, groups=groups, budget=10, rng=0)
    game = marginal_game(function(model), data.x, data.background, columns)
    expected = shapley_by_definition(game, len(columns))
    assert_allclose(explanation.values[0].reshape(expected.shape), expected, atol=1e-9)
    assert explanation.status[0] == "exact"
    assert explanation.n_evaluations[0] == 1
    assert (explanation.standard_errors == 0).all()
    total = explanation.values.sum(axis=1) + explanation.base_values
    assert_allclose(total, function(model)(data.x[None]), atol=1e-9)


def test_many_players_are_no_obstacle():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 60))
    model = LogisticRegression().fit(X, X[:, 0] - X[:, 1] > 0)
    exact = cs.explain(model, X[:1], X[:50], rng=0)
    sampled = cs.explain(lambda rows: model.predict_proba(rows)[:, 1], X[:1], X[:50], budget=20_000, rng=0)
    assert exact.status[0] == "exact"
    z = (sampled.values - exact.values) / sampled.standard_errors
    assert np.abs(z).max() < 5.5  # t quantile at a family-wise level of 1e-4 over 60 values and some 50 dof


def fitted_trees(kind):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(120, 7)), 2)
    y = X[:, 0] * X[:, 1] + np.abs(X[:, 2]) - X[:, 4]
    label = (y > 0).astype(int)
    small = {"n_estimators": 12, "random_state": 0}
    models = {
        "forest classifier": lambda: RandomForestClassifier(**small).fit(X, label),
        "forest, three classes": lambda: RandomForestClassifier(**small).fit(X, label + (y > 1)),
        "forest regressor": lambda: RandomForestRegressor(max_depth=5, **small).fit(X, y),
        "gradient boosting": lambda: GradientBoostingRegressor(**small).fit(X, y),
        "histogram boosting": lambda: HistGradientBoostingRegressor(max_iter=12, random_state=0).fit(X, y),
        "lightgbm": lambda: lightgbm.LGBMRegressor(verbose=-1, **small).fit(X, y),
        "xgboost": lambda: xgboost.XGBRegressor(**small).fit(X, y),
        "margin": lambda: GradientBoostingClassifier(**small).fit(X, label).decision_function,
    }
    return models[kind]()


KINDS = [
    "forest classifier", "forest, three classes", "forest regressor", "gradient boosting", "histogram boosting",
    "lightgbm", "xgboost", "margin",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grouped", [True, False])
def test_tree_ensembles_are_exact_with_one_evaluation(data, kind, grouped):
    model = fitted_trees(kind)
    function = as_model(model).predict
    groups = data.groups if grouped else None
    columns = data.columns if grouped else [[c] for c in range(7)]
    background, x = np.round(data.background, 2), np.round(data.x, 2)
    explanation = cs.explain(model, x, background, groups=groups, budget=10, rng=0)
    expected = shapley_by_definition(marginal_game(function, x, background, columns), len(columns))
    single = kind in ("xgboost",)  # predicts in single precision
    assert_allclose(explanation.values[0].reshape(expected.shape), expected, atol=1e-5 if single else 1e-8)
    assert explanation.status[0] == "exact"
    assert explanation.method[0] == "tree form"
    assert explanation.n_evaluations[0] == 1
    total = explanation.values.sum(axis=1) + explanation.base_values
    assert_allclose(total, np.asarray(function(x[None])).reshape(total.shape), atol=1e-9)


@pytest.mark.parametrize("n_trees", [200, 600])
def test_single_precision_costs_no_row_its_exact_values(n_trees):
    # Rounding is about 1e-7 of the leaves that were added: of a prediction near 0 it may be any part.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = (X[:, 0] * X[:, 1] > 0.5).astype(float)
    model = xgboost.XGBRegressor(n_estimators=n_trees, max_depth=4, n_jobs=1).fit(X, y)
    near_zero = X[np.argsort(np.abs(model.predict(X)))[:20]]
    form = recognise(model)
    gaps = np.abs(form.predict(near_zero) - model.predict(near_zero)) / np.abs(model.predict(near_zero))
    assert gaps.max() > form.tolerance  # judged by themselves, such rows would be refused
    explanation = cs.Explainer(model, X[:50])(near_zero, rng=0)
    assert (explanation.status == "exact").all()
    # negative control: a row that the form does not predict is refused, by the scale of the others
    others = model.predict(X)[:, None]
    wrong = model.predict(near_zero)[:, None] + 1e-4 * np.abs(others).max()
    assert agrees(form, near_zero, model.predict(near_zero)[:, None], others).all()
    assert not agrees(form, near_zero, wrong, others).any()


def test_a_forest_too_large_for_its_background_is_sampled(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 4))
    forest = RandomForestRegressor(n_estimators=5, random_state=0).fit(X, X[:, 0] * X[:, 1])
    leaves = sum(tree.get_n_leaves() for tree in forest.estimators_)
    module = sys.modules["controlshap.functions.recognise"]  # the package has a function of this name
    monkeypatch.setattr(module, "MOST_STEPS", leaves * len(X))
    assert cs.Explainer(forest, X)(X[:1], budget=200, rng=0).method[0] == "tree form"
    monkeypatch.setattr(module, "MOST_STEPS", leaves * len(X) - 1)
    with pytest.warns(cs.NotExactWarning, match="max_background"):
        sampled = cs.Explainer(forest, X)(X[:1], budget=200, rng=0)
    assert "form" not in sampled.method[0]
    assert sampled.n_evaluations[0] > 1


def test_what_is_not_quite_the_form_is_sampled(data):
    X, y = load_iris(return_X_y=True)
    assert recognise(LogisticRegression(max_iter=500).fit(X, y)) is None  # a softmax is no product
    assert recognise(lambda rows: rows[:, 0]) is None
    assert recognise(LogisticRegression()) is None  # not fitted
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 7))
    posing = LogisticRegression().fit(Z, Z[:, 0] > 0)
    plain = posing.predict_proba
    posing.predict_proba = lambda rows: plain(rows) ** 2  # what somebody did to it
    with pytest.warns(cs.NotExactWarning, match="on the background"):
        explanation = cs.explain(posing, data.x, data.background, budget=400, rng=0)
    assert explanation.status[0] == "budget reached"
    seen = []
    counting = LogisticRegression(C=1e12, max_iter=10_000).fit(Z * 1e3, Z[:, 0] > 0)
    uncounted = counting.predict_proba
    counting.predict_proba = lambda rows: seen.append(len(rows)) or uncounted(rows)
    assert recognise(counting) is not None
    explainer = cs.Explainer(counting, 1e3 * data.background)
    with pytest.warns(cs.NotExactWarning, match="within reach"):
        wide = explainer(1e3 * data.x, budget=400, rng=0)
    assert wide.status[0] == "budget reached"  # scores beyond the reach of the quadrature
    assert sum(seen) == wide.n_evaluations[0] + explainer.n_background_evaluations  # f(x) is asked for once


@pytest.mark.parametrize("settings", [{"estimator": "permutation"}, {"control": "none"}])
def test_only_auto_looks_for_a_form(data, settings):
    model, _ = fitted("linear", data)
    explanation = cs.explain(model, data.x, data.background, budget=400, rng=0, **settings)
    assert "form" not in explanation.method[0]


def conditioned_game(coef, intercept, x, mean, covariance, columns, link):
    """v(S) = E link(intercept + coef . X) given x_S under a Gaussian, by Gauss-Hermite quadrature of the score."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)

    def v(coalition):
        revealed = [column for player in coalition for column in columns[player]]
        matrix = conditional_map(covariance, revealed)
        centre = intercept + coef @ (mean + matrix @ (x - mean))
        sd = np.sqrt(np.maximum(np.einsum("oc,cd,od->o", coef, covariance - matrix @ covariance, coef), 0.0))
        return link(centre[:, None] + sd[:, None] * nodes) @ weights / np.sqrt(2 * np.pi)

    return v


@pytest.mark.parametrize("kind", ["linear", "several outputs", "logistic"])
@pytest.mark.parametrize("groups", [None, [[0, 3], [1, 5]]])
def test_linear_scores_of_correlated_features_are_exact(kind, groups):
    rng = np.random.default_rng(7)
    mixing = rng.normal(size=(6, 6))
    X = rng.normal(size=(80, 6)) @ mixing
    if kind == "logistic":
        model, link = LogisticRegression().fit(X, X[:, 0] + rng.normal(size=80) > 0), expit
        coef, intercept = model.coef_, model.intercept_
    else:
        targets = X[:, :2] if kind == "several outputs" else X[:, 0] - X[:, 2]
        model, link = LinearRegression().fit(X, targets + rng.normal(size=targets.shape)), lambda scores: scores
        coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    explainer = cs.Explainer(model, X, features="correlated", groups=groups)
    explanation = explainer(X[:2] + 0.1, budget=50, rng=0)
    assert (explanation.status == "exact").all()
    assert (explanation.n_evaluations == 1).all()
    assert explainer.n_background_evaluations == 1
    moments = explainer.assembly.imputer.moments
    columns = explainer.players.columns
    for row, x in enumerate(X[:2] + 0.1):
        game = conditioned_game(coef, intercept, x, moments.mean, moments.covariance, columns, link)
        expected = shapley_by_definition(game, len(columns))
        # the logistic function is a mixture of normal distribution functions to 1.4e-8
        found = explanation.values[row].reshape(expected.shape)
        assert_allclose(found, expected, atol=1e-7 if kind == "logistic" else 1e-9)
        assert_allclose(np.ravel(explanation.base_values[row]), game(frozenset()), atol=1e-7)


def test_conditioned_forms_end_where_coalitions_are_many_or_columns_are_cut():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(120, 16))
    wide = LinearRegression().fit(X, X[:, 0])
    assert "form" not in cs.Explainer(wide, X, features="correlated")(X[:1], budget=500, rng=0).method[0]
    X[:, 1] = X[:, 1] > 0
    cut = LinearRegression().fit(X[:, :4], X[:, 0])
    others = (cs.GaussianConditional(binary="threshold"), cs.GaussianConditional(draws="background"), "copula")
    for features in others:
        sampled = cs.Explainer(cut, X[:, :4], features=features)(X[:1, :4], budget=500, rng=0)
        assert "form" not in sampled.method[0]
