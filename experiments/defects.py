"""What defects of the published runs do to their reductions of variance: the paper's settings with them.

    python experiments/defects.py [--data FOLDER] [--jobs N] [--models logistic,network] [--features correlated]
                                   [--estimators kernelshap] [--rows 40] [--runs 50]

Of KernelSHAP:

- Sizes of coalitions were drawn with the probability of a single coalition of that size (the binomial was applied
  twice), so that nearly all coalitions have size 1 or p - 1, and the least squares do not estimate Shapley values.
- A coalition and its complement are two rows of the least squares, each against v(0), instead of one row of their
  difference, where v(0) cancels.
- With correlated features v(0) was the mean prediction of the data, not that of the Gaussian that absent features
  follow; that of the Taylor control, which is linear, is its value at the mean.

Of forests, whichever the estimator: finite differences as in `published_differences.py`.

Writes `experiments/results/defects.csv`: reductions as published, with these defects, and (from `details.csv`) without.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from dataclasses import dataclass, replace
from math import comb
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from published_differences import PublishedDifferences

import controlshap as cs
from controlshap_paper.cells import (
    KERNEL_DRAWS,
    Cell,
    Size,
    all_cells,
    background_of,
    budget_of,
    make_taylor,
    rows_of,
)
from controlshap_paper.data import data_folder
from controlshap_paper.published import explained_rows, published
from controlshap_paper.runs import prepare, read_truth, truth_name
from controlshap_paper.statistics import summarise
from controlshap_paper.tables import read_lines

RESULTS = Path(__file__).resolve().parent / "results"
SEED = 7
KEY = ("data", "model", "estimator", "features")


@dataclass(frozen=True)
class PublishedKernel:
    """KernelSHAP as it was run for the paper."""

    kernel: cs.Kernel
    base: float | None  # in place of v(0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.kernel, name)

    def with_draws(self, most: int) -> PublishedKernel:
        return replace(self, kernel=self.kernel.with_draws(most))

    def sample(self, n_players: int, n_units: int, rng: np.random.Generator) -> np.ndarray:
        weights = np.array([1.0 / (comb(n_players, s) * s * (n_players - s)) for s in range(1, n_players)])
        sizes = 1 + rng.choice(n_players - 1, size=n_units, p=weights / weights.sum())
        order = rng.permuted(np.tile(np.arange(n_players), (n_units, 1)), axis=1)
        design = order < sizes[:, None]
        design[1::2] = ~design[0::2][: len(design[1::2])]
        return design

    def terms(self, game: Any, design: np.ndarray, draws: Any) -> Any:
        if self.base is not None:
            base = np.array(draws.base)
            base[0, 0] = self.base
            base[0, 1:] = game.evaluate(game.imputer.center[None])[0, 0, 1:]
            draws = replace(draws, base=base)
        return self.kernel.terms(game, design, draws)


def measure(cell: Cell, size: Size, folder: Path | None) -> dict[str, Any]:
    """Reductions with the defects."""
    sets, model = prepare(cell.data, cell.model, folder)
    rows, background, differences = rows_of(cell, sets), background_of(cell, sets), None
    if cell.model == "forest":
        rows, background, model = sets.X_test, sets.X_train, _of_standardised(model, sets)
        differences = PublishedDifferences.of(model, background, second=cell.features == "independent")
    X = rows[explained_rows(sets, cell.model, size.n_rows)]
    features: Any = cs.Marginal(replace=True) if cell.features == "independent" else cell.features
    base = None
    if cell.features == "correlated":
        predictions = model(background) if callable(model) else model.predict_proba(background)[:, 1]
        base = float(np.mean(predictions))
    estimator: Any = PublishedKernel(cs.Kernel(paired=False, n_draws=KERNEL_DRAWS, closes_sum=False), base)
    variance: Any = cs.LeastSquares(paper=True)
    if cell.estimator == "shapley_sampling":
        shares = cell.features == "independent"
        estimator, variance = cs.PerFeature(shares_draws=shares, own_draws=True, closes_sum=False), "auto"
    runs = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        for run in range(size.n_runs):
            taylor = make_taylor(cell, model, 0, run)
            if differences is not None:
                second = differences.hessian if differences.second else None
                taylor = cs.Taylor(gradient=differences.gradient, hessian=second, n_permutations=1000, seed=run)
            explainer = cs.Explainer(
                model, background, features=features, groups=sets.several, estimator=estimator, control=taylor,
                variance=variance, coefficient="units", max_background=len(sets.train),
            )  # fmt: skip
            # differences are taken once for all runs, and not counted
            costing = cell if differences is None else replace(cell, model="network")
            budget = budget_of(costing, explainer, sets, size.n_coalitions)
            runs.append(explainer(X, budget=budget, rng=np.random.SeedSequence([SEED, run]), keep=False))
    plain, controlled = np.stack([e.uncontrolled_values for e in runs]), np.stack([e.values for e in runs])
    # the five most important players as in the table, by the true values where these were computed
    known = (RESULTS / "raw" / f"{truth_name(cell)}.npz").is_file()
    order = read_truth(cell, RESULTS / "raw")[0] if known and size == Size() else plain.mean(axis=0)
    found = summarise(plain, controlled, order, np.zeros_like(order))
    return {
        "data": cell.data, "model": cell.model, "estimator": cell.estimator, "features": cell.features,
        "published": published(cell).variance, "with_defect": found.variance_reduction, "error": found.variance_error,
        "published_rank": published(cell).rank, "with_defect_rank": found.rank_reduction,
    }  # fmt: skip


def _of_standardised(forest: Any, sets: Any) -> Any:
    """A forest as a function of standardised rows."""
    return lambda rows: forest.predict_proba(rows * sets.std + sets.mean)[:, 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--models", default="logistic")
    parser.add_argument("--features", default="independent,correlated")
    parser.add_argument("--estimators", default="kernelshap")
    arguments = parser.parse_args()
    size, folder = Size(arguments.rows, arguments.runs), data_folder(arguments.data)
    ours = {(line.cell, line.method): line.variance_reduction for line in read_lines(RESULTS / "details.csv")}
    models, features = arguments.models.split(","), arguments.features.split(",")
    cells = [c for c in all_cells() if c.model in models and c.features in features]
    cells = [c for c in cells if c.estimator in arguments.estimators.split(",")]
    header = (*KEY, "published", "with_defect", "error", "without_defect", "published_rank", "with_defect_rank")
    file = RESULTS / "defects.csv"
    stored: dict[tuple[str, ...], dict[str, Any]] = {}
    if file.is_file():
        with file.open(newline="") as old:
            stored = {tuple(row[name] for name in KEY): dict(row) for row in csv.DictReader(old)}
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = joblib.Parallel(n_jobs=arguments.jobs, return_as="generator")
        found = parallel(joblib.delayed(measure)(cell, size, folder) for cell in cells)
        for cell, one in zip(cells, found, strict=True):
            one["without_defect"] = ours.get((cell, "paper"), "")
            told = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in one.items()}
            stored[cell.data, cell.model, cell.estimator, cell.features] = told
            print(told, flush=True)
            with file.open("w", newline="") as out:
                writer = csv.DictWriter(out, header, lineterminator="\n")
                writer.writeheader()
                writer.writerows(stored[key] for key in sorted(stored))


if __name__ == "__main__":
    main()
