"""Binary columns as a latent Gaussian that is cut before the model sees it.

The latent column has the mean and variance of the binary one; the cut is placed so that it exceeds the
cut as often as the background holds the larger value. The code of an explained row lies on its own side of
the cut, so x enters as it is. A one-hot block shows its largest level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from controlshap._types import FloatArray, IntArray
from controlshap.data.players import Players, one_hot_players
from controlshap.values.conditioning import Moments


@dataclass(frozen=True)
class Thresholds:
    """Where latent columns are cut.

    Attributes
    ----------
    columns : ndarray of shape (n_binary,)
    cuts, low, high : ndarray of shape (n_binary,)
    blocks : tuple of ndarray
        Columns of each one-hot block.
    """

    columns: IntArray
    cuts: FloatArray
    low: FloatArray
    high: FloatArray
    blocks: tuple[IntArray, ...]

    def apply(self, rows: FloatArray) -> FloatArray:
        """Model inputs for latent rows `(n, columns)`."""
        inputs = rows.copy()
        latent = rows[:, self.columns]
        inputs[:, self.columns] = np.where(latent > self.cuts, self.high, self.low)
        for block in self.blocks:
            largest = rows[:, block].argmax(axis=1)
            inputs[:, block] = np.arange(len(block)) == largest[:, None]
        return inputs


def find_thresholds(background: FloatArray, players: Players, moments: Moments) -> Thresholds:
    """Binary columns (two values in the background) outside one-hot blocks, and the blocks."""
    blocks = tuple(players.columns[j] for j in one_hot_players(players, background))
    in_block = set(np.concatenate(blocks).tolist()) if blocks else set()
    columns, cuts, low, high = [], [], [], []
    for column in range(background.shape[1]):
        levels = np.unique(background[:, column])
        if column in in_block or len(levels) != 2:
            continue
        share = float((background[:, column] == levels[1]).mean())
        cut = moments.mean[column] + moments.spread[column] * float(ndtri(1.0 - share))
        columns.append(column)
        low.append(levels[0])
        high.append(levels[1])
        cuts.append(cut)
    return Thresholds(np.array(columns, dtype=np.int64), np.array(cuts), np.array(low), np.array(high), blocks)
