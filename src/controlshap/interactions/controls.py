"""Controls of interactions: functions fitted to the evaluations, and a process over coalitions for what they leave.

Each fold of units is controlled by functions fitted to the other folds, so that terms stay unbiased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.crossfitting.folds import Folds
from controlshap.crossfitting.known_gaussian import (
    MOST_COALITIONS,
    can_enumerate_means,
    enumerate_means,
    has_conditional_mean,
)
from controlshap.crossfitting.known_marginal import Functions
from controlshap.functions.base import KnownFunction
from controlshap.interactions.even_process import EvenProcess
from controlshap.interactions.index import pair_numbers, table_interactions
from controlshap.interactions.processes import divide_folds, fit_processes
from controlshap.interactions.units import EvaluatedUnits
from controlshap.sampling.game import FunctionGame
from controlshap.sampling.sampler import UnitSampler
from controlshap.values.normal_parts import NormalParts

#: Fewest units behind a fit, as for values.
FEWEST_UNITS = 6


@dataclass(frozen=True)
class PairControls:
    """For each fold its functions and processes with their known interactions.

    Attributes
    ----------
    folds : Folds
    games : list of FunctionGame
        Of each fold; empty where no function has known interactions.
    processes : list of tuples of EvenProcess
        Of each fold, one for each output; empty where units are not paired, or have draws of their own.
    known : ndarray of shape (folds, pairs, outputs, controls)
        Interactions of the functions, and last of the process.
    """

    folds: Folds
    games: list[FunctionGame]
    processes: list[tuple[EvenProcess, ...]]
    known: FloatArray

    @property
    def n_functions(self) -> int:
        """Functions of rows."""
        return self.games[0].n_functions if self.games else 0

    @property
    def n_controls(self) -> int:
        """Functions of rows, and the process."""
        return int(self.known.shape[3])

    @classmethod
    def fit(cls, units: EvaluatedUnits, folds: Folds, functions: Sequence[Functions]) -> PairControls:
        """Fit functions that are not among `functions` (for each fold and output) yet."""
        sampler = units.sampler
        imputer, memory = sampler.game.imputer, sampler.game.memory_limit
        functions, known = _keep_known(sampler, folds, functions)
        games = [FunctionGame.of(of_fold, sampler.game.x, imputer, memory) for of_fold in functions]
        processes: list[tuple[EvenProcess, ...]] = []
        # from values with the noise of single draws a process learns next to nothing: with one, squared errors of pairs
        # are the same within 0.2 % (a network, boosting; 12 % smaller for products), and a call takes 1.7 times as long
        if sampler.estimator.paired and sampler.n_blocks == 1:
            parts = divide_folds(sampler, folds)
            n_parts = parts.n_folds // folds.n_folds
            left = (_left_by(units, game) for game in games) if games else [units.values] * folds.n_folds
            processes = fit_processes(units, folds, parts, left)
            games = [game for game in games for _ in range(n_parts)]
            known = np.concatenate([np.repeat(known, n_parts, axis=0), _known_of_processes(processes)], axis=3)
            folds = parts
        return cls(folds, games, processes, known)

    def values(self, sampler: UnitSampler, fold: int, design: Any, draws: FloatArray) -> FloatArray:
        """Controls of units of a fold `(u, k, outputs, controls)`, less half of their values at the ends."""
        parts = []
        if self.games:
            parts.append(_function_values(sampler, self.games[fold], design, draws))
        if self.processes:
            coalitions = sampler.estimator.coalition_weights(design)[0]
            flat = coalitions.reshape(-1, coalitions.shape[2])
            by_output = [process.predict(flat).reshape(coalitions.shape[:2]) for process in self.processes[fold]]
            parts.append(np.stack(by_output, axis=2)[..., None])
        return np.concatenate(parts, axis=3)

    def priors(self) -> FloatArray:
        """Coefficients to start from: each function alone, half of it, all in equal parts; with the process, and it."""
        n = self.n_functions
        priors = [np.eye(n), 0.5 * np.eye(n), np.full((1 if n > 1 else 0, n), 1.0 / max(1, n))]
        of_functions = np.concatenate(priors)
        if not self.processes:
            return of_functions
        alone = np.eye(n + 1)[-1:]
        with_process = np.pad(of_functions, ((0, 0), (0, 1)), constant_values=1.0)
        return np.concatenate([np.pad(of_functions, ((0, 0), (0, 1))), with_process, alone, 0.5 * alone])


def _keep_known(
    sampler: UnitSampler, folds: Folds, functions: Sequence[Functions]
) -> tuple[list[Functions], FloatArray]:
    """The functions with known interactions, and these `(folds, pairs, outputs, functions)`."""
    imputer = sampler.game.imputer
    if isinstance(imputer, NormalParts):
        return _keep_conditioned(sampler, imputer, folds, functions)
    rows, players = sampler.base.rows, imputer.players
    pairs = pair_numbers(players.n_players)
    made: dict[tuple[int, bytes], FloatArray | None] = {}  # a shared function is the same in every fold

    def interactions(function: KnownFunction, which: IntArray) -> FloatArray | None:
        key = id(function), which.tobytes()
        if key not in made:
            index = function.mean_interactions(sampler.game.x, rows[which], players)
            made[key] = None if index is None else index[pairs]
        return made[key]

    def of_rows(which: Sequence[IntArray], chosen: Sequence[Functions]) -> FloatArray:
        """Interactions of each fold's functions over its own rows."""
        nested = [
            [[interactions(f, own) for f in each] for each in fold] for own, fold in zip(which, chosen, strict=True)
        ]
        shape = folds.n_folds, sampler.game.n_outputs, -1, len(pairs[0])
        return np.moveaxis(np.array(nested, dtype=float).reshape(shape), 3, 1)

    everywhere = [np.arange(len(rows))] * folds.n_folds
    n_functions = len(functions[0][0]) if functions else 0
    usable = [
        place
        for place in range(n_functions)
        if all(interactions(each[place], everywhere[0]) is not None for fold in functions for each in fold)
    ]
    if not usable:
        return [], np.zeros((folds.n_folds, len(pairs[0]), sampler.game.n_outputs, 0))
    chosen = [tuple(tuple(each[place] for place in usable) for each in fold) for fold in functions]
    known = of_rows(everywhere, chosen)
    apart = _rows_apart(sampler, folds)
    if apart is not None:
        # A function fits the rows that it was fitted to better than others (crossfitting.known_marginal, `_shift`).
        visited = np.unique(np.concatenate(apart))
        own, all_visited = of_rows(apart, chosen), of_rows([visited] * folds.n_folds, chosen)
        shares = np.array([len(part) for part in apart]) / len(rows)
        known = known + np.tensordot(shares, own - all_visited, axes=1)
    return chosen, known


