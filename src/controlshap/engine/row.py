"""One row, from budget to values: the only module that sees both halves (games, and arrays)."""

from __future__ import annotations

import time
import warnings

import numpy as np

from controlshap._errors import (
    BudgetTooSmallError,
    ErraticVarianceWarning,
    InvalidArgumentError,
    NoClosedFormError,
    NotConvergedWarning,
)
from controlshap._random import EXPLAINER_ENTROPY, Purpose, stream
from controlshap._types import FloatArray
from controlshap.controls import CoalitionProcess, Control, Learner
from controlshap.controls.base import Context, FittedSurrogate, Surrogate
from controlshap.crossfitting.fit import learn
from controlshap.engine.plan import (
    choose_controls,
    choose_estimator,
    choose_variance,
    control_cost,
    learned,
    made,
    timely,
)
from controlshap.estimators import Enumeration, Kernel, Permutation
from controlshap.estimators.base import Estimator
from controlshap.functions import ExactForm, agrees
from controlshap.problem import Problem
from controlshap.results.collect import RowResult
from controlshap.sampling.base_value import base_draws, base_sample
from controlshap.sampling.game import Game
from controlshap.sampling.recording import Tape
from controlshap.sampling.sampler import Sampler
from controlshap.statistics.analysis import Analysis, Sample, analyse
from controlshap.statistics.background_error import background_variances, variances_of_draws
from controlshap.statistics.control_variate import Estimate, KnownValues, close_sum
from controlshap.statistics.stopping import Snapshot, Stopping
from controlshap.statistics.unseen_rows import Background, Unmet, differing, widened
from controlshap.values.gaussian import GaussianImputer
from controlshap.values.marginal import MarginalImputer
from controlshap.variances import Bootstrap

#: Units below which resampling understates the error of a control with a fitted coefficient
#: (benchmarks/results/calibration.md).
FEW_TO_RESAMPLE = 200
#: Background rows whose own exact values show how much the mean owes to the choice of rows.
SPREAD_ROWS = 50


