"""One row, from budget to values: the only module that sees both halves (games, and arrays)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from controlshap._errors import BudgetTooSmallError, InvalidArgumentError, NoClosedFormError, NotConvergedWarning
from controlshap._random import Purpose, stream
from controlshap._types import FloatArray
from controlshap.analysis import Analysis, Sample, analyse
from controlshap.choices import choose_controls, choose_estimator, choose_variance, control_cost, learned, made, timely
from controlshap.control import Estimate, KnownValues, close_sum
from controlshap.estimators import Enumeration, Kernel, Permutation
from controlshap.estimators.protocol import Estimator
from controlshap.exact_forms import ExactForm, agrees
from controlshap.game import Game
from controlshap.learning import learn
from controlshap.problem import BaseSample, Problem
from controlshap.sampling import Sampler
from controlshap.stopping import Stopping
from controlshap.surrogates import CoalitionProcess, Control, Learner
from controlshap.surrogates.protocol import Context, FittedSurrogate, Surrogate
from controlshap.values.gaussian import GaussianImputer
from controlshap.values.marginal import MarginalImputer

#: Fewest draws behind a v(0) that units do not draw themselves.
FEWEST_BASE_DRAWS = 16
#: Most of them where a tolerance may end the run long before the budget.
MOST_BASE_DRAWS = 4096


@dataclass(frozen=True)
class RowResult:
    """Values of one row, and what they cost."""

    analysis: Analysis
    n_evaluations: int
    n_units: int
    status: str
    method: str
    controls: str


def explain_row(problem: Problem, x: FloatArray, row: int, entropy: int, stopping: Stopping) -> RowResult:
    """Shapley values of one row."""
    budget, p = stopping.budget, problem.players.n_players
    label = f"row {row}"
    at_row = None
    if problem.form is not None:
        at_row = _evaluate_row(problem, x, label)
        known_form = _by_form(problem, problem.form, x, at_row)
        if known_form is not None:
            return known_form
    estimator = choose_estimator(problem, budget, early=stopping.tolerance is not None)
    controls = choose_controls(problem, estimator, budget, x) if p > 1 else ()
    if problem.controls is None and _least_budget(problem, estimator, controls, budget) > budget:
        controls = ()  # an automatic control must fit
    variance = choose_variance(problem, estimator)
    variance.check(least_squares=estimator.is_least_squares, n_draws=estimator.n_draws)
    check_budget(problem, estimator, controls, budget)
    learners = learned(controls)
    if learners:
        _check_learners(problem, estimator, learners, x)

    if at_row is None:
        at_row = _evaluate_row(problem, x, label)
    game, fixed = _start(problem, x, at_row, label, made(controls), budget)
    known = fixed
    if learners and not estimator.settles_draws:
        game.trace = []
    n_base = base_draws(problem, estimator, budget, early=stopping.tolerance is not None)
    base = _base_sample(problem, game, estimator, n_base, stream(entropy, Purpose.BASE, row))
    sampler = Sampler(game, estimator, base, entropy, row, variance.needs_independent_units, p)
    exact = estimator.settles_draws and base.is_exact
    if estimator.settles_draws and base.finite:
        most = sampler.n_blocks
    else:
        most = sampler.affordable(budget - game.n_evaluations)

    base_varies = estimator.draws_base(finite=base.finite)
    shared_base = np.zeros((0, *game.at_x.shape)) if base_varies else base.root_rows()
    status = "exact" if exact else "budget reached"
    still_needed, used = 0.0, learners
    for n_units in stopping.stages(estimator.fewest_units(p), most):
        sampler.extend(n_units)
        terms, at_x = sampler.terms(), game.at_x
        if game.trace is not None:
            used = timely(problem, learners, game, still_needed)
            found = learn(problem, sampler, terms, fixed, used, stream(entropy, Purpose.FOLDS, row))
            terms, at_x, known = found.terms, found.sizes, found.known
        # what was fitted has no part in the error of a shared v(0)
        more = ((0, 0), (0, 0), (0, at_x.shape[1] - shared_base.shape[2]))
        of_base = np.pad(shared_base, more)
        sample = Sample(terms, sampler.strata(), of_base, at_x, estimator.closes_sum, base_varies)
        rng = stream(entropy, Purpose.RESAMPLING, row)
        analysis = analyse(sample, variance, known, rng, by_folds=problem.coefficient != "units")
        errors = np.sqrt(analysis.controlled.variances[:-1])
        ratio = stopping.error_ratio(analysis.controlled.values[:-1], errors)
        still_needed = game.n_evaluations * (ratio**2 - 1.0)
        if not exact and stopping.tolerance is not None and ratio <= 1.0:
            status = "converged"
            break
    if stopping.tolerance is not None and status == "budget reached":
        warnings.warn(
            f"Row {row} spent its budget of {budget} evaluations before it reached tolerance={stopping.tolerance}; "
            f"its largest standard error is {errors.max():.3g}. Raise `budget` or `tolerance`.",
            NotConvergedWarning,
            stacklevel=2,
        )
    problem.cache.setdefault("seconds", game.seconds / game.n_evaluations)
    applied = (*made(controls), *used)
    method = " + ".join(type(part).__name__ for part in (estimator, *applied))
    told = describe_controls(applied, len(game.surrogates), analysis.alpha)
    return RowResult(analysis, game.n_evaluations, sampler.n_units, status, method, told)


def describe_controls(controls: tuple[Control, ...], n_made: int, alpha: FloatArray) -> str:
    """Which controls had a say, and their mean coefficients: "LogisticRidge 0.98, Trees 0.02"."""
    if alpha.shape[-1] == 0:
        return ""
    mean = alpha[:-1].mean(axis=(0, 1))
    # one coefficient for what was made before sampling, two (the first within draws) for what was fitted
    firsts = [*range(n_made), *range(n_made, len(mean), 2)]
    names = [type(control).__name__ for control in (*made(controls), *learned(controls))]
    return ", ".join(f"{name} {mean[at]:.2f}" for name, at in zip(names, firsts, strict=True))


def _evaluate_row(problem: Problem, x: FloatArray, label: str) -> FloatArray:
    """f(x), shape (outputs,): the one evaluation that every explanation starts with."""
    inputs = problem.imputer.to_inputs(x[None])
    outputs: FloatArray = problem.model(inputs, n_outputs=problem.base.n_outputs, where=f"{label} itself")[0]
    return outputs


def _by_form(problem: Problem, form: ExactForm, x: FloatArray, at_x: FloatArray) -> RowResult | None:
    """Values of a model of a known form, without error; None where the form does not reach this row."""
    if not agrees(form, x[None], at_x[None]):
        return None
    values = form.mean_values(x, problem.base.rows, problem.players)
    if values is None:
        return None
    components = np.concatenate([values, problem.base.mean[:, 0][None]])
    no_rows = np.zeros((0, *components.shape))
    estimate = close_sum(Estimate(components, no_rows, np.full(components.shape, np.inf)), at_x)
    analysis = Analysis(estimate, estimate, np.zeros(components.shape), np.zeros((*components.shape, 0)))
    return RowResult(analysis, 1, 0, "exact", form.name, "")


def _start(
    problem: Problem, x: FloatArray, at_x: FloatArray, label: str, controls: tuple[Surrogate, ...], budget: int
) -> tuple[Game, KnownValues | None]:
    """The game of the row, with its surrogates made (their evaluations counted) and what is known of them."""
    plain = Game(x, problem.imputer, at_x[:, None], problem.memory_limit, problem.model, (), label, n_evaluations=1)
    if not controls:
        return plain, None

    def evaluate(rows: FloatArray) -> FloatArray:
        parts = [plain.evaluate(rows[part])[:, :, 0] for part in plain.slices(len(rows), 6 * rows.shape[1])]
        return np.concatenate(parts)

    context = Context(
        x, at_x, problem.background, evaluate, budget, problem.model, problem.imputer, problem.players,
        problem.feature_names, problem.cache,
    )  # fmt: skip
    surrogates: tuple[FittedSurrogate, ...] = tuple(control.fit(context) for control in controls)
    at_x_all = np.stack([at_x, *(surrogate(x[None])[0] for surrogate in surrogates)], axis=1)
    game = Game(
        x, problem.imputer, at_x_all, problem.memory_limit, problem.model, surrogates, label, plain.n_evaluations
    )
    return game, KnownValues.stack([surrogate.known_values() for surrogate in surrogates])


def _check_learners(
    problem: Problem, estimator: Estimator, learners: tuple[Learner | CoalitionProcess, ...], x: FloatArray
) -> None:
    names = ", ".join(f"{type(learner).__name__}()" for learner in learners)
    if not isinstance(estimator, (Enumeration, Permutation, Kernel)):
        raise NoClosedFormError(
            f"{names} controls permutation walks and KernelSHAP, not {type(estimator).__name__}. Use "
            "estimator='permutation', 'kernel' or 'auto', or control='taylor'."
        )
    if not isinstance(problem.imputer, (MarginalImputer, GaussianImputer)):
        raise NoClosedFormError(
            f"{names} has known Shapley values for features='independent' and 'correlated', not for "
            f"{type(problem.imputer).__name__}. Use control='none'."
        )
    whole = isinstance(estimator, Kernel) and estimator.paired and estimator.n_draws == len(problem.base.rows)
    whole = whole and isinstance(problem.imputer, MarginalImputer)
    if any(isinstance(learner, CoalitionProcess) for learner in learners) and not whole:
        raise NoClosedFormError(
            "CoalitionProcess() needs the value of every coalition without noise: features='independent' and "
            "estimator=Kernel(n_draws=<rows of the background>, reuse=True). Use control='ridge'."
        )
    if not np.isfinite(x).all() or not np.isfinite(problem.background).all():
        raise InvalidArgumentError(
            f"`control`: {names} needs finite rows and a finite background, but there are missing values. "
            "Use control='none', or impute them."
        )


def _base_sample(
    problem: Problem, game: Game, estimator: Estimator, n_draws: int, rng: np.random.Generator
) -> BaseSample:
    """Where v(0) comes from: the background, draws of the row's own, or (each unit draws it) nowhere."""
    base = problem.base
    if base.finite:
        if not game.surrogates:
            return base
        values = np.concatenate([base.values, game.evaluate_surrogates(base.rows)], axis=2)
        return BaseSample(base.rows, values, base.population)
    if estimator.draws_base(finite=False):
        return BaseSample(base.rows, np.zeros((1, *game.at_x.shape)), base.population)
    rows = problem.imputer.sample(n_draws, rng)
    return BaseSample(rows, game.evaluate(rows), base.population)


