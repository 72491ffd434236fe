"""Controls fitted to three to six walks: error with control over that without, where there are more players than walks.

    python benchmarks/few_units.py [--seeds 5]

Thirteen models of the kinds of `efficiency_kinds.py`, other than those there, with 30 to 150 players and 100 background
rows; 2 rows. Truth is exact for trees, else a run of 60,000 evaluations. Takes a minute. Writes nothing.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from efficiency_kinds import KINDS

import controlshap as cs
from controlshap.crossfitting import fit

MODELS = (
    ("boosted wide", 60), ("boosted wide", 150), ("tanh", 60), ("relu", 80), ("logistic pairs", 50), ("embedding", 60),
    ("forest levels", 50), ("trees levels", 70), ("rate", 50), ("steps", 50), ("kernel machine", 40),
    ("neighbours mean", 30), ("corner", 30),
)  # fmt: skip
N_WALKS, N_BACKGROUND, N_ROWS = (3, 4, 5, 6), 100, 2


def compare(kind: str, n_players: int, n_seeds: int) -> dict[int, tuple[float, float]]:
    """Mean squared error with control over that without, and coverage of 95 % intervals, by the number of walks."""
    model, data, fitted = KINDS[kind](n_players, np.random.default_rng(1000 + n_players))
    background, rows = data[:N_BACKGROUND], data[-N_ROWS:]
    truth = cs.Explainer(model if fitted is None else fitted, background)(rows, budget=60_000, rng=0).values
    explainer, found = cs.Explainer(model, background), {}
    steps = np.mean([(x != background).sum(axis=1).mean() for x in rows]) - 1.0
    for n in N_WALKS:
        budget = 1 + n * (n_players - 1) if steps == n_players - 1 else int(2 + (n + 0.4) * steps)
        squares, inside = [], []
        for x, values in zip(rows, truth, strict=True):
            try:
                runs = explainer(np.tile(x, (n_seeds, 1)), budget=budget, rng=3)
            except cs.BudgetTooSmallError:
                continue
            squares.append([((of - values) ** 2).mean() for of in (runs.values, runs.uncontrolled_values)])
            low, high = runs.confidence_interval(0.95)
            matters = np.abs(values) > 1e-3 * np.abs(values).max()
            inside.append(((low <= values) & (values <= high))[:, matters].mean())
        if squares:
            found[n] = float(np.divide(*np.sum(squares, axis=0))), float(np.mean(inside))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    n_seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    fit.FEWEST_UNITS = min(N_WALKS)
    print("error with control over that without (coverage of 95 % intervals in %)")
    print("| model, players | " + " | ".join(f"{n} walks" for n in N_WALKS) + " |")
    print("|---" * (len(N_WALKS) + 1) + "|")
    every: dict[int, list[float]] = {n: [] for n in N_WALKS}
    for kind, n_players in MODELS:
        found = compare(kind, n_players, n_seeds)
        cells = [f"{found[n][0]:.2f} ({100 * found[n][1]:.0f})" if n in found else "" for n in N_WALKS]
        print(f"| {kind} {n_players} | {' | '.join(cells)} |", flush=True)
        for n, (ratio, _) in found.items():
            every[n].append(ratio)
    for n, ratios in every.items():
        print(f"{n} walks: {np.exp(np.log(ratios).mean()):.2f} in the geometric mean, {max(ratios):.2f} at most")


if __name__ == "__main__":
    main()
