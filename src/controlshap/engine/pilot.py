"""A pilot: the first walks of a row show whether KernelSHAP would make more of the remaining evaluations.

Walks measure what a player adds to a coalition, which cancels the smooth part of the model; in KernelSHAP every pair of
coalitions tells something about every player, which averages the rough part. The evaluations of a few walks show how
rough the model is (docs/mathematics.md, section 5): with t half the difference between a coalition and its complement,
less the control and the line from one end to the other, and B evaluations in all, KernelSHAP has about

    sum_j var_j = (p - 1) / lambda * E[t^2] / (B / 2),        lambda = 1 / (2 (1 + 1/2 + ... + 1/(p - 1)))

with sizes weighted as in the kernel. Walks have noise within rows, and between rows until a pass is complete. The walks
of the pilot stay in the estimate: an evaluation of KernelSHAP is weighted with the factor by which its variance was
predicted to be smaller. All players have the same weights, so that values still sum to f(x) - v(0), and the weights
depend on the pilot alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from controlshap._arrays import sum_by
from controlshap._random import Purpose, stream
from controlshap._types import FloatArray, IntArray
from controlshap.crossfitting.fit import fit_functions
from controlshap.crossfitting.folds import Folds, deal_units
from controlshap.crossfitting.known_marginal import Functions
from controlshap.estimators.permutation import walk_contributions
from controlshap.sampling.sampler import UnitSampler
from controlshap.statistics.analysis import Analysis
from controlshap.statistics.control_variate import combine

if TYPE_CHECKING:
    from controlshap.engine.row import Run

#: Share of the walks that form the pilot, and fewest of them: a control needs four, which leaves as many to test it.
SHARE, FEWEST_UNITS = 0.25, 8
#: Largest share of the walks that a pilot may take.
MOST_SHARE = 0.4
#: Walks are abandoned if their variance is predicted to be so many times that of KernelSHAP. Limits of 1.1 to 1.3 cost
#: 1.04 to 1.07 times the error of the better choice in the geometric mean, 1.6 costs 1.08 to 1.09 times
#: (`benchmarks/pilot.py --seeds 4`).
LEAVE = 1.25
#: Fewest second visits that show the noise within rows: each is a contrast of all players.
FEWEST_AGAIN = 3
#: Passes of single walks from which on the noise between rows all but ends, which the pilot does not show.
NEAR_PASS = 0.7


def begin_run(run: Run) -> Run:
    """The run with its recorded stages, after its pilot if it has one.

    A continued run takes the decision of its pilot again from the same evaluations, and so takes the same one.
    """
    recorded, n_pilot = run.recording.stages, _count_units(run)
    if n_pilot == 0 or (recorded and recorded[0] != n_pilot):
        run.replay(recorded)
        return run
    n_units = run.sampler.affordable(run.plan.budget - run.game.n_evaluations)
    run.next_units = n_pilot
    run.sample_stage()
    gain = _learn(run, n_units)
    if gain > LEAVE:
        run.estimate()
        run = run.leave(gain)
        run.replay(recorded[1:])
        return run
    run.stages.clear()
    run.replay(recorded or (n_pilot,))
    return run


def _count_units(run: Run) -> int:
    """Units of the pilot, 0 for none: the same ones where a run is continued."""
    if run.plan.alternative is None or not run.plan.sure_controls or run.plan.prepared_controls:
        return 0
    if run.sampler.stream.take_all is not None:
        return 0  # units at rows that are visited several times do not represent the others
    n_units = run.sampler.affordable(run.plan.budget - run.game.n_evaluations)
    return count_pilot(n_units)


def _learn(run: Run, n_units: int) -> float:
    """How many times smaller the variance of KernelSHAP would be than that of n walks; 0 where that is unknown."""
    rng, learners = stream(run.entropy, Purpose.FOLDS, run.row), run.plan.sure_controls
    folds = deal_units(run.sampler, min(learner.n_folds for learner in learners), rng)
    if folds.n_folds < 2:
        return 0.0
    functions, _, _ = fit_functions(run.sampler, folds, learners)
    if not functions:
        return 0.0
    return predict_gain(run.sampler, functions, folds, n_units, run.plan.budget)


def count_pilot(n_units: int) -> int:
    """Number of walks in the pilot where the budget pays for n; 0 where they are too few."""
    n_pilot = max(FEWEST_UNITS, math.ceil(SHARE * n_units))
    return n_pilot if n_pilot <= MOST_SHARE * n_units else 0


def predict_gain(
    sampler: UnitSampler, functions: tuple[Functions, ...], folds: Folds, n_units: int, budget: int
) -> float:
    """How many times smaller the variance of KernelSHAP would be, all players and outputs together.

    `budget` evaluations would give `n_units` walks, or pairs of them. 0 where the pilot does not show it.
    """
    p, of_coalitions, of_walks = sampler.game.imputer.players.n_players, 0.0, 0.0
    for paths, noise in _every_output(sampler, functions, folds):
        of_coalitions += _mean_square(paths) * (p - 1.0) * 2.0 * (1.0 / np.arange(1, p)).sum() / (budget / 2.0)
        if paths.shape[1] == 2:
            of_walks += noise.of_pairs(n_units, sampler.n_blocks)
        elif n_units < NEAR_PASS * sampler.n_blocks:
            of_walks += noise.total / n_units
    return of_walks / of_coalitions if of_coalitions > 0.0 else 0.0


def _every_output(
    sampler: UnitSampler, functions: tuple[Functions, ...], folds: Folds
) -> Iterator[tuple[FloatArray, Noise]]:
    """Values along walks and their noise for each output, with the control that leaves least, or none."""
    ids, design, _ = sampler.kept_evaluations()
    for output in range(sampler.game.n_outputs):
        paths = min(_paths(sampler, functions, folds, output), key=_mean_square)
        yield paths, Noise.of(paths, design, ids.block)


def _paths(sampler: UnitSampler, functions: tuple[Functions, ...], folds: Folds, output: int) -> list[FloatArray]:
    """Values `(units, walks, players + 1)` from background rows to x: of the model, and less each function."""
    ids, design, values = sampler.kept_evaluations()
    fold, rows = folds.of(ids), sampler.draws_of(ids.unit)[:, 0]
    p, x = sampler.game.imputer.players.n_players, sampler.game.x
    evaluated = sampler.estimator.unit_rows(sampler.game.imputer, x, design, rows[:, None])
    known = sampler.base.values[sampler.kept.rows_of(ids.unit)[:, 0], output, 0]

    def join(at_rows: FloatArray, inner: FloatArray, at_x: FloatArray) -> FloatArray:
        walks = inner.reshape(len(inner), -1, p - 1)
        ends = [np.broadcast_to(end[:, None, None], (*walks.shape[:2], 1)) for end in (at_rows, at_x)]
        return np.concatenate([ends[0], walks, ends[1]], axis=2)

    paths = [join(known, values[:, :, 0, output], np.full(len(ids), sampler.game.at_x[output, 0]))]
    for place in range(len(functions[0][output])):
        predicted = np.empty_like(paths[0])
        for k in np.unique(fold):
            inside: IntArray = np.flatnonzero(fold == k)
            function = functions[int(k)][output][place]
            inner = function.predict(evaluated[inside].reshape(-1, evaluated.shape[-1])).reshape(len(inside), -1)
            at_x = np.repeat(function.predict(x[None]), len(inside))
            predicted[inside] = join(function.predict(rows[inside]), inner, at_x)
        paths.append(paths[0] - predicted)
    return paths


def _mean_square(paths: FloatArray) -> float:
    """E[t^2] under the kernel's weights of sizes."""
    p = paths.shape[2] - 1
    sizes = np.arange(1, p)
    weights = 1.0 / (sizes * (p - sizes))
    weights /= weights.sum()
    lines = paths[:, :, :1] + np.arange(p + 1) / p * (paths[:, :, -1:] - paths[:, :, :1])
    left = (paths - lines)[:, :, 1:-1]
    if left.shape[1] == 2:  # the reverse has the complements, from the largest to the smallest
        return float(((0.5 * (left[:, 0] - left[:, 1, ::-1])) ** 2 @ weights).mean())
    # the rough parts of a coalition and of its complement are taken to be independent
    return float(0.5 * (left[:, 0] ** 2 @ weights).mean())


