"""Exact Shapley values of `sigmoid(c + beta . r)`: the probability of a logistic regression, at any dimension.

If `g(r) = sum_m c_m prod_j h_mj(r_j)`, the game of one draw b has

    phi_j = sum_m c_m (h_mj(x) - h_mj(b)) integral_0^1 prod_{k != j} (t h_mk(x) + (1 - t) h_mk(b)) dt

(Owen's multilinear extension), and the integrand is a polynomial in t of degree p - 1, so Gauss-Legendre quadrature
with ceil(p/2) nodes is exact. The logistic function is such a sum:

    sigmoid(z) - 1/2 = integral_0^inf sin(w z) / sinh(pi w) dw

and `exp(i w z)` is a product over players, so each frequency w is one term. With half gaps d_j = (x_j - b_j)/2 of the
players' parts of the score, and s the score half way between x and b, that term is

    phi_j = 2 cos(w s) sin(w d_j) integral_0^1 prod_{k != j} (cos(w d_k) + i (2t - 1) sin(w d_k)) dt.

The interaction of two players has both differences, and all factors but these two:

    I_ij = -4 sin(w s) sin(w d_i) sin(w d_j) integral_0^1 prod_{k != i, j} (cos(w d_k) + i (2t - 1) sin(w d_k)) dt.

Sums of few sines stand in place of the integral, `sum_m weight_m sin(w_m z)` with a pointwise error below eps for
|z| <= W. They are periodic: W must bound z on every mix of x and a draw, not at the end points only. The midpoint rule
has such an error with step 2 pi / P, P = W + ln(1/eps) + 0.7, up to w = (ln(1/eps) + 0.2)/pi. Where frequencies are odd
multiples of one, the sum is symmetric about half a period, and only |z| <= W has to fit: weights by least squares over
a period a little longer than 2 W need half as many sines, up to W = `FITTED`.

High powers of t have next to no weight in the product of many factors near 1, so that fewer nodes than ceil(p/2) do.
Whether they did is seen from the sum over players, which the axiom of efficiency gives.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

import numpy as np
from scipy.special import expit

from controlshap._arrays import Array, namespace
from controlshap._errors import InvalidArgumentError
from controlshap._types import AnyArray, FloatArray

#: Pointwise error of the quadrature.
PRECISION = 1e-12
#: Nodes that are tried first: `(ln(1/eps) + bound) / NATS`. With 20 and 60 players and scores up to 4, 15 and 35 the
#: fewest that are enough for 1e-8 were 5, 7 and 8, and 6, 8 and 10.
NATS, MORE_NODES = 4.0, 3
#: Complex numbers in one batch of draws: a few of them stay in the processor's cache.
BATCH = 50000
#: Largest |score| for which the error bound was checked, and the number of nodes stays small.
WIDEST = 200.0
#: Bounds up to which weights are fitted, and the steps in which a bound is rounded up: few sums are then made.
FITTED, ROUNDED = 16.0, 0.5
#: By how much half a period exceeds the bound: of 0.5 to 20 those that took the fewest sines, for eps of 1e-8 and
#: 1e-12, were 2.5, 2, 1.5 and 1 at bounds of 2, 4, 6 and 10.
BEYOND = 2.0
#: Share of eps that a fit may miss by on the points where it is checked.
LEFT = 0.5


def score_bound(intercept: float, at_x: FloatArray, at_draws: FloatArray) -> float:
    """Largest |score| over all mixes of x and a draw, from player parts `(players,)` and `(draws, players)`."""
    high = intercept + np.maximum(at_x, at_draws).sum(axis=1)
    low = intercept + np.minimum(at_x, at_draws).sum(axis=1)
    return float(max(np.abs(high).max(), np.abs(low).max()))


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
    values, full = np.empty(at_draws.shape), enough_nodes(len(at_x))
    n_nodes = min(full, math.ceil((math.log(1.0 / precision) + bound) / NATS))
    step = max(1, BATCH // (len(frequencies) * max(1, len(at_x))))
    for start in range(0, len(at_draws), step):
        part = at_draws[start : start + step].T  # (p, draws)
        turns = powers(frequencies, 0.5 * (at_x[:, None] - part))
        centre = intercept + 0.5 * (at_x.sum() + part.sum(axis=0))
        wave = 2.0 * weights[:, None] * np.cos(frequencies[:, None] * centre)  # (terms, draws)
        ends = expit(intercept + at_x.sum()) - expit(intercept + part.sum(axis=0))
        waves = turns.imag * wave
        while True:
            here = np.einsum("jmu,jmu->uj", waves, integrals(turns, n_nodes))
            # the sines themselves are off by at most `precision` at either end
            if n_nodes >= full or np.abs(here.sum(axis=1) - ends).max() <= 3.0 * precision:
                break
            n_nodes = min(full, n_nodes + MORE_NODES)
        values[start : start + step] = here
    return values


def logistic_interactions(
    intercept: float, at_x: FloatArray, at_draws: FloatArray, precision: float = PRECISION
) -> FloatArray:
    """Pairwise interactions `(players, players)` of the probability, mean over draws; arguments as `logistic_values`.

    Without the node t = 1/2 no factor is 0, so that the product of all but two is that of all, divided: the pairs are
    then one product of matrices.
    """
    frequencies, weights = logistic_nodes(score_bound(intercept, at_x, at_draws), precision)
    p, index = len(at_x), np.zeros((len(at_x), len(at_x)))
    nodes, node_weights = (2.0 * part for part in gauss_nodes(2 * max(1, -(-(p - 1) // 4))))  # on (0, 2)
    step = max(1, BATCH // (len(frequencies) * p))
    for start in range(0, len(at_draws), step):
        part = at_draws[start : start + step].T
        turns = powers(frequencies, 0.5 * (at_x[:, None] - part)).reshape(p, -1)  # (p, terms * draws)
        centre = intercept + 0.5 * (at_x.sum() + part.sum(axis=0))
        wave = (-4.0 * weights[:, None] * np.sin(frequencies[:, None] * centre)).reshape(-1)
        for node, weight in zip(nodes, node_weights, strict=True):
            if node > 1.0:  # those of 2 - node are conjugate
                factors = turns.real + 1j * (node - 1.0) * turns.imag
                ratios = turns.imag / factors
                index += ((ratios * (weight * wave * factors.prod(axis=0))) @ ratios.T).real
    np.fill_diagonal(index, 0.0)
    return index / len(at_draws)


def powers(frequencies: FloatArray, angles: FloatArray) -> AnyArray:
    """`exp(i w angle)`, `(players, terms, draws)`: equal steps of w are turns by the same angle."""
    turns = np.empty((len(angles), len(frequencies), angles.shape[1]), dtype=np.complex128)
    turns[:, 0] = np.exp(1j * frequencies[0] * angles)
    turn = np.exp(2j * frequencies[0] * angles)  # the first frequency is half a step
    for m in range(1, len(frequencies)):
        np.multiply(turns[:, m - 1], turn, out=turns[:, m])
    return turns


def integrals(turns: Array, n_nodes: int) -> Array:
    """Integrals over t of the products of all `cos(w d_k) + i (2t - 1) sin(w d_k)` but one, which are real.

    Nodes t and 1 - t have conjugate products, so that half of the nodes are enough.
    """
    xp = namespace(turns)
    nodes, weights = (part.tolist() for part in gauss_nodes(n_nodes))
    factors, total = turns + 0.0, xp.zeros_like(turns.real)
    for node, weight in zip(nodes, weights, strict=True):
        if abs(node - 0.5) < 1e-9:
            total += weight * leave_one_out(turns.real + 0.0)
        elif node > 0.5:
            xp.multiply(turns.imag, 2.0 * node - 1.0, out=factors.imag)
            total += 2.0 * weight * leave_one_out(factors).real
    return total


def enough_nodes(n_players: int) -> int:
    """Nodes that integrate polynomials of degree n_players - 1 exactly."""
    return max(1, (n_players + 1) // 2)


def unit_nodes(n_players: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on (0, 1) that integrate polynomials of degree n_players - 1 exactly."""
    return gauss_nodes(enough_nodes(n_players))


