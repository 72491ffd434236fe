"""Known values of fitted functions: the base class, and exact values over a finite background.

The mean over N rows needs them all. If they are many, it is computed from the V that were visited and, for the others,
from a random part A_k of them, disjoint for different folds k:

    mean_k = V/N mean of g_k over visited rows + (1 - V/N) mean of g_k over A_k

Parts of their own cost five folds a fifth of what a common part would for the same error. With w_k the
folds' shares, e rows in each part, M = N - V, S_k the variance of g_k over rows and S that of sum_k w_k g_k,

    var sum_k w_k mean_k = (1 - V/N)^2 (sum_k w_k^2 S_k / e - S / M)

for disjoint random parts without replacement.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.estimators.base import Estimator, Evaluator, UnitDraws
from controlshap.functions.base import KnownFunction
from controlshap.sampling.game import FunctionGame
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.terms import UnitTerms
from controlshap.values.base import Imputer

#: Most rows that are all computed for each fold; with more rows, how many of the others are.
MOST_ROWS, MOST_OTHERS = 2000, 1000
#: Groups of a part's rows, whose scatter is the error of its mean.
GROUPS = 20


Functions = tuple[tuple[KnownFunction, ...], ...]
"""For each output its functions."""


@dataclass(frozen=True)
class FittedFunctions:
    """The functions of one row, and the units that they control.

    Attributes
    ----------
    by_fold : tuple
        For each fold and output the functions that control the fold.
    shares : ndarray of shape (folds,)
        Share of the units that each fold has.
    cache : dict or None
        Of the explainer, for what does not depend on the row.
    """

    by_fold: tuple[Functions, ...]
    shares: FloatArray
    estimator: Estimator
    imputer: Imputer
    x: FloatArray
    memory_limit: int
    cache: dict[str, Any] | None = None

    @property
    def n_players(self) -> int:
        """Number of players."""
        return self.imputer.players.n_players

    @property
    def distinct(self) -> list[tuple[KnownFunction, int, int]]:
        """Each function once, with its output and its place; a shared function is the same in every fold."""
        places = {
            id(function): (function, output, place)
            for of_fold in self.by_fold
            for output, of_output in enumerate(of_fold)
            for place, function in enumerate(of_output)
        }
        return list(places.values())

    @cached_property
    def games(self) -> tuple[FunctionGame, ...]:
        """The game of each fold's functions."""
        return tuple(FunctionGame.of(of_fold, self.x, self.imputer, self.memory_limit) for of_fold in self.by_fold)

    def unit_terms(self, game: Evaluator, design: Any, draws: FloatArray, base: FloatArray) -> UnitTerms:
        """Terms of units of a game whose v(0) is `base`."""
        return self.estimator.terms(game, design, UnitDraws(draws, None, None, base))


class KnownControls(ABC):
    """Controls of known value 0: units of fitted functions less their known values.

    A function gives two controls, so that the noise of coalitions and that of draws get coefficients of their own.
    `shared` says whether part of a simulation is the same for all rows.
    """

    shared: ClassVar[bool] = False

    @abstractmethod
    def controls(
        self, fold: int, design: Any, draws: FloatArray, rows: IntArray | None, taken: BoolArray | None = None
    ) -> FloatArray:
        """Controls of some units of a fold, `(u, components, outputs, 2 functions)`, or of targets `(u, draws, ...)`.

        `rows` (u, draws) are the numbers of their background rows, where there is a background to draw from, and
        `taken` (u,) says which of these are taken all.
        """

    @abstractmethod
    def roots(self, n_controls: int) -> CovarianceRoot:
        """Root of the error of the known values, `(roots, components, outputs, n_controls)`."""


def interleave(first: FloatArray, second: FloatArray) -> FloatArray:
    """Two controls of each function side by side; 0 where a function's values could not be computed."""
    both = np.stack([first, second], axis=-1).reshape(*first.shape[:-1], -1)
    finite = np.isfinite(both).all(axis=tuple(range(both.ndim - 1)))
    return np.where(finite, both, 0.0)


