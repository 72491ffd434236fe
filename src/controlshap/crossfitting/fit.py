"""Controls fitted to the evaluations of the explanation that they control, with cross-fitting.

Units are dealt into folds; each fold is controlled by functions fitted to the evaluated rows of the others. A function
g gives two controls, both of known value 0. For independent features they are the difference between a unit of g and
g's own value for the unit's draws (noise of coalitions), and between that value and the mean over the background (noise
of rows). For correlated features they are the difference between a unit of g and its mean over draws (noise of draws),
and between that mean and the simulated value (noise of coalitions). Under any other value function the first is the
difference between a unit and the simulated value, and the second is 0.

A control on trial is fitted for the first folds alone, and for the others only if it leaves less of the evaluations
there. Controls that leave less of rows leave less of units, too, unless there are few of these (docs/design.md,
"Choices"). The coefficients decide the rest: they take the control that leaves least of the units of the other folds,
so that a useless one costs time but no precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from controlshap._random import Purpose, stream
from controlshap._types import FloatArray
from controlshap.controls import Control
from controlshap.controls.base import EvaluatedRows, FoldedRows
from controlshap.crossfitting.folds import Folds, deal_units
from controlshap.crossfitting.known_marginal import FittedFunctions, Functions, KnownControls, MarginalControls
from controlshap.problem import Problem
from controlshap.sampling.sampler import UnitSampler
from controlshap.sampling.units import Units
from controlshap.statistics.control_variate import KnownValues
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.terms import LeastSquaresTerms, Terms

#: Fewest units behind a fit; with fewer the controls are left out. On 13 models of 30 to 150 players errors with
#: control are 0.72 times those without at 4 units, 1.2 times at most; at 3 units 1.9 times at most
#: (`benchmarks/few_units.py`).
FEWEST_UNITS = 4
#: Simulation of known values ends when the variance of their error is this share of a value's variance.
KNOWN_SHARE = 0.01
#: Most evaluated rows that any fit uses.
MOST_ROWS = 50_000
#: Doubles in a batch of units that are made again.
BATCH_DOUBLES = 4_000_000


#: A control on trial is kept if it leaves less than this share of the mean square that the best one before it leaves.
LEAVES = 0.7
#: The same where known values are simulated: they cost more than the fit, and have errors of their own
#: (`benchmarks/correlated_trials.py --leaves 0.7`).
LEAVES_SIMULATED = 0.3
#: Share of an output's variance below which nothing is tried, since the controls so far are all but exact.
NEGLIGIBLE = 1e-4
#: Folds are tried until they have so many rows. 400, which take up to twice the time, decide 9 of 180 otherwise, by
#: chance (`benchmarks/fitted_controls.py --trials`).
TRIAL_ROWS = 300


@dataclass(frozen=True)
class ControlledTerms:
    """Terms with the controls as further functions, the size of every function, and their known values.

    `functions` are those that were fitted to rows, for each fold and output, and `at_rows` (M, outputs, controls) all
    fitted controls at the rows of a finite background; `learners` are the controls that were used, those on trial only
    if they were kept.
    """

    terms: Terms
    sizes: FloatArray
    known: KnownValues | None
    functions: tuple[Functions, ...] = ()
    at_rows: FloatArray | None = None
    learners: tuple[Control, ...] = ()


def fit_functions(
    sampler: UnitSampler, folds: Folds, learners: Sequence[Control]
) -> tuple[tuple[Functions, ...], list[FoldedRows], tuple[Control, ...]]:
    """The functions of each fold that are fitted to rows, if any, the rows of each output, and whose functions."""
    of_rows = [learner for learner in learners if not learner.models_coalitions]
    starts = [learner.start for learner in learners if learner.models_coalitions and learner.start is not None]
    data = training_rows(sampler, folds, max((learner.max_rows for learner in (*of_rows, *starts)), default=100))
    if not of_rows:
        return (), data, ()
    exact = sampler.game.imputer.known_values == "of draws"
    kept = keep_useful(of_rows, data, folds.n_folds, LEAVES if exact else LEAVES_SIMULATED)
    fitted = [[learner.fit_folds(of_output, range(folds.n_folds)) for learner in kept] for of_output in data]
    functions = tuple(tuple(tuple(one[k] for one in of_output) for of_output in fitted) for k in range(folds.n_folds))
    return functions, data, kept


def keep_useful(
    learners: Sequence[Control], data: list[FoldedRows], n_folds: int, leaves: float = LEAVES
) -> tuple[Control, ...]:
    """The learners without those that fail their trial, which is to leave less than this share of the best before."""
    kept: list[Control] = []
    for learner in learners:
        if not learner.on_trial or _stands_trial(learner, kept, data, n_folds, leaves):
            kept.append(learner)
    return tuple(kept)


def _stands_trial(
    learner: Control, kept: Sequence[Control], data: list[FoldedRows], n_folds: int, leaves: float
) -> bool:
    """Whether a learner leaves so much less of the outputs, each in units of its variance, than the best of others."""
    counts = np.cumsum([(data[0].fold == k).sum() for k in range(n_folds)])
    tried = range(min(n_folds, 1 + int(np.searchsorted(counts, TRIAL_ROWS))))
    best: FloatArray = np.ones(len(data))
    for other in kept:
        best = np.minimum(best, [_leaves(other, of_output, tried) for of_output in data])
    if best.max() <= NEGLIGIBLE:
        return False
    limit = leaves * float(best.sum())
    for of_output in data:
        limit -= _leaves(learner, of_output, tried, limit)
        if limit <= 0.0:
            return False
    return True


def _leaves(learner: Control, data: FoldedRows, tried: range, limit: float = np.inf) -> float:
    """Share of an output's variance that a learner leaves of folds that it was not fitted to."""

    def measure() -> float:
        total = max(1e-300, float(data.outputs.var()) * int(np.isin(data.fold, tried).sum()))
        return learner.leaves(data, tried, limit * total) / total

    return data.remember(("leaves", learner, tried), measure)


