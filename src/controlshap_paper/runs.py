"""What one task of the reproduction computes and saves: repeated estimates, true values, and two studies of one row.

Results are arrays (`.npz`) with a description beside them (`.json`).
"""

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
from controlshap_paper.cells import (
    SECONDS,
    Cell,
    Size,
    background_of,
    budget_of,
    derivative_cost,
    make_explainer,
    make_taylor,
    rows_of,
)
from controlshap_paper.data import FloatArray, PaperData, load
from controlshap_paper.models import NAMES as MODELS
from controlshap_paper.models import make_model
from controlshap_paper.published import explained_rows

#: Changes when results of earlier versions no longer compare.
SCHEMA = 1
#: Added to the seed of the runs, so that the long run behind the true values shares no draws with them.
TRUTH_SEED = 1_000_003
STUDIES = ("study-samples", "study-gap")
#: The paper's figure calls it "Prev Days"; the column that it shows is this one.
SAMPLES_PLAYER = "Contact"
SAMPLES = (50, 100, 200, 500, 1000)
GAP_RUNS, GAP_SAMPLES, GAP_DRAWS = 20, 100, 10


# ------------------------------------------------------------------------------------------------------------- files


def save(out: Path, name: str, arrays: dict[str, FloatArray], description: dict[str, Any]) -> None:
    """Write the arrays, then the description: without the second file the first counts as missing."""
    out.mkdir(parents=True, exist_ok=True)
    part = out / f"{name}.{os.getpid()}.part"
    with part.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    (out / f"{name}.json").unlink(missing_ok=True)  # of an earlier result
    part.replace(out / f"{name}.npz")
    part.write_text(json.dumps(description, indent=1, sort_keys=True) + "\n")
    part.replace(out / f"{name}.json")


def describe(size: Size, seed: int, **more: Any) -> dict[str, Any]:
    """What a result depends on, and the versions it was made with."""
    versions = {"controlshap": cs.__version__, "numpy": np.__version__, "python": platform.python_version()}
    return {"schema": SCHEMA, "seed": seed, "size": asdict(size), "versions": versions, **more}


def read_description(out: Path, name: str) -> dict[str, Any]:
    """What was saved beside the arrays."""
    description: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
    return description


def is_done(out: Path, name: str, size: Size, seed: int) -> bool:
    """Whether a result of this size and seed is saved."""
    if not all((out / f"{name}{suffix}").is_file() for suffix in (".json", ".npz")):
        return False
    saved = read_description(out, name)
    return bool(saved["schema"] == SCHEMA and saved["seed"] == seed and saved["size"] == asdict(size))


@lru_cache(maxsize=3)
def prepare(data: str, model: str, folder: Path | None) -> tuple[PaperData, Any]:
    """The data and the fitted model, kept for the next cell of this process."""
    sets = load(data, folder)
    return sets, make_model(model, sets, folder)


def predict(model: Any, rows: FloatArray) -> FloatArray:
    """Probabilities of class 1, `(rows,)`."""
    probabilities = model(rows) if callable(model) else model.predict_proba(rows)[:, 1]
    return np.asarray(probabilities, dtype=np.float64)


# --------------------------------------------------------------------------------------------------- repeated estimates


@dataclass(frozen=True)
class CellEstimates:
    """Estimates of a cell's rows by one method.

    Attributes
    ----------
    controlled, uncontrolled, standard_errors, anticipated : ndarray of shape (runs, rows, players)
        Values with and without control, reported errors of the former, and the anticipated reduction of variance.
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


def run_cell(cell: Cell, method: str, size: Size, folder: Path | None, seed: int) -> CellEstimates:
    """Explain the cell's rows `n_runs` times."""
    sets, model = prepare(cell.data, cell.model, folder)
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
                rows = [_explain_or_skip(explainer, x[None], budget, [seed, run, row]) for row, x in enumerate(X)]
                runs.append([np.concatenate(part) for part in zip(*rows, strict=True)])
                continue
            explanation = explainer(X, budget=budget, rng=np.random.SeedSequence([seed, run]), keep=False)
            runs.append(_arrays(explanation))
            if (explanation.status == "exact").all():
                runs *= size.n_runs  # every run would give the same
                break
    *stacked, n_evaluations = (np.stack(part) for part in zip(*runs, strict=True))
    return CellEstimates(*stacked, predict(model, X), n_evaluations.mean(axis=0))  # type: ignore[call-arg]


