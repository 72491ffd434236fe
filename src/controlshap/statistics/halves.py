"""Do the units of one half lie where the other half says? A check of the errors of a row by the row itself.

The factors of a covariance are deviations from means; Helmert contrasts of those of one part are as many numbers as
there are degrees of freedom, uncorrelated, of mean 0, each the deviation of one unit from those before it. Every second
one forms a half. The first half says how large a sum over the second is: its error, with one more jump and the degrees
of freedom of its own jumps, is that of a value. The second half is not in that error, so that an error which is too
small for what was not seen shows.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from controlshap._arrays import Array, namespace
from controlshap._types import FloatArray, IntArray
from controlshap.statistics.control_variate import Estimate
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.one_more_jump import spread_of_jumps
from controlshap.statistics.terms import Terms

#: Probability with which the interval of the first half is to hold the second.
LEVEL = 0.95
#: Fewest contrasts of a half.
FEWEST_CONTRASTS = 3
#: Ratios are cut off here, so that they are numbers.
FARTHEST = 1e6


def compare_halves(estimate: Estimate, root: CovarianceRoot, terms: Terms, live: Array | None) -> Array | None:
    """How far the second half is from 0, `(players, outputs)`, in half widths of the first half's interval.

    None for rows that were explained together, on a device, and where units are too few.
    """
    if estimate.factors.ndim != 3 or not isinstance(estimate.factors, np.ndarray):
        return None
    contrasts = helmert_contrasts(estimate.factors[: len(root.part), :, :], root.part)
    first, second = contrasts[::2], contrasts[1::2]
    if len(second) < FEWEST_CONTRASTS:
        return None
    speaking = terms.count_speaking()
    return halves_apart(first, second, None if speaking is None else speaking / 2.0, live)


def halves_apart(first: FloatArray, second: FloatArray, speaking: Array | None, live: Array | None) -> FloatArray:
    """The same of two sets of contrasts `(n, components, outputs)`."""
    # in units of the largest, whose fourth power is a double
    unit = max(float(np.abs(first).max(initial=0.0)), float(np.abs(second).max(initial=0.0)))
    if unit == 0.0:
        return np.zeros((first.shape[1] - 1, first.shape[2]))
    squares = 2.0 * (first / unit) ** 2
    variances, fallback = squares.sum(axis=0), np.ones(first.shape[2])
    spread = spread_of_jumps(variances, (squares**2).sum(axis=0), speaking, fallback, float(len(first)), live)
    error = np.sqrt(variances + spread.jump)[:-1]
    half_width = -stdtrit(np.minimum(spread.dof, 1e12), (1.0 - LEVEL) / 2.0)[:-1] * error
    apart = np.sqrt(2.0) * np.abs(second.sum(axis=0))[:-1] / unit
    silent = np.where(apart > 0, FARTHEST, 0.0)  # the first half shows nothing at all
    found: FloatArray = np.where(half_width > 0, apart / np.where(half_width > 0, half_width, 1.0), silent)
    return np.minimum(found, FARTHEST)


def helmert_contrasts(factors: FloatArray, part: IntArray) -> FloatArray:
    """Contrasts of the factors `(n, ...)` of each part: one fewer than factors, of the same sum of squares."""
    xp = namespace(factors)
    order = np.argsort(part, kind="stable")
    sizes = np.bincount(part)
    start = np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = np.arange(len(part)) - start  # of each factor within its part
    values = factors[order]
    before = np.concatenate([np.zeros((1, *values.shape[1:])), xp.cumsum(values, axis=0)])
    before = before[:-1] - before[start]  # sums of the earlier ones of the part
    later = np.flatnonzero(place > 0)
    k = place[later].reshape(-1, *[1] * (factors.ndim - 1)).astype(float)
    contrasts: FloatArray = (k * values[later] - before[later]) / np.sqrt(k * (k + 1.0))
    return contrasts
