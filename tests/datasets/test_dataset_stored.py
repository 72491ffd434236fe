"""Large results: columns read when they are asked for, the same numbers as when everything is read at once."""

from __future__ import annotations

import os
import pickle
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from dataset_cases import CALL, assert_same_bits, make_explainer, make_rows

import controlshap as cs
from controlshap.datasets import result, stored
from controlshap.datasets.part_file import part_path


def two_outputs(rows: Any) -> Any:
    values = np.asarray(rows, dtype=float)
    return np.column_stack([np.tanh(values.sum(axis=1)), values[:, 0] * values[:, 1]])


def with_category() -> tuple[cs.Explainer, pandas.DataFrame]:
    frame = pandas.DataFrame({"size.x": np.arange(12.0), "size": list("abcabcabcabc"), "s:z": np.arange(12) % 5})
    explainer = cs.Explainer(lambda rows: rows["size.x"] * (rows["size"] == "a") + rows["s:z"], frame[:6])
    return explainer, frame


def run_interactions(out: Path) -> None:
    make_explainer().explain_dataset(make_rows(12), out, part_rows=5, interactions=2, **CALL)


RUNS = {
    "one output": lambda out: make_explainer().explain_dataset(make_rows(12), out, part_rows=5, **CALL),
    "two outputs": lambda out: make_explainer(two_outputs).explain_dataset(make_rows(12), out, part_rows=5, **CALL),
    "names with dots": lambda out: with_category()[0].explain_dataset(with_category()[1], out, part_rows=5, rng=0),
    "interactions": run_interactions,
}


@pytest.fixture(params=RUNS)
def both(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[cs.Explanation, cs.Explanation]:
    RUNS[request.param](tmp_path / "out")
    whole = cs.load(tmp_path / "out")
    assert type(whole) is cs.Explanation
    return whole, by_columns(tmp_path / "out", monkeypatch)


def by_columns(out: Path, monkeypatch: pytest.MonkeyPatch) -> cs.Explanation:
    monkeypatch.setattr(result, "AT_ONCE", 0)
    explanation = cs.load(out)
    assert isinstance(explanation, stored.StoredExplanation)
    return explanation


def test_every_way_to_read_gives_the_same_bits(both: tuple[cs.Explanation, cs.Explanation], tmp_path: Path) -> None:
    whole, lazy = both
    assert len(lazy) == len(whole)
    for rows in (3, -1, slice(1, 9), slice(None, None, -3), np.arange(12) % 3 == 0, [7, 2, 7, 11], []):
        assert_same_bits(whole[rows], lazy[rows])
    for one, other in zip(whole, lazy, strict=True):
        assert_same_bits(one, other)
    output = 1 if whole.values.ndim == 3 else None
    assert_same_bits(whole.output(output), lazy.output(output))
    assert type(pickle.loads(pickle.dumps(lazy))) is cs.Explanation
    assert_same_bits(whole, pickle.loads(pickle.dumps(lazy)))
    changed = replace(lazy, settings={})
    assert type(changed) is cs.Explanation
    assert_same_bits(replace(whole, settings={}), changed)
    assert_same_bits(cs.Explanation.concat([whole, whole]), cs.Explanation.concat([lazy, whole]))
    assert_same_bits(whole, cs.load(lazy.save(tmp_path / "saved")))
    assert repr(lazy) == repr(whole)
    assert_same_bits(whole, lazy)


def test_only_what_was_asked_for_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RUNS["one output"](tmp_path / "out")
    explanation, opened = by_columns(tmp_path / "out", monkeypatch), len(os.listdir("/dev/fd"))
    explanation[4:7].summary()
    kept = {field.name for field in fields(explanation)} & set(vars(explanation))
    assert not kept & set(stored.ROWS)
    assert explanation.values.shape == (12, 5)
    assert explanation.values is explanation.values
    assert set(vars(explanation)) & set(stored.ROWS) == {"values"}
    assert len(os.listdir("/dev/fd")) == opened


def test_damage_is_noticed_where_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RUNS["one output"](tmp_path / "out")
    explanation, path = by_columns(tmp_path / "out", monkeypatch), part_path(tmp_path / "out", 1)
    written = path.read_bytes()
    changed = bytearray(written)
    changed[written.index(b"PAR1") + 600] ^= 4  # in a page of values
    path.write_bytes(bytes(changed))
    with pytest.raises(cs.InvalidArgumentError, match=r"part-000001\.parquet' is damaged"):
        [getattr(explanation, name) for name in stored.ROWS]
    shutil.copy(part_path(tmp_path / "out", 0), path)
    with pytest.raises(cs.InvalidArgumentError, match="must hold the rows 5 to 9"):
        _ = explanation.covariance
    path.unlink()
    with pytest.raises(cs.InvalidArgumentError, match=r"part-000001\.parquet' is damaged .*No such file"):
        _ = explanation.covariance
    with pytest.raises(cs.InvalidArgumentError, match="1 of 3 parts are missing"):
        cs.load(tmp_path / "out")
    path.write_bytes(written)
    assert explanation.covariance.shape == (12, 5, 5)
