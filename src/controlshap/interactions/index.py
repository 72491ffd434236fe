"""The Shapley interaction index as a weighted sum over coalitions.

With s the size of a coalition U, uniform among those of its size, each size adds

    w_ij(U) v(U),        w = p/(s (s-1)) where U holds both i and j, p/((p-s) (p-s-1)) neither, -p/(s (p-s)) one of them

to I_ij in expectation. A constant has no interactions: with `(v(0) + v(all))/2` taken off, both ends add nothing.
"""

from __future__ import annotations

import math

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.estimators.enumeration import all_coalitions


def pair_numbers(n_players: int) -> tuple[IntArray, IntArray]:
    """First and second player of all pairs, in the order in which pairs are kept."""
    first, second = np.triu_indices(n_players, 1)
    return first, second


def index_terms(coalitions: BoolArray, weights: FloatArray, values: FloatArray) -> FloatArray:
    """Terms `(u, pairs)` of units.

    Parameters
    ----------
    coalitions : ndarray of shape (u, k, players)
        None of them empty or full.
    weights, values : ndarray of shape (u, k)
        See `Estimator.coalition_weights`; values less `(v(0) + v(all))/2`.
    """
    both, neither, one = (weights * values * weight for weight in _index_weights(coalitions))
    return pair_sums(coalitions, both, neither, one)


def table_interactions(table: FloatArray) -> FloatArray:
    """Interactions `(pairs, functions)` of games from the values `(2^players, functions)` of all coalitions."""
    p = table.shape[0].bit_length() - 1
    inner = all_coalitions(p)[1:-1]
    weights = np.array([1.0 / math.comb(p, size) for size in inner.sum(axis=1)])
    level = 0.5 * (table[0] + table[-1])
    return np.stack([index_terms(inner[None], weights[None], of[None])[0] for of in (table[1:-1] - level).T], axis=1)


def squared_weights(coalitions: BoolArray, weights: FloatArray) -> FloatArray:
    """Sums `(u, pairs)` of the squares of what multiplies the values of a unit in its term.

    They have the same expectation for all pairs.
    """
    both, neither, one = ((weights * weight) ** 2 for weight in _index_weights(coalitions))
    return pair_sums(coalitions, both, neither, one)


def _index_weights(coalitions: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """W `(u, k)` of pairs of which both, neither or one are in coalitions `(u, k, players)`."""
    p, size = coalitions.shape[2], coalitions.sum(axis=2)
    with np.errstate(divide="ignore"):
        both = np.where(size > 1, p / (size * (size - 1.0)), 0.0)
        neither = np.where(p - size > 1, p / ((p - size) * (p - size - 1.0)), 0.0)
    return both, neither, -p / (size * (p - size))


def pair_sums(coalitions: BoolArray, both: FloatArray, neither: FloatArray, one: FloatArray) -> FloatArray:
    """Sums `(u, pairs)` of coefficients `(u, k)`, by how many of a pair are in coalitions `(u, k, players)`."""
    inside, (first, second) = coalitions.astype(float), pair_numbers(coalitions.shape[2])
    # neither has i and j with (1 - s_i) (1 - s_j), one of them with the rest: sums of 1, s_i and s_i s_j
    singles = ((one - neither)[:, None] @ inside)[:, 0]
    total = (inside * (both + neither - 2.0 * one)[..., None]).swapaxes(1, 2) @ inside
    sums = total[:, first, second] + singles[:, first] + singles[:, second]
    return np.asarray(sums + neither.sum(axis=1)[:, None])
