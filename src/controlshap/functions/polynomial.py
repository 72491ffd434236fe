"""Polynomials of degree one and two. In the game of one draw b every column's part has a closed form.

With `g(r) = constant + linear . r + r' Q r`, `d = x - b` and `s = (x + b)/2`: a product of two columns of different
players is worth `d_a s_c` to the first and `s_a d_c` to the second, and within one player the sum of both is the whole
difference. So column a has `d_a (linear_a + 2 (Q s)_a)`, and a player has the sum of its columns. Where players are
arranged, `s_c` has x in the share of permutations in which c comes before a.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from controlshap._types import FloatArray
from controlshap.data.players import Players
from controlshap.functions.base import KnownFunction
from controlshap.functions.network import Network

#: Axes of a quadratic form whose eigenvalues are smaller than this share of the largest are rounding.
NEGLIGIBLE = 1e-12


@final
@dataclass(frozen=True)
class Quadratic(KnownFunction):
    """A polynomial of degree two, or a linear function of one or more outputs.

    Attributes
    ----------
    constant : float, or ndarray of shape (outputs,)
    linear : ndarray of shape (columns,) or (outputs, columns)
    quadratic : ndarray of shape (columns, columns) or None
        Symmetric; None for a linear function, the only one that may have several outputs.
    """

    constant: float | FloatArray
    linear: FloatArray
    quadratic: FloatArray | None = None

    name = "linear form"  # only linear models are recognised
    takes_arrangements = True

    @property
    def takes_scores(self) -> bool:  # type: ignore[override]
        """Whether there is one output."""
        return self.linear.ndim == 1

    def predict(self, rows: FloatArray) -> FloatArray:
        """Values `(n,)` or `(n, outputs)`."""
        values: FloatArray = self.constant + rows @ self.linear.T
        if self.quadratic is None:
            return values
        return np.asarray(values + np.einsum("ni,ni->n", rows @ self.quadratic, rows))

    @property
    def score_functions(self) -> tuple[KnownFunction, ...]:
        """Networks without hidden units, for a linear function."""
        if self.quadratic is not None:
            return ()
        linear = np.atleast_2d(self.linear)
        constants = np.broadcast_to(np.atleast_1d(self.constant), (len(linear),))
        nothing = np.zeros(0)
        return tuple(
            Network(float(constant), slope, np.zeros((0, len(slope))), nothing, nothing)
            for constant, slope in zip(constants, linear, strict=True)
        )

    @cached_property
    def _axes(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues `(k,)` of Q, and its axes `(k, columns)`, but for those that add nothing."""
        if self.quadratic is None:
            return np.zeros(0), np.zeros((0, len(self.linear)))
        sizes, axes = np.linalg.eigh(self.quadratic)
        some = np.abs(sizes) > NEGLIGIBLE * np.abs(sizes).max(initial=0.0)
        return sizes[some], axes.T[some]

    @property
    def score_weights(self) -> FloatArray:
        """The axes of Q, whose squares are added, and last of the linear part."""
        return np.concatenate([self._axes[1], self.linear[None]])

    def of_scores(self, scores: FloatArray) -> FloatArray:
        """Values `(...)` from scores `(..., axes + 1)`."""
        values: FloatArray = scores[..., :-1] ** 2 @ self._axes[0] + scores[..., -1] + self.constant
        return values

    def mean_of_scores(self, means: FloatArray, variances: FloatArray) -> FloatArray:
        """Means `(...)` over normal scores: of a square it is the square of the mean and the variance."""
        squares = means[..., :-1] ** 2 + variances[..., :-1]
        values: FloatArray = squares @ self._axes[0] + means[..., -1] + self.constant
        return values

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """The columns' parts, added within players."""
        slope = self.linear if self.quadratic is None else self.linear + self._bends(x, draws, players)
        gap = x - draws
        by_column = (gap[:, None] if self.linear.ndim == 2 else gap) * slope
        return np.moveaxis(players.sum_columns(np.moveaxis(by_column, -1, 0)), 0, 1)

    def _bends(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """`2 Q s` (draws, columns): half x and half b, or x as often as a column's player comes before."""
        assert self.quadratic is not None
        if players.arrangement is None:
            return np.asarray((x + draws) @ self.quadratic)
        before = players.arrangement.precedes[np.ix_(players.owner, players.owner)]
        return np.asarray(2.0 * (x @ (before * self.quadratic) + draws @ ((1.0 - before) * self.quadratic)))

    def mean_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Values for the mean draw, for a linear function."""
        if self.quadratic is None:
            return players.sum_columns((self.linear * (x - draws.mean(axis=0))).T)
        return np.asarray(self.draw_values(x, draws, players).mean(axis=0))

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """`2 Q_ac d_a d_c`, added within players and averaged over draws; none of a linear function."""
        p = players.n_players
        if self.quadratic is None:
            return np.zeros((p, p, *self.linear.shape[:-1]))
        gap = x - draws
        by_column = 2.0 * self.quadratic * (gap.T @ gap) / len(draws)
        index = players.sum_columns(players.sum_columns(by_column).T)
        np.fill_diagonal(index, 0.0)
        return index
