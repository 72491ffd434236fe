"""Evaluated rows that functions are fitted to, divided into folds.

A fold is left out when the function that controls it is fitted. Rows of no fold (-1: the background, whose predictions
belong to no unit) serve every fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from controlshap._types import FloatArray, IntArray

_Made = TypeVar("_Made")


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
    """Rows and one output.

    Attributes
    ----------
    rows : ndarray of shape (n, columns)
    outputs : ndarray of shape (n,)
    fold : ndarray of shape (n,)
    output : int
        Which of the model's outputs.
    memo : dict
        Results that do not depend on the fold left out, or that two fits use.
    """

    rows: FloatArray
    outputs: FloatArray
    fold: IntArray
    output: int = 0
    memo: dict[Any, Any] = field(default_factory=dict)

    def others(self, fold: int | None) -> IntArray:
        """Numbers of the rows outside a fold; all of them for None."""
        return np.arange(len(self.fold)) if fold is None else np.flatnonzero(self.fold != fold)

    def remember(self, key: Any, make: Callable[[], _Made]) -> _Made:
        """Call `make` once, and return its result from then on."""
        if key not in self.memo:
            self.memo[key] = make()
        return cast("_Made", self.memo[key])

    def thin(self, most: int) -> FoldedRows:
        """About `most` of the rows, evenly spread, the same ones every time."""
        if len(self.rows) <= most:
            return self

        def make() -> FoldedRows:
            chosen = np.unique(np.linspace(0, len(self.rows) - 1, most).astype(np.int64))
            return FoldedRows(self.rows[chosen], self.outputs[chosen], self.fold[chosen], self.output)

        return self.remember(("thin", most), make)

    def subtract(self, key: Any, predict: Callable[[FloatArray], FloatArray]) -> FoldedRows:
        """The rows with the predictions of a function subtracted from their outputs."""

        def make() -> FoldedRows:
            return FoldedRows(self.rows, self.outputs - predict(self.rows), self.fold, self.output)

        return self.remember(("subtract", key), make)

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
