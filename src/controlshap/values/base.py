"""What a value function is.

One formula serves both cases of the paper: for a draw b and a coalition S,

    row(S) = b + A_S (x - b)

with `A_S` the selection of the columns of S (independent), or `Sigma[:,S] Sigma[S,S]^-1` (correlated,
pathwise conditioning). A draw defines a whole game: v_b(0) = f(b), v_b(all) = f(x).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.players import Players


class Imputer(Protocol):
    """A value function bound to a background and players."""

    @property
    def players(self) -> Players:
        """The players of coalitions."""

    @property
    def finite_draws(self) -> FloatArray | None:
        """The rows b there are, `(n, columns)`; None when they come from a distribution."""

    @property
    def center(self) -> FloatArray:
        """Mean of the draws, `(columns,)`."""

    def sample(self, n_rows: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws `(n_rows, columns)`."""

    def coalition_rows(self, x: FloatArray, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """Rows `(u, k, d, columns)` for coalitions `(u, k, players)` and draws `(u, d, columns)`."""

    def walk_rows(self, x: FloatArray, permutations: IntArray, draws: FloatArray) -> FloatArray:
        """Rows `(u, players - 1, d, columns)` of the prefixes 1 to players - 1 of each permutation."""

    def to_inputs(self, rows: FloatArray) -> FloatArray:
        """What the model sees of rows `(n, columns)`; surrogates see the rows themselves."""

    def check(self, rows: FloatArray, feature_names: tuple[str, ...]) -> None:
        """Refuse explained rows that this value function cannot hold."""

    def workspace(self, *, walk: bool) -> int:
        """Doubles needed beside the rows themselves, for each walk or each coalition."""


class ValueFunction(Protocol):
    """Settings of a value function, bound to data once per explainer."""

    def bind(self, background: FloatArray, players: Players, feature_names: tuple[str, ...]) -> Imputer:
        """Estimate what the value function needs from the background."""
