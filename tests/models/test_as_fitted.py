"""Models get what they were fitted on, frames or arrays, and nobody is warned."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import controlshap as cs
from controlshap.models.model import as_fitted, fitted_names

X, Y = load_iris(return_X_y=True, as_frame=True)
KINDS = {"frame": X, "array": X.to_numpy()}
MODELS = {
    "neighbours": KNeighborsClassifier,
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=5),
}


class NeedsNames(ClassifierMixin, BaseEstimator):
    """Keeps the number of columns and not their names, which it needs."""

    def fit(self, X, y):
        self.n_features_in_, self.classes_ = X.shape[1], np.unique(y)
        return self

    def predict_proba(self, X):
        first = np.clip(X["sepal length (cm)"].to_numpy() / 10.0, 0.0, 1.0)
        return np.column_stack([first, 1.0 - first])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("fitted", KINDS)
@pytest.mark.parametrize("given", KINDS)
def test_no_warning_and_the_same_numbers_for_frames_and_arrays(name, fitted, given):
    model, rows = MODELS[name]().fit(KINDS[fitted], Y), KINDS[given]
    same = cs.Explainer(model, KINDS[fitted][::15])(KINDS[fitted][:2], budget=300, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)  # labels of neighbours have saturated log-odds
        values = cs.Explainer(model, rows[::15])(rows[:2], budget=300, rng=0)
        method = cs.Explainer(model.predict_proba, rows[::15])(rows[:2], budget=300, rng=0)
        shap_values = cs.KernelExplainer(model.predict_proba, rows[::15]).shap_values(rows[:2])
        cs.KernelExplainer(model.predict_proba, rows[::15], link="logit").shap_values(rows[:2])
        cs.Explainer(model, rows[::15], output="probability")(rows[:2], budget=300, rng=0)
    assert_array_equal(values.values, same.values)
    assert method.values.shape == shap_values.shape == (2, 4, 3)
    named = "frame" in (fitted, given)
    assert values.column_names == (tuple(X.columns) if named else ("x0", "x1", "x2", "x3"))


def test_names_of_the_model_put_the_columns_of_a_frame_in_order():
    model = KNeighborsClassifier().fit(X, Y)
    explainer = cs.Explainer(model, X.to_numpy()[::15])
    turned = explainer(X[X.columns[::-1]][:2], budget=300, rng=0)
    assert_array_equal(turned.values, explainer(X[:2], budget=300, rng=0).values)


def test_a_class_of_ones_own_that_keeps_no_names_still_gets_frames():
    explanation = cs.Explainer(NeedsNames().fit(X, Y > 0), X[::15])(X[:2], budget=300, rng=0)
    assert explanation.feature_names[np.abs(explanation.values[0]).argmax()] == "sepal length (cm)"


def test_names_that_lightgbm_invents_are_no_names():
    model = KNeighborsClassifier().fit(pd.DataFrame(X.to_numpy(), columns=[f"Column_{i}" for i in range(4)]), Y)
    assert fitted_names(model) is None
    assert cs.Explainer(model, X.to_numpy()[::15]).column_names == ("x0", "x1", "x2", "x3")


def test_the_conversion_can_be_pickled():
    model = KNeighborsClassifier().fit(X, Y)
    again = pickle.loads(pickle.dumps(as_fitted(model.predict, model)))
    assert_array_equal(again(X.to_numpy()[:3]), model.predict(X[:3]))
