"""Certainty of signs and order, from values and their covariance. Arrays only.

The answer to every question is a ratio: how many times too large the errors are. With 1 or less, the answer is certain.

**Order.** `|phi_i| > |phi_j|` with `s = sign(phi_i)` is the pair of linear statements `s phi_i - phi_j > 0` and
`s phi_i + phi_j > 0`; if it is false, one of them is, so a test of each at one-sided level gamma is wrong with
probability 2 gamma at most. A set or an order is declared only when *every* pair that it ranks passes on its own. If a
declared top-k set or order is wrong, then two players that are neighbours in the true order are declared the wrong way
round (walk down the true order: somewhere a player outside the set is followed by one inside). There are p - 1 such
pairs, whatever was declared, so with a two-sided level of `alpha / (p - 1)` for each pair all sets and orders of a row
are right together with probability `1 - alpha`. For signs, each of p players is tested at one-sided level `alpha / p`.

An error is 0 only where the value is exact: errors of sampled values allow for what no unit has shown.

Arrays may have leading axes for explained rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit

from controlshap._arrays import diagonal
from controlshap._types import BoolArray, FloatArray, IntArray

#: Simulated maxima of several correlated normals.
N_DRAWS = 20_000
#: With fewer degrees of freedom, correlations are too uncertain to be used: as many as 30 units of one size have.
FEWEST_DOF = 60.0
MOST_DOF = 1e12
#: A value that was 0 in all units has a certain (zero) sign once its interval is below this share of the largest value.
NEGLIGIBLE = 0.01
#: Errors and gaps below this share of the largest value are rounding.
ROUNDING = 1e-12


def quantile(dof: FloatArray, tail: float) -> FloatArray:
    """Student's quantile with probability `tail` above it."""
    result: FloatArray = -stdtrit(np.minimum(dof, MOST_DOF), tail)
    return result


def tail_dof(dof: FloatArray) -> FloatArray:
    """Half the degrees of freedom, for quantiles far out in the tails, where the skewness of counts matters more.

    With 20 players whose jumps have one size, intervals cover all players of a row in 93.3 % of rows with half of the
    degrees of freedom, and in 89.8 % with all of them (docs/mathematics.md, section 13).
    """
    halved: FloatArray = np.maximum(0.5 * dof, np.minimum(dof, 3.0))
    return halved


def _ratio(gap: FloatArray, error: FloatArray, critical: FloatArray, floor: FloatArray) -> FloatArray:
    """`critical error / gap`, infinite where the gap is not positive.

    0 without error, even where the gap is 0, which is then certain.
    """
    silent = error <= floor
    positive = gap > 0
    ratios = np.where(positive, critical * error / np.where(positive, gap, 1.0), np.inf)
    return np.where(silent, 0.0, ratios)


def rounding_floor(values: FloatArray) -> Any:
    """Size `(...)` below which differences between values `(..., p)` are rounding."""
    return ROUNDING * np.abs(values).max(axis=-1, initial=0.0)


def sign_ratios(values: FloatArray, errors: FloatArray, dof: FloatArray, alpha: float) -> FloatArray:
    """For each player `(..., p)`, all signs together at level `1 - alpha`.

    A player that changed nothing in any unit has no sign; that is certain once its interval is NEGLIGIBLE beside the
    largest value.
    """
    critical, floor = quantile(tail_dof(dof), alpha / values.shape[-1]), rounding_floor(values)[..., None]
    size = np.abs(values)
    gap = np.where(size > floor, size, NEGLIGIBLE * size.max(axis=-1, initial=0.0, keepdims=True))
    return _ratio(gap, errors, critical, floor)


def contrast_errors(covariance: FloatArray, sign: float) -> FloatArray:
    """Standard errors `(..., p, p)` of `phi_i + sign phi_j`, without rounding below 0."""
    variances = diagonal(covariance)
    both = variances[..., :, None] + variances[..., None, :]
    of_sums = both + 2.0 * sign * covariance
    # a covariance is rounded relative to the variances, not to the difference
    return np.sqrt(np.where(of_sums > 1e-14 * both, of_sums, 0.0))


def order_ratios(values: FloatArray, covariance: FloatArray, dof: FloatArray, alpha: float) -> FloatArray:
    """At `[..., i, j]` the ratio for `|phi_i| > |phi_j|`, all pairs together at level `1 - alpha`; 0 on the diagonal.

    A difference may have fewer degrees of freedom than either value (what they share cancels). It is given the least
    of those of the two values and of the median of the row.
    """
    p = values.shape[-1]
    # the fewer degrees of freedom of two players count, and give the larger of their quantiles
    usual = np.median(dof, axis=-1, keepdims=True)
    each = quantile(tail_dof(np.minimum(dof, usual)), alpha / (2.0 * max(1, p - 1)))
    critical = np.maximum(each[..., :, None], each[..., None, :])
    floor = rounding_floor(values)[..., None, None]
    sign = np.where(values < 0, -1.0, 1.0)[..., :, None]
    apart, together = contrast_errors(covariance, -1.0), contrast_errors(covariance, 1.0)
    same, other = sign > 0, values[..., None, :]
    size = sign * values[..., :, None]
    first = _ratio(size - other, np.where(same, apart, together), critical, floor)
    second = _ratio(size + other, np.where(same, together, apart), critical, floor)
    ratios = np.maximum(first, second)
    ratios[..., np.arange(p), np.arange(p)] = 0.0
    return ratios


