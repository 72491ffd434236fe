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

from controlshap._arrays import Array, namespace
from controlshap._types import FloatArray
from controlshap.data.players import Players
from controlshap.functions.logistic import BATCH, enough_nodes, gauss_nodes, integrals
from controlshap.functions.network import HiddenLayer


def wave_values(at_x: Array, at_draws: Array, intercepts: Array, scales: Array) -> Array:
    """Shapley values `(players, ...)` of a sum of cosines, from players' parts `(players, units, ...)` of its scores.

    Intercepts and scales are of shape (units, ...); all may be tensors.
    """
    xp = namespace(at_x)
    turns = xp.exp(0.5j * (at_x - at_draws))
    centre = intercepts + 0.5 * (at_x + at_draws).sum(axis=0)
    parts = turns.imag * integrals(turns, enough_nodes(len(turns))) * (-2.0 * scales * xp.sin(centre))
    return parts.sum(axis=1)


@final
@dataclass(frozen=True)
class Waves(HiddenLayer):
    """A sum of cosines with exact Shapley values."""

    has_device_form = True

    @staticmethod
    def activation(scores: FloatArray) -> FloatArray:
        """The cosine of each score."""
        return np.cos(scores)

    @staticmethod
    def mean_activation(means: FloatArray, variances: FloatArray) -> FloatArray:
        """`E cos(mean + sqrt(variance) Z)`."""
        values: FloatArray = np.cos(means) * np.exp(-0.5 * variances)
        return values

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Shapley values `(draws, players)`."""
        values = np.array(players.sum_columns((self.linear * (x - draws)).T).T)
        for some, at_x, at_draws in self.score_batches(x, draws, players, BATCH):
            values[some] += wave_values(at_x, at_draws, self.intercepts[:, None], self.scales[:, None]).T
        return values

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Pairwise interactions `(players, players)` of the mean game: all factors but two, at nodes without a 0."""
        p = players.n_players
        index = np.zeros((p, p))
        nodes, weights = gauss_nodes(2 * max(1, -(-(p - 1) // 4)))
        for _, at_x, at_draws in self.score_batches(x, draws, players, BATCH):
            turns = np.exp(0.5j * (at_x - at_draws)).reshape(p, -1)
            centre = self.intercepts[:, None] + 0.5 * (at_x + at_draws).sum(axis=0)
            wave = (-4.0 * self.scales[:, None] * np.cos(centre)).reshape(-1)
            for node, weight in zip(nodes, weights, strict=True):
                factors = turns.real + 1j * (2.0 * node - 1.0) * turns.imag
                ratios = turns.imag / factors
                index += ((ratios * (weight * wave * factors.prod(axis=0))) @ ratios.T).real
        np.fill_diagonal(index, 0.0)
        return index / len(draws)
