"""Finite differences of forests as the published runs took them, which is not what the paper says.

- The step of a numeric column was its standard deviation given all other columns, not its marginal one.
- Single columns of a one-hot block were switched on and off, not the block from one level to another.
- A difference between the levels of a binary column was not divided by their distance; columns were standardised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import controlshap as cs
from controlshap.data.players import resolve_players
from controlshap.models.derivatives.base import Derivatives, Point


@dataclass(frozen=True)
class PublishedDifferences:
    """Derivatives of a model of standardised rows, computed once for every row."""

    model: Any
    background: np.ndarray  # scaled so that the spread of a numeric column is the step wanted: the library takes that
    spacing: np.ndarray  # between the two levels of a binary column, else 1
    second: bool
    known: dict[bytes, Derivatives] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Any, background: np.ndarray, *, second: bool) -> PublishedDifferences:
        levels = [np.unique(column) for column in background.T]
        spacing = np.array([np.ptp(one) if len(one) <= 2 else 1.0 for one in levels])
        scaled = background.copy()
        for column in np.flatnonzero([len(one) > 2 for one in levels]):
            scaled[:, column] *= conditional_spread(background, column) / background[:, column].std()
        return cls(model, scaled, spacing, second)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return self._at(x).gradient[0]

    def hessian(self, x: np.ndarray) -> np.ndarray:
        hessian = self._at(x).hessian
        assert hessian is not None
        return hessian[0]

    def _at(self, x: np.ndarray) -> Derivatives:
        key = x.tobytes()
        if key not in self.known:
            self.known[key] = self._differences(x)
        return self.known[key]

    def _differences(self, x: np.ndarray) -> Derivatives:
        alone = resolve_players(None, [str(column) for column in range(len(x))])
        at_x = self._evaluate(x[None])[0]
        point = Point(x, at_x, self.background, alone, self._evaluate, budget=10**9)
        found = cs.FiniteDifferences(cross=True).at(point, second=self.second)
        hessian = found.hessian
        if hessian is not None:
            hessian = hessian * self.spacing[:, None] * self.spacing
        return Derivatives(found.gradient * self.spacing, hessian)

    def _evaluate(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.model(rows), dtype=float)[:, None]


def conditional_spread(background: np.ndarray, column: int) -> float:
    """The standard deviation of a column given all others, by linear regression."""
    centred = background - background.mean(axis=0)
    others = np.delete(centred, column, axis=1)
    slopes = np.linalg.lstsq(others, centred[:, column], rcond=1e-8)[0]
    return float(np.std(centred[:, column] - others @ slopes))
