"""The values that estimates are held against: exact where the model has a known form, else from one long run."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

import numpy as np

import controlshap as cs
from controlshap._types import FloatArray
from controlshap_paper.cells import SECONDS, Cell, Size, background_of, rows_of
from controlshap_paper.published import explained_rows
from controlshap_paper.runs import Estimates, describe, is_done, prepared, save

#: Added to the seed of the runs, so that the long run shares no draws with them.
TRUTH_SEED = 1_000_003


def truth_name(cell: Cell) -> str:
    """The same for both estimators, which estimate the same values."""
    return f"truth-{cell.data}-{cell.model}-{cell.features}"


def find_truth(cell: Cell, size: Size, folder: Path | None, seed: int, out: Path) -> float:
    """Explain the rows once, with the default method and many evaluations; seconds it took."""
    began = time.perf_counter()
    sets, model = prepared(cell.data, cell.model, folder)
    X = rows_of(cell, sets)[explained_rows(sets, cell.model, size.n_rows)]
    background = background_of(cell, sets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        explainer = cs.Explainer(
            model, background, features=cell.features, groups=sets.several, max_background=len(background),
            seconds_per_evaluation=SECONDS[cell.model],
        )  # fmt: skip
        found = explainer(X, budget=size.truth_budget, rng=seed + TRUTH_SEED, keep=False)
    arrays = {"values": found.values, "standard_errors": found.standard_errors, "base_values": found.base_values}
    arrays["predictions"] = found.values.sum(axis=1) + found.base_values
    seconds = time.perf_counter() - began
    how = {"players": list(sets.groups), "method": str(found.method[0]), "status": str(found.status[0])}
    save(out, truth_name(cell), arrays, describe(size, seed, seconds=round(seconds, 1), **how))
    return seconds


def read_truth(cell: Cell, out: Path) -> tuple[FloatArray, FloatArray]:
    """Values and standard errors `(rows, players)`."""
    with np.load(out / f"{truth_name(cell)}.npz") as stored:
        return stored["values"], stored["standard_errors"]


def exact_runs(cell: Cell, size: Size, seed: int, out: Path) -> Estimates | None:
    """What the default method says in every run, where its values are exact: the truth; None elsewhere."""
    name = truth_name(cell)
    if not is_done(out, name, size, seed) or json.loads((out / f"{name}.json").read_text())["status"] != "exact":
        return None
    with np.load(out / f"{name}.npz") as stored:
        if "base_values" not in stored:
            return None
        values, base, predictions = stored["values"], stored["base_values"], stored["predictions"]
    runs = np.broadcast_to(values, (size.n_runs, *values.shape))
    nothing = np.zeros(runs.shape)
    bases = np.broadcast_to(base, (size.n_runs, *base.shape))
    return Estimates(runs, runs, nothing, nothing, bases, predictions, np.ones(len(values)))


def read_players(cell: Cell, out: Path) -> list[str]:
    """Names of the players, in the order of the arrays."""
    names: list[str] = json.loads((out / f"{truth_name(cell)}.json").read_text())["players"]
    return names
