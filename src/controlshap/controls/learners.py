"""Controls fitted to the evaluations of the model, which they cost none of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

from controlshap._errors import InvalidArgumentError
from controlshap.controls.base import Control, check_at_least
from controlshap.controls.fits.ridge import fit_ridge
from controlshap.controls.fits.rows import FoldedRows
from controlshap.functions.base import KnownFunction, Sum
from controlshap.functions.network import Network

if TYPE_CHECKING:
    from controlshap.functions.trees import TreeFunction


@final
@dataclass(frozen=True)
class LogisticRidge(Control):
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

    is_fitted = True

    def __post_init__(self) -> None:
        check_at_least(self, n_folds=2, max_rows=100)

    def fit(self, data: FoldedRows, fold: int | None) -> Network:
        """Fit by least squares."""
        return data.remember((self, fold), lambda: fit_ridge(data, fold, self.max_rows))


@final
@dataclass(frozen=True)
class RidgeNetwork(Control):
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

    is_fitted = True

    def __post_init__(self) -> None:
        check_at_least(self, n_hidden=1, max_parameters=1, n_folds=2, max_rows=100)

    def fit(self, data: FoldedRows, fold: int | None) -> Network:
        """Fit by Levenberg-Marquardt steps from the ridge fit."""
        from controlshap.controls.fits.network import fit_network

        each = data.rows.shape[1] + 2  # weights, constant and scale
        n_hidden = max(1, min(self.n_hidden, self.max_parameters // each))
        return data.remember((self, fold), lambda: fit_network(data.thin(self.max_rows), fold, n_hidden))


@final
@dataclass(frozen=True)
class WideNetwork(Control):
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

    is_fitted = True

    def __post_init__(self) -> None:
        check_at_least(self, n_hidden=1, n_steps=1, n_folds=2, max_rows=100)

    def fit(self, data: FoldedRows, fold: int | None) -> Network:
        """Fit by stochastic gradient steps."""
        from controlshap.controls.fits.wide_network import fit_wide_network

        thin = data.thin(self.max_rows)
        return data.remember((self, fold), lambda: fit_wide_network(thin, fold, self.n_hidden, self.n_steps))


@final
@dataclass(frozen=True)
class WaveNetwork(Control):
    """Cosines of linear scores with fitted frequencies, on what a smoother function leaves over.

    For smooth models about as good as WideNetwork, with known values in a part of the time.

    Parameters
    ----------
    n_waves : int
    n_steps : int
        Gradient steps, of 256 rows each.
    start : LogisticRidge or None
        Fitted first.
    n_folds, max_rows : int
        As for WideNetwork.
    """

    n_waves: int = 64
    n_steps: int = 4000
    start: LogisticRidge | None = LogisticRidge()
    n_folds: int = 5
    max_rows: int = 200_000

    is_fitted = True

    def __post_init__(self) -> None:
        check_at_least(self, n_waves=1, n_steps=1, n_folds=2, max_rows=100)

    def fit(self, data: FoldedRows, fold: int | None) -> KnownFunction:
        """Fit by stochastic gradient steps."""
        return data.remember((self, fold), lambda: self._fit(data.thin(self.max_rows), fold))

    def _fit(self, thin: FoldedRows, fold: int | None) -> KnownFunction:
        from controlshap.controls.fits.wide_network import fit_waves

        if self.start is None:
            return fit_waves(thin, fold, self.n_waves, self.n_steps)
        first = self.start.fit(thin, fold)
        residuals = thin.subtract((self.start, fold), first.predict)
        return Sum(first, fit_waves(residuals, fold, self.n_waves, self.n_steps))


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
        from controlshap.controls.fits.polynomial import fit_polynomial

        if self.start is None:
            return fit_polynomial(thin, fold, self.degree, self.max_terms)
        first = self.start.fit(data, fold)
        residuals = thin.outputs - first.predict(thin.rows)
        return Sum(first, fit_polynomial(thin, fold, self.degree, self.max_terms, residuals))


@final
@dataclass(frozen=True)
class Trees(Control):
    """A boosted ensemble of trees (lightgbm or scikit-learn), fitted to what a smoother function leaves over.

    Parameters
    ----------
    model : fitted model, optional
        An ensemble that is fitted already (scikit-learn forest, gradient or histogram boosting, lightgbm, xgboost;
        regressions, and forests of classifiers); nothing is then fitted.
    n_trees, n_leaves, learning_rate
        The ensemble.
    start : LogisticRidge, RidgeNetwork, WideNetwork, WaveNetwork, Polynomial or None
        Fitted first; the trees take its residuals. None fits the trees to the model alone.
    n_folds : int
        As for LogisticRidge; fewer, since a fit takes a tenth of a second and more.
    max_rows : int
        Most evaluated rows that a fit uses.
    """

    model: Any = None
    n_trees: int = 100
    n_leaves: int = 63
    learning_rate: float = 0.2
    start: Control | None = LogisticRidge()
    n_folds: int = 5
    max_rows: int = 50_000

    is_fitted = True

    def __post_init__(self) -> None:
        check_at_least(self, n_trees=1, n_leaves=2, n_folds=2, max_rows=100)
        if not 0.0 < self.learning_rate <= 1.0:
            raise InvalidArgumentError(f"`learning_rate` must lie in (0, 1]; got {self.learning_rate!r}.")
        smooth = LogisticRidge | RidgeNetwork | WideNetwork | WaveNetwork | Polynomial
        if self.start is not None and not isinstance(self.start, smooth):
            raise InvalidArgumentError(
                "`start` must be LogisticRidge(), RidgeNetwork(), WideNetwork(), WaveNetwork(), Polynomial() or None; "
                f"got {self.start!r}."
            )
        if self.model is not None and self._read() is None:
            raise InvalidArgumentError(
                f"`model` must be a fitted sum of trees (a forest, or a boosted regression); "
                f"{type(self.model).__name__} could not be read as one. Leave it out to have trees fitted."
            )

    def _read(self) -> TreeFunction | None:
        """The given ensemble as a function."""
        from controlshap.functions.tree_readers.read import read_trees

        return read_trees(self.model)

    def fit(self, data: FoldedRows, fold: int | None) -> KnownFunction:
        """Fit by boosting."""
        if self.model is not None:
            return data.remember(self, lambda: self._select_output(data.output))
        return data.remember((self, fold), lambda: self._boost(data, fold))

    def _boost(self, data: FoldedRows, fold: int | None) -> KnownFunction:
        from controlshap.controls.fits.boosting import fit_boosting

        thin = data.thin(self.max_rows)
        settings = (self.n_trees, self.n_leaves, self.learning_rate)
        if self.start is None:
            return fit_boosting(thin, fold, *settings)
        first = self.start.fit(data, fold)
        residuals = thin.subtract((self.start, fold), first.predict)
        return Sum(first, fit_boosting(residuals, fold, *settings))

    def _select_output(self, output: int) -> KnownFunction:
        """The given ensemble's function of one output of the model."""
        trees = self._read()
        if trees is None or not output < len(trees.offset):
            raise InvalidArgumentError(
                f"`model` of Trees() has fewer outputs than the explained model, whose output {output} it lacks."
            )
        return replace(trees, values=trees.values[:, [output]], offset=trees.offset[[output]])


