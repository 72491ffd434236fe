"""All coalitions: Shapley values from a table, the estimator for few players, and walks that meet every coalition."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING, final

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.estimators.base import Estimator, Evaluator, UnitDraws, base_values
from controlshap.statistics.terms import MeanTerms

if TYPE_CHECKING:
    from controlshap.data.arrangement import Arrangement

#: Beyond this many players the table of coalitions is never built.
MOST_PLAYERS = 20


@lru_cache(maxsize=8)
def all_coalitions(n_players: int) -> BoolArray:
    """All 2^p coalitions; bit j of the row number says whether player j is revealed."""
    numbers = np.arange(2**n_players)
    return ((numbers[:, None] >> np.arange(n_players)) & 1).astype(bool)


@lru_cache(maxsize=8)
def shapley_matrix(n_players: int) -> FloatArray:
    """The matrix that turns the 2^p values of a game into its Shapley values (the paper's equation 2).

    Entry (j, S) is `1/(p C(p-1, |S|-1))` where j is in S and `-1/(p C(p-1, |S|))` where it is not.
    """
    coalitions = all_coalitions(n_players)
    sizes = coalitions.sum(axis=1)
    weight = np.array([1.0 / (n_players * comb(n_players - 1, s)) for s in range(n_players)])
    with_player = np.where(sizes > 0, weight[np.maximum(sizes - 1, 0)], 0.0)
    without = np.where(sizes < n_players, weight[np.minimum(sizes, n_players - 1)], 0.0)
    return np.where(coalitions.T, with_player, -without)


def shapley_values(table: FloatArray) -> FloatArray:
    """Shapley values of a game given as a table.

    Parameters
    ----------
    table : ndarray of shape (2**p, ...)
        Values of the coalitions in the order of `all_coalitions`.

    Returns
    -------
    ndarray of shape (p, ...)

    Examples
    --------
    A pair is worth 1, alone they are worth nothing:

    >>> import numpy as np
    >>> shapley_values(np.array([0.0, 0.0, 0.0, 1.0]))
    array([0.5, 0.5])
    """
    n_players = int(np.log2(len(table)))
    values: FloatArray = np.tensordot(shapley_matrix(n_players), table, axes=1)
    return values


def coalition_table(n_players: int, arrangement: Arrangement | None = None) -> tuple[BoolArray, FloatArray]:
    """Coalitions `(m, players)`, that of nobody first and of all last, and the matrix from their values to players'."""
    if arrangement is not None:
        return arrangement.coalitions, arrangement.matrix
    return all_coalitions(n_players), shapley_matrix(n_players)


@final
@dataclass(frozen=True)
class Enumeration(Estimator):
    """Exact Shapley values of each draw's game; a unit is one draw with all coalitions.

    Exact over a finite background, and free of the noise of coalitions for draws from a distribution. With an
    arrangement of the players, all coalitions that its permutations begin with.
    """

    arrangement: Arrangement | None = field(default=None, repr=False)

    exact_per_draw = True
    gives_interactions = True
    takes_arrangements = True

    def evaluates_base(self, *, finite: bool) -> bool:
        """Whether v_b(0), the value of the empty coalition, is not known beforehand."""
        return not finite

    def unit_cost(self, n_players: int, *, finite: bool) -> int:
        """All coalitions but the known ends."""
        n_coalitions = 2**n_players if self.arrangement is None else len(self.arrangement.coalitions)
        return int(n_coalitions) - (2 if finite else 1)

    def fewest_units(self, n_players: int) -> int:  # noqa: ARG002
        """One: a background of one row has no error."""
        return 1

    def sample(self, n_players: int, n_units: int, rng: np.random.Generator) -> BoolArray:  # noqa: ARG002
        """The same coalitions `(n_units, 2^p - 2, players)` for every unit; nothing is random."""
        inner = coalition_table(n_players, self.arrangement)[0][1:-1]
        return np.broadcast_to(inner, (n_units, *inner.shape))

    def terms(self, game: Evaluator, design: BoolArray, draws: UnitDraws) -> MeanTerms:
        """Shapley values of each draw."""
        at_draws = base_values(game, draws).mean(axis=1)
        inner = game.coalition_values(design, draws.rows)[:, :, 0]  # (u, 2^p - 2, o, f)
        table = np.empty((design.shape[1] + 2, *at_draws.shape))
        table[0] = at_draws
        table[1:-1] = inner.swapaxes(0, 1)
        table[-1] = game.at_x
        matrix = coalition_table(design.shape[2], self.arrangement)[1]
        values = np.tensordot(matrix, table, axes=1).swapaxes(0, 1)
        base = np.broadcast_to(draws.base, at_draws.shape) if draws.values is not None else at_draws
        return MeanTerms(np.concatenate([values, base[:, None]], axis=1))

    def coalition_weights(self, design: BoolArray) -> tuple[BoolArray, FloatArray]:
        """One over the number of coalitions of the same size."""
        p = design.shape[2]
        of_sizes = np.array([1.0 / comb(p, size) for size in range(p + 1)])
        return design, of_sizes[design.sum(axis=2)]


def n_chains(n_players: int) -> int:
    """Number of permutations that `chains` returns."""
    return comb(n_players, n_players // 2)


@lru_cache(maxsize=8)
def chains(n_players: int) -> tuple[IntArray, BoolArray]:
    """The fewest permutations whose prefixes are all coalitions (Greene and Kleitman's chains).

    Read a coalition as brackets, a player outside opening and one inside closing. The players whose brackets match stay
    as they are along a chain; the others join from left to right.

    Returns
    -------
    permutations : ndarray of shape (chains, players)
    own : ndarray of shape (chains, players + 1)
        Which prefixes are met in no other chain; every coalition is met once among these.
    """
    permutations = np.empty((n_chains(n_players), n_players), dtype=np.int64)
    own = np.zeros((len(permutations), n_players + 1), dtype=bool)
    # players inside for good, outside for good, and not matched yet
    brackets: list[tuple[list[int], list[int], list[int]]] = [([], [], [])]
    for player in range(n_players):
        longer = []
        for inside, outside, free in brackets:
            longer.append((inside, outside, [*free, player]))
            if free:
                longer.append(([*inside, player], [*outside, free[-1]], free[:-1]))
        brackets = longer
    for number, (inside, outside, free) in enumerate(brackets):
        permutations[number] = inside + free + outside
        own[number, len(inside) : len(inside) + len(free) + 1] = True
    return permutations, own
