"""Games by definition: every coalition, every draw, one at a time.

A game is a function from a set of players to an array of outputs. `shapley_by_definition` is the paper's
equation 2 with its loops left in; nothing here is shared with the code under test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations, pairwise
from math import comb, factorial
from typing import TypeAlias

import numpy as np
from scipy.stats import norm

from controlshap._types import FloatArray

Coalition: TypeAlias = "frozenset[int]"
GameFunction: TypeAlias = "Callable[[frozenset[int]], FloatArray]"
Columns: TypeAlias = "Sequence[Sequence[int]]"
"""Columns of each player."""

#: Points for integrals over a normal score, and their shares: what is left out has a probability of 2e-17.
GRID = np.linspace(-8.5, 8.5, 20_001)
SHARES = norm.pdf(GRID) * (GRID[1] - GRID[0])


def remember(game: GameFunction) -> GameFunction:
    """A game that asks for each coalition once, and gives arrays `(outputs,)`."""
    return cache(lambda coalition: np.atleast_1d(np.asarray(game(coalition), dtype=float)))


def shapley_by_definition(game: GameFunction, n_players: int) -> FloatArray:
    """Shapley values `(n_players, outputs)` as the weighted mean over all coalitions without the player."""
    v, values = remember(game), []
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


def interactions_by_definition(game: GameFunction, n_players: int) -> FloatArray:
    """Pairwise Shapley interaction indices `(n_players, n_players, outputs)`, 0 on the diagonal.

    `I_ij = sum_S s! (p - s - 2)! / (p - 1)! [v(S + ij) - v(S + i) - v(S + j) + v(S)]` over S without i, j.
    """
    v = remember(game)
    index = np.zeros((n_players, n_players, *v(frozenset()).shape))
    for i, j in combinations(range(n_players), 2):
        others = [k for k in range(n_players) if k not in (i, j)]
        for size in range(n_players - 1):
            weight = factorial(size) * factorial(n_players - size - 2) / factorial(n_players - 1)
            for chosen in combinations(others, size):
                s = frozenset(chosen)
                index[i, j] += weight * (v(s | {i, j}) - v(s | {i}) - v(s | {j}) + v(s))
        index[j, i] = index[i, j]
    return index


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


def mean_of_quadratic(linear: FloatArray, quadratic: FloatArray, center: FloatArray, spread: FloatArray) -> FloatArray:
    """Mean `(outputs,)` of `linear . r + r' quadratic r` over rows with a mean and a covariance."""
    return np.array([
        slope @ center + center @ bend @ center + np.trace(bend @ spread)
        for slope, bend in zip(linear, quadratic, strict=True)
    ])  # fmt: skip


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
        return mean_of_quadratic(linear, quadratic, center, spread)

    return v


@cache
def _score_table(column: tuple[float, ...]) -> list[tuple[float, int, float]]:
    """Each value of a column in order, how often it occurs, and `Phi^-1` of its mid-rank."""
    values = np.array(column)
    table = []
    for value in sorted(set(column)):
        share = (np.sum(values < value) + 0.5 * np.sum(values == value)) / len(values)
        table.append((value, int(np.sum(values == value)), float(norm.ppf(share))))
    return table


def normal_score(value: float, column: FloatArray) -> float:
    """The score of a value of the column; on a line between its values, outside that of the outermost."""
    table = _score_table(tuple(column.tolist()))
    if value <= table[0][0]:
        return table[0][2]
    for (lower, _, low), (upper, _, high) in pairwise(table):
        if lower < value <= upper:
            return low + (value - lower) / (upper - lower) * (high - low) if value < upper else high
    return table[-1][2]


def normal_scores(rows: FloatArray, background: FloatArray) -> FloatArray:
    """The scores of rows, column by column."""
    return np.array([[normal_score(value, background[:, c]) for c, value in enumerate(row)] for row in rows])


def value_of_score(score: float, column: FloatArray) -> float:
    """The way back: the value whose ranks the score falls among.

    On a line between values that occur once each, unless the column has whole numbers alone.
    """
    table = _score_table(tuple(column.tolist()))
    for (lower, n_lower, low), (upper, n_upper, high) in pairwise(table):
        if low < score <= high:
            if n_lower == n_upper == 1 and not all(float(value).is_integer() for value in column):
                return lower + (score - low) / (high - low) * (upper - lower)
            return lower if norm.cdf(score) <= np.mean(column <= lower) else upper
    return table[0][0] if score <= table[0][2] else table[-1][0]


def copula_game(
    model: Callable[[FloatArray], FloatArray], x: FloatArray, background: FloatArray, columns: Columns
) -> GameFunction:
    """v(S) under a Gaussian copula whose draws are the normal scores of the background's own rows.

    The mean over rows b of f at the values of `b + A_S (z - b)`, with z the scores of x, and x itself on S. One-hot
    blocks are left to the test.
    """
    every, draws = range(background.shape[1]), normal_scores(background, background)
    scores, correlation = normal_scores(x[None], background)[0], np.asarray(np.corrcoef(draws, rowvar=False))

    def v(coalition: frozenset[int]) -> FloatArray:
        revealed = [column for player in coalition for column in columns[player]]
        matrix = conditional_map(correlation, revealed)
        rows = np.array([b + matrix @ (scores - b) for b in draws])
        values = np.array([[value_of_score(row[c], background[:, c]) for c in every] for row in rows])
        values[:, revealed] = x[revealed]
        return np.atleast_1d(np.mean(model(values), axis=0))

    return v


def copula_sum_game(
    parts: Sequence[Callable[[FloatArray], FloatArray]], x: FloatArray, background: FloatArray, columns: Columns
) -> GameFunction:
    """v(S) of `sum_c parts[c](row[c])` under a Gaussian copula: one integral over a normal score for each column.

    A part returns its outputs on a second axis. The integral is a sum over the points of `GRID`.
    """
    every, draws = range(background.shape[1]), normal_scores(background, background)
    scores, correlation = normal_scores(x[None], background)[0], np.asarray(np.corrcoef(draws, rowvar=False))
    knots = [np.array([value_of_score(z, background[:, c]) for z in np.sort(draws[:, c])]) for c in every]

    def v(coalition: frozenset[int]) -> FloatArray:
        revealed = [column for player in coalition for column in columns[player]]
        matrix = conditional_map(correlation, revealed)
        center, spread = matrix @ scores, correlation - matrix @ correlation
        total = 0.0
        for c in every:
            if c in revealed:
                total = total + parts[c](x[c : c + 1])[0]
            else:
                z = center[c] + np.sqrt(max(spread[c, c], 0.0)) * GRID
                # columns without ties only, where the way back is a line between neighbours
                total = total + SHARES @ parts[c](np.interp(z, np.sort(draws[:, c]), knots[c]))
        return np.atleast_1d(total)

    return v


def empirical_game(
    model: Callable[[FloatArray], FloatArray], x: FloatArray, background: FloatArray, columns: Columns, bandwidth: float
) -> GameFunction:
    """v(S) = sum of f(x on S, b elsewhere) over background rows b, weighted by how near b is to x on S.

    The squared distance is Mahalanobis's with the covariance of the background, divided by the columns of S.
    """
    covariance = np.cov(background, rowvar=False)
    covariance = covariance * (len(background) - 1) / len(background)

    def v(coalition: frozenset[int]) -> FloatArray:
        revealed = sorted(column for player in coalition for column in columns[player])
        exponents, total = [], 0.0
        for b in background:
            gap = (x - b)[revealed]
            square = (
                gap @ np.linalg.inv(covariance[np.ix_(revealed, revealed)]) @ gap / len(revealed) if revealed else 0.0
            )
            exponents.append(-0.5 * square / bandwidth**2)
        weights = np.exp(np.array(exponents) - max(exponents))
        for b, weight in zip(background, weights / weights.sum(), strict=True):
            row = b.copy()
            row[revealed] = x[revealed]
            total = total + weight * model(row[None])[0]
        return np.atleast_1d(total)

    return v
