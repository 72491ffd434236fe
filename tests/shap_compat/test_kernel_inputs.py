"""What `KernelExplainer` takes, and what its model is shown: frames, names, groups, an index."""

import warnings

import numpy as np
import pandas as pd
import polars
import pytest
import shap
from numpy.testing import assert_allclose
from shap_cases import BACKGROUND, FRAME, MARKS, NAMES, X, categorical_frame, column, names_of, probability
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import controlshap as cs
from controlshap.shap_compat.explainer import KernelExplainer

pytestmark = MARKS


def test_functions_get_arrays_and_models_fitted_on_names_get_frames():
    seen = []

    def model(rows):
        seen.append(type(rows))
        return probability(np.asarray(rows))

    for link in ("identity", "logit"):
        KernelExplainer(model, FRAME, link=link).shap_values(X[:1])
    assert set(seen) == {np.ndarray}
    fitted = LogisticRegression().fit(pd.DataFrame(X, columns=NAMES), X[:, 0] > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for link in ("identity", "logit"):
            for form in (fitted, fitted.predict_proba):
                ours = KernelExplainer(form, FRAME, link=link).shap_values(X[:2])
                theirs = shap.KernelExplainer(fitted.predict_proba, FRAME, link=link)
                expected = theirs.shap_values(X[:2], silent=True, l1_reg=False)
                assert_allclose(ours, expected if form is not fitted else expected[..., 1], atol=1e-6)


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_pipelines_of_categories(link):
    frame, rows = categorical_frame(20, 0).drop(columns="score"), categorical_frame(6, 1).drop(columns="score")
    encoder = make_column_transformer((OneHotEncoder(), ["job", "town"]), remainder="passthrough")
    pipeline = make_pipeline(encoder, LogisticRegression()).fit(frame, frame["age"] + (frame["job"] == "clerk") > 0)
    explainer = KernelExplainer(pipeline.predict_proba, frame, link=link)
    values = explainer.shap_values(rows)
    at_rows = pipeline.predict_proba(rows)
    at_rows = at_rows if link == "identity" else np.log(at_rows / (1.0 - at_rows))
    assert values.shape == (6, 4, 2)
    assert_allclose(values.sum(axis=1) + explainer.expected_value, at_rows, atol=1e-9)
    assert explainer(rows).display_data[0, 1] == rows["job"].iloc[0]

    def of_arrays(array):
        return pipeline.predict_proba(pd.DataFrame(array, columns=frame.columns).infer_objects())

    theirs = shap.KernelExplainer(of_arrays, frame, link=link).shap_values(rows, silent=True, l1_reg=False)
    assert_allclose(values, theirs, atol=1e-6)
    assert_allclose(KernelExplainer(of_arrays, frame, link=link).shap_values(rows), theirs, atol=1e-6)


def test_columns_are_matched_by_name_where_shap_goes_by_position():
    swapped = pd.DataFrame(X[:2], columns=NAMES)[NAMES[::-1]]
    for link in ("identity", "logit"):
        expected = KernelExplainer(probability, FRAME, link=link).shap_values(X[:2])
        explainer = KernelExplainer(probability, FRAME, link=link)
        assert_allclose(explainer.shap_values(swapped), expected)
        with pytest.raises(cs.InvalidArgumentError, match="same columns"):
            explainer.shap_values(swapped.rename(columns={"age": "old"}))
    theirs = shap.KernelExplainer(probability, FRAME)
    assert not np.allclose(theirs.shap_values(swapped, silent=True), theirs.shap_values(X[:2], silent=True))


def test_names_come_from_where_shap_takes_them():
    rows = pd.DataFrame(X[:2], columns=NAMES)
    for link in ("identity", "logit"):
        assert names_of(KernelExplainer(probability, FRAME, link=link)(X[:2])) == NAMES
        assert names_of(KernelExplainer(probability, BACKGROUND, link=link)(rows)) == NAMES
        assert names_of(KernelExplainer(probability, BACKGROUND, feature_names=NAMES, link=link)(X[:2])) == NAMES
        assert names_of(KernelExplainer(probability, shap.kmeans(FRAME, 3), link=link)(X[:2])) == NAMES
        assert names_of(KernelExplainer(probability, BACKGROUND, link=link)(X[:2])) == [f"x{i}" for i in range(5)]
    assert names_of(KernelExplainer(probability, FRAME, feature_names=NAMES)(X[:2])) == NAMES
    with pytest.raises(cs.InvalidArgumentError, match="`feature_names` must be those of the frame"):
        KernelExplainer(probability, FRAME, feature_names=list("abcde"))
    with pytest.raises(cs.InvalidArgumentError, match="one name for each of the 5 columns; got 2"):
        KernelExplainer(probability, BACKGROUND, feature_names=["a", "b"])


def test_groups_are_players_also_those_of_shaps_own_object():
    groups = {"first": [0, 1], "rest": [2, 4]}
    dense = shap.utils._legacy.DenseData(BACKGROUND.copy(), ["first", "rest", "x3"], [[0, 1], [2, 4], [3]])
    for link in ("identity", "logit"):
        theirs = shap.KernelExplainer(probability, dense, link=link).shap_values(X[:2], silent=True, l1_reg=False)
        for ours in (
            KernelExplainer(probability, BACKGROUND, link=link, groups=groups),
            KernelExplainer(probability, dense, link=link),
        ):
            assert_allclose(ours.shap_values(X[:2]), theirs, atol=1e-6)
            assert ours.explanation.feature_names == ("first", "rest", "x3")
            assert names_of(ours(X[:2])) == ["first", "rest", "x3"]


def test_the_model_behind_a_method_gives_exact_values():
    forest = RandomForestRegressor(5, max_depth=3, random_state=0).fit(X, probability(X))
    explainer = KernelExplainer(forest.predict, BACKGROUND)
    found = explainer.shap_values(X[:2])
    assert explainer.explanation.method.tolist() == ["tree form", "tree form"]
    theirs = shap.KernelExplainer(forest.predict, BACKGROUND).shap_values(X[:2], silent=True, l1_reg=False)
    assert_allclose(found, theirs, atol=1e-6)


def test_an_index_reaches_the_model_as_in_shap():
    index = pd.Index([7, 3, 5, 9], name="customer")
    frame = pd.DataFrame(BACKGROUND[:4], columns=NAMES, index=index)
    rows = pd.DataFrame(X[:2], columns=NAMES, index=pd.Index([40, 41], name="customer"))

    def model(inputs):
        assert inputs.index.name == "customer"
        return probability(inputs.to_numpy(dtype=float)) + 0.1 * inputs.index.to_numpy()

    ours = KernelExplainer(model, frame, keep_index=True)
    theirs = shap.KernelExplainer(model, frame, keep_index=True)
    assert_allclose(ours.expected_value, theirs.expected_value)
    assert_allclose(ours.shap_values(rows), theirs.shap_values(rows, silent=True, l1_reg=False), atol=1e-6)
    with pytest.raises(cs.InvalidArgumentError, match="needs a pandas frame"):
        KernelExplainer(probability, BACKGROUND, keep_index=True)
    # why: shap sorts the rows, and gives the outputs of sorted rows to the coalitions as they were before
    plain, ordered = (
        shap.KernelExplainer(model, frame, keep_index=True, keep_index_ordered=kind).shap_values(
            rows, silent=True, l1_reg=False
        )
        for kind in (False, True)
    )
    assert not np.allclose(plain, ordered, atol=0.01)
    with pytest.raises(cs.InvalidArgumentError, match="`keep_index_ordered` is not supported"):
        KernelExplainer(model, frame, keep_index=True, keep_index_ordered=True)


def test_types_of_a_frame_are_kept_unless_a_value_does_not_fit():
    frame = pd.DataFrame({"n": [1, 2, 3], "c": pd.Categorical(["a", "b", "a"]), "x": [0.5, 1.5, 2.5]})
    seen = []

    def model(inputs):
        seen.append(tuple(str(kind) for kind in inputs.dtypes))
        return 0.1 + 0.02 * inputs["n"].to_numpy(dtype=float) + 0.01 * (inputs["c"] == "a").to_numpy()

    explainer = KernelExplainer(model, frame, link="logit", keep_index=True)
    explainer.shap_values(frame.iloc[[1]])
    assert set(seen) == {("int64", "category", "float64")}
    seen.clear()
    values = explainer.shap_values(pd.DataFrame({"n": [1.5], "c": ["z"], "x": [0.5]}))
    assert all(kinds[0] in ("int64", "float64") and kinds[1] in ("category", "object", "str") for kinds in seen)
    assert_allclose(values.sum() + explainer.expected_value, np.log(0.13 / 0.87), atol=1e-9)


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_one_row_of_an_only_column_and_other_frames(link):
    explainer = KernelExplainer(column, BACKGROUND, link=link)
    theirs = shap.KernelExplainer(column, BACKGROUND, link=link)
    assert explainer(X[0]).shape == theirs(X[0], silent=True).shape == (5, 1)
    polar = KernelExplainer(probability, polars.DataFrame(BACKGROUND, schema=NAMES), link=link)
    expected = KernelExplainer(probability, BACKGROUND, link=link).shap_values(X[:2])
    assert_allclose(polar.shap_values(polars.DataFrame(X[:2], schema=NAMES)), expected, atol=1e-12)
    with pytest.raises(cs.InvalidArgumentError, match="`data`: column names must be unique"):
        KernelExplainer(probability, pd.DataFrame(BACKGROUND, columns=["a", "b", "a", "c", "d"]), link=link)


def test_what_cannot_be_done_says_so():
    with pytest.raises(cs.InvalidArgumentError, match="two-dimensional"):
        KernelExplainer(probability, BACKGROUND[0])
    with pytest.raises(cs.InvalidArgumentError, match="transposed"):
        KernelExplainer(probability, shap.utils._legacy.DenseData(BACKGROUND.T.copy(), NAMES))
    with pytest.raises(cs.InvalidArgumentError, match="`max_background` has no effect"):
        KernelExplainer(probability, BACKGROUND, link="logit", max_background=10)
    for link in ("identity", "logit"):
        with pytest.raises(cs.InvalidArgumentError, match="`X`"):
            KernelExplainer(probability, BACKGROUND, link=link).shap_values(X[:, :3])
