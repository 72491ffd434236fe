"""From terms to values with errors: solve, covariance, control, closed sum. Arrays only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlshap._types import FloatArray
from controlshap.control import Estimate, KnownValues, adjust, close_sum
from controlshap.crossfit import adjust_by_folds
from controlshap.estimators.terms import LeastSquaresTerms, Terms
from controlshap.strata import Roots, Strata
from controlshap.variance.protocol import Variance


@dataclass(frozen=True)
class Sample:
    """What the units of a row brought.

    Attributes
    ----------
    terms, strata
        Contributions and design of the units.
    base_rows : ndarray of shape (n, outputs, functions)
        Root of the covariance of a v(0) that all units share; empty when it is exact or drawn with each unit.
    at_x : ndarray of shape (outputs, functions)
        v(all).
    """

    terms: Terms
    strata: Strata
    base_rows: FloatArray
    at_x: FloatArray
    closes_sum: bool


@dataclass(frozen=True)
class Analysis:
    """Values with and without control; the last component is the base value.

    Attributes
    ----------
    controlled, uncontrolled : Estimate
    variance_reduction : ndarray of shape (components, outputs)
    """

    controlled: Estimate
    uncontrolled: Estimate
    variance_reduction: FloatArray


def analyse(
    sample: Sample, variance: Variance, known: KnownValues | None, rng: np.random.Generator, *, by_folds: bool
) -> Analysis:
    """Solve, estimate the covariance, subtract the control, close the sum."""
    terms, strata = sample.terms, sample.strata
    weights = strata.weights
    estimates = terms.solve(weights[None])[0]
    roots = variance.roots(terms, strata, rng) if terms.n_units > 1 else Roots.zero(estimates.shape)
    of_base = _base_roots(sample, estimates.shape, weights)
    roots = roots.join(of_base)
    total = sample.at_x[:, 0]
    plain = Estimate(estimates[..., 0], roots.rows[..., 0], roots.degrees_of_freedom()[..., 0])
    uncontrolled = close_sum(plain, total) if sample.closes_sum else plain
    if known is None:
        return Analysis(uncontrolled, uncontrolled, np.zeros(plain.values.shape))
    at_x, at_mean = sample.at_x[:, 1:], known.values[-1]
    size = np.maximum(np.abs(at_x), np.maximum(np.abs(at_mean), np.abs(at_x - at_mean)))
    if by_folds:
        adjusted, reduction = adjust_by_folds(terms, strata, known, of_base, size, rng)
    else:
        adjusted, reduction = adjust(estimates, roots, known, size)
    controlled = close_sum(adjusted, total) if sample.closes_sum else adjusted
    return Analysis(controlled, uncontrolled, reduction)


def _base_roots(sample: Sample, shape: tuple[int, ...], weights: FloatArray) -> Roots:
    """Error of a shared estimate of v(0), with its effect on every component."""
    rows = sample.base_rows
    if len(rows) == 0:
        return Roots.zero(shape)
    slope: FloatArray = np.zeros(shape[0])
    slope[-1] = 1.0
    if isinstance(sample.terms, LeastSquaresTerms):
        slope = sample.terms.base_slope(weights)
    spread = slope[None, :, None, None] * rows[:, None]
    return Roots(spread, np.zeros(len(rows), dtype=np.int64), np.array([len(rows) - 1.0]))
