"""Errors of values due to a model that adds noise to each answer, which units do not show.

Noise of the coalitions that units evaluate is part of the units' spread. f(x) and f(background) are asked once and
shared by all units: each player has 1/p of either, and the base value that of the background. Where all coalitions are
enumerated nothing is left to spread, and the noise of their values is added, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import comb

from controlshap._types import FloatArray
from controlshap.statistics.control_variate import Estimate

#: Answers that are asked for again to see and to measure the noise, and so the degrees of freedom that it is known
#: with. Labels that differ one time in five are seen with a chance of 97 %, one time in 20 with 56 %.
REPEATED = 16
#: Difference of two answers beside the spread of answers that is rounding: half precision has 5e-4 of numbers between 0
#: and 1, and batches of another size add up in another order. Beside their size, single precision has 6e-8.
SAME_ANSWER, SAME_SINGLE = 1e-3, 1e-6


def standard_deviation(answers: FloatArray, again: FloatArray) -> FloatArray | None:
    """Standard deviation `(outputs,)` of an answer, from two for each of some rows `(n, outputs)`; None if rounding.

    A difference counts beside the spread over rows, which values come from, and where answers do not vary, beside
    their size.
    """
    spread, size = np.ptp(answers, axis=0), np.abs(answers).max(axis=0)
    rounding = np.where(spread > 0, np.maximum(SAME_ANSWER * spread, SAME_SINGLE * size), SAME_ANSWER * size)
    if (np.abs(again - answers) <= rounding).all():
        return None
    noise: FloatArray = np.sqrt(((again - answers) ** 2).mean(axis=0) / 2.0)
    return noise


def add_noise(estimate: Estimate, noise: FloatArray, n_rows: int, *, shared_base: bool, enumerated: bool) -> Estimate:
    """The estimate of a row with errors from noise of the size `noise` (outputs,) in answers that all units share.

    `n_rows` are background rows, whose mean is v(0) where `shared_base`.
    """
    p = len(estimate.values) - 1
    factors = np.zeros((2, p + 1, len(noise)))
    factors[0, :-1] = noise / p
    if shared_base:
        factors[1, :-1], factors[1, -1] = -noise / (p * np.sqrt(n_rows)), noise / np.sqrt(n_rows)
    added = np.zeros(estimate.values.shape)
    if enumerated:
        # v(S) has the coefficient 1 / (p C(p-1, s)) or its negative: squares over all but the empty and full coalition
        inverse = 1.0 / comb(p - 1, np.arange(p))
        added[:-1] = noise**2 * (inverse[1:].sum() + inverse[:-1].sum()) / p**2 / n_rows
    before = estimate.variances
    allowance = added if estimate.allowance is None else estimate.allowance + added
    after = replace(estimate, factors=np.concatenate([estimate.factors, factors]), allowance=allowance)
    of_noise = after.variances - before
    # Satterthwaite's: what the units know, and what the repeated answers do
    whole = np.where(after.variances > 0, after.variances, 1.0)
    spread = (before / whole) ** 2 / estimate.dof + (of_noise / whole) ** 2 / REPEATED
    return replace(after, dof=np.where(spread > 0, 1.0 / np.where(spread > 0, spread, 1.0), np.inf))
