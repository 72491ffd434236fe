"""Every permutation, and every coalition with its weight: estimators tested without randomness."""

from __future__ import annotations

from itertools import permutations
from math import comb

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.estimators.enumeration import all_coalitions
from controlshap.estimators.kernel import size_probabilities


def every_permutation(n_players: int) -> IntArray:
    """All p! permutations, shape (p!, p)."""
    return np.array(list(permutations(range(n_players))), dtype=np.int64)


def every_coalition(n_players: int) -> tuple[BoolArray, FloatArray]:
    """All coalitions but the empty and the full one, with their kernel probabilities."""
    coalitions = all_coalitions(n_players)[1:-1]
    sizes = coalitions.sum(axis=1)
    per_size = size_probabilities(n_players)
    counts = np.array([comb(n_players, int(s)) for s in sizes])
    return coalitions, per_size[sizes - 1] / counts
