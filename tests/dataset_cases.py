"""Rows, models and explainers of data sets in parts; importable, so that other processes find them."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas

import controlshap as cs

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


def write(frame: pandas.DataFrame, path: Path) -> Path:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=37)
    else:
        frame.to_feather(path)
    return path


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


def tell_and_wait() -> None:
    sys.stdout.write(f"{os.getpid()}\n")
    sys.stdout.flush()
    time.sleep(300)
