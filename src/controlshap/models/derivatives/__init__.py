"""Gradients and Hessians at the explained row; one source per file."""

from controlshap.models.derivatives.base import Derivatives, DerivativeSource, UserDerivatives
from controlshap.models.derivatives.choose import choose_derivatives
from controlshap.models.derivatives.finite_differences import FiniteDifferences

__all__ = ["DerivativeSource", "Derivatives", "FiniteDifferences", "UserDerivatives", "choose_derivatives"]