def magnitude_order(values: FloatArray) -> IntArray:
    """Players by decreasing magnitude; ties by number."""
    return np.argsort(-np.abs(values), axis=-1, kind="stable")


def cut_ratios(ratios: FloatArray, order: IntArray) -> FloatArray:
    """Ratios `(..., p - 1)`: for k = 1 to p - 1, that the first k of the order are the k largest."""
    in_order = np.take_along_axis(np.take_along_axis(ratios, order[..., :, None], -2), order[..., None, :], -1)
    above = np.maximum.accumulate(in_order, axis=-2)
    largest: FloatArray = np.maximum.accumulate(above[..., ::-1], axis=-1)[..., ::-1]  # of rows up to i, columns from j
    k = np.arange(1, order.shape[-1])
    return largest[..., k - 1, k]


def swap_probabilities(values: FloatArray, covariance: FloatArray, dof: FloatArray, order: IntArray) -> FloatArray:
    """Chances `(p - 1,)` that a rerun of the same size swaps neighbours of the order.

    The gaps of two runs differ by two errors, each of the gap's standard error s: `P(t < -gap / (sqrt(2) s))`.
    """
    sign = np.where(values < 0, -1.0, 1.0)
    upper, lower = order[:-1], order[1:]
    gap = np.abs(values[upper]) - np.abs(values[lower])
    cross = sign[upper] * sign[lower] * covariance[upper, lower]
    variances = np.diag(covariance)
    both = variances[upper] + variances[lower]
    error = np.sqrt(np.where(both - 2.0 * cross > 1e-14 * both, both - 2.0 * cross, 0.0))
    scaled = gap / np.where(error > 0, np.sqrt(2.0) * error, 1.0)
    chance = stdtr(np.minimum(np.minimum(dof[upper], dof[lower]), MOST_DOF), -scaled)
    return np.where(error > 0, chance, np.where(gap > 0, 0.0, 0.5))


def simultaneous_tail(covariance: FloatArray, dof: FloatArray, alpha: float) -> float:
    """One-sided tail for each of p intervals that together miss with probability `alpha`.

    Correlated values miss together: the largest of p such normals is simulated (with the same draws every time), and
    the result is kept between Sidak's bound, which needs no correlation, and the tail of a single interval. With few
    degrees of freedom the correlation is too uncertain, and Sidak's bound is taken.
    """
    variances = np.diag(covariance)
    used = variances > 0
    n = int(used.sum())
    if n <= 1:
        return alpha / 2.0
    sidak = -np.expm1(np.log1p(-alpha) / n) / 2.0
    if float(dof[used].min()) < FEWEST_DOF:
        return float(sidak)
    scale = np.sqrt(variances[used])
    correlation = covariance[np.ix_(used, used)] / scale / scale[:, None]
    spectrum, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(spectrum, 0.0))
    normals = np.random.default_rng(20240229).standard_normal((N_DRAWS, n))
    largest = np.abs(normals @ root.T).max(axis=1)
    # beyond what the draws can show, Sidak's bound
    if alpha * N_DRAWS < 20:
        return float(sidak)
    critical = np.quantile(largest, 1.0 - alpha)
    return float(np.clip(ndtr(-critical), sidak, alpha / 2.0))


def sidak_half_widths(errors: FloatArray, dof: FloatArray, alpha: FloatArray, axis: int) -> FloatArray:
    """Half widths of intervals that miss with probability `alpha` together, along an axis, whatever their correlation.

    Values without error do not count.
    """
    n_used = np.maximum((errors > 0).sum(axis=axis, keepdims=True), 1)
    tail = -np.expm1(np.log1p(-alpha) / n_used) / 2.0
    critical = quantile(tail_dof(dof), np.broadcast_to(tail, dof.shape))  # type: ignore[arg-type]
    return np.where(errors > 0, critical * errors, 0.0)


def top_ratio(values: FloatArray, half_widths: FloatArray, k: int) -> float:
    """How many times too wide intervals `(n,)` are to certify which k magnitudes are the largest."""
    order, size = magnitude_order(values), np.abs(values)
    gaps = size[order[:k], None] - size[order[k:]] - rounding_floor(values)
    reach = half_widths[order[:k], None] + half_widths[order[k:]]
    return float(np.where(gaps > 0, reach / np.where(gaps > 0, gaps, 1.0), np.inf).max())


def mark_separated(ratios: FloatArray, values: FloatArray, order: IntArray) -> BoolArray:
    """Which top sets of the order are certain, `(p - 1,)`; ties, exact or by rounding, separate nothing."""
    size = np.abs(values)[order]
    certain: BoolArray = (cut_ratios(ratios, order) <= 1.0) & (size[:-1] - size[1:] > rounding_floor(values))
    return certain


def separated_by(low: FloatArray, high: FloatArray, order: IntArray) -> BoolArray:
    """The same `(p - 1,)` where intervals `(p,)` hold all values together: no magnitude of the rest reaches the set."""
    least, most = np.maximum(np.maximum(low, -high), 0.0)[order], np.maximum(-low, high)[order]
    apart: BoolArray = np.minimum.accumulate(least)[:-1] > np.maximum.accumulate(most[::-1])[::-1][1:]
    return apart
