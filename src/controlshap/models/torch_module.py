"""torch modules: rows go to the module's device and type, outputs come back as doubles."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from controlshap._errors import ModelOutputError
from controlshap._types import FloatArray


def is_torch_module(model: Any) -> bool:
    """Whether torch is loaded and this is one of its modules."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def torch_predict(module: Any) -> Callable[[Any], Any]:
    """A function of arrays, without gradients and in evaluation mode."""
    return TorchPredict(module)


class TorchPredict:
    """Predictions of a module; its training mode is restored afterwards."""

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
    """Evaluation mode, then the mode that each submodule had (some may be frozen)."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, was_training in modes:
            part.training = was_training


def as_tensor(module: Any, rows: Any) -> Any:
    """Rows (an array, or a frame) on the device and in the type of the module's first floating-point parameter."""
    import torch

    tensor = torch.tensor(np.asarray(rows))
    for parameter in module.parameters():
        if parameter.is_floating_point():
            return tensor.to(parameter.device, parameter.dtype)
    return tensor.to(torch.get_default_dtype())
