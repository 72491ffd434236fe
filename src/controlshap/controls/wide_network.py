"""A wide hidden layer, fitted to many rows by stochastic gradient steps (Adam) in small batches.

The units are logistic, or cosines, whose known values take a part of the time. Levenberg-Marquardt steps
(`network.py`) take time with the square of the parameters, which suits few units and few rows; where a function is
fitted once for all rows to explain, there are many of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from scipy.special import expit

from controlshap._arrays import Array, is_tensor, namespace, to_like
from controlshap._types import FloatArray, IntArray
from controlshap.controls.base import Control, FoldedRows, check_at_least
from controlshap.controls.network import in_own_units
from controlshap.controls.ridge import RIDGE, LogisticRidge
from controlshap.functions.network import Network
from controlshap.functions.waves import Waves

Step: TypeAlias = Callable[[Array, Array], None]
"""A gradient step, by its rows and how far it goes."""
Repeat: TypeAlias = Callable[[Step, Iterable[tuple[IntArray, float]]], None]
"""A way to take all steps."""

BATCH = 256
#: Largest step, and its share that is left at the end (half a cosine between them).
RATE, LAST = 0.01, 0.005
#: Penalty on weights, on standardised columns: keeps scores within the reach of the quadrature.
DECAY = 1e-5
#: Adam's memories of slopes and of their squares.
MEMORY = (0.9, 0.999)
#: The penalty for cosines, which fit noise sooner; and the size of their first weights, next to those of logistic
#: units: they begin as parts of a wave.
WAVE_DECAY, WAVE_START = 1e-4, 0.3


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

    def fit_targets(self, data: FoldedRows, fold: int | None) -> Network:
        """Fit by stochastic gradient steps."""
        return fit_wide_network(data, fold, self.n_hidden, self.n_steps)


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
    start: LogisticRidge | None = RIDGE
    n_folds: int = 5
    max_rows: int = 200_000

    is_fitted = True

    def __post_init__(self) -> None:
        check_at_least(self, n_waves=1, n_steps=1, n_folds=2, max_rows=100)

    def fit_targets(self, data: FoldedRows, fold: int | None) -> Waves:
        """Fit by stochastic gradient steps."""
        return fit_waves(data, fold, self.n_waves, self.n_steps)


@dataclass(frozen=True)
class _Layer:
    """A fitted layer of standardised columns, and the output's mean and spread."""

    units: tuple[float, float]
    hidden: tuple[FloatArray, FloatArray, FloatArray]
    linear: FloatArray


def fit_wide_network(data: FoldedRows, fold: int | None, n_hidden: int, n_steps: int) -> Network:
    """Fit a network to the rows outside a fold; the same bits for the same rows."""
    layer = _fit_layer(data, fold, (n_hidden, n_steps, BATCH), waves=False)
    return in_own_units(data, layer.units, layer.hidden, layer.linear)


def fit_waves(
    data: FoldedRows,
    fold: int | None,
    n_waves: int,
    n_steps: int,
    n_rows: int = BATCH,
    like: Array = None,
    repeat: Repeat | None = None,
) -> Waves:
    """Fit cosines to the rows outside a fold, by steps of so many rows; the same bits for the same rows.

    Where `like` is a tensor, the steps are taken on its device; `repeat` takes them, given a step as a function of its
    rows and its rate, and all of these.
    """
    size = (n_waves, n_steps, n_rows)
    layer = _fit_layer(data, fold, size, waves=True, like=like, repeat=repeat)
    own = in_own_units(data, layer.units, layer.hidden, layer.linear)
    return Waves(own.constant, own.linear, own.weights, own.intercepts, own.scales)


