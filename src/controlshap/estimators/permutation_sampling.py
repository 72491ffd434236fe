"""Uniform permutations of the players."""

from __future__ import annotations

import numpy as np

from controlshap._types import IntArray


def sample_permutations(n_players: int, n_units: int, rng: np.random.Generator) -> IntArray:
    """Independent uniform permutations, shape (n_units, n_players)."""
    return rng.permuted(np.tile(np.arange(n_players), (n_units, 1)), axis=1)
