"""Interactions of one row from the evaluations of its units: terms, controls, errors.

A unit's term is unbiased for every pair (`index`), whatever the estimator. The level of the game and its main effects
are noise in it, so that controls matter more than for values. Coefficients and errors come from the analysis that
values have, with pairs as components.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.controls import Control
from controlshap.crossfitting.coalition_controls import unseen_inflation
from controlshap.crossfitting.folds import deal_units
from controlshap.crossfitting.known_gaussian import MOST_COALITIONS, can_enumerate_means, enumerate_means
from controlshap.crossfitting.known_marginal import Functions
from controlshap.data.players import differs_from_x
from controlshap.functions.base import KnownFunction
from controlshap.interactions.controls import FEWEST_UNITS, PairControls
from controlshap.interactions.index import index_terms, pair_numbers, squared_weights, table_interactions
from controlshap.interactions.units import EvaluatedUnits
from controlshap.problem import Problem
from controlshap.results.collect import PairResult
from controlshap.sampling.sampler import UnitSampler
from controlshap.sampling.units import Units
from controlshap.statistics.analysis import Analysis, Sample, analyse
from controlshap.statistics.control_variate import Estimate, KnownValues
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.terms import MeanTerms, Terms
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.values.normal_parts import NormalParts

#: Doubles that the terms of all units may take; beyond, means of batches of units are kept.
MOST_DOUBLES = 2**24
#: Pairs that are analysed together, those of 90 players: fold by fold they take 200 MB.
MOST_TOGETHER = 4096
#: Fewest batches: errors have about as many degrees of freedom.
FEWEST_BATCHES = 256
#: Degrees of freedom that a pair keeps for lack of units with large weights: with fewer, Student's t has no variance.
FEWEST_DOF = 3.0
#: Folds where there is no learner that has its own number.
N_FOLDS = 5


def known_interactions(problem: Problem, function: KnownFunction, x: FloatArray) -> PairResult | None:
    """Exact interactions of a model that is this function; None where they are not known."""
    if problem.correlated:
        return _known_conditioned(problem, function, x)
    index = function.mean_interactions(x, problem.base.rows, problem.players)
    if index is None:
        return None
    values = index[pair_numbers(problem.players.n_players)]
    return PairResult.exact(values.reshape(len(values), -1))


def _known_conditioned(problem: Problem, function: KnownFunction, x: FloatArray) -> PairResult | None:
    """Known values of a function of normal scores, from its conditional means of all coalitions."""
    imputer, outputs = problem.imputer, list(function.score_functions)
    if not isinstance(imputer, NormalParts) or not outputs or not can_enumerate_means(imputer.players, MOST_COALITIONS):
        return None
    return PairResult.exact(table_interactions(enumerate_means(imputer, x, outputs)))


def estimate_interactions(
    problem: Problem,
    sampler: UnitSampler,
    learners: Sequence[Control],
    functions: Sequence[Functions],
    rng: tuple[np.random.Generator, np.random.Generator],
) -> PairResult:
    """Interactions with errors, without a further evaluation.

    Parameters
    ----------
    problem : Problem
    sampler : Sampler
        With the log of what units evaluated.
    learners : sequence of Control
        Fitted controls of the plan.
    functions : sequence of Functions
        What was fitted to rows already, for each fold and output.
    rng : pair of Generator
        For the folds of fitted functions, equal to that of the values, and for the analysis.
    """
    units, controls = EvaluatedUnits.of(sampler), None
    if not sampler.estimator.exact_per_draw and not sampler.is_whole and sampler.n_units >= FEWEST_UNITS:
        folds = deal_units(sampler, min((learner.n_folds for learner in learners), default=N_FOLDS), rng[0])
        if folds.n_folds >= 2:
            # known values given rows near x, or of a sampler's own rows, there are none: the process is enough
            known = not problem.correlated or isinstance(problem.imputer, NormalParts)
            controls = PairControls.fit(units, folds, functions if known else ())
            controls = controls if controls.n_controls else None
    terms, design, shown = _gather(units, controls)
    live = None if problem.correlated else _live_pairs(sampler)
    by_folds, n_pairs, parts = problem.coefficient != "units", len(shown), []
    for start in range(0, n_pairs, MOST_TOGETHER):
        some = np.arange(start, min(n_pairs, start + MOST_TOGETHER))
        of_some = replace(terms, values=terms.values[:, np.append(some, n_pairs)])
        own = None if live is None else live[some]
        analysis = _analyse(units, controls, of_some, design, rng[1], own, by_folds=by_folds)
        parts.append(_allow_for_design(analysis.controlled, shown[some] / shown.mean()))
    found = PairResult.concatenate(parts)
    return found if problem.base.finite or sampler.game.log.starts else _allow_for_base(found, sampler)


def _allow_for_base(found: PairResult, sampler: UnitSampler) -> PairResult:
    """Errors with that of a shared estimate of v(0), which reaches every pair divided by the other players' number."""
    base, p = sampler.base, sampler.game.imputer.players.n_players
    sizes = np.ones(len(base.values)) if base.sizes is None else base.sizes
    shares = sizes / sizes.sum()
    spread = (shares[:, None] * (base.values[:, :, 0] - base.mean[:, 0]) ** 2).sum(axis=0)
    variance = spread / max(1, len(base.values) - 1) / (p - 1) ** 2
    return replace(found, standard_errors=np.sqrt(found.standard_errors**2 + variance))


