"""What an estimator is: a design, the terms of its units, and what a unit costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.statistics.terms import Terms


class Evaluator(Protocol):
    """The game as estimators see it: values of coalitions, without a model or data in sight."""

    @property
    def at_x(self) -> FloatArray:
        """v(all), `(outputs, functions)`."""

    def evaluate(self, rows: FloatArray) -> FloatArray:
        """All functions on rows `(..., columns)`."""

    def coalition_values(self, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """Values `(u, k, d, outputs, functions)`."""

    def repeated_values(self, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """The same for pairs that share their draws, each evaluated once."""

    def walk_values(self, permutations: IntArray, draws: FloatArray, at_draws: FloatArray) -> FloatArray:
        """Values `(u, players + 1, outputs, functions)`."""


@dataclass(frozen=True)
class UnitDraws:
    """The draws of a batch of units.

    Attributes
    ----------
    rows : ndarray of shape (u, d, columns)
    values : ndarray of shape (u, d, outputs, functions) or None
        v_b(0) of each draw, where it is known (a finite background); None for draws from a distribution.
    spare : ndarray of shape (u, d, columns) or None
        A second, independent set, for estimators that do not share the draw between S and S + j.
    base : ndarray of shape (outputs, functions)
        v(0): exact for a finite background, else a shared estimate.
    """

    rows: FloatArray
    values: FloatArray | None
    spare: FloatArray | None
    base: FloatArray


class Estimator(Protocol):
    """A way to turn evaluated coalitions into Shapley values."""

    @property
    def n_draws(self) -> int:
        """Draws of each unit."""

    @property
    def is_least_squares(self) -> bool:
        """Whether units are rows of a regression rather than terms of a mean."""

    @property
    def settles_draws(self) -> bool:
        """Whether a unit determines the value of its draws exactly (all coalitions)."""

    @property
    def closes_sum(self) -> bool:
        """Whether the values are made to sum to f(x) - v(0)."""

    @property
    def needs_spare_draws(self) -> bool:
        """Whether S and S + j get draws of their own."""

    def draws_base(self, *, finite: bool) -> bool:
        """Whether every unit evaluates its own f(b) (no finite background)."""

    def unit_cost(self, n_players: int, *, finite: bool) -> int:
        """Most model evaluations of one unit."""

    def fewest_units(self, n_players: int) -> int:
        """Units below which no value with an error comes out."""

    def sample(self, n_players: int, n_units: int, rng: np.random.Generator) -> Any:
        """The random design of some units, axis 0 being units."""

    def terms(self, game: Evaluator, design: Any, draws: UnitDraws) -> Terms:
        """Evaluate and reduce."""

    def gather(self, parts: Sequence[Any]) -> Terms:
        """Terms of several batches as one."""


def own_base(game: Evaluator, draws: UnitDraws) -> FloatArray:
    """v_b(0) of each draw `(u, d, outputs, functions)`: known, or evaluated."""
    return game.evaluate(draws.rows) if draws.values is None else draws.values
