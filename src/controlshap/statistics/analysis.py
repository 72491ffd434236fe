"""From terms to values with errors: solve, covariance, control, efficiency; and the error of the background.

The Shapley value of player j is a mean over background rows of the value in each row's game, `phi_j(b)`. Where the
rows are a sample of a larger population, that mean has the variance `var_b phi_j(b) / M`, however well it is computed:
a term of its own, beside the error of sampling coalitions (`background_variances`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from controlshap._arrays import (
    Array,
    at_least,
    concat,
    median,
    namespace,
    sum_products,
    to_like,
    variance,
    weighted_sum,
    zeros,
)
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.statistics.coefficients import Coefficients
from controlshap.statistics.control_variate import Estimate, KnownValues, adjust, enforce_efficiency, mix
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.crossfit import Blocks, adjust_by_folds, deal_folds
from controlshap.statistics.one_more_jump import allow_for_jump, compare_halves
from controlshap.statistics.tails import lacks_variance
from controlshap.statistics.terms import Terms
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import RULE_OF_THREE

#: Share of a sum of squares above which a row matters. The largest of 30 normal numbers has such a share one time in
#: 50, the largest of 50 one time in 1,000.
MUCH = 1.0 / 3.0

RootOf = Callable[[Terms, TwoStageDesign, np.random.Generator], CovarianceRoot]
"""A variance method: the covariance of the estimates of some terms, as a root."""


@dataclass(frozen=True)
class Sample:
    """Terms and design of the units of a row, or of many rows that share a design (leading axes).

    Attributes
    ----------
    terms, design
        Contributions and design of the units.
    base_factors : array of shape (..., n, outputs, functions)
        Factors of the covariance of a v(0) that all units share; empty when it is exact or drawn with each unit.
    at_x : array of shape (..., outputs, functions)
        v(all).
    efficient, base_varies : bool
        Whether the values are made to sum to f(x) - v(0), and whether each unit has a v(0) of its own.
    live : array of bool, shape (..., players), or None
        Players that are not known to be 0; None for all.
    at_rows : array of shape (..., M, outputs, functions) or None
        All functions at the background rows; None where that is not known.
    n_telling : array of int, shape (players,), or None
        Background rows that differ from x in each player; None where that is not known.
    """

    terms: Terms
    design: TwoStageDesign
    base_factors: Array
    at_x: Array
    efficient: bool
    base_varies: bool
    live: Array | None = None
    at_rows: Array | None = None
    n_telling: IntArray | None = None


@dataclass(frozen=True)
class Analysis:
    """Values with and without control; the last component is the base value.

    Attributes
    ----------
    controlled, uncontrolled : Estimate
    variance_reduction : array of shape (..., components, outputs)
    alpha : array of shape (..., components, outputs, surrogates)
        Coefficients of the controls, means over folds; no surrogates without control.
    halves : array of shape (..., players, outputs) or None
        Distance between the two halves of the units (`compare_halves`); None where factors do not come from units.
    shared : array of shape (..., n_shared, components, outputs) or None
        Factors of errors that other rows have in common with this one, of known values that were simulated for all:
        factors of the same number belong together. None for none.
    """

    controlled: Estimate
    uncontrolled: Estimate
    variance_reduction: Array
    alpha: Array
    halves: Array | None = None
    shared: Array | None = None


def analyse(
    sample: Sample, root_of: RootOf, known: KnownValues | None, rng: np.random.Generator, *, by_folds: bool
) -> Analysis:
    """Solve, estimate the covariance, subtract the control, enforce efficiency."""
    solution = _Solution.of(sample, root_of, rng, by_folds=by_folds)
    uncontrolled, _ = solution.adjust(None)
    uncontrolled = solution.allow(uncontrolled)
    if known is None:
        nothing = zeros((*uncontrolled.values.shape, 0), solution.estimates)
        return Analysis(uncontrolled, uncontrolled, nothing.sum(axis=-1), nothing, solution.halves(uncontrolled))
    controlled, fit = solution.adjust(known)
    assert fit is not None  # there are controls
    halves, shared = solution.halves(controlled), None
    if known.shared and known.root.factors.any():  # their factors come last
        shared = controlled.factors[..., controlled.factors.shape[-3] - known.root.factors.shape[-4] :, :, :]
    allowed = solution.allow(controlled, fit.alpha)
    return Analysis(allowed, uncontrolled, fit.squared_correlation, fit.alpha, halves, shared)


@dataclass(frozen=True)
class _Solution:
    """Estimates of all functions with the root of their covariance.

    Attributes
    ----------
    sample : Sample
    estimates : array of shape (..., components, outputs, functions)
    root, shared : CovarianceRoot
        Of the units' error, and of the error of a v(0) that they share.
    blocks : Blocks or None
        Where coefficients come from other folds.
    """

    sample: Sample
    estimates: Array
    root: CovarianceRoot
    shared: CovarianceRoot
    blocks: Blocks | None

    @classmethod
    def of(cls, sample: Sample, root_of: RootOf, rng: np.random.Generator, *, by_folds: bool) -> _Solution:
        """Solve, and estimate the covariance."""
        terms, design = sample.terms, sample.design
        estimates = terms.solve(design.weights[None])[0]
        varies = terms.n_units > 1 and not terms.is_whole
        root = root_of(terms, design, rng) if varies else CovarianceRoot.zero_like(estimates)
        if not sample.base_varies:
            root.factors[..., -1, :, :] = 0.0  # exactly, without rounding
        shared, blocks = _base_root(sample, estimates), None
        if (
            by_folds
            and design.sampling_fraction < 1.0
            and root.block is not None
            and not design.many
            and design.sampled.sum() > 1
        ):
            means = design.block_means(terms.pseudo_values(design.weights))
            blocks = Blocks(means, root, shared, deal_folds(design.sampled, rng), design.block_weights)
        return cls(sample, estimates, root, shared, blocks)

    def adjust(self, known: KnownValues | None) -> tuple[Estimate, Coefficients | None]:
        """Subtract the controls, if any, and enforce efficiency."""
        total = self.sample.at_x[..., 0] if self.sample.efficient else None
        size = None if known is None else _sizes(self.sample.at_x[..., 1:], known.values)
        joined = self.root.join(self.shared)
        # without control a constrained estimate is efficient, and there is nothing to fit
        if self.blocks is None or (known is None and (total is None or self.sample.terms.constrained)):
            return _adjust_by_units(self.estimates, joined, known, size, total)
        crossed, coefficients = adjust_by_folds(self.blocks, known, size, total)
        # Coefficients that differ between folds would bring back what a complete pass over the background cancels. The
        # bias of common ones is proportional to the part that is not cancelled, and so is the correction.
        uncancelled = 1.0 - self.sample.design.sampling_fraction
        if uncancelled < 1.0:
            crossed = mix(_adjust_by_units(self.estimates, joined, known, size, total)[0], crossed, uncancelled)
        return crossed, coefficients

    def allow(self, estimate: Estimate, alpha: Array | None = None) -> Estimate:
        """The estimate with an allowance for one more jump than was seen, or for what units are likely to miss."""
        allowed, few = self._allow_jump(estimate, alpha), misses_rows(self.sample)
        if few is None:
            few = self._misses_tails()
        if few is None:
            return allowed
        xp, two = namespace(allowed.dof), zeros(allowed.dof.shape, allowed.dof) + 2.0
        return replace(allowed, dof=xp.where(few[..., None, :], xp.minimum(allowed.dof, two), allowed.dof))

    def _misses_tails(self) -> Array | None:
        """For each output, whether units are draws from a distribution whose tails may have no variance.

        These are units without control, as a fitted function was not fitted to draws that no unit met; from the median,
        since where most units show no effect of a player a mean would make sizes of them.
        """
        if self.sample.at_rows is not None or not math.isinf(self.sample.design.population) or self.root.block is None:
            return None
        factors = self.root.factors[..., :-1, :, 0]
        return lacks_variance(factors - median(factors, axis=-3))

    def _allow_jump(self, estimate: Estimate, alpha: Array | None) -> Estimate:
        sample, terms, design = self.sample, self.sample.terms, self.sample.design
        # a population that was seen whole has no further jump
        if terms.is_whole or (design.exact_within and design.sampling_fraction == 1.0):
            return estimate
        gap = sample.at_x[..., 0] - self.estimates[..., -1, :, 0]
        if not terms.constrained:  # what contributions show of it needs no allowance
            gap = gap - self.estimates[..., :-1, :, 0].sum(axis=-2)
        left = None if alpha is None else left_in_rows(sample, alpha)
        if not len(self.root.part) or self.root.block is not None:
            return allow_for_jump(estimate, self.root, terms, design.weights, sample.live, gap, left)
        # resamples and groups are not jumps, but the units behind them are
        of_units = design.covariance_root(terms.residual_pseudo_values(design.weights))
        seen = replace(estimate, factors=_subtract_controls(of_units.factors, alpha), allowance=None)
        after = allow_for_jump(seen, of_units, terms, design.weights, sample.live, gap, left)
        dof = namespace(after.dof).minimum(estimate.dof, after.dof)
        return replace(estimate, allowance=after.allowance, dof=dof)

    def halves(self, estimate: Estimate) -> Array | None:
        """Distance between the two halves of the units; None where factors do not come from units."""
        if self.root.block is None:
            return None
        return compare_halves(estimate, self.root, self.sample.terms, self.sample.live)


def misses_rows(sample: Sample) -> BoolArray | None:
    """For each output, whether a background row matters so much, and is drawn so rarely, that units may miss it.

    f is known at all rows of a finite background. Where one of them has more than MUCH of the sum of squares about the
    mean, or where rows alone tell of a player, and these are expected fewer than RULE_OF_THREE times, units say little
    about the variance. The interval then has two
    degrees of freedom, with which Student's t has no variance, and is not called reliable. None where rows are visited
    in cycles, which take all such rows.
    """
    if sample.at_rows is None or not math.isinf(sample.design.population):
        return None
    if sample.design.n_blocks >= RULE_OF_THREE * len(sample.at_rows):
        return None
    outputs = sample.at_rows[..., 0]
    squares = (outputs - outputs.mean(axis=0)) ** 2
    matters: BoolArray = squares.max(axis=0) > MUCH * squares.sum(axis=0)
    if sample.n_telling is not None:
        expected = sample.n_telling * sample.design.n_blocks / len(sample.at_rows)
        matters |= ((expected > 0) & (expected < RULE_OF_THREE)).any()
    return matters if matters.any() else None


def left_in_rows(sample: Sample, alpha: Array) -> Array:
    """Squares `(..., components, outputs)` of what controls leave in a background row, over the number of units.

    f and the controls are known at all rows, and so is the sum of the values in each row's game: rows that the controls
    do not explain stand out, whether or not units have met them. 0 once all rows were visited; infinite for draws from
    a distribution, of which nothing is known.
    """
    design, nothing = sample.design, zeros(alpha.shape[:-1], alpha)
    if sample.terms.constrained:
        return nothing  # every coalition tells something about every player
    if math.isinf(design.population):
        return nothing + math.inf
    if sample.at_rows is None or design.sampling_fraction == 1.0:
        return nothing
    xp, change = namespace(alpha), sample.at_rows - sample.at_rows.mean(axis=-3, keepdims=True)
    explained = xp.einsum("...cof,...mof->...mco", alpha, change[..., 1:])
    squares, weight = (change[..., :, None, :, 0] - explained) ** 2, float(design.weights.max())
    total = squares.sum(axis=-3)
    # a mean weighted by the squares, as for the jumps of units; rare rows add no more than their share of the variance
    jump = (squares**2).sum(axis=-3) / xp.where(total > 0, total, 1.0) * weight**2
    return (1.0 - design.sampling_fraction) * xp.minimum(jump, squares.mean(axis=-3) * weight)


def _subtract_controls(factors: Array, alpha: Array | None) -> Array:
    """Factors `(..., n, components, outputs)` of the model, less what the controls explain."""
    if alpha is None:
        return factors[..., 0]
    return factors[..., 0] - sum_products(alpha[..., None, :, :, :], factors[..., 1:], axis=-1)


def _sizes(at_x: Array, known: Array) -> Array:
    """Size of the values of each control, `(..., 1, outputs, surrogates)`, to tell its spread from rounding."""
    xp, at_mean = namespace(at_x), known[..., -1, :, :]
    size = xp.maximum(xp.abs(at_x), xp.maximum(xp.abs(at_mean), xp.abs(at_x - at_mean)))
    return size[..., None, :, :]


def _adjust_by_units(
    estimates: Array, root: CovarianceRoot, known: KnownValues | None, size: Array | None, total: Array | None
) -> tuple[Estimate, Coefficients | None]:
    """Subtract the controls and enforce efficiency, with coefficients from the same units."""
    if known is None or size is None:
        factors = root.factors[..., 0]
        estimate, fit = Estimate(estimates[..., 0], factors, root.degrees_of_freedom_of(factors)), None
    else:
        estimate, fit = adjust(estimates, root, known, size)
    return (estimate if total is None else enforce_efficiency(estimate, total)), fit


def _base_root(sample: Sample, estimates: Array) -> CovarianceRoot:
    """Error of a shared estimate of v(0), with its effect on every component."""
    n_factors = sample.base_factors.shape[-3]
    if n_factors == 0:
        return CovarianceRoot.zero_like(estimates)
    slope = to_like(sample.terms.base_slope(sample.design.weights), estimates)
    factors = slope[:, None, None] * sample.base_factors[..., None, :, :]
    return CovarianceRoot(factors, np.zeros(n_factors, dtype=np.int64), np.array([n_factors - 1.0]))


def background_variances(
    terms: Terms, design: TwoStageDesign, draws: Array, of_background: Array, at_x: Array
) -> Array | None:
    """Variances `(..., components, outputs)` due to the choice of the background; the base value comes last.

    `draws` (..., units, n) are the background rows of each unit. Block means scatter by `var_b phi(b) / n_draws` and by
    the noise of their visits, which is subtracted. None where too few rows were visited.
    """
    n_rows, n_draws = len(of_background), draws.shape[-1]
    weights = design.weights
    if len(design.visits) >= 2:
        pseudo = terms.pseudo_values(weights)[..., :1]
        if terms.constrained:
            # all units are solved for the same total, while that of a single row is f(x) - f(b)
            own = of_background[draws].mean(axis=-2) - of_background.mean(axis=0)
            players = pseudo[..., :-1, :, 0] - own[..., None, :] / (pseudo.shape[-3] - 1)
            pseudo = concat([players, pseudo[..., -1:, :, 0]], axis=-2)[..., None]
        means = design.block_means(pseudo)
        center = weighted_sum(design.block_weights, means, axis=-4)[..., None, :, :, :]
        between = weighted_sum(design.block_weights, (means - center) ** 2, axis=-4)
        between = between * len(design.visits) / (len(design.visits) - 1.0) - design.noise_within(pseudo, means)
        # blocks overlap where n_draws does not divide the number of rows, and are then correlated
        alike = (1.0 - n_draws / n_rows) * design.population / (design.population - 1.0)
        variances = at_least(between[..., 0], 0.0) * n_draws / (n_rows * alike)
    elif n_draws == n_rows > 1:
        values = terms.draw_solutions(weights, at_x[:, 0], of_background[draws[0]])
        if values is None:
            return None
        variances = values.var(axis=0, ddof=1) / n_rows
    else:
        return None
    of_base = variance(of_background, axis=0, ddof=1) / n_rows
    of_base = namespace(variances).broadcast_to(of_base, (*variances.shape[:-2], 1, variances.shape[-1]))
    return concat([variances[..., :-1, :], of_base], axis=-2)


def variances_of_draws(of_draws: FloatArray) -> FloatArray:
    """Variances `(players, outputs)` of values `(draws, players, outputs)`; 0 where there is one draw."""
    return np.asarray(of_draws.var(axis=0, ddof=1) if len(of_draws) > 1 else np.zeros(of_draws.shape[1:]))


def variances_of_exact(variances: FloatArray, of_background: FloatArray) -> FloatArray:
    """As `background_variances`, from variances `(players, outputs)` of exact values between draws."""
    n_rows = len(of_background)
    of_base = of_background.var(axis=0, ddof=1)[None] if n_rows > 1 else np.zeros((1, of_background.shape[1]))
    return np.asarray(np.concatenate([variances, of_base]) / n_rows)
