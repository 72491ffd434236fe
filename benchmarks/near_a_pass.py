"""Pairs of walks or single walks, between one pass over the background and two: errors on models of nine kinds.

    python benchmarks/near_a_pass.py [--seeds 8]

100 background rows and two rows to explain; true values from all coalitions.
Nothing else was chosen by these models. Takes 6 minutes and writes results/near_a_pass.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification, make_friedman1
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.svm import SVC

import controlshap as cs

N_BACKGROUND, PASSES = 100, (1.15, 1.3, 1.45, 1.6, 1.8)
DESIGNS = {"pairs": cs.Permutation(), "single walks": cs.Permutation(paired=False)}


def kinds() -> Iterator[tuple[str, Callable[[np.ndarray], np.ndarray], np.ndarray]]:
    """Name, model as a bare function, and data."""
    for name, estimator, d, seed in (
        ("ReLU network", MLPRegressor(hidden_layer_sizes=(40, 40), max_iter=300, random_state=0), 9, 1),
        ("boosting", GradientBoostingRegressor(n_estimators=150, max_depth=4, random_state=0), 10, 2),
    ):
        X, y = make_friedman1(1500, d, noise=0.3, random_state=seed)
        yield name, estimator.fit(X, y).predict, X
    for name, estimator, d, seed in (
        ("forest, probability", RandomForestClassifier(60, min_samples_leaf=5, random_state=0), 11, 3),
        ("RBF machine, probability", SVC(probability=True, gamma=0.3, random_state=0), 9, 4),
        ("boosting, probability", HistGradientBoostingClassifier(max_iter=60, random_state=0), 12, 5),
        (
            "tanh network, probability",
            MLPClassifier(hidden_layer_sizes=(30,), activation="tanh", max_iter=300, random_state=1),
            10,
            8,
        ),
    ):
        X, y = make_classification(1500, d, n_informative=d // 2 + 1, n_redundant=1, random_state=seed)
        yield name, estimator.fit(X, y).predict_proba, X
    rng = np.random.default_rng(77)
    yield "products and sines", products, rng.normal(size=(400, 10))
    yield "exponential", lambda rows: np.exp(0.5 * rows[:, :6].sum(axis=1)), rng.normal(size=(400, 12))
    yield "AND", lambda rows: (rows[:, :4] > -0.3).all(axis=1) + 0.1 * rows[:, 4], rng.normal(size=(400, 8))


def products(rows: np.ndarray) -> np.ndarray:
    return rows[:, 0] * rows[:, 1] * rows[:, 2] + np.sin(2 * rows[:, 3] * rows[:, 4]) + 0.3 * rows[:, 5:].sum(axis=1)


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    ratios = []
    lines = [
        "# Near a pass",
        "",
        f"`python benchmarks/near_a_pass.py`: 2 rows x {seeds} seeds, {N_BACKGROUND} background rows. Mean squared",
        "error of pairs of walks over that of single walks, by passes of single walks that the budget pays for, and in",
        "brackets the coverage of 95 % intervals of both, in %.",
        "",
        f"| model | players | {' | '.join(map(str, PASSES))} |",
        "|---" * (len(PASSES) + 2) + "|",
    ]  # fmt: skip
    for name, predict, X in kinds():
        d, background, rows = X.shape[1], X[:N_BACKGROUND], X[-2:]

        def model(rows: np.ndarray, predict: Callable[[np.ndarray], np.ndarray] = predict) -> np.ndarray:
            found = predict(rows)
            return found[:, -1] if found.ndim == 2 else found

        truth = cs.Explainer(model, background)(rows, budget=N_BACKGROUND * 2**d + 1).values
        found, cells = [], []
        for passes in PASSES:
            cell = []
            for estimator in DESIGNS.values():
                explainer, errors, inside = cs.Explainer(model, background, estimator=estimator), [], []
                for x, values in zip(rows, truth, strict=True):
                    budget = int(passes * N_BACKGROUND * (d - 1))
                    one = explainer(np.tile(x, (seeds, 1)), budget=budget, rng=5)
                    errors.append(((one.values - values) ** 2).mean())
                    low, high = one.confidence_interval(0.95)
                    inside.append(((low <= values) & (values <= high)).mean())
                cell.append((np.mean(errors), 100 * np.mean(inside)))
            found.append(cell[0][0] / cell[1][0])
            cells.append(f"{found[-1]:.2f} ({cell[0][1]:.0f}, {cell[1][1]:.0f})")
        ratios.append(found)
        lines.append(f"| {name} | {d} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    means = " | ".join(f"{mean:.2f}" for mean in np.exp(np.log(ratios).mean(axis=0)))
    lines.append(f"| geometric mean | | {means} |")
    print(lines[-1])
    (Path(__file__).resolve().parent / "results" / "near_a_pass.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
