"""Array aliases, one docstring each. Imports nothing of the library."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
"""Any array of floats (doubles inside the library); the docstring of the function gives the shape."""

IntArray: TypeAlias = npt.NDArray[np.int64]
"""Row numbers, player numbers, permutations."""

BoolArray: TypeAlias = npt.NDArray[np.bool_]
"""Coalitions: `True` where the player (last axis) is revealed."""

AnyArray: TypeAlias = npt.NDArray[Any]
"""What came from a user and has not been converted yet."""
