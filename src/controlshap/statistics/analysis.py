"""From terms to values with errors: solve, covariance, control, closed sum. Arrays only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from controlshap._types import FloatArray
from controlshap.statistics.batched_terms import LinearisedTerms
from controlshap.statistics.coefficients import Coefficients
from controlshap.statistics.control_variate import Estimate, KnownValues, adjust, close_sum, mix
from controlshap.statistics.crossfit import Blocks, adjust_by_folds, deal_folds
from controlshap.statistics.terms import LeastSquaresTerms, Terms
from controlshap.statistics.two_stage import Roots, Strata

RootsOf = Callable[[Terms, Strata, np.random.Generator], Roots]
"""A variance method: the covariance of the estimates of some terms, as a root."""


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
    closes_sum, base_varies : bool
        Whether the values are made to sum to f(x) - v(0), and whether each unit has a v(0) of its own.
    """

    terms: Terms
    strata: Strata
    base_rows: FloatArray
    at_x: FloatArray
    closes_sum: bool
    base_varies: bool


@dataclass(frozen=True)
class Analysis:
    """Values with and without control; the last component is the base value.

    Attributes
    ----------
    controlled, uncontrolled : Estimate
    variance_reduction : ndarray of shape (components, outputs)
    alpha : ndarray of shape (components, outputs, surrogates)
        Coefficients of the controls, means over folds; no surrogates without control.
    """

    controlled: Estimate
    uncontrolled: Estimate
    variance_reduction: FloatArray
    alpha: FloatArray


def analyse(
    sample: Sample, roots_of: RootsOf, known: KnownValues | None, rng: np.random.Generator, *, by_folds: bool
) -> Analysis:
    """Solve, estimate the covariance, subtract the control, close the sum."""
    terms, strata = sample.terms, sample.strata
    weights = strata.weights
    estimates = terms.solve(weights[None])[0]
    roots = roots_of(terms, strata, rng) if terms.n_units > 1 else Roots.zero(estimates.shape)
    if not sample.base_varies:
        roots.rows[:, -1] = 0.0  # not rounding either
    of_base = _base_roots(sample, estimates.shape, weights)
    total = sample.at_x[:, 0]
    size = None
    if known is not None:
        at_x, at_mean = sample.at_x[:, 1:], known.values[-1]
        size = np.maximum(np.abs(at_x), np.maximum(np.abs(at_mean), np.abs(at_x - at_mean)))
    target = total if sample.closes_sum else None
    joined = roots.join(of_base)
    # What a complete pass over the background cancels, coefficients that differ between folds would bring back: the
    # bias of common ones is in proportion to the part that a pass has not cancelled, and so is the correction.
    part = 1.0 - strata.share if by_folds and roots.block is not None and not strata.many else 0.0
    if part > 0.0:
        blocks = Blocks(strata.block_means(terms.pseudo_values(weights)), roots, of_base)
        folds = deal_folds(strata.n_blocks, rng)

    def adjusted(known: KnownValues | None, size: FloatArray | None) -> tuple[Estimate, Coefficients | None]:
        # without control least squares is closed by its constraint, and there is nothing to fit
        if part == 0.0 or (
            known is None and (target is None or isinstance(terms, (LeastSquaresTerms, LinearisedTerms)))
        ):
            return _by_units(estimates, joined, known, size, target)
        crossed, coefficients = adjust_by_folds(blocks, known, size, target, folds)
        if part < 1.0:
            crossed = mix(_by_units(estimates, joined, known, size, target)[0], crossed, part)
        return crossed, coefficients

    uncontrolled, _ = adjusted(None, None)
    controlled, fit = adjusted(known, size) if known is not None else (uncontrolled, None)
    if fit is None:
        nothing = np.zeros((*uncontrolled.values.shape, 0))
        return Analysis(uncontrolled, uncontrolled, nothing.sum(axis=-1), nothing)
    return Analysis(controlled, uncontrolled, fit.squared_correlation, fit.alpha)


def _by_units(
    estimates: FloatArray, roots: Roots, known: KnownValues | None, size: FloatArray | None, total: FloatArray | None
) -> tuple[Estimate, Coefficients | None]:
    """Control and closed sum with coefficients from the same units."""
    if known is None or size is None:
        adjusted = Estimate(estimates[..., 0], roots.rows[..., 0], roots.degrees_of_freedom()[..., 0])
        fit = None
    else:
        adjusted, fit = adjust(estimates, roots, known, size)
    return (adjusted if total is None else close_sum(adjusted, total)), fit


def _base_roots(sample: Sample, shape: tuple[int, ...], weights: FloatArray) -> Roots:
    """Error of a shared estimate of v(0), with its effect on every component."""
    rows = sample.base_rows
    if len(rows) == 0:
        return Roots.zero(shape)
    slope: FloatArray = np.zeros(shape[0])
    slope[-1] = 1.0
    if isinstance(sample.terms, (LeastSquaresTerms, LinearisedTerms)):
        slope = sample.terms.base_slope(weights)
    spread = slope[None, :, None, None] * rows[:, None]
    return Roots(spread, np.zeros(len(rows), dtype=np.int64), np.array([len(rows) - 1.0]))
