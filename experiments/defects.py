"""What two defects of the published runs do to the reductions of variance: the paper's settings with the defect in.

    python experiments/defects.py [--data FOLDER] [--jobs N] [--rows 40] [--runs 50]

- "sampler": KernelSHAP coalitions drawn with the binomial applied twice, so that nearly all have size 1 or p - 1.
- "large coalitions": correlated Shapley sampling where v(S + j) is f(x) as soon as S + j has as many columns as there
  are players.

Writes `experiments/results/defects.csv`.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import controlshap as cs
from controlshap.reproduce.cells import (
    Cell,
    Size,
    all_cells,
    background_of,
    budget_of,
    make_explainer,
    make_taylor,
    rows_of,
)
from controlshap.reproduce.data import data_folder
from controlshap.reproduce.published import explained_rows, published
from controlshap.reproduce.runs import prepared
from controlshap.reproduce.statistics import top_players, variance_reduction

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class TwiceKernel:
    """KernelSHAP whose sizes are drawn with the probability of a single coalition of that size."""

    kernel: cs.Kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)

    def sample(self, n_players: int, n_units: int, rng: np.random.Generator) -> np.ndarray:
        weights = np.array([1.0 / (comb(n_players, s) * s * (n_players - s)) for s in range(1, n_players)])
        sizes = 1 + rng.choice(n_players - 1, size=n_units, p=weights / weights.sum())
        order = rng.permuted(np.tile(np.arange(n_players), (n_units, 1)), axis=1)
        return order < sizes[:, None]

    def terms(self, *arguments: Any) -> Any:
        return self.kernel.terms(*arguments)


@dataclass(frozen=True)
class EarlyFull:
    """Shapley sampling that takes a coalition for full when it has as many columns as there are players."""

    base: cs.PerFeature
    columns: tuple[int, ...]  # of each player

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def terms(self, game: Any, design: Any, draws: Any) -> Any:
        return self.base.terms(_EarlyFullGame(game, np.array(self.columns)), design, draws)


class _EarlyFullGame:
    """Answers of a game, with f(x) where the coalition looks full."""

    def __init__(self, game: Any, columns: np.ndarray) -> None:
        self.game, self.columns, self.at_x = game, columns, game.at_x
        self.joined = False

    def coalition_values(self, coalitions: np.ndarray, rows: np.ndarray) -> np.ndarray:
        values = self.game.coalition_values(coalitions, rows)
        # S is asked for first, then S + j
        if self.joined:
            full = coalitions @ self.columns >= len(self.columns)
            values[full] = self.at_x
        self.joined = not self.joined
        return values


def explainer_of(cell: Cell, defect: str, model: Any, sets: Any, size: Size, run: int) -> cs.Explainer:
    if defect == "none":
        return make_explainer(cell, "paper", model, sets, size, run)
    if cell.estimator == "kernelshap":
        estimator: Any = TwiceKernel(cs.Kernel(n_draws=10, closes_sum=False))
        variance: Any = cs.LeastSquares(paper=True)
    else:
        sizes = tuple(len(columns) for columns in sets.groups.values())
        estimator = EarlyFull(cs.PerFeature(shares_draws=False, closes_sum=False), sizes)
        variance = cs.Analytic()
    return cs.Explainer(
        model, background_of(cell, sets), features=cell.features, groups=sets.several, estimator=estimator,
        control=make_taylor(cell, model, run), variance=variance, coefficient="units", max_background=len(sets.train),
    )  # fmt: skip


def measure(cell: Cell, size: Size, folder: Path | None) -> dict[str, Any]:
    """Reductions of variance with the defect that the cell has, and without."""
    sets, model = prepared(cell.data, cell.model, folder)
    X = rows_of(cell, sets)[explained_rows(sets, cell.model, size.n_rows)]
    found: dict[str, Any] = {
        "data": cell.data,
        "model": cell.model,
        "estimator": cell.estimator,
        "features": cell.features,
    }
    found["published"] = published(cell).variance
    top = None
    for defect in ("none", "sampler" if cell.estimator == "kernelshap" else "large coalitions"):
        runs = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for run in range(size.n_runs):
                explainer = explainer_of(cell, defect, model, sets, size, run)
                budget = budget_of(cell, explainer, sets, size.n_coalitions)
                runs.append(explainer(X, budget=budget, rng=np.random.SeedSequence([7, run]), keep=False))
        plain, controlled = np.stack([e.uncontrolled_values for e in runs]), np.stack([e.values for e in runs])
        top = top_players(plain.mean(axis=0)) if top is None else top
        found["without defect" if defect == "none" else "with defect"] = variance_reduction(plain, controlled, top)
        found["defect"] = defect
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--models", default="logistic")
    arguments = parser.parse_args()
    size = Size(arguments.rows, arguments.runs)
    kernel = [c for c in all_cells() if c.estimator == "kernelshap"]
    large = [c for c in all_cells() if c.estimator == "shapley_sampling" and c.features == "correlated"]
    cells = [
        c for c in kernel + [c for c in large if c.data in ("bank", "census", "credit")] if c.model in arguments.models
    ]
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = joblib.Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")
        found = []
        for one in parallel(joblib.delayed(measure)(cell, size, data_folder(arguments.data)) for cell in cells):
            print(one, flush=True)
            found.append(one)
    header = ("data", "model", "estimator", "features", "defect", "published", "without defect", "with defect")
    with (RESULTS / "defects.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, header, lineterminator="\n")
        writer.writeheader()
        for one in sorted(found, key=lambda one: tuple(str(one[name]) for name in header[:5])):
            writer.writerow({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in one.items()})


if __name__ == "__main__":
    main()
