"""Frames with categories, truth values and gaps; pipelines in raw and in encoded columns."""

import datetime
import decimal
import itertools
import math
import zlib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from lightgbm import LGBMRegressor
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from xgboost import XGBRegressor

import controlshap as cs
from controlshap.columns import Category, category

JOBS = ("clerk", "nurse", "pilot", "smith & sons", "<b>cook</b>")


def make_frame(n=200, seed=0, gaps=True):
    """Numbers, whole numbers, an ordered category, text with gaps, truth values."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    income = np.exp(rng.normal(size=n)) * age / 40
    if gaps:
        income = np.where(rng.random(n) < 0.15, np.nan, income)
    job = rng.choice(JOBS, n, p=[0.4, 0.3, 0.2, 0.07, 0.03]).astype(object)
    if gaps:
        job[rng.random(n) < 0.1] = None
    size = pd.Categorical(rng.choice(["S", "M", "L"], n), categories=["S", "M", "L", "XL"], ordered=True)
    member = rng.random(n) < np.where(age > 50, 0.7, 0.2)
    return pd.DataFrame({"age": age, "income": income, "job": job, "size": size, "member": member})


def make_target(frame):
    income = frame["income"].fillna(0.5).to_numpy()
    job = frame["job"].map({"clerk": 0.2, "nurse": -0.5, "pilot": 1.0}).fillna(-0.2).to_numpy(dtype=float)
    member = frame["member"].to_numpy(dtype=float)
    return np.tanh(frame["age"].to_numpy() / 50 - income + job * (1 + member)) + 0.3 * (frame["size"] == "L").to_numpy()


def make_pipeline_model(frame, model):
    encoder = ColumnTransformer(
        [
            ("number", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income"]),
            ("level", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["job", "size"]),
            ("rest", "passthrough", ["member"]),
        ]
    )
    return make_pipeline(encoder, model).fit(frame, make_target(frame) > 0.3)


@pytest.fixture(scope="module")
def frame():
    return make_frame()


@pytest.fixture(scope="module")
def pipeline(frame):
    return make_pipeline_model(frame, MLPClassifier((8,), max_iter=300, random_state=0))


def enumerated(predict, x, background, groups):
    """Shapley values by mixing the columns of frames themselves: no encoding has a part in it."""
    p = len(groups)

    def value(coalition):
        mixed = background.copy()
        for player in coalition:
            for name in groups[player]:
                mixed[name] = pd.Series([x[name].iloc[0]] * len(mixed), index=mixed.index).astype(
                    background[name].dtype
                )
        return predict(mixed).mean(axis=0)

    table = {s: value(s) for size in range(p + 1) for s in itertools.combinations(range(p), size)}
    values = np.zeros((p, *np.shape(table[()])))
    for player in range(p):
        for coalition, of_coalition in table.items():
            if player not in coalition:
                weight = math.factorial(len(coalition)) * math.factorial(p - len(coalition) - 1) / math.factorial(p)
                values[player] += weight * (table[tuple(sorted((*coalition, player)))] - of_coalition)
    return values


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


class Inspecting:
    """A model that insists on the frame it was made for."""

    def __init__(self, like):
        self.like = like

    def __call__(self, rows):
        assert type(rows) is type(self.like)
        assert list(rows.columns) == list(self.like.columns)
        for name in self.like.columns:
            assert rows[name].dtype == self.like[name].dtype, (name, rows[name].dtype)
        frame = rows.to_pandas() if isinstance(rows, pl.DataFrame) else rows
        assert set(frame["job"].dropna().unique()) <= {*JOBS, "astronaut"}
        income = frame["income"].astype(float).fillna(-1.0).to_numpy()
        return (
            income * (frame["job"].astype(object) == "nurse").to_numpy()
            + frame["age"].to_numpy() * frame["member"].to_numpy()
        )


def as_polars(frame):
    made = pl.from_pandas(frame.astype({"size": str}))
    return made.with_columns(pl.col("size").cast(pl.Enum(["S", "M", "L", "XL"])), pl.col("age").cast(pl.Int32))


KINDS = {
    "pandas": lambda frame: frame,
    "pandas nullable": lambda frame: frame.convert_dtypes().assign(size=frame["size"]),
    "pandas objects": lambda frame: frame.assign(job=pd.Series(frame["job"].to_numpy(), dtype=object)),
    "polars": as_polars,
    "polars categorical": lambda frame: as_polars(frame).with_columns(pl.col("job").cast(pl.Categorical)),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_the_model_gets_frames_of_the_kind_it_was_fitted_on(frame, kind):
    whole = kind(frame)
    background, X = whole[:20], whole[100:103]
    model = Inspecting(whole)
    found = cs.explain(model, X, background, budget=3000, rng=0)
    assert found.status.tolist() == ["exact"] * 3
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model(X), atol=1e-9)
    sampled = cs.explain(model, X, background, estimator="kernel", budget=600, rng=0)
    assert np.abs((sampled.values - found.values) / np.maximum(sampled.standard_errors, 1e-12)).max() < 6


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
    alone = [explainer._explain_rows(X.iloc[[r]], r, *_limits(explainer)).values[0] for r in (2, 1, 0)]
    together = explainer(X, budget=400, rng=0).values
    np.testing.assert_array_equal(np.array(alone)[::-1], together)


def _limits(explainer):
    from controlshap.arguments import check_stopping

    stopping = check_stopping(explainer.players.n_players, 400, None, None, None, 0.95, None)
    return stopping, 0, explainer._describe(stopping, None, 0.95)


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
    draws = explainer._encoding(explainer._imputer.sample(4000, np.random.default_rng(0)))
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
    for refined in (explainer.refine(found, budget=300), loaded.refine(again, budget=300)):
        np.testing.assert_allclose(refined.values, explainer(X, budget=600, rng=0).values, atol=1e-6)


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
    column = category("c", np.array([True, 1.5, "True", None, np.nan, True], dtype=object), "X")
    assert isinstance(column, Category)
    assert set(column.levels) == {True, 1.5, "True", None}
    values = np.array([None, "True", True, 1.5], dtype=object)
    assert column.decode(column.encode(values, "X")).tolist() == values.tolist()


def test_columns_of_objects_tell_apart_what_is_equal_and_kinds_of_missing_values():
    values = np.array([True, 1, 1.0, "1", None, math.nan, pd.NA, False, 0], dtype=object)
    column = category("c", values, "X", apart=True)
    again = column.decode(column.encode(values, "X"))
    assert [cell(value) for value in again] == [cell(value) for value in values]


def cell(value):
    value = value.item() if isinstance(value, np.generic) else value
    return f"{type(value).__name__} {value!r}"


class Reading:
    """A model that tells everything apart that a frame can hold, and insists on the types."""

    def __init__(self, like):
        self.like = like

    def __call__(self, rows):
        assert type(rows) is type(self.like)
        assert list(rows.columns) == list(self.like.columns)
        for name in self.like.columns:
            assert repr(rows[name].dtype) == repr(self.like[name].dtype)
        columns = [rows[name].to_list() for name in rows.columns]
        texts = ["|".join(map(cell, row)) for row in zip(*columns, strict=True)]
        return np.array([zlib.crc32(text.encode()) / 2**32 for text in texts])


def mixed(background, x, names):
    """Background rows with some columns of x, whatever the library."""
    if isinstance(background, pl.DataFrame):
        return background.with_columns(pl.concat([x[name]] * len(background)) for name in names)
    columns = {name: background[name].reset_index(drop=True) for name in background.columns}
    columns |= {name: pd.concat([x[name]] * len(background), ignore_index=True) for name in names}
    return pd.concat(columns, axis=1)


def two_players(model, background, x):
    """Shapley values of two columns, one row, by definition."""
    first, second = background.columns
    base, one, two, both = (
        model(mixed(background, x, names)).mean() for names in ([], [first], [second], [first, second])
    )
    return np.array([one - base + both - two, two - base + both - one]) / 2


def repeated(*values):
    return [values[i % len(values)] for i in range(10)]


def with_column(values, dtype=None):
    return pd.DataFrame({"number": np.linspace(-1, 1, 10), "other": pd.Series(values, dtype=dtype)})


def with_polars_column(values, dtype=None):
    return pl.DataFrame({"number": np.linspace(-1, 1, 10), "other": pl.Series(values, dtype=dtype)})


TYPES = {
    "float32": with_column(np.linspace(0, 1, 10), "float32"),
    "uint8": with_column(range(10), "uint8"),
    "nullable whole": with_column(repeated(1, None, 3), "Int16"),
    "nullable float": with_column(repeated(1.5, None), "Float32"),
    "nullable truth": with_column(repeated(True, None, False), "boolean"),
    "whole of pyarrow": with_column(repeated(1, None), "int64[pyarrow]"),
    "text of pyarrow": with_column(repeated("a", None, ""), pd.ArrowDtype(pa.string())),
    "truth of pyarrow": with_column(repeated(True, None, False), "bool[pyarrow]"),
    "text": with_column(repeated("a", None, "")),
    "text with NA": with_column(repeated("a", None, ""), "string"),
    "text of Python": with_column(repeated("a", None, ""), pd.StringDtype("python")),
    "None and NaN": with_column(repeated("a", None, np.nan), object),
    "equal objects": with_column(repeated(1, True, "1", 1.0), object),
    "truth and None": with_column(repeated(True, None, False), object),
    "categories in another order": with_column(
        pd.Categorical(repeated("x", "y", None), categories=["z", "y", "x"], ordered=True)
    ),
    "whole categories": with_column(pd.Categorical(repeated(3, 1, None), categories=pd.Index([3, 2, 1], dtype="int8"))),
    "categories of objects": with_column(
        pd.Categorical(repeated("x", "y"), categories=pd.Index(["y", "x"], dtype=object))
    ),
    "categories of truth": with_column(pd.Categorical(repeated(True, False, None))),
    "intervals": with_column(pd.cut(np.linspace(0, 1, 10), 3)),
    "one category": with_column(pd.Categorical(["x"] * 10)),
    "columns called by numbers": pd.DataFrame({0: np.linspace(-1, 1, 10), 1: repeated("a", "b")}),
    "an index of names": with_column(repeated("a", "b")).set_axis(list("abcdefghij")),
    "polars whole": with_polars_column(repeated(1, None), pl.Int8),
    "polars NaN": with_polars_column(repeated(1.5, float("nan"))),
    "polars null": with_polars_column(repeated(1.5, None), pl.Float32),
    "polars truth": with_polars_column(repeated(True, None, False)),
    "polars enum": with_polars_column(repeated("a", None, "b"), pl.Enum(["z", "b", "a"])),
}


@pytest.mark.parametrize("whole", TYPES.values(), ids=TYPES.keys())
def test_every_type_and_every_missing_value_reaches_the_model_as_it_was(whole):
    background, X = whole[:7], whole[7:]
    model = Reading(whole)
    explainer = cs.Explainer(model, background)
    found = explainer(X, budget=500, rng=0)
    expected = [two_players(model, background, X[row : row + 1]) for row in range(3)]
    np.testing.assert_allclose(found.values, expected, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in TYPES if name != "intervals"])
def test_every_type_is_saved_with_an_explainer(name, tmp_path):
    whole = TYPES[name]
    explainer = cs.Explainer(Reading(whole), whole[:7])
    loaded = cs.Explainer.load(explainer.save(tmp_path), Reading(whole))
    found, again = (one(whole[7:], budget=500, rng=0).values for one in (explainer, loaded))
    np.testing.assert_array_equal(again, found)


def test_polars_nulls_of_rows_to_explain_stay_null_in_frames_of_doubles():
    background = pl.DataFrame({"a": np.linspace(0, 1, 9), "b": np.linspace(1, 2, 9)})
    x = pl.DataFrame({"a": pl.Series([None], dtype=pl.Float64), "b": [1.0]})
    model = Reading(background)
    found = cs.explain(model, x, background, budget=300, rng=0)
    np.testing.assert_allclose(found.values[0], two_players(model, background, x), atol=1e-12)


def test_whole_numbers_that_the_type_cannot_hold_are_not_wrapped_round():
    background = with_column(range(10), "uint8")
    explainer = cs.Explainer(lambda rows: rows["other"].to_numpy().astype(float), background)
    for value in (300, -1):
        found = explainer(pd.DataFrame({"number": [0.0], "other": [value]}), budget=300, rng=0)
        np.testing.assert_allclose(found.values[0], [0.0, value - 4.5], atol=1e-12)


def test_missing_values_and_truth_may_be_written_in_other_ways_in_rows_to_explain():
    background = with_column(repeated("a", None, "b"), object)
    explainer = cs.Explainer(Reading(background), background)
    found = explainer(background[1:2], budget=300, rng=0).values
    for other in (
        with_column(repeated("a", np.nan, "b"), object)[1:2],
        with_column(repeated("a", None, "b"), "string")[1:2],
        background[1:2].to_numpy(dtype=object),
        background[["other", "number"]][1:2],
    ):
        np.testing.assert_array_equal(explainer(other, budget=300, rng=0).values, found)
    background = with_column(repeated(True, False))
    explainer = cs.Explainer(Reading(background), background)
    found = explainer(background[:1], budget=300, rng=0).values
    np.testing.assert_array_equal(explainer([[-1.0, 1.0]], budget=300, rng=0).values, found)


@pytest.mark.parametrize(
    ("background", "x", "message"),
    [
        (
            with_column(pd.Categorical(repeated("S", "M"))),
            pd.DataFrame({"number": [0.0], "other": pd.Categorical(["XL"], categories=["S", "M", "XL"])}),
            r"`X`: the column 'other' holds \['XL'\], which a column of the background's type \(category.*cannot.*Use",
        ),
        (
            with_column(repeated("S", "M")),
            np.array([[0.0, 1.0]]),
            r"`X`: the column 'other' holds \[1.0\], which a col",
        ),
        (
            with_column(repeated(True, None), "boolean"),
            pd.DataFrame({"number": [0.0], "other": ["yes"]}),
            r"`X`: the column 'other' holds \['yes'\].*\(boolean\) cannot",
        ),
        (
            with_polars_column(repeated("S", "M"), pl.Enum(["S", "M"])),
            pl.DataFrame({"number": [0.0], "other": ["XL"]}),
            r"`X`: the column 'other' holds \['XL'\].*\(Enum\) cannot",
        ),
        (
            with_polars_column(repeated(1.5, None)),
            pl.DataFrame({"other": [math.nan], "number": [0.0]}),
            r"`X`: the column 'other' writes missing numbers as NaN, and the background does not.*fill_nan",
        ),
        (
            with_column(range(10)),
            pd.DataFrame({"number": ["1.5"], "other": [1]}),
            r"`X`: the column 'number' holds numb",
        ),
        (
            with_column(range(10)),
            pd.DataFrame({"number": [10**400], "other": [1]}),
            r"`X`: the column 'number' must.*fin",
        ),
        (with_column(range(10)), pd.DataFrame({"number": [0.0], "other": [2**53 + 1]}), r"'other' holds whole.*beyond"),
    ],
)
def test_values_that_the_background_s_type_cannot_hold_are_refused(background, x, message):
    explainer = cs.Explainer(lambda rows: np.zeros(len(rows)), background)
    with pytest.raises(cs.InvalidArgumentError, match=message):
        explainer(x, budget=300, rng=0)


ODD = {
    "lazy": (pl.LazyFrame({"a": [1, 2]}), r"\(polars.*LazyFrame\) is no frame in memory.*collect"),
    "unknown frame": (type("Frame", (), {"columns": ["a"]})(), r"Frame\) is no frame in memory"),
    "dates": (np.array([["2020-01-01"]], dtype="datetime64[D]"), "got an array of datetime64"),
    "complex": (np.array([[1 + 2j]]), "got an array of complex128"),
    "complex in lists": ([[1 + 2j, 1.0]], "got an array of complex128"),
    "records": (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "got an array of"),
    "sparse": (scipy.sparse.csr_matrix(np.eye(3)), r"sparse matrix.*toarray"),
    "tensor with gradient": (torch.ones(2, 2, requires_grad=True), "could not be read as an array"),
    "huge numbers in lists": ([[10**400, 1], [2, 3]], "the column 'x0' must hold finite numbers"),
    "infinite beside names": ([[math.inf, "a"], [1.0, "b"]], "the column 'x0' must hold finite numbers.*got inf"),
    "whole numbers beyond doubles": (np.array([[2**53 + 1, 1]]), r"beyond 2\*\*53"),
    "whole column beyond doubles": (with_column([2**60 + 1] * 10), r"the column 'other' holds whole.*beyond 2\*\*53"),
    "dates with zones": (
        with_column(pd.date_range("2020", periods=10, tz="UTC")),
        r"\['other \(datetime64.*UTC.*hold neither numbers",
    ),
    "dictionaries of pyarrow": (
        with_column(repeated("a", "b"), pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
        r"other \(dictionary.*hold neither numbers nor categories.*or categories before",
    ),
    "decimals": (with_polars_column([decimal.Decimal("1.5")] * 10), r"other \(Decimal.*floats for decimals"),
    "128 bits": (with_polars_column([1] * 10, pl.Int128), r"other \(Int128\)"),
    "NaN and null": (with_polars_column(repeated(math.nan, None)), r"'other' holds both null and NaN.*fill_nan"),
    "lists": (with_column([[1]] * 10), "the column 'other' holds lists"),
    "dictionaries": ([{"a": 1}, {"a": 2}], "two-dimensional"),
    "dates of polars": (with_polars_column([datetime.date(2020, 1, 1)] * 10), r"other \(Date\)"),
    "names twice": (pa.table([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"]), "must be unique"),
}


@pytest.mark.parametrize(("data", "message"), ODD.values(), ids=ODD.keys())
def test_odd_data_is_refused_by_name(data, message):
    with pytest.raises(cs.InvalidArgumentError, match=rf"`background`.*{message}"):
        cs.Explainer(lambda rows: np.zeros(len(rows)), data)


def test_masked_entries_are_missing_and_text_in_lists_is_text():
    def model(rows):
        return np.nan_to_num(rows[:, 0], nan=7.0)

    rows = np.ma.array(np.arange(6.0).reshape(3, 2), mask=[[True, False], [False, False], [False, False]])
    assert cs.explain(model, rows[:1], rows[1:], budget=300, rng=0).values[0, 0] == 7.0 - 3.0
    found = cs.explain(
        lambda rows: (rows[:, 0] == "1").astype(float), [["1", "x"]], [["2", "x"], ["1", "y"]], budget=99
    )
    np.testing.assert_allclose(found.values, [[0.5, 0.0]])


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


def test_the_encoded_space_groups_what_an_encoder_made(frame):
    full = make_frame(gaps=False)
    model = make_pipeline_model(full, MLPClassifier((8,), max_iter=200, random_state=0))
    space = cs.encoded_space(model)
    rows = space.transform(full)
    assert rows.shape[1] == 2 + 5 + 3 + 1
    assert space.groups == {
        "number__age": [0],
        "number__income": [1],
        "job": [2, 3, 4, 5, 6],
        "size": [7, 8, 9],
        "rest__member": [10],
    }
    encoded = cs.explain(space.model, rows[50:52], rows[:12], groups=space.groups, budget=2000, rng=0)
    raw = cs.explain(model, full.iloc[50:52], full.iloc[:12], budget=2000, rng=0)
    assert set(encoded.status) == {"exact"}
    # independent features: mixing encoded rows is mixing raw rows
    order = [
        encoded.feature_names.index(name) for name in ("number__age", "number__income", "job", "size", "rest__member")
    ]
    np.testing.assert_allclose(encoded.values[:, order], raw.values, atol=1e-12)


@pytest.mark.parametrize("settings", [{}, {"drop": "first"}, {"drop": "if_binary"}, {"min_frequency": 0.1}])
def test_groups_of_an_encoder_alone(frame, settings):
    columns = ["job", "size", "member"]
    encoder = OneHotEncoder(**settings).fit(frame[columns])
    groups = cs.one_hot_groups(encoder)
    names = encoder.get_feature_names_out()
    assert sorted(c for columns in groups.values() for c in columns) == list(range(len(names)))
    for feature, positions in groups.items():
        assert all(names[c].startswith(f"{feature}_") for c in positions)
    behind = make_pipeline(encoder, StandardScaler(with_mean=False)).fit(frame[columns])
    assert cs.one_hot_groups(behind) == groups


def imputed(**settings):
    return make_pipeline(SimpleImputer(strategy="most_frequent", **settings), OneHotEncoder(handle_unknown="ignore"))


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ([("a", imputed(), ["job"]), ("b", imputed(), ["size"])], {"job": 5, "size": 3}),
        ([("a", imputed(), [2, 3])], {"job": 5, "size": 3}),
        ([("a", imputed(), slice("job", "size"))], {"job": 5, "size": 3}),
        ([("a", imputed(), [False, False, True, True, False])], {"job": 5, "size": 3}),
        ([("a", OneHotEncoder(), ["job"]), ("b", OneHotEncoder(drop="first"), ["job"])], {"job": 9}),
    ],
)
def test_encoders_behind_imputers_know_their_features(parts, names):
    transformer = ColumnTransformer(parts, remainder="drop").fit(make_frame(gaps=False))
    groups = cs.one_hot_groups(transformer)
    assert {name: len(columns) for name, columns in groups.items()} == names
    assert sorted(c for columns in groups.values() for c in columns) == list(range(sum(names.values())))


def test_features_that_lost_their_names_are_kept_apart(frame):
    parts = [(name, imputed(add_indicator=True), [name]) for name in ("job", "income")]
    frame = frame.assign(
        income=frame["income"].round(), job=frame["job"].astype(object).where(frame["job"].notna(), np.nan)
    )
    transformer = ColumnTransformer(parts, remainder="drop").fit(frame)
    groups = cs.one_hot_groups(transformer)
    assert list(groups) == ["job 0", "job 1", "income 0", "income 1"]
    assert sorted(c for columns in groups.values() for c in columns) == list(
        range(len(transformer.get_feature_names_out()))
    )


def test_what_has_no_groups_is_left_alone_or_refused(frame):
    mixing = make_pipeline(OneHotEncoder(sparse_output=False), PolynomialFeatures(2)).fit(frame[["job", "member"]])
    assert all(len(columns) == 1 for columns in cs.one_hot_groups(mixing).values())
    with pytest.raises(cs.InvalidArgumentError, match=r"`pipeline` must be a fitted scikit-learn Pipeline.*Random"):
        cs.encoded_space(RandomForestClassifier())
    with pytest.raises(cs.InvalidArgumentError, match=r"`transformer` \(OneHotEncoder\) does not say"):
        cs.one_hot_groups(OneHotEncoder())


@pytest.mark.filterwarnings("ignore::controlshap.ControlShapWarning")
def test_a_sampled_background_is_the_same_after_loading(tmp_path):
    rng = np.random.default_rng(0)
    whole = pd.DataFrame({"town": rng.choice([f"t{i}" for i in range(12)], 400), "a": rng.normal(size=400)})

    def model(rows):
        return (rows["town"] == "t3").to_numpy() * rows["a"].to_numpy() + np.tanh(rows["a"].to_numpy())

    explainer = cs.Explainer(model, whole, max_background=20, estimator="permutation", groups=None)
    again = cs.Explainer.load(explainer.save(tmp_path), model)
    assert again._encoding.columns[0].levels == explainer._encoding.columns[0].levels
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
