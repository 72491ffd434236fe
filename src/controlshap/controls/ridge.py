"""The control that "auto" begins with: `low + width sigmoid(c + beta . r)`, or `c + beta . r` where that fits better.

Gauss-Newton steps on the squared error, which is what a control variate leaves over, from a constant. A step that would
raise the error is halved: whole steps diverge on steep models. A ridge penalty keeps the coefficients of separable
data, and with them the range of the score, bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from scipy.special import expit

from controlshap._arrays import sum_products
from controlshap._types import FloatArray
from controlshap.controls.base import Control, FoldedRows, check_at_least
from controlshap.functions.network import Network

#: Ridge penalty per row, on standardised columns and an output scaled to (0, 1).
PENALTY = 1e-6
#: Most steps of a first fit, of its refinement, and most halvings of a step.
FIRST_STEPS, MORE_STEPS, MOST_HALVINGS = 10, 2, 8
#: Stop when a step lowers the error by no more than this share.
ENOUGH = 1e-4
#: Mean squared error, of outputs scaled to (0, 1), of a linear function that is as good as exact.
EXACT = 1e-7
#: Outputs outside [0, 1] are taken to lie in their observed range, widened by this share.
WIDENED = 0.1
#: Entries of the design beyond which rows are left out, and how many rows are kept in any case.
MOST_ENTRIES, FEWEST_ROWS = 150_000, 2000
#: Rows of a first fit, which the others refine.
FIRST_ROWS = 600


@final
@dataclass(frozen=True)
class LogisticRidge(Control):
    """`low + width sigmoid(c + beta . r)`, right for probabilities and for most that saturates, or a linear function.

    Both have as many parameters, so the one that leaves less of the rows that it is fitted to is taken.

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

    @property
    def has_device_form(self) -> bool:  # type: ignore[override]
        """With the folds and rows of the default."""
        return self == LogisticRidge()

    def __post_init__(self) -> None:
        check_at_least(self, n_folds=2, max_rows=100)

    def fit(self, data: FoldedRows, fold: int | None) -> Network:
        """Fit by least squares."""
        return data.remember((self, fold), lambda: fit_ridge(data, fold, self.max_rows))


#: What other controls begin with.
RIDGE = LogisticRidge()


def fit_ridge(data: FoldedRows, fold: int | None, max_rows: int = 8000) -> Network:
    """Fit a linear and a logistic ridge function to the rows outside a fold, and take the better one."""
    ridge = _outside(data, fold, max_rows)
    slopes, left = ridge.fit_line()
    if left <= EXACT * len(ridge.design):
        return ridge.line(slopes)
    parameters, error = _fit_curve(ridge)
    return ridge.network(parameters) if error <= left else ridge.line(slopes)


def fit_logistic(data: FoldedRows, fold: int | None) -> Network:
    """Fit a logistic ridge function, in any case."""
    ridge = _outside(data, fold, RIDGE.max_rows)
    return ridge.network(_fit_curve(ridge)[0])


