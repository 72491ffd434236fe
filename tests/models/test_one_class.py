"""`of_class=`: the class whose output is explained."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import controlshap as cs

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
X, Y = X.iloc[:, :6], Y.map({0: "malignant", 1: "benign"})
IRIS, KINDS = load_iris(return_X_y=True, as_frame=True)


def explain(model, data, of_class, **settings):
    return cs.Explainer(model, data[:30], of_class=of_class, **settings)(data[40:43], budget=300, rng=0)


@pytest.mark.parametrize(("model", "output", "exact"), [
    (HistGradientBoostingClassifier(max_iter=10), "margin", True),
    (HistGradientBoostingClassifier(max_iter=10), "auto", False),
    (RandomForestClassifier(10, random_state=0), "auto", True),
    (LogisticRegression(max_iter=9999), "auto", True),
    (LogisticRegression(max_iter=9999), "margin", True),
    (SVC(), "auto", True),
    (KNeighborsClassifier(), "probability", False),
])  # fmt: skip
def test_the_first_of_two_classes_has_the_opposite_values(model, output, exact):
    model.fit(X, Y)
    first, second = (explain(model, X, name, output=output) for name in ("benign", "malignant"))
    usual = explain(model, X, None, output=output)
    assert_array_equal(second.values, usual.values)
    assert first.output_names == ("benign",)
    assert first.output_labels[0].endswith("of class 'benign'")
    assert set(first.status) == set(second.status) == {"exact" if exact else "budget reached"}
    constant = 1.0 if first.settings["quantity"] == "probability" else 0.0
    assert_allclose(first.base_values, constant - second.base_values, rtol=1e-9, atol=1e-9)
    assert_allclose(first.values, -second.values, atol=1e-9 if exact else 0.1)
    predictions = first.base_values + first.values.sum(axis=1)
    if constant:
        assert_allclose(predictions, model.predict_proba(X[40:43])[:, 0], atol=1e-9)


@pytest.mark.parametrize("model", [RandomForestClassifier(10, random_state=0), KNeighborsClassifier()])
def test_one_of_several_classes(model):
    model.fit(IRIS, KINDS)
    whole = explain(model, IRIS, None)
    assert_allclose(explain(model, IRIS, 2).values, whole.output("2").values, atol=1e-9)
    assert_allclose(explain(model.predict_proba, IRIS, "2").values, whole.output("2").values, atol=1e-9)
    one = cs.Explainer(model, IRIS[:30], of_class=2).assembly.model
    assert_array_equal(pickle.loads(pickle.dumps(one)).predict(IRIS[:3]), model.predict_proba(IRIS[:3])[:, 2])


def test_the_class_is_saved_with_an_explainer(tmp_path):
    model = LogisticRegression(max_iter=9999).fit(X, Y)
    explainer = cs.Explainer(model, X[:30], of_class="benign")
    explainer.save(tmp_path / "explainer")
    again = cs.Explainer.load(tmp_path / "explainer", model)
    assert_array_equal(again(X[:2], rng=0).values, explainer(X[:2], rng=0).values)


@pytest.mark.parametrize(("model", "settings", "message"), [
    (KNeighborsClassifier().fit(X, Y), {"of_class": "good"}, r"must be one of \['benign', 'malignant'\]; got 'good'"),
    (KNeighborsClassifier().fit(X, Y), {"output": "benign"}, "For that class, write of_class='benign'"),
    (lambda rows: rows[:, 0], {"of_class": 1}, "needs a classifier that knows its classes"),
    (KNeighborsClassifier().fit(X, Y).predict, {"of_class": "benign"}, "Pass the classifier itself"),
])  # fmt: skip
def test_refused(model, settings, message):
    with pytest.raises(cs.InvalidArgumentError, match=message):
        cs.Explainer(model, X[:30], **settings)


def test_values_of_a_class_by_enumeration():
    """Negative control beside it: the values of the other class are far away."""
    model = RandomForestClassifier(10, random_state=0).fit(IRIS, KINDS)
    rows = IRIS[::5]
    found = cs.Explainer(model, rows, of_class=1)(IRIS[40:41]).values[0]
    exact = cs.Explainer(lambda r: model.predict_proba(r)[:, 1], rows)(IRIS[40:41], budget=10**5).values[0]
    other = cs.Explainer(lambda r: model.predict_proba(r)[:, 2], rows)(IRIS[40:41], budget=10**5).values[0]
    assert_allclose(found, exact, atol=1e-9)
    assert np.abs(found - other).max() > 1e-3
