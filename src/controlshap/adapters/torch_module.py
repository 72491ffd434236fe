"""torch modules: rows go to the module's device and type, outputs come back as doubles."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

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

        was_training = self.module.training
        self.module.eval()
        try:
            with torch.no_grad():
                outputs = self.module(as_tensor(self.module, rows))
            array: FloatArray = outputs.detach().to("cpu", torch.float64).numpy()
            return array
        finally:
            self.module.train(was_training)


def as_tensor(module: Any, rows: FloatArray) -> Any:
    """Rows on the device and in the type of the module's first floating-point parameter."""
    import torch

    for parameter in module.parameters():
        if parameter.is_floating_point():
            return torch.as_tensor(rows).to(parameter.device, parameter.dtype)
    return torch.as_tensor(rows).to(torch.get_default_dtype())
