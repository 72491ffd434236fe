"""Coalitions from the Shapley kernel (the paper's equation 4)."""

from __future__ import annotations

import numpy as np

from controlshap._types import BoolArray, FloatArray


def size_probabilities(n_players: int) -> FloatArray:
    """Probability of sizes 1 to p - 1, proportional to 1/(s (p - s)).

    The kernel's `1/(C(p, s) s (p - s))` is the probability of one coalition; there are C(p, s) of a size.
    """
    sizes = np.arange(1, n_players)
    weights = 1.0 / (sizes * (n_players - sizes))
    probabilities: FloatArray = weights / weights.sum()
    return probabilities


def sample_coalitions(n_players: int, n_units: int, rng: np.random.Generator) -> BoolArray:
    """Independent coalitions, neither empty nor full, shape (n_units, n_players)."""
    sizes = 1 + rng.choice(n_players - 1, size=n_units, p=size_probabilities(n_players))
    order = rng.permuted(np.tile(np.arange(n_players), (n_units, 1)), axis=1)
    return order < sizes[:, None]
