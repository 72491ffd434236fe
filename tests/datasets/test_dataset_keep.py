"""Columns that a data set keeps beside the values."""

import numpy as np
import pandas as pd
import polars
import pytest
from numpy.testing import assert_array_equal

import controlshap as cs

pytestmark = pytest.mark.seconds

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(60, 3)), columns=list("abc"))
ROWS = X.assign(
    id=[f"c{i}" for i in range(60)], n=range(60), paid=[True, False] * 30, part=np.where(X["a"] > 0, X["a"], np.nan),
    when=pd.Timestamp("2024-01-02"),
)  # fmt: skip


def model(rows):
    return np.tanh(np.asarray(rows).sum(axis=1))


EXPLAINER = cs.Explainer(model, X)
PLAIN = EXPLAINER(X, budget=200, rng=0)


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "polars"])
def test_kept_columns_come_back_and_the_first_names_the_rows(tmp_path, kind):
    source = {"pandas": ROWS, "polars": polars.from_pandas(ROWS)}.get(kind)
    if source is None:
        source = tmp_path / f"rows.{kind}"
        ROWS.to_csv(source, index=False) if kind == "csv" else ROWS.to_parquet(source)
    EXPLAINER.explain_dataset(
        source, tmp_path / "out", budget=200, rng=0, part_rows=20, keep=["id", "n", "paid", "part", "when"]
    )
    found = cs.load(tmp_path / "out")
    assert_array_equal(found.values, PLAIN.values)
    assert found.row_names == tuple(ROWS["id"])
    assert found.kept_names == ("id", "n", "paid", "part", "when")
    row = found["c41"]
    expected = None if np.isnan(ROWS["part"][41]) else ROWS["part"][41]
    assert row.kept[0][:4] == ("c41", 41, False, expected)
    assert row.kept[0][4].startswith("2024-01-02")
    frame = found.to_frame()
    assert frame[frame["row"] == "c41"]["n"].tolist() == [41, 41, 41]
    found.save(tmp_path / "values.csv")
    assert (tmp_path / "values.csv").read_text().splitlines()[0].endswith(",id,n,paid,part,when")


def test_one_column_by_its_name_and_the_index_of_a_frame(tmp_path):
    EXPLAINER.explain_dataset(ROWS, tmp_path / "one", budget=200, rng=0, keep="n", rows=(10, 20))
    assert cs.load(tmp_path / "one").row_names == tuple(range(10, 20))
    EXPLAINER.explain_dataset(ROWS.set_index("id"), tmp_path / "index", budget=200, rng=0)
    found = cs.load(tmp_path / "index")
    assert found.kept_names == ("id",)
    assert "row c0: " in repr(found)
    EXPLAINER.explain_dataset(X, tmp_path / "none", budget=200, rng=0)
    assert cs.load(tmp_path / "none").kept is None


def test_a_large_result_reads_kept_columns_when_asked(tmp_path, monkeypatch):
    monkeypatch.setattr("controlshap.datasets.result.AT_ONCE", 0)
    EXPLAINER.explain_dataset(ROWS, tmp_path / "out", budget=200, rng=0, part_rows=20, keep="id")
    found = cs.load(tmp_path / "out")
    assert type(found).__name__ == "StoredExplanation"
    assert found["c33"].row_names == ("c33",)
    assert len(found.kept) == 60


@pytest.mark.parametrize(("keep", "message"), [
    ("nobody", "`source` has no column 'nobody'"),
    (["n", "n"], "each column once"),
    (3, "a column of `source`, or a list"),
])  # fmt: skip
def test_refused(tmp_path, keep, message):
    with pytest.raises(cs.InvalidArgumentError, match=message):
        EXPLAINER.explain_dataset(ROWS, tmp_path / "out", budget=200, rng=0, keep=keep)


def test_columns_of_arrays_have_no_names(tmp_path):
    with pytest.raises(cs.InvalidArgumentError, match="`source` is an array"):
        EXPLAINER.explain_dataset(X.to_numpy(), tmp_path / "out", keep="n")
    with pytest.raises(cs.InvalidArgumentError, match="the background is an array"):
        cs.Explainer(model, X.to_numpy()).explain_dataset(ROWS, tmp_path / "out", keep="n")


def test_progress_tells_the_largest_error(tmp_path):
    seen = []
    EXPLAINER.explain_dataset(
        X, tmp_path / "out", budget=50, rng=0, part_rows=20, progress=lambda at: seen.append(at.largest_error)
    )
    errors = cs.load(tmp_path / "out").standard_errors
    assert seen == [errors[: 20 * part].max() for part in (1, 2, 3)]


def test_an_interrupt_says_where_to_go_on(tmp_path):
    calls = []

    def interrupted(rows):
        calls.append(1)
        if len(calls) > 60:
            raise KeyboardInterrupt
        return model(rows)

    with pytest.raises(KeyboardInterrupt, match=r"explain_dataset` was interrupted. \d of 3 parts are done and kept"):
        cs.Explainer(interrupted, X).explain_dataset(X, tmp_path / "out", budget=200, rng=0, part_rows=20)
