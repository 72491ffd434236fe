"""Few permutations whose prefixes are all coalitions.

Greene and Kleitman's chains: read a coalition as brackets, a player outside opening and one inside closing. The players
whose brackets match stay as they are along a chain; the others join from left to right. Every coalition is in one
chain, and there are `C(p, p // 2)` of them, the fewest there can be.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np

from controlshap._types import BoolArray, IntArray


def n_chains(n_players: int) -> int:
    """Permutations that it takes."""
    return comb(n_players, n_players // 2)


@lru_cache(maxsize=8)
def chains(n_players: int) -> tuple[IntArray, BoolArray]:
    """Permutations `(chains, p)`, and which of their prefixes `(chains, p + 1)` are met in no other chain."""
    permutations = np.empty((n_chains(n_players), n_players), dtype=np.int64)
    own = np.zeros((len(permutations), n_players + 1), dtype=bool)
    # what brackets may become from left to right: players inside for good, outside for good, and not matched yet
    found: list[tuple[list[int], list[int], list[int]]] = [([], [], [])]
    for player in range(n_players):
        longer = []
        for inside, outside, free in found:
            longer.append((inside, outside, [*free, player]))
            if free:
                longer.append(([*inside, player], [*outside, free[-1]], free[:-1]))
        found = longer
    for number, (inside, outside, free) in enumerate(found):
        permutations[number] = inside + free + outside
        own[number, len(inside) : len(inside) + len(free) + 1] = True
    return permutations, own
