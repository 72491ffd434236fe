"""The library's own time in two versions of its source: importing it, and explaining rows of a cheap model.

    python benchmarks/own_time.py --before SRC --after SRC [--repeats 7]

Each `SRC` is a folder that holds the package `controlshap`. Every measurement is made in a fresh process with one
thread; the two versions take turns, so that a slow spell of the machine meets both. Prints medians of processor time
and their ratio in Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

N_COLUMNS, N_BACKGROUND = 10, 100


def model(rows: np.ndarray) -> np.ndarray:
    return np.tanh(rows @ np.linspace(1.0, -1.0, N_COLUMNS) + rows[:, 0] * rows[:, 1] * rows[:, 2])


def seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def measure() -> dict[str, float]:
    """Seconds of each part, of the first `controlshap` that can be imported."""
    times = {"import": seconds(lambda: __import__("controlshap"))}
    import controlshap as cs

    rng = np.random.default_rng(0)
    background, X = rng.normal(size=(N_BACKGROUND, N_COLUMNS)), rng.normal(size=(100, N_COLUMNS))
    for features in ("independent", "correlated"):
        explainer = cs.Explainer(model, background, features=features)
        explainer(X[:1], budget=500, rng=0)  # what is imported or computed once
        rows = [seconds(partial(explainer, X[row], budget=500, rng=0)) for row in range(20)]
        times[f"one row, budget 500, {features}"] = float(np.median(rows))
        times[f"100 rows, budget 2,000, {features}"] = seconds(partial(explainer, X, budget=2000, rng=0))
    return times


def measure_source(source: Path) -> dict[str, float]:
    environment = os.environ | {"PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run([sys.executable, "-c", "import controlshap"], env=environment, check=True)  # compiles
    command = [sys.executable, __file__, "--measure"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path)
    parser.add_argument("--after", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure()))
        return
    if arguments.before is None or arguments.after is None:
        parser.error("give --before SRC and --after SRC")
    runs = [(measure_source(arguments.before), measure_source(arguments.after)) for _ in range(arguments.repeats)]
    print(f"Processor time, one thread, medians of {arguments.repeats} runs of each version in turn.\n")
    print("| | before, ms | after, ms | after / before |")
    print("|---|---|---|---|")
    for name in runs[0][0]:
        before, after = (float(np.median([run[side][name] for run in runs])) for side in range(2))
        print(f"| {name} | {1e3 * before:.1f} | {1e3 * after:.1f} | {after / before:.2f} |")


if __name__ == "__main__":
    main()
