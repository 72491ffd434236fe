"""Products over players along Owen's diagonal. Arrays only.

If `g(r) = sum_m c_m prod_j h_mj(r_j)`, the game of one draw b has

    phi_j = sum_m c_m (h_mj(x) - h_mj(b)) integral_0^1 prod_{k != j} (t h_mk(x) + (1 - t) h_mk(b)) dt

(Owen's multilinear extension), and the integrand is a polynomial in t of degree p - 1, so Gauss-Legendre quadrature
with ceil(p/2) nodes is exact.
"""

from __future__ import annotations

import numpy as np

from controlshap._types import AnyArray, FloatArray


def unit_nodes(n_players: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on (0, 1) that integrate polynomials of degree n_players - 1 exactly."""
    nodes, weights = np.polynomial.legendre.leggauss(max(1, (n_players + 1) // 2))
    return 0.5 * (nodes + 1.0), 0.5 * weights


def leave_one_out(factors: AnyArray) -> AnyArray:
    """Products over axis 0 (players) of all real or complex factors but one, by prefix times suffix.

    Dividing the total by a factor would lose everything near a factor of zero.
    """
    products = np.empty_like(factors)
    running = np.ones_like(factors[0])
    for j in range(len(factors)):
        products[j] = running
        running *= factors[j]
    running[...] = 1.0
    for j in range(len(factors) - 1, -1, -1):
        products[j] *= running
        running *= factors[j]
    return products
