"""A polynomial, fitted by penalised least squares; folds are left out by adding the moments of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray, IntArray
from controlshap.controls.base import Control, FoldedRows, check_at_least
from controlshap.controls.ridge import LogisticRidge
from controlshap.functions.base import KnownFunction, Sum
from controlshap.functions.polynomial import Quadratic

#: Ridge penalties per row, on standardised columns, of which the best on a fold left out is taken. The first leaves an
#: exact quadratic exact; the others keep as many terms as rows from interpolating these.
PENALTIES = (1e-6, 1e-2, 1e-1)


@final
@dataclass(frozen=True)
class Polynomial(Control):
    """A polynomial of degree one or two.

    Pairs of walks integrate two-way interactions without error, so it helps against the noise of sampled background
    rows, and for unpaired walks; past that a control must know interactions of three and more.

    Parameters
    ----------
    degree : {1, 2}
    max_terms : int
        Most terms; products are formed of the columns with the largest linear effects.
    start : LogisticRidge or None
        Fitted first; the polynomial takes its residuals. None fits the polynomial to the model alone.
    n_folds : int
        As for LogisticRidge.
    max_rows : int
        Most evaluated rows that a fit uses.
    on_trial : bool
        Whether it is left out where it predicts some folds hardly better than the controls before it do.
    """

    degree: int = 2
    max_terms: int = 200
    start: LogisticRidge | None = None
    n_folds: int = 5
    max_rows: int = 2500
    on_trial: bool = False

    is_fitted = True

    def __post_init__(self) -> None:
        if self.degree not in (1, 2):
            raise InvalidArgumentError(f"`degree` must be 1 or 2; got {self.degree!r}.")
        check_at_least(self, max_terms=1, n_folds=2, max_rows=100)

    def fit(self, data: FoldedRows, fold: int | None) -> KnownFunction:
        """Fit by penalised least squares."""
        return data.remember((self, fold), lambda: self._fit(data, data.thin(self.max_rows), fold))

    def _fit(self, data: FoldedRows, thin: FoldedRows, fold: int | None) -> KnownFunction:

        if self.start is None:
            return fit_polynomial(thin, fold, self.degree, self.max_terms)
        first = self.start.fit(data, fold)
        residuals = thin.outputs - first.predict(thin.rows)
        return Sum(first, fit_polynomial(thin, fold, self.degree, self.max_terms, residuals))


def fit_polynomial(
    data: FoldedRows, fold: int | None, degree: int, max_terms: int, targets: FloatArray | None = None
) -> Quadratic:
    """Fit a polynomial to the rows outside a fold: to their outputs, or to `targets` (n,) in place of these.

    Products are of those columns that matter most (by a linear fit to the outputs), as many as `max_terms` allows.
    """
    targets = data.outputs if targets is None else targets
    labels = [int(k) for k in np.unique(data.fold)]
    own = _columns(data, fold, degree, max_terms)
    # one design for all folds: each uses those of its terms whose columns are its own
    others = [_columns(data, k, degree, max_terms) for k in labels if k >= 0 and len(labels) > 1]
    every = np.unique(np.concatenate([own, *others]))
    first, second = (every[part] for part in np.triu_indices(len(every)))
    key = (degree, max_terms, tuple(every))
    inside = data.remember("inside", lambda: {k: np.flatnonzero(data.fold == k) for k in labels})
    designs = data.remember(
        ("designs", key), lambda: {k: _design(data.standardised[inside[k]], first, second) for k in labels}
    )
    grams = data.remember(("grams", key), lambda: {k: _gram(design) for k, design in designs.items()})
    used = np.isin(first, own) & np.isin(second, own)
    first, second = first[used], second[used]
    terms = np.flatnonzero(np.concatenate([np.ones(len(data.scale), dtype=bool), used, [True]]))
    rights = {k: (targets[inside[k]] @ designs[k])[terms] for k in labels if k != fold}
    of_terms = {k: grams[k][np.ix_(terms, terms)] for k in rights}
    folds = [k for k in rights if k >= 0]
    penalty = PENALTIES[0]
    if len(folds) > 1:
        # the next fold shows the penalty, in fits that know neither it nor the fold left out
        shown = min((k for k in folds if fold is None or k > fold), default=folds[0])
        unseen, there = [k for k in rights if k != shown], designs[shown][:, terms]
        fits = [_solve(of_terms, rights, unseen, penalty) for penalty in PENALTIES]
        errors = [float(((targets[inside[shown]] - there @ one) ** 2).sum()) for one in fits]
        penalty = PENALTIES[int(np.argmin(errors))]
    return _in_own_units(_solve(of_terms, rights, list(rights), penalty), data, first, second)


def _gram(design: FloatArray) -> FloatArray:
    return np.asarray(design.T @ design)


def _solve(
    grams: Mapping[int, FloatArray], rights: Mapping[int, FloatArray], folds: list[int], penalty: float
) -> FloatArray:
    """Coefficients from the rows of some folds; the last is the constant, without penalty."""
    gram = np.sum([grams[k] for k in folds], axis=0)
    penalties = np.full(len(gram), penalty * max(1.0, gram[-1, -1]))
    penalties[-1] = 0.0
    gram[np.diag_indices_from(gram)] += penalties + 1e-12 * np.trace(gram)
    solution: FloatArray = np.linalg.solve(gram, np.sum([rights[k] for k in folds], axis=0))
    return solution


def _design(standardised: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
    ones = np.ones((len(standardised), 1))
    return np.concatenate([standardised, standardised[:, first] * standardised[:, second], ones], axis=1)


def _columns(data: FoldedRows, fold: int | None, degree: int, max_terms: int) -> IntArray:
    """Columns whose products are terms: those with the largest linear effects, among those that vary."""
    if degree < 2:
        return np.zeros(0, dtype=np.int64)
    return data.remember(("columns", fold, max_terms), lambda: _largest(data, fold, max_terms))


def _largest(data: FoldedRows, fold: int | None, max_terms: int) -> IntArray:
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
