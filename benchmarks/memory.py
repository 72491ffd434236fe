"""Peak memory of explaining one row, against `memory_limit`.

    python benchmarks/memory.py

A background of 1000 rows with 30 columns and a budget of 200,000 evaluations; `tracemalloc` sees every array
that numpy allocates. The model allocates one number per row, so that the peak is the library's own. Writes
`results/memory.md`.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import controlshap as cs

RESULTS = Path(__file__).resolve().parent / "results" / "memory.md"
MEGABYTE = 2**20
N_BACKGROUND, N_COLUMNS, BUDGET = 1000, 30, 200_000
LIMITS = (256, 16)
CASES = [
    (features, name, control)
    for features in ("independent", "correlated")
    for name in ("permutation", "kernel")
    for control in ("none", "taylor")
] + [("independent", "kernel, 10 draws", "taylor"), ("correlated", "kernel, 10 draws", "taylor")]


def make_problem(n_rows: int = N_BACKGROUND, n_columns: int = N_COLUMNS) -> tuple[np.ndarray, np.ndarray]:
    """A correlated background and the slopes of a model."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((n_rows, 5)) @ rng.standard_normal((5, n_columns))
    return factors + rng.standard_normal((n_rows, n_columns)), rng.standard_normal(n_columns) / n_columns


def peak_of_one_row(features: str, name: str, control: str, limit: int) -> tuple[float, float, int]:
    """Peak in MB beyond what existed before, seconds, and evaluations."""
    background, slopes = make_problem()
    explainer = cs.Explainer(
        lambda rows: np.tanh(rows @ slopes),
        background,
        features=features,
        estimator=cs.Kernel(n_draws=10) if name == "kernel, 10 draws" else name,
        control=control,
        memory_limit=limit * MEGABYTE,
    )
    x = background[:1] + 0.5
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        start = time.perf_counter()
        explanation = explainer(x, budget=BUDGET, rng=0)
        spent = time.perf_counter() - start
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    return peak / MEGABYTE, spent, int(explanation.n_evaluations[0])


def table() -> Iterator[str]:
    yield "# Memory"
    yield ""
    yield f"`python benchmarks/memory.py`: one row, {N_BACKGROUND} background rows, {N_COLUMNS} columns, budget"
    yield f"{BUDGET:,}. Peak of all arrays beyond what existed before the call (tracemalloc)."
    yield ""
    yield "| features | estimator | control | limit, MB | peak, MB | seconds (traced) | evaluations |"
    yield "|---|---|---|---|---|---|---|"
    for features, name, control in CASES:
        for limit in LIMITS:
            peak, spent, used = peak_of_one_row(features, name, control, limit)
            yield f"| {features} | {name} | {control} | {limit} | {peak:.0f} | {spent:.1f} | {used:,} |"


def main() -> None:
    lines = []
    for line in table():
        print(line, flush=True)
        lines.append(line)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
