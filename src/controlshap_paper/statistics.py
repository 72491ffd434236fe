"""The statistics of the paper's table, as its numbers were computed, and those that it lacks.

- variance reduction: for each row and player over the runs; the median over rows; the median over the five players with
  the largest sum of absolute values over rows.
- rank changes: `controlshap.metrics.rank_changes`; the reduction in percent for each row, the mean over rows.
- bias: the mean over runs minus the true value, in its standard errors (that of the truth included); root mean square
  over rows and players, so that no bias gives about 1.
- mean squared error: variance over runs plus squared bias against the true values, over rows and players; what a
  sampled truth is off by itself is taken off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlshap import metrics
from controlshap_paper.data import FloatArray, IntArray

TOP = 5
#: Resamples of the runs behind the Monte Carlo error of a reduction.
RESAMPLES = 100


@dataclass(frozen=True)
class LineStatistics:
    """One line of the table; reductions in percent, with their Monte Carlo errors."""

    variance_reduction: float
    variance_error: float
    rank_reduction: float
    rank_error: float
    rank_before: float
    rank_after: float
    bias_z: float
    mse: float


def top_players(values: FloatArray, k: int = TOP) -> IntArray:
    """The players with the largest sum of absolute values over rows `(rows, players)`."""
    return np.argsort(-np.abs(values).sum(axis=0), kind="stable")[:k]


def variance_reduction(plain: FloatArray, other: FloatArray, top: IntArray) -> float:
    """The paper's reduction of variance over the `top` players, in percent."""
    by_player = np.median(metrics.variance_reduction(plain[..., top], other[..., top]), axis=0)
    return float(100.0 * np.median(by_player))


def rank_reduction(before: FloatArray, after: FloatArray) -> float:
    """The reduction of rank changes `(rows,)` in percent; rows without changes before are left out."""
    changed = before > 0
    if not changed.any():
        return 0.0
    return float(100.0 * np.mean(1.0 - after[changed] / before[changed]))


def bias_z(estimates: FloatArray, truth: FloatArray, truth_errors: FloatArray) -> float:
    """Root mean square z score of the mean over runs; 0 where nothing varies or differs beyond rounding."""
    n = len(estimates)
    gap = estimates.mean(axis=0) - truth
    # z is t-distributed: its mean square is (n - 1) / (n - 3) without bias
    variance = estimates.var(axis=0, ddof=1) / n * (n - 1) / max(n - 3, 1) + truth_errors**2
    rounding = 1e-9 * np.abs(truth).max(initial=1e-300)
    certain = np.sqrt(variance) <= rounding
    off = np.where(np.abs(gap) <= 100 * rounding, 0.0, np.inf)
    z = np.where(certain, off, gap / np.sqrt(np.where(certain, 1.0, variance)))
    return float(np.sqrt(np.mean(z**2)))


def mean_squared_error(estimates: FloatArray, truth: FloatArray, truth_errors: FloatArray) -> float:
    """Variance plus squared bias, less the part of it that the errors of the mean and of the truth explain."""
    variance = estimates.var(axis=0, ddof=1)
    bias = np.mean((estimates.mean(axis=0) - truth) ** 2 - variance / len(estimates) - truth_errors**2)
    return float(np.mean(variance) + max(bias, 0.0))


def summarise(
    plain: FloatArray, other: FloatArray, truth: FloatArray, truth_errors: FloatArray, *, same_rows: bool = True
) -> LineStatistics:
    """The statistics of one line of the table.

    Parameters
    ----------
    plain, other : ndarray of shape (runs, rows, players)
        What a reduction is against (no control, the paper's sampling), and the method.
    same_rows : bool
        Whether the published numbers are about the same rows; otherwise the error counts the choice of rows too.
    """
    top = top_players(truth)
    before, after = metrics.rank_changes(plain), metrics.rank_changes(other)
    rng = np.random.default_rng(0)
    n_runs, n_rows, _ = plain.shape
    resampled = []
    for _ in range(RESAMPLES):
        runs = rng.integers(0, n_runs, n_runs)
        rows = np.arange(n_rows) if same_rows else rng.integers(0, n_rows, n_rows)
        chosen = np.ix_(runs, rows)
        ranks = rank_reduction(metrics.rank_changes(plain[chosen]), metrics.rank_changes(other[chosen]))
        resampled.append((variance_reduction(plain[chosen], other[chosen], top), ranks))
    errors = np.std(resampled, axis=0, ddof=1)
    return LineStatistics(
        variance_reduction=variance_reduction(plain, other, top),
        variance_error=float(errors[0]),
        rank_reduction=rank_reduction(before, after),
        rank_error=float(errors[1]),
        rank_before=float(before.mean()),
        rank_after=float(after.mean()),
        bias_z=bias_z(other, truth, truth_errors),
        mse=mean_squared_error(other, truth, truth_errors),
    )
