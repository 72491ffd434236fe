"""One hidden layer of logistic units: `constant + linear . r + sum_h scale_h sigmoid(intercept_h + weights_h . r)`.

With one unit it is a logistic ridge function. Each unit's Shapley values come from the Fourier quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit

from controlshap._types import FloatArray
from controlshap.data.players import Players
from controlshap.functions.logistic import WIDEST, logistic_values, score_bound

#: Precision of a unit's values, relative to its scale.
PRECISION = 1e-8


@final
@dataclass(frozen=True)
class Network:
    """A network with exact Shapley values.

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

    def predict(self, rows: FloatArray) -> FloatArray:
        """Values `(n,)`."""
        values: FloatArray = expit(rows @ self.weights.T + self.intercepts) @ self.scales + self.constant
        return values + rows @ self.linear if self.linear.any() else values

    def of_scores(self, scores: FloatArray) -> FloatArray:
        """Values `(...)` from the products `(..., units + 1)` of a row with the weights, and last with `linear`."""
        values: FloatArray = expit(scores[..., :-1] + self.intercepts) @ self.scales + self.constant + scores[..., -1]
        return values

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Shapley values `(draws, players)`; None where a unit's score is out of the quadrature's reach."""
        values = players.sum_columns((self.linear * (x - draws)).T).T
        for weights, intercept, scale in zip(self.weights, self.intercepts, self.scales, strict=True):
            at_x = players.sum_columns(weights * x)
            at_draws = players.sum_columns((weights * draws).T).T
            if not score_bound(intercept, at_x, at_draws) <= WIDEST:
                return None
            values = values + scale * logistic_values(float(intercept), at_x, at_draws, PRECISION)
        return np.asarray(values)
