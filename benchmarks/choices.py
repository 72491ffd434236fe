"""The measurements behind the default choices in docs/design.md.

    python benchmarks/choices.py [--data FOLDER] [--replications 200]

Each table replicates explanations of the same rows (copies of a row have independent streams) and compares them with
a long run. Written to results/choices.md.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import paper_data

import controlshap as cs
from controlshap.engine import choice
from controlshap.estimators import Enumeration

RESULTS = Path(__file__).resolve().parent / "results"
N_BACKGROUND, N_ROWS = 100, 2


def problem(name, folder):
    """The published network, 100 background rows and two rows to explain."""
    data = paper_data.load(name, folder)
    network = paper_data.load_network(name, folder)
    chosen = np.random.default_rng(0).permutation(len(data.X_train))[:N_BACKGROUND]
    return network, data.X_train[chosen], data.X_test[:N_ROWS], data.several or None


def replicate(explainer, x, budget, n):
    """Replications of one row."""
    return explainer(np.tile(x, (n, 1)), budget=budget, rng=1)


def coefficients(folder, n):
    """Bias, calibration and spread with coefficients from other folds and from the same units."""
    lines = [
        "## Where the coefficient of the Taylor control comes from",
        "",
        f"Tanh networks, independent features, walks, {N_BACKGROUND} background rows, {n} replications of {N_ROWS} "
        "rows. Bias is the largest over players, in observed standard errors (noise alone reaches about 0.2).",
        "",
        "| data | budget | control | coefficient | largest bias | reported / observed | coverage of 95 % | spread |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in ("credit", "brca"):
        network, background, rows, groups = problem(name, folder)
        settings = {"groups": groups, "estimator": "permutation"}
        truth = cs.Explainer(network, background, control="none", **settings)
        exact = [truth(np.tile(x, (8, 1)), budget=200_000, rng=2).values.mean(axis=0) for x in rows]
        for budget in (500, 2000):
            for control, coefficient in (("none", "folds"), ("taylor", "units"), ("taylor", "folds")):
                explainer = cs.Explainer(network, background, control=control, coefficient=coefficient, **settings)
                bias, ratio, inside, spread = [], [], [], []
                for x, values in zip(rows, exact, strict=True):
                    found = replicate(explainer, x, budget, n)
                    observed = found.values.std(axis=0, ddof=1)
                    bias.append(np.abs((found.values.mean(axis=0) - values) / observed).max())
                    ratio.append(np.median(np.sqrt((found.standard_errors**2).mean(axis=0)) / observed))
                    low, high = found.confidence_interval(0.95)
                    inside.append(((low <= values) & (values <= high)).mean())
                    spread.append(observed.mean())
                lines.append(
                    f"| {name} | {budget} | {control} | {coefficient} | {max(bias):.2f} | {np.mean(ratio):.2f} | "
                    f"{np.mean(inside):.3f} | {np.mean(spread):.5f} |"
                )
    return lines


def visits(folder, n):
    """Variance with rows drawn at random over that with rows visited in cycles."""
    lines = [
        "## Background rows in cycles or at random",
        "",
        "Variance of walks without control when rows are drawn at random, over that when they are visited in cycles "
        "(mean over players and rows).",
        "",
        "| data | 500 evaluations | 2,000 | 10,000 |",
        "|---|---|---|---|",
    ]
    for name in ("credit", "brca", "simulated"):
        network, background, rows, groups = problem(name, folder)
        cells = []
        for budget in (500, 2000, 10_000):
            # Three groups need independent units, which is how rows come to be drawn at random.
            at_random, in_cycles = (
                cs.Explainer(
                    network, background, groups=groups, control="none", variance=variance, estimator="permutation"
                )
                for variance in (cs.Grouped(3), "analytic")
            )
            ratios = [
                replicate(at_random, x, budget, n).values.var(axis=0).mean()
                / replicate(in_cycles, x, budget, n).values.var(axis=0).mean()
                for x in rows
            ]
            cells.append(f"{np.mean(ratios):.1f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def enumeration(n):
    """Variance of walks over that of enumeration at equal evaluations, draws from a Gaussian."""
    lines = [
        "## Enumeration of all coalitions with correlated features",
        "",
        "Draws are sampled, so enumeration removes the noise of coalitions only, and buys fewer draws. Variance of "
        "paired walks over that of enumeration at 4,000 evaluations, a saturating function of p correlated columns; "
        "above 1 enumeration is better.",
        "",
        "| players | evaluations of a draw: enumeration, walks | variance ratio |",
        "|---|---|---|",
    ]
    for p in (2, 3, 4, 5, 6):
        rng = np.random.default_rng(p)
        background = rng.normal(size=(200, p)) @ (np.eye(p) + 0.5 * rng.normal(size=(p, p)))
        weights = 2.0 * rng.normal(size=p)

        def model(rows, weights=weights):
            return np.tanh(rows @ weights + rows[:, 0] * rows[:, -1])

        x = background[0]
        results = []
        for factor in (0.0, 1e9):
            choice.ENUMERATION_FACTOR, kept = factor, choice.ENUMERATION_FACTOR
            explainer = cs.Explainer(model, background, features="correlated", control="none")
            results.append(replicate(explainer, x, 4000, n).values.var(axis=0).mean())
            choice.ENUMERATION_FACTOR = kept
        cost = Enumeration().unit_cost(p, finite=False), cs.Permutation().unit_cost(p, finite=False)
        lines.append(f"| {p} | {cost[0]}, {cost[1]} | {results[0] / results[1]:.2f} |")
    return lines


def main() -> None:
    """Print and write all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    paper_data.add_data_argument(parser)
    parser.add_argument("--replications", type=int, default=200)
    arguments = parser.parse_args()
    folder = paper_data.data_folder(arguments.data)
    warnings.simplefilter("ignore", cs.ControlShapWarning)
    parts = [
        ["# Measurements behind the defaults", "", "`python benchmarks/choices.py`"],
        coefficients(folder, arguments.replications),
        visits(folder, arguments.replications),
        enumeration(arguments.replications),
    ]
    text = "\n\n".join("\n".join(part) for part in parts) + "\n"
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "choices.md").write_text(text)


if __name__ == "__main__":
    main()
