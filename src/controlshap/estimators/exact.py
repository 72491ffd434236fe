"""Shapley values by enumeration: the oracle of the tests and the estimator for few players."""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np

from controlshap._types import BoolArray, FloatArray

#: Beyond this many players the table of coalitions is never built.
MOST_PLAYERS = 20


@lru_cache(maxsize=8)
def all_coalitions(n_players: int) -> BoolArray:
    """All 2^p coalitions; bit j of the row number says whether player j is revealed."""
    numbers = np.arange(2**n_players)
    return ((numbers[:, None] >> np.arange(n_players)) & 1).astype(bool)


@lru_cache(maxsize=8)
def shapley_matrix(n_players: int) -> FloatArray:
    """The matrix that turns the 2^p values of a game into its Shapley values (the paper's equation 2).

    Entry (j, S) is `1/(p C(p-1, |S|-1))` where j is in S and `-1/(p C(p-1, |S|))` where it is not.
    """
    coalitions = all_coalitions(n_players)
    sizes = coalitions.sum(axis=1)
    weight = np.array([1.0 / (n_players * comb(n_players - 1, s)) for s in range(n_players)])
    with_player = np.where(sizes > 0, weight[np.maximum(sizes - 1, 0)], 0.0)
    without = np.where(sizes < n_players, weight[np.minimum(sizes, n_players - 1)], 0.0)
    return np.where(coalitions.T, with_player, -without)


def shapley_values(table: FloatArray) -> FloatArray:
    """Shapley values of a game given as a table.

    Parameters
    ----------
    table : ndarray of shape (2**p, ...)
        Values of the coalitions in the order of `all_coalitions`.

    Returns
    -------
    ndarray of shape (p, ...)

    Examples
    --------
    A pair is worth 1, alone they are worth nothing:

    >>> import numpy as np
    >>> shapley_values(np.array([0.0, 0.0, 0.0, 1.0]))
    array([0.5, 0.5])
    """
    n_players = int(np.log2(len(table)))
    values: FloatArray = np.tensordot(shapley_matrix(n_players), table, axes=1)
    return values
