"""Errors of values because the distribution of the features was estimated from the background.

Absent features are drawn from a distribution that was fitted to n background rows, so that the values would differ with
another n rows, however well they are computed. A jackknife estimates by how much: the fit is repeated without each of K
blocks of rows, and with `phi_k` the values of a function under the fit without block k their variance is

    (K - 1)/K sum_k (phi_k - mean of phi)^2

The function is the one fitted to the row's evaluations, or the model's own form: neither needs model evaluations. All
fits use the same permutations and the same random numbers, so that only the fits differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from controlshap._random import EXPLAINER_ENTROPY, Purpose, stream
from controlshap._types import FloatArray
from controlshap.controls import Control
from controlshap.crossfitting.fit import training_rows
from controlshap.crossfitting.folds import deal_units
from controlshap.crossfitting.known_gaussian import can_enumerate_means, enumerate_networks, has_conditional_mean
from controlshap.crossfitting.known_marginal import Functions
from controlshap.crossfitting.known_simulated import enumerate_weighted
from controlshap.crossfitting.network_walks import mean_walks
from controlshap.data.players import Players
from controlshap.estimators.permutation import reverse_permutations, sample_permutations, walk_contributions
from controlshap.functions.base import KnownFunction
from controlshap.sampling.game import FunctionGame
from controlshap.sampling.sampler import UnitSampler
from controlshap.values.base import Imputer
from controlshap.values.normal_parts import NormalParts
from controlshap.values.refits import Refits

#: Pairs of walks where means over draws are known, and where walks have draws. Their noise is common to all fits, but
#: what a fit changes depends on the walk: with 50 pairs and draws the error of a small value of a causal network is
#: half of what 500 tell, and with 50 and known means errors are within 10 % of those of refitted explainers.
N_PAIRS, N_DRAWN = 50, 400
#: Least share of the variance of evaluations that a function must explain to replace the model.
LEAST_SHARE = 0.5


def distribution_variances(
    refits: Refits,
    imputer: Imputer,
    x: FloatArray,
    functions: Sequence[KnownFunction],
    shares: FloatArray,
    memory_limit: int,
) -> FloatArray:
    """Variances `(players, outputs)` of the values of functions, one for each output.

    Parameters
    ----------
    imputer : Imputer
        The fit to the whole background, for this row.
    x : ndarray of shape (columns,)
        The row in the columns of that fit.
    shares : ndarray of shape (outputs,)
        Share of the variance of the model's evaluations that each function explains. What it does not explain is
        taken to move with the fit as what it does.
    """
    raw = imputer.to_inputs(x[None])[0]
    values = np.stack([_values(*one.for_row(raw), imputer, functions, memory_limit) for one in refits.imputers])
    n = len(values)
    jackknife: FloatArray = (n - 1.0) / n * ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    return jackknife / shares


def stand_ins(
    sampler: UnitSampler, learners: Sequence[Control], functions: Sequence[Functions], rng: np.random.Generator
) -> tuple[list[KnownFunction], FloatArray] | None:
    """For each output the function of the first fold that leaves least of it, and the share that it explains.

    By the evaluations of that fold, which it was not fitted to; None where there is no function, or one explains less
    than `LEAST_SHARE`. `rng` deals the folds as for the fits.
    """
    if not functions:
        return None
    folds = deal_units(sampler, min(learner.n_folds for learner in learners), rng)
    chosen, shares = [], []
    for data in training_rows(sampler, folds, max(learner.max_rows for learner in learners)):
        inside, candidates = data.fold == 0, functions[0][data.output]
        rows, outputs = data.rows[inside], data.outputs[inside]
        left = [float(((outputs - one.predict(rows)) ** 2).mean()) for one in candidates]
        chosen.append(candidates[int(np.argmin(left))])
        shares.append(1.0 - min(left) / max(float(outputs.var()), 1e-300))
    return (chosen, np.array(shares)) if min(shares) >= LEAST_SHARE else None


def _values(
    imputer: Imputer, x: FloatArray, whole: Imputer, functions: Sequence[KnownFunction], memory_limit: int
) -> FloatArray:
    """Values `(players, functions)` under one fit, by the random numbers that all fits have."""
    if imputer.n_weighted is not None:
        game = FunctionGame.of((tuple(functions),), x, imputer, memory_limit)
        return np.asarray(enumerate_weighted(game)[:, :-1].T)
    known = _have_conditional_means(imputer, functions)
    if known and can_enumerate_means(imputer.players, 2 * N_PAIRS):
        return enumerate_networks(cast("NormalParts", imputer), x, list(functions))[:, :-1].T
    rng = stream(EXPLAINER_ENTROPY, Purpose.DISTRIBUTION, 1)
    p, arrangement = imputer.players.n_players, imputer.players.arrangement
    permutations = sample_permutations(p, N_PAIRS if known else N_DRAWN, rng, arrangement)
    permutations = np.concatenate([permutations, reverse_permutations(permutations, arrangement)])
    if known:
        values = mean_walks(cast("NormalParts", imputer), x, permutations, list(functions))
    else:
        draws = imputer.sample(len(permutations), rng)[:, None]
        seen = tuple(_OtherRows(one, imputer, whole) for one in functions)
        game = FunctionGame.of((seen,), x, imputer, memory_limit)
        values = game.walk_values(permutations, draws, game.evaluate(draws))[:, :, 0]
    return np.asarray(walk_contributions(permutations, values).mean(axis=0))


@dataclass(frozen=True)
class _OtherRows(KnownFunction):
    """A function of rows of the whole fit, on rows of another."""

    inner: KnownFunction
    fit: Imputer
    whole: Imputer

    def predict(self, rows: FloatArray) -> FloatArray:
        """Values of what the rows stand for."""
        return self.inner.predict(self.whole.read_rows(rows, self.fit))

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> None:  # noqa: ARG002
        """None: they are not known."""
        return


def _have_conditional_means(imputer: Imputer, functions: Sequence[KnownFunction]) -> bool:
    """Whether draws can be integrated out, which leaves the noise of permutations alone."""
    normal = isinstance(imputer, NormalParts) and not imputer.scores_are_fitted
    return normal and all(has_conditional_mean(one, cast("NormalParts", imputer)) for one in functions)
