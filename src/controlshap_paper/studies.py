"""Two figures of the paper that are about one row: variance by number of samples, and the efficiency gap."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import controlshap as cs
from controlshap import metrics
from controlshap_paper.cells import Cell, Size, background_of, make_taylor, rows_of
from controlshap_paper.models import NAMES as MODELS
from controlshap_paper.published import explained_rows
from controlshap_paper.runs import describe, prepared, save

NAMES = ("study-samples", "study-gap")
#: The paper's figure calls it "Prev Days"; the column that it shows is this one.
SAMPLES_PLAYER = "Contact"
SAMPLES = (50, 100, 200, 500, 1000)
GAP_RUNS, GAP_SAMPLES, GAP_DRAWS = 20, 100, 10


def run_study(name: str, size: Size, folder: Path | None, seed: int, out: Path) -> float:
    """Seconds it took."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        arrays = {"study-samples": _by_samples, "study-gap": _gaps}[name](size, folder, seed)
    seconds = time.perf_counter() - began
    save(out, name, arrays, describe(size, seed, study=name, seconds=round(seconds, 1)))
    return seconds


def samples_of(size: Size) -> tuple[int, ...]:
    """Numbers of permutations, in reversed pairs."""
    return tuple(n for n in SAMPLES if n <= size.n_coalitions)


def _explainer(cell: Cell, folder: Path | None, **estimator: Any) -> tuple[cs.Explainer, Any, Any]:
    sets, model = prepared(cell.data, cell.model, folder)
    explainer = cs.Explainer(
        model, background_of(cell, sets), features=cs.Marginal(replace=True), groups=sets.several,
        estimator=cs.PerFeature(closes_sum=False, own_draws=True, **estimator), control=make_taylor(cell, model, 0, 0),
        coefficient="units", max_background=len(sets.train),
    )  # fmt: skip
    return explainer, sets, model


def _by_samples(size: Size, folder: Path | None, seed: int) -> dict[str, Any]:
    """Estimates and reported variances `(numbers, runs, 2)`, without and with control, of one row and player."""
    cell = Cell("bank", "logistic", "shapley_sampling", "independent")
    explainer, sets, _ = _explainer(cell, folder)
    x = rows_of(cell, sets)[explained_rows(sets, cell.model, 1)]
    player = list(sets.groups).index(SAMPLES_PLAYER)
    values, variances = [], []
    for number in samples_of(size):
        budget = 1 + (number // 2) * 4 * len(sets.groups)
        runs = [
            explainer(x, budget=budget, rng=np.random.SeedSequence([seed, number, run])) for run in range(size.n_runs)
        ]
        values.append([(e.uncontrolled_values[0, player], e.values[0, player]) for e in runs])
        errors = [(e.uncontrolled_standard_errors[0, player], e.standard_errors[0, player]) for e in runs]
        variances.append(np.square(errors))
    return {"numbers": np.array(samples_of(size)), "values": np.array(values), "variances": np.array(variances)}


def _gaps(size: Size, folder: Path | None, seed: int) -> dict[str, Any]:
    """Gaps `(models, runs, 2)` to f(x) - v(0), without and with control, divided by its size."""
    del size
    found = []
    for kind in MODELS:
        cell = Cell("credit", kind, "shapley_sampling", "independent")
        explainer, sets, model = _explainer(cell, folder, n_draws=GAP_DRAWS)
        x = rows_of(cell, sets)[:1]
        prediction = model(x) if callable(model) else model.predict_proba(x)[:, 1]
        n_derivatives = 0
        if kind == "forest":
            differences = cs.FiniteDifferences(cross=True)
            n_derivatives = differences.cost(background_of(cell, sets), explainer.players, 1, second=True)
        budget = 1 + n_derivatives + (GAP_SAMPLES // 2) * 4 * len(sets.groups) * GAP_DRAWS
        of_model = []
        for run in range(GAP_RUNS):
            one = explainer(x, budget=budget, rng=np.random.SeedSequence([seed, run]))
            total = prediction - one.base_values
            plain = np.abs(one.uncontrolled_values.sum(axis=1) - total)
            of_model.append([(plain / np.abs(total))[0], (metrics.efficiency_gap(one, prediction) / np.abs(total))[0]])
        found.append(of_model)
    return {"gaps": np.array(found)}
