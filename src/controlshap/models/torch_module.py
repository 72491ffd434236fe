"""Torch modules as functions of arrays: converts rows to the module's device and type, and outputs to doubles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from controlshap._errors import ModelOutputError
from controlshap._types import FloatArray


class TorchPredict:
    """Predictions of a module in evaluation mode, without gradients."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, rows: Any) -> FloatArray:
        """Evaluate rows `(n, columns)`."""
        import torch

        with evaluation_mode(self.module), torch.no_grad():
            outputs = self.module(as_tensor(self.module, rows))
        if not isinstance(outputs, torch.Tensor) or outputs.is_complex():
            kind = "complex numbers" if isinstance(outputs, torch.Tensor) else type(outputs).__name__
            raise ModelOutputError(
                f"The module must return one tensor of real numbers; it returned {kind}. Wrap it in a module that "
                "returns the output to explain."
            )
        array: FloatArray = outputs.detach().to("cpu", torch.float64).numpy()
        return array


@contextmanager
def evaluation_mode(module: Any) -> Iterator[None]:
    """Switch to evaluation mode, and restore the mode of each submodule afterwards (some may be frozen)."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, was_training in modes:
            part.training = was_training


def as_tensor(module: Any, rows: Any) -> Any:
    """Convert rows (an array or a frame) to the device and type of the module's first floating-point parameter."""
    import torch

    tensor = torch.tensor(np.asarray(rows))
    for parameter in module.parameters():
        if parameter.is_floating_point():
            return tensor.to(parameter.device, parameter.dtype)
    return tensor.to(torch.get_default_dtype())
