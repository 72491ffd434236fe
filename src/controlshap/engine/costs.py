"""The model evaluations that settings take for a row, and the least budget for which they give errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controlshap._errors import BudgetTooSmallError
from controlshap.controls import Control
from controlshap.estimators import Estimator
from controlshap.problem import Problem
from controlshap.variances import Variance

#: Fewest draws behind a v(0) that units do not draw themselves.
FEWEST_BASE_DRAWS = 16
#: Most of them where a tolerance may end the run long before the budget.
MOST_BASE_DRAWS = 4096


@dataclass(frozen=True)
class Costs:
    """Model evaluations of a row: for derivatives, for v(0), and for units, of which there must be some."""

    derivatives: int
    base: int
    fewest_units: int
    unit: int

    @property
    def least(self) -> int:
        """Fewest evaluations that give values with errors, f(x) included."""
        return 1 + self.derivatives + self.base + self.fewest_units * self.unit


def cost_of(
    problem: Problem, estimator: Estimator, controls: tuple[Control, ...], variance: Variance, budget: int
) -> Costs:
    """The evaluations of a row with these settings."""
    p, finite = problem.players.n_players, problem.base.finite
    units = max(estimator.fewest_units(p), variance.fewest_units)
    if estimator.exact_per_draw:
        units = len(problem.base.rows) if finite else 2
    derivatives = control_cost(problem, controls, budget)
    return Costs(derivatives, base_draws(problem, estimator, budget), units, estimator.unit_cost(p, finite=finite))


def base_draws(problem: Problem, estimator: Estimator, budget: int, *, early: bool = False) -> int:
    """Evaluations spent on v(0): its error reaches every value divided by about the number of players."""
    if problem.base.finite or estimator.evaluates_base(finite=False):
        return 0
    wanted = max(FEWEST_BASE_DRAWS, budget // (problem.players.n_players + 1))
    return min(wanted, MOST_BASE_DRAWS) if early else wanted


def control_cost(problem: Problem, controls: tuple[Control, ...], budget: int) -> int:
    """Most evaluations that the controls may spend on a row."""
    kind: dict[str, Any] = {"source": problem.model.source, "correlated": problem.correlated}
    return sum(control.cost(problem.players, problem.background, budget, **kind) for control in controls)


def least_budget(
    problem: Problem, estimator: Estimator, controls: tuple[Control, ...], variance: Variance, budget: int
) -> int:
    """The budget, or the next larger one that covers the controls which it affords."""
    while (least := cost_of(problem, estimator, controls, variance, budget).least) > budget:
        budget = least
    return budget


def check_budget(
    problem: Problem, estimator: Estimator, controls: tuple[Control, ...], variance: Variance, budget: int
) -> None:
    """Refuse a budget that cannot give values with errors."""
    needed = least_budget(problem, estimator, controls, variance, budget)
    if needed > budget:
        costs = cost_of(problem, estimator, controls, variance, needed)
        spent = ["1 for the row"]
        spent += [f"{costs.derivatives} for derivatives"] if costs.derivatives else []
        spent += [f"{costs.base} for the base value"] if costs.base else []
        raise BudgetTooSmallError(
            f"`budget` must be at least {needed} evaluations a row for {problem.players.n_players} players with "
            f"{type(estimator).__name__} ({', '.join(spent)}, {costs.fewest_units} units of {costs.unit}); "
            f"got {budget}.",
            needed,
        )