def _outside(data: FoldedRows, fold: int | None, max_rows: int) -> RidgeData:
    """The rows outside a fold, fewer if there are many."""
    thin = data.thin(min(max_rows, max(FEWEST_ROWS, MOST_ENTRIES // data.rows.shape[1])))
    keep = thin.others(fold)
    return RidgeData.standardise(thin.rows[keep], thin.outputs[keep])


def _fit_curve(ridge: RidgeData) -> tuple[FloatArray, float]:
    """Parameters of the logistic function, and their error: from some of the rows first, which is most of the way."""
    some = ridge.every(max(1, len(ridge.design) // FIRST_ROWS))
    return ridge.refine(some.fit(), MORE_STEPS)


@dataclass(frozen=True)
class RidgeData:
    """Rows and values to fit to, standardised.

    Attributes
    ----------
    design : ndarray of shape (rows, columns + 1)
        Standardised columns and a constant.
    shares : ndarray of shape (rows,)
        The output scaled to (0, 1).
    """

    design: FloatArray
    shares: FloatArray
    center: FloatArray
    scale: FloatArray
    low: float
    width: float

    @classmethod
    def standardise(cls, rows: FloatArray, outputs: FloatArray) -> RidgeData:
        """Columns to mean 0 and standard deviation 1; constant ones to 0."""
        center = rows.mean(axis=0)
        design = np.ones((len(rows), rows.shape[1] + 1))
        centred = np.subtract(rows, center, out=design[:, :-1])
        spread = np.sqrt(sum_products(centred, centred, axis=-2) / len(rows))
        scale = np.where(spread > 1e-12 * np.maximum(np.abs(center), 1.0), spread, np.inf)
        low, high = float(outputs.min()), float(outputs.max())
        if low >= 0.0 and high <= 1.0:
            low, high = 0.0, 1.0
        else:
            margin = WIDENED * (high - low) if high > low else 1.0
            low, high = low - margin, high + margin
        centred /= scale
        return cls(design, (outputs - low) / (high - low), center, scale, low, high - low)

    def network(self, parameters: FloatArray) -> Network:
        """Parameters in the columns' own units, as a network of one unit."""
        coef = parameters[:-1] / self.scale
        intercept = parameters[-1] - coef @ self.center
        return Network(self.low, np.zeros(len(coef)), coef[None], np.array([intercept]), np.array([self.width]))

    def line(self, slopes: FloatArray) -> Network:
        """Coefficients of the columns as a network without hidden units, which is a linear function."""
        linear, nothing = self.width * slopes[:-1] / self.scale, np.zeros(0)
        constant = float(self.low + self.width * slopes[-1] - linear @ self.center)
        return Network(constant, linear, np.zeros((0, len(linear))), nothing, nothing)

    def fit_line(self) -> tuple[FloatArray, float]:
        """Coefficients `(columns + 1,)` of a linear function of the columns, and its penalised squared error."""
        gram, mean = self.design.T @ self.design, self.shares.mean()
        diagonal = gram.ravel()[:: len(gram) + 1]
        diagonal += self._penalty + 1e-10 * diagonal.mean()
        # columns are centred, so that the constant is the mean
        slopes: FloatArray = np.linalg.solve(gram, self.design.T @ (self.shares - mean))
        slopes[-1] = mean
        gap = self.shares - self.design @ slopes
        return slopes, float(gap @ gap + self._penalty @ slopes**2)

    def every(self, stride: int) -> RidgeData:
        """Every so many-th of the rows."""
        return replace(self, design=self.design[::stride].copy(), shares=self.shares[::stride].copy())

    def fit(self) -> FloatArray:
        """Parameters `(columns + 1,)`, from a constant on."""
        mean = float(np.clip(self.shares.mean(), 1e-3, 1.0 - 1e-3))
        constant: FloatArray = np.zeros(self.design.shape[1])
        constant[-1] = np.log(mean / (1.0 - mean))
        return self.refine(constant, FIRST_STEPS)[0]

    def refine(self, parameters: FloatArray, n_steps: int) -> tuple[FloatArray, float]:
        """Take a few Gauss-Newton steps, none of which raises the penalised squared error, and return that, too."""
        chances, error = self._predict(parameters)
        for _ in range(n_steps):
            before, candidate = error, self._step(parameters, chances)
            for _ in range(MOST_HALVINGS):
                of_candidate, new_error = self._predict(candidate)
                if new_error <= error:
                    parameters, chances, error = candidate, of_candidate, new_error
                    break
                candidate = 0.5 * (candidate + parameters)
            if before - error <= ENOUGH * before:
                break
        return parameters, error

    def _predict(self, parameters: FloatArray) -> tuple[FloatArray, float]:
        """Predicted shares, and the penalised squared error."""
        chances: FloatArray = expit(self.design @ parameters)
        gap = self.shares - chances
        return chances, float(gap @ gap + self._penalty @ parameters**2)

    @cached_property
    def _penalty(self) -> FloatArray:
        penalty = np.full(self.design.shape[1], PENALTY * len(self.design))
        penalty[-1] = 0.0
        return penalty

    def _step(self, parameters: FloatArray, chances: FloatArray) -> FloatArray:
        slope = np.maximum(chances * (1.0 - chances), 1e-6)
        scaled = self.design * slope[:, None]
        gram = scaled.T @ scaled
        diagonal = gram.ravel()[:: len(gram) + 1]
        diagonal += self._penalty + 1e-10 * diagonal.sum()
        right = scaled.T @ (self.shares - chances) - self._penalty * parameters
        moved: FloatArray = parameters + np.linalg.solve(gram, right)
        return moved
