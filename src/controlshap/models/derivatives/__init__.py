"""Gradients and Hessians at the explained row: automatic, in closed form, or by finite differences."""

from typing import Any

from controlshap.models.derivatives.autograd import Autograd
from controlshap.models.derivatives.base import Derivatives, DerivativeSource, UserDerivatives
from controlshap.models.derivatives.closed_form import closed_form
from controlshap.models.derivatives.finite_differences import FiniteDifferences
from controlshap.models.torch_module import is_torch_module

__all__ = ["DerivativeSource", "Derivatives", "FiniteDifferences", "UserDerivatives", "choose_derivatives"]


def choose_derivatives(source: Any) -> DerivativeSource:
    """Return the best source of derivatives for a user's model; finite differences for a bare callable."""
    if is_torch_module(source):
        return Autograd(source)
    return closed_form(source) or FiniteDifferences()
