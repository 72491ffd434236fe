"""Columns as normal scores and back, for a Gaussian copula with empirical margins.

A value of the background has the score `Phi^-1` of its mid-rank. Back from scores, a value has all scores that its
ranks span, so that codes and counts stay codes and counts. Only between two values that occur once each, in a column of
not just whole numbers, the way back is a straight line: a continuous column stays continuous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtri

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.players import Players


@dataclass(frozen=True)
class ColumnMargin:
    """One column of the background.

    Attributes
    ----------
    values, scores : ndarray of shape (m,)
        The values that occur, in order, and their normal scores.
    ends : ndarray of shape (m - 1,)
        Scores at which a value ends and the next begins.
    is_line : ndarray of shape (m + 1,)
        Whether the way back is a line in the gap before each value; the first and the last gap lie outside.
    """

    values: FloatArray
    scores: FloatArray
    ends: FloatArray
    is_line: BoolArray

    @classmethod
    def of(cls, column: FloatArray) -> Self:
        """The margin of a column of the background."""
        values, counts = np.unique(column, return_counts=True)
        above = np.cumsum(counts) / len(column)
        once = (counts == 1) & (values != np.round(values)).any()
        inner = once[1:] & once[:-1]
        scores = ndtri(above - 0.5 * counts / len(column))
        return cls(values, scores, ndtri(above[:-1]), np.concatenate([[False], inner, [False]]))

    def to_scores(self, values: FloatArray) -> FloatArray:
        """Normal scores: on a line between the values that occur, and just beyond the outermost outside."""
        scores = np.interp(values, self.values, self.scores)
        # not the score of the outermost value itself, which stands for that value
        scores = np.where(values > self.values[-1], np.nextafter(self.scores[-1], np.inf), scores)
        result: FloatArray = np.where(values < self.values[0], np.nextafter(self.scores[0], -np.inf), scores)
        return result

    def to_values(self, scores: FloatArray) -> FloatArray:
        """Values back from normal scores."""
        if self.is_line[1:-1].all():  # a line from the first value to the last, and these outside
            return np.asarray(np.interp(scores, self.scores, self.values))
        steps = self.values[np.searchsorted(self.ends, scores)]
        if not self.is_line.any():
            return steps
        on_line = self.is_line[np.searchsorted(self.scores, scores)]
        result: FloatArray = np.where(on_line, np.interp(scores, self.scores, self.values), steps)
        return result


@dataclass(frozen=True)
class Margins:
    """All columns, and the one-hot blocks among them: of each, the level that most exceeds its cut is shown."""

    columns: tuple[ColumnMargin, ...]
    blocks: tuple[IntArray, ...]

    @classmethod
    def of(cls, background: FloatArray, players: Players) -> Self:
        """The margins of a background."""
        blocks = tuple(block for columns in players.columns for block in _one_hot_runs(background, columns))
        return cls(tuple(ColumnMargin.of(column) for column in background.T), blocks)

    def to_scores(self, rows: FloatArray) -> FloatArray:
        """Normal scores of rows `(n, columns)`."""
        return np.stack([margin.to_scores(rows[:, c]) for c, margin in enumerate(self.columns)], axis=1)

    def to_values(self, scores: FloatArray) -> FloatArray:
        """Rows `(n, columns)` back from their normal scores."""
        rows = np.stack([margin.to_values(scores[:, c]) for c, margin in enumerate(self.columns)], axis=1)
        for block in self.blocks:
            cuts = np.array([self.columns[c].ends[0] for c in block])
            rows[:, block] = np.arange(len(block)) == (scores[:, block] - cuts).argmax(axis=1)[:, None]
        return rows


def _one_hot_runs(background: FloatArray, columns: IntArray) -> list[IntArray]:
    """Neighbours among the columns of a player that are one-hot in every row; columns that never vary are left out."""
    found: list[IntArray] = []
    run: list[int] = []
    total = np.zeros(len(background))
    for c in columns[np.ptp(background[:, columns], axis=0) > 0]:
        column = background[:, c]
        if not ((column == 0) | (column == 1)).all():
            run, total = [], np.zeros(len(background))
            continue
        while run and (total + column).max() > 1:
            total = total - background[:, run.pop(0)]
        run, total = [*run, int(c)], total + column
        if (total == 1).all():
            found.append(np.array(run))
            run, total = [], np.zeros(len(background))
    return found
