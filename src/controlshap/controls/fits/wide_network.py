"""Fit a wide hidden layer of logistic units to many rows, by stochastic gradient steps (Adam) in small batches.

Levenberg-Marquardt steps (`network.py`) take time with the square of the parameters, which suits few units and few
rows; where a function is fitted once for all rows to explain, there are many of both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlshap._types import FloatArray
from controlshap.controls.fits.network import in_own_units
from controlshap.controls.fits.rows import FoldedRows
from controlshap.functions.network import Network

BATCH = 256
#: Largest step, and its share that is left at the end (half a cosine between them).
RATE, LAST = 0.01, 0.005
#: Penalty on weights, on standardised columns: keeps scores within the reach of the quadrature.
DECAY = 1e-5
#: Adam's memories of slopes and of their squares.
MEMORY = (0.9, 0.999)


def fit_wide_network(data: FoldedRows, fold: int | None, n_hidden: int, n_steps: int, seed: int = 0) -> Network:
    """Fit a network to the rows outside a fold; the same bits for the same rows."""
    keep = data.others(fold)
    inputs = data.standardised[keep].astype(np.float32)
    outputs = data.outputs[keep]
    center, spread = float(outputs.mean()), float(outputs.std())
    n, c = inputs.shape
    if spread <= 1e-12 * max(abs(center), 1e-300):
        zero = np.zeros(c)
        return Network(center, zero, zero[None], np.zeros(1), np.zeros(1))
    rng = np.random.default_rng(seed)
    parameters = _WideParameters.start(n_hidden, c, rng)
    target = ((outputs - center) / spread).astype(np.float32)
    first, second = np.zeros_like(parameters.flat), np.zeros_like(parameters.flat)
    order, place = rng.permutation(n), 0
    for step in range(1, n_steps + 1):
        if place + BATCH > n:
            order, place = rng.permutation(n), 0
        batch = order[place : place + BATCH]
        place += BATCH
        slope = parameters.slope(inputs[batch], target[batch])
        first += (1.0 - MEMORY[0]) * (slope - first)
        second += (1.0 - MEMORY[1]) * (slope**2 - second)
        size = RATE * (LAST + (1.0 - LAST) * 0.5 * (1.0 + np.cos(np.pi * step / n_steps)))
        unbiased = np.sqrt(1.0 - MEMORY[1] ** step) / (1.0 - MEMORY[0] ** step)
        parameters.flat -= np.float32(size * unbiased) * first / (np.sqrt(second) + np.float32(1e-8))
    weights, intercepts, scales, linear = (part.astype(float) for part in parameters.parts)
    return in_own_units(data, (center, spread), (weights, intercepts, scales), linear)


@dataclass
class _WideParameters:
    """All parameters in one array, and views of it: weights, intercepts, scales, linear part (its constant last)."""

    flat: FloatArray
    parts: list[FloatArray]

    @classmethod
    def start(cls, n_hidden: int, n_columns: int, rng: np.random.Generator) -> _WideParameters:
        shapes = ((n_hidden, n_columns), (n_hidden,), (n_hidden,), (n_columns + 1,))
        sizes = [int(np.prod(shape)) for shape in shapes]
        flat = np.zeros(sum(sizes), dtype=np.float32)
        parts = [part.reshape(shape) for part, shape in zip(np.split(flat, np.cumsum(sizes)[:-1]), shapes, strict=True)]
        parts[0][:] = rng.normal(size=parts[0].shape) * np.sqrt(2.0 / n_columns)
        parts[2][:] = rng.normal(size=n_hidden) * np.sqrt(1.0 / n_hidden)
        return cls(flat, parts)

    def slope(self, rows: FloatArray, target: FloatArray) -> FloatArray:
        """Gradient of half the mean squared error on some rows, with the penalty's."""
        weights, intercepts, scales, linear = self.parts
        hidden = 1.0 / (1.0 + np.exp(-(rows @ weights.T + intercepts)))
        residual = hidden @ scales + rows @ linear[:-1] + linear[-1] - target
        residual /= len(rows)
        back = residual[:, None] * scales * hidden * (1.0 - hidden)
        by_part = (
            (back.T @ rows).ravel(), back.sum(axis=0), residual @ hidden, residual @ rows, residual.sum(keepdims=True)
        )  # fmt: skip
        slope: FloatArray = np.concatenate(by_part) + DECAY * self.flat
        return slope
