"""The Shapley interaction index as a weighted sum over coalitions.

With s the size of a coalition U, uniform among those of its size, each size adds

    w_ij(U) v(U),        w = p/(s (s-1)) where U holds both i and j, p/((p-s) (p-s-1)) neither, -p/(s (p-s)) one of them

to I_ij in expectation. A constant has no interactions: with `(v(0) + v(all))/2` taken off, both ends add nothing.
"""

from __future__ import annotations

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray


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
    p = coalitions.shape[2]
    size = coalitions.sum(axis=2)
    with np.errstate(divide="ignore"):
        both = np.where(size > 1, p / (size * (size - 1.0)), 0.0)
        neither = np.where(p - size > 1, p / ((p - size) * (p - size - 1.0)), 0.0)
    one = -p / (size * (p - size))
    scale = weights * values
    return pair_sums(coalitions, scale * both, scale * neither, scale * one)


def pair_sums(coalitions: BoolArray, both: FloatArray, neither: FloatArray, one: FloatArray) -> FloatArray:
    """Sums `(u, pairs)` of coefficients `(u, k)`, by how many of a pair are in coalitions `(u, k, players)`."""
    inside = coalitions.astype(float)
    outside = 1.0 - inside
    total = (inside * (both - one)[..., None]).swapaxes(1, 2) @ inside
    total += (outside * (neither - one)[..., None]).swapaxes(1, 2) @ outside
    first, second = pair_numbers(coalitions.shape[2])
    return np.asarray(total[:, first, second] + one.sum(axis=1)[:, None])
