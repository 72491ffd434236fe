"""Every type of column and every missing value reaches the model as it was, or is refused by name."""

import datetime
import decimal
import math
import zlib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from frame_cases import JOBS, cell, make_frame, repeated, with_column

import controlshap as cs


@pytest.fixture(scope="module")
def frame():
    return make_frame()


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
            with_column(repeated("S", "M"), "string"),
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
            pd.DataFrame({"number": pd.Series([10**400], dtype=object), "other": [1]}),
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
    "lazy": (pl.LazyFrame({"a": [1, 2]}), r"\(polars.*LazyFrame\) is not an in-memory frame.*collect"),
    "unknown frame": (type("Frame", (), {"columns": ["a"]})(), r"Frame\) is not an in-memory frame"),
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
    "dictionaries": ([{"a": 1}, {"a": 2}], r"two-dimensional.*DataFrame\(rows\)"),
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
