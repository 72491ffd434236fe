"""Linear models behind a link or none, and means of models: exact, against enumeration; near misses are sampled."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, ExtraTreesRegressor, RandomForestClassifier
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    RidgeClassifier,
    SGDClassifier,
    TweedieRegressor,
)
from sklearn.svm import SVC, LinearSVC, LinearSVR
from sklearn.tree import DecisionTreeRegressor

import controlshap as cs
from controlshap.functions.recognise import recognise
from controlshap.models.model import as_model
from controlshap.testing import marginal_game, shapley_by_definition

RNG = np.random.default_rng(0)
TRAIN = RNG.normal(size=(120, 6))
SCORE = 0.3 * TRAIN[:, 0] - 0.2 * TRAIN[:, 1] + 0.1 * RNG.normal(size=120)
COUNT = RNG.poisson(np.exp(SCORE))
LABEL = (SCORE > 0).astype(int)
THREE = LABEL + (SCORE > 0.3)
SIZE = np.exp(SCORE)
FEW = {"n_estimators": 4, "random_state": 0}


def back_from(there, back):
    """A linear regression of a transformed target."""
    return TransformedTargetRegressor(LinearRegression(), func=there, inverse_func=back)


EXACT = {
    "LinearSVR": lambda: LinearSVR(random_state=0, max_iter=10_000).fit(TRAIN, SCORE),
    "HuberRegressor": lambda: HuberRegressor().fit(TRAIN, SCORE),
    "QuantileRegressor": lambda: QuantileRegressor(alpha=0.01).fit(TRAIN, SCORE),
    "LinearSVC": lambda: LinearSVC(random_state=0, max_iter=10_000).fit(TRAIN, LABEL),
    "LinearSVC of three classes": lambda: LinearSVC(random_state=0).fit(TRAIN, THREE),
    "RidgeClassifier": lambda: RidgeClassifier().fit(TRAIN, LABEL),
    "SGDClassifier, hinge": lambda: SGDClassifier(random_state=0).fit(TRAIN, LABEL),
    "SGDClassifier, log loss": lambda: SGDClassifier("log_loss", random_state=0).fit(TRAIN, LABEL),
    "discriminant analysis": lambda: LinearDiscriminantAnalysis().fit(TRAIN, LABEL),
    "PoissonRegressor": lambda: PoissonRegressor().fit(TRAIN, COUNT),
    "GammaRegressor": lambda: GammaRegressor().fit(TRAIN, SIZE),
    "TweedieRegressor, log": lambda: TweedieRegressor(power=1.5).fit(TRAIN, COUNT),
    "TweedieRegressor, identity": lambda: TweedieRegressor(power=0).fit(TRAIN, COUNT),
    "exp of a target": lambda: back_from(np.log, np.exp).fit(TRAIN, SIZE),
    "expm1 of a target": lambda: back_from(np.log1p, np.expm1).fit(TRAIN, SIZE),
    "calibrated LinearSVC": lambda: CalibratedClassifierCV(LinearSVC(random_state=0), cv=3).fit(TRAIN, LABEL),
    "bagged trees": lambda: BaggingRegressor(DecisionTreeRegressor(max_depth=3), **FEW).fit(TRAIN, SCORE),
    "bagged logistic": lambda: BaggingClassifier(LogisticRegression(), **FEW).fit(TRAIN, LABEL),
    "forest of two targets": lambda: ExtraTreesRegressor(max_depth=3, **FEW).fit(TRAIN, np.c_[SCORE, TRAIN[:, 2]]),
}  # fmt: skip


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("groups", [None, {"a": [0, 1], "b": [2], "c": [3, 4, 5]}])
def test_values_are_those_of_the_definition(kind, groups):
    model = EXACT[kind]()
    columns = [[c] for c in range(6)] if groups is None else list(groups.values())
    x, background = TRAIN[0], TRAIN[1:12]
    explanation = cs.explain(model, x, background, groups=groups, rng=0)
    game = marginal_game(as_model(model).predict, x, background, columns)
    expected = shapley_by_definition(game, len(columns))
    assert_allclose(explanation.values[0].reshape(expected.shape), expected, atol=1e-8)
    assert explanation.status[0] == "exact"
    assert explanation.method[0].endswith("form")


def test_exponentials_know_their_interactions_and_correlated_features():
    model = EXACT["PoissonRegressor"]()
    explainer = cs.Explainer(model, TRAIN[1:12])
    pairs = explainer(TRAIN[0], interactions=2, rng=0).interactions
    sampled = cs.Explainer(model.predict, TRAIN[1:12])(TRAIN[0], interactions=2, rng=0, budget=64 * 11).interactions
    assert_allclose(pairs.index, sampled.index, atol=1e-8)  # enumerated: 2^6 coalitions of 11 rows

    explanation = cs.Explainer(model, TRAIN, features="correlated")(TRAIN[0], rng=0)
    assert explanation.status[0] == "exact"
    walks = cs.Explainer(model.predict, TRAIN, features="correlated")
    sampled = walks(TRAIN[0], budget=20_000, rng=1)
    # 6 players: a z of 4.5 has a chance of 4e-5 in all
    z = (explanation.values - sampled.values) / np.maximum(sampled.standard_errors, 1e-12)
    assert np.abs(z).max() < 4.5


def test_exponentials_that_might_overflow_are_sampled():
    model = PoissonRegressor().fit(TRAIN, COUNT)
    model.coef_ = np.array([50.0, -50.0, 0.0, 0.0, 0.0, 0.0])
    x, background = np.array([4.0, 4.01, 0.0, 0.0, 0.0, 0.0]), TRAIN[1:5] * [0.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    with pytest.warns(cs.NotExactWarning):
        explanation = cs.explain(model, x, background, rng=0)
    assert np.isfinite(explanation.values).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinearDiscriminantAnalysis().fit(TRAIN, THREE),  # a softmax
        lambda: SGDClassifier("log_loss", random_state=0).fit(TRAIN, THREE),  # one class against the rest
        lambda: SGDClassifier("modified_huber", random_state=0).fit(TRAIN, LABEL),  # a clipped line
        lambda: CalibratedClassifierCV(LinearSVC(random_state=0), cv=3, method="isotonic").fit(TRAIN, LABEL),
        lambda: CalibratedClassifierCV(RandomForestClassifier(**FEW), cv=3).fit(TRAIN, LABEL),
        lambda: CalibratedClassifierCV(LinearSVC(random_state=0), cv=3).fit(TRAIN, THREE),
        lambda: BaggingRegressor(DecisionTreeRegressor(), max_features=0.5, **FEW).fit(TRAIN, SCORE),
        lambda: BaggingClassifier(SVC(), **FEW).fit(TRAIN, LABEL),  # votes
        lambda: back_from(np.sqrt, np.square).fit(TRAIN, SIZE),
        lambda: TransformedTargetRegressor(
            DecisionTreeRegressor(), func=np.log, inverse_func=np.exp
        ).fit(TRAIN, SIZE),
    ],
)  # fmt: skip
def test_what_is_not_linear_behind_its_link_is_not_recognised(make):
    assert recognise(make()) is None
