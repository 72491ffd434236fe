"""Small array operations that several rooms share."""

from __future__ import annotations

import numpy as np

from controlshap._types import IntArray


def ranks(permutations: IntArray) -> IntArray:
    """Position of each player in each permutation, shape of `permutations`."""
    return np.argsort(permutations, axis=-1)
