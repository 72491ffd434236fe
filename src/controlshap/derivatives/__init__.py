"""Gradients and Hessians at the explained row; one source per file."""

from controlshap.derivatives.choose import choose_derivatives
from controlshap.derivatives.finite import FiniteDifferences
from controlshap.derivatives.protocol import Derivatives, DerivativeSource, UserDerivatives

__all__ = ["DerivativeSource", "Derivatives", "FiniteDifferences", "UserDerivatives", "choose_derivatives"]
