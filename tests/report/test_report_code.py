"""The code in a report makes its numbers again, or a note says what it lacks."""

import numpy as np
import pytest
from report_cases import explain, model, order_shown

import controlshap as cs
from controlshap.report import settings as reproducing


def test_the_code_reproduces_the_result(visit):
    groups = {"pair": ["x1", "x3"]}
    explanation = explain(2, groups=groups, budget=40_000, tolerance=0.5, stop="top 1", level=0.9)
    page = visit(explanation)
    rng = np.random.default_rng(0)
    names = {"model": model, "background": rng.normal(size=(12, 6)), "X": rng.normal(size=(2, 6))}
    exec(page.text_content("#settings pre"), names)  # the page says that this works
    np.testing.assert_array_equal(names["explanation"].values, explanation.values)
    assert "pair" in order_shown(page)


def sigmoid(rows):
    return 1.0 / (1.0 + np.exp(-model(np.asarray(rows, dtype=float))))


@pytest.mark.parametrize(
    ("settings", "link"),
    [
        ({"control": cs.LogisticRidge(), "estimator": cs.Permutation()}, None),
        ({"control": [cs.LogisticRidge(), cs.Polynomial()], "variance": cs.Bootstrap(50)}, None),
        ({"groups": {"pair": [1, 3]}}, "identity"),
        ({"groups": {"pair": [1, 3]}, "control": cs.LogisticRidge()}, "logit"),
    ],
)
def test_the_code_builds_objects_and_kernel_explainers(settings, link):
    rng = np.random.default_rng(0)
    names = {"model": sigmoid, "background": rng.normal(size=(12, 6)), "X": rng.normal(size=(2, 6))}
    if link is None:
        explanation = cs.explain(sigmoid, names["X"], names["background"], budget=400, rng=3, **settings)
    else:
        explainer = cs.KernelExplainer(sigmoid, names["background"], link=link, rng=3, **settings)
        explainer.shap_values(names["X"], nsamples=28)
        explanation = explainer.explanation
    assert explanation.standard_errors.any()
    exec(reproducing.code(explanation), names)
    np.testing.assert_array_equal(names["explanation"].values, explanation.values)
    assert reproducing.notes(explanation) == []


def test_what_the_code_cannot_write_has_a_note():
    rng = np.random.default_rng(0)
    background, rows = rng.normal(size=(12, 6)), rng.normal(size=(1, 6))
    given = cs.GaussianConditional(mean=np.zeros(6), covariance=np.eye(6))
    found = cs.explain(model, rows, background, features=given, budget=400, rng=0)
    assert "features=features" in reproducing.code(found)
    assert "`features` is the object" in reproducing.notes(found)[0]
    explainer = cs.KernelExplainer(sigmoid, background, link=np.log, keep_index=False)
    explainer.shap_values(rows)
    assert "link=link" in reproducing.code(explainer.explanation)
    assert reproducing.notes(explainer.explanation) == ["`link` is the function that was passed."]
