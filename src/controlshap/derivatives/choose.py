"""The derivatives of a model: closed form, automatic, or by differences."""

from __future__ import annotations

from typing import Any

from controlshap.adapters.torch_module import is_torch_module
from controlshap.derivatives.autograd import Autograd
from controlshap.derivatives.closed import closed_form
from controlshap.derivatives.finite import FiniteDifferences
from controlshap.derivatives.protocol import DerivativeSource


def choose_derivatives(source: Any) -> DerivativeSource:
    """Best source for the user's model; a bare callable gets finite differences."""
    if is_torch_module(source):
        return Autograd(source)
    return closed_form(source) or FiniteDifferences()
