"""What a surrogate that is fitted once saves, for many rows: evaluations for each row to reach a tolerance.

    python benchmarks/amortise.py [--data FOLDER] [--rows 200] [--out benchmarks/results]

The credit network as a bare callable, independent features, tolerance 1 % of the spread of the values. Compared are
what is fitted anew for each row (control="auto"), and a shared surrogate (`fit_surrogate`), whose own evaluations are
told apart and spread over the rows.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from paper_data import add_data_argument, data_folder, load, load_network

import controlshap as cs

BUDGET, TOLERANCE, N_BACKGROUND = 400_000, 0.01, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_argument(parser)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--surrogate-budget", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    folder = data_folder(arguments.data)
    data, network = load("credit", folder), load_network("credit", folder)
    rng = np.random.default_rng(0)
    background = data.X_train[rng.permutation(len(data.X_train))[:N_BACKGROUND]]
    X = data.X_test[: arguments.rows]
    settings = {"groups": data.several, "seconds_per_evaluation": 1e-6}
    lines = [
        "| control | evaluations for the surrogate | evaluations a row, median | mean | mean with the surrogate's "
        "share | times less than row by row (median, mean, with share) | seconds a row |",
        "|---|---|---|---|---|---|---|",
    ]
    plain = None
    for budget in (0, *arguments.surrogate_budget):
        explainer = cs.Explainer(network, background, **settings)
        began = time.perf_counter()
        if budget:
            explainer.fit_surrogate(data.X_train, budget=budget, rng=0)
        found = explainer(X, tolerance=TOLERANCE, budget=BUDGET, rng=0, n_jobs=arguments.jobs, keep=False)
        seconds = (time.perf_counter() - began) / len(X)
        assert set(found.status) <= {"converged", "exact"}, np.unique(found.status, return_counts=True)
        n = found.n_evaluations
        figures = np.array([np.median(n), n.mean(), n.mean() + budget / len(X)])
        plain = figures if plain is None else plain
        ratios = plain / figures
        line = f"| {'shared' if budget else 'row by row'} | {budget:,} | "
        line += " | ".join(f"{figure:,.0f}" for figure in figures)
        lines.append(line + f" | {ratios[0]:.1f}, {ratios[1]:.1f}, {ratios[2]:.1f} | {seconds:.2f} |")
        print(lines[-1], np.unique(found.controls)[:2], flush=True)
    head = (
        f"# Evaluations with a shared surrogate\n\nPrinted by `python benchmarks/amortise.py`: credit network, "
        f"{len(X)} rows, {N_BACKGROUND} background rows, tolerance {TOLERANCE:.0%} of the spread.\n\n"
    )
    (arguments.out / "amortise.md").write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
