"""Frames with categories, truth values and gaps: values, controls, saving."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from frame_cases import cell, enumerated, make_frame, make_pipeline_model, make_target, repeated, with_column
from lightgbm import LGBMRegressor
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from xgboost import XGBRegressor

import controlshap as cs
from controlshap.data.categories import Category, make_category
from controlshap.engine.rows import describe_call, explain_rows
from controlshap.limits import Limits


@pytest.fixture(scope="module")
def frame():
    return make_frame()


@pytest.fixture(scope="module")
def pipeline(frame):
    return make_pipeline_model(frame, MLPClassifier((8,), max_iter=300, random_state=0))


@pytest.mark.parametrize("grouped", [False, True])
def test_a_pipeline_is_explained_in_its_raw_columns(frame, pipeline, grouped):
    background, X = frame.iloc[:12], frame.iloc[50:53]
    groups = {"person": ["age", "job"]} if grouped else None
    players = [["age", "job"], ["income"], ["size"], ["member"]] if grouped else [[c] for c in frame.columns]
    found = cs.explain(pipeline, X, background, groups=groups, budget=2000, rng=0)
    assert found.status.tolist() == ["exact"] * 3
    assert found.feature_names == (("person", "income", "size", "member") if grouped else tuple(frame.columns))
    for row in range(3):
        expected = enumerated(lambda f: pipeline.predict_proba(f)[:, 1], X.iloc[[row]], background, players)
        np.testing.assert_allclose(found.values[row], expected, atol=1e-12)


def test_several_outputs(frame):
    target = np.digitize(make_target(frame), [0.0, 0.6])
    encoder = ColumnTransformer(
        [("level", OneHotEncoder(handle_unknown="ignore"), ["job", "size"])], remainder=SimpleImputer()
    )
    model = make_pipeline(encoder, RandomForestClassifier(5, random_state=0)).fit(frame, target)
    found = cs.explain(model, frame.iloc[[60]], frame.iloc[:8], budget=2000, rng=0)
    expected = enumerated(model.predict_proba, frame.iloc[[60]], frame.iloc[:8], [[c] for c in frame.columns])
    np.testing.assert_allclose(found.values[0], expected, atol=1e-12)
    assert found.values.shape == (1, 5, 3)


def test_sampled_values_hold_within_their_errors_and_a_control_is_fitted(frame, pipeline):
    background, X = frame.iloc[:60], frame.iloc[100:104]
    expected = np.array(
        [
            enumerated(lambda f: pipeline.predict_proba(f)[:, 1], X.iloc[[r]], background, [[c] for c in frame.columns])
            for r in range(4)
        ]
    )
    found = cs.explain(pipeline, X, background, estimator="permutation", control="ridge", budget=1500, rng=0)
    z = (found.values - expected) / found.standard_errors
    assert np.abs(z).max() < 4.5  # 20 values, t with some 50 degrees of freedom: 1 - 1e-3 together
    assert (found.standard_errors > 0).all()
    assert np.median(found.gain) > 1.5
    # negative control: encoding the other way round is found out
    assert np.abs((found.values[:, ::-1] - expected) / found.standard_errors).max() > 10


def test_data_is_what_people_know(frame, pipeline):
    X = frame.iloc[[3, 4]].copy()
    X.loc[X.index[0], "job"] = "pilot"
    found = cs.explain(pipeline, X, frame.iloc[:10], budget=2000, rng=0, groups={"who": ["age", "job"]})
    assert found.data[0].tolist()[2:] == ["pilot", str(X["size"].iloc[0]), bool(X["member"].iloc[0])]
    assert found.data[0, 0] == X["age"].iloc[0]
    assert found.player_data()[0, 0] == f"{X['age'].iloc[0]}, pilot"
    tidy = found.to_frame()
    assert tidy["feature_value"].tolist()[2] == X["size"].iloc[0]


def test_levels_that_the_background_does_not_hold(frame, pipeline):
    background = frame.iloc[:10].assign(job="clerk")
    X = frame.iloc[50:53].assign(job=["nurse", "astronaut", "pilot"])
    found = cs.explain(pipeline, X, background, budget=2000, rng=0)
    for row in range(3):
        expected = enumerated(
            lambda f: pipeline.predict_proba(f)[:, 1], X.iloc[[row]], background, [[c] for c in frame.columns]
        )
        np.testing.assert_allclose(found.values[row], expected, atol=1e-12)
    # one at a time, in another order, with the same explainer: nothing depends on what was met before
    explainer = cs.Explainer(pipeline, background, estimator="permutation")
    alone = [explain_rows(explainer._assembly, X.iloc[[r]], r, *_limits(explainer)).values[0] for r in (2, 1, 0)]
    together = explainer(X, budget=400, rng=0).values
    np.testing.assert_array_equal(np.array(alone)[::-1], together)


def _limits(explainer):
    limits = Limits(budget=400)
    stopping = limits.stopping(explainer.players.n_players)
    return stopping, 0, describe_call(explainer._assembly, limits, stopping)


def test_more_levels_than_have_indicators():
    rng = np.random.default_rng(0)
    names = np.array([f"town {i}" for i in range(60)])
    worth = dict(zip(names, rng.normal(size=60), strict=True)) | {"elsewhere": 5.0}
    frame = pd.DataFrame({"town": rng.choice(names, 300), "a": rng.normal(size=300), "b": rng.normal(size=300)})
    assert frame["town"].nunique() > 32

    def model(rows):
        return rows["town"].map(worth).to_numpy(dtype=float) * rows["a"].to_numpy() + rows["b"].to_numpy() ** 2

    X = frame.iloc[[5, 6]].assign(town=["elsewhere", frame["town"].iloc[6]])
    found = cs.explain(model, X, frame.iloc[100:], budget=5000, rng=0)
    expected = np.array(
        [
            enumerated(model, X.iloc[[r]], frame.iloc[100:], [[0], [1], [2]][:0] or [["town"], ["a"], ["b"]])
            for r in (0, 1)
        ]
    )
    np.testing.assert_allclose(found.values, expected, atol=1e-10)


def test_gaps_in_numbers_do_not_cost_the_control():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 6))
    rows[rng.random(rows.shape) < 0.1] = np.nan

    def model(inputs):
        filled = np.where(np.isnan(inputs), 0.7, inputs)
        return np.tanh(filled.sum(axis=1)) + 0.2 * np.isnan(inputs[:, 0])

    explainer = cs.Explainer(model, rows[:40], estimator="permutation")
    found = explainer(rows[70:75], budget=2000, rng=0)
    assert (np.char.find(found.controls, "Ridge") >= 0).all()
    exact = cs.explain(model, rows[70:75], rows[:40], budget=10**4, rng=0)
    assert set(exact.status) == {"exact"}
    assert np.abs((found.values - exact.values) / found.standard_errors).max() < 5
    assert np.median(found.gain) > 3
    np.testing.assert_array_equal(found.data, rows[70:75])


def test_trees_that_know_gaps_stay_exact():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(150, 12))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    model = HistGradientBoostingRegressor(max_iter=20).fit(rows, np.nansum(rows[:, :3], axis=1))
    found = cs.explain(model, rows[:2], rows[50:], budget=300, rng=0)
    assert found.status.tolist() == ["exact", "exact"]
    assert found.n_evaluations.tolist() == [1, 1]


def test_correlated_categories_keep_their_frequencies_and_the_sum(frame, pipeline):
    full = make_frame(gaps=False)
    model = make_pipeline_model(full, MLPClassifier((8,), max_iter=300, random_state=0))
    explainer = cs.Explainer(model, full.iloc[:150], features="correlated")
    X = full.iloc[150:153]
    found = explainer(X, budget=3000, rng=0)
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, model.predict_proba(X)[:, 1], atol=1e-9)
    draws = explainer._assembly.encoding(explainer._assembly.imputer.sample(4000, np.random.default_rng(0)))
    share = full["member"].iloc[:150].mean()
    # two levels: exactly the background's frequency; three: near it, since cuts are set one by one
    assert abs(draws["member"].mean() - share) < 4.4 * np.sqrt(share * (1 - share) / 4000)
    shares = full["size"].iloc[:150].value_counts(normalize=True)
    assert np.abs(draws["size"].value_counts(normalize=True) - shares)[shares > 0].max() < 0.06
    # dependence is kept: older people are members more often
    assert draws["age"][draws["member"]].mean() > draws["age"][~draws["member"]].mean() + 3


def test_correlated_features_say_what_they_need(frame, pipeline):
    full = make_frame(gaps=False)
    explainer = cs.Explainer(pipeline, full.iloc[:50].assign(job="clerk"), features="correlated")
    with pytest.raises(
        cs.InvalidArgumentError, match=r"`X`: the column 'job' holds \['nurse'\].*Add some, or use feat"
    ):
        explainer(full.iloc[60:61].assign(job="nurse"), budget=300)
    with pytest.raises(cs.InvalidArgumentError, match=r"`background` holds NaN.*\['income'\].*Impute"):
        cs.Explainer(pipeline, frame, features="correlated")
    many = full.assign(job=[f"job {i}" for i in range(len(full))])
    with pytest.raises(cs.InvalidArgumentError, match=r"'job' has 200 levels.*at most 32.*Merge rare levels"):
        cs.Explainer(pipeline, many, features="correlated")


@pytest.mark.seconds
def test_saving_refining_and_workers(frame, pipeline, tmp_path):
    background, X = frame.iloc[:40], frame.iloc[60:63]
    explainer = cs.Explainer(pipeline, background, estimator="permutation")
    found = explainer(X, budget=300, rng=0)
    again = cs.load(found.save(tmp_path / "result"))
    assert again.data.tolist()[1][2:] == found.data.tolist()[1][2:]
    assert again.player_data().shape == found.player_data().shape
    loaded = cs.Explainer.load(explainer.save(tmp_path / "explainer"), pipeline)
    np.testing.assert_array_equal(loaded(X, budget=300, rng=0).values, found.values)
    np.testing.assert_array_equal(explainer(X, budget=300, rng=0, n_jobs=2).values, found.values)
    # units are cheaper where a row agrees with the background in a level, so that rows have spent different amounts
    longer = [explainer(X, budget=int(spent) + 300, rng=0).values[row] for row, spent in enumerate(found.n_evaluations)]
    for refined in (explainer.refine(found, budget=300), loaded.refine(again, budget=300)):
        np.testing.assert_allclose(refined.values, longer, atol=1e-6)


def test_other_forms_of_the_same_rows(frame, pipeline):
    background = frame.iloc[:10]
    explainer = cs.Explainer(pipeline, background)
    found = explainer(frame.iloc[[50]], budget=2000, rng=0).values
    for form in (
        frame.iloc[50],
        frame.iloc[[50]][["member", "size", "job", "income", "age"]],
        frame.iloc[[50]].to_numpy(dtype=object),
        frame.iloc[[50]].to_numpy(dtype=object).tolist(),
        pa.Table.from_pandas(frame.iloc[[50]], preserve_index=False),
    ):
        np.testing.assert_array_equal(explainer(form, budget=2000, rng=0).values, found)


def test_arrays_of_objects_are_frames_without_names():
    rng = np.random.default_rng(0)
    rows = np.empty((30, 3), dtype=object)
    rows[:, 0], rows[:, 1], rows[:, 2] = rng.normal(size=30), rng.choice(["a", "b"], 30), rng.normal(size=30)

    def model(inputs):
        assert inputs.dtype == object
        return (inputs[:, 1] == "a") * inputs[:, 0].astype(float) + inputs[:, 2].astype(float)

    found = cs.explain(model, rows[:2], rows, budget=2000, rng=0)
    assert found.status.tolist() == ["exact", "exact"]
    assert found.player_data()[0, 1] in ("a", "b")


def test_a_number_that_is_none_is_told(frame, pipeline):
    explainer = cs.Explainer(pipeline, frame.iloc[:10])
    with pytest.raises(cs.InvalidArgumentError, match=r"`X`: the column 'age' holds numbers.*'old' here.*Convert"):
        explainer(frame.iloc[[50]].assign(age="old"), budget=2000)


def test_levels_of_one_kind_are_told_apart_and_a_missing_one_is_a_level():
    column = make_category("c", np.array([True, 1.5, "True", None, np.nan, True], dtype=object), "X")
    assert isinstance(column, Category)
    assert set(column.levels) == {True, 1.5, "True", None}
    values = np.array([None, "True", True, 1.5], dtype=object)
    assert column.decode(column.encode(values, "X")).tolist() == values.tolist()


def test_columns_of_objects_tell_apart_what_is_equal_and_kinds_of_missing_values():
    values = np.array([True, 1, 1.0, "1", None, math.nan, pd.NA, False, 0], dtype=object)
    column = make_category("c", values, "X", apart=True)
    again = column.decode(column.encode(values, "X"))
    assert [cell(value) for value in again] == [cell(value) for value in values]


@pytest.mark.parametrize(
    "model",
    [
        HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype"),
        XGBRegressor(n_estimators=20, enable_categorical=True),
        LGBMRegressor(n_estimators=20, verbose=-1),
    ],
    ids=["scikit-learn", "xgboost", "lightgbm"],
)
def test_trees_on_categorical_columns(model):
    rng = np.random.default_rng(0)
    whole = pd.DataFrame(
        {
            "number": np.where(rng.random(300) < 0.2, np.nan, rng.normal(size=300)),
            "job": pd.Categorical(rng.choice(["d", "c", "b"], 300), categories=["c", "a", "d", "b"]),
            "code": pd.Categorical(rng.integers(5, 9, 300), categories=[8, 7, 6, 5]),
            "flag": rng.random(300) < 0.4,
        }
    )
    whole.loc[::9, "job"] = np.nan
    model.fit(whole, whole["number"].fillna(1.0) * (whole["job"] == "c") + whole["flag"] * (whole["code"] == 7))
    background, X = whole.iloc[:15], whole.iloc[[100, 108]]
    found = cs.explain(model, X, background, budget=2000, rng=0)
    for row in range(2):
        expected = enumerated(model.predict, X.iloc[[row]], background, [[c] for c in whole.columns])
        np.testing.assert_allclose(found.values[row], expected, atol=1e-6)  # xgboost answers in single precision


def test_missing_features_are_null_in_tables(tmp_path):
    whole = with_column(repeated("a", None), "string")
    found = cs.explain(lambda rows: rows["number"].to_numpy(), whole[1:2], whole, budget=300, rng=0)
    assert pd.read_parquet(found.save(tmp_path / "table.parquet"))["feature_value"].isna().tolist() == [False, True]
    assert found.save(tmp_path / "table.csv").read_text().splitlines()[2].endswith(",")


@pytest.mark.filterwarnings("ignore::controlshap.ControlShapWarning")
def test_a_sampled_background_is_the_same_after_loading(tmp_path):
    rng = np.random.default_rng(0)
    whole = pd.DataFrame({"town": rng.choice([f"t{i}" for i in range(12)], 400), "a": rng.normal(size=400)})

    def model(rows):
        return (rows["town"] == "t3").to_numpy() * rows["a"].to_numpy() + np.tanh(rows["a"].to_numpy())

    explainer = cs.Explainer(model, whole, max_background=20, estimator="permutation", groups=None)
    again = cs.Explainer.load(explainer.save(tmp_path), model)
    assert again._assembly.encoding.columns[0].levels == explainer._assembly.encoding.columns[0].levels
    first, second = (one(whole.iloc[[7]], budget=200, rng=0) for one in (explainer, again))
    np.testing.assert_array_equal(first.values, second.values)
    assert first.base_standard_errors[0] == second.base_standard_errors[0] > 0


def test_data_of_an_object_column_comes_back_as_it_was(tmp_path):
    rows = np.empty((6, 2), dtype=object)
    rows[:, 0] = [1, True, "1", None, np.nan, 2.5]
    rows[:, 1] = [3, 4, 5, 6, 7, 8]
    found = cs.explain(lambda r: r[:, 1].astype(float), rows, rows, budget=500, rng=0)
    again = cs.load(found.save(tmp_path)).data
    for before, after in zip(found.data[:, 0].tolist(), again[:, 0].tolist(), strict=True):
        assert type(before) is type(after)
        assert before == after or before != before


def test_a_native_xgboost_model_on_categories():
    import xgboost

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"c": pd.Categorical(rng.choice(["a", "b", "c"], 200)), "x": rng.normal(size=200)})
    target = (frame["c"] == "b").to_numpy() * frame["x"].to_numpy()
    matrix = xgboost.DMatrix(frame, target, enable_categorical=True)
    booster = xgboost.train({"tree_method": "hist", "max_depth": 3}, matrix, 10)
    found = cs.explain(booster, frame.iloc[:1], frame.iloc[50:80], budget=500, rng=0)
    expected = enumerated(
        lambda f: booster.predict(xgboost.DMatrix(f, enable_categorical=True)), frame.iloc[:1], frame.iloc[50:80],
        [["c"], ["x"]],
    )  # fmt: skip
    np.testing.assert_allclose(found.values[0], expected, atol=1e-6)


def test_a_series_is_read_by_its_names():
    rows = np.random.default_rng(0).normal(size=(20, 4))
    background = pd.DataFrame(rows, columns=list("abcd"))
    explainer = cs.Explainer(lambda frame: np.tanh(frame["a"] * frame["b"] + frame["c"]).to_numpy(), background)
    in_order = explainer(background.iloc[3], budget=200, rng=0)
    shuffled = explainer(background.iloc[3][["d", "b", "a", "c"]], budget=200, rng=0)
    np.testing.assert_array_equal(in_order.values, shuffled.values)
