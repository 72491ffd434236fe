"""The library's own time in two versions of its source: importing it, and explaining rows of a cheap model.

    python benchmarks/own_time.py --before SRC --after SRC [--repeats 7]

Each `SRC` is a folder that holds the package `controlshap`. Every measurement is made in a fresh process with one
thread; the two versions take turns, so that a slow spell of the machine meets both. Prints medians of processor time
and their ratio in Markdown. Models are a curved function of 10 columns, and of 20 columns a network of ten tanh units
and a single one, which the fitted ridge matches, so that its known values are simulated as far as they ever are.
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

N_COLUMNS, N_BACKGROUND, N_WIDE = 10, 100, 20


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
    return times | measure_wide()


def measure_wide() -> dict[str, float]:
    """Seconds of a row among ten, with 20 players and 2,000 evaluations, and of one row without a control."""
    import controlshap as cs

    rng, times = np.random.default_rng(0), {}
    weights, scales = rng.normal(size=(10, N_WIDE)) / np.sqrt(N_WIDE), rng.normal(size=10)
    background, X = rng.normal(size=(N_BACKGROUND, N_WIDE)), rng.normal(size=(11, N_WIDE))
    mixed = background @ (np.eye(N_WIDE) + 0.3 * rng.normal(size=(N_WIDE, N_WIDE)))
    models = {"network": lambda rows: np.tanh(rows @ weights.T) @ scales, "one unit": lambda r: np.tanh(r @ weights[0])}
    for features, rows in (("independent", background), ("correlated", mixed)):
        for name, of_name in models.items():
            explainer = cs.Explainer(of_name, rows, features=features)
            explainer(X[:1], budget=2000, rng=0)
            spent = seconds(partial(explainer, X[1:], budget=2000, rng=0))
            times[f"a row of 10, 20 players, budget 2,000, {name}, {features}"] = spent / 10
    plain = cs.Explainer(models["network"], background, control="none")
    each = [seconds(partial(plain, X[1:2], budget=200, rng=seed)) for seed in range(20)]
    times["one row, 20 players, budget 200, no control"] = float(np.median(each[1:]))
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
