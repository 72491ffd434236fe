"""The one class of functions with known Shapley values: recognised in a model, or fitted to it."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from controlshap._errors import NotExactWarning
from controlshap._types import FloatArray, IntArray
from controlshap.data.players import Players


class RowGames(Protocol):
    """The marginal games of a fixed set of draws, of which some are singled out."""

    def explain(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values `(rows, players, outputs)` of the mean game, and variances of those of the singled-out draws."""
        ...

    def interactions(self, rows: FloatArray) -> FloatArray:
        """Pairwise interactions `(rows, players, players, outputs)` of the mean game, 0 on the diagonal."""
        ...


class KnownFunction(ABC):
    """A function of a row whose marginal Shapley values are known for every draw of the absent features.

    Arrays have the outputs last; a function of one output leaves that axis out.
    """

    #: How a result calls a model that is recognised as this function.
    name = "known form"
    #: Largest difference from the predictions of a recognised model, relative to their size.
    tolerance = 1e-6
    #: Whether a row enters through linear scores alone, which `score_weights`, `of_scores` and `mean_of_scores` need.
    takes_scores = False
    #: Whether `engine.device` has the same function for many rows of a torch module at once.
    has_device_form = False
    #: Whether `draw_values` knows the values of players that are arranged (`Players.arrangement`).
    takes_arrangements = False

    @property
    def summands(self) -> tuple[KnownFunction, ...]:
        """The functions that this one is the sum of: what several sums have in common is computed once."""
        return (self,)

    @abstractmethod
    def predict(self, rows: FloatArray) -> FloatArray:
        """Values `(n,)` or `(n, outputs)` on rows `(n, columns)`."""

    @abstractmethod
    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Shapley values `(draws, players, ...)` of each draw's game; None where they cannot be computed."""

    def mean_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Shapley values `(players, ...)` of the mean of all draws' games; None where they cannot be computed."""
        values = self.draw_values(x, draws, players)
        return None if values is None else np.asarray(values.mean(axis=0))

    def games(self, draws: FloatArray, players: Players, some: IntArray) -> RowGames | None:  # noqa: ARG002
        """The games of these draws made ready for many rows; None where a row is best explained by itself."""
        return None

    @property
    def steps_a_draw(self) -> int:
        """Cost of `mean_values` for each draw, in steps of some nanoseconds; 0 where it is next to nothing."""
        return 0

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:  # noqa: ARG002
        """Pairwise Shapley interactions `(players, players, ...)` of the mean game, 0 on the diagonal.

        None where they are not known.
        """
        return None

    def reaches(self, x: FloatArray, draws: FloatArray, players: Players) -> bool:  # noqa: ARG002
        """Whether `draw_values` can be computed."""
        return True

    @property
    def score_functions(self) -> tuple[KnownFunction, ...]:
        """The outputs as functions of linear scores, with means over normal ones; none where they are no such."""
        return ()

    @property
    def score_weights(self) -> FloatArray:
        """Weights `(scores, columns)` of the linear scores that a row enters through."""
        raise NotImplementedError(f"{type(self).__name__} is no function of linear scores")

    def of_scores(self, scores: FloatArray) -> FloatArray:
        """Values `(...)` from scores `(..., scores)`."""
        raise NotImplementedError(f"{type(self).__name__} is no function of linear scores")

    def mean_of_scores(self, means: FloatArray, variances: FloatArray) -> FloatArray:
        """Means `(...)` of the values where the scores `(..., scores)` are normal."""
        raise NotImplementedError(f"{type(self).__name__} is no function of linear scores")


def warn_not_exact(name: str, why: str) -> None:
    """Say that a recognised model is sampled after all; in the same words for all rows, so that it is said once."""
    warnings.warn(
        f"The model was recognised ({name}), which would make its values exact, but {why}. It is sampled instead, "
        "with standard errors.",
        NotExactWarning,
        stacklevel=2,
    )


@final
@dataclass(frozen=True)
class Sum(KnownFunction):
    """Two functions added: Shapley values are linear."""

    first: KnownFunction
    second: KnownFunction

    @property
    def summands(self) -> tuple[KnownFunction, ...]:
        """The functions that both are sums of."""
        return (*self.first.summands, *self.second.summands)

    @property
    def takes_arrangements(self) -> bool:  # type: ignore[override]
        """Whether both do."""
        return self.first.takes_arrangements and self.second.takes_arrangements

    @property
    def takes_scores(self) -> bool:  # type: ignore[override]
        """Whether both are functions of linear scores."""
        return self.first.takes_scores and self.second.takes_scores

    @property
    def score_weights(self) -> FloatArray:
        """Weights of the scores of both."""
        return np.concatenate([self.first.score_weights, self.second.score_weights])

    def of_scores(self, scores: FloatArray) -> FloatArray:
        """Sum of both functions' values."""
        n = len(self.first.score_weights)
        return self.first.of_scores(scores[..., :n]) + self.second.of_scores(scores[..., n:])

    def mean_of_scores(self, means: FloatArray, variances: FloatArray) -> FloatArray:
        """Sum of both functions' means."""
        n = len(self.first.score_weights)
        first = self.first.mean_of_scores(means[..., :n], variances[..., :n])
        return first + self.second.mean_of_scores(means[..., n:], variances[..., n:])

    def predict(self, rows: FloatArray) -> FloatArray:
        """Sum of both predictions."""
        return self.first.predict(rows) + self.second.predict(rows)

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Sum of both functions' values; None where one of them cannot be computed."""
        first, second = (part.draw_values(x, draws, players) for part in (self.first, self.second))
        return None if first is None or second is None else first + second

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Sum of both functions' interactions; None where one of them is not known."""
        first, second = (part.mean_interactions(x, draws, players) for part in (self.first, self.second))
        return None if first is None or second is None else first + second

    def reaches(self, x: FloatArray, draws: FloatArray, players: Players) -> bool:
        """Whether the values of both can be computed."""
        return all(part.reaches(x, draws, players) for part in (self.first, self.second))
