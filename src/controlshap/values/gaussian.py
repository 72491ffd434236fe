"""Correlated features: absent columns follow a Gaussian conditioned on the revealed ones.

Pathwise conditioning (Matheron's rule): with b ~ N(mu, Sigma), `b + Sigma[:,S] Sigma[S,S]^-1 (x - b)_S` is
a draw from the conditional distribution given x_S: no conditional covariance, no second factor.
Along a permutation all prefix rows come from one Cholesky factor: with L of the permuted covariance and
e = L^-1 (x - b), `row_k = b + sum_{i<=k} L[:,i] e_i`.

With empirical margins (a Gaussian copula) all of this happens to the normal scores of the columns, which are what
surrogates see; the model sees rows of values again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, final

import numpy as np

from controlshap._arrays import prefix_masks, ranks
from controlshap._checks import is_real
from controlshap._errors import InvalidArgumentError
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.players import Players
from controlshap.values.base import Imputer, ValueFunction
from controlshap.values.conditioning import Moments, condition
from controlshap.values.margins import Margins
from controlshap.values.normal_parts import NormalParts
from controlshap.values.thresholds import Thresholds, find_thresholds

#: Coalitions are solved together when their sizes fall into the same bin of this width.
SIZE_BIN = 4
#: Doubles of one batch.
BATCH_DOUBLES = 2**16


@final
@dataclass(frozen=True, eq=False)
class GaussianConditional(ValueFunction):
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
    margins : {"gaussian", "empirical"}
        "gaussian" takes every column as normal. "empirical" keeps the distribution that each column has in the
        background, and takes the normal scores of the columns as Gaussian (a Gaussian copula): rows hold no value
        outside the background's range but x itself, and codes and counts stay what they are.
        `features="copula"` is this.
    min_eigenvalue : float
        The correlation matrix is mixed with the identity until its smallest eigenvalue is this large.
    """

    mean: FloatArray | None = None
    covariance: FloatArray | None = None
    draws: Literal["gaussian", "background"] = "gaussian"
    binary: Literal["linear", "threshold"] = "linear"
    min_eigenvalue: float = 1e-4
    margins: Literal["gaussian", "empirical"] = "gaussian"

    def __post_init__(self) -> None:
        if self.margins not in ("gaussian", "empirical"):
            raise InvalidArgumentError(f"`margins` must be 'gaussian' or 'empirical'; got {self.margins!r}.")
        changed = (("mean", self.mean), ("covariance", self.covariance), ("binary", self.binary == "threshold" or None))
        given = [name for name, value in changed if value is not None]
        if self.margins == "empirical" and given:
            raise InvalidArgumentError(
                f"`{given[0]}` plays no part with margins='empirical', where columns keep the "
                "distribution that they have in the background. Leave it out, or use margins='gaussian'."
            )
        if self.mean is not None and self.draws == "background":
            raise InvalidArgumentError(
                "`mean` plays no part with draws='background', whose rows have a mean of their own. Leave it out, or "
                "use draws='gaussian'."
            )
        if self.draws not in ("gaussian", "background"):
            raise InvalidArgumentError(f"`draws` must be 'gaussian' or 'background'; got {self.draws!r}.")
        if self.binary not in ("linear", "threshold"):
            raise InvalidArgumentError(f"`binary` must be 'linear' or 'threshold'; got {self.binary!r}.")
        if not is_real(self.min_eigenvalue) or not 0 < self.min_eigenvalue < 1:
            raise InvalidArgumentError(
                f"`min_eigenvalue` must lie between 0 and 1; got {self.min_eigenvalue!r}. The default is 1e-4."
            )

    @property
    def draws_background(self) -> bool:
        """Whether `draws` is "background"."""
        return self.draws == "background"

    def bind(self, background: FloatArray, players: Players, feature_names: tuple[str, ...]) -> GaussianImputer:
        """Estimate and condition the moments."""
        if self.margins == "empirical":
            return self._bind_scores(background, players, feature_names)
        n_columns = background.shape[1]
        mean = background.mean(axis=0) if self.mean is None else _reshape("mean", self.mean, (n_columns,))
        if self.covariance is not None:
            covariance = _reshape("covariance", self.covariance, (n_columns, n_columns))
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
        thresholds = find_thresholds(background, players, moments) if self.binary == "threshold" else None
        finite = background if self.draws_background else None
        return GaussianImputer(players, moments, thresholds, finite)

    def _bind_scores(self, background: FloatArray, players: Players, feature_names: tuple[str, ...]) -> CopulaImputer:
        """The Gaussian of the normal scores."""
        if len(background) < 2:
            raise InvalidArgumentError(
                "`background` has one row, which has no distribution; features='copula' needs several rows."
            )
        margins = Margins.of(background, players)
        scores = margins.to_scores(background)
        gaps = scores - scores.mean(axis=0)
        lengths = np.sqrt((gaps**2).sum(axis=0))
        gaps /= np.where(lengths > 0, lengths, 1.0)
        # the scores of a column with ties vary less than 1, but stand for a normal variable that is cut
        moments = condition(np.zeros(len(lengths)), gaps.T @ gaps, self.min_eigenvalue, feature_names)
        finite = scores if self.draws_background else None
        return CopulaImputer(players, moments, None, finite, margins=margins)


