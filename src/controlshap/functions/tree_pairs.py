"""Pairwise interactions of leaves from counts of patterns, as products of matrices.

With the notation of `functions/tree_patterns.py`, a leaf whose pattern of the row is q is worth something for a draw
that satisfies all of `~q` and all of q but a subset A. What two of the leaf's factors get then depends on how many
factors are in q, on A and on which side the two are, but not on the leaf: the shares of the draws that lack each A,
leaves by subsets, times a table, subsets by pairs, are the interactions of all leaves with equally many factors in q.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special

from controlshap._types import FloatArray, IntArray


def leaf_weights(most: int) -> tuple[FloatArray, FloatArray]:
    """Weights of a leaf for two of `a` factors of x only beside `b` of the draw only, and for one of each.

    `(a-2)! b! / (a+b-1)!` and `(a-1)! (b-1)! / (a+b-1)!`, of which the second is taken off; 0 where there is no such
    pair.
    """
    a, b = np.arange(most + 1)[:, None], np.arange(most + 1)[None]
    with np.errstate(divide="ignore", invalid="ignore"):
        both = np.where(a > 1, 1.0 / ((a - 1) * special.binom(a + b - 1, b)), 0.0)
        mixed = np.where((a > 0) & (b > 0), 1.0 / ((a + b - 1) * special.binom(a + b - 2, a - 1)), 0.0)
    return both, mixed


def pairs_of_leaves(shares: FloatArray, of_x: IntArray, k: int) -> list[tuple[IntArray, IntArray, FloatArray]]:
    """Interactions of leaves of k factors for one row, as parts of the leaves' values.

    Parameters
    ----------
    shares : ndarray of shape (n, 2^k)
        Parts of the draws that have each pattern.
    of_x : ndarray of shape (n,)
        The row's patterns.

    Returns
    -------
    list of (ndarray (m,), ndarray (m, pairs), ndarray (m, pairs))
        Numbers of leaves that are worth something for a draw, the order in which the k (k - 1) / 2 pairs of their
        factors come (`np.triu_indices` has the numbers), and the weights of these.
    """
    orders, subsets = _arrangements(k)
    sizes = np.bitwise_count(of_x)
    found: list[tuple[IntArray, IntArray, FloatArray]] = []
    for size in range(k + 1):
        leaves = np.flatnonzero(sizes == size)
        which = of_x[leaves]
        lacking = shares[leaves[:, None], subsets[size][which]]
        alive = np.flatnonzero(lacking @ np.ones(1 << size))
        weights = lacking[alive] @ _subset_weights(size, k - size)
        found.append((leaves[alive], orders[which[alive]], weights))
    return found


@lru_cache(maxsize=16)
def _arrangements(k: int) -> tuple[IntArray, list[IntArray]]:
    """For all patterns of k factors: the order of pairs in which factors in the pattern are first, and draws' patterns.

    The second has an array `(2^k, 2^size)` for each number of factors in a pattern, of which rows with other numbers
    are not filled: for each subset A of the pattern's factors, all factors but A.
    """
    patterns, (first, second) = np.arange(1 << k), np.triu_indices(k, 1)
    inside = (patterns[:, None] >> np.arange(k)) & 1
    order = np.argsort(1 - inside, axis=1, kind="stable")
    numbers = np.zeros((k, k), dtype=np.intp)
    numbers[first, second] = numbers[second, first] = np.arange(len(first))
    subsets = []
    for size in range(k + 1):
        own = np.flatnonzero(inside.sum(axis=1) == size)
        members = (np.arange(1 << size)[:, None] >> np.arange(size)) & 1
        of_size = np.zeros((1 << k, 1 << size), dtype=np.intp)
        of_size[own] = (1 << k) - 1 - (1 << order[own, :size]) @ members.T
        subsets.append(of_size)
    return numbers[order[:, first], order[:, second]], subsets


@lru_cache(maxsize=256)
def _subset_weights(size: int, n_failed: int) -> FloatArray:
    """Weights `(2^size, pairs)` of the pairs of factors, of which the first `size` are satisfied by the row.

    Rows are the subsets of these that a draw does not satisfy.
    """
    both, mixed = leaf_weights(size + n_failed)
    first, second = np.triu_indices(size + n_failed, 1)
    lacking = ((np.arange(1 << size)[:, None] >> np.arange(size + n_failed)) & 1).astype(float)
    n_lacking = lacking.sum(axis=1).astype(np.intp)
    of_x = lacking[:, first] * lacking[:, second] * both[n_lacking, n_failed][:, None]
    of_mixed = -lacking[:, first] * mixed[n_lacking, n_failed][:, None]
    of_draws = np.repeat(both[n_failed, n_lacking][:, None], len(first), axis=1)
    weights: FloatArray = np.where(second < size, of_x, np.where(first < size, of_mixed, of_draws))
    return weights
