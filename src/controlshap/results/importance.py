"""Intervals of mean absolute values, as the plots and the report draw them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from controlshap._types import FloatArray
from controlshap.results.summary import Summary
from controlshap.statistics.certainty import MOST_DOF, quantile

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


def importance_interval(explanation: Explanation, summary: Summary, level: float) -> tuple[FloatArray, FloatArray]:
    """Bounds of `summary.mean_absolute`, of its shape.

    The lower one allows for what noise may still add; none is below 0, which no mean of absolute values can be.
    """
    variances = explanation.standard_errors**2
    total = variances.sum(axis=0)
    # Satterthwaite: the mean over rows has about the degrees of freedom of all of them together; from shares, since
    # squares of variances leave the range of doubles early
    shares = variances / np.where(total > 0, total, 1.0)
    spread = (shares**2 / np.minimum(explanation.degrees_of_freedom, MOST_DOF)).sum(axis=0)
    dof = np.where(spread > 0, 1.0 / np.where(spread > 0, spread, 1.0), np.inf)
    reach = np.where(total > 0, quantile(dof, (1.0 - level) / 2.0) * summary.standard_errors, 0.0)
    low, high = summary.mean_absolute - summary.bias_bound - reach, summary.mean_absolute + reach
    return np.maximum(low, 0.0), np.maximum(high, 0.0)
