"""The coefficient from other folds: unbiased, at the price of fewer units behind each coefficient. Arrays only."""

from __future__ import annotations

import numpy as np

from controlshap._types import FloatArray
from controlshap.control import Estimate, KnownValues, regress
from controlshap.estimators.terms import Terms
from controlshap.strata import Roots, Strata

N_FOLDS = 5


def adjust_by_folds(
    terms: Terms,
    strata: Strata,
    known: KnownValues,
    base_roots: Roots,
    size: FloatArray,
    rng: np.random.Generator,
) -> tuple[Estimate, FloatArray]:
    """Subtract the control from each fold of units with the coefficient of the other folds.

    Works on pseudo-values: their weighted mean is the estimate, and that of the surrogates' is their estimate, so
    the adjusted estimate is the weighted mean of `f - alpha (g - known)` with alpha of the other folds.
    """
    weights = strata.weights
    pseudo = terms.pseudo_values(weights)
    n_folds = min(N_FOLDS, len(pseudo))
    fold = rng.permutation(len(pseudo)) % n_folds
    error = pseudo[..., 1:] - known.values
    residual = np.empty(pseudo.shape[:-1])
    known_rows = np.zeros(known.roots.rows.shape[:-1])
    noise = known.roots.function_covariances()
    reduction = np.zeros(pseudo.shape[1:-1])
    alphas = []
    for number in range(n_folds):
        inside, outside = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        roots = strata.subset(outside).roots(pseudo[outside])
        covariances = roots.function_covariances()
        covariances[..., 1:, 1:] += noise
        fit = regress(covariances, roots.degrees_of_freedom()[..., 0], size)
        residual[inside] = pseudo[inside, ..., 0] - np.einsum("cog,ucog->uco", fit.alpha, error[inside])
        share = weights[inside].sum()
        known_rows -= share * np.einsum("cog,kcog->kco", fit.alpha, known.roots.rows)
        reduction += share * fit.squared_correlation
        alphas.append(share * fit.alpha)
    roots = strata.roots(residual[..., None])
    rows, dof = roots.rows[..., 0], roots.degrees_of_freedom()[..., 0]
    alpha = np.sum(alphas, axis=0)
    of_base = base_roots.rows[..., 0] - np.einsum("cog,kcog->kco", alpha, base_roots.rows[..., 1:])
    values = np.tensordot(weights, residual, axes=1)
    return Estimate(values, np.concatenate([rows, of_base, known_rows]), dof), reduction