def fit_controls(
    problem: Problem,
    sampler: UnitSampler,
    terms: Terms,
    fixed: KnownValues | None,
    learners: Sequence[Control],
    rng: np.random.Generator,
) -> ControlledTerms:
    """Fit, and add the controls to the terms of the model and of controls that are known already (`fixed`)."""
    plain = ControlledTerms(terms, sampler.game.at_x, fixed, learners=tuple(c for c in learners if not c.on_trial))
    if sampler.estimator.exact_per_draw or sampler.is_whole or sampler.n_units < FEWEST_UNITS:
        return plain
    folds = deal_units(sampler, min(learner.n_folds for learner in learners), rng)
    if folds.n_folds < 2:
        return plain
    processes = [learner for learner in learners if learner.models_coalitions]
    controls, roots = [], []
    functions, data, kept = fit_functions(sampler, folds, learners)
    known = None
    if functions:
        known = known_controls(problem, sampler, folds, functions, data)
        controls.append(_unit_controls(sampler, folds, known))
        roots.append(known.roots(controls[0].shape[3]))
    for_errors = controls
    if processes:
        from controlshap.crossfitting.coalition_controls import add_processes

        rows, by_means = cast("LeastSquaresTerms", terms), problem.variance is None or problem.variance.takes_batches
        terms, controls, for_errors = add_processes(sampler, rows, folds, processes, data, controls, by_means=by_means)
        roots += [CovarianceRoot.zero((rows.n_players + 1, len(data), 2)) for _ in processes]
    beside = replace(_known_values(controls, roots), shared=known is not None and known.shared)
    spread = np.array([np.ptp(of_output.outputs) for of_output in data])
    together = np.concatenate(controls, axis=3)
    return ControlledTerms(
        terms.with_controls(together, np.concatenate(for_errors, axis=3)),
        np.concatenate([plain.sizes, np.repeat(spread[:, None], together.shape[3], axis=1)], axis=1),
        beside if fixed is None else KnownValues.stack([fixed, beside]),
        functions,
        _at_rows(sampler, functions, together.shape[3]),
        (*kept, *processes),
    )


