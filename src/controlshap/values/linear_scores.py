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
from controlshap.values.gaussian import GaussianImputer

#: Doubles of the factors of walks that go along together: each step is one call of numpy for all of them.
BATCH_DOUBLES = 2**19


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
    """Means `(u, 1 + draws, players + 1, n)` from mu and from each draw, and variances `(u, players + 1, n)`.

    Walks are on the last axis of all arrays in between, and of the memory of the results.
    """
    u, p = permutations.shape
    n, c = weights.shape
    n_starts = 1 if draws is None else 1 + draws.shape[1]
    means, variances = np.zeros((n_starts, n, p + 1, u)), np.zeros((n, p + 1, u))
    used = np.flatnonzero(weights.any(axis=1))
    moments, half = imputer.moments, c // 2
    scaled = weights[used] * moments.scale
    spread = weights[used] * moments.spread  # 0 for constant columns: they move the mean, and do not vary
    gap = (x - moments.mean) / moments.scale
    at_start, at_x = (weights[used] @ moments.mean)[:, None, None], (weights[used] @ x)[:, None, None]
    total = np.einsum("nc,cd,nd->n", spread, moments.correlation, spread)[:, None, None]
    of_revealed = np.concatenate([gap[None], scaled @ moments.correlation])
    of_hidden = np.concatenate([(imputer.precision @ gap)[None], scaled])
    varies = moments.spread > 0
    step = max(1, BATCH_DOUBLES // (1 + half * (half + 3 * n_starts * (n_starts + len(of_hidden)))))
    for first in range(0, u, step) if len(used) else ():
        part = slice(first, first + step)
        order = np.ascontiguousarray(imputer.players.column_order(permutations[part]).T)  # (c, u)
        start, back = order[:half], order[::-1][:half]
        starts, gaps, hidden_gaps = at_start, None, None
        if draws is not None:
            gaps = (x - draws[part]) / moments.scale
            hidden_gaps = gaps @ imputer.precision
            of_draws = np.einsum("udc,nc->dnu", draws[part], weights[used])[:, :, None]  # (d, n, 1, u)
            from_mean = np.broadcast_to(at_start, (1, *of_draws.shape[1:]))
            starts = np.concatenate([from_mean, of_draws])
        shift, known = _running(imputer.substitute(start, of_revealed, gaps), n_starts, varies[start])
        missed, left = _running(imputer.substitute(back, of_hidden, hidden_gaps, inverse=True), n_starts, varies[back])
        ends = imputer.players.count_columns(permutations[part]).T  # (p + 1, u)
        means[:, used, :, part] = _join(starts + shift, at_x - missed, ends)
        variances[used, :, part] = _join(np.maximum(total - known, 0.0), left, ends)
    return means.transpose(3, 0, 2, 1), variances.transpose(2, 1, 0)


def _running(found: FloatArray, n_starts: int, varies: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Sums over the first k columns: starts times loads `(starts, n, h + 1, u)`, loads squared `(n, h + 1, u)`."""
    loads, sums = found[n_starts:], []
    for products in (loads * found[:n_starts, None], (loads * varies) ** 2):
        running = np.zeros((*products.shape[:-2], products.shape[-2] + 1, products.shape[-1]))
        np.cumsum(products, axis=-2, out=running[..., 1:, :])
        sums.append(running)
    return sums[0], sums[1]


def _join(revealed: FloatArray, hidden: FloatArray, ends: IntArray) -> FloatArray:
    """Values `(..., h + 1, u)` for so many columns from the start, and from the end, at the `ends` (k, u)."""
    half, c = revealed.shape[-2] - 1, int(ends[-1, 0])
    both = np.concatenate([revealed, hidden[..., : c - half, :][..., ::-1, :]], axis=-2)  # (..., c + 1, u)
    if len(ends) == c + 1:  # players of one column each
        return both
    return np.take_along_axis(both, ends.reshape(*[1] * (both.ndim - 2), *ends.shape), axis=-2)


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
