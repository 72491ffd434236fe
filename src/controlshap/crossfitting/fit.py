"""Controls fitted to the evaluations of the very explanation that they control, with cross-fitting.

Units are dealt into folds; each fold is controlled by functions fitted to the evaluated rows of the others. A function
gives two controls, both of known value 0. For independent features: what a unit of g misses of g's own value for its
draws (noise of coalitions), and how that value differs from the mean over the background (noise of rows). For
correlated features: what a unit of g misses of its mean over draws (noise of draws), and how that differs from the
simulated value (noise of coalitions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from controlshap._random import Purpose, stream
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.controls import Control
from controlshap.controls.fits.rows import FoldedRows
from controlshap.crossfitting.folds import Dealt, Folds, deal_units
from controlshap.crossfitting.known_gaussian import Reference, SimulatedReference
from controlshap.crossfitting.known_marginal import MarginalReference
from controlshap.estimators import Kernel, Permutation
from controlshap.estimators.base import UnitDraws
from controlshap.functions.base import KnownFunction
from controlshap.problem import Problem
from controlshap.sampling.game import FunctionGame
from controlshap.sampling.sampler import Sampler
from controlshap.statistics.batched_terms import LinearisedTerms
from controlshap.statistics.control_variate import KnownValues
from controlshap.statistics.terms import BATCH, LeastSquaresTerms, MeanTerms, Terms
from controlshap.statistics.two_stage import Roots
from controlshap.values.gaussian import GaussianImputer

#: Fewest units behind a fit; with fewer the controls are left out.
FEWEST_UNITS = 6
#: Share of a value's variance that the error of simulated known values may have: their simulation ends there.
KNOWN_SHARE = 0.01
#: Most evaluated rows that any fit sees.
MOST_ROWS = 50_000
#: Doubles of a batch of units that is gone through again.
BATCH_DOUBLES = 4_000_000
#: Coalitions of which a function is evaluated at once on the whole background.
AT_ONCE = 256

Functions = tuple[tuple[KnownFunction, ...], ...]
"""For each output its functions."""


@dataclass(frozen=True)
class Learned:
    """Terms with the controls as further functions, the size of every function, and what is known of them.

    `functions` are those that were fitted to rows, for each fold and output.
    """

    terms: Terms
    sizes: FloatArray
    known: KnownValues | None
    functions: tuple[Functions, ...] = ()

    def predict(self, rows: FloatArray) -> FloatArray:
        """What the functions of the first fold say, `(rows, outputs, learners)`; the others' say much the same."""
        found = [np.stack([f.predict(rows) for f in of_output], axis=-1) for of_output in self.functions[0]]
        return np.stack(found, axis=1)


def learn(
    problem: Problem,
    sampler: Sampler,
    terms: Terms,
    fixed: KnownValues | None,
    learners: Sequence[Control],
    rng: np.random.Generator,
) -> Learned:
    """Fit, and add the controls to the terms of the model and of other surrogates."""
    at_x = sampler.game.at_x
    n_folds = min(learner.n_folds for learner in learners)
    if sampler.estimator.settles_draws or sampler.n_units < FEWEST_UNITS:
        return Learned(terms, at_x, fixed)
    folds = deal_units(sampler, n_folds, rng)
    n_folds = folds.n_folds
    if n_folds < 2:
        return Learned(terms, at_x, fixed)
    of_rows = tuple(learner for learner in learners if not learner.models_coalitions)
    processes = tuple(learner for learner in learners if learner.models_coalitions)
    starts = tuple(dict.fromkeys(process.start for process in processes if process.start is not None))
    most = max((learner.max_rows for learner in (*of_rows, *starts)), default=100)
    data = training_rows(problem, sampler, folds, most)
    controls, roots = [], []
    functions: list[Functions] = []
    if of_rows:
        functions = [
            tuple(tuple(one.fit(of_output, k) for one in of_rows) for of_output in data) for k in range(n_folds)
        ]
        reference = _reference(problem, sampler, functions, folds, data)
        controls.append(_controls(problem, sampler, folds, functions, reference))
        roots.append(reference.roots(controls[0].shape[3]))
    for process in processes:
        if not isinstance(folds, Dealt):
            raise TypeError("a process over coalitions needs all units")
        controls.append(process_controls(problem, sampler, terms, folds.fold, process, data))
        roots.append(Roots.zero((problem.players.n_players + 1, len(data), 2)))
    inflation = unseen_inflation(sampler.designs(), n_folds) if processes else 1.0
    if processes and isinstance(terms, LeastSquaresTerms):
        if problem.variance is None or problem.variance.takes_batches:
            # all units have the same draws, and the variance goes by their means
            terms = replace(terms, draw_targets=terms.targets[:, None])
            controls = [part.mean(axis=1, keepdims=True) for part in controls]
        n_draws = terms.draw_targets.shape[1]
        controls = [np.broadcast_to(part, (len(part), n_draws, *part.shape[2:])) for part in controls]
    joined = _joined(terms, at_x, fixed, controls, roots, data, inflation)
    return replace(joined, functions=tuple(functions))


