"""A pilot: the first walks of a row say whether KernelSHAP makes more of its other evaluations.

Walks measure what a player adds next to the same others, which cancels whatever is smooth; KernelSHAP hears of every
player from every pair of coalitions, which averages whatever is rough. What is rough shows in the evaluations of a few
walks (docs/mathematics.md, section 5): with t half the difference between a coalition and its complement, less the
control and the line from one end to the other, and B evaluations in all, KernelSHAP has about

    sum_j var_j = (p - 1) / lambda * E[t^2] / (B / 2),        lambda = 1 / (2 (1 + 1/2 + ... + 1/(p - 1)))

with sizes weighted as in the kernel, and walks have what their own factors say. The walks of the pilot stay in the
estimate: an evaluation of KernelSHAP counts as many times one of the pilot as the variance was predicted to be smaller.
The weights are those of all players, so that values sum to what both sum to; what the rest shows has no say in them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.crossfitting.folds import Folds
from controlshap.crossfitting.known_simulated import Functions
from controlshap.sampling.sampler import UnitSampler
from controlshap.statistics.analysis import Analysis
from controlshap.statistics.control_variate import Estimate, combine

#: Part of the walks that are the pilot, and fewest of them: a control needs six, and leaves two to be right about.
SHARE, FEWEST_UNITS = 0.25, 8
#: Largest part of the walks that a pilot may be.
MOST_SHARE = 0.4
#: How many times that of KernelSHAP the variance of the walks must be: `LEAVE (1 + FEW / n)` by a pilot of n walks,
#: since few walks may be far apart by chance (benchmarks/results/regret.md).
LEAVE, FEW = 1.3, 2.0


def count_pilot(n_units: int) -> int:
    """Walks of the pilot where n would be paid for; 0 where they are too few."""
    n_pilot = max(FEWEST_UNITS, math.ceil(SHARE * n_units))
    return n_pilot if n_pilot <= MOST_SHARE * n_units else 0


def least_gain(n_pilot: int) -> float:
    """Gain from which on a pilot of so many walks is left."""
    return LEAVE * (1.0 + FEW / n_pilot)


def predict_gain(
    sampler: UnitSampler, functions: tuple[Functions, ...], folds: Folds, estimate: Estimate, planned: tuple[int, int]
) -> float:
    """How many times smaller the variance of KernelSHAP would be, all players and outputs together.

    `planned` are the units and the evaluations that there would be in all.
    """
    n_units, budget = planned
    rough = sum(_mean_square(sampler, functions, folds, output) for output in range(sampler.game.n_outputs))
    p = sampler.game.imputer.players.n_players
    of_coalitions = rough * (p - 1.0) * 2.0 * (1.0 / np.arange(1, p)).sum() / (budget / 2.0)
    of_walks = float((estimate.factors[:, :-1] ** 2).sum()) * sampler.n_units / n_units
    return of_walks / of_coalitions if of_coalitions > 0.0 else 0.0


def _mean_square(sampler: UnitSampler, functions: tuple[Functions, ...], folds: Folds, output: int) -> float:
    """E[t^2] under the kernel's weights of sizes, with the control that leaves least, or none."""
    ids, design, values = sampler.kept_evaluations()
    fold, rows = folds.of(ids), sampler.draws_of(ids.unit)[:, 0]
    evaluated = sampler.estimator.unit_rows(sampler.game.imputer, sampler.game.x, design, rows[:, None])
    known = sampler.base.values[sampler.kept.rows_of(ids.unit)[:, 0], output, 0]
    left = [_lines(values[:, :, 0, output], np.full(len(ids), sampler.game.at_x[output, 0]), known, sampler)]
    for place in range(len(functions[0][output])):
        predicted = np.empty((len(ids), values.shape[1] + 2))
        for k in np.unique(fold):
            inside: IntArray = np.flatnonzero(fold == k)
            function = functions[int(k)][output][place]
            here = evaluated[inside].reshape(-1, evaluated.shape[-1])
            predicted[inside, :-2] = function.predict(here).reshape(len(inside), -1)
            predicted[inside, -2] = function.predict(sampler.game.x[None])[0]
            predicted[inside, -1] = function.predict(rows[inside])
        residual = values[:, :, 0, output] - predicted[:, :-2]
        at_x = sampler.game.at_x[output, 0] - predicted[:, -2]
        left.append(_lines(residual, at_x, known - predicted[:, -1], sampler))
    return min(left)


def _lines(values: FloatArray, at_x: FloatArray, at_rows: FloatArray, sampler: UnitSampler) -> float:
    """E[t^2] of values `(units, k)` along walks from background rows to x."""
    p = sampler.game.imputer.players.n_players
    sizes = np.arange(1, p)
    weights = 1.0 / (sizes * (p - sizes))
    weights /= weights.sum()
    walks = values.reshape(len(values), -1, p - 1)
    if walks.shape[1] == 2:  # the reverse has the complements, from the largest to the smallest
        left = 0.5 * (walks[:, 0] - walks[:, 1, ::-1]) - (sizes / p - 0.5) * (at_x - at_rows)[:, None]
        return float((left**2 @ weights).mean())
    # what is rough in a coalition and in its complement is taken to be independent
    left = walks[:, 0] - at_rows[:, None] - sizes / p * (at_x - at_rows)[:, None]
    return float(0.5 * (left**2 @ weights).mean())


def combine_analyses(pilot: Analysis, rest: Analysis, gain: float, n_evaluations: tuple[int, int]) -> Analysis:
    """Two estimates from so many evaluations each as one; what is said of controls is the second's."""
    of_pilot, of_rest = n_evaluations[0], gain * n_evaluations[1]
    part = of_rest / (of_pilot + of_rest)
    return replace(
        rest,
        controlled=combine(pilot.controlled, rest.controlled, part),
        uncontrolled=combine(pilot.uncontrolled, rest.uncontrolled, part),
    )
