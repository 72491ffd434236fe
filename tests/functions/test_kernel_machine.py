"""Kernel machines, models behind scalers and averages of models: exact, against enumeration."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import (
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, QuantileTransformer, RobustScaler, StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

import controlshap as cs
from controlshap.functions import kernel_machine
from controlshap.functions.recognise import evaluations_to_recognise, recognise
from controlshap.models.model import as_model
from controlshap.testing import marginal_game, shapley_by_definition

RNG = np.random.default_rng(0)
TRAIN = RNG.normal(size=(90, 7))
SCORE = TRAIN[:, 0] * TRAIN[:, 1] + np.sin(TRAIN[:, 2]) - TRAIN[:, 4]
LABEL = (SCORE > 0).astype(int)
ARD = ConstantKernel(2.0) * RBF([1.0, 2.0, 1.5, 3.0, 2.0, 4.0, 2.5]) + ConstantKernel(0.5) + WhiteKernel(0.1)
FEW = {"n_estimators": 5, "random_state": 0}

KERNEL_MACHINES = {
    "SVR": lambda: SVR().fit(TRAIN, SCORE),
    "NuSVR": lambda: NuSVR(gamma=0.2).fit(TRAIN, SCORE),
    "SVC": lambda: SVC().fit(TRAIN, LABEL),
    "SVC with probabilities": lambda: NuSVC().fit(TRAIN, LABEL).decision_function,
    "OneClassSVM": lambda: OneClassSVM(gamma="auto").fit(TRAIN).decision_function,
    "KernelRidge": lambda: KernelRidge(kernel="rbf", gamma=0.1).fit(TRAIN, SCORE),
    "KernelRidge, two outputs": lambda: KernelRidge(kernel="laplacian").fit(TRAIN, np.c_[SCORE, TRAIN[:, 3] ** 2]),
    "GaussianProcess": lambda: GaussianProcessRegressor(RBF(2.0), alpha=0.1, optimizer=None).fit(TRAIN, SCORE),
    "GaussianProcess, ARD": lambda: GaussianProcessRegressor(ARD, optimizer=None, normalize_y=True).fit(TRAIN, SCORE),
}
COMPOSED = {
    "scaled SVR": lambda: make_pipeline(StandardScaler(), SVR()).fit(TRAIN, SCORE),
    "scaled forest": lambda: make_pipeline(RobustScaler(), RandomForestRegressor(**FEW)).fit(TRAIN, SCORE),
    "two transformers": lambda: make_pipeline(
        PowerTransformer(), "passthrough", QuantileTransformer(n_quantiles=20), LinearRegression()
    ).fit(TRAIN, SCORE),
    "scaled margin": lambda: make_pipeline(StandardScaler(), SVC()).fit(TRAIN, LABEL),
    "voting": lambda: VotingRegressor(
        [("trees", GradientBoostingRegressor(**FEW)), ("gone", "drop"), ("svm", make_pipeline(RobustScaler(), SVR()))],
        weights=[2.0, 5.0, 1.0],
    ).fit(TRAIN, SCORE),
    "soft votes": lambda: VotingClassifier(
        [("forest", RandomForestClassifier(**FEW)), ("logistic", LogisticRegression())], voting="soft"
    ).fit(TRAIN, LABEL),
    "stacking": lambda: StackingRegressor(
        [("forest", RandomForestRegressor(**FEW)), ("svm", SVR())], LinearRegression(), cv=2
    ).fit(TRAIN, SCORE),
    "margin of stacking": lambda: StackingClassifier(
        [("forest", RandomForestClassifier(**FEW)), ("svm", SVC())], LogisticRegression(), cv=2
    ).fit(TRAIN, LABEL).decision_function,
}  # fmt: skip


@pytest.mark.parametrize("kind", [*KERNEL_MACHINES, *COMPOSED])
@pytest.mark.parametrize("grouped", [True, False])
def test_values_are_those_of_the_definition(data, kind, grouped, monkeypatch):
    model = (KERNEL_MACHINES | COMPOSED)[kind]()
    monkeypatch.setattr(kernel_machine, "BATCH", 5000)  # several batches of draws
    groups = data.groups if grouped else None
    columns = data.columns if grouped else [[c] for c in range(7)]
    background = data.background[:9]
    explainer = cs.Explainer(model, background, groups=groups)
    explanation = explainer(data.x, budget=10, rng=0)
    expected = shapley_by_definition(
        marginal_game(as_model(model).predict, data.x, background, columns), len(columns)
    )  # fmt: skip
    assert_allclose(explanation.values[0].reshape(expected.shape), expected, atol=1e-9)
    assert explanation.status[0] == "exact"
    assert explanation.method[0].endswith("form")
    assert explainer.n_background_evaluations == 9 + evaluations_to_recognise(model)


def test_factors_that_vanish_are_no_obstacle():
    # gamma this large makes every factor of a row far from all centres 0, or too small for a number
    model = SVR(gamma=30.0).fit(TRAIN, SCORE)
    far = TRAIN[0].copy()
    far[:2] = 40.0
    expected = shapley_by_definition(marginal_game(model.predict, far, TRAIN[:5], [[c] for c in range(7)]), 7)
    explanation = cs.explain(model, far, TRAIN[:5], rng=0)
    assert explanation.status[0] == "exact"
    assert_allclose(explanation.values[0], expected[:, 0], atol=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SVR(kernel="poly").fit(TRAIN, SCORE),
        lambda: SVC(probability=True).fit(TRAIN, LABEL),  # a logistic function of the margin
        lambda: SVC().fit(TRAIN, LABEL + (SCORE > 1)),  # votes between pairs of classes
        lambda: OneClassSVM().fit(TRAIN),  # its labels
        lambda: KernelRidge(kernel="linear").fit(TRAIN, SCORE),
        lambda: GaussianProcessRegressor(Matern()).fit(TRAIN, SCORE),
        lambda: GaussianProcessRegressor(RBF() + Matern()).fit(TRAIN, SCORE),
        lambda: GaussianProcessRegressor(),
        lambda: VotingClassifier([("a", RandomForestClassifier(**FEW))], voting="hard").fit(TRAIN, LABEL),
        lambda: VotingRegressor([("a", SVR()), ("b", SVR(kernel="poly"))]).fit(TRAIN, SCORE),
        lambda: StackingRegressor([("a", SVR())], LinearRegression(), passthrough=True).fit(TRAIN, SCORE),
        lambda: StackingRegressor([("a", SVR())], RandomForestRegressor(**FEW)).fit(TRAIN, SCORE),
    ],
)
@pytest.mark.filterwarnings("ignore:The .?probability:FutureWarning")
def test_what_is_no_sum_of_products_is_not_recognised(make):
    assert recognise(make()) is None
