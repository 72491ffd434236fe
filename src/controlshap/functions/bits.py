"""Flags of many rows as bits, 64 to a word, and runs of equal keys."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from controlshap._types import BoolArray, IntArray

Words: TypeAlias = npt.NDArray[np.uint64]
"""Bits, 64 rows to a word."""
_Scalar = TypeVar("_Scalar", bound=np.generic)


def run_starts(keys: IntArray) -> IntArray:
    """Where a run of equal keys begins."""
    starts = np.ones(len(keys), dtype=bool)
    starts[1:] = keys[1:] != keys[:-1]
    return np.flatnonzero(starts)


def reduce_runs(operation: np.ufunc, array: npt.NDArray[_Scalar], starts: IntArray) -> npt.NDArray[_Scalar]:
    """Reduce runs along the last axis; unlike `reduceat`, also where there are none."""
    if not len(starts):
        return array[..., :0]
    reduced: npt.NDArray[_Scalar] = operation.reduceat(array, starts, axis=-1)
    return reduced


def pack_bits(flags: BoolArray) -> Words:
    """Flags `(n, rows)` as bits `(words, n)`."""
    n_words = -(-flags.shape[1] // 64)
    octets = np.zeros((len(flags), 8 * n_words), dtype=np.uint8)
    octets[:, : -(-flags.shape[1] // 8)] = np.packbits(flags, axis=1, bitorder="little")
    return np.ascontiguousarray(octets.view(np.uint64).T)


def unpack_bits(words: Words, n_rows: int) -> BoolArray:
    """Bits `(..., words, n)` as flags `(..., n, n_rows)`."""
    octets = np.ascontiguousarray(words.swapaxes(-1, -2)).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=n_rows, bitorder="little").view(np.bool_)


def count_bits(words: Words) -> IntArray:
    """Bits set in `(levels, words, n)`, as `(levels, n)`."""
    counts: IntArray = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
    return counts
