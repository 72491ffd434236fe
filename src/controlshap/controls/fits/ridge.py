"""Fit `low + width sigmoid(c + beta . r)` to evaluated rows. Arrays only.

Gauss-Newton steps on the squared error, which is what a control variate leaves over, from a constant. A step that would
raise the error is halved: whole steps diverge on steep models. A ridge penalty keeps the coefficients of separable
data, and with them the range of the score, bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from controlshap._types import FloatArray, IntArray
from controlshap.controls.fits.rows import FoldedRows
from controlshap.functions.network import Network

#: Ridge penalty per row, on standardised columns and an output scaled to (0, 1).
PENALTY = 1e-6
#: Most steps of a first fit, of its refinement, and most halvings of a step.
FIRST_STEPS, MORE_STEPS, MOST_HALVINGS = 10, 2, 8
#: Stop when a step lowers the error by no more than this share.
ENOUGH = 1e-4
#: Outputs outside [0, 1] are taken to lie in their observed range, widened by this share.
WIDENED = 0.1
#: Entries of the design beyond which rows are left out, and how many rows are kept in any case.
MOST_ENTRIES, FEWEST_ROWS = 150_000, 2000
#: Rows of a first fit, which the others refine.
FIRST_ROWS = 600


def fit_ridge(data: FoldedRows, fold: int | None, max_rows: int = 8000) -> Network:
    """Fit a logistic ridge function to the rows outside a fold: to some of them first, which is most of the way."""
    thin = data.thin(min(max_rows, max(FEWEST_ROWS, MOST_ENTRIES // data.rows.shape[1])))
    keep = thin.others(fold)
    ridge = RidgeData.standardise(thin.rows[keep], thin.outputs[keep])
    everything = np.arange(len(keep))
    some = everything[:: max(1, len(keep) // FIRST_ROWS)]
    return ridge.network(ridge.refine(ridge.fit(some), everything, MORE_STEPS))


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
        center, spread = rows.mean(axis=0), rows.std(axis=0)
        scale = np.where(spread > 1e-12 * np.maximum(np.abs(center), 1.0), spread, np.inf)
        low, high = float(outputs.min()), float(outputs.max())
        if low >= 0.0 and high <= 1.0:
            low, high = 0.0, 1.0
        else:
            margin = WIDENED * (high - low) if high > low else 1.0
            low, high = low - margin, high + margin
        design = np.concatenate([(rows - center) / scale, np.ones((len(rows), 1))], axis=1)
        return cls(design, (outputs - low) / (high - low), center, scale, low, high - low)

    def network(self, parameters: FloatArray) -> Network:
        """Parameters in the columns' own units, as a network of one unit."""
        coef = parameters[:-1] / self.scale
        intercept = parameters[-1] - coef @ self.center
        return Network(self.low, np.zeros(len(coef)), coef[None], np.array([intercept]), np.array([self.width]))

    def fit(self, rows: IntArray | None = None) -> FloatArray:
        """Parameters `(columns + 1,)` from some rows, or all."""
        mean = float(np.clip(self.shares.mean(), 1e-3, 1.0 - 1e-3))
        constant: FloatArray = np.zeros(self.design.shape[1])
        constant[-1] = np.log(mean / (1.0 - mean))
        return self.refine(constant, np.arange(len(self.shares)) if rows is None else rows, FIRST_STEPS)

    def refine(self, parameters: FloatArray, rows: IntArray, n_steps: int) -> FloatArray:
        """Take a few Gauss-Newton steps on some of the rows, none of which raises the error."""
        error = self._error(parameters, rows)
        for _ in range(n_steps):
            before, candidate = error, self._step(parameters, rows)
            for _ in range(MOST_HALVINGS):
                new_error = self._error(candidate, rows)
                if new_error <= error:
                    parameters, error = candidate, new_error
                    break
                candidate = 0.5 * (candidate + parameters)
            if before - error <= ENOUGH * before:
                break
        return parameters

    def _error(self, parameters: FloatArray, rows: IntArray) -> float:
        gap = self.shares[rows] - expit(self.design[rows] @ parameters)
        return float(gap @ gap + self._penalty(rows) @ parameters**2)

    def _penalty(self, rows: IntArray) -> FloatArray:
        penalty = np.full(self.design.shape[1], PENALTY * len(rows))
        penalty[-1] = 0.0
        return penalty

    def _step(self, parameters: FloatArray, rows: IntArray) -> FloatArray:
        design, shares = self.design[rows], self.shares[rows]
        chance = expit(design @ parameters)
        slope = np.maximum(chance * (1.0 - chance), 1e-6)
        penalty = self._penalty(rows)
        gram = (design * (slope**2)[:, None]).T @ design
        gram[np.diag_indices_from(gram)] += penalty + 1e-10 * np.trace(gram)
        right = design.T @ (slope * (shares - chance)) - penalty * parameters
        moved: FloatArray = parameters + np.linalg.solve(gram, right)
        return moved
