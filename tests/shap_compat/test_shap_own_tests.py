"""The situations of shap's own tests of KernelExplainer (tests/explainers/test_kernel.py), with our class.

`benchmarks/shap_own_tests.py` runs that file itself, from a clone. Three of its tests need data from the network, whose
place random data of the same shape take here. Left out: `KernelExplainer.not_equal`, a helper inside shap's class;
TensorFlow; and 65,536 hashed columns, which are refused (`test_sparse_and_dense_agree_and_the_conversion_is_told`).
"""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import shap
from numpy.testing import assert_allclose
from shap_cases import MARKS
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC

import controlshap as cs

pytestmark = [
    *MARKS,
    pytest.mark.filterwarnings("ignore::controlshap.ControlShapWarning"),  # nsamples in the constructor, sparse input
    pytest.mark.filterwarnings("ignore:.*probability.*deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:lbfgs failed"),
    pytest.mark.filterwarnings("ignore:.*FigureCanvasAgg is non-interactive:UserWarning"),
]
X_TRAIN, X_TEST, Y_TRAIN, Y_TEST = train_test_split(
    *load_iris(return_X_y=True, as_frame=True), test_size=0.1, random_state=0
)
LOGISTIC = LogisticRegression(max_iter=2000).fit(X_TRAIN, Y_TRAIN)


@pytest.mark.parametrize("n", [4, 10])
def test_a_model_that_says_nothing(n):
    explainer = cs.KernelExplainer(lambda rows: np.zeros(rows.shape[0]), np.ones((2, n)), nsamples=100)
    assert np.abs(explainer.explain(np.ones((1, n)))).sum() < 1e-8


@pytest.mark.parametrize("selection", [{}, {"l1_reg": "rank(3)"}])
def test_the_front_page(selection):
    machine = SVC(kernel="rbf", probability=True, random_state=0).fit(X_TRAIN, Y_TRAIN)
    explainer = cs.KernelExplainer(machine.predict_proba, X_TRAIN[::4], nsamples=100, link="logit", **selection)
    values = explainer.shap_values(X_TEST[:2])
    shap.force_plot(explainer.expected_value[0], values[0, :, 0], X_TEST.iloc[0, :], link="logit")


def test_called_beside_shap_values():
    explainer = cs.KernelExplainer(LOGISTIC.predict_proba, X_TRAIN, nsamples=100, link="logit")
    assert_allclose(explainer(X_TEST).values, explainer.shap_values(X_TEST), atol=1e-12)


@pytest.mark.parametrize("plotted", [False, True])
def test_frames_with_an_index_of_dates(plotted):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.random((10, 3)), columns=list("abc"))
    rows.index = pd.date_range("2018-01-01", periods=10, freq="D", tz="UTC")
    model = LinearRegression().fit(rows, rows @ [1, -2, 3] + rng.normal(0, 0.1, 10))
    explainer = cs.KernelExplainer(model.predict, rows, keep_index=True)
    if plotted:
        shap.plots.scatter(explainer(rows)[:, "a"], show=False)
    else:
        assert_allclose(explainer.shap_values(rows), (rows - rows.mean()) * model.coef_, atol=1e-8)


@pytest.mark.parametrize("background", ["zeros", "medians"])
def test_sparse_rows_of_many_columns(background):
    rows = scipy.sparse.random(400, 123, density=0.1, random_state=0, format="csr")
    model = LinearRegression().fit(rows, np.random.default_rng(0).normal(size=400))
    medians = np.median(rows.toarray(), axis=0) if background == "medians" else np.zeros(123)
    found = cs.KernelExplainer(model.predict, scipy.sparse.csr_matrix(medians[None])).shap_values(rows[:3])
    dense = cs.KernelExplainer(lambda r: model.predict(scipy.sparse.csr_matrix(r)), medians[None])
    assert_allclose(found, dense.shap_values(rows[:3].toarray()), rtol=1e-2, atol=1e-1)


def test_sparse_and_dense_backgrounds_of_many_rows():
    settings = {"nsamples": 100, "link": "logit", "l1_reg": "rank(3)"}
    model = LogisticRegression(max_iter=2000).fit(X_TRAIN.to_numpy(), Y_TRAIN)
    dense = cs.KernelExplainer(model.predict_proba, X_TRAIN.to_numpy(), **settings)
    sparse = cs.KernelExplainer(model.predict_proba, scipy.sparse.csr_matrix(X_TRAIN), **settings)
    expected, rows = dense.shap_values(X_TEST.to_numpy()), scipy.sparse.csr_matrix(X_TEST)
    assert_allclose(sparse.shap_values(rows), expected, rtol=1e-5, atol=1e-5)
    assert_allclose(dense.shap_values(rows), expected, rtol=1e-5, atol=1e-5)


def test_a_linear_function():
    rows = np.random.default_rng(0).normal(size=(200, 3))
    explanation = cs.KernelExplainer(lambda r: r[:, 0] + 2 * r[:, 1], rows)(rows, l1_reg="num_features(2)", silent=True)
    assert_allclose(explanation.values, (rows - rows.mean(axis=0)) * [1, 2, 0], rtol=1e-3, atol=1e-12)


def test_rows_that_are_no_numbers():
    rows = np.array([["A", "0", "0"], ["A", "1", "0"], ["B", "0", "0"], ["B", "1", "0"], ["A", "1", "0"]])
    model = make_pipeline(OneHotEncoder(), LinearRegression()).fit(rows, np.arange(5))
    explainer = cs.KernelExplainer(model.predict, rows, nsamples=100)
    values = explainer.explain(rows[:1])
    assert abs(explainer.expected_value + values.sum(0) - model.predict(rows[:1])[0]) < 1e-4
    assert values[2] == 0


@pytest.mark.parametrize("rows", [X_TEST.iloc[:1], X_TEST])
def test_several_classes(rows):
    explainer = cs.KernelExplainer(LOGISTIC.predict_proba, X_TRAIN[::5])
    found = explainer(rows)
    assert found.shape == (*rows.shape, 3)
    assert_allclose(found.values.sum(1) + found.base_values, LOGISTIC.predict_proba(rows), atol=1e-9)


@pytest.mark.parametrize("nsamples", [3, 5, 10, 100])
def test_log_odds_of_certain_predictions(nsamples):
    rows = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    explainer = cs.KernelExplainer(
        lambda r: np.column_stack([r[:, 0], 1 - r[:, 0]]), rows, nsamples=nsamples, link="logit"
    )
    assert not np.isinf(explainer(rows).values).any()


@pytest.mark.parametrize("kind", [bool, object])
def test_truth_values(kind):
    rng = np.random.default_rng(0)
    rows = rng.choice([True, False], size=(15, 8)).astype(kind)
    model = RandomForestClassifier(random_state=0).fit(rows, rng.choice([True, False], size=15).astype(float))
    found = cs.KernelExplainer(model=model.predict_proba, data=rows, random_state=0)(rows)
    expected = shap.KernelExplainer(model.predict_proba, rows).shap_values(rows[:2], silent=True, l1_reg=False)
    assert_allclose(found.values[:2], expected, atol=1e-6)
