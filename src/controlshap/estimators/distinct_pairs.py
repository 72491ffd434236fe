"""Pairs of coalitions, each at most once: the sizes in proportion to the kernel's weight, until they are used up.

A pair is a coalition of at most half of the players and its complement. With W_s the kernel's weight of the pairs of
size s, the next pair has the size of the largest `W_s / (k_s + u_s)`, where k_s pairs of the size were taken and u_s is
uniform (a divisor method, as seats are given to parties). Of n pairs a size therefore has its share, or all that there
are: the smallest (and with them the largest) sizes are taken whole as soon as their weight pays for it, and what they
leave goes to the others. A longer sequence begins with a shorter one, so a run can go on.

Within a size pairs are dealt like cards: a shuffled deck of all players is cut into coalitions, so that each player is
met equally often. Every pair of a size has the same chance to be among its first k, whatever k.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.statistics.size_strata import count_pairs, pair_weights


def deal_pairs(n_players: int, n: int, rng: np.random.Generator) -> BoolArray:
    """The smaller halves `(n, players)` of the first n pairs; fewer where there are no more.

    An equal generator gives a sequence that begins in the same way.
    """
    order = _sizes_in_order(n_players, n, rng.random(n_players // 2))
    streams = [np.random.default_rng(int(seed)) for seed in rng.integers(0, 2**62, n_players // 2)]
    coalitions = np.zeros((len(order), n_players), dtype=bool)
    for size in np.unique(order):
        places = np.flatnonzero(order == size)
        coalitions[places] = _deal_size(n_players, int(size), len(places), streams[size - 1])
    return coalitions


def _sizes_in_order(n_players: int, n: int, offsets: FloatArray) -> IntArray:
    """Size of each pair: those of the n largest `W_s / (k + u_s)`, in decreasing order."""
    quotients, sizes = [], []
    for place, (weight, count) in enumerate(zip(pair_weights(n_players), count_pairs(n_players), strict=True)):
        k = np.arange(min(count, n))
        quotients.append(weight / (k + offsets[place]))
        sizes.append(np.full(len(k), place + 1))
    order = np.argsort(-np.concatenate(quotients), kind="stable")[:n]
    return np.asarray(np.concatenate(sizes)[order])


def _deal_size(n_players: int, size: int, n: int, rng: np.random.Generator) -> BoolArray:
    """The first n different coalitions of a size; of half of the players, none with its complement."""
    total, halves = count_pairs(n_players)[size - 1], 2 * size == n_players
    seen: set[frozenset[int]] = set()
    dealt: list[tuple[int, ...]] = []
    deck: list[int] = []
    everyone = frozenset(range(n_players))

    def key_of(players: tuple[int, ...]) -> frozenset[int]:
        # of two complementary halves the one with the first player
        chosen = frozenset(players)
        return everyone - chosen if halves and 0 not in chosen else chosen

    while len(dealt) < n and 2 * len(dealt) < total:
        if len(deck) < size:
            left = deck
            deck = [player for player in rng.permutation(n_players).tolist() if player not in left] + left
        hand, deck = tuple(deck[len(deck) - size :]), deck[: len(deck) - size]
        if (key := key_of(hand)) not in seen:
            seen.add(key)
            dealt.append(hand)
    if len(dealt) < n:  # more than half are known: the others in random order
        others = [hand for hand in combinations(range(n_players), size) if key_of(hand) not in seen]
        others = [hand for hand in others if not halves or 0 in hand]
        dealt += [others[k] for k in rng.permutation(len(others))[: n - len(dealt)]]
    coalitions = np.zeros((n, n_players), dtype=bool)
    np.put_along_axis(coalitions, np.array(dealt[:n], dtype=np.int64).reshape(n, size), True, axis=1)
    return coalitions
