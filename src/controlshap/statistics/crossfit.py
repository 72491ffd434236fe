"""Coefficients from other folds: what multiplies a block of units was never fitted to it.

With coefficients from the same units an adjusted estimate has a bias of order 1/n, and its standard error is too
small when units are few and heavy-tailed. Here blocks of units (a background row with all its visits; one unit when
draws are independent) are dealt into folds; for each fold, the control's coefficient and the shares that close the sum
come from the other folds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from controlshap._arrays import (
    Array,
    batches,
    concat,
    gram,
    namespace,
    subtract_where,
    sum_by_fold,
    sum_products,
    take,
    to_like,
    weighted_sum,
)
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.statistics.coefficients import Coefficients, extrapolation, regress
from controlshap.statistics.control_variate import Estimate, KnownValues, efficiency_shares, project
from controlshap.statistics.covariance_root import CovarianceRoot

#: Folds for few blocks and for many. What a fold leaves out is a tenth of 120 blocks, or a quarter of more than 120,
#: and coefficients from 90 blocks are as good as from 108: their relative error is of order 1/sqrt(n).
MOST_FOLDS, FEWER_FOLDS, FEW_BLOCKS = 10, 4, 120
#: Degrees of freedom for each factor that takes part: for normal factors `(sum r^2)^2 / sum r^4` is n/3, and they have
#: n degrees of freedom (docs/mathematics.md, section 12).
OF_NORMAL = 3.0


@dataclass(frozen=True)
class Blocks:
    """Estimates block by block.

    Attributes
    ----------
    means : array of shape (..., m, components, outputs, functions)
        Whose weighted mean over blocks is the estimate.
    root : CovarianceRoot
        Of the covariance of that mean, with the block of each factor.
    shared : CovarianceRoot
        Of the error of v(0), which all blocks share.
    folds : ndarray of shape (m,)
        Fold of each block; -1 for those of a take-all stratum, which every fold knows.
    weights : ndarray of shape (m,)
        Weight of each block in the estimate.
    """

    means: Array
    root: CovarianceRoot
    shared: CovarianceRoot
    folds: IntArray
    weights: FloatArray

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return int(self.folds.max()) + 1

    @cached_property
    def fold_weights(self) -> FloatArray:
        """Share that each fold has of the weights of blocks that are in one."""
        dealt = self.folds >= 0
        weights = np.bincount(self.folds[dealt], weights=self.weights[dealt]).astype(float)
        return np.asarray(weights / weights.sum())

    def of_folds(self, coefficients: Array, folds: IntArray, axis: int) -> Array:
        """Coefficients of the folds `(n,)` along an axis; -1 has their mean.

        What the blocks of a take-all stratum show of all rows together is not random, and neither is what the others
        show less: the two cancel, as the mean is also what others have on average.
        """
        if folds.min() >= 0:
            return take(coefficients, folds, axis=axis)
        mean = weighted_sum(self.fold_weights, coefficients, axis=axis)[(..., None, *[slice(None)] * (-1 - axis))]
        return take(concat([coefficients, mean], axis=axis), folds % (self.n_folds + 1), axis=axis)

    def average(self, means: Array, axis: int) -> Array:
        """Weighted mean over blocks, which are on this axis, counted from the last."""
        # the last bits of a product of matrices depend on where its operands lie in memory
        weights = self.weights.reshape(-1, *[1] * (-1 - axis))
        return sum_products(to_like(weights, means), means, axis=axis)

    @property
    def fold_of_factor(self) -> IntArray:
        """Fold of each factor of the root."""
        if self.root.block is None:
            raise TypeError("cross-fitting needs factors that come from units")
        return self.folds[self.root.block]

    @cached_property
    def dof(self) -> Array:
        """Degrees of freedom `(..., components, outputs)` of the first function's factors in the other folds."""
        whole = self.root.join(self.shared).degrees_of_freedom()[..., 0]
        return whole * (self.n_folds - 1) / self.n_folds

    @cached_property
    def batches(self) -> list[slice]:
        """Folds that are processed together."""
        return batches(self.n_folds, self.means)

    @cached_property
    def others(self) -> list[Array]:
        """Factors of the other folds for each batch of folds, `(..., folds, n_factors, c, o, f)`, shared ones last.

        Those of the fold itself are 0, and the others are centred without it: what is left out must leave no trace, not
        even in a mean.
        """
        root, kept = self.root, self.fold_of_factor != np.arange(self.n_folds)[:, None]  # (folds, n_factors)
        sums = sum_by_fold(root.part, root.factors, len(root.dof), kept)
        counts = np.stack([np.bincount(root.part, weights=of_fold, minlength=len(root.dof)) for of_fold in kept])
        means = sums / to_like(np.maximum(counts, 1.0)[..., None, None, None], sums)
        shared, others = self.shared.factors[..., None, :, :, :, :], []
        for batch in self.batches:
            center = take(means[..., batch, :, :, :, :], root.part, axis=-4)
            mask = kept[batch, :, None, None, None]
            factors = subtract_where(mask, root.factors[..., None, :, :, :, :], center)
            shape = (*factors.shape[:-4], shared.shape[-4], *factors.shape[-3:])
            others.append(concat([factors, namespace(sums).broadcast_to(shared, shape)], axis=-4))
        return others


