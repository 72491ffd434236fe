"""Correlated features: absent columns follow a Gaussian conditioned on the revealed ones.

Pathwise conditioning (Matheron's rule): with b ~ N(mu, Sigma), `b + Sigma[:,S] Sigma[S,S]^-1 (x - b)_S` is
a draw from the conditional distribution given x_S: no conditional covariance, no second factor.
Along a permutation all prefix rows come from one Cholesky factor: with L of the permuted covariance and
e = L^-1 (x - b), `row_k = b + sum_{i<=k} L[:,i] e_i`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.players import Players
from controlshap.values.covariance import Moments, condition
from controlshap.values.latent import Thresholds, find_thresholds
from controlshap.values.marginal import prefix_masks

#: Coalitions are solved together when their sizes fall into the same bin of this width.
SIZE_BIN = 6


@final
@dataclass(frozen=True, eq=False)
class GaussianConditional:
    """Condition a Gaussian fitted to the background (or given) on the revealed columns.

    Parameters
    ----------
    mean, covariance : array_like, optional
        Of shape (columns,) and (columns, columns); from the background when not given.
    draws : {"gaussian", "background"}
        What b is drawn from: the Gaussian, or the background's own rows, whose residuals from the
        conditional mean are then kept as they are.
    binary : {"linear", "threshold"}
        "linear" shows the model the conditioned values of binary columns as they are, fractions
        included; "threshold" treats binary columns and one-hot blocks as a latent Gaussian that is
        cut before the model sees it.
    min_eigenvalue : float
        The correlation matrix is mixed with the identity until its smallest eigenvalue is this large.
    """

    mean: FloatArray | None = None
    covariance: FloatArray | None = None
    draws: Literal["gaussian", "background"] = "gaussian"
    binary: Literal["linear", "threshold"] = "linear"
    min_eigenvalue: float = 1e-4

    def __post_init__(self) -> None:
        if self.draws not in ("gaussian", "background"):
            raise InvalidArgumentError(f"`draws` must be 'gaussian' or 'background'; got {self.draws!r}.")
        if self.binary not in ("linear", "threshold"):
            raise InvalidArgumentError(f"`binary` must be 'linear' or 'threshold'; got {self.binary!r}.")
        if not isinstance(self.min_eigenvalue, (int, float, np.number)) or not 0 < self.min_eigenvalue < 1:
            raise InvalidArgumentError(
                f"`min_eigenvalue` must lie between 0 and 1; got {self.min_eigenvalue!r}. The default is 1e-4."
            )

    def bind(self, background: FloatArray, players: Players, feature_names: tuple[str, ...]) -> GaussianImputer:
        """Estimate and condition the moments."""
        n_columns = background.shape[1]
        mean = background.mean(axis=0) if self.mean is None else _shaped("mean", self.mean, (n_columns,))
        if self.covariance is not None:
            covariance = _shaped("covariance", self.covariance, (n_columns, n_columns))
            if not np.allclose(covariance, covariance.T, rtol=1e-8, atol=1e-12):
                raise InvalidArgumentError("`covariance` must be symmetric; pass (C + C.T) / 2.")
        elif len(background) < 2:
            raise InvalidArgumentError(
                "`background` has one row, which has no covariance; correlated features need several rows, or "
                "GaussianConditional(mean=..., covariance=...)."
            )
        else:
            covariance = np.cov(background, rowvar=False, bias=True).reshape(n_columns, n_columns)
        moments = condition(mean, covariance, self.min_eigenvalue, feature_names)
        thresholds = find_thresholds(background, players) if self.binary == "threshold" else None
        return GaussianImputer(background if self.draws == "background" else None, players, moments, thresholds)


@final
@dataclass(frozen=True)
class GaussianImputer:
    """Rows of the pathwise conditioned Gaussian."""

    finite_draws: FloatArray | None
    players: Players
    moments: Moments
    thresholds: Thresholds | None

    @cached_property
    def center(self) -> FloatArray:
        """Mean of the draws: over a finite set of rows theirs, else the Gaussian's."""
        if self.finite_draws is not None:
            mean: FloatArray = self.finite_draws.mean(axis=0)
            return mean
        return self.moments.mean

    @cached_property
    def _factor(self) -> FloatArray:
        return np.linalg.cholesky(self.moments.correlation)

    @cached_property
    def _precision(self) -> FloatArray:
        return np.linalg.inv(self.moments.correlation)

    def sample(self, n_rows: int, rng: np.random.Generator) -> FloatArray:
        """Gaussian rows, or background rows with replacement."""
        if self.finite_draws is not None:
            return self.finite_draws[rng.integers(0, len(self.finite_draws), n_rows)]
        noise = rng.standard_normal((n_rows, len(self.moments.mean)))
        rows: FloatArray = self.moments.mean + self.moments.spread * (noise @ self._factor.T)
        return rows

    def coalition_rows(self, x: FloatArray, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """Condition on each coalition: one small system each, solved in batches of like size."""
        u, k, _ = coalitions.shape
        n_draws, n_columns = draws.shape[1:]
        revealed = self.players.expand(coalitions).reshape(u * k, n_columns)
        gaps = (x - draws) / self.moments.scale  # (u, d, c)
        gaps = np.repeat(gaps, k, axis=0) * revealed[:, None]  # zero where absent
        shift = np.empty_like(gaps)
        sizes = revealed.sum(axis=1)
        absent = n_columns - sizes
        smaller = np.minimum(sizes, absent)
        direct = sizes <= absent
        for by_revealed in (True, False):
            for bin_number in range(n_columns // SIZE_BIN + 1):
                chosen = np.flatnonzero((direct == by_revealed) & (smaller // SIZE_BIN == bin_number))
                if len(chosen):
                    solve = self._by_revealed if by_revealed else self._by_absent
                    shift[chosen] = solve(revealed[chosen], gaps[chosen])
        rows = np.repeat(draws, k, axis=0) + self.moments.scale * shift
        # Revealed columns are x itself: rounding matters at the thresholds of trees.
        return np.where(revealed[:, None], x, rows).reshape(u, k, n_draws, n_columns)

    def _by_revealed(self, revealed: BoolArray, gaps: FloatArray) -> FloatArray:
        """R[:,S] R[S,S]^-1 gap_S."""
        correlation = self.moments.correlation
        index, valid = _padded_members(revealed)
        matrix = _padded_blocks(correlation, index, valid)
        right = np.take_along_axis(gaps, index[:, None, :], axis=2) * valid[:, None, :]
        solved = np.linalg.solve(matrix, right.transpose(0, 2, 1)).transpose(0, 2, 1)
        spread = np.zeros_like(gaps)
        np.put_along_axis(spread, index[:, None, :], solved * valid[:, None, :], axis=2)
        # Padding repeats the first member: put it last, so that its own value stands.
        first = index[:, :1][:, None, :]
        np.put_along_axis(spread, first, solved[:, :, :1], axis=2)
        result: FloatArray = spread @ correlation
        return result

    def _by_absent(self, revealed: BoolArray, gaps: FloatArray) -> FloatArray:
        """The same through the precision P: on the absent H, -P[H,H]^-1 P[H,S] gap_S."""
        precision = self._precision
        index, valid = _padded_members(~revealed)
        if index.shape[1] == 0:
            return gaps
        matrix = _padded_blocks(precision, index, valid)
        pulled = gaps @ precision
        right = np.take_along_axis(pulled, index[:, None, :], axis=2) * valid[:, None, :]
        solved = -np.linalg.solve(matrix, right.transpose(0, 2, 1)).transpose(0, 2, 1)
        shift = gaps.copy()
        np.put_along_axis(shift, index[:, None, :], solved, axis=2)
        first = index[:, :1][:, None, :]
        np.put_along_axis(shift, first, solved[:, :, :1], axis=2)
        return shift

    def walk_rows(self, x: FloatArray, permutations: IntArray, draws: FloatArray) -> FloatArray:
        """All prefixes of a permutation from one Cholesky factor."""
        u, p = permutations.shape
        n_columns = len(self.moments.mean)
        order, factors = self.walk_factors(permutations)
        gaps = (x - draws) / self.moments.scale  # (u, d, c)
        permuted = np.take_along_axis(gaps, order[:, None, :], axis=2)
        innovations = np.linalg.solve(factors, permuted.transpose(0, 2, 1))  # (u, c, d)
        ends = np.cumsum(self.players.sizes[permutations], axis=1)[:, :-1]  # columns in each prefix
        shift = np.empty((u, p - 1, draws.shape[1], n_columns))
        for draw in range(draws.shape[1]):
            steps = factors * innovations[:, None, :, draw]  # (u, c, c)
            np.cumsum(steps, axis=2, out=steps)
            at_ends = np.take_along_axis(steps, ends[:, None, :] - 1, axis=2)  # (u, c, p-1)
            np.put_along_axis(shift[:, :, draw], order[:, None, :], at_ends.transpose(0, 2, 1), axis=2)
        rows = draws[:, None] + self.moments.scale * shift
        revealed = prefix_masks(permutations, self.players)[:, :, None]
        return np.where(revealed, x, rows)

    def walk_factors(self, permutations: IntArray) -> tuple[IntArray, FloatArray]:
        """Column orders `(u, c)` and Cholesky factors `(u, c, c)` of the permuted correlation."""
        order = self.players.column_order(permutations)
        permuted = self.moments.correlation[order[:, :, None], order[:, None, :]]
        return order, np.linalg.cholesky(permuted)

    def to_inputs(self, rows: FloatArray) -> FloatArray:
        """Cut latent columns where asked."""
        return rows if self.thresholds is None else self.thresholds.apply(rows)

    def workspace(self, *, walk: bool) -> int:
        """A few matrices of the size of the covariance."""
        n_columns = len(self.moments.mean)
        return (3 if walk else 1) * n_columns * n_columns


def _padded_members(masks: BoolArray) -> tuple[IntArray, BoolArray]:
    """Members of each mask `(n, c)`, padded to the longest with the first member."""
    counts = masks.sum(axis=1)
    width = int(counts.max(initial=0))
    order = np.argsort(~masks, axis=1, kind="stable")[:, :width]
    valid = np.arange(width) < counts[:, None]
    return np.where(valid, order, order[:, :1]), valid


def _padded_blocks(matrix: FloatArray, index: IntArray, valid: BoolArray) -> FloatArray:
    """`matrix[index, index]` for each row of `index`, with the identity on the padding."""
    blocks = matrix[index[:, :, None], index[:, None, :]] * (valid[:, :, None] & valid[:, None, :])
    diagonal = np.arange(index.shape[1])
    blocks[:, diagonal, diagonal] += ~valid
    return blocks


def _shaped(name: str, value: object, shape: tuple[int, ...]) -> FloatArray:
    array = np.asarray(value, dtype=float)
    if array.shape != shape:
        raise InvalidArgumentError(f"`{name}` must have shape {shape}, one per column; got {array.shape}.")
    if not np.isfinite(array).all():
        raise InvalidArgumentError(f"`{name}` must be finite; it holds NaN or infinite entries.")
    return array
