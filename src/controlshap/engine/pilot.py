"""A pilot: the first walks of a row show whether KernelSHAP would make more of the remaining evaluations.

Walks measure what a player adds to a coalition, which cancels the smooth part of the model; in KernelSHAP every pair of
coalitions tells something about every player, which averages the rough part. The evaluations of a few walks show how
rough the model is (docs/mathematics.md, section 5): with t half the difference between a coalition and its complement,
less the control and the line from one end to the other, and B evaluations, KernelSHAP has about

    sum_j var_j = (p - 1) / lambda * E[t^2] / (B / 2 - p),    lambda = 1 / (2 (1 + 1/2 + ... + 1/(p - 1)))

with sizes weighted as in the kernel. Walks have noise within rows, and between rows until a pass is complete. Rows that
are taken all are a stratum of their own in both designs: variances are predicted for them and for the others apart.

The walks of the pilot stay in the estimate, and both parts are weighted by their predicted variances. All players have
the same weights, so that values still sum to f(x) - v(0), and the weights depend on the pilot alone.
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
from controlshap.data.players import differs_from_x
from controlshap.estimators.permutation import walk_contributions
from controlshap.sampling.sampler import UnitSampler
from controlshap.statistics.analysis import Analysis
from controlshap.statistics.control_variate import combine
from controlshap.statistics.visits import count_fresh, share_of_visits

if TYPE_CHECKING:
    from controlshap.engine.row import Run

#: Share of the walks that form the pilot, and fewest of them: a control needs four, which leaves as many to test it.
SHARE, FEWEST_UNITS = 0.25, 8
#: Largest share of the walks that a pilot may take.
MOST_SHARE = 0.4
#: Walks are left if the variance is predicted to become so many times smaller. Limits of 1.1 to 1.3 cost 1.06 to 1.09
#: times the error of the better choice in the geometric mean, 1 costs 1.06 to 1.14 times and 1.6 costs 1.08 to 1.13
#: times (`benchmarks/pilot.py --seeds 3`). What the controls learn from all walks alone, as trees do of a rare
#: interaction, a pilot does not see: it predicts up to 1.2 for "rare interaction, 100 rows" of `benchmarks/honesty.py`,
#: where walks have a sixth of the error.
LEAVE = 1.25
#: Fewest second visits that show the noise within rows: each is a contrast of all players.
FEWEST_AGAIN = 3
#: Passes of walks from which on the noise between rows all but ends. A pilot is then so long that rows come again:
#: single walks do not show the noise within rows otherwise.
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
    predicted = _learn(run, n_units)
    if predicted is not None and predicted.gain > LEAVE:
        run.estimate()
        run = run.leave(predicted.worth)
        run.replay(recorded[1:])
        return run
    run.stages.clear()
    run.replay(recorded or (n_pilot,))
    return run


def _count_units(run: Run) -> int:
    """Units of the pilot, 0 for none: the same ones where a run is continued."""
    if run.plan.alternative is None or not run.plan.fitted_controls or run.plan.prepared_controls:
        return 0
    visits, n_units = run.sampler.stream, run.sampler.affordable(run.plan.budget - run.game.n_evaluations)
    fewest = FEWEST_UNITS
    if len(visits.taken):
        # rows that are taken all come in turns with others, and some of them must come again
        fewest = 2 * max(FEWEST_UNITS, len(visits.taken) + FEWEST_AGAIN)
    elif n_units >= NEAR_PASS * visits.n_blocks:
        again = count_fresh(visits.n_blocks) + FEWEST_AGAIN * visits.every
        fewest = max(FEWEST_UNITS, min(again, int(MOST_SHARE * n_units)))
    return count_pilot(n_units, fewest)


def _learn(run: Run, n_units: int) -> Prediction | None:
    """The variances of n walks and of KernelSHAP in their place; None where the pilot does not show them."""
    rng, learners = stream(run.entropy, Purpose.FOLDS, run.row), run.plan.fitted_controls
    folds = deal_units(run.sampler, min(learner.n_folds for learner in learners), rng)
    if folds.n_folds < 2:
        return None
    functions, _, _ = fit_functions(run.sampler, folds, learners)
    if not functions:
        return None
    return predict(run.sampler, functions, folds, n_units, run.plan.budget)


def count_pilot(n_units: int, fewest: int = FEWEST_UNITS) -> int:
    """Number of walks in the pilot where the budget pays for n; 0 where they are too few."""
    n_pilot = max(fewest, math.ceil(SHARE * n_units))
    return n_pilot if n_pilot <= MOST_SHARE * n_units else 0


@dataclass(frozen=True)
class Prediction:
    """Variances that a pilot predicts, all players and outputs together.

    Attributes
    ----------
    of_walks : float
        If all of the budget goes to walks.
    of_pilot : float
        Of the pilot alone.
    of_kernel : float
        Of KernelSHAP with the evaluations after the pilot.
    share : float
        Share of the budget that the pilot takes.
    """

    of_walks: float
    of_pilot: float
    of_kernel: float
    share: float

    @property
    def gain(self) -> float:
        """How many times smaller the variance is if walks are left, and both estimates count."""
        return self.of_walks * (1.0 / self.of_pilot + 1.0 / self.of_kernel)

    @property
    def worth(self) -> float:
        """Evaluations of the pilot that an evaluation of KernelSHAP is worth."""
        return self.of_pilot / self.of_kernel * self.share / (1.0 - self.share)


def predict(
    sampler: UnitSampler, functions: tuple[Functions, ...], folds: Folds, n_units: int, budget: int
) -> Prediction | None:
    """Variances of walks, `n_units` of them or pairs, and of KernelSHAP; None where the pilot does not show them."""
    p, n_pilot = sampler.game.imputer.players.n_players, sampler.n_units
    ids, design, _ = sampler.kept_evaluations()
    strata = list(_strata(sampler, ids.block, n_units, budget))
    left = budget * (1.0 - n_pilot / n_units)
    # the regression loses a pair for each of its coefficients
    factor = (p - 1.0) * 2.0 * (1.0 / np.arange(1, p)).sum() / max(1.0, left / 2.0 - p)
    of_walks = of_pilot = of_kernel = 0.0
    for output in range(sampler.game.n_outputs):
        # the control that leaves least, or none
        paths = min(
            _paths(sampler, functions, folds, output),
            key=lambda paths: sum(part.of_kernel * _mean_square(paths[part.units]) for part in strata),
        )
        for part in strata:
            noise = Noise.of(paths[part.units], design[part.units], ids.block[part.units])
            n_here = part.share_of_walks * n_units
            if paths.shape[1] == 1 and not noise.again and n_here >= NEAR_PASS * part.n_rows:
                return None
            of_walks += part.share**2 * noise.of_units(n_here, part.n_rows)
            of_pilot += part.share**2 * noise.of_units(len(part.units), part.n_rows) if part.shows_error else math.inf
            of_kernel += part.of_kernel * _mean_square(paths[part.units]) * factor
    if min(of_walks, of_pilot, of_kernel) <= 0.0:
        return None
    return Prediction(of_walks, of_pilot, of_kernel, n_pilot / n_units)


@dataclass(frozen=True)
class Stratum:
    """Background rows that are sampled alike: those that are taken all, the others, or all rows where none is.

    Attributes
    ----------
    units : ndarray of shape (n,)
        Their units in the pilot.
    n_rows : int
    share : float
        Their share of the background.
    share_of_walks : float
        Their share of the walks.
    of_kernel : float
        Their share of the background squared, over their share of KernelSHAP's units.
    shows_error : bool
        Whether the pilot shows the error of its own estimate: rows that are taken all need two visits each.
    """

    units: IntArray
    n_rows: int
    share: float
    share_of_walks: float
    of_kernel: float
    shows_error: bool = True


def _strata(sampler: UnitSampler, block: IntArray, n_units: int, budget: int) -> Iterator[Stratum]:
    """The strata of a pilot whose units visit these blocks."""
    units, n_blocks = sampler.stream, sampler.n_blocks
    if units.take_all is None:
        yield Stratum(np.arange(len(block)), n_blocks, 1.0, 1.0, 1.0)
        return
    game, base = sampler.game, sampler.base
    differs = differs_from_x(game.x, base.rows, game.imputer.players)
    alternative = units.choose_taken(game.at_x[:, 0] - base.values[:, :, 0], differs, budget // 2)
    for taken in (True, False):
        rows = units.taken if taken else np.setdiff1d(np.arange(n_blocks), units.taken)
        share = len(rows) / n_blocks
        of_kernel = share**2 / share_of_visits(alternative, rows, n_blocks, budget // 2)
        of_walks = share_of_visits(units.take_all, rows, n_blocks, n_units)
        here = np.flatnonzero(np.isin(block, rows))
        shows_error = not taken or bool((np.unique(block[here], return_counts=True)[1] > 1).all())
        yield Stratum(here, len(rows), share, of_walks, of_kernel, shows_error)


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
    again : bool
        Whether rows that were visited several times show it.
    """

    total: float
    within: float
    again: bool

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
        elif len(contributions) == 1:
            within = total
        return cls(total, min(total, within), again >= FEWEST_AGAIN)

    def of_units(self, n_units: float, n_rows: int) -> float:
        """Variance with n units over M rows: `between (1/n - 1/M)+ + within / n`."""
        between = self.total - self.within
        return between * max(0.0, 1.0 / n_units - 1.0 / n_rows) + self.within / n_units


def combine_analyses(pilot: Analysis, rest: Analysis, gain: float, n_evaluations: tuple[int, int]) -> Analysis:
    """Combine two estimates from so many evaluations each; facts about controls are those of the second."""
    part = 1.0 / (1.0 + n_evaluations[0] / (gain * n_evaluations[1]))
    return replace(
        rest,
        controlled=combine(pilot.controlled, rest.controlled, part),
        uncontrolled=combine(pilot.uncontrolled, rest.uncontrolled, part),
        shared=_combine_shared(pilot.shared, rest.shared, part),
    )


def _combine_shared(pilot: FloatArray | None, rest: FloatArray | None, part: float) -> FloatArray | None:
    """Factors of errors that rows have in common, of both runs: they come from the same simulation."""
    if pilot is None or rest is None:
        return None if rest is None else part * rest if pilot is None else (1.0 - part) * pilot
    combined: FloatArray = (1.0 - part) * pilot + part * rest
    return combined
