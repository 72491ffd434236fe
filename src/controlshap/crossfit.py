"""Coefficients from other folds: nothing that multiplies a block of units was fitted to it. Arrays only.

With coefficients from the same units an adjusted estimate has a bias of order 1/n, and its standard error is too
small when units are few and heavy-tailed. Here blocks of units (a background row with all its visits; one unit when
draws are independent) are dealt into folds; the control's coefficient and the shares that close the sum are taken
from the other folds, for each fold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.control import Estimate, KnownValues, closing, extrapolation, regress
from controlshap.strata import Roots, sum_by

MOST_FOLDS = 10
#: With more blocks than this, the bias of common coefficients is below a twentieth of a standard error.
MOST_BLOCKS = 1000


@dataclass(frozen=True)
class Blocks:
    """Estimates block by block.

    Attributes
    ----------
    means : ndarray of shape (m, components, outputs, functions)
        Whose mean over blocks is the estimate.
    roots : Roots
        Of the covariance of that mean, with the block of each root.
    shared : Roots
        Of an error that all blocks share (of v(0)).
    """

    means: FloatArray
    roots: Roots
    shared: Roots


def deal_folds(n_blocks: int, rng: np.random.Generator) -> IntArray:
    """A fold for every block, of sizes as equal as can be."""
    return rng.permutation(n_blocks) % min(MOST_FOLDS, n_blocks)


def adjust_by_folds(
    blocks: Blocks, known: KnownValues | None, size: FloatArray | None, total: FloatArray | None, folds: IntArray
) -> tuple[Estimate, FloatArray]:
    """Subtract the controls and close the sum, each fold with what the other folds say.

    Parameters
    ----------
    known, size : KnownValues and ndarray, or None
        The controls' known values and sizes (see `regress`); None for the estimate without control.
    total : ndarray of shape (outputs,) or None
        What components sum to; None leaves the sum open.

    Returns
    -------
    estimate : Estimate
    variance_reduction : ndarray of shape (components, outputs)
    """
    m = len(blocks.means)
    roots, shared = blocks.roots, blocks.shared
    rows, shared_rows = roots.rows[..., 0].copy(), np.zeros(shared.rows.shape[:-1])
    known_rows = np.zeros((0, *rows.shape[1:]) if known is None else known.roots.rows.shape[:-1])
    means = blocks.means[..., 0].copy()
    reduction = np.zeros(means.shape[1:])
    block = roots.block if roots.block is not None else np.zeros(len(rows), dtype=np.int64)
    fold_of_root = folds[block]
    for fold in range(int(folds.max()) + 1):
        inside = np.flatnonzero(folds == fold)
        here, there = fold_of_root == fold, fold_of_root != fold
        share = len(inside) / m
        others = _without(roots, there).join(shared)
        residual = others.rows[..., 0]
        of_shared = shared.rows[..., 0]
        of_known = known_rows[:0]
        if known is not None and size is not None:
            covariances = others.function_covariances()
            covariances[..., 1:, 1:] += known.roots.function_covariances()
            fit = regress(covariances, others.degrees_of_freedom()[..., 0], size, rows=others.rows)
            residual = residual - np.einsum("cog,kcog->kco", fit.alpha, others.rows[..., 1:])
            rows[here] -= np.einsum("cog,kcog->kco", fit.alpha, roots.rows[here][..., 1:])
            error = blocks.means[inside][..., 1:] - known.values
            means[inside] -= np.einsum("cog,bcog->bco", fit.alpha, error)
            of_shared = of_shared - np.einsum("cog,kcog->kco", fit.alpha, shared.rows[..., 1:])
            of_known = -np.einsum("cog,kcog->kco", fit.alpha, known.roots.rows)
            reduction += share * fit.squared_correlation
            overall = blocks.means[..., 1:].mean(axis=0) - known.values
            reach = np.sqrt(extrapolation(fit.alpha, overall, covariances, others.degrees_of_freedom()[..., 0]))
            rows[here] *= reach
            residual = residual * reach
        if total is not None:
            dof = Roots(residual[..., None], others.group, others.dof).degrees_of_freedom()[..., 0]
            spread = closing(Estimate(means[inside].mean(axis=0), residual, dof), total)
            means[inside] += spread.shares * (total - means[inside].sum(axis=1))[:, None]
            rows[here] = spread.project(rows[here])
            of_shared = spread.project(of_shared)
            of_known = spread.project(of_known)
        shared_rows += share * of_shared
        if len(of_known):
            known_rows += share * of_known
    dof = Roots(rows[..., None], roots.group, roots.dof).degrees_of_freedom()[..., 0]
    every = np.concatenate([rows, shared_rows, known_rows])
    return Estimate(means.mean(axis=0), every, dof), reduction


def _without(roots: Roots, keep: BoolArray) -> Roots:
    """The roots of the blocks that are kept, centred on these alone: what is left out must leave no trace."""
    before = np.bincount(roots.group, minlength=len(roots.dof))
    numbers, group, after = np.unique(roots.group[keep], return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    means = sum_by(group, roots.rows[keep], len(numbers)) / after[:, None, None, None]
    return Roots(roots.rows[keep] - means[group], group, roots.dof[numbers] * after / before[numbers])
