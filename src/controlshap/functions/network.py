"""One hidden layer of logistic units: `constant + linear . r + sum_h scale_h sigmoid(intercept_h + weights_h . r)`.

With one unit it is a logistic ridge function. Each unit's Shapley values come from the Fourier quadrature. Where the
scores of the units are normal, the mean of the network is known, too:

    sigmoid(z) = sum_k share_k Phi(slope_k z)      to 1.4e-8 everywhere

(a scale mixture of normals, after Monahan and Stefanski; the constants are our own minimax fit), and a normal variable
inside a Phi only widens it: `E Phi(a (m + s Z)) = Phi(a m / sqrt(1 + a^2 s^2))`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit, ndtr

from controlshap._types import FloatArray
from controlshap.data.players import Players
from controlshap.functions.base import KnownFunction
from controlshap.functions.logistic import WIDEST, logistic_interactions, logistic_values, score_bound

#: Precision of a unit's values, relative to its scale.
PRECISION = 1e-8

SHARES = (
    0.003573508584,
    0.055318569299,
    0.209362033476,
    0.345324152969,
    0.282413821443,
    0.096246004285,
    0.007761909944,
)
SLOPES = (
    0.252096727575,
    0.333908644941,
    0.438327406756,
    0.575077144641,
    0.752282197877,
    0.981363997335,
    1.290953666966,
)


@dataclass(frozen=True)
class HiddenLayer(KnownFunction):
    """`constant + linear . r + sum_h scale_h activation(intercept_h + weights_h . r)`: a function of linear scores.

    Attributes
    ----------
    constant : float
    linear : ndarray of shape (columns,)
    weights : ndarray of shape (units, columns)
    intercepts, scales : ndarray of shape (units,)
    """

    constant: float
    linear: FloatArray
    weights: FloatArray
    intercepts: FloatArray
    scales: FloatArray

    takes_scores = True

    @staticmethod
    @abstractmethod
    def activation(scores: FloatArray) -> FloatArray:
        """The function of a unit's score."""

    @staticmethod
    @abstractmethod
    def mean_activation(means: FloatArray, variances: FloatArray) -> FloatArray:
        """Its mean where scores are normal."""

    def predict(self, rows: FloatArray) -> FloatArray:
        """Values `(n,)` of the layer."""
        hidden = self.activation(rows @ self.weights.T + self.intercepts)
        values: FloatArray = hidden @ self.scales + self.constant
        return values + rows @ self.linear if self.linear.any() else values

    @property
    def score_functions(self) -> tuple[KnownFunction, ...]:
        """The layer itself: it is a function of scores."""
        return (self,)

    @property
    def score_weights(self) -> FloatArray:
        """Weights `(units + 1, columns)` of the units, and last of the linear part."""
        return np.concatenate([self.weights, self.linear[None]])

    def of_scores(self, scores: FloatArray) -> FloatArray:
        """Values `(...)` from scores `(..., units + 1)`."""
        hidden = self.activation(scores[..., :-1] + self.intercepts)
        values: FloatArray = hidden @ self.scales + self.constant + scores[..., -1]
        return values

    def mean_of_scores(self, means: FloatArray, variances: FloatArray) -> FloatArray:
        """Means `(...)` over normal scores `(..., units + 1)`; the variance of the linear part does not matter."""
        hidden = self.mean_activation(means[..., :-1] + self.intercepts, variances[..., :-1])
        values: FloatArray = self.constant + means[..., -1] + hidden @ self.scales
        return values

    def score_batches(
        self, x: FloatArray, draws: FloatArray, players: Players, most: int
    ) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Players' parts of the scores at x `(players, units, 1)` and at draws `(players, units, n)`, of n draws each.

        So many draws come together that a batch has about `most` numbers.
        """
        at_x = self._score_parts(x[None], players)
        step = max(1, most // max(1, at_x.size))
        for start in range(0, len(draws), step):
            some = slice(start, start + step)
            yield some, at_x, self._score_parts(draws[some], players)

    def _score_parts(self, rows: FloatArray, players: Players) -> FloatArray:
        """The players' parts of the scores, `(players, units, n)`."""
        return np.asarray(players.sum_columns(rows.T[:, None] * self.weights.T[:, :, None]))


@final
@dataclass(frozen=True)
class Network(HiddenLayer):
    """A layer of logistic units with exact Shapley values.

    Attributes
    ----------
    precision : float
        Of a unit's Shapley values, relative to its scale.
    """

    precision: float = PRECISION

    name = "logistic form"  # only logistic regressions are recognised
    takes_arrangements = True

    @staticmethod
    def activation(scores: FloatArray) -> FloatArray:
        """`1 / (1 + exp(-score))`."""
        values: FloatArray = expit(scores)
        return values

    @staticmethod
    def mean_activation(means: FloatArray, variances: FloatArray) -> FloatArray:
        """`E sigmoid(mean + sqrt(variance) Z)`."""
        total = np.zeros(np.broadcast_shapes(means.shape, variances.shape))
        for share, slope in zip(SHARES, SLOPES, strict=True):
            total += share * ndtr(slope * means / np.sqrt(1.0 + slope**2 * variances))
        return total

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Shapley values `(draws, players)`; None where a unit's score is out of the quadrature's reach."""
        values = players.sum_columns((self.linear * (x - draws)).T).T
        for (intercept, at_x, at_draws), scale in zip(self._parts(x, draws, players), self.scales, strict=True):
            if not score_bound(intercept, at_x, at_draws) <= WIDEST:
                return None
            if players.arrangement is None:
                of_unit = logistic_values(intercept, at_x, at_draws, self.precision)
            else:
                from controlshap.functions.arranged import arranged_logistic_values

                of_unit = arranged_logistic_values(intercept, at_x, at_draws, players.arrangement, self.precision)
            values = values + scale * of_unit
        return np.asarray(values)

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Sum over units; None where a unit's score is out of the quadrature's reach."""
        index = np.zeros((players.n_players, players.n_players))
        for (intercept, at_x, at_draws), scale in zip(self._parts(x, draws, players), self.scales, strict=True):
            if not score_bound(intercept, at_x, at_draws) <= WIDEST:
                return None
            index += scale * logistic_interactions(intercept, at_x, at_draws, self.precision)
        return index

    def reaches(self, x: FloatArray, draws: FloatArray, players: Players) -> bool:
        """Whether all units' scores are within the quadrature's reach."""
        largest = np.maximum(np.abs(x), np.abs(draws).max(axis=0))
        if (np.abs(self.intercepts) + np.abs(self.weights) @ largest <= WIDEST).all():
            return True  # column by column, all units at once: a plan asks this of every row
        return all(score_bound(*parts) <= WIDEST for parts in self._parts(x, draws, players))

    def _parts(
        self, x: FloatArray, draws: FloatArray, players: Players
    ) -> Iterator[tuple[float, FloatArray, FloatArray]]:
        """Intercept and players' parts of each unit's score, at x `(players,)` and at the draws `(draws, players)`."""
        for weights, intercept in zip(self.weights, self.intercepts, strict=True):
            at_draws = players.sum_columns((weights * draws).T).T
            yield float(intercept), players.sum_columns(weights * x), at_draws
