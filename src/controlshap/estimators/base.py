"""The base class of estimators: a design, the terms of its units, and the cost of a unit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, cast

import numpy as np

from controlshap._checks import is_whole
from controlshap._errors import InvalidArgumentError
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.players import Players
from controlshap.statistics.terms import UnitTerms


class Evaluator(Protocol):
    """The game as estimators see it: values of coalitions, without the model or the data."""

    @property
    def at_x(self) -> FloatArray:
        """v(all), `(outputs, functions)`."""

    def evaluate(self, rows: FloatArray) -> FloatArray:
        """All functions on rows `(..., columns)`, shape `(..., outputs, functions)`."""

    def start_values(self, draws: FloatArray) -> FloatArray:
        """v_b(0) `(u, d, outputs, functions)` of draws `(u, d, columns)` of units."""

    def coalition_values(self, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """Values `(u, k, d, outputs, functions)` of coalitions `(u, k, players)` with draws `(u, d, columns)`."""

    def walk_values(self, permutations: IntArray, draws: FloatArray, at_draws: FloatArray) -> FloatArray:
        """Means over draws `(u, players + 1, outputs, functions)` along walks, both ends included."""


class RowMaker(Protocol):
    """A value function as estimators see it: the rows of coalitions."""

    def coalition_rows(self, x: FloatArray, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """Rows `(u, k, d, columns)` for coalitions `(u, k, players)` and draws `(u, d, columns)`."""

    def walk_rows(self, x: FloatArray, permutations: IntArray, draws: FloatArray) -> FloatArray:
        """Rows `(u, players - 1, d, columns)` of the prefixes 1 to players - 1 of each permutation."""


@dataclass(frozen=True)
class UnitDraws:
    """The draws of a batch of units.

    Attributes
    ----------
    rows : ndarray of shape (u, d, columns)
    values : ndarray of shape (u, d, outputs, functions) or None
        v_b(0) of each draw where it is known (a finite background); None for draws from a distribution.
    spare : ndarray of shape (u, d, columns) or None
        A second, independent set for estimators that do not share the draw between S and S + j.
    base : ndarray of shape (outputs, functions)
        v(0): exact for a finite background, else a shared estimate.
    """

    rows: FloatArray
    values: FloatArray | None
    spare: FloatArray | None
    base: FloatArray


class Estimator(ABC):
    """A way to turn evaluated coalitions into Shapley values; subclass it to write your own.

    `sample` draws the design of some units, `terms` evaluates it and reduces it to terms, and `unit_cost` is the cost
    of a unit. The attributes declare what else the estimator can do.
    """

    #: Draws of each unit.
    n_draws: int = 1
    #: Whether each unit is evaluated together with its reverse or complement.
    paired: bool = False
    #: Whether units are rows of a regression (`LeastSquaresTerms`) rather than terms of a mean.
    is_least_squares: bool = False
    #: Whether a unit determines the values of its draw exactly (all coalitions are evaluated).
    exact_per_draw: bool = False
    #: Whether interactions come from the same units; needs `coalition_weights`.
    gives_interactions: bool = False
    #: Whether functions fitted to the evaluations can control the units; needs `unit_rows`.
    takes_fitted_controls: bool = False
    #: Whether units can be restricted to an `arrangement` of the players: an order, or a hierarchy.
    takes_arrangements: bool = False
    #: Whether the coalitions of a unit are all different, and none of them empty or full.
    has_distinct_coalitions: bool = False
    #: Whether `engine.device` has the same units for many rows of a torch module at once.
    has_device_form: bool = False

    @property
    def efficient(self) -> bool:
        """Whether the values are made to sum to f(x) - v(0)."""
        return True

    @property
    def redraws_when_joined(self) -> bool:
        """Whether S and S + j get draws of their own (`UnitDraws.spare`)."""
        return False

    @property
    def without_replacement(self) -> bool:
        """Whether no unit is drawn twice; all units then have the same draws, and `sample` makes a sequence.

        With a generator of the same state, fewer units are then the beginning of more.
        """
        return False

    def n_distinct(self, n_players: int) -> float:  # noqa: ARG002
        """Number of different units, which together leave no error; infinite where units are drawn with replacement."""
        return math.inf

    @property
    def draws_own_rows(self) -> bool:
        """Whether each player of a unit has draws of its own."""
        return False

    def evaluates_base(self, *, finite: bool) -> bool:  # noqa: ARG002
        """Whether every unit evaluates its own v_b(0), for draws from a finite background or a distribution."""
        return False

    @abstractmethod
    def unit_cost(self, n_players: int, *, finite: bool) -> int:
        """Most model evaluations of one unit."""

    def fewest_units(self, n_players: int) -> int:  # noqa: ARG002
        """Fewest units that give values with errors."""
        return 2

    def unit_draws(self, n_players: int) -> int:  # noqa: ARG002
        """Number of draws of one unit."""
        return self.n_draws

    def with_draws(self, most: int) -> Self:
        """The same estimator with at most so many draws a unit: a finite background has no more rows."""
        if self.n_draws <= most:
            return self
        return cast("Self", replace(cast("Any", self), n_draws=most))

    def for_players(self, players: Players) -> Self:
        """The same estimator for players that may be arranged."""
        if players.arrangement is None:
            return self
        if not self.takes_arrangements:
            raise InvalidArgumentError(
                f"`estimator`: {type(self).__name__} has no units that respect `order` or `hierarchy`; walks do. Use "
                "estimator='auto' or 'permutation'."
            )
        return cast("Self", replace(cast("Any", self), arrangement=players.arrangement))

    @abstractmethod
    def sample(self, n_players: int, n_units: int, rng: np.random.Generator) -> Any:
        """The random design of some units, an array with units on axis 0."""

    @abstractmethod
    def terms(self, game: Evaluator, design: Any, draws: UnitDraws) -> UnitTerms:
        """Evaluate units and reduce them to their terms."""

    def gather(self, parts: Sequence[Any]) -> Any:
        """The terms of several batches of units as one."""
        return parts[0] if len(parts) == 1 else parts[0].join(parts[1:])

    def unit_rows(self, imputer: RowMaker, x: FloatArray, design: Any, draws: FloatArray) -> FloatArray:  # noqa: ARG002
        """Rows `(u, k, draws, columns)` that units evaluate, in the order in which `terms` does, without v_b(0)."""
        raise InvalidArgumentError(
            f"`estimator`: {type(self).__name__} does not say which rows its units evaluate, so that nothing can be "
            "fitted to them. Implement `unit_rows`, or use control='none'."
        )

    def coalition_weights(self, design: Any) -> tuple[BoolArray, FloatArray]:  # noqa: ARG002
        """Coalitions `(u, k, players)` of units, in the order in which `terms` evaluates them, and weights `(u, k)`.

        The expectation of a unit's weighted sum of any h(S) is the mean of h over the coalitions of a size, added over
        the sizes 1 to players - 1.
        """
        raise InvalidArgumentError(
            f"`estimator`: {type(self).__name__} does not say which coalitions its units evaluate, so that it has no "
            "interactions. Implement `coalition_weights`, or leave `interactions` out."
        )

    def regressors(self, design: Any) -> FloatArray:  # noqa: ARG002
        """Regressors `(u, players)` of units that are rows of a regression."""
        raise InvalidArgumentError(
            f"`estimator`: {type(self).__name__} has no `regressors`, which is_least_squares=True promises. Implement "
            "them."
        )


def base_values(game: Evaluator, draws: UnitDraws) -> FloatArray:
    """v_b(0) of each draw `(u, d, outputs, functions)`: known, or evaluated."""
    return game.start_values(draws.rows) if draws.values is None else draws.values


def check_draws(n_draws: int) -> None:
    """Refuse fewer than one draw."""
    if not is_whole(n_draws) or n_draws < 1:
        raise InvalidArgumentError(f"`n_draws` must be a whole number of at least 1; got {n_draws!r}.")
