"""Time of an explanation over the model's own time, where controls are fitted: a model of 20 microseconds a row.

    python benchmarks/fitting.py [--data FOLDER] [--budget 10000] [--microseconds 20]

The published networks, slowed down by waiting; 100 background rows. Writes results/fitting.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import paper_data

import controlshap as cs

RESULTS = Path(__file__).resolve().parent / "results"
CONTROLS = ("none", "ridge", "polynomial", "auto", "auto, shared", "network", "trees", "thorough")
REPEATS = 5


class Slow:
    """A model that takes a given time for each row."""

    def __init__(self, model, seconds: float) -> None:
        self.model, self.seconds, self.spent = model, seconds, 0.0

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        start = time.perf_counter()
        values = self.model(rows)
        while time.perf_counter() - start < self.seconds * len(rows):
            pass
        self.spent += time.perf_counter() - start
        return values


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    paper_data.add_data_argument(parser)
    parser.add_argument("--budget", type=int, default=10_000)
    parser.add_argument("--microseconds", type=float, default=20.0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = paper_data.data_folder(arguments.data)
    lines = [
        "# Time of fitting",
        "",
        f"`python benchmarks/fitting.py`: an explanation of {arguments.budget:,} evaluations over the time that the "
        f"model ({arguments.microseconds:g} microseconds a row) takes of it, median of {REPEATS}; and what the control "
        "bought (variance without it over variance with it).",
        "",
        "| data | players | " + " | ".join(CONTROLS) + " |",
        "|---|---|" + "---|" * len(CONTROLS),
    ]
    for name in ("simulated", "brca", "credit", "census"):
        data, network = paper_data.load(name, folder), paper_data.load_network(name, folder)
        background = data.X_train[np.random.default_rng(0).permutation(len(data.X_train))[:100]]
        shown = []
        for control in CONTROLS:
            model = Slow(network, 1e-6 * arguments.microseconds)
            explainer = cs.Explainer(
                model, background, groups=data.several or None, estimator="permutation",
                control=control.split(",")[0], variance="analytic",
            )  # fmt: skip
            if control.endswith("shared"):
                explainer.fit_surrogate(data.X_train[:500], budget=20_000, rng=0)
            explainer(data.X_test[:1], budget=arguments.budget, rng=0)
            ratios, gains = [], []
            for repeat in range(REPEATS):
                model.spent, start = 0.0, time.perf_counter()
                explanation = explainer(data.X_test[:1], budget=arguments.budget, rng=repeat)
                ratios.append((time.perf_counter() - start) / model.spent)
                gains.append(explanation.gain[0])
            shown.append(f"{np.median(ratios):.2f} (x {np.median(gains):.3g})")
        lines.append(f"| {name} | {len(data.groups)} | " + " | ".join(shown) + " |")
        print(lines[-1], flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "fitting.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
