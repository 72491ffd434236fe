"""Values under an order or a hierarchy by definition: the mean over every permutation that is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from controlshap._types import FloatArray
from controlshap.testing.oracles import GameFunction, remember


def in_order(permutation: Sequence[int], components: Sequence[Sequence[int]]) -> bool:
    """Whether all players of a component come before those of the next."""
    number = {player: k for k, component in enumerate(components) for player in component}
    numbers = [number[player] for player in permutation]
    return numbers == sorted(numbers)


def stay_together(permutation: Sequence[int], groups: Any) -> bool:
    """Whether the players of every group, nested lists of players, stand next to each other."""
    for group in groups:
        if isinstance(group, int):
            continue
        places = [permutation.index(player) for player in _flat(group)]
        if max(places) - min(places) + 1 != len(places) or not stay_together(permutation, group):
            return False
    return True


def _flat(group: Any) -> list[int]:
    return [group] if isinstance(group, int) else [player for inner in group for player in _flat(inner)]


def allowed_orders(n_players: int, components: Any = None, groups: Any = None) -> list[tuple[int, ...]]:
    """All permutations that respect an order and keep groups together."""
    return [
        one
        for one in permutations(range(n_players))
        if (components is None or in_order(one, components)) and (groups is None or stay_together(one, groups))
    ]


def values_over(game: GameFunction, chosen: Iterable[Sequence[int]]) -> FloatArray:
    """Mean over permutations of what each player adds, `(players, outputs)`."""
    v = remember(game)
    totals = []
    for permutation in chosen:
        added, before = [np.zeros(0)] * len(permutation), frozenset[int]()
        for player in permutation:
            added[player] = v(before | {player}) - v(before)
            before = before | {player}
        totals.append(added)
    mean: FloatArray = np.mean(totals, axis=0)
    return mean