def explain_row(
    problem: Problem, x: FloatArray, row: int, entropy: int, stopping: Stopping, tape: Tape | None = None
) -> RowResult:
    """Shapley values of one row, from scratch or from what is on the tape."""
    began = time.perf_counter()
    budget, p = stopping.design_budget, problem.players.n_players
    tape = Tape() if tape is None else tape
    label = f"row {row}"
    at_row = None
    if problem.form is not None:
        at_row = _evaluate_row(problem, x, label, tape)
        known_form = _by_form(problem, problem.form, x, at_row)
        if known_form is not None:
            return known_form
    estimator = choose_estimator(problem, budget, early=stopping.early)
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
        at_row = _evaluate_row(problem, x, label, tape)
    game, fixed = _start(problem, x, at_row, label, made(controls), budget, tape)
    known = fixed
    if learners and not estimator.settles_draws:
        game.trace = []
    n_base = base_draws(problem, estimator, budget, early=stopping.early)
    base = base_sample(problem, game, estimator, n_base, budget, stream(entropy, Purpose.BASE, row))
    # draws of a player's own are of few blocks only, and would not see all rows in a cycle
    replace = bool(getattr(problem.imputer, "replace", False) or getattr(estimator, "own_draws", False))
    # whole backgrounds, enumerated or used again with every coalition, have nothing to replace
    replace = replace and base.finite and not estimator.settles_draws and not getattr(estimator, "reuse", False)
    # evaluations that are used again, and processes over coalitions, go by single units
    merges = variance.takes_batches and not getattr(estimator, "reuse", False)
    merges = merges and not any(isinstance(learner, CoalitionProcess) for learner in learners)
    merges = merges and not (estimator.settles_draws and base.finite)
    # whose means over the background are all that is needed of them
    of_coalitions = all(isinstance(learner, CoalitionProcess) for learner in learners)
    means = getattr(estimator, "reuse", False) and variance.takes_batches and of_coalitions
    sampler = Sampler(
        game, estimator, base, entropy, row, replace or variance.needs_independent_units, p, replace, merges, means
    )
    exact = estimator.settles_draws and base.is_exact
    if estimator.settles_draws and base.finite:
        most = sampler.n_blocks
    else:
        most = sampler.affordable(stopping.budget - game.n_evaluations)
    for n_units in tape.stages:
        sampler.extend(n_units)
    tape.check_used()
    n_before, began_anew = sampler.n_units, time.perf_counter() if tape.stages else began
    if tape.stages and not exact and not getattr(estimator, "reuse", False):
        most = n_before + sampler.affordable(stopping.budget - game.n_evaluations)

    base_varies = estimator.draws_base(finite=base.finite)
    shared_base = np.zeros((0, *game.at_x.shape)) if base_varies else base.root_rows()
    status = "exact" if exact else "budget reached"
    still_needed, used, learnt = 0.0, learners, None
    most = max(most, sampler.n_units)
    n_units = stopping.first_stage(max(estimator.fewest_units(p), sampler.n_units), most)
    n_looks = stopping.n_looks(n_units, most)
    share, stages, looks_left = stopping.share / n_looks, [*tape.stages], n_looks
    history: list[tuple[int, FloatArray, FloatArray]] = []
    # where every unit has all rows there is nothing that was not met
    misses = isinstance(problem.imputer, MarginalImputer) and not exact and (sampler.n_blocks > 1 or replace)
    differ = differing(x, base.rows, problem.players) if misses else None
    while True:
        if n_units > sampler.n_units:
            sampler.extend(n_units)
            stages.append(n_units)
        terms, at_x = sampler.terms(), game.at_x
        if game.trace is not None:
            used = timely(problem, learners, game, still_needed)
            learnt = learn(problem, sampler, terms, fixed, used, stream(entropy, Purpose.FOLDS, row))
            terms, at_x, known = learnt.terms, learnt.sizes, learnt.known
        # what was fitted has no part in the error of a shared v(0)
        more = ((0, 0), (0, 0), (0, at_x.shape[1] - shared_base.shape[2]))
        of_base = np.pad(shared_base, more)
        sample = Sample(terms, sampler.strata(), of_base, at_x, estimator.closes_sum, base_varies)
        rng = stream(entropy, Purpose.RESAMPLING, row)
        analysis = analyse(sample, variance.roots, known, rng, by_folds=problem.coefficient != "units")
        complete = base.finite and sample.strata.share >= 1.0
        if differ is not None and sampler.merging is None:
            unmet = Unmet(differ, sampler.draw_index())
            background = Background(base.rows, base.values, x, game.at_x)
            fitted = None if learnt is None or not learnt.functions else learnt.predict
            analysis = widened(analysis, unmet, background, fitted, closes_sum=estimator.closes_sum)
        estimate = analysis.controlled
        covariance = estimate.covariances[:, :-1, :-1]
        snapshot = Snapshot(estimate.values[:-1], covariance, estimate.dof[:-1], complete)
        history.append((game.n_evaluations, snapshot.values, snapshot.errors))
        ratio = stopping.error_ratio(snapshot, share)
        # no more than the budget: an infinite ratio has no end to foresee
        still_needed = min(game.n_evaluations * (min(ratio, 1e6) ** 2 - 1.0), float(stopping.budget))
        # stages that the clock cut short may be more than there are shares of alpha for
        if stopping.looks and not exact and looks_left and (n_units >= stopping.first_look or n_units >= most):
            looks_left -= 1
            if ratio <= 1.0:
                status = "converged"
                break
        if n_units >= most:
            break
        following = stopping.next_stage(n_units, most, time.perf_counter() - began_anew, n_before)
        if following == n_units:
            status = "time reached"
            break
        n_units = following
    if stopping.looks and status in ("budget reached", "time reached"):
        _warn_unfinished(row, stopping, status, game.n_evaluations, snapshot)
    if game.seconds_each is not None:
        problem.cache.setdefault("seconds", game.seconds_each)
    if isinstance(variance, Bootstrap) and made(controls) and sampler.n_units < FEW_TO_RESAMPLE:
        warnings.warn(
            f"`variance`: {sampler.n_units} units are few for a bootstrap with {type(controls[0]).__name__}(), whose "
            "coefficient is fitted to the same units; intervals cover less than they say (91 to 93 % at 95 %). Use "
            "variance='auto', or raise `budget`.",
            ErraticVarianceWarning,
            stacklevel=2,
        )
    applied = (*made(controls), *used)
    method = " + ".join(type(part).__name__ for part in (estimator, *applied))
    told = describe_controls(applied, len(game.surrogates), analysis.alpha)
    between = None
    if base.finite and not estimator.needs_spare_draws and not replace:
        # by the rows that units used, also where these were drawn at random
        of_rows, of_background = sampler.strata_of_rows(), problem.base.values[:, :, 0]
        between = background_variances(sampler.terms(), of_rows, sampler.draw_index(), of_background, game.at_x)
    kept = None if status == "exact" else tape.all_outputs()
    return RowResult(
        analysis, game.n_evaluations, sampler.n_units, status, method, told, share, complete, between, kept,
        tuple(stages), tuple(history),
    )  # fmt: skip


