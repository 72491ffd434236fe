"""Functions of a row with one output whose Shapley values are known for every draw: what is fitted to a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

from controlshap._types import FloatArray
from controlshap.data.players import Players


class KnownFunction(Protocol):
    """A function g with exact marginal Shapley values."""

    def predict(self, rows: FloatArray) -> FloatArray:
        """Values `(n,)` on rows `(n, columns)`."""

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Shapley values `(draws, players)` of every draw's game; None where they are out of reach."""


@final
@dataclass(frozen=True)
class Sum:
    """Two functions added: Shapley values are linear."""

    first: KnownFunction
    second: KnownFunction

    def predict(self, rows: FloatArray) -> FloatArray:
        """Sum of both."""
        return self.first.predict(rows) + self.second.predict(rows)

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Sum of both."""
        one, other = self.first.draw_values(x, draws, players), self.second.draw_values(x, draws, players)
        return None if one is None or other is None else one + other
