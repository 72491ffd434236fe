"""A data set in parts has the bits of one call, whatever its rows hold."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from dataset_cases import CALL, N_COLUMNS, NAMES, assert_same_bits, interrupt, make_explainer, make_rows, model, write

import controlshap as cs
from controlshap.datasets.part_file import part_path


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


@pytest.mark.slow
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
    assert explainer._assembly.cache == {}, "what a run measures is its own"


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