def _allow_for_design(estimate: Estimate, shown: FloatArray) -> PairResult:
    """Errors of pairs of which the design has shown less than of others.

    Two players are the first or the last of a walk in few units, which have the largest weights of that pair. A pair
    for which there were fewer of these, by its squared weights `shown` (pairs,) over their mean, shows too small a
    variance, in that proportion, and has so many fewer degrees of freedom.
    """
    lacking = np.maximum(1.0, 1.0 / shown)[:, None]
    dof = np.fmax(estimate.dof[:-1] / lacking, np.minimum(estimate.dof[:-1], FEWEST_DOF))
    return PairResult(estimate.values[:-1], np.sqrt(lacking * estimate.variances[:-1]), dof)


def _gather(units: EvaluatedUnits, controls: PairControls | None) -> tuple[MeanTerms, TwoStageDesign, FloatArray]:
    """Terms `(n, pairs + 1, outputs, functions)` of units or batches, their design, and squared weights `(pairs,)`.

    The last component, where values have v(0), is 0.
    """
    n_players, n_units, design = units.sampler.game.imputer.players.n_players, len(units.ids), units.design
    shape = (
        n_players * (n_players - 1) // 2 + 1,
        units.n_outputs,
        1 + (0 if controls is None else controls.n_controls),
    )
    most = max(FEWEST_BATCHES, MOST_DOUBLES // int(np.prod(shape)))
    batch: IntArray = np.arange(n_units)
    if n_units > most:
        batch, design = design.coarsen(most)
    sums, shown = np.zeros((int(batch.max()) + 1, *shape)), np.zeros(shape[0] - 1)
    for some in units.replay():
        coalitions, weights = units.coalition_weights(some)
        # as if all were of one unit: their sum is one product of matrices
        shown += squared_weights(coalitions.reshape(1, -1, n_players), weights.reshape(1, -1))[0]
        terms = _terms(units, controls, some)
        if n_units > most:
            np.add.at(sums[:, :-1], batch[some.ids.unit], terms)
        else:  # each is its own batch
            sums[some.ids.unit, :-1] = terms
    counts = np.bincount(batch)
    means = sums / counts[:, None, None, None]
    return MeanTerms(design.even_out(means, counts) if n_units > most else means), design, shown


def _terms(units: EvaluatedUnits, controls: PairControls | None, some: Units) -> FloatArray:
    """Terms `(u, pairs, outputs, functions)` of some units: the model, and controls less their known values."""
    sampler, values = units.sampler, units.values[some.ids.unit][..., None]
    coalitions, weights = units.coalition_weights(some)
    fold: IntArray = np.zeros(len(values), dtype=np.int64)
    if controls is not None:
        fold = controls.folds.of(some.ids)
        of_controls = np.empty((*values.shape[:3], controls.n_controls))
        for k in np.unique(fold):
            inside = np.flatnonzero(fold == k)
            of_folds = [k] if k >= 0 else range(controls.folds.n_folds)
            values_of_folds = [
                controls.values(sampler, int(j), some.design[inside], some.draws.rows[inside]) for j in of_folds
            ]
            of_controls[inside] = np.mean(values_of_folds, axis=0)
        values = np.concatenate([values, of_controls], axis=3)
    n_outputs, n_functions = values.shape[2:]
    by_output = [
        np.stack([index_terms(coalitions, weights, values[:, :, o, f]) for f in range(n_functions)], axis=-1)
        for o in range(n_outputs)
    ]
    terms = np.stack(by_output, axis=2)
    if controls is not None:
        known = np.concatenate([controls.known, controls.known.mean(axis=0, keepdims=True)])  # the last for no fold
        terms[..., 1:] -= known[fold]
    return terms


def _analyse(
    units: EvaluatedUnits,
    controls: PairControls | None,
    terms: MeanTerms,
    design: TwoStageDesign,
    rng: np.random.Generator,
    live: BoolArray | None,
    *,
    by_folds: bool,
) -> Analysis:
    """Coefficients, values and errors of some pairs, as for the values of players."""

    def roots(terms: Terms, design: TwoStageDesign, rng: np.random.Generator) -> CovarianceRoot:  # noqa: ARG001
        return design.covariance_root(terms.pseudo_values(design.weights))

    shape, known = terms.values.shape[1:], None
    if controls is not None:
        zero, inflation = np.zeros((*shape[:2], controls.n_controls)), 1.0
        there = units.sampler.estimator.n_distinct(units.sampler.game.imputer.players.n_players)
        if math.isfinite(there):
            inflation = unseen_inflation(len(units.ids), there, controls.folds.n_folds)
        known = KnownValues(zero, CovarianceRoot.zero_like(zero), controls.priors(), inflation)
    sizes = np.repeat(np.ptp(units.values, axis=(0, 1))[:, None], shape[2], axis=1)
    sample = Sample(terms, design, np.zeros((0, *shape[1:])), sizes, False, False, live)
    return analyse(sample, roots, known, rng, by_folds=by_folds)


def _live_pairs(sampler: UnitSampler) -> BoolArray | None:
    """Pairs that differ from x in some background row, both of them; the others are 0. None where all may matter."""
    players = sampler.game.imputer.players
    if not sampler.game.imputer.mixes_columns:
        return None
    differs = differs_from_x(sampler.game.x, sampler.base.rows, players)
    first, second = pair_numbers(players.n_players)
    return np.asarray((differs[:, first] & differs[:, second]).any(axis=0))