@dataclass(frozen=True)
class MarginalControls(KnownControls):
    """Controls against the exact values of every draw, and these against their mean.

    Attributes
    ----------
    fitted : FittedFunctions
    values : list of ndarray of shape (rows, players, outputs, functions)
        For each fold; NaN where they could not be computed.
    means : list of ndarray of shape (players, outputs, functions)
        The means for each fold.
    places : ndarray of shape (background rows,)
        Place of each row of the background in `values`.
    errors : ndarray of shape (roots, players, outputs, functions)
        Root of the covariance of the folds' means together; no rows where they are exact.
    """

    fitted: FittedFunctions
    values: list[FloatArray]
    means: list[FloatArray]
    places: IntArray
    errors: FloatArray

    @classmethod
    def of(
        cls, fitted: FittedFunctions, rows: IntArray, fold: IntArray | None, rng: np.random.Generator
    ) -> MarginalControls:
        """Values of the background's rows, or of the visited ones and a random part of the others.

        `rows` (n, draws) are the background rows of all units, or of all visited blocks, and `fold` (n,) their folds
        where each has one, -1 for those that are taken all.
        """
        background, n_folds = fitted.imputer.finite_draws, len(fitted.by_fold)
        assert background is not None
        n, visited = len(background), np.unique(rows)
        each = min(MOST_OTHERS, (n - len(visited)) // n_folds)
        each -= each % GROUPS
        if n <= MOST_ROWS or each < 2 * GROUPS:
            values = _values(fitted, [background] * n_folds)
            means = [known.mean(axis=0) for known in values]
            shift = _shift(values, rows, fold)
            none = np.zeros((0, *means[0].shape))
            return cls(fitted, values, [mean + shift for mean in means], np.arange(n), none)
        others = np.setdiff1d(np.arange(n), visited)
        parts = rng.permutation(others)[: n_folds * each].reshape(n_folds, each)
        places: IntArray = np.zeros(n, dtype=np.int64)
        places[visited] = np.arange(len(visited))
        both = _values(fitted, [background[np.concatenate([visited, part])] for part in parts])
        values, of_others = [known[: len(visited)] for known in both], [known[len(visited) :] for known in both]
        share = len(visited) / n
        means = [
            share * known.mean(axis=0) + (1.0 - share) * other.mean(axis=0)
            for known, other in zip(values, of_others, strict=True)
        ]
        shift = share * _shift(values, places[rows], fold)
        errors = (1.0 - share) * _errors(values, of_others, fitted.shares, len(others))
        return cls(fitted, values, [mean + shift for mean in means], places, errors)

    def controls(
        self, fold: int, design: Any, draws: FloatArray, rows: IntArray | None, taken: BoolArray | None = None
    ) -> FloatArray:
        """Errors of units against their draws' values, and the differences of these from the mean.

        How functions differ at a row that every fold knows is no noise: units of rows that are taken all have the mean
        difference of all folds.
        """
        assert rows is not None
        game, mean = self.fitted.games[fold], self.means[fold]
        terms = self.fitted.unit_terms(game, design, draws, np.zeros_like(game.at_x))
        places = self.places[rows]
        of_draws = self.values[fold][places]  # (u, d, p, o, f)
        within, between = terms.split_noise(of_draws, mean)
        if taken is not None and taken.any():
            by_fold = zip(self.fitted.shares, self.values, self.means, strict=True)
            of_draws[taken] = mean + sum(share * (known[places[taken]] - its) for share, known, its in by_fold)
            between = terms.split_noise(of_draws, mean)[1]
        return interleave(within, between)

    def roots(self, n_controls: int) -> CovarianceRoot:
        """The error of the mean, in the control that compares rows with it; v(0) is known."""
        n, (n_players, n_outputs, n_functions) = len(self.errors), self.errors.shape[1:]
        rows = np.zeros((n, n_players + 1, n_outputs, n_controls))
        if n == 0:
            return CovarianceRoot.zero(rows.shape[1:])
        rows[:, :-1, :, 1 : 2 * n_functions : 2] = -self.errors
        return CovarianceRoot(rows, np.zeros(n, dtype=np.int64), np.array([len(self.values) * (GROUPS - 1.0)]))


def _values(fitted: FittedFunctions, rows: Sequence[FloatArray]) -> list[FloatArray]:
    """Values `(rows, players, outputs, functions)` of each fold's functions for its own rows."""
    by_fold, players = [], fitted.imputer.players
    made: dict[tuple[int, int], FloatArray | None] = {}  # a shared function is the same in every fold
    for of_fold, here in zip(fitted.by_fold, rows, strict=True):
        values = np.full((len(here), players.n_players, len(of_fold), len(of_fold[0])), np.nan)
        for output, of_output in enumerate(of_fold):
            for place, function in enumerate(of_output):
                parts = []
                for part in function.summands:
                    key = id(part), id(here)
                    if key not in made:
                        made[key] = part.draw_values(fitted.x, here, players)
                    parts.append(made[key])
                known = [part for part in parts if part is not None]
                if len(known) == len(parts):
                    values[:, :, output, place] = sum(known)
        by_fold.append(values)
    return by_fold


def _shift(values: list[FloatArray], drawn: IntArray, fold: IntArray | None) -> FloatArray:
    """Correction of the folds' means over rows (the visited ones among them), which are compared with unseen rows.

    A function fits the rows that it was fitted to better than others. Given the function, the fold's own rows and the
    unvisited ones are a random part of the rest: they represent visited and unvisited rows in proportion. The average
    change over folds is subtracted in all of them. Nothing changes where all folds have all rows.
    """
    shift = np.zeros(values[0].shape[1:])
    if fold is None or drawn.shape[1] > 1:
        return shift
    own, visited = [np.unique(drawn[fold == k]) for k in range(len(values))], np.unique(drawn[fold >= 0])
    if sum(len(rows) for rows in own) != len(visited):
        return shift  # rows of several folds
    for known, rows in zip(values, own, strict=True):
        if not len(rows):
            continue  # all its rows are taken all
        shift += len(rows) / len(visited) * (known[rows].mean(axis=0) - known[visited].mean(axis=0))
    return len(visited) / len(values[0]) * shift


def _errors(values: list[FloatArray], of_others: list[FloatArray], shares: FloatArray, population: int) -> FloatArray:
    """Root `(folds * groups, players, outputs, functions)` of the covariance of the folds' means over others.

    From the scatter of groups, times a factor for disjoint parts of a finite population. The visited rows determine the
    factor, since the functions of all folds are known for them.
    """
    spread = np.einsum("k,k...->...", shares**2, np.stack([known.var(axis=0) for known in values]))
    together = np.einsum("k,k...->...", shares, np.stack(values)).var(axis=0)
    each = len(of_others[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        taken = np.where(spread > 0, each / population * together / spread, 0.0)
    left = np.sqrt(np.clip(1.0 - taken, 0.0, 1.0) / (GROUPS * (GROUPS - 1)))
    rows = []
    for weight, known in zip(shares, of_others, strict=True):
        groups = known.reshape(GROUPS, -1, *known.shape[1:]).mean(axis=1)
        rows.append(weight * left * (groups - groups.mean(axis=0)))
    factors = np.concatenate(rows)
    return np.where(np.isfinite(factors), factors, 0.0)