def _arrays(explanation: cs.Explanation) -> list[FloatArray]:
    """The fields of `CellEstimates` in order, without the predictions."""
    e = explanation
    values = (e.values, e.uncontrolled_values, e.standard_errors, e.variance_reduction)
    return [*values, e.base_values, e.n_evaluations.astype(np.float64)]


def _explain_or_skip(explainer: cs.Explainer, x: FloatArray, budget: int, seeds: list[int]) -> list[FloatArray]:
    """Explain one row; NaN where a group of coalitions does not determine the values, as in the paper's own runs."""
    try:
        return _arrays(explainer(x, budget=budget, rng=np.random.SeedSequence(seeds), keep=False))
    except cs.SingularSystemError:
        missing = np.full((1, len(explainer.feature_names)), np.nan)
        return [missing, missing, missing, missing, missing[:, 0], np.full(1, float(budget))]


def read_estimates(out: Path, name: str) -> CellEstimates:
    """The estimates that were saved."""
    with np.load(out / f"{name}.npz") as stored:
        return CellEstimates(*(stored[field.name] for field in fields(CellEstimates)))


def run_and_save(cell: Cell, method: str, size: Size, folder: Path | None, seed: int, out: Path) -> float:
    """Run a cell by a method, unless its values are exact and known; the seconds it took."""
    began = time.perf_counter()
    estimates = exact_estimates(cell, size, seed, out) if method == "default" else None
    estimates = estimates or run_cell(cell, method, size, folder, seed)
    seconds = time.perf_counter() - began
    arrays = {field.name: getattr(estimates, field.name) for field in fields(estimates)}
    description = describe(size, seed, cell=asdict(cell), method=method, seconds=round(seconds, 1))
    save(out, f"{cell.name}-{method}", arrays, description)
    return seconds


# --------------------------------------------------------------------------------------------------------- true values


def truth_name(cell: Cell) -> str:
    """The name of the true values; the same for both estimators, which estimate the same values."""
    return f"truth-{cell.data}-{cell.model}-{cell.features}"


