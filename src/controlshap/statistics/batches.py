"""Running sums over batches of units, whose memory does not grow with the number of units. Arrays only.

A batch is a run of consecutive visits to one block (of consecutive units, where draws are independent). A block has a
fixed number of places for batches. When these are full, neighbouring batches of the block are joined, so that each
holds twice as many units; batches of other blocks stay as they are. Which units share a batch depends on the number of
units alone. Means of batches serve as units do, with their sizes (`TwoStageDesign.sizes`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from controlshap._arrays import sum_by
from controlshap._types import FloatArray, IntArray
from controlshap.statistics import two_stage
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import UnitIds

_Array = TypeVar("_Array", FloatArray, IntArray)

#: Fewest places of a block: when its batches are joined, two or more are left, which show the variance within.
FEWEST_PLACES = 4


@dataclass
class Batches:
    """Sums over batches.

    Attributes
    ----------
    n_blocks : int
        Blocks of a finite background; one where draws are independent.
    sizes : ndarray of shape (n_blocks,)
        Units of a full batch of each block.
    counts : ndarray of shape (n_blocks, places)
    sums : ndarray of shape (n_blocks, places, ...)
        Made with the first units.
    """

    n_blocks: int
    sizes: IntArray = field(init=False)
    counts: IntArray = field(init=False)
    sums: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        places = max(FEWEST_PLACES, two_stage.MANY_UNITS // self.n_blocks)
        self.sizes = np.ones(self.n_blocks, dtype=np.int64)
        self.counts = np.zeros((self.n_blocks, places - places % 2), dtype=np.int64)

    def add(self, units: UnitIds, values: FloatArray) -> None:
        """Add the terms of units, `(units, ...)`."""
        places = self.counts.shape[1]
        if not hasattr(self, "sums"):
            self.sums = np.zeros((*self.counts.shape, *values.shape[1:]))
        while (full := units.rank >= self.sizes[units.block] * places).any():
            blocks = np.unique(units.block[full])
            self.counts[blocks], self.sums[blocks] = _pair_up(self.counts[blocks]), _pair_up(self.sums[blocks])
            self.sizes[blocks] *= 2
        numbers, index = np.unique(units.block * places + units.rank // self.sizes[units.block], return_inverse=True)
        index = index.reshape(-1)
        self.counts.reshape(-1)[numbers] += np.bincount(index)
        flat = self.sums.reshape(-1, *self.sums.shape[2:])  # a view
        flat[numbers] += sum_by(index, values, len(numbers))

    def empty_like(self) -> Batches:
        """Batches of the same blocks, without units yet."""
        return Batches(self.n_blocks)

    def means(self) -> FloatArray:
        """Means of the batches that have units, block by block."""
        used = self.counts > 0
        return self.sums[used] / self.counts[used].reshape(-1, *[1] * (self.sums.ndim - 2))

    def unit_weights(self, design: TwoStageDesign) -> FloatArray:
        """Weight of a unit of each block, `(n_blocks,)`, the same for all units of a block."""
        block, place = np.nonzero(self.counts)
        weights = np.zeros(self.n_blocks)
        weights[block] = design.weights / self.counts[block, place]
        return weights

    def design(self, population: float) -> TwoStageDesign:
        """The design of the batches."""
        block, place = np.nonzero(self.counts)
        sizes = self.counts[block, place]
        if math.isinf(population):
            return TwoStageDesign(np.arange(len(sizes)), sizes=sizes)
        return TwoStageDesign(block, population, sizes=sizes)


def _pair_up(values: _Array) -> _Array:
    """Join neighbouring batches, which leaves the second half of the places free."""
    paired = np.zeros_like(values)
    paired[:, : values.shape[1] // 2] = values[:, ::2] + values[:, 1::2]
    return paired