@dataclass(frozen=True)
class GaussianImputer(NormalParts):
    """Rows of the pathwise conditioned Gaussian."""

    players: Players
    moments: Moments
    thresholds: Thresholds | None = None
    finite_draws: FloatArray | None = None

    linear_in_x = True
    has_device_rows = True

    @property
    def is_refitted(self) -> bool:  # type: ignore[override]
        """Unless draws are those of a background."""
        return self.finite_draws is None

    @property
    def has_normal_inputs(self) -> bool:
        """Unless columns are cut, or draws are those of a background."""
        return self.thresholds is None and self.finite_draws is None

    @cached_property
    def center(self) -> FloatArray:
        """Mean of the draws: over a finite set of rows theirs, else the Gaussian's."""
        if self.finite_draws is not None:
            mean: FloatArray = self.finite_draws.mean(axis=0)
            return mean
        return self.moments.mean

    @property
    def scale(self) -> FloatArray:
        """Standard deviations, as conditioned."""
        return self.moments.scale

    @property
    def parts(self) -> tuple[GaussianImputer, ...]:
        """The Gaussian itself: a mixture of one."""
        return (self,)

    @cached_property
    def _factor(self) -> FloatArray:
        return np.linalg.cholesky(self.moments.correlation)

    @cached_property
    def precision(self) -> FloatArray:
        """Inverse of the correlation."""
        return np.linalg.inv(self.moments.correlation)

    def sample(self, n_rows: int, rng: np.random.Generator) -> FloatArray:
        """Gaussian rows, or background rows with replacement."""
        if self.finite_draws is not None:
            return self.finite_draws[rng.integers(0, len(self.finite_draws), n_rows)]
        return self.from_noise(rng.standard_normal((n_rows, len(self.moments.mean))))

    def from_noise(self, noise: FloatArray) -> FloatArray:
        """Gaussian rows `(..., columns)` from standard normal numbers."""
        rows: FloatArray = self.moments.mean + self.moments.spread * (noise @ self._factor.T)
        return rows

    def coalition_rows(self, x: FloatArray, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """Condition on each coalition: one small system each, solved in batches of like size."""
        u, k, _ = coalitions.shape
        n_draws, n_columns = draws.shape[1:]
        revealed = self.players.expand(coalitions).reshape(u * k, n_columns)
        gaps = (x - draws) / self.moments.scale  # (u, d, c)
        rows = np.empty((u * k, n_draws, n_columns))
        sizes = revealed.sum(axis=1)
        absent = n_columns - sizes
        bins = np.minimum(sizes, absent) // SIZE_BIN
        direct = sizes <= absent
        for by_revealed in (True, False):
            solve = self._solve_by_revealed if by_revealed else self._solve_by_absent
            for number in range(n_columns // (2 * SIZE_BIN) + 1):
                members = np.flatnonzero((direct == by_revealed) & (bins == number))
                # Batches that stay in the processor's cache.
                step = max(1, BATCH_DOUBLES // (((number + 1) * SIZE_BIN) ** 2 + 2 * n_draws * n_columns))
                for start in range(0, len(members), step):
                    chosen = members[start : start + step]
                    unit = chosen // k
                    masks = revealed[chosen]
                    shift = solve(masks, gaps[unit])
                    shift *= self.moments.scale
                    shift += draws[unit]
                    # Revealed columns are x itself: rounding matters at the thresholds of trees.
                    np.copyto(shift, x, where=masks[:, None])
                    rows[chosen] = shift
        return rows.reshape(u, k, n_draws, n_columns)

    def _solve_by_revealed(self, revealed: BoolArray, gaps: FloatArray) -> FloatArray:
        """R[:,S] R[S,S]^-1 gap_S, for gaps that are 0 outside S."""
        correlation = self.moments.correlation
        spread = _solve_members(self._padded_correlation, revealed, gaps)
        result: FloatArray = spread @ correlation
        return result

    def _solve_by_absent(self, revealed: BoolArray, gaps: FloatArray) -> FloatArray:
        """Conditional shifts through the precision P: on the absent H, -P[H,H]^-1 P[H,S] gap_S."""
        shift = _solve_members(self._padded_precision, ~revealed, (gaps * revealed[:, None]) @ self.precision)
        return np.negative(shift, out=shift)

    @cached_property
    def _padded_correlation(self) -> FloatArray:
        return _pad(self.moments.correlation)

    @cached_property
    def _padded_precision(self) -> FloatArray:
        return _pad(self.precision)

    def walk_rows(self, x: FloatArray, permutations: IntArray, draws: FloatArray) -> FloatArray:
        """All prefixes of a permutation from one Cholesky factor."""
        u, p = permutations.shape
        n_draws, n_columns = draws.shape[1:]
        rows = np.empty((u, p - 1, n_draws, n_columns))
        # Batches that stay in the processor's cache.
        step = max(1, BATCH_DOUBLES // (n_columns * (n_columns + (p - 1) * n_draws)))
        for start in range(0, u, step):
            part = slice(start, start + step)
            gaps = (x - draws[part]) / self.moments.scale  # (u, d, c)
            order = self.players.column_order(permutations[part])
            factors, innovations = self.walk_innovations(order, gaps)
            ends = np.cumsum(self.players.sizes[permutations[part]], axis=1)[:, :-1]  # columns in each prefix
            inside = np.arange(n_columns) < ends[:, :, None]  # (u, p-1, c)
            steps = inside[:, :, None] * innovations[:, None]  # (u, p-1, d, c)
            back = np.argsort(order, axis=1)
            unpermuted = factors[np.arange(len(order))[:, None], back]  # rows in the order of the columns
            shift = steps.reshape(len(order), -1, n_columns) @ unpermuted.transpose(0, 2, 1)
            shift *= self.moments.scale
            block = rows[part]
            np.add(shift.reshape(block.shape), draws[part][:, None], out=block)
            revealed = prefix_masks(ranks(permutations[part])[:, self.players.owner], self.players.n_players)
            np.copyto(block, x, where=revealed[:, :, None])
        return rows

    def walk_innovations(self, order: IntArray, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Factors L `(u, c, c)` of the permuted correlation, and `L^-1 gap` `(u, d, c)`.

        The gaps are appended to the matrix as further rows.
        """
        reach = np.einsum("udc,udc->u", gaps, gaps) * self._largest_precision
        rows = np.take_along_axis(gaps, order[:, None, :], axis=2)
        return _extend_factor(self.moments.correlation, order, rows, (2.0 * reach + 1.0)[:, None])

    def substitute(
        self, columns: IntArray, rows: FloatArray, own: FloatArray | None = None, *, inverse: bool = False
    ) -> FloatArray:
        """`K^-1 row` `(n, h, u)` for rows `(n, c)`, with K the Cholesky factor for columns `(h, u)`.

        A factor of the correlation, or of its inverse. Rows of its own `(u, d, c)` come after the first.

        Factors are small and many, so that each step is made for all of them at once.
        """
        matrix = self.precision if inverse else self.moments.correlation
        h, below = len(columns), rows[:, columns]
        if own is not None:
            of_walks = np.take_along_axis(own.transpose(1, 2, 0), columns[None], axis=1)
            below = np.concatenate([below[:1], of_walks, below[1:]])
        whole = np.empty((h + len(below), h, columns.shape[1]))
        for row, column in enumerate(columns):
            matrix.ravel().take(column * len(matrix) + columns, out=whole[row], mode="clip")
        whole[h:] = below
        for j in range(h):
            if j:
                whole[j:, j] -= np.einsum("iku,ku->iu", whole[j:, :j], whole[j, :j])
            whole[j:, j] /= np.sqrt(whole[j, j])
        return whole[h:]

    @cached_property
    def _largest_precision(self) -> float:
        return float(np.linalg.norm(self.precision, 2))

    def walk_factors(self, permutations: IntArray) -> tuple[IntArray, FloatArray]:
        """Column orders `(u, c)` and Cholesky factors `(u, c, c)` of the permuted correlation."""
        order = self.players.column_order(permutations)
        return order, np.linalg.cholesky(self.moments.correlation.ravel().take(_flat_index(order, order.shape[1])))

    def add_walk_maps(self, permutations: IntArray, total: FloatArray) -> None:
        """Add the rank-one maps `L[:, k] (L^-1)[k, :]` of all columns, which come from one factor.

        The factor M of the precision in reversed order has the inverse of L: `L^-1` is M' in reversed order.
        """
        order, factors = self.walk_factors(permutations)
        n, c = order.shape
        inverses = np.linalg.cholesky(self.precision.ravel().take(_flat_index(order[:, ::-1], c)))
        back, start = np.argsort(order, axis=1), (np.arange(n) * c * c)[:, None, None]
        # Un-permute: left[column, row, u] = L[:, k] and right[column, u, :] = (L^-1)[k, :] of the column at k.
        left = np.ascontiguousarray(factors.ravel().take(start + _flat_index(back, c)).transpose(2, 1, 0))
        right = inverses.ravel().take(start + _flat_index(c - 1 - back, c)).transpose(2, 0, 1)
        for column, player in enumerate(self.players.owner):  # one product at a time: all of them are c^3 numbers more
            total[player] += left[column] @ np.ascontiguousarray(right[column])

    def to_inputs(self, rows: FloatArray) -> FloatArray:
        """Cut latent columns where asked."""
        return rows if self.thresholds is None else self.thresholds.apply(rows)

    def check(self, rows: FloatArray, feature_names: tuple[str, ...]) -> None:
        """Codes of thresholded columns must lie on their own side of the cut."""
        wrong = np.argwhere(self.to_inputs(rows) != rows)
        if self.thresholds is not None and len(wrong):
            row, column = wrong[0]
            raise InvalidArgumentError(
                "`X`: with binary='threshold' a binary column must hold one of its codes, on its own side of the cut; "
                f"row {row} holds {rows[row, column]:g} in {feature_names[column]!r}, which the model would not see. "
                "Use the background's codes and moments, or binary='linear'."
            )

    def workspace(self, *, walk: bool) -> int:
        """A few matrices of the size of the covariance."""
        n_columns = len(self.moments.mean)
        return (3 if walk else 1) * n_columns * n_columns


@final
@dataclass(frozen=True, kw_only=True)
class CopulaImputer(GaussianImputer):
    """Rows of normal scores, which the model sees as values.

    Attributes
    ----------
    margins : Margins
    explained : tuple of ndarray or None
        The explained row as scores and as values: it is shown as it is, between and beyond the background's values.
    """

    margins: Margins
    explained: tuple[FloatArray, FloatArray] | None = None

    linear_in_x = False  # in scores, which are not what derivatives of the model are taken in
    has_device_rows = False
    has_normal_inputs = False  # values of normal scores
    scores_are_fitted = True

    def for_row(self, x: FloatArray) -> tuple[CopulaImputer, FloatArray]:
        """The scores of x."""
        scores = self.margins.to_scores(x[None])[0]
        return replace(self, explained=(scores, x)), scores

    def to_inputs(self, rows: FloatArray) -> FloatArray:
        """Values of scores, and of the explained row its own."""
        inputs = self.margins.to_values(rows)
        if self.explained is not None:
            scores, x = self.explained
            np.copyto(inputs, x, where=rows == scores)
        return inputs

    def read_rows(self, rows: FloatArray, of: Imputer) -> FloatArray:
        """Scores of the values behind the scores of another fit."""
        return self.margins.to_scores(of.to_inputs(rows))

    def check(self, rows: FloatArray, feature_names: tuple[str, ...]) -> None:
        """Every row has scores."""


def _extend_factor(
    matrix: FloatArray, columns: IntArray, rows: FloatArray, corner: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Factors K `(u, h, h)` of the matrix of columns `(u, h)`, and `K^-1 row` `(u, n, h)` for rows `(u, n, h)` below.

    What the factorisation leaves of the rows is the forward substitution. The corner, the diagonal beneath, is large
    enough to keep the whole positive definite, and never read.
    """
    (u, h), n = columns.shape, rows.shape[1]
    whole = np.zeros((u, h + n, h + n))
    whole[:, :h, :h] = matrix.ravel().take(_flat_index(columns, len(matrix)))
    whole[:, h:, :h] = rows
    below = np.arange(h, h + n)
    whole[:, below, below] = corner
    factors = np.linalg.cholesky(whole)
    return factors[:, :h, :h], factors[:, h:, :h]


def _flat_index(order: IntArray, width: int) -> IntArray:
    """Places `(u, h, h)` of the rows and columns `order` (u, h) in a matrix of so many columns."""
    index: IntArray = order[:, :, None] * width + order[:, None, :]
    return index


def _pad(matrix: FloatArray) -> FloatArray:
    """The matrix with `SIZE_BIN` columns more that have nothing to do with the others."""
    c = len(matrix)
    padded = np.eye(c + SIZE_BIN)
    padded[:c, :c] = matrix
    return padded


def _solve_members(padded: FloatArray, masks: BoolArray, right: FloatArray) -> FloatArray:
    """`matrix[M,M]^-1 right_M` on the members M of each mask `(n, c)`, 0 elsewhere, for `right` (n, d, c).

    Masks of different sizes are filled up with padding columns, so that one batched solution serves them all.
    """
    n, c = masks.shape
    unit, column = np.nonzero(masks)
    counts = masks.sum(axis=1)
    least, most = int(counts.min()), int(counts.max())
    place = np.arange(len(unit)) - np.repeat(np.cumsum(counts) - counts, counts)
    index = np.empty((n, most), dtype=np.intp)
    index[:, least:] = c + np.arange(most - least)
    index[unit, place] = column
    width = len(padded)
    blocks = padded.ravel().take(index[:, :, None] * width + index[:, None, :])
    n_draws = right.shape[1]
    wide = np.zeros((n, width, n_draws))
    wide[:, :c] = right.transpose(0, 2, 1)
    every = np.arange(n)[:, None]
    solved = np.linalg.solve(blocks, wide[every, index])
    result = np.zeros((n, width, n_draws))
    result[every, index] = solved
    return np.ascontiguousarray(result[:, :c].transpose(0, 2, 1))


def _reshape(name: str, value: object, shape: tuple[int, ...]) -> FloatArray:
    array = np.asarray(value, dtype=float)
    if array.shape != shape:
        raise InvalidArgumentError(f"`{name}` must have shape {shape}, one per column; got {array.shape}.")
    if not np.isfinite(array).all():
        raise InvalidArgumentError(f"`{name}` must be finite; it holds NaN or infinite entries.")
    return array