def find_truth(cell: Cell, size: Size, folder: Path | None, seed: int, out: Path) -> float:
    """Explain the rows once by default, exactly or with many evaluations; the seconds it took."""
    began = time.perf_counter()
    sets, model = prepare(cell.data, cell.model, folder)
    X = rows_of(cell, sets)[explained_rows(sets, cell.model, size.n_rows)]
    background = background_of(cell, sets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        explainer = cs.Explainer(
            model, background, features=cell.features, groups=sets.several, max_background=len(background),
            seconds_per_evaluation=SECONDS[cell.model],
        )  # fmt: skip
        truth = explainer(X, budget=size.truth_budget, rng=seed + TRUTH_SEED, keep=False)
    arrays = {"values": truth.values, "standard_errors": truth.standard_errors, "base_values": truth.base_values}
    arrays["predictions"] = truth.values.sum(axis=1) + truth.base_values
    seconds = time.perf_counter() - began
    how = {"players": list(sets.groups), "method": str(truth.method[0]), "status": str(truth.status[0])}
    save(out, truth_name(cell), arrays, describe(size, seed, seconds=round(seconds, 1), **how))
    return seconds


def read_truth(cell: Cell, out: Path) -> tuple[FloatArray, FloatArray]:
    """True values and their standard errors `(rows, players)`."""
    with np.load(out / f"{truth_name(cell)}.npz") as stored:
        return stored["values"], stored["standard_errors"]


def read_players(cell: Cell, out: Path) -> list[str]:
    """Names of the players, in the order of the arrays."""
    players: list[str] = read_description(out, truth_name(cell))["players"]
    return players


def exact_estimates(cell: Cell, size: Size, seed: int, out: Path) -> CellEstimates | None:
    """The estimates of the default method where they are exact, and so equal to the true values; None elsewhere."""
    name = truth_name(cell)
    if not is_done(out, name, size, seed) or read_description(out, name)["status"] != "exact":
        return None
    with np.load(out / f"{name}.npz") as stored:
        values, base, predictions = stored["values"], stored["base_values"], stored["predictions"]
    runs = np.broadcast_to(values, (size.n_runs, *values.shape))
    zeros = np.zeros(runs.shape)
    bases = np.broadcast_to(base, (size.n_runs, *base.shape))
    return CellEstimates(runs, runs, zeros, zeros, bases, predictions, np.ones(len(values)))


# ------------------------------------------------------------------------------------------------- studies of one row


def run_study(name: str, size: Size, folder: Path | None, seed: int, out: Path) -> float:
    """Run one of `STUDIES`; the seconds it took."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        arrays = _study_samples(size, folder, seed) if name == "study-samples" else _study_gaps(folder, seed)
    seconds = time.perf_counter() - began
    save(out, name, arrays, describe(size, seed, study=name, seconds=round(seconds, 1)))
    return seconds


def _make_study(cell: Cell, folder: Path | None, **estimator: Any) -> tuple[cs.Explainer, PaperData, Any]:
    sets, model = prepare(cell.data, cell.model, folder)
    explainer = cs.Explainer(
        model, background_of(cell, sets), features=cs.Marginal(replace=True), groups=sets.several,
        estimator=cs.PerFeature(closes_sum=False, own_draws=True, **estimator), control=make_taylor(cell, model, 0, 0),
        coefficient="units", max_background=len(sets.train),
    )  # fmt: skip
    return explainer, sets, model


def _study_samples(size: Size, folder: Path | None, seed: int) -> dict[str, Any]:
    """Estimates and reported variances `(numbers, runs, 2)`, without and with control, of one row and player."""
    cell = Cell("bank", "logistic", "shapley_sampling", "independent")
    explainer, sets, _ = _make_study(cell, folder)
    x = rows_of(cell, sets)[explained_rows(sets, cell.model, 1)]
    player = list(sets.groups).index(SAMPLES_PLAYER)
    numbers = [n for n in SAMPLES if n <= size.n_coalitions]  # of permutations, in reversed pairs
    values, variances = [], []
    for number in numbers:
        budget = 1 + (number // 2) * 4 * len(sets.groups)
        runs = [
            explainer(x, budget=budget, rng=np.random.SeedSequence([seed, number, run])) for run in range(size.n_runs)
        ]
        values.append([(e.uncontrolled_values[0, player], e.values[0, player]) for e in runs])
        errors = [(e.uncontrolled_standard_errors[0, player], e.standard_errors[0, player]) for e in runs]
        variances.append(np.square(errors))
    return {"numbers": np.array(numbers), "values": np.array(values), "variances": np.array(variances)}


def _study_gaps(folder: Path | None, seed: int) -> dict[str, Any]:
    """Gaps `(models, runs, 2)` to f(x) - v(0), without and with control, relative to its absolute value."""
    gaps = []
    for kind in MODELS:
        cell = Cell("credit", kind, "shapley_sampling", "independent")
        explainer, sets, model = _make_study(cell, folder, n_draws=GAP_DRAWS)
        x = rows_of(cell, sets)[:1]
        budget = 1 + derivative_cost(cell, explainer, sets) + (GAP_SAMPLES // 2) * 4 * len(sets.groups) * GAP_DRAWS
        runs = []
        for run in range(GAP_RUNS):
            explanation = explainer(x, budget=budget, rng=np.random.SeedSequence([seed, run]))
            total = predict(model, x) - explanation.base_values
            plain = np.abs(explanation.uncontrolled_values.sum(axis=1) - total)
            controlled = cs.metrics.efficiency_gap(explanation, predict(model, x))
            runs.append([(plain / np.abs(total))[0], (controlled / np.abs(total))[0]])
        gaps.append(runs)
    return {"gaps": np.array(gaps)}
