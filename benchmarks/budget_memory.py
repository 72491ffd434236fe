"""Peak memory of one row against its budget.

    python benchmarks/budget_memory.py

20 columns, a cheap model (a logistic function of a sum with an interaction, as a plain function), 100 background rows,
`memory_limit` 16 MB, evaluations not kept (`keep=False`). Every case has a process of its own, whose peak resident
memory is what the system counts, after a warm-up of 30,000 evaluations. Takes a few minutes. Writes
`results/budget_memory.md`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rows_memory import peak

import controlshap as cs

RESULTS = Path(__file__).resolve().parent / "results" / "budget_memory.md"
N_COLUMNS, N_BACKGROUND = 20, 100
BUDGETS = [100_000, 1_000_000, 10_000_000]
PATHS = [
    (features, estimator, control)
    for features in ("independent", "correlated")
    for estimator in ("permutation", "kernel")
    for control in ("none", "taylor", "ridge")
] + [
    ("independent", "per_feature", "none"),
    ("correlated", "per_feature", "taylor"),
    ("independent", "auto", "auto"),
    ("correlated", "auto", "auto"),
]
SLOPES = np.random.default_rng(1).normal(size=N_COLUMNS) / np.sqrt(N_COLUMNS)


def model(rows: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-rows @ SLOPES - 0.3 * rows[:, 0] * rows[:, 1]))


def one_case(features: str, estimator: str, control: str, budget: int) -> dict[str, float]:
    """Memory after a warm-up, and after the row."""
    background = np.random.default_rng(0).normal(size=(N_BACKGROUND, N_COLUMNS))
    explainer = cs.Explainer(
        model, background, features=features, estimator=estimator, control=control, memory_limit=16 * 2**20
    )
    x = background[:1] + 0.3
    explainer(x, budget=30_000, rng=0, keep=False, progress=False)
    before, began = peak(), time.perf_counter()
    found = explainer(x, budget=budget, rng=0, keep=False, progress=False)
    return {
        "before": before,
        "peak": peak(),
        "seconds": time.perf_counter() - began,
        "error": float(found.standard_errors.max()),
    }


def table() -> Iterator[str]:
    yield "# Memory against the budget"
    yield ""
    yield f"`python benchmarks/budget_memory.py`: one row, {N_COLUMNS} columns, a cheap model, {N_BACKGROUND}"
    yield "background rows, `memory_limit` 16 MB, `keep=False`. Peak resident memory of a process in MB, by budget;"
    yield "after a warm-up of 30,000 evaluations, with all libraries loaded; seconds and largest standard error of the"
    yield "largest budget."
    yield ""
    yield "| features | estimator | control | warm-up | 100,000 | 1,000,000 | 10,000,000 | seconds | error |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for path in PATHS:
        found = []
        for budget in BUDGETS:
            command = [sys.executable, __file__, "--case", *path, str(budget)]
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        peaks = " | ".join(f"{one['peak']:.0f}" for one in found)
        last = found[-1]
        yield (
            f"| {' | '.join(path)} | {found[0]['before']:.0f} | {peaks} | {last['seconds']:.0f} | {last['error']:.2g} |"
        )


def main() -> None:
    if sys.argv[1:2] == ["--case"]:
        print(json.dumps(one_case(*sys.argv[2:5], int(sys.argv[5]))))
        return
    lines = []
    for line in table():
        print(line, flush=True)
        lines.append(line)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
