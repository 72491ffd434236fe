"""Data sets in parts: sources, the driver on one machine, resuming, and what must be refused."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import pickle
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections import deque
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import controlshap as cs
from controlshap.dataset import Progress, RunStoppedError, explain_dataset, load_dataset, open_source, probe
from controlshap.dataset import part_file as part_files
from controlshap.dataset.loop import Ended, run_parts
from controlshap.dataset.part import Outcome, Task
from controlshap.dataset.part_file import part_path
from controlshap.dataset.setup import choose_part_rows

N_COLUMNS = 5
NAMES = [f"c{i}" for i in range(N_COLUMNS)]
MARK = 1e6
CALL: dict[str, Any] = {"budget": 120, "rng": 4}


def model(rows: Any) -> Any:
    """Interactions of all orders, from a frame or an array."""
    values = np.asarray(rows, dtype=float)
    return np.tanh(values @ np.linspace(-1, 1, N_COLUMNS)) + values[:, 0] * values[:, 1]


def make_explainer(function: Any = model, **settings: Any) -> cs.Explainer:
    background = pandas.DataFrame(np.random.default_rng(0).normal(size=(8, N_COLUMNS)), columns=NAMES)
    settings = {"estimator": "permutation", "control": "none", "seconds_per_evaluation": 1e-6} | settings
    return cs.Explainer(function, background, **settings)


def make_rows(n: int = 23, seed: int = 1) -> pandas.DataFrame:
    return pandas.DataFrame(np.random.default_rng(seed).normal(size=(n, N_COLUMNS)), columns=NAMES)


def assert_same_bits(one: cs.Explanation, other: cs.Explanation) -> None:
    for field in fields(cs.Explanation):
        x, y = getattr(one, field.name), getattr(other, field.name)
        if field.name == "evaluations":
            continue
        if isinstance(x, np.ndarray) and x.dtype.kind != "O":
            assert x.dtype == y.dtype, field.name
            assert x.tobytes() == y.tobytes(), field.name
        elif isinstance(x, np.ndarray):
            assert x.tolist() == y.tolist(), field.name
        else:
            assert x == y, field.name


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


def write(frame: pandas.DataFrame, path: Path) -> Path:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=37)
    else:
        frame.to_feather(path)
    return path


# ---- sources


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_a_file_gives_the_same_rows_and_types_in_every_part(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlshap.dataset.csv_file.BLOCK", 333)  # many blocks, some of which end within quotes
    monkeypatch.setattr("controlshap.dataset.parquet_file.BATCH", 13)
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


@pytest.mark.parametrize("block", [1, 7, 100])
def test_line_ends_and_blank_lines(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlshap.dataset.csv_file.BLOCK", block)
    path = tmp_path / "rows.csv"
    path.write_bytes(b'\xef\xbb\xbf\r\na,b\r\n1,x\r\n\r\n2,"y\r\nz"\r\n\r\n\r\n3,NA\r\n4.5,""')
    source = open_source(path, 2)
    assert (source.columns, source.n_rows) == (("a", "b"), 4)
    frame = pandas.concat([source.read_part(0), source.read_part(1)])
    assert frame["a"].tolist() == [1.0, 2.0, 3.0, 4.5]
    assert frame["b"].tolist()[:2] == ["x", "y\r\nz"]
    assert frame["b"].isna().tolist() == [False, False, True, False]


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


# ---- the driver


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_run_equals_one_call_to_the_bit(tmp_path: Path, suffix: str) -> None:
    rows = make_rows().assign(identifier=range(23))
    path = write(rows, tmp_path / f"rows{suffix}")
    explainer = make_explainer(control="ridge")
    result = explainer.explain_dataset(path, tmp_path / "out", part_rows=5, **CALL)
    assert (result.n_rows, result.n_parts, result.n_done, result.failed) == (23, 5, 5, ())
    direct = explainer(rows[NAMES], keep=False, **CALL)
    assert_same_bits(cs.load(tmp_path / "out"), direct)
    assert result.n_evaluations == direct.n_evaluations.sum()
    assert not list((tmp_path / "out" / "parts").glob(".*"))


def test_two_processes_groups_outputs_and_arrays(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    background, rows = rng.normal(size=(9, N_COLUMNS)), rng.normal(size=(11, N_COLUMNS))
    several = lambda x: np.column_stack([model(x), np.sin(x.sum(axis=1))])  # noqa: E731
    explainer = cs.Explainer(several, background, groups={"pair": [1, 3]}, seconds_per_evaluation=1e-6)
    call: dict[str, Any] = {"part_rows": 4, "n_jobs": 2, "budget": 90, "rng": 1}
    with pytest.raises(KeyboardInterrupt):
        explainer.explain_dataset(rows, tmp_path / "out", progress=lambda _: interrupt(), **call)
    result = explainer.explain_dataset(rows, tmp_path / "out", **call)
    assert result.n_done == 3
    assert_same_bits(cs.load(tmp_path / "out"), explainer(rows, budget=90, rng=1, keep=False))


def test_correlated_features_and_measured_seconds_are_fixed_once(tmp_path: Path) -> None:
    explainer = make_explainer(features="correlated", control="auto", seconds_per_evaluation=None)
    rows = make_rows(6)
    explainer.explain_dataset(rows, tmp_path / "out", part_rows=2, **CALL)
    before = [part_path(tmp_path / "out", part).read_bytes() for part in range(3)]
    part_path(tmp_path / "out", 1).unlink()
    fresh = make_explainer(features="correlated", control="auto", seconds_per_evaluation=None)
    fresh(rows, budget=200, rng=0)  # what another call has measured does not count
    fresh.explain_dataset(rows, tmp_path / "out", part_rows=2, **CALL)
    assert [part_path(tmp_path / "out", part).read_bytes() for part in range(3)] == before
    assert explainer._cache == {}, "what a run measures is its own"


def test_exact_rows(tmp_path: Path) -> None:
    explainer = make_explainer(estimator="auto", control="auto")
    explainer.explain_dataset(make_rows(5), tmp_path / "out", part_rows=2, budget=5000, rng=0)
    found = cs.load(tmp_path / "out")
    assert set(found.status) == {"exact"}
    assert_same_bits(found, explainer(make_rows(5), budget=5000, rng=0, keep=False))


def test_categories_and_gaps_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    names = ["<b>", 'a & "b"', "x" * 60]
    frame = pandas.DataFrame(
        {
            "colour": rng.choice(names, 30),
            "level": pandas.Categorical(rng.choice(["low", "high"], 30), categories=["low", "high", "unused"]),
            "flag": rng.integers(0, 2, 30).astype(bool),
            "number": rng.normal(size=30),
        }
    )
    frame.loc[3, "number"] = np.nan

    def of_frame(rows: pandas.DataFrame) -> Any:
        codes = rows["colour"].astype(str).map({n: i for i, n in enumerate(names)} | {"new": 3}).to_numpy(float)
        return np.tanh(codes - 1) * (1 + rows["flag"].to_numpy(float)) + rows["level"].cat.codes.to_numpy() * (
            rows["number"].fillna(9).to_numpy() / 5
        )

    explainer = cs.Explainer(of_frame, frame, estimator="permutation", control="none", seconds_per_evaluation=1e-6)
    rows = frame.iloc[:8].copy()
    rows.loc[7, "colour"] = "new"
    path = write(rows.reset_index(drop=True), tmp_path / "rows.parquet")
    explainer.explain_dataset(path, tmp_path / "out", part_rows=3, budget=100, rng=0)
    found, direct = cs.load(tmp_path / "out"), explainer(rows, budget=100, rng=0, keep=False)
    assert found.values.tobytes() == direct.values.tobytes()
    assert found.data[:, 0].tolist() == rows["colour"].tolist()
    assert found.data[:, 1].tolist() == rows["level"].tolist()
    assert found.data[:, 2].tolist() == rows["flag"].tolist()
    assert math.isnan(found.data[3, 3])
    assert found.player_data()[7, 0] == "new"


def test_parts_are_plain_tables(tmp_path: Path) -> None:
    make_explainer().explain_dataset(make_rows(7), tmp_path / "out", part_rows=3, **CALL)
    frame = pandas.read_parquet(tmp_path / "out" / "parts")
    assert frame["row"].tolist() == list(range(7))
    explanation = cs.load(tmp_path / "out")
    np.testing.assert_array_equal(frame[[f"value:{name}" for name in NAMES]], explanation.values)
    np.testing.assert_array_equal(frame[[f"error:{name}" for name in NAMES]], explanation.standard_errors)
    np.testing.assert_array_equal(frame[[f"data:{name}" for name in NAMES]], make_rows(7))
    assert set(frame["status"]) == {"budget reached"}


def test_cheap_rows_get_larger_parts(tmp_path: Path) -> None:
    assert choose_part_rows(seconds=60.0, n_rows=10**6, n_jobs=1) == 50
    assert choose_part_rows(seconds=0.1, n_rows=10**6, n_jobs=1) == 200
    assert choose_part_rows(seconds=1e-4, n_rows=10**6, n_jobs=1) == 10_000
    assert choose_part_rows(seconds=1e-4, n_rows=4000, n_jobs=1) == 100
    assert choose_part_rows(seconds=1e-4, n_rows=80_000, n_jobs=100) == 100, "every worker gets some"
    result = make_explainer().explain_dataset(make_rows(60), tmp_path / "out", **CALL)
    assert result.n_parts == 2


def test_measuring_is_cheap_where_the_model_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "AFFORDED", 0.0)
    counted = CountedModel()
    call: dict[str, Any] = {"budget": 20_000, "rng": 0}
    make_explainer(counted).explain_dataset(make_rows(1), tmp_path / "out", **call)
    spent = int(cs.load(tmp_path / "out").n_evaluations.sum())
    assert spent > 15_000
    assert counted.n_rows <= 8 + 2_000 + spent
    monkeypatch.setattr(probe, "FIRST", 3)  # less than any row needs
    make_explainer(counted).explain_dataset(make_rows(1), tmp_path / "again", **call)


# ---- stopping and resuming


class CountedModel:
    """Says which rows were asked for, and does something at the marked one."""

    def __init__(self, at_mark: Any = None) -> None:
        self.n_rows = 0
        self.at_mark = at_mark

    def __call__(self, rows: Any) -> Any:
        values = np.asarray(rows, dtype=float)
        if self.at_mark is not None and (values[:, 0] == MARK).any():
            self.at_mark()
        self.n_rows += len(values)
        return model(np.where(values == MARK, 0.0, values))


def marked(rows: pandas.DataFrame, row: int) -> pandas.DataFrame:
    changed = rows.copy()
    changed.iloc[row, 0] = MARK
    return changed


def undisturbed(rows: pandas.DataFrame, folder: Path) -> cs.Explanation:
    make_explainer(CountedModel()).explain_dataset(rows, folder, part_rows=5, **CALL)
    return cs.load(folder)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_source_that_changes_during_the_run_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    make_rows().to_csv(file, index=False)
    before = file.read_bytes()

    def write(now: Progress) -> None:
        if 0 < now.rows_done < now.n_rows:
            file.write_bytes(before.replace(b".1", b".2"))

    explainer = make_explainer()
    with pytest.raises(cs.InvalidArgumentError, match=r"'rows.csv' was written to or removed while .* from a copy"):
        explain_dataset(explainer, file, tmp_path / "out", part_rows=10, progress=write, **CALL)
    # the next run has another hash, and negative control: a source that stays is fine
    with pytest.raises(cs.InvalidArgumentError, match="source"):
        explain_dataset(explainer, file, tmp_path / "out", part_rows=10, **CALL)
    assert explain_dataset(explainer, file, tmp_path / "other", part_rows=10, **CALL).n_done == 3


def test_an_interrupt_loses_the_part_under_way(tmp_path: Path) -> None:
    rows, out = marked(make_rows(), 12), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        make_explainer(CountedModel(interrupt)).explain_dataset(rows, out, part_rows=5, **CALL)
    assert sorted(p.name for p in (out / "parts").iterdir()) == ["part-000000.parquet", "part-000001.parquet"]
    with pytest.raises(cs.InvalidArgumentError, match=r"3 of 5 parts are missing.*\(2, 3, 4\).*allow_partial"):
        cs.load(out)
    assert len(load_dataset(out, allow_partial=True)) == 10
    second = CountedModel()
    result = make_explainer(second).explain_dataset(rows, out, part_rows=5, **CALL)
    assert (result.n_done, result.n_parts) == (5, 5)
    whole = undisturbed(rows, tmp_path / "whole")
    assert_same_bits(cs.load(out), whole)
    assert result.n_evaluations == whole.n_evaluations.sum()
    assert second.n_rows == 8 + whole.n_evaluations[10:].sum(), "the background, and what was missing"
    third = CountedModel()
    make_explainer(third).explain_dataset(rows, out, part_rows=5, **CALL)
    assert third.n_rows == 8, "nothing is left to do"


def test_a_full_disk_stops_the_run_and_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls, out = os.fsync, [], tmp_path / "out"

    def full(handle: int) -> None:
        calls.append(handle)
        if len(list((out / "parts").glob("part-*"))) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(part_files.os, "fsync", full)
        with pytest.raises(RunStoppedError, match=r"No space left.*2 of 5 parts are done and kept; run the same again"):
            make_explainer(CountedModel()).explain_dataset(make_rows(), out, part_rows=5, **CALL)
    assert sorted(p.name for p in (out / "parts").iterdir()) == ["part-000000.parquet", "part-000001.parquet"]
    make_explainer(CountedModel()).explain_dataset(make_rows(), out, part_rows=5, **CALL)
    assert_same_bits(cs.load(out), undisturbed(make_rows(), tmp_path / "whole"))


def fail() -> None:
    raise OSError("the model's own file is gone")  # must not look like a full disk


def test_a_model_that_raises_spoils_its_part_only(tmp_path: Path) -> None:
    rows, out = marked(make_rows(), 12), tmp_path / "out"
    with pytest.warns(cs.ControlShapWarning, match="1 of 5 parts failed.*rows 10 to 14.*own file is gone"):
        result = make_explainer(CountedModel(fail)).explain_dataset(rows, out, part_rows=5, **CALL)
    assert result.n_done == 4
    (one,) = result.failed
    assert (one.part, one.rows) == (2, (10, 15))
    assert "the model's own file is gone" in one.reason
    assert json.loads((out / "failed.json").read_text())["failed"][0]["rows"] == [10, 15]
    with pytest.raises(cs.InvalidArgumentError, match=r"1 of 5 parts are missing.*1 failed, part 2 by OSError"):
        cs.load(out)
    result = make_explainer(CountedModel()).explain_dataset(rows, out, part_rows=5, **CALL)
    assert result.failed == ()
    assert not (out / "failed.json").exists()
    assert_same_bits(cs.load(out), undisturbed(rows, tmp_path / "whole"))


def test_a_part_that_kills_its_process_is_found_out(tmp_path: Path) -> None:
    rows, out = marked(make_rows(), 12), tmp_path / "out"

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.warns(cs.ControlShapWarning, match="1 of 5 parts failed"):
        result = make_explainer(CountedModel(die)).explain_dataset(rows, out, part_rows=5, n_jobs=2, **CALL)
    assert [(one.part, one.rows) for one in result.failed] == [(2, (10, 15))]
    assert "died" in result.failed[0].reason
    assert result.n_done == 4
    make_explainer(CountedModel()).explain_dataset(rows, out, part_rows=5, **CALL)
    assert_same_bits(cs.load(out), undisturbed(rows, tmp_path / "whole"))


CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
from test_dataset import CALL, CountedModel, make_explainer, make_rows, marked, tell_and_wait

if __name__ == "__main__":
    call = CALL | {"part_rows": 5, "n_jobs": int(sys.argv[3])}
    make_explainer(CountedModel(tell_and_wait)).explain_dataset(marked(make_rows(), 22), sys.argv[2], **call)
"""


