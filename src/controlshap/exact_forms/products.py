"""Exact Shapley values of sums of player-wise products. Arrays only.

If `g(r) = sum_m c_m prod_j h_mj(r_j)`, the game of one draw b has

    phi_j = sum_m c_m (h_mj(x) - h_mj(b)) integral_0^1 prod_{k != j} (t h_mk(x) + (1 - t) h_mk(b)) dt

(Owen's multilinear extension), and the integrand is a polynomial in t of degree p - 1, so Gauss-Legendre quadrature
with ceil(p/2) nodes is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from controlshap._types import FloatArray

Factors = npt.NDArray[Any]
"""Real or complex factors of each term and player."""

#: Numbers in one batch of draws.
BATCH = 500_000


def unit_nodes(n_players: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on (0, 1) that integrate polynomials of degree n_players - 1 exactly."""
    nodes, weights = np.polynomial.legendre.leggauss(max(1, (n_players + 1) // 2))
    return 0.5 * (nodes + 1.0), 0.5 * weights


def product_values(at_x: Factors, at_draws: Factors, coefficients: Factors) -> Factors:
    """Shapley values of every draw's game.

    Parameters
    ----------
    at_x : ndarray of shape (terms, players)
        Factors h_mj at the explained row.
    at_draws : ndarray of shape (draws, terms, players)
        Factors at each draw.
    coefficients : ndarray of shape (terms, outputs)

    Returns
    -------
    ndarray of shape (draws, players, outputs)
    """
    n, terms, p = at_draws.shape
    kind = np.result_type(at_x, at_draws, coefficients)
    values = np.empty((n, p, coefficients.shape[1]), dtype=kind)
    nodes, weights = unit_nodes(p)
    step = max(1, BATCH // (terms * p))
    for start in range(0, n, step):
        part = slice(start, start + step)
        # players first: the running products below then work on contiguous blocks
        there = np.ascontiguousarray(at_draws[part].transpose(2, 0, 1)).astype(kind, copy=False)
        gap = at_x.T[:, None, :] - there
        total = np.zeros_like(there)
        for node, weight in zip(nodes, weights, strict=True):
            total += weight * leave_one_out(there + node * gap)
        total *= gap
        values[part] = np.tensordot(total, coefficients, axes=1).transpose(1, 0, 2)
    return values


def leave_one_out(factors: Factors) -> Factors:
    """Products over axis 0 of all factors but one, by prefix times suffix.

    Dividing the total by a factor would lose everything near a factor of zero.
    """
    p = len(factors)
    products = np.empty_like(factors)
    running = np.ones_like(factors[0])
    for j in range(p):
        products[j] = running
        running = running * factors[j]
    running = np.ones_like(factors[0])
    for j in range(p - 1, -1, -1):
        products[j] *= running
        running = running * factors[j]
    return products
