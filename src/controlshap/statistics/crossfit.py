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
from controlshap.statistics.coefficients import Coefficients, extrapolation, regress
from controlshap.statistics.control_variate import Estimate, KnownValues, closing
from controlshap.statistics.two_stage import Roots, sum_by

#: Folds for few blocks and for many: the more blocks, the less it matters what a fold leaves out.
MOST_FOLDS, FEWER_FOLDS, FEW_BLOCKS = 10, 4, 120
#: Degrees of freedom for each root that takes part: 1 for each normal one.
OF_NORMAL = 3.0


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
    n_folds = MOST_FOLDS if n_blocks <= FEW_BLOCKS else FEWER_FOLDS
    return rng.permutation(n_blocks) % min(n_folds, n_blocks)


def adjust_by_folds(
    blocks: Blocks, known: KnownValues | None, size: FloatArray | None, total: FloatArray | None, folds: IntArray
) -> tuple[Estimate, Coefficients | None]:
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
    coefficients : Coefficients or None
        Means over folds.
    """
    roots, shared, n_folds = blocks.roots, blocks.shared, int(folds.max()) + 1
    if roots.block is None:
        raise TypeError("cross-fitting needs roots that come from units")
    of_root = folds[roots.block]
    shares = np.bincount(folds) / len(folds)
    # What the other folds say: (fold, root, component, output, function), shared roots at the end of each.
    others = np.stack([_without(roots, of_root != k) for k in range(n_folds)])
    others = np.concatenate([others, np.broadcast_to(shared.rows, (n_folds, *shared.rows.shape))], axis=1)
    dof = roots.join(shared).degrees_of_freedom()[..., 0] * (n_folds - 1) / n_folds
    rows, means, residual = roots.rows[..., 0], blocks.means[..., 0], others[..., 0]
    shared_rows = np.broadcast_to(shared.rows[..., 0], (n_folds, *shared.rows.shape[:-1]))
    known_rows = np.zeros((n_folds, 0, *rows.shape[1:]))
    coefficients = None
    if known is not None and size is not None:
        covariances = np.einsum("fkcog,fkcoh->fcogh", others, others)
        covariances[..., 1:, 1:] += known.roots.function_covariances()
        few = len(folds) <= FEW_BLOCKS  # one block of many makes no correlation, if all vary: see participation
        free = np.minimum(dof, OF_NORMAL * participation(others)) if len(known.priors) else dof
        fit = regress(covariances, free, size, known.priors, rows=others if few else None)
        overall = blocks.means[..., 1:].mean(axis=0) - known.values
        residual = residual - np.einsum("fcog,fkcog->fkco", fit.alpha, others[..., 1:])
        rows = rows - np.einsum("kcog,kcog->kco", fit.alpha[of_root], roots.rows[..., 1:])
        left = np.einsum("kco,kco->co", rows, rows)
        reach = np.sqrt(extrapolation(fit.fitted, overall, covariances, free, left, known.priors))
        residual, rows = reach[:, None] * residual, reach[of_root] * rows
        means = means - np.einsum("bcog,bcog->bco", fit.alpha[folds], blocks.means[..., 1:] - known.values)
        shared_rows = shared_rows - np.einsum("fcog,kcog->fkco", fit.alpha, shared.rows[..., 1:])
        known_rows = -np.einsum("fcog,kcog->fkco", fit.alpha, known.roots.rows)
        coefficients = Coefficients(
            *(np.tensordot(shares, part, axes=1) for part in (fit.alpha, fit.squared_correlation, fit.fitted))
        )
    if total is not None:
        unclosed = means.mean(axis=0)
        rows, means = rows.copy(), means.copy()
        shared_rows, known_rows = shared_rows.copy(), known_rows.copy()
        for k in range(n_folds):
            inside, here = folds == k, of_root == k
            spread = closing(Estimate(unclosed, residual[k], dof), total)
            means[inside] += spread.shares * (total - means[inside].sum(axis=1))[:, None]
            rows[here] = spread.project(rows[here])
            shared_rows[k] = spread.project(shared_rows[k])
            known_rows[k] = spread.project(known_rows[k])
    in_all = [np.einsum("f,fkco->kco", shares, part) for part in (shared_rows, known_rows)]
    of_units = Roots(rows[..., None], roots.group, roots.dof).degrees_of_freedom()[..., 0]
    return Estimate(means.mean(axis=0), np.concatenate([rows, *in_all]), of_units), coefficients


def participation(rows: FloatArray) -> FloatArray:
    """How many roots make up the variance, `(..., components, outputs)`: the fewest of the model and of any control.

    `(sum r^2)^2 / sum r^4` is n for n roots of one size, and n/3 for normal ones. Components to which rare rows matter
    vary in few units, and a correlation of these is none.
    """
    squares = rows**2
    total, fourth = squares.sum(axis=-4), np.einsum("...kcog,...kcog->...cog", squares, squares)
    found = total**2 / np.where(fourth > 0, fourth, 1.0)
    of_controls = np.where(fourth > 0, found, np.inf)[..., 1:]  # one that does not vary is not used
    fewest: FloatArray = np.minimum(found[..., 0], of_controls.min(axis=-1))
    return fewest


def _without(roots: Roots, keep: BoolArray) -> FloatArray:
    """The rows of the blocks that are kept, centred on these alone, and 0 for the others.

    What is left out must leave no trace, not even in a mean that the others were centred on.
    """
    rows = np.where(keep[:, None, None, None], roots.rows, 0.0)
    counts = np.bincount(roots.group, weights=keep, minlength=len(roots.dof))
    means = sum_by(roots.group, rows, len(roots.dof)) / np.maximum(counts, 1.0)[:, None, None, None]
    rows -= np.where(keep[:, None, None, None], means[roots.group], 0.0)
    return rows
