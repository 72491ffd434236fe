"""Polynomials of degree two. In the game of one draw b every column's part has a closed form.

With `g(r) = constant + linear . r + r' Q r`, `d = x - b` and `s = (x + b)/2`: a product of two columns of different
players is worth `d_a s_c` to the first and `s_a d_c` to the second, and within one player the sum of both is the whole
difference. So column a has `d_a (linear_a + 2 (Q s)_a)`, and a player has the sum of its columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._types import FloatArray
from controlshap.data.players import Players


@final
@dataclass(frozen=True)
class Quadratic:
    """A polynomial of degree two.

    Attributes
    ----------
    constant : float
    linear : ndarray of shape (columns,)
    quadratic : ndarray of shape (columns, columns)
        Symmetric.
    """

    constant: float
    linear: FloatArray
    quadratic: FloatArray

    def predict(self, rows: FloatArray) -> FloatArray:
        """Values `(n,)`."""
        values: FloatArray = self.constant + rows @ self.linear + np.einsum("ni,ni->n", rows @ self.quadratic, rows)
        return values

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Shapley values `(draws, players)`."""
        by_column = (x - draws) * (self.linear + (x + draws) @ self.quadratic)
        return players.sum_columns(by_column.T).T