def _at_rows(sampler: UnitSampler, functions: tuple[Functions, ...], n_controls: int) -> FloatArray | None:
    """Fitted controls `(M, outputs, controls)` at the rows of a finite background, by the functions of the first fold.

    There is no noise of coalitions there, and controls that model coalitions have the same rows in all units.
    """
    if not sampler.base.finite:
        return None
    rows = sampler.base.rows
    controls = np.zeros((len(rows), sampler.game.at_x.shape[0], n_controls))
    for output, of_output in enumerate(functions[0] if functions else ()):
        for number, function in enumerate(of_output):
            controls[:, output, 2 * number + 1] = function.predict(rows)
    return controls


def training_rows(sampler: UnitSampler, folds: Folds, most: int) -> list[FoldedRows]:
    """For each output, evaluated rows of evenly spread units, with x and the background (of no fold)."""
    game = sampler.game
    ids, design, values = sampler.kept_evaluations()
    per_unit = _evaluations_of_a_unit(sampler)
    n_units = min(len(values), max(2, min(most, MOST_ROWS) // per_unit))
    chosen = np.unique(np.linspace(0, len(values) - 1, n_units).astype(np.int64))
    rows, outputs, labels = [game.x[None]], [game.at_x[None, :, 0]], [np.full(1, -1)]
    if sampler.base.finite:
        known = sampler.base.rows[: max(1, most // 2)]
        rows.append(known)
        outputs.append(sampler.base.values[: len(known), :, 0])
        labels.append(np.full(len(known), -1))
    for part in game.slices(len(chosen), per_unit * len(game.x) * 6):
        units = chosen[part]
        draws = sampler.draws_of(ids.unit[units])
        of_units = sampler.estimator.unit_rows(game.imputer, game.x, design[units], draws)
        rows.append(of_units.reshape(-1, len(game.x)))
        outputs.append(values[units].reshape(-1, values.shape[3]))
        labels.append(np.repeat(folds.of(ids[units]), per_unit))
    every, answers, fold = np.concatenate(rows), np.concatenate(outputs), np.concatenate(labels)
    return FoldedRows.of_outputs(every, answers, fold)


def sample_evaluations(sampler: UnitSampler, most: int, rng: np.random.Generator) -> EvaluatedRows:
    """Some of the evaluated rows of all units, in random order, from which later rows learn."""
    game = sampler.game
    ids, design, values = sampler.kept_evaluations()
    per_unit = _evaluations_of_a_unit(sampler)
    chosen = rng.permutation(len(values) * per_unit)[:most]
    units, places = np.unique(chosen // per_unit, return_inverse=True)
    rows = np.empty((len(chosen), len(game.x)))
    for part in game.slices(len(units), per_unit * len(game.x) * 6):
        draws = sampler.draws_of(ids.unit[units[part]])
        of_units = sampler.estimator.unit_rows(game.imputer, game.x, design[units[part]], draws)
        here = np.flatnonzero((places >= part.start) & (places < part.stop))
        rows[here] = of_units.reshape(-1, per_unit, len(game.x))[places[here] - part.start, chosen[here] % per_unit]
    return EvaluatedRows(rows, values.reshape(-1, values.shape[3])[chosen])


def _evaluations_of_a_unit(sampler: UnitSampler) -> int:
    return int(np.prod(sampler.kept_evaluations()[2].shape[1:3]))


def known_controls(
    problem: Problem, sampler: UnitSampler, folds: Folds, functions: tuple[Functions, ...], data: list[FoldedRows]
) -> KnownControls:
    """Known values of fitted functions, in the way that the value function allows."""
    imputer = sampler.game.imputer
    fitted = FittedFunctions(
        functions, folds.shares, sampler.estimator, imputer, sampler.game.x, problem.memory_limit, problem.cache
    )
    rng = stream(sampler.entropy, Purpose.KNOWN_VALUES, sampler.row)
    in_closed_form = problem.players.arrangement is None or all(one.takes_arrangements for one, _, _ in fitted.distinct)
    if imputer.known_values == "of draws" and in_closed_form:
        return MarginalControls.of(fitted, sampler.kept.visited_rows(), folds.of_samples, rng)
    tolerances = KNOWN_SHARE * np.array([_residual(rows, functions) for rows in data]) / sampler.n_units
    n_walks = sampler.n_units * _evaluations_of_a_unit(sampler) / (2 * problem.players.n_players)
    if imputer.known_values == "of normal scores":
        from controlshap.crossfitting.known_gaussian import GaussianControls

        return GaussianControls.of(fitted, rng, tolerances, n_walks)
    from controlshap.crossfitting.known_simulated import SimulatedControls

    return SimulatedControls.of(fitted, rng, tolerances, n_walks)


def _residual(data: FoldedRows, functions: Sequence[Functions]) -> float:
    """Mean square of what the best functions leave of an output, in rows that they were not fitted to.

    Divided by the number of units it is about the variance of a value.
    """
    squares, n = np.zeros(len(functions[0][data.output])), 0
    for fold, of_fold in enumerate(functions):
        inside = np.flatnonzero(data.fold == fold)
        n += len(inside)
        for number, function in enumerate(of_fold[data.output]):
            squares[number] += ((data.outputs[inside] - function.predict(data.rows[inside])) ** 2).sum()
    return float(squares.min() / max(1, n))


def _unit_controls(sampler: UnitSampler, folds: Folds, known: KnownControls) -> FloatArray:
    """Controls of all units, `(n, components, outputs, 2 functions)`, or of regression targets `(n, draws, ...)`.

    If units were merged, means over their batches, or means of regressors times targets.
    """

    def controls_of(units: Units) -> FloatArray:
        fold = folds.of(units.ids)
        taken = None if folds.taken is None else folds.taken[units.ids.unit]
        parts = []
        for k in np.unique(fold):
            chosen = np.flatnonzero(fold == k)
            rows = None if units.rows is None else units.rows[chosen]
            of_folds = [k] if k >= 0 else range(folds.n_folds)  # of no fold: every function was fitted to them
            some = units.design[chosen], units.draws.rows[chosen], rows, None if taken is None else taken[chosen]
            controls_of_folds = [known.controls(int(each), *some) for each in of_folds]
            parts.append((chosen, np.mean(controls_of_folds, axis=0)))
        controls = np.empty((len(fold), *parts[0][1].shape[1:]))
        for chosen, part in parts:
            controls[chosen] = part
        return controls

    at_once = max(1, BATCH_DOUBLES // (_evaluations_of_a_unit(sampler) * len(sampler.game.x)))
    return sampler.collect(at_once, controls_of)


def _known_values(controls: list[FloatArray], roots: list[CovarianceRoot]) -> KnownValues:
    """Known values 0 of all controls; coefficients start from each function alone, or from equal parts of all."""
    parts = [
        KnownValues(np.zeros((*root.factors.shape[1:3], part.shape[3])), root, np.zeros((0, part.shape[3])))
        for part, root in zip(controls, roots, strict=True)
    ]
    n_learners = sum(part.shape[3] for part in controls) // 2
    return replace(KnownValues.stack(parts), priors=_priors(n_learners))


def _priors(n_learners: int) -> FloatArray:
    """Each function alone (both of its controls, or the first), half of it, and all in equal parts."""
    alone = np.repeat(np.eye(n_learners), 2, axis=1)
    priors = [alone, alone * np.tile([1.0, 0.0], n_learners), 0.5 * alone]
    if n_learners > 1:
        priors.append(alone.mean(axis=0, keepdims=True))
    return np.concatenate(priors)
