"""Derivatives and the protocol of their sources; those that the user supplies, and those of torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.data.players import Players
from controlshap.models.torch_module import as_tensor, evaluation_mode


@dataclass(frozen=True)
class Derivatives:
    """First and second derivatives of every output.

    Attributes
    ----------
    gradient : ndarray of shape (outputs, columns)
    hessian : ndarray of shape (outputs, columns, columns) or (outputs, columns) or None
        All of it, its diagonal alone, or None if only the gradient was asked for.
    """

    gradient: FloatArray
    hessian: FloatArray | None


@dataclass(frozen=True)
class Point:
    """A row at which derivatives are taken, and the budget for a row."""

    x: FloatArray
    at_x: FloatArray  # (outputs,)
    background: FloatArray
    players: Players
    evaluate: Callable[[FloatArray], FloatArray]
    budget: int


class DerivativeSource(Protocol):
    """Computes derivatives of a model."""

    def cost(self, background: FloatArray, players: Players, budget: int, *, second: bool) -> int:  # noqa: ARG002
        """Return the largest number of model evaluations that one row can take: none, unless it says otherwise."""
        return 0

    def at(self, point: Point, *, second: bool) -> Derivatives:
        """Return the gradient at a point and, if `second`, the Hessian."""


@final
@dataclass(frozen=True)
class UserDerivatives(DerivativeSource):
    """Derivatives by functions of one row that the user supplies; they cost no model evaluations.

    Attributes
    ----------
    gradient : callable
        Returns shape (columns,) or (outputs, columns).
    hessian : callable or None
        Returns shape (columns, columns) or (outputs, columns, columns).
    """

    gradient: Callable[[FloatArray], Any]
    hessian: Callable[[FloatArray], Any] | None = None

    def at(self, point: Point, *, second: bool) -> Derivatives:
        """Call the functions and check the shapes."""
        o, c = len(point.at_x), len(point.x)
        gradient = check_shape("gradient", self.gradient(point.x), o, (c,))
        if not second:
            return Derivatives(gradient, None)
        if self.hessian is None:
            raise InvalidArgumentError(
                "Taylor(gradient=...) needs `hessian` too for independent features, where the surrogate is of "
                "second order (the paper's Theorem 1). Pass hessian=lambda x: ..."
            )
        hessian = check_shape("hessian", self.hessian(point.x), o, (c, c))
        # Only the symmetric part enters the quadratic form, and Theorem 1 assumes a symmetric Hessian.
        return Derivatives(gradient, 0.5 * (hessian + hessian.transpose(0, 2, 1)))


@final
@dataclass(frozen=True)
class Autograd(DerivativeSource):
    """Gradient and Hessian of a torch module at one row, through `torch.func`.

    They count as no model evaluations, because a backward pass evaluates no rows; docs/design.md states what they cost.
    """

    module: Any

    def at(self, point: Point, *, second: bool) -> Derivatives:
        """Differentiate the module's outputs for a single row."""
        import torch
        from torch.func import functional_call, hessian, jacrev

        state = {name: tensor.detach() for name, tensor in self.module.named_parameters()}
        state |= dict(self.module.named_buffers())

        def outputs(row: Any) -> Any:
            return functional_call(self.module, state, (row[None],)).reshape(-1)

        with evaluation_mode(self.module):
            row = as_tensor(self.module, point.x[None])[0]
            o, c = len(point.at_x), len(point.x)

            def to_array(tensor: Any) -> Any:
                return np.asarray(tensor.detach().to("cpu", torch.float64).numpy())

            gradient = check_shape("the module's gradient", to_array(jacrev(outputs)(row)), o, (c,))
            if not second:
                return Derivatives(gradient, None)
            second_order = check_shape("the module's Hessian", to_array(hessian(outputs)(row)), o, (c, c))
            return Derivatives(gradient, second_order)


def check_shape(name: str, value: Any, n_outputs: int, shape: tuple[int, ...]) -> FloatArray:
    """Return a finite array of shape (outputs, *shape); for a single output the first axis may be missing."""
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