def _keep_conditioned(
    sampler: UnitSampler, imputer: NormalParts, folds: Folds, functions: Sequence[Functions]
) -> tuple[list[Functions], FloatArray]:
    """The same of normal features: networks of few players, whose conditional means of all coalitions are known."""
    n_functions = len(functions[0][0]) if functions and can_enumerate_means(imputer.players, MOST_COALITIONS) else 0
    usable = [
        place
        for place in range(n_functions)
        if all(has_conditional_mean(each[place], imputer) for fold in functions for each in fold)
    ]
    n_outputs, n_pairs = sampler.game.n_outputs, len(pair_numbers(imputer.players.n_players)[0])
    if not usable:
        return [], np.zeros((folds.n_folds, n_pairs, n_outputs, 0))
    chosen = [tuple(tuple(each[place] for place in usable) for each in fold) for fold in functions]
    every = [function for fold in chosen for each in fold for function in each]
    distinct = list({id(function): function for function in every}.values())  # a shared one is the same in every fold
    known = dict(
        zip(map(id, distinct), table_interactions(enumerate_means(imputer, sampler.game.x, distinct)).T, strict=True)
    )
    values = np.stack([known[id(function)] for function in every]).reshape(folds.n_folds, n_outputs, -1, n_pairs)
    return chosen, np.moveaxis(values, 3, 1)


def _rows_apart(sampler: UnitSampler, folds: Folds) -> list[IntArray] | None:
    """Background rows of each fold, where units have one row each and no row is in two folds; else None."""
    if folds.of_kept is None or sampler.estimator.unit_draws(sampler.game.imputer.players.n_players) > 1:
        return None
    drawn = sampler.draw_index()[:, 0]
    own = [np.unique(drawn[folds.of_kept == k]) for k in range(folds.n_folds)]
    return own if sum(len(part) for part in own) == len(np.unique(drawn)) else None


def _function_values(sampler: UnitSampler, game: FunctionGame, design: Any, draws: FloatArray) -> FloatArray:
    """Means over draws `(u, k, outputs, functions)`, less half of the values at the ends."""
    rows = sampler.estimator.unit_rows(game.imputer, game.x, design, draws)
    half = 0.5 * (game.evaluate(draws).mean(axis=1) + game.at_x)
    return np.asarray(game.evaluate(rows).mean(axis=2) - half[:, None])


def _left_by(units: EvaluatedUnits, game: FunctionGame) -> FloatArray:
    """Values of units `(units, k, outputs)` less those of the mean function."""
    left = units.values.copy()
    for some in units.replay():
        left[some.ids.unit] -= _function_values(units.sampler, game, some.design, some.draws.rows).mean(axis=3)
    return left


def _known_of_processes(processes: list[tuple[EvenProcess, ...]]) -> FloatArray:
    """Interactions `(folds, pairs, outputs, 1)`."""
    by_fold = [np.stack([process.interactions() for process in of_fold], axis=1) for of_fold in processes]
    return np.stack(by_fold)[..., None]