def training_rows(problem: Problem, sampler: Sampler, folds: Folds, most: int) -> list[FoldedRows]:
    """Evaluated rows of units evenly spread, with x and the background (of no fold), for each output."""
    game = sampler.game
    numbers, design, values = sampler.evaluated()
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
        draws = sampler.draws_of(numbers.unit[units])
        rows.append(_unit_rows(problem, sampler, design[units], draws).reshape(-1, len(game.x)))
        outputs.append(values[units].reshape(-1, values.shape[3]))
        labels.append(np.repeat(folds.of(numbers[units]), per_unit))
    together, said, fold = np.concatenate(rows), np.concatenate(outputs), np.concatenate(labels)
    return [FoldedRows(together, said[:, output], fold, output) for output in range(said.shape[1])]


def _evaluations_of_a_unit(sampler: Sampler) -> int:
    return int(np.prod(sampler.evaluated()[2].shape[1:3]))


def _unit_rows(problem: Problem, sampler: Sampler, design: Any, draws: FloatArray) -> FloatArray:
    """Rows `(u, k, draws, columns)` that units evaluate, in the order in which they do."""
    x, imputer, estimator = sampler.game.x, problem.imputer, sampler.estimator
    if isinstance(estimator, Permutation):
        walks = [imputer.walk_rows(x, design, draws)]
        walks += [imputer.walk_rows(x, design[:, ::-1], draws)] if estimator.paired else []
        return np.concatenate(walks, axis=1)
    if isinstance(estimator, Kernel):
        both = np.stack([design, ~design], axis=1) if estimator.paired else design[:, None]
        return imputer.coalition_rows(x, both, draws)
    raise TypeError(f"nothing is fitted to the evaluations of {type(estimator).__name__}")


def _reference(
    problem: Problem, sampler: Sampler, functions: list[Functions], folds: Folds, data: list[FoldedRows]
) -> Reference:
    x, shares = sampler.game.x, folds.shares()
    rng = stream(sampler.entropy, Purpose.KNOWN_VALUES, sampler.row)
    if isinstance(problem.imputer, GaussianImputer):
        return SimulatedReference.of(
            functions, shares, x, problem.imputer, problem.memory_limit, rng,
            paired=getattr(sampler.estimator, "paired", True),
            tolerances=KNOWN_SHARE * np.array([_residual(rows, functions) for rows in data]) / sampler.n_units,
            n_walks=sampler.n_units * _evaluations_of_a_unit(sampler) / (2 * problem.players.n_players),
        )  # fmt: skip
    drawn, fold = folds.drawn()
    return MarginalReference.of(functions, x, sampler.base.rows, drawn, problem.players, fold, shares=shares, rng=rng)


