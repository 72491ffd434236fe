"""The plan of a call: every decision, taken once, and its cost; and settings that are refused before any model call.

`engine.choice` has the rules, and `engine.row` carries the plan out.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from controlshap._errors import BudgetTooSmallError, ErraticVarianceWarning, InvalidArgumentError, NoClosedFormError
from controlshap._types import FloatArray
from controlshap.controls import Control
from controlshap.engine.choice import (
    RowFacts,
    choose_alternative,
    choose_controls,
    choose_estimator,
    choose_keeping,
    choose_variance,
    control_cost,
    exact_budget,
)
from controlshap.estimators import Estimator
from controlshap.functions.base import KnownFunction
from controlshap.models.model import refuse_outside
from controlshap.problem import Problem
from controlshap.statistics.stopping import Stopping
from controlshap.variances import Variance

#: The plan mentions an exact budget up to so many times the budget that was set.
NEARLY_EXACT_FACTOR = 2
#: Units below which resampling understates the error of a control with a fitted coefficient
#: (benchmarks/results/honesty.md).
FEW_TO_RESAMPLE = 200
#: Fewest draws for a v(0) that units do not draw themselves.
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


@dataclass(frozen=True)
class Plan:
    """The decisions for the rows of a call, and their cost.

    Attributes
    ----------
    estimator : Estimator
    variance : Variance
    controls : tuple of Control
    other_controls : tuple of Control or None
        Used for rows that a shared surrogate does not reach; None where there is nothing to choose.
    budget : int
        Most evaluations of a row, for which the rest was chosen.
    early : bool
        Whether the run may end before the budget is spent.
    costs : Costs
    n_base_draws : int
        Evaluations for v(0), where units do not draw it themselves.
    with_replacement : bool
        Whether background rows are drawn at random, not visited in cycles.
    keeps : {"units", "batches", "coalition means"}
        How many units are stored.
    is_exact : bool
        Whether all coalitions of all background rows are evaluated.
    form : KnownFunction or None
        The known form of the model, which is tried first.
    reasons : dict
        Why the estimator, the controls and the variance are what they are.
    notes : tuple of str
        Remarks on rows that are treated differently, where rows were given.
    n_rows : int
        Rows that were given, 0 without.
    seconds : float or None
        Time of an evaluation, if the user stated it.
    alternative : Estimator or None
        Estimator that replaces the first one if a pilot shows it to be better (`engine.pilot`).
    exact_cost : int or None
        Evaluations of all coalitions, which take the place of sampling in a run that has not ended early before it has
        taken as many; None where they never do.
    """

    estimator: Estimator
    variance: Variance
    controls: tuple[Control, ...]
    other_controls: tuple[Control, ...] | None
    budget: int
    early: bool
    costs: Costs
    n_base_draws: int
    with_replacement: bool
    keeps: Literal["units", "batches", "coalition means"]
    is_exact: bool
    form: KnownFunction | None = None
    reasons: dict[str, str] = field(default_factory=dict, compare=False)
    notes: tuple[str, ...] = ()
    n_rows: int = field(default=0, compare=False)
    alternative: Estimator | None = None
    exact_cost: int | None = None
    seconds: float | None = field(default=None, compare=False)

    @property
    def most_evaluations(self) -> int:
        """Most evaluations of a row; 1 for a model of a known form."""
        if self.form is not None:
            return 1
        return 1 + self.costs.fewest_units * self.costs.unit if self.is_exact else self.budget

    @property
    def prepared_controls(self) -> tuple[Control, ...]:
        """Controls that are made before sampling."""
        return tuple(control for control in self.controls if not control.is_fitted)

    @property
    def fitted_controls(self) -> tuple[Control, ...]:
        """Controls that are fitted to what was sampled."""
        return tuple(control for control in self.controls if control.is_fitted)

    def for_row(self, problem: Problem, x: FloatArray, at_x: FloatArray | None = None) -> Plan:
        """The plan of one row, which takes f(x) `(outputs,)` into account if it is known.

        Rows that differ from the background in few players, have missing values, or are out of a shared surrogate's
        reach are treated differently.
        """
        if problem.estimator is not None:
            return _with_controls_of_row(self, problem, x)
        plan, facts, reasons = self, RowFacts.of(problem, x, at_x), dict[str, str]()
        estimator = choose_estimator(problem, self.budget, reasons, early=self.early, facts=facts)
        if estimator != self.estimator:
            plan = _assemble(problem, self.budget, estimator, reasons, early=self.early)
            plan = replace(plan, notes=self.notes, exact_cost=self.exact_cost)
        return _with_controls_of_row(plan, problem, x)

    def leave(self, problem: Problem) -> Plan:
        """The plan after a pilot that showed the alternative to be better."""
        assert self.alternative is not None
        plan = _assemble(problem, self.budget, self.alternative, {}, early=self.early)
        return replace(plan, controls=self.controls, other_controls=self.other_controls, alternative=None)

    def enumerate(self, problem: Problem) -> Plan:
        """The plan that evaluates all coalitions after sampling as much as they cost."""
        assert self.exact_cost is not None
        return _assemble(problem, self.exact_cost, choose_estimator(problem, self.exact_cost), {}, early=False)

    @property
    def n_units(self) -> int:
        """Number of units that the budget pays for if x and the background agree nowhere; more where rows are known."""
        spent = 1 + self.costs.derivatives + self.n_base_draws
        return max(0, self.budget - spent) // max(1, self.costs.unit)

    def warn_few_to_resample(self, n_units: int) -> None:
        """Warn where units are too few for a bootstrap with a control whose coefficient they determine."""
        controls = self.prepared_controls
        if self.variance.resamples and controls and n_units < FEW_TO_RESAMPLE:
            warnings.warn(
                f"`variance`: {n_units} units are few for a bootstrap with {type(controls[0]).__name__}(), whose "
                "coefficient is fitted to the same units; intervals cover less than they say (91 to 93 % at 95 %). "
                "Use variance='auto', or raise `budget`.",
                ErraticVarianceWarning,
                stacklevel=4,
            )

    def __str__(self) -> str:
        from controlshap.engine.describe import describe_plan

        return "\n".join(describe_plan(self))


def _with_controls_of_row(plan: Plan, problem: Problem, x: FloatArray) -> Plan:
    """The plan without controls that a row cannot have, which has missing values or is out of a surrogate's reach."""
    if problem.controls is not None or not plan.controls:
        return plan
    if not np.isfinite(x).all():
        return replace(plan, controls=(), keeps=choose_keeping(problem, plan.estimator, plan.variance, ()))
    if plan.other_controls is None or problem.shared is None:
        return plan
    if problem.shared.reaches(x, problem.background, problem.players):
        return plan
    return replace(plan, controls=plan.other_controls)


