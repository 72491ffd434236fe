"""Some rows of a data set keep their numbers, and so their values; how rows are cut is no part of what they are."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import controlshap as cs
from controlshap.datasets import open_source
from controlshap.datasets.sources import cut_parts

NAMES = ["a", "b", "c"]
ROWS = pandas.DataFrame(np.random.default_rng(0).normal(size=(23, 3)), columns=NAMES)


def model(rows):
    values = np.asarray(rows, dtype=float)
    return np.tanh(values[:, 0] * values[:, 1] + values[:, 2])


def make_explainer(function=model):
    background = pandas.DataFrame(np.random.default_rng(1).normal(size=(6, 3)), columns=NAMES)
    return cs.Explainer(function, background, estimator="permutation", control="none", seconds_per_evaluation=1e-6)


def test_parts_of_some_rows_start_with_each_file():
    assert cut_parts([10, 5, 20], 8, (3, 17)).tolist() == [3, 10, 15, 17]
    assert cut_parts([10, 5, 20], 8, (10, 15)).tolist() == [10, 15]
    every = [0, 8, 10, 15, 23, 31, 35]
    assert cut_parts([10, 5, 20], 8).tolist() == cut_parts([10, 5, 20], 8, (0, 35)).tolist() == every


@pytest.mark.parametrize("kind", ["memory", "csv", "folder"])
def test_some_rows_have_the_values_of_a_run_over_all(kind, tmp_path):
    source = ROWS
    if kind == "csv":
        source = tmp_path / "rows.csv"
        ROWS.to_csv(source, index=False)
    elif kind == "folder":
        source = tmp_path / "rows"
        source.mkdir()
        for number, first in enumerate((0, 9, 15)):
            ROWS[first : (9, 15, 23)[number]].to_parquet(source / f"{number}.parquet")
    every = make_explainer()(ROWS, budget=60, rng=4)
    result = make_explainer().explain_dataset(
        source, tmp_path / "out", budget=60, rng=4, rows=(5, 19), part_rows=4, n_jobs=1
    )
    found = cs.load(tmp_path / "out")
    assert (result.n_rows, len(found)) == (14, 14)
    assert found.values.tobytes() == every.values[5:19].tobytes()
    assert found.standard_errors.tobytes() == every.standard_errors[5:19].tobytes()
    first = pandas.read_parquet(tmp_path / "out" / "parts" / "part-000000.parquet")
    assert first["row"].tolist() == [5, 6, 7, 8]
    with pytest.raises(cs.InvalidArgumentError, match=r"source, rows 1 .19 there, 20 here"):
        make_explainer().explain_dataset(source, tmp_path / "out", budget=60, rng=4, rows=(5, 20), part_rows=4)


def test_rows_that_fail_are_told_by_their_numbers(tmp_path):
    def fails(rows):
        if (np.asarray(rows)[:, 0] == ROWS["a"][11]).any():
            raise ValueError("not this one")
        return model(rows)

    with pytest.warns(cs.ControlShapWarning, match="the first, rows 11 to 11"):
        result = make_explainer(fails).explain_dataset(ROWS, tmp_path, budget=60, rng=4, rows=(9, 13), part_rows=1)
    assert result.failed[0].rows == (11, 12)


@pytest.mark.parametrize("rows", [(3, 3), (-1, 4), (0, 24), (0.5, 3), (True, 3), 4, (1, 2, 3)])
def test_rows_that_are_not_there(rows, tmp_path):
    with pytest.raises(cs.InvalidArgumentError, match="`rows`"):
        make_explainer().explain_dataset(ROWS, tmp_path / "out", budget=60, rng=4, rows=rows)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["array", "pandas"])
def test_a_sample_of_some_rows_is_of_these(kind):
    source = open_source(ROWS.to_numpy() if kind == "array" else ROWS, 4).between(6, 20)
    assert np.asarray(source.sample(5)).tolist() == np.asarray(source.recut(3).sample(5)).tolist()
    inside = ROWS[6:20].to_numpy().tolist()
    assert all(row in inside for row in np.asarray(source.sample(5)).tolist())


@pytest.mark.parametrize("kind", ["array", "pandas"])
def test_rows_in_memory_are_the_same_however_they_are_cut(kind):
    data = ROWS.to_numpy() if kind == "array" else ROWS
    assert open_source(data, 3).describe() == open_source(data, 50).describe()
    assert open_source(data, 3).describe() != open_source(data[::-1], 3).describe()


@pytest.mark.slow
def test_a_run_over_many_cheap_rows_in_memory_goes_on(tmp_path):
    rows = np.random.default_rng(2).normal(size=(3300, 2))
    explainer = cs.Explainer(lambda x: x[:, 0] * x[:, 1], rows[:2], estimator="permutation", control="none")
    first = explainer.explain_dataset(rows, tmp_path, budget=20, rng=0)
    assert first.n_parts < 66  # they were cut anew after they were measured
    assert explainer.explain_dataset(rows, tmp_path, budget=20, rng=0).n_done == first.n_parts
