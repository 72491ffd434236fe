"""KernelSHAP over the whole background against pairs of walks: from how many pairs of coalitions on is it better?

    python benchmarks/whole_background.py

Eight of the kinds of `efficiency_kinds.py`, 20, 50 and 100 background rows, 5 to 15 pairs of coalitions for each player
(a pair takes 2 evaluations for each row), 2 rows x 5 seeds. Then the same with few players, by the share of all pairs
that there are. Takes some minutes. Writes results/whole_background.md.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from efficiency_cases import Case, kind_case
from efficiency_truth import find_truth

import controlshap as cs

HERE = Path(__file__).resolve().parent
KINDS = (
    "boosted 8",
    "kernel machine 8",
    "corner 9",
    "neighbours mean 9",
    "kernel machine 11",
    "relu 12",
    "tanh 13",
    "steps 14",
)
#: Pairs of coalitions for each player, by the number of background rows.
PAIRS = {20: (5.4, 8), 50: (6, 8, 10, 12, 15), 100: (8, 12)}
#: With few players.
SMALL_KINDS = (
    "tanh 6",
    "neighbours mean 6",
    "rate 6",
    "relu 7",
    "steps 7",
    "kernel machine 7",
    "corner 8",
    "boosted 8",
)
SHARES = {20: (0.5, 0.8), 50: (0.55, 0.8), 100: (0.5, 0.7, 0.9), 400: (0.7, 0.85, 0.95)}
N_ROWS, N_SEEDS = 2, 5


def mean_square(case: Case, truth: np.ndarray, background: np.ndarray, budget: int, settings: dict) -> float:
    """Mean squared error over rows, seeds and players."""
    explainer = cs.Explainer(case.model, background, **settings)
    runs = [explainer(np.tile(x, (N_SEEDS, 1)), budget=budget, rng=1).values for x in case.rows[:N_ROWS]]
    return float(np.mean([((run - values) ** 2).mean() for run, values in zip(runs, truth, strict=True)]))


def compare(name: str, n: int, n_pairs: float) -> str:
    """The error of KernelSHAP over the whole background over that of walks, with so many pairs over n rows."""
    case = kind_case(name)
    truth, background = find_truth(case, f"kind {name}", n, N_ROWS, HERE / ".cache").values, case.background(n)
    control = [cs.CoalitionProcess(), cs.CoalitionProcess(start=None)]
    whole = {"estimator": cs.Kernel(n_draws=n, reuse=True), "control": control}
    walks = {"estimator": cs.Permutation()}
    budget = 2 * n * int(n_pairs) + 1
    errors = [mean_square(case, truth, background, budget, settings) for settings in (whole, walks)]
    return f"{errors[0] / errors[1]:.2g}"


def main() -> None:
    """Measure, print and write the tables."""
    warnings.simplefilter("ignore")
    columns = [(n, pairs) for n, of_rows in PAIRS.items() for pairs in of_rows]
    lines = [
        "# The whole background for each coalition",
        "",
        "`python benchmarks/whole_background.py`: mean squared error of KernelSHAP over the whole background, over",
        "that of pairs of walks at equal evaluations, by background rows and pairs of coalitions a player. Below 1 the",
        "former is better.",
        "",
        f"| kind, players | {' | '.join(f'{n} rows, {pairs}' for n, pairs in columns)} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for name in KINDS:
        players = kind_case(name).rows.shape[1]
        cells = [compare(name, n, pairs * players) for n, pairs in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    columns = [(n, share) for n, of_rows in SHARES.items() for share in of_rows]
    lines += [
        "",
        "With few players, by the share of all pairs of coalitions:",
        "",
        f"| kind, players | {' | '.join(f'{n} rows, {share:.0%}' for n, share in columns)} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for name in SMALL_KINDS:
        n_all = 2 ** (kind_case(name).rows.shape[1] - 1) - 1
        cells = [compare(name, n, np.ceil(share * n_all)) for n, share in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    (HERE / "results" / "whole_background.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
