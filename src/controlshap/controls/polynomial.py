"""A polynomial, fitted by penalised least squares; folds are left out by adding the moments of the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np
import scipy.linalg

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray, IntArray
from controlshap.controls.base import Control, FoldedRows, check_at_least
from controlshap.controls.ridge import LogisticRidge
from controlshap.functions.base import KnownFunction, Sum
from controlshap.functions.polynomial import Quadratic

#: Ridge penalties per row, on standardised columns, of which the best on a fold left out is taken. The first leaves an
#: exact quadratic exact; the others keep as many terms as rows from interpolating these.
PENALTIES = (1e-6, 1e-2, 1e-1)
#: Share of the squares of the outputs below which nothing needs to be fitted first.
EXACT = 1e-10


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
        Fitted first; the polynomial takes its residuals, or the model alone where that predicts a fold left out better.
        None fits the polynomial to the model alone in any case.
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
            return fit_polynomial(thin, fold, self.degree, self.max_terms)[0]
        first = self.start.fit(data, fold)
        targets = np.stack([thin.outputs, thin.outputs - first.predict(thin.rows)], axis=1)
        (alone, left), (beside, left_beside) = fit_polynomials(thin, fold, self.degree, self.max_terms, targets)
        exact = left <= EXACT * float(thin.outputs @ thin.outputs)
        return alone if exact or left < left_beside else Sum(first, beside)


def fit_polynomial(data: FoldedRows, fold: int | None, degree: int, max_terms: int) -> tuple[Quadratic, float]:
    """Fit a polynomial to the rows outside a fold, and say what it leaves of another fold, as a sum of squares."""
    return fit_polynomials(data, fold, degree, max_terms, data.outputs[:, None])[0]


def fit_polynomials(
    data: FoldedRows, fold: int | None, degree: int, max_terms: int, targets: FloatArray
) -> list[tuple[Quadratic, float]]:
    """The same for each of some targets `(n, targets)`, with the same products.

    These are of those columns that matter most (by a linear fit to the outputs), as many as `max_terms` allows.
    """
    own = _columns(data, fold, degree, max_terms)
    # one design for all folds: each uses those of its terms whose columns are its own
    others = [_columns(data, k, degree, max_terms) for k in data.labels if k >= 0 and len(data.labels) > 1]
    every = np.unique(np.concatenate([own, *others]))
    design = data.remember_rows(("design", tuple(every)), lambda: Design.of(data, every))
    used = np.isin(design.first, own) & np.isin(design.second, own)
    chosen = np.flatnonzero(np.concatenate([np.ones(len(data.scale), dtype=bool), used, [True]]))
    targets = targets[design.order]
    folds = [k for k in data.labels if k != fold and k >= 0]
    # the next fold shows the penalty, in fits that know neither it nor the fold left out
    shown = min((k for k in folds if fold is None or k > fold), default=folds[0]) if len(folds) > 1 else None
    outside = design.outside(fold, chosen, targets)
    of_shown = outside if shown is None else design.of_fold(shown, chosen, targets)
    of_others = outside if shown is None else outside.without(of_shown)
    tried = PENALTIES[: 1 if shown is None else None]
    left = np.stack([of_shown.left_by(of_others.solve(penalty)) for penalty in tried])
    best = left.argmin(axis=0)
    solutions = {number: outside.solve(tried[number]) for number in np.unique(best)}
    return [
        (_in_own_units(solutions[number][:, t], data, design.first[used], design.second[used]), float(left[number, t]))
        for t, number in enumerate(best)
    ]


@dataclass(frozen=True)
class TermMoments:
    """Sums over rows of products of terms with each other and with targets, and of squares of targets."""

    gram: FloatArray
    right: FloatArray  # (terms, targets)
    squares: FloatArray  # (targets,)

    def without(self, other: TermMoments) -> TermMoments:
        """The sums over the rows that are not among the others."""
        return TermMoments(self.gram - other.gram, self.right - other.right, self.squares - other.squares)

    def solve(self, penalty: float) -> FloatArray:
        """Coefficients `(terms, targets)` of penalised least squares; the last is the constant, without penalty."""
        penalties = np.full(len(self.gram), penalty * max(1.0, self.gram[-1, -1]))
        penalties[-1] = 0.0
        penalties += 1e-12 * np.trace(self.gram)
        penalised = self.gram.copy()
        penalised.ravel()[:: len(penalised) + 1] += penalties
        _, solutions, failed = scipy.linalg.lapack.dposv(penalised.T, self.right, overwrite_a=True)
        return np.linalg.solve(self.gram + np.diag(penalties), self.right) if failed else solutions

    def left_by(self, solutions: FloatArray) -> FloatArray:
        """Sums of squares `(targets,)` of what solutions leave of the targets."""
        explained: FloatArray = (solutions * (2.0 * self.right - self.gram @ solutions)).sum(axis=0)
        return np.maximum(self.squares - explained, 0.0)


@dataclass(frozen=True)
class Design:
    """Terms `(terms, n)` at rows of which those of a fold stand together: columns, products and a constant.

    Attributes
    ----------
    order : ndarray of shape (n,)
        The rows' numbers.
    places : dict of int to slice
        Where the rows of each fold are.
    first, second : ndarray of shape (products,)
        The columns of the products.
    """

    terms: FloatArray
    order: IntArray
    places: dict[int, slice]
    first: IntArray
    second: IntArray
    grams: dict[int | None, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, data: FoldedRows, columns: IntArray) -> Design:
        """The columns, and all products of some of them."""
        order = np.argsort(data.fold, kind="stable")
        bounds = np.searchsorted(data.fold[order], [*data.labels, data.labels[-1] + 1])
        places = {k: slice(*bounds[i : i + 2]) for i, k in enumerate(data.labels)}
        first, second = (columns[part] for part in np.triu_indices(len(columns)))
        c = len(data.scale)
        terms = np.ones((c + len(first) + 1, len(order)))
        terms[:c] = data.standardised[order].T
        chosen, end = terms[columns], c
        for number, column in enumerate(chosen):
            begin, end = end, end + len(chosen) - number
            np.multiply(column, chosen[number:], out=terms[begin:end])
        return cls(terms, order, places, first, second)

    def of_fold(self, fold: int, chosen: IntArray, targets: FloatArray) -> TermMoments:
        """Moments of chosen terms and of targets `(n, targets)` over the rows of a fold."""
        rows = self.places[fold]
        own = targets[rows]
        return self._choose(self._gram(fold), self.terms[:, rows] @ own, (own**2).sum(axis=0), chosen)

    def outside(self, fold: int | None, chosen: IntArray, targets: FloatArray) -> TermMoments:
        """The same over the rows outside a fold: those of all rows less its own."""
        every = self._choose(self._gram(None), self.terms @ targets, (targets**2).sum(axis=0), chosen)
        return every if fold not in self.places else every.without(self.of_fold(fold, chosen, targets))

    def _gram(self, fold: int | None) -> FloatArray:
        """Sums over the rows of a fold, or over all rows, of products of terms."""
        if fold not in self.grams:
            if fold is None:
                self.grams[fold] = np.sum([self._gram(k) for k in self.places], axis=0)
            else:
                terms = self.terms[:, self.places[fold]]
                self.grams[fold] = terms @ terms.T
        return self.grams[fold]

    def _choose(self, gram: FloatArray, right: FloatArray, squares: FloatArray, chosen: IntArray) -> TermMoments:
        if len(chosen) == len(self.terms):
            return TermMoments(gram, right, squares)
        return TermMoments(gram[np.ix_(chosen, chosen)], right[chosen], squares)


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
        linear = data.remember_rows("linear", lambda: Design.of(data, usable[:0]))
        moments = linear.outside(fold, np.arange(len(linear.terms)), data.outputs[linear.order, None])
        effect = np.abs(moments.solve(1e-6)[:-1, 0])
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
