"""The base class of controls, and what they are given: functions with known Shapley values.

A control is prepared for a row (from a `Context`) or fitted to its evaluations (`FoldedRows`).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray, IntArray
from controlshap.data.players import Players
from controlshap.functions.base import KnownFunction, Sum
from controlshap.models.model import Model
from controlshap.statistics.control_variate import KnownValues
from controlshap.values.base import Imputer

if TYPE_CHECKING:
    from controlshap.controls.coalition_process import FittedProcess


_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Context:
    """The data that a control may use when it is prepared for a row.

    Attributes
    ----------
    x : ndarray of shape (columns,)
    at_x : ndarray of shape (outputs,)
        The model there.
    evaluate : callable
        The model on rows `(n, columns)`, counted in the row's evaluations.
    budget : int
        Evaluations of the whole explanation.
    cache : dict
        Belongs to the explainer, for what does not depend on x (D matrices).
    """

    x: FloatArray
    at_x: FloatArray
    background: FloatArray
    evaluate: Callable[[FloatArray], FloatArray]
    budget: int
    model: Model
    imputer: Imputer
    players: Players
    feature_names: tuple[str, ...]
    cache: dict[str, Any]


@dataclass(frozen=True)
class EvaluatedRows:
    """Rows `(n, columns)` and what the model said of them, `(n, outputs)`."""

    rows: FloatArray
    outputs: FloatArray

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Any) -> EvaluatedRows:
        return EvaluatedRows(self.rows[chosen], self.outputs[chosen])

    @classmethod
    def concatenate(cls, parts: Sequence[EvaluatedRows]) -> EvaluatedRows:
        """One after the other."""
        return cls(np.concatenate([part.rows for part in parts]), np.concatenate([part.outputs for part in parts]))


@dataclass(frozen=True)
class FoldedRows:
    """Evaluated rows that functions are fitted to, with one output, divided into folds.

    A fold is left out when the function that controls it is fitted. Rows of no fold (-1: the background, whose
    predictions belong to no unit) serve every fit.

    Attributes
    ----------
    rows : ndarray of shape (n, columns)
    outputs : ndarray of shape (n,)
    fold : ndarray of shape (n,)
    output : int
        Which of the model's outputs.
    memo : dict
        Results that do not depend on the fold left out, or that two fits use.
    row_memo : dict
        Those that do not depend on the outputs either: one dict for all outputs, and for what a `start` leaves of them.
    """

    rows: FloatArray
    outputs: FloatArray
    fold: IntArray
    output: int = 0
    memo: dict[Any, Any] = field(default_factory=dict)
    row_memo: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of_outputs(cls, rows: FloatArray, outputs: FloatArray, fold: IntArray) -> list[FoldedRows]:
        """The same rows for each of some outputs `(n, outputs)`."""
        row_memo: dict[Any, Any] = {}
        return [cls(rows, of_output, fold, number, row_memo=row_memo) for number, of_output in enumerate(outputs.T)]

    def others(self, fold: int | None) -> IntArray:
        """Numbers of the rows outside a fold; all of them for None."""
        return np.arange(len(self.fold)) if fold is None else np.flatnonzero(self.fold != fold)

    def remember(self, key: Any, make: Callable[[], _Made]) -> _Made:
        """Call `make` once, and return its result from then on."""
        return _remember(self.memo, key, make)

    def remember_rows(self, key: Any, make: Callable[[], _Made]) -> _Made:
        """The same for what does not depend on the outputs."""
        return _remember(self.row_memo, key, make)

    def thin(self, most: int) -> FoldedRows:
        """About `most` of the rows, evenly spread, the same ones every time."""
        if len(self.rows) <= most:
            return self

        def make() -> FoldedRows:
            chosen = np.unique(np.linspace(0, len(self.rows) - 1, most).astype(np.int64))
            row_memo = self.remember_rows(("thin", most), dict[Any, Any])
            return FoldedRows(
                self.rows[chosen], self.outputs[chosen], self.fold[chosen], self.output, row_memo=row_memo
            )

        return self.remember(("thin", most), make)

    def subtract(self, key: Any, predict: Callable[[FloatArray], FloatArray]) -> FoldedRows:
        """The rows with the predictions of a function subtracted from their outputs."""

        def make() -> FoldedRows:
            left = self.outputs - predict(self.rows)
            return FoldedRows(self.rows, left, self.fold, self.output, row_memo=self.row_memo)

        return self.remember(("subtract", key), make)

    @cached_property
    def labels(self) -> list[int]:
        """The folds there are, -1 first."""
        return [int(k) for k in np.unique(self.fold)]

    @cached_property
    def center(self) -> FloatArray:
        """Means of the columns."""
        mean: FloatArray = self.rows.mean(axis=0)
        return mean

    @cached_property
    def scale(self) -> FloatArray:
        """Column standard deviations; infinite for constant columns, whose coefficients are then 0."""
        spread = self.rows.std(axis=0)
        return np.where(spread > 1e-12 * np.maximum(np.abs(self.center), 1.0), spread, np.inf)

    @cached_property
    def standardised(self) -> FloatArray:
        """Columns of mean 0 and standard deviation 1."""
        result: FloatArray = (self.rows - self.center) / self.scale
        return result


def _remember(memo: dict[Any, Any], key: Any, make: Callable[[], _Made]) -> _Made:
    if key not in memo:
        memo[key] = make()
    return cast("_Made", memo[key])


@dataclass(frozen=True)
class PreparedControl:
    """A control prepared for one row.

    Attributes
    ----------
    predict : callable
        Values `(n, outputs)` on rows `(n, columns)`.
    known : KnownValues
        Shapley values and base value `(players + 1, outputs, 1)` under the value function.
    """

    predict: Callable[[FloatArray], FloatArray]
    known: KnownValues


class Control(ABC):  # noqa: B024 (which of the methods are implemented is for the attributes to say)
    """A control variate, for `control=`. A subclass implements `prepare`, or sets `is_fitted` and implements `fit`.

    A prepared control is made before sampling, under the value function of the context. A fitted one is fitted to the
    evaluations of the explanation itself: each fold of units is controlled by a function fitted to the other folds,
    so that the estimate stays unbiased and its standard error honest.
    """

    #: Whether the control is fitted to what was sampled.
    is_fitted: bool = False
    #: Whether it is fitted to the values of coalitions (`fit_coalitions`) rather than to evaluated rows.
    models_coalitions: bool = False
    #: Folds of units; each is controlled by a function fitted to the others.
    n_folds: int = 5
    #: Most evaluated rows that a fit uses.
    max_rows: int = 8000
    #: A control that is fitted first, and whose residuals this one is fitted to.
    start: Control | None = None
    #: Whether it is fitted for some folds first, and left out where it predicts these hardly better than the controls
    #: before it do (`crossfitting.fit`).
    on_trial: bool = False
    #: Whether `engine.device` has the same control for many rows of a torch module at once.
    has_device_form: bool = False

    def cost(self, players: Players, background: FloatArray, budget: int, *, source: Any, correlated: bool) -> int:  # noqa: ARG002
        """Most model evaluations that `prepare` may spend on a row."""
        return 0

    def refuse(self, imputer: Imputer, x: FloatArray, background: FloatArray) -> None:  # noqa: B027
        """Raise where `prepare` would, for a value function, players or a row that it does not fit; calls no model."""

    def prepare(self, context: Context) -> PreparedControl:
        """Make the function for one row, with its known values."""
        raise NotImplementedError(f"{type(self).__name__} is not prepared before sampling")

    def fit(self, data: FoldedRows, fold: int | None) -> KnownFunction:
        """Fit a function to the rows outside a fold (None: to all): `start`, and to what it leaves."""
        if not self.is_fitted:
            raise NotImplementedError(f"{type(self).__name__} is not fitted to evaluated rows")

        def make() -> KnownFunction:
            added = self.fit_targets(self.targets(data, fold, self.max_rows), fold)
            return added if self.start is None else Sum(self.start.fit(data, fold), added)

        return data.remember((self, fold), make)

    def fit_folds(self, data: FoldedRows, folds: Sequence[int | None]) -> tuple[KnownFunction, ...]:
        """Fit for several folds, which may take less time together."""
        return tuple(self.fit(data, k) for k in folds)

    def targets(self, data: FoldedRows, fold: int | None, most: int) -> FoldedRows:
        """About so many of the rows, with what `start` leaves of their outputs."""
        rows = data.thin(most)
        return rows if self.start is None else rows.subtract((self.start, fold), self.start.fit(data, fold).predict)

    def fit_targets(self, data: FoldedRows, fold: int | None) -> KnownFunction:
        """Fit a function to the rows outside a fold, of which `start` has been subtracted."""
        raise NotImplementedError(f"{type(self).__name__} has neither `fit` nor `fit_targets`")

    def leaves(self, data: FoldedRows, folds: Sequence[int], limit: float) -> float:  # noqa: ARG002
        """Sum of squares left of folds that the fits did not see; may be infinite where it is far over a limit."""
        inside = [np.flatnonzero(data.fold == k) for k in folds]
        found = [self.fit(data, k).predict(data.rows[rows]) for k, rows in zip(folds, inside, strict=True)]
        return float(sum(((data.outputs[rows] - f) ** 2).sum() for rows, f in zip(inside, found, strict=True)))

    def fit_coalitions(
        self, signs: FloatArray, targets: FloatArray, others: IntArray
    ) -> tuple[FittedProcess, IntArray]:
        """Fit to some units `others`, with the signs `(n, players)` of coalitions and targets `(n,)` of all units.

        Returns the fit and the units that it knows.
        """
        raise NotImplementedError(f"{type(self).__name__} is not fitted to values of coalitions")


def check_at_least(settings: Control, **least: int) -> None:
    """Refuse settings of these names that are not whole numbers of at least so much."""
    for name, smallest in least.items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
            raise InvalidArgumentError(f"`{name}` must be a whole number of at least {smallest}; got {value!r}.")
