"""What is known of a linear score `w . row(S)` under the conditioned Gaussian: normal, with a mean and a variance.

Along a permutation with Cholesky factor L the score's mean gains `(w . L_k) e_k` at position k, with
`e = L^-1 (x - mu)`, and its variance is what the positions still to come have: `sum_{i>k} (w . L_i)^2`.
"""

from __future__ import annotations

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.values.gaussian import BATCH_DOUBLES, GaussianImputer


def walk_scores(
    imputer: GaussianImputer, x: FloatArray, permutations: IntArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means and variances `(u, players + 1, n)` of the scores `weights` (n, columns) at every prefix."""
    u, p = permutations.shape
    n, c = weights.shape
    means, variances = np.empty((u, p + 1, n)), np.empty((u, p + 1, n))
    gap = (x - imputer.moments.mean) / imputer.moments.scale
    scaled = (weights * imputer.moments.scale).T  # (c, n)
    spread = (weights * imputer.moments.spread).T  # 0 for constant columns: they move the mean, and do not vary
    start = weights @ imputer.moments.mean
    step = max(1, BATCH_DOUBLES // (c * (c + n)))
    for first in range(0, u, step):
        part = slice(first, first + step)
        order = imputer.players.column_order(permutations[part])
        factors, innovations = imputer.walk_innovations(order, np.broadcast_to(gap, (len(order), 1, c)))
        loads = factors.transpose(0, 2, 1) @ scaled[order]  # (u, c, n): w . L_k
        ends = np.cumsum(imputer.players.sizes[permutations[part]], axis=1)  # (u, p)
        zero = np.zeros((len(order), 1, n))
        gains = np.concatenate([zero, np.cumsum(loads * innovations[:, 0, :, None], axis=1)], axis=1)
        varied = loads if imputer.moments.spread.all() else factors.transpose(0, 2, 1) @ spread[order]
        known = np.concatenate([zero, np.cumsum(varied**2, axis=1)], axis=1)
        at = np.concatenate([np.zeros((len(order), 1), dtype=np.int64), ends], axis=1)[:, :, None]
        means[part] = start + np.take_along_axis(gains, at, axis=1)
        variances[part] = np.maximum(known[:, -1:] - np.take_along_axis(known, at, axis=1), 0.0)
    variances[:, -1] = 0.0
    return means, variances


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
