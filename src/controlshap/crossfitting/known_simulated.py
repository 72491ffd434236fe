"""Known Shapley values of fitted functions under any value function, without model evaluations.

Few players with finite draws, or with rows of known weights, are enumerated. Otherwise paired walks are simulated
through the rows that the value function makes, and the scatter of replications is the error of the known values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.crossfitting.known_marginal import FittedFunctions, KnownControls, interleave
from controlshap.data.players import Players
from controlshap.estimators import Enumeration, Permutation
from controlshap.estimators.base import UnitDraws
from controlshap.estimators.enumeration import coalition_table
from controlshap.estimators.permutation import sample_permutations
from controlshap.functions.base import KnownFunction
from controlshap.sampling.game import FunctionGame
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.values.base import Imputer

#: Replications, whose scatter is the error.
REPLICATIONS = 20
#: Evaluations of a function, in all replications together or to enumerate it.
MOST_ROWS = 400_000
#: Beyond so many walks of the model simulated ones grow with them: errors keep falling where the fit is the model.
MANY_WALKS = 1000
#: One in so many walks comes first, and shows how many are needed.
FIRST = 10
#: The variance due to walks need not fall below this share of the variance that walks do not change.
FIXED_SHARE = 0.5


@dataclass(frozen=True)
class Simulated:
    """Shapley values and base value of a function by replication, `(replications, players + 1)`."""

    values: FloatArray

    @classmethod
    def exactly(cls, values: FloatArray) -> Simulated:
        """Values `(players + 1,)` without error: all replications agree."""
        return cls(np.tile(values, (REPLICATIONS, 1)))

    @property
    def mean(self) -> FloatArray:
        """The values, `(players + 1,)`."""
        mean: FloatArray = self.values.mean(axis=0)
        return mean

    @property
    def root_rows(self) -> FloatArray:
        """Root `(replications, players + 1)` of the covariance of the mean."""
        n = len(self.values)
        apart = self.values - self.values[0]  # exactly 0 where all replications agree
        rows: FloatArray = (apart - apart.mean(axis=0)) / np.sqrt(n * (n - 1))
        return rows


@dataclass(frozen=True)
class SimulatedControls(KnownControls):
    """Controls against simulated values.

    Attributes
    ----------
    fitted : FittedFunctions
    simulated : list
        For each fold, output and function.
    """

    fitted: FittedFunctions
    simulated: list[list[list[Simulated]]]

    @classmethod
    def of(
        cls,
        fitted: FittedFunctions,
        rng: np.random.Generator,
        tolerances: FloatArray | None = None,
        n_walks: float = 0.0,
    ) -> Self:
        """Simulate the values of all functions.

        `tolerances` (outputs,) are variances of known values that are small enough. With many walks of the model,
        `n_walks`, more is simulated.
        """
        by_function = cls._simulate(fitted, rng, tolerances, n_walks)
        of_folds = [[[by_function[id(f)] for f in of_output] for of_output in of_fold] for of_fold in fitted.by_fold]
        return cls(fitted, of_folds)

    @staticmethod
    def _simulate(
        fitted: FittedFunctions, rng: np.random.Generator, tolerances: FloatArray | None, n_walks: float
    ) -> dict[int, Simulated]:
        """Simulated values of each function, by its id."""
        functions = [function for function, _, _ in fitted.distinct]
        enough = None if tolerances is None else tolerances[[output for _, output, _ in fitted.distinct]]
        game = FunctionGame.of((tuple(functions),), fitted.x, fitted.imputer, fitted.memory_limit)
        n_weighted = fitted.imputer.n_weighted
        if n_weighted is not None and are_few(fitted.imputer.players, n_weighted):
            values = [Simulated.exactly(one) for one in enumerate_weighted(game)]
        elif can_enumerate(fitted.imputer):
            values = [Simulated.exactly(one) for one in enumerate_draws(game)]
        else:
            values = simulate_walks(game, rng, enough, n_walks)
        return {id(function): one for function, one in zip(functions, values, strict=True)}

    def known_values(self, fold: int) -> FloatArray:
        """Known values `(players + 1, outputs, functions)` of a fold."""
        by_output = [np.stack([one.mean for one in of_output], axis=-1) for of_output in self.simulated[fold]]
        return np.stack(by_output, axis=1)

    def controls(
        self,
        fold: int,
        design: Any,
        draws: FloatArray,
        rows: IntArray | None,  # noqa: ARG002
        taken: BoolArray | None = None,  # noqa: ARG002
    ) -> FloatArray:
        """Errors of units against the simulated values; the second control of each function is 0."""
        known = self.known_values(fold)
        terms = self.fitted.unit_terms(self.fitted.games[fold], design, draws, known[-1])
        missed = terms.unit_values() - terms.expected_units(known)
        if self.fitted.imputer.finite_draws is not None and not self.fitted.estimator.is_least_squares:
            missed[:, -1] = 0.0  # v(0) is known then
        return interleave(missed, np.zeros_like(missed))

    def roots(self, n_controls: int) -> CovarianceRoot:
        """Scatter of the replications, in the control that compares units with the simulated value."""
        by_fold, shares = self.fitted.by_fold, self.fitted.shares
        rows = np.zeros((REPLICATIONS, self.fitted.n_players + 1, len(by_fold[0]), n_controls))
        for share, of_fold, functions in zip(shares, self.simulated, by_fold, strict=True):
            for output, of_output in enumerate(of_fold):
                for place, (one, function) in enumerate(zip(of_output, functions[output], strict=True)):
                    # common permutations: the folds' errors add up
                    rows[:, :, output, 2 * place + self._error_in(function)] -= share * one.root_rows
        if self.fitted.imputer.finite_draws is not None:
            rows[:, -1] = 0.0
        return CovarianceRoot(rows, np.zeros(REPLICATIONS, dtype=np.int64), np.array([REPLICATIONS - 1.0]))

    def _error_in(self, function: KnownFunction) -> int:  # noqa: ARG002
        """Which of a function's two controls the error of its known values is in."""
        return 0


