"""What derivatives are, and those that a user supplies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.data.players import Players


@dataclass(frozen=True)
class Derivatives:
    """First and second derivatives of every output.

    Attributes
    ----------
    gradient : ndarray of shape (outputs, columns)
    hessian : ndarray of shape (outputs, columns, columns) or (outputs, columns) or None
        Full, or its diagonal alone, or not asked for.
    """

    gradient: FloatArray
    hessian: FloatArray | None


@dataclass(frozen=True)
class Point:
    """Where derivatives are taken, and what they may cost."""

    x: FloatArray
    at_x: FloatArray  # (outputs,)
    background: FloatArray
    players: Players
    evaluate: Callable[[FloatArray], FloatArray]
    budget: int


class DerivativeSource(Protocol):
    """A way to get derivatives."""

    def cost(self, background: FloatArray, players: Players, budget: int, *, second: bool) -> int:
        """Most model evaluations it may take at one row."""

    def at(self, point: Point, *, second: bool) -> Derivatives:
        """Derivatives at a point, the second ones if asked for."""


@final
@dataclass(frozen=True)
class UserDerivatives:
    """Callables of one row: gradient `(columns,)` or `(outputs, columns)`, Hessian likewise.

    They are the user's own and cost no model evaluations.
    """

    gradient: Callable[[FloatArray], Any]
    hessian: Callable[[FloatArray], Any] | None = None

    def cost(self, background: FloatArray, players: Players, budget: int, *, second: bool) -> int:  # noqa: ARG002
        """Nothing."""
        return 0

    def at(self, point: Point, *, second: bool) -> Derivatives:
        """Call them and check the shapes."""
        o, c = len(point.at_x), len(point.x)
        gradient = checked_shape("gradient", self.gradient(point.x), o, (c,))
        if not second:
            return Derivatives(gradient, None)
        if self.hessian is None:
            raise InvalidArgumentError(
                "Taylor(gradient=...) needs `hessian` too for independent features, where the surrogate is of "
                "second order (the paper's Theorem 1). Pass hessian=lambda x: ..."
            )
        hessian = checked_shape("hessian", self.hessian(point.x), o, (c, c))
        # The quadratic form sees the symmetric part only; Theorem 1 takes it to be all there is.
        return Derivatives(gradient, 0.5 * (hessian + hessian.transpose(0, 2, 1)))


def checked_shape(name: str, value: Any, n_outputs: int, shape: tuple[int, ...]) -> FloatArray:
    """An array of shape (outputs, *shape), finite; a single output may leave the first axis out."""
    array = np.asarray(value, dtype=float)
    if n_outputs == 1 and array.shape == shape:
        array = array[None]
    if array.shape != (n_outputs, *shape):
        raise InvalidArgumentError(
            f"`{name}` must return shape {(n_outputs, *shape)}"
            + (f" or {shape}" if n_outputs == 1 else "")
            + f"; got {array.shape}."
        )
    if not np.isfinite(array).all():
        raise InvalidArgumentError(f"`{name}` returned NaN or infinite entries; it must be finite at x.")
    return array
