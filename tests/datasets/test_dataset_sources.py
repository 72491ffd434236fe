"""Where the rows of a data set come from: files, folders and tables, and which are refused."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from dataset_cases import NAMES, make_explainer, make_rows, write

import controlshap as cs
from controlshap.datasets import open_source


def table_of_all_kinds(n: int) -> pandas.DataFrame:
    rng = np.random.default_rng(5)
    frame = pandas.DataFrame(
        {
            "number": rng.normal(size=n),
            "whole": rng.integers(0, 9, n),
            "text": rng.choice(["plain", 'with "quotes", commas', "two\nlines", "Ünïcode"], n),
            "level": pandas.Categorical(rng.choice(["low", "high"], n), categories=["low", "high"]),
            "flag": rng.integers(0, 2, n).astype(bool),
            "late text": [str(i) if i < n - 5 else "word" for i in range(n)],
            "nothing": np.full(n, np.nan),
        }
    )
    frame["gap"] = frame["whole"].astype("Int64")
    frame.loc[n - 2, "gap"] = pandas.NA
    return frame


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_a_file_gives_the_same_rows_and_types_in_every_part(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlshap.datasets.csv_files.BLOCK", 333)  # many blocks, some of which end within quotes
    monkeypatch.setattr("controlshap.datasets.files.BATCH_ROWS", 13)
    frame = table_of_all_kinds(211)
    source = pickle.loads(pickle.dumps(open_source(write(frame, tmp_path / f"rows{suffix}"), 20)))
    assert (source.n_rows, source.n_parts, source.columns) == (211, 11, tuple(frame.columns))
    order = np.random.default_rng(0).permutation(source.n_parts)  # workers ask in any order
    parts = {int(part): source.read_part(int(part)) for part in order}
    for part in parts.values():
        assert (part.dtypes == parts[0].dtypes).all()
    whole = pandas.concat([parts[i] for i in range(11)], ignore_index=True)
    for name in frame.columns:
        wanted, found = frame[name], whole[name]
        if name in ("gap", "nothing"):
            assert found.dtype == float
            wanted = wanted.to_numpy(float, na_value=np.nan)
            np.testing.assert_array_equal(found.to_numpy(), wanted)
        else:
            assert found.astype(object).tolist() == wanted.astype(object).tolist(), name
    if suffix != ".csv":
        assert list(whole["level"].cat.categories) == ["low", "high"]
    assert whole["whole"].dtype == np.int64
    assert whole["flag"].dtype == bool


@pytest.mark.parametrize("block", [12, 20, 100])
def test_line_ends_and_blank_lines(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlshap.datasets.csv_files.BLOCK", block)
    path = tmp_path / "rows.csv"
    path.write_bytes(b'\xef\xbb\xbf\r\na,b\r\n1,x\r\n\r\n2,"y\r\nz"\r\n\r\n\r\n3,NA\r\n4.5,""')
    source = open_source(path, 2)
    assert (source.columns, source.n_rows) == (("a", "b"), 4)
    frame = pandas.concat([source.read_part(0), source.read_part(1)])
    assert frame["a"].tolist() == [1.0, 2.0, 3.0, 4.5]
    assert frame["b"].tolist()[:2] == ["x", "y\r\nz"]
    assert frame["b"].isna().tolist() == [False, False, True, False]


@pytest.mark.parametrize("block", [100, 2**20])
def test_types_of_columns_are_those_of_all_rows(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlshap.datasets.csv_files.BLOCK", block)
    columns = {
        "whole": ["1", "-2", " 3", "NA", "5"],
        "late float": ["1", "2", "3", "4", "5e-1"],
        "late text": ["1", "2.5", "3", "4", "five"],
        "flag": ["1", "0", "0", "true", "False"],
        "digits": ["1", "0", "2", "true", "False"],
        "day": ["2020-01-01"] * 5,
        "large": ["1", "99999999999999999999", "3", "4", "5"],
        "quoted gap": ["1", '""', "3", "4", "5"],
        "nothing": ["", "NA", "", "NaN", "null"],
    }
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(",".join(row) for row in [tuple(columns), *zip(*columns.values(), strict=True)]))
    source = open_source(path, 2)
    kinds = ["float64", "float64", "string", "bool", "string", "string", "float64", "string", "float64"]
    for part in range(source.n_parts):
        dtypes = source.read_part(part).dtypes
        assert ["string" if dtype in ("str", "object") else str(dtype) for dtype in dtypes] == kinds
    assert open_source(path, 5).read_part(0).iloc[:, 2].tolist() == ["1", "2.5", "3", "4", "five"]


def test_long_rows_take_larger_blocks_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlshap.datasets.csv_files.BLOCK", 30)
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n" + "1," + "x" * 100 + "\n")
    assert open_source(path).read_part(0)["b"].tolist() == ["2", "x" * 100]
    monkeypatch.setattr("controlshap.datasets.csv_files.LONGEST_ROW", 40)
    with pytest.raises(cs.InvalidArgumentError, match=r"a quote is not closed, or a row has more than 40 bytes"):
        open_source(path)


def test_a_folder_is_one_source_with_a_part_for_each_file(tmp_path: Path) -> None:
    frame = make_rows(30)
    frame.iloc[:12].to_csv(tmp_path / "b.csv", index=False)
    frame.iloc[12:].round().astype(int)[NAMES[::-1]].to_csv(tmp_path / "c.csv", index=False)  # other types and order
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "readme.txt").write_text("not a table")
    for source in (open_source(tmp_path), open_source(str(tmp_path / "*.csv"))):
        assert source.bounds.tolist() == [0, 12, 30]
        second = source.read_part(1)
        assert list(second.columns) == NAMES
        assert set(second.dtypes.astype(str)) == {"float64"}
    assert open_source(tmp_path, 5).bounds.tolist() == [0, 5, 10, 12, 17, 22, 27, 30]
    assert open_source(tmp_path, columns=["c1"]).columns == ("c1",)
    assert [f["name"] for f in open_source(tmp_path).describe()["files"]] == ["b.csv", "c.csv"]


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="descriptors are counted in /dev/fd")
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_one_file_is_open_at_a_time_and_none_after_a_run(tmp_path: Path, suffix: str) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    for number in range(4):
        write(make_rows(8, seed=number), rows / f"rows{number}{suffix}")
    source = open_source(rows, part_rows=4)
    assert not open_files(tmp_path)
    for part in (0, 2, 4, 6, 1, 3):  # the first half of each file
        source.read_part(part)
        assert len(open_files(tmp_path)) <= 1
    source.sample(10)
    assert not open_files(tmp_path)
    for name, part in (("all", None), ("some", (0, 4))):
        make_explainer().explain_dataset(rows, tmp_path / name, rows=part, part_rows=4, budget=40, rng=0)
        cs.load(tmp_path / name)
        assert not open_files(tmp_path)


def open_files(folder: Path) -> list[str]:
    """Files of a folder that this process has open, without help of the garbage collector."""
    names = [os.path.realpath(f"/dev/fd/{number}") for number in os.listdir("/dev/fd")]
    return [name for name in names if Path(name).is_relative_to(folder.resolve())]


@pytest.mark.parametrize("kind", ["array", "pandas", "polars", "csv"])
def test_samples_are_distinct_rows_by_a_stated_seed(tmp_path: Path, kind: str) -> None:
    frame = make_rows(101)
    data: Any = {"array": frame.to_numpy(), "pandas": frame, "polars": polars.from_pandas(frame), "csv": None}[kind]
    source = open_source(write(frame, tmp_path / "rows.csv") if data is None else data, 7)
    one, again, other = (np.asarray(source.sample(30, seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    assert len(np.unique(one, axis=0)) == 30
    where = [int(np.flatnonzero((frame.to_numpy() == row).all(axis=1))[0]) for row in one]
    assert where == sorted(where)
    np.testing.assert_array_equal(np.asarray(source.sample(1000)), frame.to_numpy())


def test_a_sample_takes_every_row_equally_often(global_seed: int) -> None:
    source = open_source(np.arange(10.0)[:, None], 3)
    n = 2000
    counts = np.zeros(10)
    for seed in range(n):
        counts[source.sample(3, 10_000 * global_seed + seed)[:, 0].astype(int)] += 1
    z = (counts - 0.3 * n) / np.sqrt(n * 0.3 * 0.7)
    assert np.abs(z).max() < 4.9  # 10 counts, 100 seeds, two sides: 1e-3 for all together


def test_the_description_sees_contents(tmp_path: Path) -> None:
    frame = make_rows(9)
    other = frame.copy()
    other.iloc[8, 2] += 1e-9
    for make in (lambda f: f, polars.from_pandas, lambda f: f.to_numpy(), lambda f: write(f, tmp_path / "x.csv")):
        told = json.dumps(open_source(make(frame), 4).describe())
        assert told == json.dumps(open_source(make(frame.copy()), 4).describe())
        assert told != json.dumps(open_source(make(other), 4).describe())


def test_an_index_that_pandas_wrote_is_no_column(tmp_path: Path) -> None:
    frame = make_rows(6)
    frame.index = [5, 4, 3, 2, 1, 0]
    frame.to_parquet(tmp_path / "rows.parquet")
    assert open_source(tmp_path / "rows.parquet").columns == tuple(NAMES)


def _bad_sources(folder: Path) -> dict[str, tuple[Any, str]]:
    write(make_rows(3), folder / "good.parquet")
    (folder / "empty.csv").touch()
    (folder / "header.csv").write_text("a,b\n")
    (folder / "blank.csv").write_text("\n\n")
    (folder / "wrong.parquet").write_text("a,b\n1,2\n")
    (folder / "wrong.feather").write_text("a,b\n1,2\n")
    (folder / "renamed.csv").write_bytes((folder / "good.parquet").read_bytes())
    (folder / "ragged.csv").write_text("a,b\n1,2\n1,2,3\n")
    (folder / "quote.csv").write_text('a,b\n1,2\n"open,4\n5,6\n')
    (folder / "latin.csv").write_bytes("a,b\n1,\xe9\n".encode("latin-1"))
    (folder / "semicolons.csv").write_text("a;b\n1;2\n")
    (folder / "twice.csv").write_text("a,a\n1,2\n")
    (folder / "rows.xlsx").write_text("x")
    (folder / "rows.csv.gz").write_text("x")
    (folder / "nothing").mkdir()
    pyarrow.parquet.write_table(pyarrow.table({}), folder / "columnless.parquet")
    return {
        "missing file": (folder / "absent.csv", "no file or folder"),
        "empty file": (folder / "empty.csv", "0 bytes"),
        "no rows": (folder / "header.csv", "no rows"),
        "blank": (folder / "blank.csv", "no lines"),
        "not parquet": (folder / "wrong.parquet", "cannot be read as Parquet"),
        "not arrow": (folder / "wrong.feather", "cannot be read as an Arrow"),
        "parquet named csv": (folder / "renamed.csv", "Parquet file"),
        "ragged": (folder / "ragged.csv", "cannot be read as CSV"),
        "open quote": (folder / "quote.csv", "cannot be read as CSV"),
        "not utf-8": (folder / "latin.csv", "UTF-8"),
        "semicolons": (folder / "semicolons.csv", "commas"),
        "names twice": (folder / "twice.csv", "unique"),
        "unknown suffix": (folder / "rows.xlsx", "does not end in"),
        "compressed": (folder / "rows.csv.gz", "unpack"),
        "empty folder": (folder / "nothing", "holds no file"),
        "empty pattern": (str(folder / "*.nothing"), "holds no file"),
        "several kinds": (folder, "several kinds"),
        "no columns": (folder / "columnless.parquet", "no rows|no columns"),
        "no table": (3, "must be a path"),
        "one dimension": (np.zeros(3), "two-dimensional"),
        "no rows in memory": (np.zeros((0, 3)), "empty"),
    }


def test_bad_sources_are_refused_in_one_sentence_with_a_way_out(tmp_path: Path) -> None:
    for name, (source, message) in _bad_sources(tmp_path).items():
        with pytest.raises(cs.InvalidArgumentError, match=message) as caught:
            open_source(source)
        assert "`source`" in str(caught.value), name
        assert "\n" not in str(caught.value), name
