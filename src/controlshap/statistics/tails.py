"""Whether what units show has a variance at all, by Hill's tail index. Arrays only.

Where a share of about `t^-a` of them is t times as large, sizes have a variance only for a > 2. Hill's estimate of a is
1 over the mean log of the k largest over the next one, and has a standard error of `a / sqrt(k)`; here k is the square
root of their number. If it is not above 2 by a standard error, the mean may rest on draws that no sample has.
"""

from __future__ import annotations

import math

import numpy as np

from controlshap._arrays import TINY, Array, at_least, descending, namespace, take, zeros
from controlshap.statistics.terms import ROUNDING

#: Tail index at which variances begin.
WITH_VARIANCE = 2.0
#: Fewest of the largest sizes: the standard error is then a third of the index.
FEWEST_LARGEST = 9


def lacks_variance(deviations: Array) -> Array:
    """Whether deviations `(..., units, players, outputs)` may have tails without a variance, `(..., outputs)`."""
    sizes = namespace(deviations).abs(deviations).reshape(*deviations.shape[:-3], -1, deviations.shape[-1])
    k = math.isqrt(sizes.shape[-2])
    if k < FEWEST_LARGEST:
        return zeros((*sizes.shape[:-2], sizes.shape[-1]), sizes) > 0.0
    largest = take(descending(sizes, axis=-2), np.arange(k + 1), axis=-2)
    least = largest[..., -1:, :]  # 0 where it is rounding
    least = namespace(sizes).where(least > ROUNDING * largest[..., :1, :], least, 0.0)
    logs = namespace(sizes).log(at_least(largest[..., :-1, :], TINY) / at_least(least, TINY)).mean(axis=-2)
    # a mean log of 0 is an index without bound; where less than k vary there is no tail to speak of
    return (least[..., 0, :] > 0.0) & (logs * WITH_VARIANCE * (1.0 + 1.0 / math.sqrt(k)) > 1.0)
