"""Rows over two processes against one, for a forest of 100 trees; the bits must agree.

    python benchmarks/parallel.py [--small] [--out FOLDER]

The forest is a bare function, so that nothing about it is known. Seconds on the clock, the best of three turns of one
and two processes; starting the processes is part of the first turn only. Run it on two idle cores. Writes
`results/parallel.md`; --small takes seconds, and writes only where --out says.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import controlshap as cs

RESULTS = Path(__file__).resolve().parent / "results"
N_COLUMNS, N_TRAIN, N_BACKGROUND, N_TREES = 12, 2_000, 100, 100
N_ROWS, BUDGET, REPEATS = 200, 5_000, 3
SMALL_ROWS, SMALL_BUDGET, SMALL_REPEATS = 6, 300, 1
JOBS = (1, 2)
CONTROLS = ("none", "ridge")
TARGET = 1.7
COMPARED = ("values", "standard_errors", "base_values", "covariance", "n_evaluations")


def make_problem() -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray, np.ndarray]:
    """A forest as a bare function, a background, and rows to explain."""
    X, y = make_classification(2 * N_TRAIN, N_COLUMNS, n_informative=8, random_state=0)
    forest = RandomForestClassifier(N_TREES, min_samples_leaf=5, n_jobs=1, random_state=0)
    forest.fit(X[:N_TRAIN], y[:N_TRAIN])

    def model(rows: np.ndarray) -> np.ndarray:
        return forest.predict_proba(rows)[:, 1]

    return model, X[:N_BACKGROUND], X[N_TRAIN:]


def compare(control: str, n_rows: int, budget: int, repeats: int) -> tuple[dict[int, float], bool]:
    """Best seconds of each number of processes, and whether all explanations are the same to the bit."""
    model, background, rows = make_problem()
    explainer = cs.Explainer(model, background, estimator="permutation", control=control)
    seconds: dict[int, list[float]] = {n_jobs: [] for n_jobs in JOBS}
    explanations = []
    for _ in range(repeats):
        for n_jobs in JOBS:  # in turn, so that a slow spell of the machine meets both
            start = time.perf_counter()
            explanations.append(explainer(rows[:n_rows], budget=budget, rng=0, n_jobs=n_jobs))
            seconds[n_jobs].append(time.perf_counter() - start)
    first, *others = explanations
    same = all(np.array_equal(getattr(first, name), getattr(one, name)) for one in others for name in COMPARED)
    return {n_jobs: min(found) for n_jobs, found in seconds.items()}, same


def table(n_rows: int, budget: int, repeats: int) -> Iterator[str]:
    one, two = JOBS
    yield "# Rows over processes"
    yield ""
    yield f"`python benchmarks/parallel.py`: {n_rows} rows of {budget:,} evaluations, a forest of {N_TREES} trees as a"
    yield f"bare function, {N_COLUMNS} columns, {N_BACKGROUND} background rows, permutation walks. Seconds on the"
    yield f"clock, best of {repeats}, on a machine with {os.cpu_count()} cores. Two idle cores should be at least"
    yield f"{TARGET} times as fast as one."
    yield ""
    yield f"| control | n_jobs={one}, s | n_jobs={two}, s | speed-up | at least | same bits |"
    yield "|---|---|---|---|---|---|"
    for control in CONTROLS:
        seconds, same = compare(control, n_rows, budget, repeats)
        yield (
            f"| {control} | {seconds[one]:.2f} | {seconds[two]:.2f} | {seconds[one] / seconds[two]:.2f} | {TARGET} | "
            f"{'yes' if same else 'no'} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="few rows, to see that it works")
    parser.add_argument("--out", type=Path, help="folder for the results")
    arguments = parser.parse_args()
    sizes = (SMALL_ROWS, SMALL_BUDGET, SMALL_REPEATS) if arguments.small else (N_ROWS, BUDGET, REPEATS)
    lines = []
    for line in table(*sizes):
        print(line, flush=True)
        lines.append(line)
    folder = arguments.out or (None if arguments.small else RESULTS)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "parallel.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
