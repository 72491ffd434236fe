"""The library's own time in two versions of its source: importing it, and explaining rows of a cheap model.

    python benchmarks/own_time.py --before SRC --after SRC [--repeats 20] [--only EXPRESSION]

Each `SRC` is a folder that holds the package `controlshap`; both are compiled first, as pip does. Each version has a
process of its own with one thread, and they take turns, measurement by measurement, so that a slow spell of the machine
meets both. Prints the least processor
time of each, which other work on the machine disturbs least, and the ratio in Markdown. Models are a curved function of
10 columns; of 20 columns a network of ten tanh units, a function of steps, which trees control, and a single unit,
which the fitted ridge matches, so that its known values are simulated as far as they ever are; and 100 lightgbm trees,
exact, where lightgbm is installed.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import os
import re
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


def actions() -> dict[str, tuple[Callable[[], object], int]]:
    """What is measured, of the first `controlshap` that can be imported, and by how many rows it is divided."""
    import controlshap as cs

    rng, found = np.random.default_rng(0), {}
    background, X = rng.normal(size=(N_BACKGROUND, N_COLUMNS)), rng.normal(size=(20, N_COLUMNS))
    for features in ("independent", "correlated"):
        explainer = cs.Explainer(model, background, features=features)
        found[f"one row, budget 500, {features}"] = partial(explainer, X[0], budget=500, rng=0), 1
    weights, scales = rng.normal(size=(10, N_WIDE)) / np.sqrt(N_WIDE), rng.normal(size=10)
    background, X = rng.normal(size=(N_BACKGROUND, N_WIDE)), rng.normal(size=(10, N_WIDE))
    mixed = background @ (np.eye(N_WIDE) + 0.3 * rng.normal(size=(N_WIDE, N_WIDE)))
    models = {
        "network": lambda r: np.tanh(r @ weights.T) @ scales,
        "one unit": lambda r: np.tanh(r @ weights[0]),
        "steps": lambda r: r @ weights[0] + 3.0 * ((r[:, 0] > 0) & (r[:, 1] > 0) & (r[:, 2] < 0.5)),
    }
    for features, rows in (("independent", background), ("correlated", mixed)):
        for name, of_name in models.items():
            explainer = cs.Explainer(of_name, rows, features=features)
            for n in (1, 10):
                of_rows = "one row" if n == 1 else "a row of ten"
                call = partial(explainer, X[:n], budget=2000, rng=0)
                found[f"{of_rows}, 20 players, budget 2,000, {name}, {features}"] = call, n
        explainer = cs.Explainer(models["network"], rows, features=features, control="none")
        for budget in (200, 2_000):
            call = partial(explainer, X[:1], budget=budget, rng=0)
            found[f"one row, 20 players, budget {budget:,}, no control, {features}"] = call, 1
    if importlib.util.find_spec("lightgbm") is not None:
        from lightgbm import LGBMRegressor

        y = X[:, 0] + rng.normal(size=len(X))
        X = rng.normal(size=(1_000, N_WIDE))
        y = X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + np.sin(3 * X[:, 3]) * X[:, 4]
        explainer = cs.Explainer(LGBMRegressor(n_estimators=100, verbose=-1, n_jobs=1).fit(X, y), background)
        found["one row of 100 trees, exact"] = partial(explainer, X[:1], rng=0), 1
    return found


def seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def answer() -> None:
    """Say what can be measured, and measure what is asked for."""
    first = seconds(lambda: __import__("controlshap"))
    print(first, flush=True)
    known = actions()
    print("\t".join(known), flush=True)
    for line in sys.stdin:
        action, n_rows = known[line.rstrip("\n")]
        print(seconds(action) / n_rows, flush=True)


class Side:
    """A process with one version."""

    def __init__(self, source: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", __file__, "--answer"]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.importing = float(self.process.stdout.readline())

    def names(self) -> list[str]:
        return self.process.stdout.readline().rstrip("\n").split("\t")

    def measure(self, name: str) -> float:
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self) -> float:
        self.process.communicate()
        return self.importing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path)
    parser.add_argument("--after", type=Path)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", default="", help="what matches this expression")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answer:
        answer()
        return
    if arguments.before is None or arguments.after is None:
        parser.error("give --before SRC and --after SRC")
    print(f"Processor time, one thread, least of {arguments.repeats} runs of each version in turn.\n")
    print("| | before, ms | after, ms | after / before |")
    print("|---|---|---|---|")

    def show(name: str, runs: list[tuple[float, float]]) -> None:
        before, after = (min(run[side] for run in runs) for side in range(2))
        print(f"| {name} | {1e3 * before:.2f} | {1e3 * after:.2f} | {after / before:.2f} |", flush=True)

    sources = (arguments.before, arguments.after)
    for source in sources:
        compileall.compile_dir(source / "controlshap", quiet=1)
    if re.search(arguments.only, "import"):
        started = [tuple(Side(source).end() for source in sources) for _ in range(1 + arguments.repeats // 2)]
        show("import", started[1:])  # the first reads files that are in no cache yet
    sides = [Side(source) for source in sources]
    names, _ = (side.names() for side in sides)
    for name in names:
        if re.search(arguments.only, name):
            runs = [tuple(side.measure(name) for side in sides) for _ in range(arguments.repeats)]
            show(name, runs)
    for side in sides:
        side.end()


if __name__ == "__main__":
    main()
