"""Functions fitted to evaluations of the model, as settings: what `control=` takes.

Each is fitted to what was evaluated anyway, so it costs no evaluations. With cross-fitting every fold of units is
controlled by a function fitted to the other folds only: the estimate stays unbiased and its standard error honest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, final

from controlshap._errors import InvalidArgumentError
from controlshap.controls.fits.boosting import fit_boosting
from controlshap.controls.fits.network import fit_network
from controlshap.controls.fits.polynomial import fit_polynomial
from controlshap.controls.fits.ridge import fit_ridge
from controlshap.controls.fits.rows import FoldedRows
from controlshap.controls.fits.wide_network import fit_wide_network
from controlshap.functions.base import KnownFunction, Sum
from controlshap.functions.network import Network
from controlshap.functions.polynomial import Quadratic
from controlshap.functions.tree_function import TreeFunction
from controlshap.functions.tree_readers.read import tree_boxes


def _at_least(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgumentError(f"`{name}` must be a whole number of at least {least}; got {value!r}.")


class Learner(Protocol):
    """Settings from which a function is fitted."""

    @property
    def n_folds(self) -> int:
        """Folds of units; each is controlled by a function fitted to the others."""

    def learn(self, data: FoldedRows, fold: int | None) -> KnownFunction:
        """A function fitted to the rows outside a fold (None: to all)."""


@final
@dataclass(frozen=True)
class LogisticRidge:
    """`low + width sigmoid(c + beta . r)`: right for probabilities, and for most that saturates.

    Parameters
    ----------
    n_folds : int
        Folds of units; each is controlled by a function fitted to the others.
    max_rows : int
        Most evaluated rows that a fit uses.
    """

    n_folds: int = 5
    max_rows: int = 8000

    def __post_init__(self) -> None:
        _at_least("n_folds", self.n_folds, 2)
        _at_least("max_rows", self.max_rows, 100)

    def learn(self, data: FoldedRows, fold: int | None) -> Network:
        """Logistic regression, then least squares."""
        return data.remember((self, fold), lambda: fit_ridge(data, fold, self.max_rows))


@final
@dataclass(frozen=True)
class RidgeNetwork:
    """One hidden layer of logistic units and a linear part: for any real-valued output.

    Parameters
    ----------
    n_hidden : int
        Most units of the hidden layer.
    max_parameters : int
        Most weights, constants and scales; with many columns there are fewer units. A fit takes time with its square.
    n_folds : int
        As for LogisticRidge.
    max_rows : int
        Most evaluated rows that a fit uses.
    """

    n_hidden: int = 16
    max_parameters: int = 600
    n_folds: int = 5
    max_rows: int = 5000

    def __post_init__(self) -> None:
        _at_least("n_hidden", self.n_hidden, 1)
        _at_least("max_parameters", self.max_parameters, 1)
        _at_least("n_folds", self.n_folds, 2)
        _at_least("max_rows", self.max_rows, 100)

    def learn(self, data: FoldedRows, fold: int | None) -> Network:
        """Levenberg-Marquardt from the ridge fit."""
        each = data.rows.shape[1] + 2  # weights, constant and scale
        n_hidden = max(1, min(self.n_hidden, self.max_parameters // each))
        return data.remember((self, fold), lambda: fit_network(data.thinned(self.max_rows), fold, n_hidden))


@final
@dataclass(frozen=True)
class WideNetwork:
    """Many logistic units in one hidden layer, and a linear part: for a function that is fitted once to many rows.

    Parameters
    ----------
    n_hidden : int
        Units of the hidden layer.
    n_steps : int
        Gradient steps, of 256 rows each.
    n_folds : int
        As for LogisticRidge.
    max_rows : int
        Most evaluated rows that a fit uses.
    """

    n_hidden: int = 64
    n_steps: int = 8000
    n_folds: int = 5
    max_rows: int = 200_000

    def __post_init__(self) -> None:
        _at_least("n_hidden", self.n_hidden, 1)
        _at_least("n_steps", self.n_steps, 1)
        _at_least("n_folds", self.n_folds, 2)
        _at_least("max_rows", self.max_rows, 100)

    def learn(self, data: FoldedRows, fold: int | None) -> Network:
        """Stochastic gradient steps."""
        thin = data.thinned(self.max_rows)
        return data.remember((self, fold), lambda: fit_wide_network(thin, fold, self.n_hidden, self.n_steps))


@final
@dataclass(frozen=True)
class Polynomial:
    """A polynomial of degree one or two.

    Pairs of walks integrate two-way interactions without error, so it helps against the noise of sampled background
    rows, and for unpaired walks; past that a control must know interactions of three and more.

    Parameters
    ----------
    degree : {1, 2}
    max_terms : int
        Most terms; products are formed of the columns with the largest linear effects.
    n_folds : int
        As for LogisticRidge.
    max_rows : int
        Most evaluated rows that a fit uses.
    """

    degree: int = 2
    max_terms: int = 200
    n_folds: int = 5
    max_rows: int = 2500

    def __post_init__(self) -> None:
        if self.degree not in (1, 2):
            raise InvalidArgumentError(f"`degree` must be 1 or 2; got {self.degree!r}.")
        _at_least("max_terms", self.max_terms, 1)
        _at_least("n_folds", self.n_folds, 2)
        _at_least("max_rows", self.max_rows, 100)

    def learn(self, data: FoldedRows, fold: int | None) -> Quadratic:
        """Penalised least squares."""
        thin = data.thinned(self.max_rows)
        return data.remember((self, fold), lambda: fit_polynomial(thin, fold, self.degree, self.max_terms))


@final
@dataclass(frozen=True)
class Trees:
    """A boosted ensemble of trees (lightgbm or scikit-learn), fitted to what a smoother function leaves over.

    Parameters
    ----------
    model : fitted model, optional
        An ensemble that is fitted already (scikit-learn forest, gradient or histogram boosting, lightgbm, xgboost;
        regressions, and forests of classifiers); nothing is then fitted.
    n_trees, n_leaves, learning_rate
        The ensemble.
    start : Learner or None
        What is fitted first; the trees take its residuals. None fits the trees to the model alone.
    n_folds : int
        As for LogisticRidge; fewer, since a fit takes a tenth of a second and more.
    max_rows : int
        Most evaluated rows that a fit uses.
    """

    model: Any = None
    n_trees: int = 100
    n_leaves: int = 63
    learning_rate: float = 0.2
    start: Smooth | None = LogisticRidge()
    n_folds: int = 5
    max_rows: int = 50_000

    def __post_init__(self) -> None:
        _at_least("n_trees", self.n_trees, 1)
        _at_least("n_leaves", self.n_leaves, 2)
        _at_least("n_folds", self.n_folds, 2)
        _at_least("max_rows", self.max_rows, 100)
        if not 0.0 < self.learning_rate <= 1.0:
            raise InvalidArgumentError(f"`learning_rate` must lie in (0, 1]; got {self.learning_rate!r}.")
        if self.start is not None and not isinstance(
            self.start, (LogisticRidge, RidgeNetwork, WideNetwork, Polynomial)
        ):
            raise InvalidArgumentError(
                "`start` must be LogisticRidge(), RidgeNetwork(), WideNetwork(), Polynomial() or None; got "
                f"{self.start!r}."
            )
        if self.model is not None and tree_boxes(self.model) is None:
            raise InvalidArgumentError(
                f"`model` must be a fitted sum of trees (a forest, or a boosted regression); "
                f"{type(self.model).__name__} could not be read as one. Leave it out to have trees fitted."
            )

    def learn(self, data: FoldedRows, fold: int | None) -> KnownFunction:
        """Boosting."""
        return data.remember((self, fold), lambda: self._learn(data, fold))

    def _learn(self, data: FoldedRows, fold: int | None) -> KnownFunction:
        if self.model is not None:
            return self._given(data)
        first = None if self.start is None else self.start.learn(data, fold)
        thin = data.thinned(self.max_rows)
        left = thin if first is None else thin.less((self.start, fold), first.predict)
        trees = fit_boosting(left, fold, self.n_trees, self.n_leaves, self.learning_rate)
        return trees if first is None else Sum(first, trees)

    def _given(self, data: FoldedRows) -> KnownFunction:
        boxes = data.remember(("boxes", self), lambda: tree_boxes(self.model))
        if boxes is None or not data.output < len(boxes.offset):
            raise InvalidArgumentError(
                f"`model` of Trees() has fewer outputs than the explained model, whose output {data.output} it lacks."
            )
        one = [data.output]
        return TreeFunction(replace(boxes, values=boxes.values[:, one], offset=boxes.offset[one]), None)


Smooth: TypeAlias = LogisticRidge | RidgeNetwork | WideNetwork | Polynomial
"""What trees can be fitted on top of."""
