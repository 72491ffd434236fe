"""Exact Shapley values of `sigmoid(c + beta . r)`: the probability of a logistic regression, at any dimension.

    sigmoid(z) - 1/2 = integral_0^inf sin(w z) / sinh(pi w) dw

and `exp(i w z)` is a product over players, so each frequency w is one term of `products.py`. The midpoint rule with
step 2 pi / P, P = W + ln(1/eps) + 0.7, up to w = (ln(1/eps) + 0.2)/pi has a pointwise error below eps for |z| <= W. The
rule is periodic: W must bound z on every mix of x and a draw, not at the end points only.
"""

from __future__ import annotations

import math

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.exact_forms.products import product_values

#: Pointwise error of the quadrature.
PRECISION = 1e-12
#: Largest |score| for which the error bound was checked, and the number of nodes stays small.
WIDEST = 200.0


def score_bound(intercept: float, at_x: FloatArray, at_draws: FloatArray) -> float:
    """Largest |score| over all mixes of x and a draw, from player parts `(players,)` and `(draws, players)`."""
    high = intercept + np.maximum(at_x, at_draws).sum(axis=1)
    low = intercept + np.minimum(at_x, at_draws).sum(axis=1)
    return float(max(np.abs(high).max(), np.abs(low).max()))


def logistic_nodes(bound: float, precision: float = PRECISION) -> tuple[FloatArray, FloatArray]:
    """Frequencies and weights with `sigmoid(z) = 1/2 + sum weights sin(frequencies z)` for |z| <= bound."""
    digits = math.log(1.0 / precision)
    step = 2.0 * math.pi / (bound + digits + 0.7)
    n_nodes = math.ceil((digits + 0.2) / math.pi / step)
    frequencies = step * (np.arange(n_nodes) + 0.5)
    return frequencies, step / np.sinh(math.pi * frequencies)


def logistic_values(
    intercept: float, at_x: FloatArray, at_draws: FloatArray, precision: float = PRECISION
) -> FloatArray:
    """Shapley values `(draws, players)` of the probability, for every draw.

    Parameters
    ----------
    intercept : float
    at_x : ndarray of shape (players,)
        Each player's part of the score, `beta_j . x_j`.
    at_draws : ndarray of shape (draws, players)
        The same at each draw.
    """
    bound = score_bound(intercept, at_x, at_draws)
    if not bound <= WIDEST:
        raise InvalidArgumentError(
            f"The score of a logistic function reaches {bound:.3g}; the quadrature is checked up to {WIDEST:g}. "
            "Scale the coefficients down (a separable fit has unbounded ones), or explain the score instead."
        )
    frequencies, weights = logistic_nodes(bound, precision)
    coefficients = weights * np.exp(1j * frequencies * intercept)
    x_factors = np.exp(1j * frequencies[:, None] * at_x)
    draw_factors = np.exp(1j * frequencies[:, None] * at_draws[:, None, :])
    return product_values(x_factors, draw_factors, coefficients[:, None])[:, :, 0].imag