@dataclass(frozen=True)
class Noise:
    """Noise of the pairs of walks of a pilot, all players together.

    Half the difference of a walk and its reverse does not vary between rows. Where no row was visited several times,
    its mean square replaces the variance of their mean within a row: it is at least that where a reverse compensates
    for its walk, and about that where it does not, as in rough models.

    Attributes
    ----------
    total : float
        Variance of the mean of a walk and its reverse; of single walks where there are no pairs.
    within : float
        The part of it within rows.
    """

    total: float
    within: float

    @classmethod
    def of(cls, paths: FloatArray, design: IntArray, block: IntArray) -> Noise:
        """From values `(units, walks, players + 1)` along walks of this design, and the block of each unit."""
        contributions = [walk_contributions(design, paths[:, 0])]
        if paths.shape[1] == 2:
            contributions.append(walk_contributions(design[:, ::-1], paths[:, 1]))
        mean = np.mean(contributions, axis=0)
        mean -= mean.mean(axis=1, keepdims=True)  # what a unit sums to is known
        total = float(mean.var(axis=0, ddof=1).sum())
        _, index, counts = np.unique(block, return_inverse=True, return_counts=True)
        again = len(block) - len(counts)
        within = float((0.25 * (contributions[0] - contributions[-1]) ** 2).mean(axis=0).sum())
        if again >= FEWEST_AGAIN:
            centers = sum_by(index, mean, len(counts)) / counts[:, None]
            within = float(((mean - centers[index]) ** 2).sum()) / again
        return cls(total, min(total, within))

    def of_pairs(self, n_pairs: int, n_rows: int) -> float:
        """Variance with n pairs over M rows: `between (1/n - 1/M)+ + within / n`."""
        between = self.total - self.within
        return between * max(0.0, 1.0 / n_pairs - 1.0 / n_rows) + self.within / n_pairs


def combine_analyses(pilot: Analysis, rest: Analysis, gain: float, n_evaluations: tuple[int, int]) -> Analysis:
    """Combine two estimates from so many evaluations each; facts about controls are those of the second."""
    of_pilot, of_rest = n_evaluations[0], gain * n_evaluations[1]
    part = of_rest / (of_pilot + of_rest)
    return replace(
        rest,
        controlled=combine(pilot.controlled, rest.controlled, part),
        uncontrolled=combine(pilot.uncontrolled, rest.uncontrolled, part),
    )
