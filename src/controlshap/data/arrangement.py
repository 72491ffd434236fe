"""Which permutations of the players there are: those that respect an order, or in which groups stay together.

A tree: its leaves are players; the children of a node stand together, one after the other in their order, or in any
order with the same chance. An order is an ordered root above free nodes (asymmetric values), a hierarchy a free root
above free nodes (Owen's and Winter's values). Without an arrangement the tree is one free node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import comb, prod
from typing import TypeAlias

import numpy as np

from controlshap._arrays import ranks
from controlshap._types import BoolArray, FloatArray, IntArray

#: Most places of players among all coalitions before them, up to which these are listed.
MOST_PLACES = 2**17


@dataclass(frozen=True)
class Node:
    """Players or nodes that stand together; `ordered` ones in this order, others in any."""

    children: tuple[Child, ...]
    ordered: bool = False

    @cached_property
    def members(self) -> IntArray:
        """All players below."""
        return np.concatenate([members_of(child) for child in self.children])


Child: TypeAlias = "Node | int"


def members_of(child: Child) -> IntArray:
    """The players of a child."""
    return child.members if isinstance(child, Node) else np.array([child])


@dataclass(frozen=True)
class Arrangement:
    """The permutations of a tree, all with the same chance.

    Attributes
    ----------
    groups : tuple of (str, tuple of int)
        Named sets of players that stand together, at the top.
    """

    root: Node
    groups: tuple[tuple[str, tuple[int, ...]], ...] = field(default=(), compare=False)

    @property
    def n_players(self) -> int:
        """Number of players."""
        return len(self.root.members)

    def sample(self, n: int, rng: np.random.Generator) -> IntArray:
        """Independent permutations `(n, players)`."""
        places = np.empty((n, self.n_players), dtype=np.int64)

        def fill(node: Node, start: IntArray) -> None:
            k = len(node.children)
            sizes = np.array([len(members_of(child)) for child in node.children])
            ahead = np.broadcast_to(np.cumsum(sizes) - sizes, (n, k))
            if not node.ordered:
                order = rng.permuted(np.tile(np.arange(k), (n, 1)), axis=1)
                ends = np.cumsum(sizes[order], axis=1)
                ahead = np.take_along_axis(ends - sizes[order], ranks(order), axis=1)
            for number, child in enumerate(node.children):
                if isinstance(child, Node):
                    fill(child, start + ahead[:, number])
                else:
                    places[:, child] = start + ahead[:, number]

        fill(self.root, np.zeros(n, dtype=np.int64))
        return ranks(places)

    def reverse(self, permutations: IntArray) -> IntArray:
        """Each permutation with every free node turned round: the permutations are the same taken together."""
        places = ranks(permutations)
        turned = np.empty_like(places)

        def fill(node: Node, old: IntArray, new: IntArray) -> None:
            for child in node.children:
                own = members_of(child)
                start = places[:, own].min(axis=1)
                ahead = start - old if node.ordered else len(node.members) - len(own) - (start - old)
                if isinstance(child, Node):
                    fill(child, start, new + ahead)
                else:
                    turned[:, child] = new + ahead

        nothing = np.zeros(len(places), dtype=np.int64)
        fill(self.root, nothing, nothing)
        return ranks(turned)

    @property
    def n_places(self) -> int:
        """Places of players among coalitions before them: an upper bound of half of the coalitions there are."""

        def count(child: Child, before: int) -> int:
            if not isinstance(child, Node):
                return before
            inner = before if child.ordered else before << (len(child.children) - 1)
            return sum(count(one, inner) for one in child.children)

        return count(self.root, 1)

    @property
    def is_listed(self) -> bool:
        """Whether coalitions are few enough to list."""
        return self.n_places <= MOST_PLACES

    @property
    def coalitions(self) -> BoolArray:
        """All coalitions `(m, players)` that permutations begin with, that of nobody first and that of all last."""
        return _table(self)[0]

    @property
    def matrix(self) -> FloatArray:
        """The matrix `(players, m)` that turns the values of these coalitions into those of players."""
        return _table(self)[1]

    @cached_property
    def precedes(self) -> FloatArray:
        """Chance `(players, players)` that the first player comes before the second; 1/2 for one and the same."""
        chance = np.full((self.n_players, self.n_players), 0.5)

        def fill(node: Node) -> None:
            for number, child in enumerate(node.children):
                if node.ordered and number + 1 < len(node.children):
                    later = np.concatenate([members_of(other) for other in node.children[number + 1 :]])
                    chance[np.ix_(members_of(child), later)] = 1.0
                    chance[np.ix_(later, members_of(child))] = 0.0
                if isinstance(child, Node):
                    fill(child)

        fill(self.root)
        return chance


@cache
def _table(arrangement: Arrangement) -> tuple[BoolArray, FloatArray]:
    """Coalitions and the matrix of values, from every place of every player."""
    p = arrangement.n_players
    everybody = (1 << p) - 1
    numbers = {0: 0}
    entries = []
    for player, before, weight in _places(arrangement.root, {0: 1.0}):
        for coalition, sign in ((before, -weight), (before | 1 << player, weight)):
            entries.append((player, numbers.setdefault(coalition, len(numbers)), sign))
    last = numbers[everybody]
    matrix = np.zeros((p, len(numbers)))
    for player, number, sign in entries:
        matrix[player, number] += sign
    members = np.array([[coalition >> player & 1 for player in range(p)] for coalition in numbers], dtype=bool)
    order = [*(k for k in range(len(numbers)) if k != last), last]
    return members[order], matrix[:, order]


def _places(child: Child, before: dict[int, float]) -> Iterator[tuple[int, int, float]]:
    """Each player below with the coalitions that may come before it, as bits, and their chances."""
    if not isinstance(child, Node):
        yield from ((child, coalition, weight) for coalition, weight in before.items())
        return
    bits = [sum(1 << int(player) for player in members_of(one)) for one in child.children]
    k = len(bits)
    for number, one in enumerate(child.children):
        ahead: dict[int, float] = {}
        if child.ordered:
            ahead[sum(bits[:number])] = 1.0
        else:
            others = [bit for place, bit in enumerate(bits) if place != number]
            for chosen in range(1 << (k - 1)):
                inside = [bit for place, bit in enumerate(others) if chosen >> place & 1]
                ahead[sum(inside)] = 1.0 / (k * comb(k - 1, len(inside)))
        yield from _places(one, {b | a: w * v for b, w in before.items() for a, v in ahead.items()})


def n_permutations(child: Child) -> int:
    """How many permutations there are."""
    if not isinstance(child, Node):
        return 1
    own = 1 if child.ordered else prod(range(1, len(child.children) + 1))
    return own * prod(n_permutations(one) for one in child.children)
