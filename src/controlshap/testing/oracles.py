"""Games by definition: every coalition, every draw, one at a time.

A game is a function from a set of players to an array of outputs. `shapley_by_definition` is the paper's
equation 2 with its loops left in; nothing here is shared with the code under test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb
from typing import TypeAlias

import numpy as np

from controlshap._types import FloatArray

Coalition: TypeAlias = "frozenset[int]"
GameFunction: TypeAlias = "Callable[[frozenset[int]], FloatArray]"
Columns: TypeAlias = "Sequence[Sequence[int]]"
"""Columns of each player."""


def shapley_by_definition(game: GameFunction, n_players: int) -> FloatArray:
    """Shapley values `(n_players, outputs)` as the weighted mean over all coalitions without the player."""
    values = []
    known: dict[frozenset[int], FloatArray] = {}

    def v(coalition: frozenset[int]) -> FloatArray:
        if coalition not in known:
            known[coalition] = np.atleast_1d(np.asarray(game(coalition), dtype=float))
        return known[coalition]

    for player in range(n_players):
        others = [k for k in range(n_players) if k != player]
        total = np.zeros_like(v(frozenset()))
        for size in range(n_players):
            weight = 1.0 / (n_players * comb(n_players - 1, size))
            for chosen in combinations(others, size):
                without = frozenset(chosen)
                total = total + weight * (v(without | {player}) - v(without))
        values.append(total)
    return np.array(values)


def game_from_values(table: FloatArray) -> GameFunction:
    """A game from its 2^p values; bit j of the number says whether player j is in."""
    return lambda coalition: np.atleast_1d(table[sum(1 << player for player in coalition)])


def marginal_game(
    model: Callable[[FloatArray], FloatArray], x: FloatArray, background: FloatArray, columns: Columns
) -> GameFunction:
    """v(S) = mean over background rows of f(x on S, the row elsewhere)."""

    def v(coalition: frozenset[int]) -> FloatArray:
        rows = np.array(background, dtype=float)
        for player in coalition:
            for column in columns[player]:
                rows[:, column] = x[column]
        return np.atleast_1d(np.mean(model(rows), axis=0))

    return v


def conditional_map(covariance: FloatArray, revealed: Sequence[int]) -> FloatArray:
    """`Sigma[:, S] Sigma[S, S]^-1 P_S`: a gap in the revealed columns to the change of the conditional mean."""
    n = len(covariance)
    matrix = np.zeros((n, n))
    chosen = sorted(revealed)
    if chosen:
        block = np.linalg.inv(covariance[np.ix_(chosen, chosen)])
        matrix[:, chosen] = covariance[:, chosen] @ block
    return matrix


def pathwise_game(
    model: Callable[[FloatArray], FloatArray],
    x: FloatArray,
    draws: FloatArray,
    covariance: FloatArray,
    columns: Columns,
) -> GameFunction:
    """v(S) = mean over draws b of f(b + A_S (x - b)), for a finite set of draws."""

    def v(coalition: frozenset[int]) -> FloatArray:
        revealed = [column for player in coalition for column in columns[player]]
        matrix = conditional_map(covariance, revealed)
        rows = np.array([b + matrix @ (x - b) for b in draws])
        rows[:, revealed] = x[revealed]
        return np.atleast_1d(np.mean(model(rows), axis=0))

    return v


def gaussian_quadratic_game(
    linear: FloatArray,
    quadratic: FloatArray,
    x: FloatArray,
    mean: FloatArray,
    covariance: FloatArray,
    columns: Columns,
) -> GameFunction:
    """v(S) of `linear . r + r' quadratic r` under N(mean, covariance) given x_S, from the textbook conditional.

    `linear` has shape (outputs, columns) and `quadratic` (outputs, columns, columns).
    """

    def v(coalition: frozenset[int]) -> FloatArray:
        revealed = [column for player in coalition for column in columns[player]]
        matrix = conditional_map(covariance, revealed)
        center = mean + matrix @ (x - mean)
        spread = covariance - matrix @ covariance
        outputs = []
        for slope, bend in zip(linear, quadratic, strict=True):
            outputs.append(slope @ center + center @ bend @ center + np.trace(bend @ spread))
        return np.array(outputs)

    return v
