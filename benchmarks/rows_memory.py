"""Peak memory of explaining a file of many rows, against the number of rows and the budget.

    python benchmarks/rows_memory.py

`Explainer.explain_dataset` on a CSV file of 5 columns, a cheap model (a logistic function of a sum, as a plain
function) and a background of 10 rows, in one process. Every case has a process of its own, whose peak resident memory
is what the system counts. Takes a few minutes. Writes `results/rows_memory.md`.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import controlshap as cs

RESULTS = Path(__file__).resolve().parent / "results" / "rows_memory.md"
N_COLUMNS, N_BACKGROUND = 5, 10
CASES = [(1_000, 50), (10_000, 50), (100_000, 50), (50, 1_000), (50, 100_000)]
SLOPES = np.linspace(-1.0, 1.0, N_COLUMNS)


def model(rows: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-rows @ SLOPES))


def write_rows(path: Path, n_rows: int) -> None:
    """The file, in blocks: the writer's memory would count, too."""
    rng = np.random.default_rng(1)
    with path.open("w") as file:
        file.write(",".join(f"x{i}" for i in range(N_COLUMNS)) + "\n")
        for start in range(0, n_rows, 1_000):
            np.savetxt(file, rng.normal(size=(min(1_000, n_rows - start), N_COLUMNS)), delimiter=",", fmt="%.9g")


def peak() -> float:
    """Peak resident memory of this process in MB."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / 2**20 if sys.platform == "darwin" else size / 2**10


def one_case(n_rows: int, budget: int) -> dict[str, float]:
    """Memory after a warm-up of one row, and after the whole file."""
    explainer = cs.Explainer(
        model,
        np.random.default_rng(0).normal(size=(N_BACKGROUND, N_COLUMNS)),
        estimator="permutation",
        control="none",
        memory_limit=16 * 2**20,
    )
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder) / "rows.csv", n_rows)
        write_rows(Path(folder) / "one.csv", 1)
        explainer.explain_dataset(Path(folder) / "one.csv", Path(folder) / "first", budget=50, rng=0)
        before, began = peak(), time.perf_counter()
        result = explainer.explain_dataset(Path(folder) / "rows.csv", Path(folder) / "out", budget=budget, rng=0)
        seconds = time.perf_counter() - began
        on_disk = sum(path.stat().st_size for path in (Path(folder) / "out" / "parts").iterdir()) / 2**20
    return {
        "before": before, "peak": peak(), "seconds": seconds, "parts": result.n_parts, "on_disk": on_disk,
        "evaluations": result.n_evaluations,
    }  # fmt: skip


def table() -> Iterator[str]:
    yield "# Memory against rows"
    yield ""
    yield f"`python benchmarks/rows_memory.py`: a CSV file with {N_COLUMNS} columns, a cheap model, {N_BACKGROUND}"
    yield "background rows, permutation walks without control, one process, `memory_limit` 16 MB. Peak resident memory"
    yield "of the process: after one row, with all libraries loaded, and after the file."
    yield ""
    yield "| rows | budget | after one row, MB | peak, MB | results on disk, MB | parts | evaluations | seconds |"
    yield "|---|---|---|---|---|---|---|---|"
    for n_rows, budget in CASES:
        command = [sys.executable, __file__, "--case", str(n_rows), str(budget)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        yield (
            f"| {n_rows:,} | {budget:,} | {found['before']:.0f} | {found['peak']:.0f} | {found['on_disk']:.1f} | "
            f"{found['parts']} | {found['evaluations']:,} | {found['seconds']:.0f} |"
        )


def main() -> None:
    if sys.argv[1:2] == ["--case"]:
        print(json.dumps(one_case(int(sys.argv[2]), int(sys.argv[3]))))
        return
    lines = []
    for line in table():
        print(line, flush=True)
        lines.append(line)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