def tell_and_wait() -> None:
    sys.stdout.write(f"{os.getpid()}\n")
    sys.stdout.flush()
    time.sleep(300)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_killed_client_can_be_run_again(tmp_path: Path, n_jobs: int) -> None:
    out, script = tmp_path / "out", tmp_path / "client.py"
    script.write_text(CLIENT)
    command = [sys.executable, str(script), str(Path(__file__).parent), str(out), str(n_jobs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        worker = int(client.stdout.readline())  # it is within the last part now
        while len(list((out / "parts").glob("part-*"))) < 4:
            time.sleep(0.05)
        client.kill()
    until = time.monotonic() + 30
    while Path(f"/proc/{worker}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists(), "workers end with their client"
    left = sorted(p.name for p in (out / "parts").iterdir())
    assert left[0].startswith(".part-000004"), "the part under way has a temporary name"
    assert left[1:] == [f"part-{part:06d}.parquet" for part in range(4)]
    rows, second = marked(make_rows(), 22), CountedModel()
    make_explainer(second).explain_dataset(rows, out, part_rows=5, **CALL)
    whole = undisturbed(rows, tmp_path / "whole")
    assert_same_bits(cs.load(out), whole)
    assert second.n_rows == 8 + whole.n_evaluations[20:].sum()
    assert not list((out / "parts").glob(".*"))


def test_a_run_without_a_seed_goes_on_with_its_own(tmp_path: Path) -> None:
    out = tmp_path / "out"
    make_explainer().explain_dataset(make_rows(), out, part_rows=5, budget=120)
    before = cs.load(out)
    part_path(out, 1).unlink()
    make_explainer().explain_dataset(make_rows(), out, budget=120)
    assert_same_bits(cs.load(out), before)


def test_another_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    out, rows = tmp_path / "out", make_rows()
    make_explainer().explain_dataset(rows, out, part_rows=5, model_hash="one", **CALL)
    other_rows, other_background = rows.copy(), make_explainer()
    other_rows.iloc[3, 3] += 1e-12
    other_background._background[0, 0] += 1e-12
    fitted = make_explainer()
    fitted.fit_surrogate(rows, budget=200, learner=cs.LogisticRidge(), rng=0)

    def almost(x: Any) -> Any:
        return model(x) + 1e-4 * np.asarray(x)[:, 0]

    cases: dict[str, tuple[Any, ...]] = {
        "call, budget": (make_explainer(), rows, {"budget": 121}),
        "entropy": (make_explainer(), rows, {"rng": 5}),
        "call, tolerance": (make_explainer(), rows, {"tolerance": 0.1}),
        "source, sha256": (make_explainer(), other_rows, {}),
        "source, rows": (make_explainer(), rows.iloc[:-1], {}),
        "settings: control": (make_explainer(control="taylor"), rows, {}),
        "settings: estimator": (make_explainer(estimator="kernel", control="none"), rows, {}),
        "array background": (other_background, rows, {}),
        "player_names": (make_explainer(groups={"pair": ["c0", "c1"]}), rows, {}),
        "shared": (fitted, rows, {}),
        "model_hash": (make_explainer(), rows, {"model_hash": "two"}),
        "part_rows .5 there, 6 here": (make_explainer(), rows, {"part_rows": 6}),
        "another model": (make_explainer(almost), rows, {}),
    }
    before = {p.name: p.read_bytes() for p in (out / "parts").iterdir()}
    for name, (explainer, data, changed) in cases.items():
        call = {"part_rows": 5, "model_hash": "one"} | CALL | changed
        with pytest.raises(cs.InvalidArgumentError, match=name) as caught:
            explainer.explain_dataset(data, out, **call)
        assert "another" in str(caught.value)
    assert {p.name: p.read_bytes() for p in (out / "parts").iterdir()} == before
    result = make_explainer().explain_dataset(rows, out, part_rows=5, model_hash="one", **CALL)
    assert result.n_done == 5, "the same run is welcome"


def test_a_part_of_another_run_is_refused(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("two", 2)):
        make_explainer().explain_dataset(make_rows(), tmp_path / name, part_rows=5, budget=120, rng=seed)
    part_path(tmp_path / "one", 2).replace(part_path(tmp_path / "two", 2))
    with pytest.raises(cs.InvalidArgumentError, match=r"part-000002\.parquet' is of another run"):
        cs.load(tmp_path / "two")
    with pytest.raises(cs.InvalidArgumentError, match=r"part-000002\.parquet' is of another run"):
        make_explainer().explain_dataset(make_rows(), tmp_path / "two", part_rows=5, budget=120, rng=2)
    part_path(tmp_path / "two", 2).write_bytes(b"PAR1 half")
    with pytest.raises(cs.InvalidArgumentError, match="damaged"):
        make_explainer().explain_dataset(make_rows(), tmp_path / "two", part_rows=5, budget=120, rng=2)


@pytest.mark.parametrize("content", ["{", "[]", '{"kind": "else"}', '{"kind": "controlshap data set", "schema": 99}'])
def test_manifests_that_are_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(cs.InvalidArgumentError, match="manifest"):
        cs.load(tmp_path)
    with pytest.raises(cs.InvalidArgumentError, match="manifest"):
        make_explainer().explain_dataset(make_rows(), tmp_path, **CALL)


def test_bad_arguments(tmp_path: Path) -> None:
    explainer, rows = make_explainer(), make_rows()
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        ("give a folder", tmp_path / "file", {}),
        ("thesis.tex", tmp_path / "full", {}),
        ("part_rows", tmp_path / "out", {"part_rows": 0}),
        ("progress", tmp_path / "out", {"progress": "bar"}),
        ("exclude each other", tmp_path / "out", {"n_jobs": 2, "scheduler": "tcp://127.0.0.1:1"}),
        ("n_jobs", tmp_path / "out", {"n_jobs": 0}),
        ("model_hash", tmp_path / "out", {"model_hash": 3}),
        ("budget", tmp_path / "out", {"budget": 3}),
        ("budget", tmp_path / "out", {"budget": 0}),
    ]
    for message, out, changed in cases:
        with pytest.raises(cs.InvalidArgumentError, match=message):
            explainer.explain_dataset(rows, out, **(CALL | changed))
    with pytest.raises(cs.InvalidArgumentError, match=r"lacks the column\(s\) \['c4'\]"):
        explainer.explain_dataset(rows.drop(columns="c4"), tmp_path / "out", **CALL)
    assert not list(tmp_path.glob("out/parts/part*"))


# ---- the loop, with workers that do as they are told


class ScriptedPool:
    """Answers for parts in order; a killer takes all that is under way with it, as a broken pool does."""

    def __init__(self, folder: Path, killers: set[int], window: int = 4, *, writes: bool = True) -> None:
        self.folder, self.killers, self.window, self.writes = folder, killers, window, writes
        self.deaths_allowed = 2
        self.waiting: deque[Task] = deque()
        self.tried: list[int] = []
        self.most = 0

    def submit(self, task: Task) -> None:
        self.waiting.append(task)
        self.most = max(self.most, len(self.waiting))

    def wait(self) -> list[Outcome]:
        task = self.waiting.popleft()
        self.tried.append(task.part)
        if task.part in self.killers:
            lost = [task, *self.waiting]
            self.waiting.clear()
            return [Outcome(one.part, "lost", "its worker died") for one in lost]
        if self.writes:
            part_path(self.folder, task.part).touch()
        return [Outcome(task.part, "done", "", 10)]

    def close(self, *, broken: bool) -> None: ...


def scripted(folder: Path, killers: set[int], n_parts: int = 20, **how: Any) -> tuple[ScriptedPool, Ended]:
    (folder / "parts").mkdir(parents=True)
    pool, ended = ScriptedPool(folder, killers, **how), Ended()
    job: Any = type("Job", (), {"folder": folder, "run": "x"})
    tasks = (Task(part, 5 * part, 5 * part + 5) for part in range(n_parts))
    run_parts(pool, job, tasks, lambda *_: None, ended)
    return pool, ended


def test_the_innocent_are_not_blamed(tmp_path: Path) -> None:
    pool, ended = scripted(tmp_path, {3, 4, 17})
    assert sorted(one.part for one in ended.failed) == [3, 4, 17]
    assert ended.n_done == 17
    assert pool.most == 4, "the window is bounded"
    assert all(pool.tried.count(part) == 1 for part in range(20) if part not in (3, 4, 17)), "nothing is done twice"


def test_a_file_that_is_there_counts_whatever_the_pool_says(tmp_path: Path) -> None:
    make_explainer().explain_dataset(make_rows(5), tmp_path / "out", part_rows=5, **CALL)
    run = json.loads((tmp_path / "out" / "manifest.json").read_text())["hash"]
    pool, ended = ScriptedPool(tmp_path / "out", {0}), Ended()
    job: Any = type("Job", (), {"folder": tmp_path / "out", "run": run})
    run_parts(pool, job, [Task(0, 0, 5)], lambda *_: None, ended)
    assert (ended.n_done, ended.failed) == (1, [])
    assert ended.n_evaluations == cs.load(tmp_path / "out").n_evaluations.sum()


def test_a_folder_that_workers_do_not_share_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlshap.dataset.loop.SEEN_AFTER", 0.1)
    with pytest.raises(RunStoppedError, match="folder that all workers and this process share"):
        scripted(tmp_path, set(), writes=False)


# ---- progress, warnings


def test_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    explainer, rows, seen = make_explainer(), make_rows(), []
    explainer.explain_dataset(rows, tmp_path / "a", part_rows=5, progress=seen.append, **CALL)
    assert [one.rows_done for one in seen] == [5, 10, 15, 20, 23]
    assert all(isinstance(one, Progress) and one.n_rows == 23 for one in seen)
    assert seen[0].seconds_left > 0 == seen[-1].seconds_left
    assert seen[-1].evaluations_per_second > 0
    assert capsys.readouterr() == ("", "")
    explainer.explain_dataset(rows, tmp_path / "b", part_rows=5, **CALL)
    explainer.explain_dataset(rows, tmp_path / "c", part_rows=5, progress=False, **CALL)
    assert capsys.readouterr() == ("", ""), "silent where nobody looks"
    explainer.explain_dataset(rows, tmp_path / "d", part_rows=5, progress="json", **CALL)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["rows_done"] for line in lines] == [5, 10, 15, 20, 23]
    explainer.explain_dataset(rows, tmp_path / "e", part_rows=5, progress=True, **CALL)
    assert "23/23" in capsys.readouterr().err


def test_a_bar_on_a_terminal(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_dataset import CALL, make_explainer, make_rows\n"
        "make_explainer().explain_dataset(make_rows(), sys.argv[2], part_rows=5, **CALL)\n"
    )
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    command = [sys.executable, "-c", script, str(Path(__file__).parent), str(tmp_path / "out")]
    subprocess.run(command, stderr=other, check=True, timeout=120)
    os.close(other)
    assert b"23/23" in os.read(main, 100_000)
    os.close(main)


def test_warnings_of_many_rows_are_one(tmp_path: Path) -> None:
    with pytest.warns(cs.NotConvergedWarning, match="23 time.*the first: Row 0") as caught:
        make_explainer().explain_dataset(make_rows(), tmp_path / "out", part_rows=5, tolerance=1e-9, **CALL)
    assert len(caught) == 1


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(make_rows(), tmp_path / "rows.csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(cs.MissingExtraError, match=r"controlshap\[parquet\]"):
        open_source(path)
    with pytest.raises(cs.MissingExtraError, match=r"controlshap\[parquet\]"):
        explain_dataset(make_explainer(), make_rows(), tmp_path / "out")


def test_a_negative_control_of_the_bits() -> None:
    explanation = make_explainer()(make_rows(2), **CALL)
    other = replace(explanation, values=np.nextafter(explanation.values, np.inf))
    with pytest.raises(AssertionError):
        assert_same_bits(explanation, other)


def test_digits_that_are_names_stay_names(tmp_path):
    frame = pandas.DataFrame({"town": ["02", "10", "02", "10"] * 5, "a": np.linspace(-1, 1, 20)})
    (tmp_path / "rows.csv").write_text(frame.head(6).to_csv(index=False))

    def model(rows):
        assert set(rows["town"]) <= {"02", "10"}
        return (rows["town"] == "02").to_numpy() * rows["a"].to_numpy()

    explainer = cs.Explainer(model, frame)
    explainer.explain_dataset(tmp_path / "rows.csv", tmp_path / "out", budget=500, rng=0, progress=False)
    np.testing.assert_array_equal(cs.load(tmp_path / "out").values, explainer(frame.head(6), budget=500, rng=0).values)
