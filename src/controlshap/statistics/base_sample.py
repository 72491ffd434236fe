"""The sample of rows whose mean prediction is the base value v(0), or estimates it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from controlshap._types import FloatArray, IntArray


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
