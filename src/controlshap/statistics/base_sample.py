"""Answers that all units of a row share, f(x) and those whose mean is v(0), and the noise that a model adds to them.

Noise of the coalitions that units evaluate is part of the units' spread. f(x) and f(background) are asked once: each
player has 1/p of either, and the base value that of the background. Where all coalitions are enumerated nothing is left
to spread, and the noise of their values is added, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import comb

from controlshap._types import FloatArray, IntArray
from controlshap.statistics.control_variate import Estimate

#: Answers that are asked for twice to find and to measure the noise, whose degrees of freedom they are. Labels that
#: differ one time in five are noticed with a chance of 97 %, one time in 20 with 56 %.
REPEATED = 16
#: Largest difference of two answers that counts as rounding, as a share of the spread of the answers and of their size:
#: half precision rounds numbers between 0 and 1 to 5e-4, and batches of another size are summed in another order;
#: single precision rounds to 6e-8.
SAME_ANSWER, SAME_SINGLE = 1e-3, 1e-6


@dataclass(frozen=True)
class BaseSample:
    """Rows whose mean prediction is v(0), or estimates it.

    Attributes
    ----------
    rows : ndarray of shape (n, columns)
        A finite background, shared by all explained rows; or draws from the distribution, one set for each.
    values : ndarray of shape (n, outputs, functions)
        The model there, and the surrogates where there are any.
    population : float
        Number of rows there are; infinite for a distribution.
    sizes : ndarray of shape (n,) or None
        Where values are means over batches of draws (whose rows are not kept): how many of them.
    """

    rows: FloatArray
    values: FloatArray
    population: float
    sizes: IntArray | None = None

    @property
    def finite(self) -> bool:
        """Whether units draw from these rows, whose mean is then v(0) itself."""
        return not math.isinf(self.population)

    @property
    def n_outputs(self) -> int:
        """Outputs of the model."""
        return int(self.values.shape[1])

    @property
    def mean(self) -> FloatArray:
        """The estimate of v(0), shape (outputs, functions)."""
        if self.sizes is not None:
            return np.tensordot(self.sizes / self.sizes.sum(), self.values, axes=1)
        mean: FloatArray = self.values.mean(axis=0)
        return mean

    def sampling_error(self, population: int) -> FloatArray:
        """Error of the base value `(outputs,)` because a finite background was sampled from so many rows."""
        n = len(self.rows)
        if not self.finite or n == population:
            return np.zeros(self.n_outputs)
        spread: FloatArray = self.values[:, :, 0].std(axis=0, ddof=1)
        error: FloatArray = spread * np.sqrt((1.0 - n / population) / n)
        return error

    def root_rows(self) -> FloatArray:
        """Root `(n, outputs, functions)` of the covariance of the mean."""
        n = len(self.values)
        if self.finite or n < 2:
            return np.zeros((0, *self.values.shape[1:]))
        if self.sizes is not None:
            scale = np.sqrt(self.sizes / (self.sizes.sum() * (n - 1.0)))
            return np.asarray(scale[:, None, None] * (self.values - self.mean))
        result: FloatArray = (self.values - self.mean) / np.sqrt(n * (n - 1))
        return result


def standard_deviation(answers: FloatArray, again: FloatArray) -> FloatArray | None:
    """Standard deviation `(outputs,)` of an answer, from two answers for each row `(n, outputs)`; None for rounding.

    Differences are compared with the spread over rows, which is what values are made of; where answers do not vary,
    with their size.
    """
    spread, size = np.ptp(answers, axis=0), np.abs(answers).max(axis=0)
    rounding = np.where(spread > 0, np.maximum(SAME_ANSWER * spread, SAME_SINGLE * size), SAME_ANSWER * size)
    if (np.abs(again - answers) <= rounding).all():
        return None
    noise: FloatArray = np.sqrt(((again - answers) ** 2).mean(axis=0) / 2.0)
    return noise


def add_noise(estimate: Estimate, noise: FloatArray, n_rows: int, *, shared_base: bool, enumerated: bool) -> Estimate:
    """Add the noise of the answers that all units share, of standard deviation `noise` (outputs,), to the errors.

    v(0) is the mean of `n_rows` background rows where `shared_base`.
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
    # Satterthwaite's, of the units and of the repeated answers
    whole = np.where(after.variances > 0, after.variances, 1.0)
    spread = (before / whole) ** 2 / estimate.dof + (of_noise / whole) ** 2 / REPEATED
    return replace(after, dof=np.where(spread > 0, 1.0 / np.where(spread > 0, spread, 1.0), np.inf))