def _residual(data: FoldedRows, functions: list[Functions]) -> float:
    """Mean square of what the best functions leave of an output, in rows that they were not fitted to.

    Over the number of units it is about the variance of a value, the share of noise that is left to sampling.
    """
    squares, n = np.zeros(len(functions[0][data.output])), 0
    for fold, of_fold in enumerate(functions):
        inside = np.flatnonzero(data.fold == fold)
        n += len(inside)
        for number, function in enumerate(of_fold[data.output]):
            squares[number] += ((data.outputs[inside] - function.predict(data.rows[inside])) ** 2).sum()
    return float(squares.min() / max(1, n))


def _controls(
    problem: Problem, sampler: Sampler, folds: Folds, functions: list[Functions], reference: Reference
) -> FloatArray:
    """Controls of all units, `(n, components, outputs, 2 learners)`, or of regression targets `(n, draws, ...)`.

    Of batches where units were merged: means of these, or of regressors times targets.
    """
    estimator, x = sampler.estimator, sampler.game.x
    n, (n_outputs, n_learners) = sampler.n_units, (len(functions[0]), len(functions[0][0]))
    games = [FunctionGame.of(of_fold, x, problem.imputer, problem.memory_limit) for of_fold in functions]
    axis = estimator.n_draws if estimator.is_least_squares else problem.players.n_players + 1
    step = max(1, BATCH_DOUBLES // (_evaluations_of_a_unit(sampler) * len(x)))
    merged = None if sampler.merging is None else sampler.merging.merged.batches.alike()
    if merged is not None:
        step = min(step, BATCH, sampler.units_at_once)
    found = np.zeros((n if merged is None else 0, axis, n_outputs, 2 * n_learners))
    for numbers, drawn, design, draws in sampler.replay(step):
        fold = folds.of(numbers)
        some = np.zeros((len(numbers), *found.shape[1:]))
        regressors = np.zeros((len(numbers), problem.players.n_players if estimator.is_least_squares else 0))
        for k, game in enumerate(games):
            units = np.flatnonzero(fold == k)
            if not len(units):
                continue
            if (
                isinstance(estimator, Permutation)
                and isinstance(reference, SimulatedReference)
                and reference.takes_walks(k)
            ):
                some[units] = reference.walk_controls(k, design[units], draws[units])
                continue
            unknown = UnitDraws(draws[units], None, None, np.zeros_like(game.at_x))
            terms = estimator.terms(game, design[units], unknown)
            some[units] = reference.controls(k, terms, design[units], None if drawn is None else drawn[units])
            if isinstance(terms, LeastSquaresTerms):
                regressors[units] = terms.regressors
        if merged is None:
            found[numbers.unit] = some
        elif estimator.is_least_squares:
            merged.add(numbers, regressors[:, :, None, None] * some.mean(axis=1)[:, None])
        else:
            merged.add(numbers, some)
    return found if merged is None else merged.means()


def process_controls(
    problem: Problem, sampler: Sampler, terms: Terms, fold: IntArray, process: Control, data: list[FoldedRows]
) -> FloatArray:
    """Controls `(n, 1, outputs, 2)` of a process over coalitions, the same for all draws; the second is 0."""
    if not isinstance(terms, LeastSquaresTerms):
        raise TypeError(f"a process over coalitions controls no {type(terms).__name__}")
    signs = 2.0 * terms.regressors  # of pairs: +-1/2
    found = np.zeros((terms.n_units, len(data), 2))
    for output, of_output in enumerate(data):
        for k in range(int(fold.max()) + 1):
            inside, others = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
            first: FloatArray = np.zeros(terms.n_units)
            known: FloatArray = np.zeros(signs.shape[1])
            if process.start is not None:
                function = process.start.fit(of_output, k)
                values = function.draw_values(sampler.game.x, sampler.base.rows, problem.players)
                if values is not None:
                    known, first = values.mean(axis=0), _targets_of(function, problem, sampler)
            fitted = process.fit_coalitions(signs, terms.targets[:, output, 0] - first, others)
            control = first[inside] + fitted.predict(signs[inside])
            control -= terms.regressors[inside] @ (known + fitted.values())
            found[inside, output, 0] = control
    return found[:, None]


def _targets_of(function: KnownFunction, problem: Problem, sampler: Sampler) -> FloatArray:
    """Targets `(n,)` of a function, from each distinct coalition once and a few of them at a time."""
    game = FunctionGame.of(((function,),), sampler.game.x, problem.imputer, problem.memory_limit)
    distinct, which = np.unique(sampler.designs(), axis=0, return_inverse=True)
    draws, estimator = sampler.draw_rows(0, 1), replace(cast("Kernel", sampler.estimator), reuse=False)
    found = []
    for start in range(0, len(distinct), AT_ONCE):
        some = distinct[start : start + AT_ONCE]
        every = UnitDraws(np.broadcast_to(draws, (len(some), *draws.shape[1:])), None, None, game.at_x * 0)
        found.append(estimator.terms(game, some, every).targets[:, 0, 0])
    return np.asarray(np.concatenate(found)[which.reshape(-1)])


def unseen_inflation(design: BoolArray, n_folds: int) -> float:
    """Variance of values controlled by a process, over what units show of it.

    A process knows a pair of coalitions once one unit has it, so only pairs that occur once leave a residual. With a
    residual h of mean 0 on pairs that were not met, the error is `sum (1/n - pi_c / folds) h` over pairs met once less
    `sum pi_c h` over pairs not met at all. Units show `sum e^-l l` with l = n pi_c; the rest is
    `(1 - 2 / folds) sum e^-l l^2`, and `sum e^-l l^2` is twice the number of pairs that occur twice (Good and Turing).
    """
    pairs = np.where(design[:, :1], design, ~design)
    counts = np.unique(np.packbits(pairs, axis=1), axis=0, return_counts=True)[1]
    return float(1.0 + (1.0 - 2.0 / n_folds) * 2.0 * (counts == 2).sum() / max(1, (counts == 1).sum()))


def _joined(
    terms: Terms,
    at_x: FloatArray,
    fixed: KnownValues | None,
    parts: list[FloatArray],
    roots: list[Roots],
    data: list[FoldedRows],
    inflation: float,
) -> Learned:
    """Model, other surrogates and controls side by side."""
    controls = np.concatenate(parts, axis=3)
    n_outputs, n_controls = controls.shape[2:]
    spread = np.array([np.ptp(of_output.outputs) for of_output in data])
    sizes = np.concatenate([at_x, np.repeat(spread[:, None], n_controls, axis=1)], axis=1)
    values = [np.zeros((*root.rows.shape[1:3], part.shape[3])) for part, root in zip(parts, roots, strict=True)]
    known = KnownValues.stack(
        [KnownValues(value, root, np.zeros((0, value.shape[2]))) for value, root in zip(values, roots, strict=True)]
    )
    known = replace(known, priors=_priors(n_controls // 2), inflation=inflation)
    known = known if fixed is None else KnownValues.stack([fixed, known])
    if isinstance(terms, LinearisedTerms):
        return Learned(terms.with_controls(controls), sizes, known)
    if isinstance(terms, MeanTerms):
        return Learned(MeanTerms(np.concatenate([terms.values, controls], axis=3)), sizes, known)
    if not isinstance(terms, LeastSquaresTerms):
        raise TypeError(f"unknown terms {type(terms).__name__}")
    nothing = np.zeros((n_outputs, n_controls))
    joined = replace(
        terms,
        targets=np.concatenate([terms.targets, controls.mean(axis=1)], axis=2),
        draw_targets=np.concatenate([terms.draw_targets, controls], axis=3),
        total=np.concatenate([terms.total, nothing], axis=1),
        base=np.concatenate([terms.base, nothing], axis=1),
    )
    return Learned(joined, sizes, known)


def _priors(n_learners: int) -> FloatArray:
    """Each function alone (both of its controls, or the first), half of it, and all in equal parts."""
    alone = np.repeat(np.eye(n_learners), 2, axis=1)
    priors = [alone, alone * np.tile([1.0, 0.0], n_learners), 0.5 * alone]
    if n_learners > 1:
        priors.append(alone.mean(axis=0, keepdims=True))
    return np.concatenate(priors)
