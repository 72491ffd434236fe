"""Linear, logistic and tree models as forms with exact Shapley values (independent features)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from scipy.special import expit

from controlshap._types import FloatArray
from controlshap.data.players import Players
from controlshap.functions.logistic import WIDEST, logistic_values, score_bound
from controlshap.functions.trees import LeafBoxes


class ExactForm(Protocol):
    """A model whose Shapley values over a finite background are known in closed form."""

    @property
    def name(self) -> str:
        """What a result says about it."""

    def predict(self, rows: FloatArray) -> FloatArray:
        """What the model should say `(n, outputs)`, to check that it is of this form."""

    def mean_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Shapley values `(players, outputs)` over the draws; None where the form cannot be evaluated."""

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Shapley values `(draws, players, outputs)` of each draw's game; None as above."""


@final
@dataclass(frozen=True)
class LinearForm:
    """`intercept + coef . r`."""

    coef: FloatArray  # (outputs, columns)
    intercept: FloatArray  # (outputs,)

    @property
    def name(self) -> str:
        """Linear."""
        return "linear form"

    def predict(self, rows: FloatArray) -> FloatArray:
        """Score."""
        scores: FloatArray = rows @ self.coef.T + self.intercept
        return scores

    def mean_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """`coef_j (x_j - mean b_j)`, added within players."""
        return players.sum_columns((self.coef * (x - draws.mean(axis=0))).T)

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """The same for each draw."""
        return players.sum_columns((self.coef * (x - draws)[:, None]).transpose(2, 0, 1)).transpose(1, 0, 2)


@final
@dataclass(frozen=True)
class LogisticForm:
    """`sigmoid(intercept + coef . r)`: the probability of class 1 of a logistic regression."""

    coef: FloatArray  # (columns,)
    intercept: float

    @property
    def name(self) -> str:
        """Logistic."""
        return "logistic form"

    def predict(self, rows: FloatArray) -> FloatArray:
        """Probability."""
        chances: FloatArray = expit(rows @ self.coef + self.intercept)[:, None]
        return chances

    def mean_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """Mean of the draws'."""
        values = self.draw_values(x, draws, players)
        return None if values is None else np.asarray(values.mean(axis=0))

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray | None:
        """By quadrature, unless the score is out of its reach."""
        at_x = players.sum_columns(self.coef * x)
        at_draws = players.sum_columns((self.coef * draws).T).T
        if not score_bound(self.intercept, at_x, at_draws) <= WIDEST:
            return None
        return logistic_values(self.intercept, at_x, at_draws)[..., None]


@final
@dataclass(frozen=True)
class TreeForm:
    """A sum of trees: forests (values or probabilities) and boosted regressions."""

    boxes: LeafBoxes

    @property
    def name(self) -> str:
        """Trees."""
        return "tree form"

    def predict(self, rows: FloatArray) -> FloatArray:
        """Sum of the leaves that a row falls into."""
        return self.boxes.predict(rows)

    def mean_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """From the leaf boxes."""
        return self.boxes.mean_values(x, draws, players)

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """From the leaf boxes."""
        return self.boxes.draw_values(x, draws, players)