@dataclass(frozen=True)
class _Folded:
    """Block means and factors of one function, which are adjusted fold by fold.

    Attributes
    ----------
    means : array of shape (..., m, components, outputs)
    factors : array of shape (..., n_factors, components, outputs)
    others : list of arrays of shape (..., folds, n_factors, components, outputs)
        Factors of the other folds, as each fold of a batch sees them.
    common : list of arrays of shape (..., folds, n_common, components, outputs)
        Factors of errors that all folds share: of v(0), and of known values.
    """

    means: Array
    factors: Array
    others: list[Array]
    common: list[Array]


def deal_folds(sampled: BoolArray, rng: np.random.Generator) -> IntArray:
    """A fold for every block, of sizes as equal as can be; -1 for those that are no sample."""
    n_blocks, folds = int(sampled.sum()), np.full(len(sampled), -1)
    folds[sampled] = rng.permutation(n_blocks) % count_folds(n_blocks)
    return folds


def count_folds(n_blocks: int) -> int:
    """Number of folds for so many blocks."""
    return min(MOST_FOLDS if n_blocks <= FEW_BLOCKS else FEWER_FOLDS, n_blocks)


def adjust_by_folds(
    blocks: Blocks, known: KnownValues | None, size: Array | None, total: Array | None
) -> tuple[Estimate, Coefficients | None]:
    """Subtract the controls and enforce efficiency, each fold with coefficients from the other folds.

    Parameters
    ----------
    known, size : KnownValues and array, or None
        The controls' known values and sizes (see `regress`); None for the estimate without control.
    total : array of shape (..., outputs) or None
        What components sum to; None leaves the sum open.

    Returns
    -------
    estimate : Estimate
    coefficients : Coefficients or None
        Means over folds.
    """
    xp, root, shared = namespace(blocks.means), blocks.root, blocks.shared.factors[..., None, :, :, :, 0]
    shape = (*shared.shape[:-4], blocks.n_folds, *shared.shape[-3:])
    others = [part[..., 0] for part in blocks.others]
    folded = _Folded(blocks.means[..., 0], root.factors[..., 0], others, [xp.broadcast_to(shared, shape)])
    coefficients = None
    if known is not None and size is not None:
        folded, coefficients = _control(blocks, folded, known, size)
    if total is not None:
        folded = _enforce_efficiency(blocks, folded, total)
    weights = to_like(blocks.fold_weights, shared)
    in_all = [xp.einsum("f,...fkco->...kco", weights, part) for part in folded.common]
    factors = concat([folded.factors, *in_all], axis=-3)
    return Estimate(
        blocks.average(folded.means, axis=-3), factors, root.degrees_of_freedom_of(folded.factors)
    ), coefficients


