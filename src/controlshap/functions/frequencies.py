"""The logistic function as a sum of few sines: `sigmoid(z) = 1/2 + sum_m weight_m sin(w_m z)` for |z| <= W.

Frequencies are odd multiples of one, so that the sum is symmetric about half a period, and only |z| <= W has to fit:
weights by least squares over a period a little longer than 2 W need half as many sines as the midpoint rule for

    sigmoid(z) - 1/2 = integral_0^inf sin(w z) / sinh(pi w) dw,

whose error is below eps with step 2 pi / P, P = W + ln(1/eps) + 0.7, up to w = (ln(1/eps) + 0.2)/pi. Beyond
`FITTED` the midpoint rule has no more of them.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import expit

from controlshap._types import FloatArray

#: Bounds up to which weights are fitted, and the steps in which a bound is rounded up: few sums are then made.
FITTED, ROUNDED = 16.0, 0.5
#: By how much half a period exceeds the bound: of 0.5 to 20 those that took the fewest sines, for eps of 1e-8 and
#: 1e-12, were 2.5, 2, 1.5 and 1 at bounds of 2, 4, 6 and 10.
BEYOND = 2.0
#: Share of eps that a fit may miss by on the points where it is checked.
LEFT = 0.5


def logistic_nodes(bound: float, precision: float) -> tuple[FloatArray, FloatArray]:
    """Frequencies, which are equally spaced from half a step, and weights; not to be written to."""
    return _nodes(max(1, math.ceil(bound / ROUNDED)) * ROUNDED, precision)


@lru_cache(256)
def _nodes(bound: float, precision: float) -> tuple[FloatArray, FloatArray]:
    frequencies, weights = midpoint_nodes(bound, precision)
    if bound > FITTED:
        return frequencies, weights
    step = math.pi / (bound + BEYOND)
    for n_terms in range(math.ceil(bound), len(weights)):
        fewer = step * (np.arange(n_terms) + 0.5)
        # more points near the ends, where a fit is worst
        points = bound * np.cos(np.linspace(0.0, 0.5 * math.pi, 8 * n_terms + 16))
        fitted = np.linalg.lstsq(np.sin(points[:, None] * fewer), expit(points) - 0.5, rcond=1e-15)[0]
        between = np.linspace(0.0, bound, 64 * n_terms)
        missed = np.sin(between[:, None] * fewer) @ fitted - (expit(between) - 0.5)
        if np.abs(missed).max() <= LEFT * precision:
            return fewer, fitted
    return frequencies, weights


def midpoint_nodes(bound: float, precision: float) -> tuple[FloatArray, FloatArray]:
    """Nodes of the midpoint rule."""
    digits = math.log(1.0 / precision)
    step = 2.0 * math.pi / (bound + digits + 0.7)
    n_nodes = math.ceil((digits + 0.2) / math.pi / step)
    frequencies = step * (np.arange(n_nodes) + 0.5)
    return frequencies, step / np.sinh(math.pi * frequencies)
