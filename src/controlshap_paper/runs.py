"""Repeated explanations of a cell's rows by one method, on disk as arrays and JSON."""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import controlshap as cs
from controlshap._types import FloatArray
from controlshap_paper.cells import Cell, Size, budget_of, make_explainer, rows_of
from controlshap_paper.data import PaperData, load
from controlshap_paper.models import make_model
from controlshap_paper.published import explained_rows

#: Changes when results of earlier versions no longer compare.
SCHEMA = 2


@dataclass(frozen=True)
class Estimates:
    """What the runs said.

    Attributes
    ----------
    controlled, uncontrolled, standard_errors, anticipated : ndarray of shape (runs, rows, players)
        Values with and without control, reported errors of the former, and the reduction of variance that was foreseen.
    base_values : ndarray of shape (runs, rows)
    predictions, n_evaluations : ndarray of shape (rows,)
    """

    controlled: FloatArray
    uncontrolled: FloatArray
    standard_errors: FloatArray
    anticipated: FloatArray
    base_values: FloatArray
    predictions: FloatArray
    n_evaluations: FloatArray


@lru_cache(maxsize=3)
def prepared(data: str, model: str, folder: Path | None) -> tuple[PaperData, Any]:
    """The data and the fitted model, kept for the next cell of this process."""
    sets = load(data, folder)
    return sets, make_model(model, sets, folder)


def run_cell(cell: Cell, method: str, size: Size, folder: Path | None, seed: int) -> Estimates:
    """Explain the cell's rows `n_runs` times."""
    sets, model = prepared(cell.data, cell.model, folder)
    X = rows_of(cell, sets)[explained_rows(sets, cell.model, size.n_rows)]
    runs: list[list[FloatArray]] = []
    with warnings.catch_warnings():
        # what the paper's settings are warned about (nearly singular one-hot columns, erratic groups) is what is shown
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        explainer = make_explainer(cell, method, model, sets, size, seed, 0)
        budget = budget_of(cell, explainer, sets, size.n_coalitions, spent=method == "default")
        for run in range(size.n_runs):
            if run and cell.features == "correlated" and method != "default":  # D matrices of its own
                explainer = make_explainer(cell, method, model, sets, size, seed, run)
            if method == "grouped":
                parts = [_explained(explainer, x[None], budget, [seed, run, row]) for row, x in enumerate(X)]
                runs.append([np.concatenate(part) for part in zip(*parts, strict=True)])
                continue
            found = explainer(X, budget=budget, rng=np.random.SeedSequence([seed, run]), keep=False)
            runs.append(_arrays(found))
            if (found.status == "exact").all():
                runs *= size.n_runs  # every run says the same
                break
    probabilities = model if callable(model) else lambda rows: model.predict_proba(rows)[:, 1]
    *stacked, n_evaluations = (np.stack(part) for part in zip(*runs, strict=True))
    predictions = np.asarray(probabilities(X), dtype=np.float64)
    return Estimates(*stacked, predictions, n_evaluations.mean(axis=0))  # type: ignore[call-arg]


def _arrays(found: cs.Explanation) -> list[FloatArray]:
    """In the order of `Estimates`, without the predictions."""
    values = (found.values, found.uncontrolled_values, found.standard_errors, found.variance_reduction)
    return [*values, found.base_values, found.n_evaluations.astype(np.float64)]


def _explained(explainer: cs.Explainer, x: FloatArray, budget: int, seeds: list[int]) -> list[FloatArray]:
    """One row; NaN where a group of coalitions does not determine the values, as the paper's own runs have them."""
    try:
        return _arrays(explainer(x, budget=budget, rng=np.random.SeedSequence(seeds), keep=False))
    except cs.SingularSystemError:
        missing = np.full((1, len(explainer.feature_names)), np.nan)
        return [missing, missing, missing, missing, missing[:, 0], np.full(1, float(budget))]


def save(out: Path, name: str, arrays: dict[str, FloatArray], about: dict[str, Any]) -> None:
    """Arrays, then what they are: without the second file the first counts as not there."""
    out.mkdir(parents=True, exist_ok=True)
    part = out / f"{name}.{os.getpid()}.part"
    with part.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    (out / f"{name}.json").unlink(missing_ok=True)  # of an earlier result
    part.replace(out / f"{name}.npz")
    part.write_text(json.dumps(about, indent=1, sort_keys=True) + "\n")
    part.replace(out / f"{name}.json")


def describe(size: Size, seed: int, **more: Any) -> dict[str, Any]:
    """What a result depends on, and what it was made with."""
    versions = {"controlshap": cs.__version__, "numpy": np.__version__, "python": platform.python_version()}
    return {"schema": SCHEMA, "seed": seed, "size": asdict(size), "versions": versions, **more}


def is_done(out: Path, name: str, size: Size, seed: int) -> bool:
    """Whether a result of this size and seed is there."""
    file = out / f"{name}.json"
    if not (file.is_file() and file.with_suffix(".npz").is_file()):
        return False
    about = json.loads(file.read_text())
    return bool(about["schema"] == SCHEMA and about["seed"] == seed and about["size"] == asdict(size))


def read(out: Path, name: str) -> Estimates:
    """What was saved."""
    with np.load(out / f"{name}.npz") as stored:
        return Estimates(*(stored[field.name] for field in fields(Estimates)))


def run_and_save(
    cell: Cell, method: str, size: Size, folder: Path | None, seed: int, out: Path, known: Estimates | None = None
) -> float:
    """Seconds it took; `known` are estimates that need no run."""
    began = time.perf_counter()
    found = known or run_cell(cell, method, size, folder, seed)
    seconds = time.perf_counter() - began
    about = describe(size, seed, cell=asdict(cell), method=method, seconds=round(seconds, 1))
    save(out, f"{cell.name}-{method}", {field.name: getattr(found, field.name) for field in fields(found)}, about)
    return seconds
