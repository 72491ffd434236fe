"""The derivatives of a model: closed form, automatic, or by differences."""

from __future__ import annotations

from typing import Any

from controlshap.models.derivatives.autograd import Autograd
from controlshap.models.derivatives.base import DerivativeSource
from controlshap.models.derivatives.closed_form import closed_form
from controlshap.models.derivatives.finite_differences import FiniteDifferences
from controlshap.models.torch_module import is_torch_module


def choose_derivatives(source: Any) -> DerivativeSource:
    """Best source for the user's model; a bare callable gets finite differences."""
    if is_torch_module(source):
        return Autograd(source)
    return closed_form(source) or FiniteDifferences()