@cache
def gauss_nodes(n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on (0, 1); not to be written to."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    return 0.5 * (nodes + 1.0), 0.5 * weights


def leave_one_out(factors: Array, out: Array | None = None) -> Array:
    """Products over axis 0 (players) of all real or complex factors but one, by prefix times suffix.

    Dividing the total by a factor would lose everything near a factor of zero.
    """
    xp = namespace(factors)
    products = xp.empty_like(factors) if out is None else out
    products[0] = 1.0
    for j in range(len(factors) - 1):
        xp.multiply(products[j], factors[j], out=products[j + 1])
    running = factors[-1] + 0.0
    for j in range(len(factors) - 2, -1, -1):
        products[j] *= running
        running *= factors[j]
    return products


def logistic_nodes(bound: float, precision: float) -> tuple[FloatArray, FloatArray]:
    """Frequencies, which are equally spaced from half a step, and weights; not to be written to."""
    return _nodes(max(1, math.ceil(bound / ROUNDED)) * ROUNDED, precision)


@lru_cache(256)
def _nodes(bound: float, precision: float) -> tuple[FloatArray, FloatArray]:
    frequencies, weights = midpoint_nodes(bound, precision)
    if bound > FITTED:
        return frequencies, weights
    step = math.pi / (bound + BEYOND)
    for n_terms in range(math.ceil(bound), len(weights)):
        fewer = step * (np.arange(n_terms) + 0.5)
        # more points near the ends, where a fit is worst
        points = bound * np.cos(np.linspace(0.0, 0.5 * math.pi, 8 * n_terms + 16))
        fitted = np.linalg.lstsq(np.sin(points[:, None] * fewer), expit(points) - 0.5, rcond=1e-15)[0]
        between = np.linspace(0.0, bound, 64 * n_terms)
        missed = np.sin(between[:, None] * fewer) @ fitted - (expit(between) - 0.5)
        if np.abs(missed).max() <= LEFT * precision:
            return fewer, fitted
    return frequencies, weights


def midpoint_nodes(bound: float, precision: float) -> tuple[FloatArray, FloatArray]:
    """Nodes of the midpoint rule."""
    digits = math.log(1.0 / precision)
    step = 2.0 * math.pi / (bound + digits + 0.7)
    n_nodes = math.ceil((digits + 0.2) / math.pi / step)
    frequencies = step * (np.arange(n_nodes) + 0.5)
    return frequencies, step / np.sinh(math.pi * frequencies)
