"""The cells of the paper's table, and the methods that each is run with.

- `paper`: Shapley sampling for each feature, 1000 permutations in reversed pairs, each with one draw, and with noise of
  its own for S and for S + j where features are correlated; KernelSHAP with 1000 coalitions in pairs, ten draws each,
  and the paper's least-squares covariance; background rows drawn with replacement; Taylor control with its coefficient
  from the same units.
- `shared_noise`: the same with one draw for S and S + j.
- `default`: `Explainer(model, background, features)` as it comes, with as many evaluations as `paper` spends.
- `bootstrap`, `grouped`: KernelSHAP as in `paper`, with the paper's other two covariances.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import controlshap as cs
from controlshap_paper import data, models
from controlshap_paper.data import PaperData

ESTIMATORS = ("shapley_sampling", "kernelshap")
FEATURES = ("independent", "correlated")
METHODS = ("paper", "shared_noise", "default", "bootstrap", "grouped")
#: Those of the table; the rest are for figures about the covariances.
TABLE_METHODS = METHODS[:3]
KERNEL_DRAWS = 10
#: Seconds of an evaluation, roughly.
SECONDS = {"logistic": 1e-6, "network": 3e-6, "forest": 1e-5}


@dataclass(frozen=True)
class Cell:
    """One cell of the table."""

    data: str
    model: str
    estimator: str
    features: str

    @property
    def name(self) -> str:
        """Unique; also the start of file names."""
        return f"{self.data}-{self.model}-{self.estimator}-{self.features}"

    def same_as_paper(self, method: str) -> bool:
        """Whether a method is the paper's here: only correlated Shapley sampling has noise to share."""
        shares = self.estimator == "shapley_sampling" and self.features == "correlated"
        return method == "paper" or (method == "shared_noise" and not shares)

    def methods(self) -> tuple[str, ...]:
        """The methods that are run for it."""
        of_table = [m for m in TABLE_METHODS if m == "paper" or not self.same_as_paper(m)]
        return (*of_table, *(METHODS[3:] if self.estimator == "kernelshap" else ()))


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    n_rows: int = 40
    n_runs: int = 50
    n_coalitions: int = 1000
    truth_budget: int = 100_000

    @classmethod
    def quick(cls) -> Size:
        """Every table and figure in minutes."""
        return cls(6, 12, 300, 10_000)


def all_cells() -> list[Cell]:
    """The sixty cells of the table, those that take longest last."""
    cells = [Cell(*parts) for parts in product(data.NAMES, models.NAMES, ESTIMATORS, FEATURES)]
    return sorted(cells, key=lambda cell: models.NAMES.index(cell.model))


def n_groups(n_coalitions: int, n_players: int) -> int:
    """Twenty, or as many as leave each group of pairs a few more than it has players."""
    return min(20, max(2, n_coalitions // 2 // (n_players + 4)))


def make_explainer(
    cell: Cell, method: str, model: Any, sets: PaperData, size: Size, seed: int, run: int
) -> cs.Explainer:
    """The explainer of a method, for one of the runs."""
    background = background_of(cell, sets)
    common: dict[str, Any] = {"features": cell.features, "groups": sets.several, "max_background": len(background)}
    if method == "default":
        # what is fitted is weighed against the time of the model, which must not depend on what else is running
        return cs.Explainer(model, background, seconds_per_evaluation=SECONDS[cell.model], **common)
    if cell.features == "independent":
        common["features"] = cs.Marginal(replace=True)
    estimator: Any
    variance: Any = "auto"
    if cell.estimator == "shapley_sampling":
        own_noise = cell.features == "correlated" and method == "paper"
        estimator = cs.PerFeature(shares_draws=not own_noise, own_draws=True, closes_sum=False)
    else:
        estimator = cs.Kernel(n_draws=KERNEL_DRAWS, closes_sum=False)
        groups = n_groups(size.n_coalitions, len(sets.groups))
        others = {"bootstrap": cs.Bootstrap(200), "grouped": cs.Grouped(groups)}
        variance = others.get(method, cs.LeastSquares(paper=True))
    return cs.Explainer(
        model, background, estimator=estimator, control=make_taylor(cell, model, seed, run), variance=variance,
        coefficient="units", **common,
    )  # fmt: skip


def make_taylor(cell: Cell, model: Any, seed: int, run: int) -> cs.Taylor:
    """Exact derivatives, or differences by one marginal standard deviation; 1000 permutations for the D matrices.

    Every run draws these permutations anew: with the same ones their error would be a bias of the mean over runs.
    """
    settings: dict[str, Any] = {"n_permutations": 1000, "seed": 1000 * seed + run}
    if cell.model == "network":
        return cs.Taylor(gradient=model.gradient, hessian=model.hessian, **settings)
    if cell.model == "forest":
        return cs.Taylor(derivatives=cs.FiniteDifferences(step=1.0, cross=True), **settings)
    return cs.Taylor(**settings)


def background_of(cell: Cell, sets: PaperData) -> Any:
    """All training rows: standardised, but for a forest, whose one-hot blocks stay 0 and 1 for their differences."""
    return sets.encoded[sets.train] if cell.model == "forest" else sets.X_train


def rows_of(cell: Cell, sets: PaperData) -> Any:
    """All test rows, likewise."""
    return sets.encoded[sets.test] if cell.model == "forest" else sets.X_test


def derivative_cost(cell: Cell, explainer: cs.Explainer, sets: PaperData) -> int:
    """Evaluations that the derivatives of a Taylor control take: a forest's are differences, others are known."""
    if cell.model != "forest":
        return 0
    second = cell.features == "independent"
    return cs.FiniteDifferences(cross=True).cost(background_of(cell, sets), explainer.players, 1, second=second)


def budget_of(cell: Cell, explainer: cs.Explainer, sets: PaperData, n_coalitions: int, *, spent: bool = False) -> int:
    """Evaluations that buy `n_coalitions` for every player (Shapley sampling) or in all (KernelSHAP).

    `spent` is what the paper's method needs of them on average: ends of permutations that are known are not evaluated,
    and no value of Shapley sampling depends on v(0).
    """
    p = len(sets.groups)
    units = n_coalitions // 2
    of_units = units * (4 * p if cell.estimator == "shapley_sampling" else 2 * KERNEL_DRAWS)
    budget = fixed = 1 + derivative_cost(cell, explainer, sets) + of_units
    if spent and cell.estimator == "shapley_sampling":
        return fixed - units * (4 if cell.features == "independent" else 2)
    if cell.features == "correlated":
        # v(0) is sampled with a share of the budget
        while budget - max(16, budget // (p + 1)) < fixed:
            budget += 1
    return budget