def can_enumerate(imputer: Imputer) -> bool:
    """Whether all coalitions of all draws are few."""
    return imputer.finite_draws is not None and are_few(imputer.players, len(imputer.finite_draws))


def are_few(players: Players, n_rows: int) -> bool:
    """Whether all coalitions, each with so many rows, are few."""
    n_coalitions = 2**players.n_players if players.arrangement is None else players.arrangement.n_places
    return int(n_coalitions) * n_rows <= MOST_ROWS


def enumerate_draws(game: FunctionGame) -> FloatArray:
    """Exact Shapley values and base value `(functions, players + 1)` of a game with one output, over finite draws."""
    draws = game.imputer.finite_draws
    assert draws is not None
    players, nothing = game.imputer.players, np.zeros_like(game.at_x)
    inner = coalition_table(players.n_players, players.arrangement)[0][1:-1]
    total = np.zeros((inner.shape[1] + 1, game.n_functions))
    estimator = Enumeration(players.arrangement)
    for part in game.slices(len(draws), 4 * len(inner) * game.n_functions):
        some = draws[part]
        design = np.broadcast_to(inner, (len(some), *inner.shape))
        terms = estimator.terms(game, design, UnitDraws(some[:, None], None, None, nothing))
        total += terms.values[:, :, 0].sum(axis=0)
    return total.T / len(draws)


def enumerate_weighted(game: FunctionGame) -> FloatArray:
    """Exact Shapley values and base value `(functions, players + 1)` of a game with one output, over weighted rows."""
    players = game.imputer.players
    coalitions, matrix = coalition_table(players.n_players, players.arrangement)
    table = np.empty((len(coalitions), game.n_functions))
    n_numbers = (game.imputer.n_weighted or 1) * (len(game.x) + game.n_functions)
    for part in game.slices(len(coalitions), 4 * n_numbers):
        rows, weights = game.imputer.weighted_rows(game.x, coalitions[part])
        table[part] = np.einsum("kn,knf->kf", weights, game.evaluate(rows)[:, :, 0])
    return np.concatenate([matrix @ table, table[:1]]).T


def simulate_walks(
    game: FunctionGame, rng: np.random.Generator, tolerances: FloatArray | None = None, n_walks: float = 0.0
) -> list[Simulated]:
    """Known values of all functions of a game with one output, from the same paired walks with draws.

    `tolerances` (functions,) and `n_walks` are as for `replicate`.
    """
    p, arrangement = game.imputer.players.n_players, game.imputer.players.arrangement
    estimator = Permutation(arrangement=arrangement)

    def simulate(n_units: int) -> FloatArray:
        replications = []
        for _ in range(REPLICATIONS):
            permutations = sample_permutations(p, n_units, rng, arrangement)
            draws = UnitDraws(game.imputer.sample(n_units, rng)[:, None], None, None, np.zeros_like(game.at_x))
            replications.append(estimator.terms(game, permutations, draws).values[:, :, 0].mean(axis=0))
        return np.stack(replications).transpose(2, 0, 1)

    units = int(max(2, MOST_ROWS // (2 * p * REPLICATIONS)) * max(1.0, n_walks / MANY_WALKS))
    if game.imputer.simulated_rows is not None:
        units = max(2, int(game.imputer.simulated_rows * n_walks) // REPLICATIONS)
    return [Simulated(values) for values in replicate(simulate, units, tolerances)]


def replicate(
    simulate: Callable[[int], FloatArray],
    most: int,
    tolerances: FloatArray | None,
    first: int = FIRST,
    fixed: Callable[[], FloatArray | float] = lambda: 0.0,
) -> FloatArray:
    """Values `(functions, replications, n)`, each replication from at most so many walks.

    Parameters
    ----------
    simulate : callable
        Values from a number of walks for each replication.
    tolerances : ndarray of shape (functions,) or None
        Variances of the known values, on average over players, that are small enough: further walks are left out. None
        takes all.
    first : int
        One in so many walks comes first, and shows how many are needed.
    fixed : callable
        Asked after these: the part of the variances that more walks do not change. They need not go far below it.
    """
    some = most if tolerances is None else -(-most // first)
    values = simulate(some)
    if tolerances is None:
        return values
    variances = values.var(axis=1, ddof=1).mean(axis=1) / REPLICATIONS
    known = fixed()
    variances, enough = np.maximum(variances - known, 0.0), np.maximum(tolerances - known, FIXED_SHARE * known)
    # in so many times as many; all of them where a model is its fit, and none more where nothing varies
    times = np.divide(variances, enough, out=np.full_like(variances, np.inf), where=enough > 0)
    wanted = np.where(variances > 0, some * times, 0.0).max()
    more = int(np.ceil(wanted)) - some if wanted < most else most - some
    if more > 0:
        values = (some * values + more * simulate(more)) / (some + more)
    return values
