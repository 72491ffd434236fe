"""A quadratic on trial with correlated features: error and own time of "auto" over those of the ridge alone.

    python benchmarks/correlated_trials.py [--leaves 0.3] [--seeds 6] [--rows 3]

Correlated normal columns, 300 background rows. The spread of the values between seeds stands for their error, since
every run is unbiased; both have the same seeds. Takes a minute. Writes nothing.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np

import controlshap as cs
from controlshap.crossfitting import fit

PLAYERS, BUDGETS = (10, 20, 40), (500, 2_000)


def make_models(n_players: int, rng: np.random.Generator) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Regressions with and without squares and products, and a probability."""
    slope = rng.normal(size=n_players) / np.sqrt(n_players)
    return {
        "squares, products and a score": lambda r: np.sin(r[:, 0]) * r[:, 1] + r[:, 2] ** 2 + np.tanh(r @ slope),
        "line with a kink": lambda r: r @ slope + 0.1 * np.maximum(r[:, 0], 0.0),
        "saturated score": lambda r: np.tanh(r @ slope),
        "probability": lambda r: 1.0 / (1.0 + np.exp(-3.0 * r[:, :4].prod(axis=1) - r @ slope)),
    }


def measure(explainer: cs.Explainer, rows: np.ndarray, budget: int, n_seeds: int) -> tuple[float, float]:
    """Mean variance between seeds, and processor time of a row in milliseconds."""
    explainer(rows[:1], budget=budget, rng=0)  # what an explainer makes once
    began = time.process_time()
    found = np.array([explainer(rows, budget=budget, rng=seed, keep=False).values for seed in range(n_seeds)])
    taken = (time.process_time() - began) / (n_seeds * len(rows))
    return float(found.var(axis=0, ddof=1).mean()), 1e3 * taken


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=float, default=fit.LEAVES_SIMULATED)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--rows", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    fit.LEAVES_SIMULATED = args.leaves
    print("squared error of auto over that of the ridge (milliseconds a row of both)")
    print("| model | players | " + " | ".join(f"{budget:,}" for budget in BUDGETS) + " |")
    print("|---" * (2 + len(BUDGETS)) + "|")
    for n_players in PLAYERS:
        rng = np.random.default_rng(n_players)
        mixing = rng.normal(size=(n_players, n_players)) / np.sqrt(n_players)
        data = rng.normal(size=(300 + args.rows, n_players)) @ mixing + 0.3 * rng.normal(size=(300 + args.rows, 1))
        background, rows = data[: -args.rows], data[-args.rows :]
        for name, model in make_models(n_players, rng).items():
            cells = []
            for budget in BUDGETS:
                both = [
                    measure(
                        cs.Explainer(model, background, features="correlated", control=control),
                        rows,
                        budget,
                        args.seeds,
                    )
                    for control in ("auto", "ridge")
                ]
                cells.append(f"{both[0][0] / both[1][0]:.2g} ({both[0][1]:.0f}, {both[1][1]:.0f})")
            print(f"| {name} | {n_players} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
