"""Settings that do not go together, and budgets that are too small: refused before any model call."""

from __future__ import annotations

import numpy as np

from controlshap._errors import InvalidArgumentError, NoClosedFormError
from controlshap._types import FloatArray
from controlshap.engine.choice import choose_estimator, choose_variance
from controlshap.engine.costs import check_budget
from controlshap.engine.plan import Plan
from controlshap.models.model import refuse_outside
from controlshap.problem import Problem
from controlshap.statistics.stopping import Stopping


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
    """Refuse settings under which units are not independent with bounded terms, where a finite guarantee is asked for.

    Walks of rows that are drawn at random are; what is fitted to other units of the row, and cycles, are not.
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