def make_plan(problem: Problem, stopping: Stopping) -> Plan:
    """Decide everything, as far as it does not depend on the row."""
    budget, early, reasons = stopping.design_budget, stopping.early, dict[str, str]()
    estimator = choose_estimator(problem, budget, reasons, early=early)
    plan = _assemble(problem, budget, estimator, reasons, early=early)
    price = problem.imputer.describe_price(budget)
    plan = replace(plan, notes=(price,)) if price else plan
    needed = exact_budget(problem, budget)
    if early and needed is not None and not plan.is_exact and 2 * needed <= stopping.budget:
        note = f"exact after {needed:,} evaluations without an end: all coalitions then cost as much again"
        return replace(plan, exact_cost=needed, notes=(*plan.notes, note))
    if needed is None or plan.is_exact or early or needed > NEARLY_EXACT_FACTOR * budget:
        return plan
    return replace(plan, notes=(f"nearly exact: budget={needed} covers all coalitions, without sampling error",))


def _assemble(problem: Problem, budget: int, estimator: Estimator, reasons: dict[str, str], *, early: bool) -> Plan:
    """The plan of an estimator: controls, variance, costs."""
    controls, others = choose_controls(problem, estimator, budget, reasons)
    variance = choose_variance(problem, estimator, reasons)
    if problem.controls is None and controls and least_budget(problem, estimator, controls, variance, budget) > budget:
        controls, others = (), None
        reasons["control"] = "no automatic control fits the budget"
    own = problem.imputer.with_replacement or estimator.draws_own_rows or problem.output_range is not None
    # where units use the whole background, no rows are drawn
    replaced = own and problem.base.finite and not estimator.exact_per_draw and not estimator.without_replacement
    return Plan(
        estimator=estimator,
        variance=variance,
        controls=controls,
        other_controls=others,
        budget=budget,
        early=early,
        costs=cost_of(problem, estimator, controls, variance, budget),
        n_base_draws=base_draws(problem, estimator, budget, early=early),
        with_replacement=bool(replaced),
        keeps=choose_keeping(problem, estimator, variance, controls),
        is_exact=estimator.exact_per_draw and problem.base.finite,
        form=problem.form,
        reasons=reasons,
        alternative=choose_alternative(problem, estimator, budget, early=early),
    )


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