def _fit_layer(
    data: FoldedRows,
    fold: int | None,
    size: tuple[int, int, int],
    *,
    waves: bool,
    like: Array = None,
    repeat: Repeat | None = None,
) -> _Layer:
    (n_hidden, n_steps, n_rows), keep = size, data.others(fold)
    inputs = to_like(data.standardised[keep].astype(np.float32), like)
    outputs = data.outputs[keep]
    center, spread = float(outputs.mean()), float(outputs.std())
    n, c = inputs.shape
    if spread <= 1e-12 * max(abs(center), 1e-300):
        return _Layer((center, 0.0), (np.zeros((1, c)), np.zeros(1), np.zeros(1)), np.zeros(c + 1))
    rng = np.random.default_rng(0)
    parameters = _WideParameters.start(n_hidden, c, rng, waves=waves, like=like)
    target = to_like(((outputs - center) / spread).astype(np.float32), like)
    xp = namespace(target)
    first, second = xp.zeros_like(parameters.flat), xp.zeros_like(parameters.flat)

    def step(batch: Array, rate: Array) -> None:
        nonlocal first, second
        slope = parameters.slope(inputs[batch], target[batch])
        first += (1.0 - MEMORY[0]) * (slope - first)
        second += (1.0 - MEMORY[1]) * (slope**2 - second)
        parameters.flat -= rate * first / (xp.sqrt(second) + 1e-8)

    (_take_steps if repeat is None else repeat)(step, _schedule(rng, n, n_steps, n_rows))
    parts = [part.cpu().numpy() for part in parameters.parts] if is_tensor(like) else parameters.parts
    weights, intercepts, scales, linear = (part.astype(float) for part in parts)
    return _Layer((center, spread), (weights, intercepts, scales), linear)


def _take_steps(step: Step, schedule: Iterable[tuple[IntArray, float]]) -> None:
    for batch, rate in schedule:
        step(batch, rate)


def _schedule(rng: np.random.Generator, n: int, n_steps: int, n_rows: int) -> Iterator[tuple[IntArray, float]]:
    """Rows of each step, of n that come in a new order each time, and how far it goes."""
    order, place = rng.permutation(n), 0
    for step in range(1, n_steps + 1):
        if place + n_rows > n:
            order, place = rng.permutation(n), 0
        rate = RATE * (LAST + (1.0 - LAST) * 0.5 * (1.0 + np.cos(np.pi * step / n_steps)))
        unbiased = np.sqrt(1.0 - MEMORY[1] ** step) / (1.0 - MEMORY[0] ** step)
        yield order[place : place + n_rows], float(rate * unbiased)
        place += n_rows


@dataclass
class _WideParameters:
    """All parameters in one array, and views of it: weights, intercepts, scales, linear part (its constant last)."""

    flat: Array
    parts: list[Array]
    waves: bool

    @classmethod
    def start(
        cls, n_hidden: int, n_columns: int, rng: np.random.Generator, *, waves: bool, like: Array
    ) -> _WideParameters:
        shapes = ((n_hidden, n_columns), (n_hidden,), (n_hidden,), (n_columns + 1,))
        sizes = [int(np.prod(shape)) for shape in shapes]
        flat = np.zeros(sum(sizes), dtype=np.float32)
        parts = cls._views(flat, sizes, shapes)
        parts[0][:] = rng.normal(size=parts[0].shape) * np.sqrt(2.0 / n_columns) * (WAVE_START if waves else 1.0)
        parts[1][:] = rng.uniform(0.0, 2.0 * np.pi, n_hidden) if waves else 0.0
        parts[2][:] = rng.normal(size=n_hidden) * np.sqrt(1.0 / n_hidden)
        placed = to_like(flat, like)
        return cls(placed, cls._views(placed, sizes, shapes), waves)

    @staticmethod
    def _views(flat: Array, sizes: list[int], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        ends = np.cumsum(sizes).tolist()
        return [flat[end - size : end].reshape(shape) for end, size, shape in zip(ends, sizes, shapes, strict=True)]

    def slope(self, rows: Array, target: Array) -> Array:
        """Gradient of half the mean squared error on some rows, with the penalty's."""
        xp = namespace(rows)
        weights, intercepts, scales, linear = self.parts
        scores = rows @ weights.T + intercepts
        hidden = xp.cos(scores) if self.waves else expit(scores)
        turn = -xp.sin(scores) if self.waves else hidden * (1.0 - hidden)
        residual = hidden @ scales + rows @ linear[:-1] + linear[-1] - target
        residual /= len(rows)
        back = residual[:, None] * scales * turn
        by_part = (
            (back.T @ rows).ravel(), back.sum(axis=0), residual @ hidden, residual @ rows, residual.sum().reshape(1)
        )  # fmt: skip
        return xp.concatenate(by_part) + (WAVE_DECAY if self.waves else DECAY) * self.flat
