"""Finite differences with large steps (the paper, section 3.5).

Numeric columns move one standard deviation up and down; binary columns change to the other observed value; a one-hot
block changes as a whole from its level to each other level. Every point is a row that the model could meet, and every
evaluation is counted.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import combinations
from typing import final

import numpy as np

from controlshap._checks import is_real
from controlshap._errors import InvalidArgumentError, WeakControlWarning
from controlshap._types import FloatArray, IntArray
from controlshap.data.players import Players, one_hot_players
from controlshap.models.derivatives.base import Derivatives, Point

#: Second differences between columns are left out if they cost more than this fraction of the budget.
SECOND_SHARE = 0.2


@dataclass(frozen=True)
class _Move:
    """A step in one direction.

    Attributes
    ----------
    column : int
        The column whose slope the step gives.
    block : int
        Moves within one one-hot block have no second differences among themselves.
    cleared : int
        Column that is set to 0, the present level of the block; or -1.
    central : bool
        Whether there is a step in the other direction, too.
    """

    column: int
    step: float
    block: int
    cleared: int
    central: bool

    def apply(self, row: FloatArray, sign: int) -> None:
        row[self.column] += sign * self.step
        if self.cleared >= 0:
            row[self.cleared] = 0.0


@final
@dataclass(frozen=True)
class FiniteDifferences:
    """Central differences for numeric columns, changes of level for binary columns and one-hot blocks.

    Parameters
    ----------
    step : float
        Step of numeric columns, in standard deviations of the background.
    cross : {"auto", True, False}
        Whether to take second differences between columns; "auto" leaves them out, with a warning, if they would cost
        more than a fifth of the budget.
    """

    step: float = 1.0
    cross: bool | str = "auto"

    def __post_init__(self) -> None:
        if not is_real(self.step) or not 0 < self.step < np.inf:
            raise InvalidArgumentError(
                f"`step` must be a positive number of standard deviations; got {self.step!r}. The default is 1.0."
            )
        if self.cross not in ("auto", True, False):
            raise InvalidArgumentError(f"`cross` must be 'auto', True or False; got {self.cross!r}.")

    def cost(self, background: FloatArray, players: Players, budget: int, *, second: bool) -> int:
        """Return the evaluations for the largest set of moves that a row can need."""
        moves = self._most_moves(background, players)
        n_first = sum(2 if move.central else 1 for move in moves)
        if not second:
            return n_first
        n_cross = _cross_costs(moves)
        return n_first + (n_cross if self._takes_cross(n_cross, budget) else 0)

    def _most_moves(self, background: FloatArray, players: Players) -> list[_Move]:
        """Return the moves of a row that differs from the background in every constant column."""
        constant = (background == background[0]).all(axis=0)
        for player in one_hot_players(players, background):
            constant[players.columns[player]] = False
        return self._moves(background[0] + constant, background, players)

    def _takes_cross(self, n_cross: int, budget: int) -> bool:
        return self.cross is True or (self.cross == "auto" and n_cross <= SECOND_SHARE * budget)

    def _moves(self, x: FloatArray, background: FloatArray, players: Players) -> list[_Move]:
        blocks = {j: players.columns[j] for j in one_hot_players(players, background)}
        moves = []
        for column in range(len(x)):
            player = int(players.owner[column])
            if player in blocks:
                move = _block_move(x, column, blocks[player], player)
            else:
                move = self._column_move(x, column, background[:, column])
            if move is not None:
                moves.append(move)
        return moves

    def _column_move(self, x: FloatArray, column: int, values: FloatArray) -> _Move | None:
        levels, own_block = np.unique(values), -1 - column
        if len(levels) > 2:
            return _Move(column, self.step * float(values.std()), own_block, -1, central=True)
        others = levels[levels != x[column]]
        if len(others) == 1 or (len(others) == 2 and len(levels) == 2):
            # An x outside both levels moves to the nearer one.
            target = others[np.abs(others - x[column]).argmin()]
            return _Move(column, float(target - x[column]), own_block, -1, central=False)
        return None

    def at(self, point: Point, *, second: bool) -> Derivatives:
        """Evaluate all points at once and form the differences."""
        moves = self._moves(point.x, point.background, point.players)
        takes_cross = second and self._decide_cross(point)
        pairs = _pairs(moves) if takes_cross else []
        f = _evaluate(point, moves, pairs)
        gradient = np.zeros((len(point.at_x), len(point.x)))
        diagonal = np.zeros_like(gradient)
        for move in moves:
            gradient[:, move.column], diagonal[:, move.column] = _differences(move, f, point.at_x)
        if not second:
            return Derivatives(gradient, None)
        if not takes_cross:
            return Derivatives(gradient, diagonal)
        hessian = np.zeros((*gradient.shape, len(point.x)))
        columns = np.arange(len(point.x))
        hessian[:, columns, columns] = diagonal
        for a, b in pairs:
            value = _cross_difference(a, b, f, point.at_x)
            hessian[:, a.column, b.column] = hessian[:, b.column, a.column] = value
        return Derivatives(gradient, hessian)

    def _decide_cross(self, point: Point) -> bool:
        n_cross = _cross_costs(self._most_moves(point.background, point.players))
        takes_cross = self._takes_cross(n_cross, point.budget)
        if not takes_cross and self.cross == "auto":
            warnings.warn(
                f"The second differences between columns would cost {n_cross} of {point.budget} evaluations a row; "
                "the Taylor control uses the diagonal alone. Raise `budget`, pass gradient= and hessian=, or "
                "FiniteDifferences(cross=True) to take them all the same, or cross=False to silence this.",
                WeakControlWarning,
                stacklevel=3,
            )
        return takes_cross


_Steps = tuple[tuple[_Move, int], ...]
_Values = dict[_Steps, FloatArray]


def _block_move(x: FloatArray, column: int, block: IntArray, player: int) -> _Move | None:
    present = int(block[x[block].argmax()])
    # An x without a level (an unknown category) has no valid neighbours: no slope.
    if column == present or sorted(x[block]) != [0.0] * (len(block) - 1) + [1.0]:
        return None
    return _Move(column, 1.0, player, present, central=False)


def _evaluate(point: Point, moves: list[_Move], pairs: list[tuple[_Move, _Move]]) -> _Values:
    """Evaluate the model at all points of the differences, in one batch."""
    steps: list[_Steps] = [((move, sign),) for move in moves for sign in ((1, -1) if move.central else (1,))]
    steps += [both for a, b in pairs for both in _cross_points(a, b)]
    if not steps:
        return {}
    rows = np.repeat(point.x[None], len(steps), axis=0)
    for row, taken in zip(rows, steps, strict=True):
        for move, sign in taken:
            move.apply(row, sign)
    return dict(zip(steps, point.evaluate(rows), strict=True))


def _pairs(moves: list[_Move]) -> list[tuple[_Move, _Move]]:
    return [(a, b) for a, b in combinations(moves, 2) if a.block != b.block]


def _cross_costs(moves: list[_Move]) -> int:
    return sum(2 if a.central or b.central else 1 for a, b in _pairs(moves))


def _differences(move: _Move, f: _Values, at_x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """First and second difference along one move; the second is 0 where there is no step back."""
    up = f[((move, 1),)]
    if not move.central:
        return (up - at_x) / move.step, np.zeros_like(at_x)
    down = f[((move, -1),)]
    return (up - down) / (2.0 * move.step), (up - 2.0 * at_x + down) / move.step**2


def _cross_points(a: _Move, b: _Move) -> list[_Steps]:
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
