"""What a surrogate is: a function of rows, and what is known about its Shapley values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from controlshap._types import FloatArray
from controlshap.data.players import Players
from controlshap.models.model import Model
from controlshap.statistics.control_variate import KnownValues
from controlshap.values.base import Imputer


@dataclass(frozen=True)
class Context:
    """What a surrogate may use to be made for one row.

    Attributes
    ----------
    x : ndarray of shape (columns,)
    at_x : ndarray of shape (outputs,)
        The model there.
    evaluate : callable
        The model on rows `(n, columns)`, counted in the row's evaluations.
    budget : int
        Evaluations of the whole explanation.
    cache : dict
        Belongs to the explainer: what does not depend on x is kept there (D matrices).
    """

    x: FloatArray
    at_x: FloatArray
    background: FloatArray
    evaluate: Callable[[FloatArray], FloatArray]
    budget: int
    model: Model
    imputer: Imputer
    players: Players
    feature_names: tuple[str, ...]
    cache: dict[str, Any]


class FittedSurrogate(Protocol):
    """A surrogate made for one row."""

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Values `(n, outputs)` on rows `(n, columns)`."""

    def known_values(self) -> KnownValues:
        """Shapley values and base value `(players + 1, outputs, 1)` under the value function."""


class Surrogate(Protocol):
    """Settings from which a surrogate is made for each row."""

    def cost(self, players: Players, background: FloatArray, budget: int, *, source: Any, correlated: bool) -> int:
        """Most model evaluations that `fit` may spend on a row."""

    def fit(self, context: Context) -> FittedSurrogate:
        """Make the surrogate for one row."""