def _control(blocks: Blocks, folded: _Folded, known: KnownValues, size: Array) -> tuple[_Folded, Coefficients]:
    """Subtract the controls, with coefficients for each fold from the others."""
    of_factor, fit, variance_factor = blocks.fold_of_factor, *_fit_by_folds(blocks, known, size)
    alpha, controls = fit.alpha, blocks.root.factors[..., 1:]
    factors = folded.factors - sum_products(blocks.of_folds(alpha, of_factor, axis=-4), controls, axis=-1)
    reach = namespace(alpha).sqrt(variance_factor(sum_products(factors, factors, axis=-3)))
    gaps = blocks.means[..., 1:] - known.values[..., None, :, :, :]
    of_fold = alpha[..., None, :, :, :]
    residuals = [
        (part - sum_products(of_fold[..., batch, :, :, :, :], others[..., 1:], axis=-1)) * reach[..., batch, None, :, :]
        for batch, part, others in zip(blocks.batches, folded.others, blocks.others, strict=True)
    ]
    shared = folded.common[0] - sum_products(of_fold, blocks.shared.factors[..., None, :, :, :, 1:], axis=-1)
    of_known = -sum_products(of_fold, known.root.factors[..., None, :, :, :, :], axis=-1)
    means = folded.means - sum_products(blocks.of_folds(alpha, blocks.folds, axis=-4), gaps, axis=-1)
    controlled = _Folded(means, blocks.of_folds(reach, of_factor, axis=-3) * factors, residuals, [shared, of_known])
    weights = blocks.fold_weights
    return controlled, Coefficients(
        weighted_sum(weights, alpha, axis=-4),
        weighted_sum(weights, fit.squared_correlation, axis=-3),
        weighted_sum(weights, fit.fitted, axis=-4),
    )


def _fit_by_folds(blocks: Blocks, known: KnownValues, size: Array) -> tuple[Coefficients, Callable[[Array], Array]]:
    """Coefficients for each fold, and a function from the residual variance to the factor that they inflate it by.

    Everything has an axis of folds, of the shape (..., folds, components, outputs, ...).
    """
    # a single block of many makes no correlation, if all vary: see `participation`
    xp, few = namespace(blocks.means), len(blocks.folds) <= FEW_BLOCKS
    of_known = known.root.function_covariances()[..., None, :, :, :, :]
    covariances, dof, fits = [], [], []
    for others in blocks.others:
        covariance, free = gram(others), blocks.dof[..., None, :, :]
        covariance[..., 1:, 1:] += of_known
        if len(known.priors):
            free = xp.minimum(free, OF_NORMAL * participation(others))
        factors = others if few else None
        fits.append(regress(covariance, free, size[..., None, :, :, :], known.priors, factors=factors))
        covariances.append(covariance)
        dof.append(free)
    fit = Coefficients(
        concat([part.alpha for part in fits], axis=-4),
        concat([part.squared_correlation for part in fits], axis=-3),
        concat([part.fitted for part in fits], axis=-4),
    )
    error = (blocks.average(blocks.means[..., 1:], axis=-4) - known.values)[..., None, :, :, :]
    every, free = concat(covariances, axis=-5), concat(dof, axis=-3)
    return fit, lambda left: extrapolation(fit.fitted, error, every, free, left[..., None, :, :], known.priors)


def _enforce_efficiency(blocks: Blocks, folded: _Folded, total: Array) -> _Folded:
    """Spread the gap of each fold by shares from the others."""
    values = blocks.average(folded.means, axis=-3)[..., None, :, :]
    dof = blocks.dof[..., None, :, :]
    shares = concat(
        [efficiency_shares(Estimate(values, others, dof), total[..., None, :])[0] for others in folded.others],
        axis=-3,
    )
    gaps = (total[..., None, :] - folded.means.sum(axis=-2))[..., None, :]
    return replace(
        folded,
        means=folded.means + blocks.of_folds(shares, blocks.folds, axis=-3) * gaps,
        factors=project(folded.factors, blocks.of_folds(shares, blocks.fold_of_factor, axis=-3)),
        common=[project(part, shares[..., None, :, :]) for part in folded.common],
    )


def participation(factors: Array) -> Array:
    """Effective number of factors, `(..., components, outputs)`: the fewest of the model and of any control.

    `(sum r^2)^2 / sum r^4` is n for n factors of one size, and n/3 for normal ones. A component to which rare rows
    matter varies in few units, too few for a correlation.
    """
    xp = namespace(factors)
    squares = factors**2
    total, fourth = squares.sum(axis=-4), sum_products(squares, squares, axis=-4)
    count = total**2 / xp.where(fourth > 0, fourth, 1.0)
    of_controls = xp.where(fourth > 0, count, np.inf)[..., 1:]  # a control that does not vary is not used
    return xp.minimum(count[..., 0], xp.amin(of_controls, axis=-1))
