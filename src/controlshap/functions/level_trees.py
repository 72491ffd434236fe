"""Whole trees of one depth, whose rows are followed level by level, all trees at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.data.players import Players
from controlshap.functions.base import KnownFunction
from controlshap.functions.box_games import factor_weights
from controlshap.functions.trees import Nodes, TreeFunction

#: Paths of draws through trees that are followed at once, if all leaves were reached: bounds the memory.
MOST_PATHS = 2**20


@final
@dataclass(frozen=True)
class LevelTrees(KnownFunction):
    """`offset` plus the values of the leaves that a row falls into; the children of node i are 2 i + 1 and 2 i + 2.

    Attributes
    ----------
    columns, thresholds : ndarray of shape (trees, inner nodes)
        A row goes to the second child where its column is above the threshold.
    values : ndarray of shape (trees, leaves)
    offset : float
    n_columns : int
    """

    columns: IntArray
    thresholds: FloatArray
    values: FloatArray
    offset: float
    n_columns: int

    name = TreeFunction.name

    def predict(self, rows: FloatArray) -> FloatArray:
        """Values `(n,)` on rows `(n, columns)`."""
        (n_trees, n_inner), flat = self.columns.shape, np.ascontiguousarray(rows).ravel()
        columns, thresholds = self.columns.ravel(), self.thresholds.ravel()
        row, tree = self.n_columns * np.arange(len(rows))[:, None], n_inner * np.arange(n_trees)
        node = np.zeros((len(rows), n_trees), dtype=np.int64)
        for _ in range(n_inner.bit_length()):
            here = node + tree
            node = 2 * node + 2 - (flat[row + columns[here]] <= thresholds[here])
        leaf = node - n_inner + self.values.shape[1] * np.arange(n_trees)
        values: FloatArray = self.values.ravel()[leaf].sum(axis=1) + self.offset
        return values

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Shapley values `(draws, players)` from the leaves."""
        step = max(1, MOST_PATHS // self.values.size)
        parts = [self._draw_values(x, draws[start : start + step], players) for start in range(0, len(draws), step)]
        return np.concatenate(parts)

    def _draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """The same, all trees and draws at once.

        Where x and a draw part, a path goes both ways: `met` (depth, paths) has the player's number, from 1 on, where
        it went the way of x, and less that number where it went the way of the draw. What such a player does further
        down the path is settled.
        """
        (n_trees, n_inner), n_leaves = self.columns.shape, self.values.shape[1]
        columns, thresholds = self.columns.ravel(), self.thresholds.ravel()
        by_x, owner = ~(x[columns] <= thresholds), (players.owner + 1).astype(np.int32)
        draw, tree = (part.ravel() for part in np.indices((len(draws), n_trees)))
        node, met = np.zeros(len(draw), dtype=np.int64), np.zeros((0, len(draw)), dtype=np.int32)
        for _ in range(n_inner.bit_length()):
            here = tree * n_inner + node
            column, of_x = columns[here], by_x[here]
            of_draw = ~(draws[draw, column] <= thresholds[here])
            player = owner[column]
            settled = (met * (np.abs(met) == player)).sum(axis=0)
            parts = (of_x != of_draw) & (settled == 0)
            also = np.flatnonzero(parts)
            way = np.concatenate([np.where(settled < 0, of_draw, of_x), of_draw[also]])
            last = np.concatenate([player * parts, -player[also]])
            draw, tree, node = (np.concatenate([one, one[also]]) for one in (draw, tree, node))
            met = np.concatenate([np.concatenate([met, met[:, also]], axis=1), last[None]])
            node = 2 * node + 1 + way
        gains, losses = factor_weights(len(met))
        n_won, n_lost = (met > 0).sum(axis=0), (met < 0).sum(axis=0)
        value = self.values.ravel()[tree * n_leaves + node - n_inner]
        won, lost = gains[n_won, n_lost] * value, -losses[n_won, n_lost] * value
        n_cells = len(draws) * players.n_players
        values = np.zeros(n_cells)
        for who in met:
            some = np.flatnonzero(who != 0)
            worth = np.where(who > 0, won, lost)[some]
            cells = draw[some] * players.n_players + np.abs(who[some]) - 1
            values += np.bincount(cells, worth, minlength=n_cells)
        return values.reshape(len(draws), players.n_players)

    def mean_interactions(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Pairwise interactions `(players, players)` from counts of draws."""
        return self._boxes.mean_interactions(x, draws, players)

    @cached_property
    def _boxes(self) -> TreeFunction:
        trees = [self._nodes(number) for number in range(len(self.columns))]
        return Nodes.concatenate(trees).to_function(self.n_columns, np.array([self.offset]), float32=False)

    def _nodes(self, number: int) -> Nodes:
        n_inner, n_leaves = self.columns.shape[1], self.values.shape[1]
        children, none = 2 * np.arange(n_inner) + 1, np.full(n_leaves, -1)
        return Nodes(
            left=np.concatenate([children, none]),
            right=np.concatenate([children + 1, none]),
            columns=np.concatenate([self.columns[number], np.zeros(n_leaves, dtype=np.int64)]),
            thresholds=np.concatenate([self.thresholds[number], np.zeros(n_leaves)]),
            nan_left=np.zeros(n_inner + n_leaves, dtype=bool),
            values=np.concatenate([np.zeros(n_inner), self.values[number]])[:, None],
            roots=np.zeros(1, dtype=np.int64),
        )
