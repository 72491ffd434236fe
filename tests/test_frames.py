"""Frames with categories, truth values and gaps; pipelines in raw and in encoded columns."""

import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

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


def test_what_has_no_groups_is_left_alone_or_refused(frame):
    mixing = make_pipeline(OneHotEncoder(sparse_output=False), PolynomialFeatures(2)).fit(frame[["job", "member"]])
    assert all(len(columns) == 1 for columns in cs.one_hot_groups(mixing).values())
    with pytest.raises(cs.InvalidArgumentError, match=r"`pipeline` must be a fitted scikit-learn Pipeline.*Random"):
        cs.encoded_space(RandomForestClassifier())
    with pytest.raises(cs.InvalidArgumentError, match=r"`transformer` \(OneHotEncoder\) does not say"):
        cs.one_hot_groups(OneHotEncoder())
