"""Models that answer in whole numbers: labels, ratings, counts, ranks, rounded numbers. Walks or KernelSHAP?

    python benchmarks/whole_numbers.py [--seeds 6] [--rows 3]

Ten columns, so that the truth is enumerated. Prints mean squared errors of pairs of walks and of "auto" over that of
KernelSHAP, by the number of background rows and of evaluations, and the number of values that the outputs have. Takes
three minutes. Writes nothing.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import controlshap as cs

N_COLUMNS = 10
DATA = np.random.default_rng(3).normal(size=(400, N_COLUMNS))


def score(rows: np.ndarray) -> np.ndarray:
    """A smooth function with an interaction."""
    return np.asarray(rows[:, 0] + rows[:, 1] * rows[:, 2] + np.sin(2.0 * rows[:, 3]))


FOREST = RandomForestClassifier(25, max_depth=6, random_state=0).fit(DATA, score(DATA) > 0)
MODELS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "two classes": lambda rows: (score(rows) > 0).astype(float),
    "three classes": lambda rows: (
        np.stack([score(rows), rows[:, 4] * rows[:, 5], rows[:, 6]], 1).argmax(1).astype(float)
    ),
    "three levels": lambda rows: (score(rows) > 0.7).astype(float) + (score(rows) > -0.7),
    "four classes": lambda rows: rows[:, :4].argmax(1).astype(float),
    "six classes": lambda rows: (
        (rows[:, :6] + rows[:, [1, 2, 3, 4, 5, 0]] * rows[:, [6, 7, 8, 9, 0, 1]]).argmax(1) * 1.0
    ),
    "rating of 1 to 5": lambda rows: np.clip(np.round(3.0 + score(rows)), 1.0, 5.0),
    "votes of 25 trees": lambda rows: np.sum([tree.predict(rows) for tree in FOREST.estimators_], axis=0),
    "rank among four": lambda rows: np.argsort(np.argsort(rows[:, :4], 1), 1)[:, 0].astype(float),
    "count": lambda rows: np.floor(np.exp(0.5 * rows[:, 0] + 0.4 * rows[:, 1])),
    "rounded to tenths, times ten": lambda rows: np.round(10.0 * score(rows)),
}


def compare(model: Callable[[np.ndarray], np.ndarray], n_background: int, budget: int, args: argparse.Namespace) -> str:
    """Errors of walks and of "auto" over that of KernelSHAP."""
    background, rows = DATA[:n_background], DATA[-args.rows :]
    truth = cs.Explainer(model, background)(rows, budget=1 + n_background * 2**N_COLUMNS).values
    errors = []
    for estimator in (cs.Kernel(), cs.Permutation(), "auto"):
        explainer = cs.Explainer(model, background, estimator=estimator)
        found = [explainer(rows, budget=budget, rng=seed, keep=False).values for seed in range(args.seeds)]
        errors.append(float(np.mean((np.array(found) - truth) ** 2)))
    return " | ".join(f"{error / errors[0]:.2g}" for error in errors[1:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--rows", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    cells = [(n_background, budget) for n_background in (20, 100) for budget in (500, 2_000)]
    heads = [f"{n} rows, {budget:,}: walks | auto" for n, budget in cells]
    print(f"| model | values | {' | '.join(heads)} |")
    print("|---" * (2 + 2 * len(cells)) + "|")
    for name, model in MODELS.items():
        ratios = [compare(model, n_background, budget, args) for n_background, budget in cells]
        print(f"| {name} | {len(np.unique(model(DATA)))} | {' | '.join(ratios)} |", flush=True)


if __name__ == "__main__":
    main()
