"""Margins of classifiers: explained themselves (`output="margin"`), and as the control of a probability."""

import pickle

import lightgbm
import numpy as np
import pytest
import xgboost
from numpy.testing import assert_allclose
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

import controlshap as cs
from controlshap.models.model import as_model
from controlshap.models.predictions import MarginOf
from controlshap.testing import marginal_game, shapley_by_definition

RNG = np.random.default_rng(3)
X = RNG.normal(size=(300, 8))
SCORE = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] * X[:, 4]
LABEL = (SCORE > 0).astype(int)
THREE = LABEL + (SCORE > 1)
FEW = {"n_estimators": 8, "random_state": 0}
COLUMNS = [[c] for c in range(8)]

MARGINS = {
    "lightgbm": lambda: lightgbm.LGBMClassifier(verbose=-1, **FEW).fit(X, LABEL),
    "lightgbm, three classes": lambda: lightgbm.LGBMClassifier(verbose=-1, **FEW).fit(X, THREE),
    "lightgbm booster": lambda: lightgbm.LGBMClassifier(verbose=-1, **FEW).fit(X, LABEL).booster_,
    "xgboost": lambda: xgboost.XGBClassifier(**FEW).fit(X, LABEL),
    "xgboost booster": lambda: xgboost.XGBClassifier(**FEW).fit(X, LABEL).get_booster(),
    "gradient boosting": lambda: GradientBoostingClassifier(**FEW).fit(X, LABEL),
    "histogram boosting": lambda: HistGradientBoostingClassifier(max_iter=8).fit(X, THREE),
    "behind a scaler": lambda: make_pipeline(StandardScaler(), lightgbm.LGBMClassifier(verbose=-1, **FEW)).fit(
        X, LABEL
    ),
    "logistic regression": lambda: LogisticRegression().fit(X, THREE),
    "support vectors": lambda: SVC().fit(X, LABEL),
}


@pytest.mark.parametrize("kind", MARGINS)
def test_margins_are_exact(kind):
    model = MARGINS[kind]()
    margin = as_model(model, "margin")
    chance = as_model(model).predict(X[:20])
    if np.ndim(chance) == 1 and kind != "support vectors":
        assert_allclose(np.log(chance / (1 - chance)), margin.predict(X[:20]), rtol=1e-4, atol=1e-5)
    explainer = cs.Explainer(model, X[:6], output="margin")
    explanation = explainer(X[-1], rng=0)
    expected = shapley_by_definition(marginal_game(margin.predict, X[-1], X[:6], COLUMNS), 8)
    assert explanation.status[0] == "exact"
    assert_allclose(explanation.values[0].reshape(expected.shape), expected, atol=2e-5 if "xgb" in kind else 1e-8)
    assert_allclose(pickle.loads(pickle.dumps(margin)).predict(X[:3]), margin.predict(X[:3]))


def test_a_saved_explainer_keeps_its_output(tmp_path):
    model = MARGINS["gradient boosting"]()
    explainer = cs.Explainer(model, X[:20], output="margin")
    explainer.save(tmp_path / "explainer")
    again = cs.Explainer.load(tmp_path / "explainer", model)
    assert_allclose(again(X[-1], rng=0).values, explainer(X[-1], rng=0).values, rtol=1e-12)


@pytest.mark.parametrize(
    ("model", "output", "message"),
    [
        (DecisionTreeClassifier().fit(X, LABEL), "margin", "decision_function"),
        (lambda rows: rows[:, 0], "margin", "decision_function"),
        (SVC().fit(X, LABEL), "probability", "predict_proba"),
        (LogisticRegression().fit(X, LABEL), "logit", "'auto', 'margin' or 'probability'"),
    ],
)
def test_outputs_that_there_are_not_are_named(model, output, message):
    with pytest.raises(cs.ControlShapError, match=message):
        cs.Explainer(model, X[:10], output=output)


@pytest.mark.parametrize(
    "model", [GradientBoostingClassifier(n_estimators=60, random_state=0), HistGradientBoostingClassifier(max_iter=20)]
)
@pytest.mark.parametrize("label", [LABEL, THREE])
def test_a_known_margin_controls_the_probability(model, label):
    model.fit(X, label)
    predict = as_model(model).predict
    truth = shapley_by_definition(marginal_game(predict, X[-1], X[:30], COLUMNS), 8)
    with_margin = cs.Explainer(model, X[:30])(X[-1], budget=400, rng=0)
    without = cs.Explainer(lambda rows: predict(rows), X[:30], control=cs.LogisticRidge())(X[-1], budget=400, rng=0)
    assert with_margin.method[0] == "Permutation + LogisticRidge + Margin"
    assert "Margin" not in without.method[0]
    # beside the ridge alone at least 1.5 times the evaluations' worth; 2.2 to 3.4 were measured with paired walks
    ratio = (without.standard_errors**2).mean() / (with_margin.standard_errors**2).mean()
    assert ratio > 1.5
    errors = with_margin.standard_errors[0].reshape(truth.shape)
    z = (with_margin.values[0].reshape(truth.shape) - truth) / errors
    assert np.abs(z).max() < 5.5  # a t quantile at 1e-4 over 24 values and some 50 degrees of freedom
    assert np.abs(z + 6.0).max() > 5.5  # negative control: values that are six errors off


def test_what_has_no_margin_of_its_own_has_no_such_control():
    assert MarginOf(SVC().fit(X, LABEL))(X[:2]).shape == (2,)
    linear = cs.Explainer(LogisticRegression().fit(X, THREE), X[:30])(X[-1], budget=1500, rng=0)
    assert "Margin" not in linear.method[0]
    labels = cs.Explainer(OneClassSVM().fit(X), X[:30])(X[-1], budget=1500, rng=0)
    assert "Margin" in labels.method[0].split(" + ")  # labels follow the decision function
    asked = cs.Explainer(MARGINS["gradient boosting"](), X[:30], control="ridge")(X[-1], budget=1500, rng=0)
    assert asked.method[0] == "Permutation + LogisticRidge"
