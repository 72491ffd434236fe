"""Fit a polynomial by penalised least squares; a fold is left out by subtracting its Gram matrix."""

from __future__ import annotations

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.controls.fits.rows import FoldedRows
from controlshap.functions.polynomial import Quadratic

#: Ridge penalty per row, on standardised columns.
PENALTY = 1e-6


def fit_polynomial(data: FoldedRows, fold: int | None, degree: int, max_terms: int) -> Quadratic:
    """Fit a polynomial to the rows outside a fold.

    Products are of those columns that matter most (by the linear fit), as many as `max_terms` allows.
    """
    columns = _columns(data, fold, degree, max_terms)
    first, second = (columns[part] for part in np.triu_indices(len(columns)))
    key = (degree, max_terms, tuple(columns))
    design = data.remember(("design", key), lambda: _design(data.standardised, first, second))
    gram, right = _moments(data, design, fold, key)
    penalty = np.full(len(gram), PENALTY * max(1.0, gram[-1, -1]))
    penalty[-1] = 0.0
    gram = gram + np.diag(penalty + 1e-12 * np.trace(gram))
    solution = np.linalg.solve(gram, right)
    return _in_own_units(solution, data, first, second)


def _design(standardised: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
    ones = np.ones((len(standardised), 1))
    return np.concatenate([standardised, standardised[:, first] * standardised[:, second], ones], axis=1)


def _columns(data: FoldedRows, fold: int | None, degree: int, max_terms: int) -> IntArray:
    """Columns whose products are terms: those with the largest linear effects, among those that vary."""
    if degree < 2:
        return np.zeros(0, dtype=np.int64)
    usable = np.flatnonzero(np.isfinite(data.scale))
    # k columns have k (k + 1) / 2 products
    most = int((np.sqrt(8.0 * max(0, max_terms - len(data.scale)) + 1.0) - 1.0) / 2.0)
    if len(usable) > most:
        keep = data.others(fold)
        design = np.concatenate([data.standardised[keep], np.ones((len(keep), 1))], axis=1)
        gram = design.T @ design
        gram[np.diag_indices_from(gram)] += 1e-6 * len(design)
        effect = np.abs(np.linalg.solve(gram, design.T @ data.outputs[keep])[:-1])
        usable = np.sort(usable[np.argsort(-effect[usable], kind="stable")[:most]])
    return usable


def _moments(data: FoldedRows, design: FloatArray, fold: int | None, key: object) -> tuple[FloatArray, FloatArray]:
    """Gram matrix and right side of the rows outside a fold."""

    def make(rows: IntArray | slice) -> tuple[FloatArray, FloatArray]:
        return design[rows].T @ design[rows], design[rows].T @ data.outputs[rows]

    gram, right = data.remember(("moments", key), lambda: make(slice(None)))
    if fold is None:
        return gram, right
    inside_gram, inside_right = make(np.flatnonzero(data.fold == fold))
    return gram - inside_gram, right - inside_right


def _in_own_units(solution: FloatArray, data: FoldedRows, first: IntArray, second: IntArray) -> Quadratic:
    """Coefficients of standardised columns as those of the columns themselves."""
    c = len(data.scale)
    quadratic = np.zeros((c, c))
    np.add.at(quadratic, (first, second), 0.5 * solution[c:-1])
    np.add.at(quadratic, (second, first), 0.5 * solution[c:-1])
    quadratic = quadratic / data.scale[:, None] / data.scale
    slope = solution[:c] / data.scale
    at_center = quadratic @ data.center
    constant = float(solution[-1] - slope @ data.center + data.center @ at_center)
    return Quadratic(constant, slope - 2.0 * at_center, quadratic)
