"""Fit a wide hidden layer of logistic units to many rows, by stochastic gradient steps (Adam) in small batches.

Levenberg-Marquardt steps (`network.py`) take time with the square of the parameters, which suits few units and few
rows; where a function is fitted once for all rows to explain, there are many of both.
"""

from __future__ import annotations

import numpy as np

from controlshap._types import FloatArray
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
    """A network fitted to the rows outside a fold; the same bits for the same rows."""
    keep = data.others(fold)
    inputs = data.standardised[keep].astype(np.float32)
    outputs = data.outputs[keep]
    center, spread = float(outputs.mean()), float(outputs.std())
    n, c = inputs.shape
    if spread <= 1e-12 * max(abs(center), 1e-300):
        zero = np.zeros(c)
        return Network(center, zero, zero[None], np.zeros(1), np.zeros(1))
    rng = np.random.default_rng(seed)
    shapes = ((n_hidden, c), (n_hidden,), (n_hidden,), (c,), (1,))
    sizes = [int(np.prod(shape)) for shape in shapes]
    flat = np.zeros(sum(sizes), dtype=np.float32)
    parts = [part.reshape(shape) for part, shape in zip(np.split(flat, np.cumsum(sizes)[:-1]), shapes, strict=True)]
    weights, intercepts, scales, linear, constant = parts  # views: a step moves all of them
    weights[:] = rng.normal(size=weights.shape) * np.sqrt(2.0 / c)
    scales[:] = rng.normal(size=n_hidden) * np.sqrt(1.0 / n_hidden)
    target = ((outputs - center) / spread).astype(np.float32)
    first, second = np.zeros_like(flat), np.zeros_like(flat)
    order, place = rng.permutation(n), 0
    for step in range(1, n_steps + 1):
        if place + BATCH > n:
            order, place = rng.permutation(n), 0
        rows = inputs[order[place : place + BATCH]]
        hidden = 1.0 / (1.0 + np.exp(-(rows @ weights.T + intercepts)))
        wrong = hidden @ scales + rows @ linear + constant - target[order[place : place + BATCH]]
        place += BATCH
        wrong /= len(rows)
        back = wrong[:, None] * scales * hidden * (1.0 - hidden)
        slope = np.concatenate(
            [(back.T @ rows).ravel(), back.sum(axis=0), wrong @ hidden, wrong @ rows, wrong.sum(keepdims=True)]
        )
        slope += DECAY * flat
        first += (1.0 - MEMORY[0]) * (slope - first)
        second += (1.0 - MEMORY[1]) * (slope**2 - second)
        size = RATE * (LAST + (1.0 - LAST) * 0.5 * (1.0 + np.cos(np.pi * step / n_steps)))
        unbiased = np.sqrt(1.0 - MEMORY[1] ** step) / (1.0 - MEMORY[0] ** step)
        flat -= np.float32(size * unbiased) * first / (np.sqrt(second) + np.float32(1e-8))
    return _in_units(data, (center, spread), [part.astype(float) for part in parts])


def _in_units(data: FoldedRows, units: tuple[float, float], parts: list[FloatArray]) -> Network:
    """Back from standardised columns and outputs."""
    center, spread = units
    weights, intercepts, scales, linear, constant = parts
    own = weights / data.scale
    slope = spread * linear / data.scale
    return Network(
        float(center + spread * constant[0] - slope @ data.center),
        slope,
        own,
        intercepts - own @ data.center,
        spread * scales,
    )