def _warn_unfinished(row: int, stopping: Stopping, status: str, n_evaluations: int, snapshot: Snapshot) -> None:
    """Say what was not reached, and the way out."""
    limit = f"its budget of {stopping.budget} evaluations" if status == "budget reached" else "its time"
    asked = [f"tolerance={stopping.tolerance}"] if stopping.tolerance is not None else []
    asked += [f"absolute_tolerance={stopping.absolute}"] if stopping.absolute is not None else []
    asked += [f"stop={rule.kind + (f' {rule.k}' if rule.k else '')!r}" for rule in stopping.rules]
    warnings.warn(
        f"Row {row} spent {limit} ({n_evaluations} evaluations) before it reached {' and '.join(asked)}; its largest "
        f"standard error is {snapshot.errors.max():.3g}. Raise `budget` or `time_limit`, ask for less, or go on with "
        "`explainer.refine`.",
        NotConvergedWarning,
        stacklevel=3,
    )


def describe_controls(controls: tuple[Control, ...], n_made: int, alpha: FloatArray) -> str:
    """Which controls had a say, and their mean coefficients: "LogisticRidge 0.98, Trees 0.02"."""
    if alpha.shape[-1] == 0:
        return ""
    mean = alpha[:-1].mean(axis=(0, 1))
    # one coefficient for what was made before sampling, two (the first within draws) for what was fitted
    firsts = [*range(n_made), *range(n_made, len(mean), 2)]
    names = [type(control).__name__ for control in (*made(controls), *learned(controls))]
    return ", ".join(f"{name} {mean[at]:.2f}" for name, at in zip(names, firsts, strict=True))


def _evaluate_row(problem: Problem, x: FloatArray, label: str, tape: Tape) -> FloatArray:
    """f(x), shape (outputs,): the one evaluation that every explanation starts with."""

    def ask(rows: FloatArray) -> FloatArray:
        inputs = problem.imputer.to_inputs(rows)
        return problem.model(inputs, n_outputs=problem.base.n_outputs, where=f"{label} itself")

    outputs: FloatArray = tape.answer(x[None], ask)[0]
    return outputs


def _by_form(problem: Problem, form: ExactForm, x: FloatArray, at_x: FloatArray) -> RowResult | None:
    """Values of a model of a known form, without error; None where the form does not reach this row."""
    if not agrees(form, x[None], at_x[None]):
        return None
    rows, of_background = problem.base.rows, problem.base.values[:, :, 0]
    values = form.mean_values(x, rows, problem.players)
    some = stream(EXPLAINER_ENTROPY, Purpose.BACKGROUND, 1).permutation(len(rows))[:SPREAD_ROWS]
    of_draws = form.draw_values(x, rows[some], problem.players)
    if values is None or of_draws is None:
        return None
    between = variances_of_draws(of_draws, of_background)
    components = np.concatenate([values, problem.base.mean[:, 0][None]])
    no_rows = np.zeros((0, *components.shape))
    estimate = close_sum(Estimate(components, no_rows, np.full(components.shape, np.inf)), at_x)
    analysis = Analysis(estimate, estimate, np.zeros(components.shape), np.zeros((*components.shape, 0)))
    return RowResult(analysis, 1, 0, "exact", form.name, "", 1.0, True, between, None, ())


def _start(
    problem: Problem,
    x: FloatArray,
    at_x: FloatArray,
    label: str,
    controls: tuple[Surrogate, ...],
    budget: int,
    tape: Tape,
) -> tuple[Game, KnownValues | None]:
    """The game of the row, with its surrogates made (their evaluations counted) and what is known of them."""
    plain = Game(
        x, problem.imputer, at_x[:, None], problem.memory_limit, problem.model, (), label, n_evaluations=1, tape=tape
    )
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
        x, problem.imputer, at_x_all, problem.memory_limit, problem.model, surrogates, label, plain.n_evaluations,
        tape=tape,
    )  # fmt: skip
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
