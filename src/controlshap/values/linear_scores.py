"""Mean and variance of a linear score `w . row(S)` under the conditioned Gaussian, where it is normal.

With z the standardised columns, R their correlation, P = R^-1, w in their units and e = (x - mu) / scale:

    revealed S:    E z.w = (R w)_S' R_SS^-1 e_S              var = w'R w - (R w)_S' R_SS^-1 (R w)_S
    hidden H:      E z.w = e.w - w_H' P_HH^-1 (P e)_H        var = w_H' P_HH^-1 w_H

Along a permutation the blocks R_SS, and from its end the blocks P_HH, grow by columns: one Cholesky factor K has them
all, and a form `a_S' R_SS^-1 b_S` is a running sum of the products of `K^-1 a` and `K^-1 b`. Prefixes of at most half
of the columns take the first way and longer ones the second, so that both factors have half of the columns: a quarter
of the work of one factor of all.
"""

from __future__ import annotations

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.values.gaussian import BATCH_DOUBLES, GaussianImputer


def walk_scores(
    imputer: GaussianImputer, x: FloatArray, permutations: IntArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means and variances `(u, players + 1, n)` of the scores `weights` (n, columns) at every prefix."""
    means, variances = _along(imputer, x, permutations, weights, None)
    return means[:, 0], variances


def draw_scores(
    imputer: GaussianImputer, x: FloatArray, permutations: IntArray, weights: FloatArray, draws: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The same, and in front the scores `(u, draws, players + 1, n)` of the rows that draws `(u, d, columns)` become.

    A row is the conditional mean with the draw in place of mu.
    """
    means, variances = _along(imputer, x, permutations, weights, draws)
    return means[:, 1:], means[:, 0], variances


def _along(
    imputer: GaussianImputer, x: FloatArray, permutations: IntArray, weights: FloatArray, draws: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Means `(u, 1 + draws, players + 1, n)` from mu and from each draw, and variances `(u, players + 1, n)`."""
    u, p = permutations.shape
    n, c = weights.shape
    n_starts = 1 if draws is None else 1 + draws.shape[1]
    means, variances = np.zeros((u, n_starts, p + 1, n)), np.zeros((u, p + 1, n))
    used = np.flatnonzero(weights.any(axis=1))
    moments, half = imputer.moments, c // 2
    scaled = weights[used] * moments.scale
    spread = weights[used] * moments.spread  # 0 for constant columns: they move the mean, and do not vary
    gap = (x - moments.mean) / moments.scale
    at_start, at_x = (weights[used] @ moments.mean)[:, None], (weights[used] @ x)[:, None]
    total = np.einsum("nc,cd,nd->n", spread, moments.correlation, spread)[:, None]
    of_revealed = np.concatenate([gap[None], scaled @ moments.correlation])
    of_hidden = np.concatenate([(imputer.precision @ gap)[None], scaled])
    varies = moments.spread > 0
    step = max(1, BATCH_DOUBLES // (1 + half * (half + 3 * n_starts * (n_starts + len(of_hidden)))))
    for first in range(0, u, step) if len(used) else ():
        part = slice(first, first + step)
        order = imputer.players.column_order(permutations[part])
        ends = np.concatenate(
            [np.zeros((len(order), 1), dtype=np.int64), np.cumsum(imputer.players.sizes[permutations[part]], axis=1)],
            axis=1,
        )
        early = ends <= half  # (u, p + 1)
        start, back = order[:, :half], order[:, ::-1][:, :half]
        starts, gaps, hidden_gaps = at_start, None, None
        if draws is not None:
            gaps = (x - draws[part]) / moments.scale
            hidden_gaps = gaps @ imputer.precision
            of_draws = (draws[part] @ weights[used].T)[..., None]  # (u, d, n, 1)
            starts = np.concatenate([np.broadcast_to(at_start, (len(order), 1, *at_start.shape)), of_draws], axis=1)
        shift, known = _running(
            imputer.substitute(start, of_revealed, gaps), n_starts, varies[start], np.where(early, ends, 0)
        )
        missed, left = _running(
            imputer.substitute(back, of_hidden, hidden_gaps, inverse=True),
            n_starts,
            varies[back],
            np.where(early, 0, c - ends),
        )
        mean = np.where(early[:, None, None], starts + shift, at_x - missed)  # (u, starts, n, p + 1)
        variance = np.where(early[:, None], np.maximum(total - known, 0.0), left)
        means[part, :, :, used] = mean.transpose(0, 1, 3, 2)
        variances[part, :, used] = variance.transpose(0, 2, 1)
    return means, variances


def _running(found: FloatArray, n_starts: int, varies: BoolArray, at: IntArray) -> tuple[FloatArray, FloatArray]:
    """Sums over the first `at` (u, k) columns: starts times loads `(u, starts, n, k)`, loads squared `(u, n, k)`."""
    loads = found[:, n_starts:]
    sums = []
    for products in (loads[:, None] * found[:, :n_starts, None], ((loads * varies[:, None]) ** 2)[:, None]):
        running = np.zeros((*products.shape[:3], products.shape[3] + 1))
        np.cumsum(products, axis=3, out=running[..., 1:])
        sums.append(np.take_along_axis(running, at[:, None, None], axis=3))
    return sums[0], sums[1][:, 0]


def coalition_scores(
    imputer: GaussianImputer, x: FloatArray, coalitions: BoolArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means and variances `(u, k, n)` of the scores given coalitions `(u, k, players)`.

    With x at the origin, `row(S) - b` is `A_S (-b)`: the draws `-(x - mu)` and `-Sigma w` give the shift of the mean
    and the part of the variance that S explains.
    """
    spread = weights @ imputer.moments.covariance  # (n, c)
    directions = -np.concatenate([(x - imputer.moments.mean)[None], spread])
    u = len(coalitions)
    draws = np.broadcast_to(directions, (u, *directions.shape))
    moved = imputer.coalition_rows(np.zeros_like(x), coalitions, draws) - directions  # (u, k, n + 1, c)
    means = weights @ imputer.moments.mean + moved[:, :, 0] @ weights.T
    total = np.einsum("nc,nc->n", spread, weights)
    explained = np.einsum("uknc,nc->ukn", moved[:, :, 1:], weights)
    return means, np.maximum(total - explained, 0.0)