@final
@dataclass(frozen=True)
class ShallowTrees(Control):
    """A few boosted trees, fitted in milliseconds to what a ridge leaves over: for forests, boosting and steps.

    Parameters
    ----------
    n_trees, depth, learning_rate
        The ensemble; a tree of depth d has 2^d leaves.
    start : LogisticRidge or None
        Fitted first; the trees take its residuals. None fits the trees to the model alone.
    n_folds : int
        As for LogisticRidge.
    max_rows : int
        Most evaluated rows that a fit uses.
    on_trial : bool
        As for Polynomial.
    """

    n_trees: int = 10
    depth: int = 6
    learning_rate: float = 0.5
    start: LogisticRidge | None = LogisticRidge()
    n_folds: int = 5
    max_rows: int = 4000
    on_trial: bool = False

    is_fitted = True

    def __post_init__(self) -> None:
        check_at_least(self, n_trees=1, depth=1, n_folds=2, max_rows=100)
        if not 0.0 < self.learning_rate <= 1.0:
            raise InvalidArgumentError(f"`learning_rate` must lie in (0, 1]; got {self.learning_rate!r}.")

    def fit(self, data: FoldedRows, fold: int | None) -> KnownFunction:
        """Fit by boosting, a level of a tree at a time."""
        return data.remember((self, fold), lambda: self._fit(data, data.thin(self.max_rows), fold))

    def _fit(self, data: FoldedRows, thin: FoldedRows, fold: int | None) -> KnownFunction:
        from controlshap.controls.fits.shallow_trees import fit_shallow_trees

        settings = (self.n_trees, self.depth, self.learning_rate)
        if self.start is None:
            return fit_shallow_trees(thin, fold, thin.outputs, *settings)
        first = self.start.fit(data, fold)
        return Sum(first, fit_shallow_trees(thin, fold, thin.outputs - first.predict(thin.rows), *settings))
