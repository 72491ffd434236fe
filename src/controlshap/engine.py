"""One row, from budget to values: the only module that sees both halves (games, and arrays)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from controlshap._errors import BudgetTooSmallError, NotConvergedWarning
from controlshap._random import Purpose, stream
from controlshap._types import FloatArray
from controlshap.choices import choose_controls, choose_estimator, choose_variance
from controlshap.control import Estimate, KnownValues, adjust, close_sum
from controlshap.crossfit import adjust_by_folds
from controlshap.estimators.protocol import Estimator
from controlshap.estimators.terms import LeastSquaresTerms, Terms
from controlshap.game import Game
from controlshap.problem import Problem
from controlshap.sampling import Sampler
from controlshap.stopping import Stopping
from controlshap.strata import Roots
from controlshap.surrogates.protocol import Context, FittedSurrogate, Surrogate
from controlshap.variance.protocol import Variance


@dataclass(frozen=True)
class RowResult:
    """Values of one row; the last component of each estimate is the base value.

    Attributes
    ----------
    controlled, uncontrolled : Estimate
    variance_reduction : ndarray of shape (players, outputs)
    n_evaluations, n_units : int
    status, method : str
    """

    controlled: Estimate
    uncontrolled: Estimate
    variance_reduction: FloatArray
    n_evaluations: int
    n_units: int
    status: str
    method: str


def explain_row(problem: Problem, x: FloatArray, row: int, entropy: int, stopping: Stopping) -> RowResult:
    """Shapley values of one row."""
    budget = stopping.budget
    label = f"row {row}"
    estimator = choose_estimator(problem, budget)
    controls = choose_controls(problem, estimator, budget)
    variance = choose_variance(problem, estimator)
    p = problem.players.n_players
    unit_cost = estimator.unit_cost(p, finite=problem.base.finite)
    _check_budget(problem, estimator, controls, budget)

    n_outputs = problem.base.n_outputs
    at_x = problem.model(problem.imputer.to_inputs(x[None]), n_outputs=n_outputs, where=f"{label} itself")[0]
    counted = Game(x, problem.imputer, problem.model, (), at_x[:, None], problem.memory_limit, label, 1)
    surrogates = _fit(problem, counted, controls, budget) if p > 1 else ()
    at_base = problem.base.predictions[:, :, None]
    known = None
    game = counted
    if surrogates:
        at_x_all = np.concatenate([at_x[:, None], *(s(x[None])[0][:, None] for s in surrogates)], axis=1)
        game = Game(
            x,
            problem.imputer,
            problem.model,
            surrogates,
            at_x_all,
            problem.memory_limit,
            label,
            counted.n_evaluations,
        )
        at_base = np.concatenate([at_base, game.evaluate_surrogates(problem.base.rows)], axis=2)
        known = KnownValues.stack([s.known_values() for s in surrogates])

    sampler = Sampler(game, estimator, problem.base, at_base, entropy, row, variance.needs_independent_units, p)
    most = (budget - game.n_evaluations) // max(1, unit_cost)
    exact = estimator.settles_draws and problem.base.is_exact
    if estimator.settles_draws and problem.base.finite:
        most = sampler.n_blocks
    if p == 1 and not problem.base.finite:
        most = min(most, max(2, len(problem.base.rows)))
    status = "exact" if exact else "budget reached"
    for n_units in stopping.stages(estimator.fewest_units(p), most):
        sampler.extend(n_units)
        rng = stream(entropy, Purpose.RESAMPLING, row)
        analysis = _analyse(problem, sampler, variance, known, rng, stream(entropy, Purpose.FOLDS, row))
        controlled, uncontrolled, reduction = analysis
        errors = np.sqrt(controlled.variances[:-1])
        if not exact and stopping.is_accurate(controlled.values[:-1], errors):
            status = "converged"
            break
    if stopping.tolerance is not None and status == "budget reached":
        warnings.warn(
            f"Row {row} spent its budget of {budget} evaluations before it reached tolerance={stopping.tolerance}; "
            f"its largest standard error is {errors.max():.3g}. Raise `budget` or `tolerance`.",
            NotConvergedWarning,
            stacklevel=2,
        )
    method = type(estimator).__name__ + "".join(f" + {type(c).__name__}" for c in (controls if surrogates else ()))
    return RowResult(controlled, uncontrolled, reduction[:-1], game.n_evaluations, sampler.n_units, status, method)


def _fit(problem: Problem, game: Game, controls: tuple[Surrogate, ...], budget: int) -> tuple[FittedSurrogate, ...]:
    def evaluate(rows: FloatArray) -> FloatArray:
        parts = [game.evaluate(rows[part])[:, :, 0] for part in game.slices(len(rows), rows.shape[1] * 6)]
        return np.concatenate(parts)

    context = Context(
        game.x,
        game.at_x[:, 0],
        problem.background,
        evaluate,
        budget,
        problem.model,
        problem.imputer,
        problem.players,
        problem.feature_names,
        problem.cache,
    )
    return tuple(control.fit(context) for control in controls)


def _check_budget(problem: Problem, estimator: Estimator, controls: tuple[Surrogate, ...], budget: int) -> None:
    """Refuse a budget that cannot give values with errors, before any model call."""
    p = problem.players.n_players
    fixed = 1 + sum(
        c.cost(
            problem.players,
            problem.background,
            budget,
            source=problem.model.source,
            correlated=problem.correlated,
        )
        for c in controls
    )
    units = estimator.fewest_units(p)
    if estimator.settles_draws:
        units = len(problem.base.rows) if problem.base.finite else 2
    needed = fixed + units * estimator.unit_cost(p, finite=problem.base.finite)
    if budget < needed:
        parts = f"1 for the row, {fixed - 1} for derivatives, " if fixed > 1 else "1 for the row, "
        raise BudgetTooSmallError(
            f"`budget` must be at least {needed} evaluations a row for {p} players with {type(estimator).__name__} "
            f"({parts}{units} units of {estimator.unit_cost(p, finite=problem.base.finite)}); got {budget}.",
            needed,
        )


def _analyse(
    problem: Problem,
    sampler: Sampler,
    variance: Variance,
    known: KnownValues | None,
    rng: np.random.Generator,
    fold_rng: np.random.Generator,
) -> tuple[Estimate, Estimate, FloatArray]:
    """Solve, covariance, control, closed sum."""
    terms, strata = sampler.terms(), sampler.strata()
    weights = strata.weights
    estimates = terms.solve(weights[None])[0]
    roots = Roots.zero(estimates.shape)
    if sampler.n_units > 1:
        roots = variance.roots(terms, strata, rng)
    base_roots = _base_roots(problem, sampler, terms, weights)
    roots = roots.join(base_roots)
    total = sampler.game.at_x[:, 0]
    plain = Estimate(estimates[..., 0], roots.rows[..., 0], roots.degrees_of_freedom()[..., 0])
    closes = sampler.estimator.closes_sum
    uncontrolled = close_sum(plain, total) if closes else plain
    if known is None:
        return uncontrolled, uncontrolled, np.zeros(plain.values.shape)
    at_x, at_mean = sampler.game.at_x[:, 1:], sampler.at_base[..., 1:].mean(axis=0)
    size = np.maximum(np.abs(at_x), np.maximum(np.abs(at_mean), np.abs(at_x - at_mean)))
    if problem.coefficient == "folds":
        adjusted, reduction = adjust_by_folds(terms, strata, known, base_roots, size, fold_rng)
    else:
        adjusted, reduction = adjust(estimates, roots, known, size)
    return (close_sum(adjusted, total) if closes else adjusted), uncontrolled, reduction


def _base_roots(problem: Problem, sampler: Sampler, terms: Terms, weights: FloatArray) -> Roots:
    """Error of a shared estimate of v(0), common to all units, with its effect on every component."""
    shape = (terms.solve(weights[None]).shape[1], *sampler.at_base.shape[1:])
    rows = problem.base.base_rows(sampler.at_base)
    if len(rows) == 0 or sampler.estimator.draws_base(finite=problem.base.finite):
        return Roots.zero(shape)
    slope = np.zeros(shape[0])
    slope[-1] = 1.0
    if isinstance(terms, LeastSquaresTerms):
        slope = terms.base_slope(weights)
    spread = slope[None, :, None, None] * rows[:, None]
    return Roots(spread, np.zeros(len(rows), dtype=np.int64), np.array([len(rows) - 1.0]))
