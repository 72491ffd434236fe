"""Cosines of linear scores: `constant + linear . r + sum_h scale_h cos(intercept_h + weights_h . r)`.

In the game of one draw a score is a sum over players, and its cosine the real part of a product of turns. With d_k half
the difference of a player's parts of the score at x and at the draw, and c the score half-way between both, the
Shapley value of player j is that of one sine of `functions/logistic.py`,

    -2 sin(c) sin(d_j) times the integral over t in [0, 1] of prod_{k != j} (cos d_k + i (2t - 1) sin d_k)

The mean over normal scores is known as well: `E cos(m + s Z) = cos(m) exp(-s^2 / 2)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._types import FloatArray
from controlshap.data.players import Players
from controlshap.functions.base import KnownFunction
from controlshap.functions.logistic import BATCH, enough_nodes, gauss_nodes, integrals


@final
@dataclass(frozen=True)
class Waves(KnownFunction):
    """A sum of cosines with exact Shapley values.

    Attributes
    ----------
    constant : float
    linear : ndarray of shape (columns,)
    weights : ndarray of shape (waves, columns)
    intercepts, scales : ndarray of shape (waves,)
    """

    constant: float
    linear: FloatArray
    weights: FloatArray
    intercepts: FloatArray
    scales: FloatArray

    takes_scores = True

    def predict(self, rows: FloatArray) -> FloatArray:
        """Values `(n,)` of the waves."""
        values: FloatArray = np.cos(rows @ self.weights.T + self.intercepts) @ self.scales
        return values + self.constant + rows @ self.linear

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Shapley values `(draws, players)`."""
        values = np.array(players.sum_columns((self.linear * (x - draws)).T).T)
        at_x = self._parts(x[None], players)
        nodes, step = enough_nodes(players.n_players), max(1, BATCH // max(1, at_x.size))
        for start in range(0, len(draws), step):
            at_draws = self._parts(draws[start : start + step], players)
            turns = np.exp(0.5j * (at_x - at_draws))
            centre = self.intercepts[:, None] + 0.5 * (at_x + at_draws).sum(axis=0)
            wave = -2.0 * self.scales[:, None] * np.sin(centre)
            parts = turns.imag * integrals(turns, nodes) * wave
            values[start : start + step] += parts.sum(axis=1).T
        return values

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Pairwise interactions `(players, players)` of the mean game: all factors but two, at nodes without a 0."""
        p = players.n_players
        index, at_x = np.zeros((p, p)), self._parts(x[None], players)
        nodes, weights = gauss_nodes(2 * max(1, -(-(p - 1) // 4)))
        step = max(1, BATCH // max(1, at_x.size))
        for start in range(0, len(draws), step):
            at_draws = self._parts(draws[start : start + step], players)
            turns = np.exp(0.5j * (at_x - at_draws)).reshape(p, -1)
            centre = self.intercepts[:, None] + 0.5 * (at_x + at_draws).sum(axis=0)
            wave = (-4.0 * self.scales[:, None] * np.cos(centre)).reshape(-1)
            for node, weight in zip(nodes, weights, strict=True):
                factors = turns.real + 1j * (2.0 * node - 1.0) * turns.imag
                ratios = turns.imag / factors
                index += ((ratios * (weight * wave * factors.prod(axis=0))) @ ratios.T).real
        np.fill_diagonal(index, 0.0)
        return index / len(draws)

    @property
    def score_functions(self) -> tuple[KnownFunction, ...]:
        """The waves themselves: they are functions of scores."""
        return (self,)

    @property
    def score_weights(self) -> FloatArray:
        """Weights `(waves + 1, columns)` of the waves, and last of the linear part."""
        return np.concatenate([self.weights, self.linear[None]])

    def of_scores(self, scores: FloatArray) -> FloatArray:
        """Values `(...)` from scores `(..., waves + 1)`."""
        values: FloatArray = np.cos(scores[..., :-1] + self.intercepts) @ self.scales + self.constant + scores[..., -1]
        return values

    def mean_of_scores(self, means: FloatArray, variances: FloatArray) -> FloatArray:
        """Means `(...)` over normal scores `(..., waves + 1)`; the variance of the linear part does not matter."""
        hidden = np.cos(means[..., :-1] + self.intercepts) * np.exp(-0.5 * variances[..., :-1])
        values: FloatArray = self.constant + means[..., -1] + hidden @ self.scales
        return values

    def _parts(self, rows: FloatArray, players: Players) -> FloatArray:
        """The players' parts of the scores, `(players, waves, n)`."""
        return np.asarray(players.sum_columns(rows.T[:, None] * self.weights.T[:, :, None]))
