"""Absent columns come from background rows that resemble x in the revealed columns (Aas, Jullum and Løland 2021).

    v(S) = sum_i w_i(S) f(x_S, b_i)      w_i(S) ~ exp(-D_i(S)^2 / (2 h^2))      D_i(S)^2 = gap_S' R_SS^-1 gap_S / |S|

with the gap of b_i from x in standard deviations, R the correlation of the background and |S| the revealed columns that
vary there. A draw is a number u that is
uniform between 0 and 1: it picks the row at which the running sum of the weights passes u, so that one u makes a row
for every coalition. Nothing is revealed to nobody: all rows weigh the same. Along a permutation the squared distances
of all prefixes are running sums of the squares of `L^-1 gap`, L being the Cholesky factor of the permuted correlation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from controlshap._arrays import prefix_masks, ranks
from controlshap._errors import InvalidArgumentError
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.players import Players
from controlshap.values.base import Imputer, ValueFunction
from controlshap.values.conditioning import condition
from controlshap.values.gaussian import GaussianImputer

#: Doubles of one batch of walks: some megabytes, since each walk has a number for every background row and prefix.
BATCH_DOUBLES = 2**20


@final
@dataclass(frozen=True)
class Empirical(ValueFunction):
    """Weigh background rows by how near they are to the explained row in the revealed columns.

    Makes no assumption on the shape of the data, and shows the model absent columns as they stand together in a row of
    the background. Needs many rows near the explained one, and so few columns or many rows.

    Parameters
    ----------
    bandwidth : float
        Standard deviation of the kernel, in units of the distance: standard deviations for each revealed column. The
        default is that of Aas et al. A larger one is smoother; far above 1 the revealed columns have no effect.
    min_eigenvalue : float
        As for `GaussianConditional`: for the correlation that distances are measured with.
    """

    bandwidth: float = 0.1
    min_eigenvalue: float = 1e-4

    draws_background = True

    def __post_init__(self) -> None:
        if isinstance(self.bandwidth, bool) or not isinstance(self.bandwidth, (int, float, np.number)):
            raise InvalidArgumentError(f"`bandwidth` must be a number above 0; got {self.bandwidth!r}.")
        if not 0 < self.bandwidth < np.inf:
            raise InvalidArgumentError(f"`bandwidth` must be a number above 0; got {self.bandwidth!r}. Try 0.1.")
        if not isinstance(self.min_eigenvalue, (int, float, np.number)) or not 0 < self.min_eigenvalue < 1:
            raise InvalidArgumentError(
                f"`min_eigenvalue` must lie between 0 and 1; got {self.min_eigenvalue!r}. The default is 1e-4."
            )

    def bind(self, background: FloatArray, players: Players, feature_names: tuple[str, ...]) -> EmpiricalImputer:
        """Estimate the correlation that distances are measured with."""
        if len(background) < 2:
            raise InvalidArgumentError(
                "`background` has one row, and none to choose from; features='empirical' needs several rows."
            )
        covariance = np.cov(background, rowvar=False, bias=True).reshape(players.n_columns, players.n_columns)
        moments = condition(background.mean(axis=0), covariance, self.min_eigenvalue, feature_names)
        return EmpiricalImputer(players, background, GaussianImputer(players, moments), float(self.bandwidth))


@final
@dataclass(frozen=True)
class EmpiricalImputer(Imputer):
    """Rows of x and of near background rows. Draws carry u in a column of their own, the last."""

    players: Players
    background: FloatArray
    gaussian: GaussianImputer
    bandwidth: float

    is_refitted = True

    @property
    def n_weighted(self) -> int:  # type: ignore[override]
        """Rows of the background."""
        return len(self.background)

    @cached_property
    def center(self) -> FloatArray:
        """Mean of the background."""
        mean: FloatArray = self.background.mean(axis=0)
        return mean

    @property
    def _varies(self) -> BoolArray:
        """Columns that count in |S|: constant columns carry no information."""
        return self.gaussian.moments.spread > 0

    def sample(self, n_rows: int, rng: np.random.Generator) -> FloatArray:
        """Background rows, each with the number u that picked it."""
        chance = rng.random(n_rows)
        rows = self.background[(chance * len(self.background)).astype(np.int64)]
        return np.concatenate([rows, chance[:, None]], axis=1)

    def coalition_rows(self, x: FloatArray, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """Distances once for each coalition that occurs."""
        u, k, _ = coalitions.shape
        revealed = self.players.expand(coalitions).reshape(u * k, len(x))
        gaps = (x - self.background) / self.gaussian.scale
        chance = np.broadcast_to(draws[:, None, :, -1], (u, k, draws.shape[1])).reshape(u * k, -1)
        masks, which = np.unique(revealed, axis=0, return_inverse=True)
        picked = np.empty(chance.shape, dtype=np.int64)
        for number, mask in enumerate(masks):
            inside = np.flatnonzero(which.reshape(-1) == number)
            running = np.cumsum(self._weights(self._squares(gaps, mask), axis=0))
            picked[inside] = np.searchsorted(running, chance[inside] * running[-1], side="right")
        rows = np.where(revealed[:, None], x, self.background[picked])
        return rows.reshape(u, k, *rows.shape[1:])

    def walk_rows(self, x: FloatArray, permutations: IntArray, draws: FloatArray) -> FloatArray:
        """The distances of all prefixes from one Cholesky factor."""
        u, p = permutations.shape
        gaps = (x - self.background) / self.gaussian.scale
        picked = np.empty((u, p - 1, draws.shape[1]), dtype=np.int64)
        step = max(1, BATCH_DOUBLES // self.workspace(walk=True))
        for start in range(0, u, step):
            part = slice(start, start + step)
            order, factors = self.gaussian.walk_factors(permutations[part])
            innovations = gaps[:, order].transpose(1, 0, 2) @ np.linalg.inv(factors).transpose(0, 2, 1)  # (u, n, c)
            ends = np.cumsum(self.players.sizes[permutations[part]], axis=1)[:, None, :-1]  # columns in each prefix
            squares = np.take_along_axis(np.cumsum(innovations**2, axis=2), ends - 1, axis=2)  # (u, n, p - 1)
            counts = np.take_along_axis(np.cumsum(self._varies[order], axis=1)[:, None], ends - 1, axis=2)
            squares /= np.maximum(counts, 1)
            running = np.cumsum(self._weights(squares, axis=1), axis=1)
            for draw in range(draws.shape[1]):
                passed = draws[part, draw, -1][:, None, None] * running[:, -1:]
                picked[part, :, draw] = (running <= passed).sum(axis=1)
        revealed = prefix_masks(ranks(permutations)[:, self.players.owner], self.players.n_players)
        return np.where(revealed[:, :, None], x, self.background[picked])

    def weighted_rows(self, x: FloatArray, coalitions: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Every background row, with x on the coalition, and its weight."""
        revealed = self.players.expand(coalitions)
        gaps = (x - self.background) / self.gaussian.scale
        weights = self._weights(np.stack([self._squares(gaps, mask) for mask in revealed]), axis=1)
        return np.where(revealed[:, None], x, self.background), weights / weights.sum(axis=1, keepdims=True)

    def _squares(self, gaps: FloatArray, revealed: BoolArray) -> FloatArray:
        """Squared distances `(n,)` of the background from x in the revealed columns."""
        own, block = gaps[:, revealed], self.gaussian.moments.correlation[np.ix_(revealed, revealed)]
        squares = (own * np.linalg.solve(block, own.T).T).sum(axis=1)
        return np.asarray(squares / max(1, self._varies[revealed].sum()))

    def _weights(self, squares: FloatArray, axis: int) -> FloatArray:
        """Weights of squared distances, 1 for the nearest row along an axis."""
        nearest = squares.min(axis=axis, keepdims=True)
        return np.asarray(np.exp((nearest - squares) / (2.0 * self.bandwidth**2)))

    def workspace(self, *, walk: bool) -> int:
        """Numbers for every background row, and along a walk for each column or prefix of it."""
        return len(self.background) * (3 * self.players.n_columns + 3 * self.players.n_players if walk else 3)
