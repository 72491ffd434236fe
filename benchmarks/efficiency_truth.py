"""The values that estimates are compared with: exact where that is affordable, else a long run, kept on disk.

Exact are sums of trees, from the fitted model, and games whose coalitions can all be evaluated. A long run is 25
explanations of 50,000 evaluations, averaged. Its own error comes from how the 25 scatter, and it is checked against the
mean of the same runs without control, which a mistake in the control would not share.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from efficiency_cases import Case

import controlshap as cs

#: Most evaluations of a row for the enumeration of its coalitions.
MOST_ENUMERATED = 7_000_000
N_RUNS, RUN_BUDGET, RUN_SEED = 25, 50_000, 99
#: Root mean square of (controlled - uncontrolled) / standard error that a sound long run does not exceed.
LARGEST_Z = 2.5


@dataclass(frozen=True)
class Truth:
    """Values `(rows, players)` and the mean squared error of each row's values, 0 where they are exact."""

    values: np.ndarray
    errors: np.ndarray
    kind: str


def find_truth(case: Case, name: str, n_background: int, n_rows: int, cache: Path) -> Truth:
    """Exact values or a long run of the first rows of a case, from the cache if they are there."""
    file = cache / f"truth {name} {n_background} {n_rows}.npz"
    if file.is_file():
        with np.load(file) as stored:
            return Truth(stored["values"], stored["errors"], str(stored["kind"]))
    truth = _compute(case, name, case.background(n_background), case.rows[:n_rows])
    cache.mkdir(exist_ok=True, parents=True)
    np.savez(file, values=truth.values, errors=truth.errors, kind=truth.kind)
    return truth


def _compute(case: Case, name: str, background: np.ndarray, rows: np.ndarray) -> Truth:
    if case.fitted is not None:
        found = cs.Explainer(case.fitted, background, groups=case.groups)(rows, budget=10_000, rng=0)
        if (found.status == "exact").all():
            return Truth(found.values, np.zeros(len(rows)), "trees")
        print(f"{name}: the fitted model was not recognised; a long run takes the place of its exact values.")
    explainer = cs.Explainer(case.model, background, groups=case.groups)
    cost = 2 ** len(case.players) * len(background) + 1
    if cost <= MOST_ENUMERATED:
        found = explainer(rows, budget=cost, rng=0)
        if (found.status == "exact").all():
            return Truth(found.values, np.zeros(len(rows)), "enumeration")
    values, errors = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        for number, x in enumerate(rows):
            runs = explainer(np.tile(x, (N_RUNS, 1)), budget=RUN_BUDGET, rng=RUN_SEED)
            values.append(runs.values.mean(axis=0))
            errors.append((runs.values.var(axis=0, ddof=1) / N_RUNS).mean())
            difference = (runs.values - runs.uncontrolled_values).mean(axis=0)
            spread = np.sqrt((runs.values - runs.uncontrolled_values).var(axis=0, ddof=1) / N_RUNS)
            moved = spread > 1e-12 * np.abs(runs.values).max()
            z = np.sqrt(np.mean((difference[moved] / spread[moved]) ** 2)) if moved.any() else 0.0
            if z > LARGEST_Z:
                print(f"{name}, row {number}: the long run differs from itself without control, rms z = {z:.1f}.")
    return Truth(np.array(values), np.array(errors), "long run")
