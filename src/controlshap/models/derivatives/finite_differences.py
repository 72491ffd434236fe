"""Finite differences with large steps (the paper, section 3.5).

Numeric columns move one standard deviation up and down; binary columns swap to the other observed value;
a one-hot block moves as a whole from its level to each other level. Every point is a row the model could
see, and every evaluation is counted.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import combinations
from typing import final

import numpy as np

from controlshap._errors import InvalidArgumentError, WeakControlWarning
from controlshap._types import FloatArray
from controlshap.data.players import Players, one_hot_players
from controlshap.models.derivatives.base import Derivatives, Point

#: Second differences between columns are left out when they cost more than this share of the budget.
SECOND_SHARE = 0.2


@dataclass(frozen=True)
class _Move:
    """One direction: the column it gives a slope for, the step, and how rows change."""

    column: int
    step: float
    block: int  # moves of one player's one-hot block have no second differences among themselves
    cleared: int  # column set to 0 (the block's present level), or -1
    central: bool

    def apply(self, row: FloatArray, sign: int) -> None:
        row[self.column] += sign * self.step
        if self.cleared >= 0:
            row[self.cleared] = 0.0


@final
@dataclass(frozen=True)
class FiniteDifferences:
    """Central differences for numeric columns, swaps for binary columns and one-hot blocks.

    Parameters
    ----------
    step : float
        Step of numeric columns, in standard deviations of the background.
    cross : {"auto", True, False}
        Whether to take second differences between columns; "auto" leaves them out, with a warning, when
        they would cost more than a fifth of the budget.
    """

    step: float = 1.0
    cross: bool | str = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.step, (int, float, np.number)) or not 0 < self.step < np.inf:
            raise InvalidArgumentError(
                f"`step` must be a positive number of standard deviations; got {self.step!r}. The default is 1.0."
            )
        if self.cross not in ("auto", True, False):
            raise InvalidArgumentError(f"`cross` must be 'auto', True or False; got {self.cross!r}.")

    def cost(self, background: FloatArray, players: Players, budget: int, *, second: bool) -> int:
        """Evaluations for the most moves that any row can need."""
        moves = self._most_moves(background, players)
        n_first = sum(2 if move.central else 1 for move in moves)
        if not second:
            return n_first
        n_cross = _cross_costs(moves)
        return n_first + (n_cross if self._takes_cross(n_cross, budget) else 0)

    def _most_moves(self, background: FloatArray, players: Players) -> list[_Move]:
        """The moves of a row that differs from every constant column too."""
        constant = (background == background[0]).all(axis=0)
        for player in one_hot_players(players, background):
            constant[players.columns[player]] = False
        return self._moves(background[0] + constant, background, players)

    def _takes_cross(self, n_cross: int, budget: int) -> bool:
        return self.cross is True or (self.cross == "auto" and n_cross <= SECOND_SHARE * budget)

    def _moves(self, x: FloatArray, background: FloatArray, players: Players) -> list[_Move]:
        moves = []
        blocks = {j: players.columns[j] for j in one_hot_players(players, background)}
        for column in range(len(x)):
            player = int(players.owner[column])
            if player in blocks:
                block = blocks[player]
                present = int(block[x[block].argmax()])
                # An x without a level (an unknown category) has no valid neighbours: no slope.
                if column != present and sorted(x[block]) == [0.0] * (len(block) - 1) + [1.0]:
                    moves.append(_Move(column, 1.0, player, present, central=False))
                continue
            levels = np.unique(background[:, column])
            own_block = -1 - column
            if len(levels) <= 2:
                others = levels[levels != x[column]]
                if len(others) == 1 or (len(others) == 2 and len(levels) == 2):
                    # An x outside both levels moves to the nearer one.
                    target = others[np.abs(others - x[column]).argmin()]
                    moves.append(_Move(column, float(target - x[column]), own_block, -1, central=False))
                continue
            width = self.step * float(background[:, column].std())
            moves.append(_Move(column, width, own_block, -1, central=True))
        return moves

    def at(self, point: Point, *, second: bool) -> Derivatives:
        """Evaluate all points at once and form the differences."""
        x, at_x = point.x, point.at_x
        moves = self._moves(x, point.background, point.players)
        pairs = [(a, b) for a, b in combinations(range(len(moves)), 2) if moves[a].block != moves[b].block]
        n_cross = _cross_costs(self._most_moves(point.background, point.players))
        takes_cross = second and self._takes_cross(n_cross, point.budget)
        if second and not takes_cross and self.cross == "auto":
            warnings.warn(
                f"The second differences between columns would cost {n_cross} of {point.budget} evaluations a row; "
                "the Taylor control uses the diagonal alone. Raise `budget`, pass gradient= and hessian=, or "
                "FiniteDifferences(cross=True) to take them all the same, or cross=False to silence this.",
                WeakControlWarning,
                stacklevel=2,
            )
        plan: list[tuple[tuple[_Move, int], ...]] = []
        for move in moves:
            plan.append(((move, 1),))
            if move.central:
                plan.append(((move, -1),))
        if takes_cross:
            for a, b in pairs:
                plan.extend(_cross_points(moves[a], moves[b]))
        rows = np.repeat(x[None], len(plan), axis=0)
        for row, steps in zip(rows, plan, strict=True):
            for move, sign in steps:
                move.apply(row, sign)
        f = dict(zip(plan, point.evaluate(rows), strict=True)) if plan else {}
        gradient = np.zeros((len(at_x), len(x)))
        diagonal = np.zeros_like(gradient)
        for move in moves:
            up = f[((move, 1),)]
            if move.central:
                down = f[((move, -1),)]
                gradient[:, move.column] = (up - down) / (2.0 * move.step)
                diagonal[:, move.column] = (up - 2.0 * at_x + down) / move.step**2
            else:
                gradient[:, move.column] = (up - at_x) / move.step
        if not second:
            return Derivatives(gradient, None)
        if not takes_cross:
            return Derivatives(gradient, diagonal)
        hessian = np.zeros((len(at_x), len(x), len(x)))
        columns = np.arange(len(x))
        hessian[:, columns, columns] = diagonal
        for a, b in pairs:
            one, other = moves[a], moves[b]
            value = _cross_difference(one, other, f, at_x)
            hessian[:, one.column, other.column] = value
            hessian[:, other.column, one.column] = value
        return Derivatives(gradient, hessian)


_Values = dict[tuple[tuple[_Move, int], ...], FloatArray]


def _cross_cost(a: _Move, b: _Move) -> int:
    return 2 if a.central or b.central else 1


def _cross_costs(moves: list[_Move]) -> int:
    return sum(_cross_cost(a, b) for a, b in combinations(moves, 2) if a.block != b.block)


def _cross_points(a: _Move, b: _Move) -> list[tuple[tuple[_Move, int], ...]]:
    if a.central and b.central:
        return [((a, 1), (b, 1)), ((a, -1), (b, -1))]
    if a.central or b.central:
        return [((a, s if a.central else 1), (b, s if b.central else 1)) for s in (1, -1)]
    return [((a, 1), (b, 1))]


def _cross_difference(a: _Move, b: _Move, f: _Values, at_x: FloatArray) -> FloatArray:
    if a.central and b.central:
        singles = f[((a, 1),)] + f[((a, -1),)] + f[((b, 1),)] + f[((b, -1),)]
        both = f[((a, 1), (b, 1))] + f[((a, -1), (b, -1))]
        return (both - singles + 2.0 * at_x) / (2.0 * a.step * b.step)
    if a.central or b.central:
        numeric, swap = (a, b) if a.central else (b, a)
        up, down = (f[points] for points in _cross_points(a, b))
        slope_there = (up - down) / (2.0 * numeric.step)
        slope_here = (f[((numeric, 1),)] - f[((numeric, -1),)]) / (2.0 * numeric.step)
        return (slope_there - slope_here) / swap.step
    return (f[((a, 1), (b, 1))] - f[((a, 1),)] - f[((b, 1),)] + at_x) / (a.step * b.step)
