"""Derivatives of torch modules by automatic differentiation.

They count as no model evaluations, because a backward pass evaluates no rows; docs/design.md states what they cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from controlshap.data.players import Players
from controlshap.models.derivatives.base import Derivatives, Point, check_shape
from controlshap.models.torch_module import as_tensor, evaluation_mode


@final
@dataclass(frozen=True)
class Autograd:
    """Gradient and Hessian of a module at one row, through `torch.func`."""

    module: Any

    def cost(self, background: Any, players: Players, budget: int, *, second: bool) -> int:  # noqa: ARG002
        """Return 0: no evaluations are taken."""
        return 0

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