def base_draws(problem: Problem, estimator: Estimator, budget: int, *, early: bool = False) -> int:
    """Evaluations spent on v(0): its error reaches every value divided by about the number of players."""
    if problem.base.finite or estimator.draws_base(finite=False):
        return 0
    wanted = max(FEWEST_BASE_DRAWS, budget // (problem.players.n_players + 1))
    return min(wanted, MOST_BASE_DRAWS) if early else wanted


def refuse_budget(problem: Problem, budget: int) -> None:
    """Refuse a budget that no row could be explained with, before any model call."""
    estimator = choose_estimator(problem, budget)
    controls = problem.controls or ()
    check_budget(problem, estimator, controls if problem.players.n_players > 1 else (), budget)


def check_budget(problem: Problem, estimator: Estimator, controls: tuple[Control, ...], budget: int) -> None:
    """Refuse a budget that cannot give values with errors."""
    needed = _least_budget(problem, estimator, controls, budget)
    if needed > budget:
        derivatives, base, units, unit_cost = _costs(problem, estimator, controls, needed)
        spent = ["1 for the row"]
        spent += [f"{derivatives} for derivatives"] if derivatives else []
        spent += [f"{base} for the base value"] if base else []
        raise BudgetTooSmallError(
            f"`budget` must be at least {needed} evaluations a row for {problem.players.n_players} players with "
            f"{type(estimator).__name__} ({', '.join(spent)}, {units} units of {unit_cost}); got {budget}.",
            needed,
        )


def _least_budget(problem: Problem, estimator: Estimator, controls: tuple[Control, ...], budget: int) -> int:
    """`budget`, or the next larger one that covers what is bought with it."""
    while True:
        derivatives, base, units, unit_cost = _costs(problem, estimator, controls, budget)
        wanted = 1 + derivatives + base + units * unit_cost
        if wanted <= budget:
            return budget
        budget = wanted


def _costs(
    problem: Problem, estimator: Estimator, controls: tuple[Control, ...], budget: int
) -> tuple[int, int, int, int]:
    """Evaluations for derivatives and for the base value, fewest units, evaluations of a unit."""
    p, finite = problem.players.n_players, problem.base.finite
    units = max(estimator.fewest_units(p), choose_variance(problem, estimator).fewest_units)
    if estimator.settles_draws:
        units = len(problem.base.rows) if finite else 2
    derivatives = control_cost(problem, controls, budget)
    return derivatives, base_draws(problem, estimator, budget), units, estimator.unit_cost(p, finite=finite)