def check_plan(problem: Problem, plan: Plan, x: FloatArray) -> None:
    """Refuse settings that do not fit the estimator, a budget that is too small, and controls without known values."""
    estimator = plan.estimator
    plan.variance.check(least_squares=estimator.is_least_squares, n_draws=estimator.n_draws)
    check_budget(problem, estimator, plan.controls, plan.variance, plan.budget)
    for control in plan.prepared_controls:
        control.refuse(problem.imputer, x, problem.background)
    if plan.fitted_controls:
        _check_fitted_controls(problem, plan, x)


def _check_fitted_controls(problem: Problem, plan: Plan, x: FloatArray) -> None:
    learners, estimator = plan.fitted_controls, plan.estimator
    names = ", ".join(f"{type(learner).__name__}()" for learner in learners)
    if not (estimator.exact_per_draw or estimator.takes_fitted_controls):
        raise NoClosedFormError(
            f"{names} controls permutation walks and KernelSHAP, not {type(estimator).__name__}. Use "
            "estimator='permutation', 'kernel' or 'auto', or control='taylor'."
        )
    whole = estimator.is_least_squares and estimator.paired and estimator.n_draws == len(problem.base.rows)
    whole = whole and problem.imputer.mixes_columns
    if any(learner.models_coalitions for learner in learners) and not whole:
        raise NoClosedFormError(
            "CoalitionProcess() needs the value of every coalition without noise: features='independent' and "
            "estimator=Kernel(n_draws=<rows of the background>, reuse=True). Use control='ridge'."
        )
    if not np.isfinite(x).all() or not np.isfinite(problem.background).all():
        raise InvalidArgumentError(
            f"`control`: {names} needs finite rows and a finite background, but there are missing values. "
            "Use control='none', or impute them."
        )


def refuse_interactions(problem: Problem, stopping: Stopping) -> None:
    """Refuse interactions where units do not have them, before any model call."""
    if not stopping.interactions:
        return
    if problem.players.arrangement is not None:
        raise InvalidArgumentError(
            "`interactions=2` counts all permutations of the players, and `order` or `hierarchy` allow only some of "
            "them. Leave one of these out."
        )
    estimator = choose_estimator(problem, stopping.design_budget, early=stopping.early)
    if not estimator.gives_interactions:
        raise InvalidArgumentError(
            f"`interactions=2` needs walks, KernelSHAP or all coalitions; got estimator={estimator!r}. Use "
            "estimator='auto', 'permutation' or 'kernel'."
        )


def refuse_guarantee(problem: Problem) -> None:
    """Refuse settings that do not give independent units with bounded terms, where a finite guarantee is asked for.

    Walks from rows that are drawn at random do; functions fitted to other units of the row, and cycles, do not.
    """
    if problem.output_range is None:
        return
    given = {"estimator": problem.estimator, "control": problem.controls or None, "variance": problem.variance}
    wrong = next((name for name, value in given.items() if value is not None), None)
    if wrong is not None:
        raise InvalidArgumentError(
            f"`guarantee='finite'` chooses estimator, control and variance itself (independent, bounded units); got "
            f"{wrong}={given[wrong]!r}. Leave `{wrong}` at 'auto'."
        )
    if problem.noise is not None:
        raise InvalidArgumentError(
            "`guarantee='finite'`: the model answers differently when asked again, and what it said of x and of the "
            "background is shared by all units. Fix its random numbers, or leave the guarantee out."
        )
    refuse_outside(problem.base.values[:, :, 0], problem.output_range, "the background")


def refuse_budget(problem: Problem, stopping: Stopping) -> None:
    """Refuse a budget that no row could be explained with, before any model call."""
    budget = stopping.design_budget
    estimator = choose_estimator(problem, budget, early=stopping.early)
    controls = problem.controls or () if problem.players.n_players > 1 else ()
    check_budget(problem, estimator, controls, choose_variance(problem, estimator, {}), budget)
