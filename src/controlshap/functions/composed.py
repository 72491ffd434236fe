"""Functions made of others: behind a transformation of single columns, weighted sums, and mixtures of outputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.data.players import Players
from controlshap.functions.base import KnownFunction, RowGames


@dataclass(frozen=True)
class _Made(KnownFunction):
    """A function made of another one, whose kind and cost it has.

    Attributes
    ----------
    inner : KnownFunction
    """

    inner: KnownFunction

    @property
    def name(self) -> str:  # type: ignore[override]
        """That of the function."""
        return self.inner.name

    @property
    def tolerance(self) -> float:  # type: ignore[override]
        """That of the function."""
        return self.inner.tolerance

    @property
    def steps_a_draw(self) -> int:
        """The steps of the function."""
        return self.inner.steps_a_draw


@final
@dataclass(frozen=True)
class Transformed(_Made):
    """A function of transformed columns. Each is made of one column, so that its games are those of the function.

    Attributes
    ----------
    transforms : tuple of callable
        Rows `(n, columns)` to rows `(n, columns)`, one after the other.
    """

    transforms: tuple[Callable[[FloatArray], Any], ...]

    def predict(self, rows: FloatArray) -> FloatArray:
        """Values of the transformed rows."""
        return self.inner.predict(self.transform(rows))

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Shapley values in the games of transformed rows."""
        return self.inner.draw_values(self.transform(x[None])[0], self.transform(draws), players)

    def mean_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Values of the mean of the games."""
        return self.inner.mean_values(self.transform(x[None])[0], self.transform(draws), players)

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Interactions in the games of transformed rows."""
        return self.inner.mean_interactions(self.transform(x[None])[0], self.transform(draws), players)

    def reaches(self, x: FloatArray, draws: FloatArray, players: Players) -> bool:
        """Whether the function's values can be computed."""
        return self.inner.reaches(self.transform(x[None])[0], self.transform(draws), players)

    def games(self, draws: FloatArray, players: Players, some: IntArray) -> RowGames | None:
        """The games of transformed rows."""
        inner = self.inner.games(self.transform(draws), players, some)
        return None if inner is None else _TransformedGames(self, inner)

    def transform(self, rows: FloatArray) -> FloatArray:
        """Rows as the function takes them."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names of columns: these are bare arrays
            for transform in self.transforms:
                rows = np.asarray(transform(rows), dtype=float)
        return rows


@final
@dataclass(frozen=True)
class _TransformedGames:
    function: Transformed
    inner: RowGames

    def explain(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values and variances of transformed rows."""
        return self.inner.explain(self.function.transform(rows))

    def interactions(self, rows: FloatArray) -> FloatArray:
        """Interactions of transformed rows."""
        return self.inner.interactions(self.function.transform(rows))


@final
@dataclass(frozen=True)
class Blend(_Made):
    """One output: a constant plus weights times the outputs of another function.

    Attributes
    ----------
    weights : ndarray of shape (outputs of inner,)
    constant : float
    """

    weights: FloatArray
    constant: float = 0.0

    @property
    def takes_arrangements(self) -> bool:  # type: ignore[override]
        """Whether the function does."""
        return self.inner.takes_arrangements

    def mean_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Shapley values `(players,)` of the mean of the games."""
        values = self.inner.mean_values(x, draws, players)
        return None if values is None else np.asarray(values.reshape(len(values), -1) @ self.weights)

    def games(self, draws: FloatArray, players: Players, some: IntArray) -> RowGames | None:
        """The games of the only output with a weight; of several outputs, variances would need covariances."""
        inner = self.inner.games(draws, players, some) if np.count_nonzero(self.weights) == 1 else None
        return None if inner is None else _BlendedGames(inner, self.weights)

    def predict(self, rows: FloatArray) -> FloatArray:
        """Values `(n,)` of the function."""
        return np.asarray(self.constant + self.inner.predict(rows).reshape(len(rows), -1) @ self.weights)

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Shapley values `(draws, players)`; None where those of the function cannot be computed."""
        values = self.inner.draw_values(x, draws, players)
        return None if values is None else np.asarray(values.reshape(*values.shape[:2], -1) @ self.weights)

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Interactions `(players, players)`; None where those of the function are not known."""
        index = self.inner.mean_interactions(x, draws, players)
        return None if index is None else np.asarray(index.reshape(*index.shape[:2], -1) @ self.weights)

    def reaches(self, x: FloatArray, draws: FloatArray, players: Players) -> bool:
        """Whether the function's values can be computed."""
        return self.inner.reaches(x, draws, players)


@final
@dataclass(frozen=True)
class _BlendedGames:
    inner: RowGames
    weights: FloatArray

    def explain(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values and variances of the output."""
        values, variances = self.inner.explain(rows)
        return (values @ self.weights)[..., None], (variances @ self.weights**2)[..., None]

    def interactions(self, rows: FloatArray) -> FloatArray:
        """Interactions of the output."""
        return np.asarray((self.inner.interactions(rows) @ self.weights)[..., None])


@final
@dataclass(frozen=True)
class Combination(KnownFunction):
    """A constant plus weights times functions of equally many outputs.

    Attributes
    ----------
    parts : tuple of KnownFunction
    weights : ndarray of shape (parts,)
    constant : float
    """

    parts: tuple[KnownFunction, ...]
    weights: FloatArray
    constant: float = 0.0

    @property
    def name(self) -> str:  # type: ignore[override]
        """The kinds of its parts."""
        return " + ".join(dict.fromkeys(part.name for part in self.parts))

    @property
    def tolerance(self) -> float:  # type: ignore[override]
        """The largest of its parts."""
        return max(part.tolerance for part in self.parts)

    @property
    def steps_a_draw(self) -> int:
        """The steps of all parts."""
        return sum(part.steps_a_draw for part in self.parts)

    def predict(self, rows: FloatArray) -> FloatArray:
        """Weighted sum of the parts' predictions."""
        total = sum(weight * part.predict(rows) for weight, part in zip(self.weights, self.parts, strict=True))
        return np.asarray(self.constant + total)

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Weighted sum of the parts' values; None where one of them cannot be computed."""
        return self._add([part.draw_values(x, draws, players) for part in self.parts])

    def mean_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Values of the mean of the games."""
        return self._add([part.mean_values(x, draws, players) for part in self.parts])

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Weighted sum of the parts' interactions; None where one of them is not known."""
        return self._add([part.mean_interactions(x, draws, players) for part in self.parts])

    def reaches(self, x: FloatArray, draws: FloatArray, players: Players) -> bool:
        """Whether the values of all parts can be computed."""
        return all(part.reaches(x, draws, players) for part in self.parts)

    def _add(self, values: list[FloatArray | None]) -> FloatArray | None:
        known = [weight * value for weight, value in zip(self.weights, values, strict=True) if value is not None]
        return np.asarray(sum(known)) if len(known) == len(values) else None
