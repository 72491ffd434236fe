"""Intervals for means of bounded units that hold for any number of units: no normal limit, and no unseen jump.

A gambler who doubts that the mean of independent units X_t >= -r is at most m stakes the share lambda_t of the capital
on each unit,

    K_t = K_(t-1) (1 + lambda_t (X_t - m)),    0 <= lambda_t < 1 / (m + r),

where lambda_t depends on earlier units alone. Under the hypothesis K is a nonnegative supermartingale, so that the
probability that it ever reaches 1/alpha is alpha at most (Ville), whatever the stakes, the number of units or the
moment of stopping (Waudby-Smith and Ramdas 2024). Hypotheses m_1 < m_2 < ... are tested from the lowest up, as long as
each is rejected; the bound is then wrong only if the lowest true hypothesis is rejected (docs/mathematics.md, section
16).
"""

from __future__ import annotations

import math

import numpy as np

from controlshap._types import BoolArray, FloatArray

#: Share of the units, and fewest of them, that choose the hypotheses and the first stakes; bets start after these. Of
#: 0.05, 0.07 and 0.1 the largest widens all intervals by up to 4 %, and with the smallest the first units are too few
#: to show a jump that one unit in ten or in 50 has (7 % wider).
FIRST_SHARE, FEWEST_FIRST = 0.07, 8
#: Hypotheses are evenly spaced within so many standard errors of the first units' mean; farther out their gaps grow.
FAR = 4.0
#: Gap between hypotheses, in standard errors of the mean of all units, and how many times larger gaps are far out.
STEP, GROWTH = 0.1, 1.25
#: Largest share of the capital that one unit may lose. It is reached for players that hardly vary, whose width is
#: inversely proportional to it; stakes on others are smaller.
MOST_AT_STAKE = 0.97
#: How many times the stakes change.
N_CHANGES = 400


def bound_values(
    terms: FloatArray, reach: float, alpha: float, live: BoolArray | None = None, before: FloatArray | None = None
) -> FloatArray:
    """Bounds `(4, players, outputs)` of the means of `terms` (n, players, outputs): low and high of each, and of all.

    Terms are within `reach` of 0, and those of players that are not `live` are 0. Bounds `before`, from earlier looks,
    still hold, since each look has its own share of alpha.
    """
    n, p, n_outputs = terms.shape
    reaches = np.full((n, p * n_outputs), reach)
    each = [np.stack(finite_bounds(terms.reshape(n, -1), reaches, alpha / share)) for share in (1, p)]
    found = np.concatenate(each).reshape(4, p, n_outputs)
    if live is not None:
        found = np.where(live[:, None], found, 0.0)
    if before is not None:
        low, high = np.maximum(found[::2], before[::2]), np.minimum(found[1::2], before[1::2])
        found = np.stack([low[0], high[0], low[1], high[1]])
    return found


def finite_bounds(values: FloatArray, reach: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Bounds `(c,)` that hold the means of each column of `values` (n, c) with probability 1 - alpha, for any n.

    No value may exceed `reach` (n, c), which is known for each unit before it is drawn.
    """
    if (np.abs(values) > (1.0 + 1e-6) * reach).any():
        raise ValueError("units leave the range that bets rest on")
    low = lower_bound(values, reach, alpha / 2.0)
    return low, -lower_bound(-values, reach, alpha / 2.0)


def lower_bound(values: FloatArray, reach: FloatArray, alpha: float) -> FloatArray:
    """A bound `(c,)` that exceeds the mean of `values` (n, c) with probability alpha at most."""
    n, target = len(values), math.log(1.0 / alpha)
    n_first = max(FEWEST_FIRST, math.ceil(FIRST_SHARE * n))
    least: FloatArray = -reach.max(axis=0)
    if n <= n_first:
        return least
    means = _hypotheses(values[:n_first], least, n)  # (hypotheses, c)
    capital = np.zeros(means.shape)  # logarithms
    refuted = np.zeros(means.shape, dtype=bool)
    size = max(1, math.ceil((n - n_first) / N_CHANGES))
    total, squares = values[:n_first].sum(axis=0), (values[:n_first] ** 2).sum(axis=0)
    for start in range(n_first, n, size):
        part = values[start : start + size]
        most = reach[start : start + size].max(axis=0)
        # as if one unit had jumped as far as it can: what was not seen has a chance of about one in the units so far
        variance = (squares - total**2 / start + most**2) / start
        stakes = np.sqrt(2.0 * np.maximum(target - capital, 0.0) / ((n - start) * variance))
        stakes = np.minimum(stakes, MOST_AT_STAKE / (means + most))
        for value in part:
            capital += np.log1p(stakes * (value - means))
            refuted |= capital >= target
        total, squares = total + part.sum(axis=0), squares + (part**2).sum(axis=0)
    n_refuted = np.cumprod(refuted, axis=0).sum(axis=0)
    bounds = np.concatenate([least[None], means])
    return np.asarray(np.take_along_axis(bounds, n_refuted[None], axis=0)[0])


def _hypotheses(first: FloatArray, least: FloatArray, n: int) -> FloatArray:
    """Hypothetical means `(k, c)` in increasing order, from the least possible to beyond where the bound may be."""
    n_first, reach = len(first), -least
    center = first.mean(axis=0)
    spread = np.sqrt((((first - center) ** 2).sum(axis=0) + (reach / math.sqrt(n)) ** 2) / n_first)
    n_near = math.ceil(2.0 * FAR * math.sqrt(n / n_first) / STEP)
    near = center + spread / math.sqrt(n) * STEP * (np.arange(n_near + 1) - n_near / 2.0)[:, None]
    steps = STEP * np.cumsum(GROWTH ** np.arange(1, 80))[::-1, None]
    far = near[0] - spread / math.sqrt(n) * steps
    means: FloatArray = np.concatenate([far, near])
    return np.clip(means, 0.999 * least, None)
