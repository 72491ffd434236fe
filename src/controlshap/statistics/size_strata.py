"""Distinct pairs of coalitions as a sample without replacement from those of each size. Arrays only.

A pair is a coalition and its complement. In a regression over pairs drawn without replacement, n_s of the N_s pairs of
size s, each pair has the weight `W_s / n_s`, with W_s the kernel's weight of its size, and its part of the variance is
multiplied by `1 - n_s / N_s`: sizes that were taken whole have no error (Cochran, sections 5.3 and 2.6).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray


def n_pairs(n_players: int) -> int:
    """Pairs of a coalition and its complement, without the empty coalition and all players."""
    return int(2 ** (n_players - 1)) - 1


@lru_cache(maxsize=64)
def count_pairs(n_players: int) -> tuple[int, ...]:
    """Pairs whose smaller half has 1, 2, ... players."""
    most = n_players // 2
    return tuple(comb(n_players, s) // (2 if 2 * s == n_players else 1) for s in range(1, most + 1))


def pair_weights(n_players: int) -> FloatArray:
    """Share of the kernel's weight `1/(s (p - s))` that the pairs of each size have together."""
    sizes = np.arange(1, n_players // 2 + 1)
    weights = np.where(2 * sizes == n_players, 1.0, 2.0) / (sizes * (n_players - sizes))
    return np.asarray(weights / weights.sum())


def count_by_size(coalitions: BoolArray) -> IntArray:
    """How many of the coalitions `(n, players)` have 1, 2, ... players in the smaller half."""
    p, inside = coalitions.shape[1], coalitions.sum(axis=1)
    counts: IntArray = np.bincount(np.minimum(inside, p - inside), minlength=p // 2 + 1)[1:]
    return counts


@dataclass(frozen=True)
class SizeStrata:
    """Distinct pairs as a sample without replacement from those of each size.

    Attributes
    ----------
    sizes : ndarray of shape (n,)
        Players of the smaller half of each pair.
    importance : ndarray of shape (n,)
        Weight of a pair in the regression, 1 on average: the kernel's weight of its size over the number of its pairs.
    unseen : ndarray of shape (n,)
        Share of the pairs of its size that were not drawn: 0 where the size is whole.
    """

    sizes: IntArray
    importance: FloatArray
    unseen: FloatArray

    @property
    def is_whole(self) -> bool:
        """Whether no pair is missing."""
        return not self.unseen.any() and len(self.sizes) > 0

    @classmethod
    def of(cls, coalitions: BoolArray) -> SizeStrata:
        """Strata of coalitions `(n, players)`, one of each pair."""
        n, p = coalitions.shape
        inside = coalitions.sum(axis=1)
        sizes = np.minimum(inside, p - inside)
        taken = count_by_size(coalitions)
        there = np.array([float(count) for count in count_pairs(p)])
        weights = np.where(taken > 0, pair_weights(p), 0.0)
        each = n * weights / weights.sum() / np.maximum(taken, 1)
        # the others are not whole because some sizes are missing
        lacking = 1.0 - taken / there if (taken > 0).all() else np.ones(len(there))
        return cls(sizes, each[sizes - 1], lacking[sizes - 1])
