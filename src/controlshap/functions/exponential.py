"""Exponentials of linear scores: `constant + linear . r + sum_h scale_h exp(intercept_h + weights_h . r)`.

An exponential of a sum is a product of functions of one player each: its Shapley values are those of the terms of
`functions/kernel_machine.py`. The mean over normal scores is known as well: `E exp(m + s Z) = exp(m + s^2 / 2)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._types import FloatArray
from controlshap.data.players import Players
from controlshap.functions.kernel_machine import BATCH, product_interactions, product_values
from controlshap.functions.network import HiddenLayer

#: Half the logarithm of the largest float: no product of factors within these bounds overflows.
_LARGEST = 350.0


@final
@dataclass(frozen=True)
class Exponentials(HiddenLayer):
    """A sum of exponentials with exact Shapley values, such as the mean of a Poisson regression."""

    name = "exponential form"

    @staticmethod
    def activation(scores: FloatArray) -> FloatArray:
        """The exponential of each score."""
        return np.exp(scores)

    @staticmethod
    def mean_activation(means: FloatArray, variances: FloatArray) -> FloatArray:
        """`E exp(mean + sqrt(variance) Z)`."""
        values: FloatArray = np.exp(means + 0.5 * variances)
        return values

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Shapley values `(draws, players)`; None where a product might overflow."""
        if not self.reaches(x, draws, players):
            return None
        values = np.array(players.sum_columns((self.linear * (x - draws)).T).T)
        for some, at_x, at_draws in self.score_batches(x, draws, players, BATCH):
            values[some] += (self._sizes @ product_values(np.exp(at_x), np.exp(at_draws))).T
        return values

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Pairwise interactions `(players, players)` of the mean game; None where a product might overflow."""
        if not self.reaches(x, draws, players):
            return None
        index = np.zeros((players.n_players, players.n_players))
        for _, at_x, at_draws in self.score_batches(x, draws, players, BATCH):
            index += product_interactions(np.exp(at_x), np.exp(at_draws), self._sizes[:, None])[0]
        return index / len(draws)

    def reaches(self, x: FloatArray, draws: FloatArray, players: Players) -> bool:
        """Whether no product of factors at x and at the draws can overflow."""
        parts = self._score_parts(np.concatenate([x[None], draws]), players)
        highest = np.abs(parts).max(axis=2).sum(axis=0) + np.abs(self.intercepts)
        return bool(np.all(highest <= _LARGEST))

    @property
    def _sizes(self) -> FloatArray:
        """Coefficients of the products of the players' factors."""
        sizes: FloatArray = self.scales * np.exp(self.intercepts)
        return sizes
