"""The plan of a call: every decision, taken once, and carried out by `engine.row`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from controlshap._types import FloatArray
from controlshap.controls import Control
from controlshap.engine.choice import (
    RowFacts,
    choose_alternative,
    choose_controls,
    choose_estimator,
    choose_keeping,
    choose_variance,
    exact_budget,
)
from controlshap.engine.costs import Costs, base_draws, cost_of, least_budget
from controlshap.estimators import Estimator
from controlshap.functions.base import KnownFunction
from controlshap.problem import Problem
from controlshap.statistics.stopping import Stopping
from controlshap.variances import Variance

#: Up to how many times a budget that was set the plan says what would be exact.
NEARLY_EXACT_FACTOR = 2


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
        Whether the run may end before.
    costs : Costs
    n_base_draws : int
        Evaluations for v(0), where units do not draw it themselves.
    with_replacement : bool
        Whether background rows are drawn at random, not visited in cycles.
    keeps : {"units", "batches", "coalition means"}
        What is kept of many units.
    is_exact : bool
        Whether all coalitions of all background rows are evaluated.
    form : KnownFunction or None
        The known form of the model, which is tried first.
    reasons : dict
        Why the estimator, the controls and the variance are what they are.
    notes : tuple of str
        Exceptions among the rows, where these were given.
    n_rows : int
        Rows that were given, 0 without.
    seconds : float or None
        Time of an evaluation, where it was told.
    alternative : Estimator or None
        What takes the place of the estimator after a pilot of it, where that shows it to be better (`engine.pilot`).
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

    @property
    def sure_controls(self) -> tuple[Control, ...]:
        """Fitted controls that stand no trial: what a pilot goes by."""
        return tuple(control for control in self.fitted_controls if not control.on_trial)

    def for_row(self, problem: Problem, x: FloatArray, at_x: FloatArray | None = None) -> Plan:
        """The plan of one row, by f(x) `(outputs,)` too where that is known.

        Rows that differ from the background in few players, have missing values, or are out of a shared surrogate's
        reach are treated differently.
        """
        if problem.estimator is not None:
            return _with_controls_of_row(self, problem, x)
        plan, facts, reasons = self, RowFacts.of(problem, self.budget, x, at_x), dict[str, str]()
        estimator = choose_estimator(problem, self.budget, reasons, early=self.early, facts=facts)
        if estimator != self.estimator:
            plan = replace(_assemble(problem, self.budget, estimator, reasons, early=self.early), notes=self.notes)
        return _with_controls_of_row(plan, problem, x)

    def leave(self, problem: Problem) -> Plan:
        """The plan after a pilot that showed the alternative to be better."""
        assert self.alternative is not None
        plan = _assemble(problem, self.budget, self.alternative, {}, early=self.early)
        return replace(plan, controls=self.controls, other_controls=self.other_controls, alternative=None)

    @property
    def n_units(self) -> int:
        """Units that the budget pays for if x and the background agree nowhere; with rows that are known, more."""
        spent = 1 + self.costs.derivatives + self.n_base_draws
        return max(0, self.budget - spent) // max(1, self.costs.unit)

    def __str__(self) -> str:
        from controlshap.engine.describe import describe_plan

        return "\n".join(describe_plan(self))


def _with_controls_of_row(plan: Plan, problem: Problem, x: FloatArray) -> Plan:
    """Without controls that a row cannot have: it has missing values, or a shared surrogate does not reach it."""
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
    # whole backgrounds, enumerated or used again with every coalition, have nothing to replace
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
