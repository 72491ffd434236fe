"""One hidden layer of logistic units, fitted by Levenberg-Marquardt steps on the squared error.

The first unit starts as the logistic ridge fit, the others as small random directions; a linear part takes what needs
no unit. Everything is fitted to the rows outside the fold, starts included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.linalg.blas import ssyrk
from scipy.special import expit

from controlshap._types import FloatArray
from controlshap.controls.base import Control, FoldedRows, check_at_least
from controlshap.controls.ridge import fit_logistic
from controlshap.functions.network import Network

#: Ridge penalty per row, on standardised columns and outputs.
PENALTY = 1e-6
MOST_STEPS, MOST_TRIALS = 100, 6
#: Stop when a step lowers the error by less than this share. Interactions of three and more columns, which is what a
#: control is for, are fitted last.
ENOUGH = 1e-4


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

    def fit_targets(self, data: FoldedRows, fold: int | None) -> Network:
        """Fit by Levenberg-Marquardt steps from the ridge fit."""
        each = data.rows.shape[1] + 2  # weights, constant and scale
        return fit_network(data, fold, max(1, min(self.n_hidden, self.max_parameters // each)))


def in_own_units(
    data: FoldedRows, units: tuple[float, float], hidden: tuple[FloatArray, FloatArray, FloatArray], linear: FloatArray
) -> Network:
    """The network of standardised columns and outputs, in their own units.

    `units` are mean and spread of the outputs, `hidden` the weights, intercepts and scales; `linear` has its constant
    last.
    """
    (center, spread), (weights, intercepts, scales) = units, hidden
    own = weights / data.scale
    slope = spread * linear[:-1] / data.scale
    constant = float(center + spread * linear[-1] - slope @ data.center)
    return Network(constant, slope, own, intercepts - own @ data.center, spread * scales)


@dataclass
class _Parameters:
    """Weights `(units, columns + 1)`, scales `(units,)`, linear part `(columns + 1,)`; constants last."""

    weights: FloatArray
    scales: FloatArray
    linear: FloatArray

    def flat(self) -> FloatArray:
        return np.concatenate([self.weights.ravel(), self.scales, self.linear])

    def unflatten(self, flat: FloatArray) -> _Parameters:
        h, q = self.weights.shape
        return _Parameters(flat[: h * q].reshape(h, q), flat[h * q : h * q + h], flat[h * q + h :])


def fit_network(data: FoldedRows, fold: int | None, n_hidden: int) -> Network:
    """Fit a network to the rows outside a fold."""
    keep = data.others(fold)
    design = np.concatenate([data.standardised[keep], np.ones((len(keep), 1))], axis=1)
    outputs = data.outputs[keep]
    center, spread = float(outputs.mean()), float(outputs.std())
    if spread <= 1e-12 * max(abs(center), 1e-300):
        zero = np.zeros(design.shape[1] - 1)
        return Network(center, zero, zero[None], np.zeros(1), np.zeros(1))
    start = _start(data, fold, n_hidden, (center, spread), np.random.default_rng(0))
    best = _minimise(design, (outputs - center) / spread, start)
    hidden = best.weights[:, :-1], best.weights[:, -1], best.scales
    return in_own_units(data, (center, spread), hidden, best.linear)


def _start(
    data: FoldedRows, fold: int | None, n_hidden: int, units: tuple[float, float], rng: np.random.Generator
) -> _Parameters:
    ridge = fit_logistic(data, fold)
    q = data.rows.shape[1] + 1
    finite = np.where(np.isfinite(data.scale), data.scale, 0.0)
    direction = np.append(ridge.weights[0] * finite, ridge.intercepts[0] + ridge.weights[0] @ data.center)
    weights = rng.normal(size=(n_hidden, q)) * 0.5 / np.sqrt(q)
    weights[1:] += 0.5 * rng.normal(size=(n_hidden - 1, 1)) * direction
    weights[0] = direction
    scales, linear = np.zeros(n_hidden), np.zeros(q)
    scales[0] = ridge.scales[0] / units[1]
    linear[-1] = (ridge.constant - units[0]) / units[1]
    return _Parameters(weights, scales, linear)


def _minimise(design: FloatArray, target: FloatArray, start: _Parameters) -> _Parameters:
    parameters = start.flat()
    penalty = np.full(len(parameters), PENALTY * len(target))

    def evaluate(flat: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        now = start.unflatten(flat)
        hidden = expit(design @ now.weights.T)
        residual = target - hidden @ now.scales - design @ now.linear
        return hidden, residual, float(residual @ residual + penalty @ flat**2)

    hidden, residual, error = evaluate(parameters)
    damping = 1e-2
    for _ in range(MOST_STEPS):
        slopes = hidden * (1.0 - hidden) * start.unflatten(parameters).scales
        jacobian = np.concatenate([*(slope[:, None] * design for slope in slopes.T), hidden, design], axis=1)
        gradient = jacobian.T @ residual - penalty * parameters
        gram = _gram(jacobian)
        diagonal = np.diag(gram).copy()
        before = error
        for _ in range(MOST_TRIALS):
            damped = gram + np.diag(penalty + damping * diagonal + 1e-9 * diagonal.max())
            candidate = parameters + np.linalg.solve(damped, gradient)
            trial = evaluate(candidate)
            if trial[2] < error:
                parameters, (hidden, residual, error) = candidate, trial
                damping = max(0.3 * damping, 1e-9)
                break
            damping *= 5.0
        if before - error < ENOUGH * before:
            break
    return start.unflatten(parameters)


def _gram(jacobian: FloatArray) -> FloatArray:
    """`J^T J` in single precision: it only shapes a damped step, and is most of the work of a fit."""
    upper: FloatArray = ssyrk(1.0, np.asarray(jacobian.T, dtype=np.float32)).astype(np.float64)
    return upper + np.triu(upper, 1).T
