"""Covariance of `solve(mean(terms))`. Arrays only."""

from typing import TYPE_CHECKING

from controlshap._imports import lazy_names
from controlshap.variances.base import Analytic, LeastSquares, Variance

if TYPE_CHECKING:
    from controlshap.variances.bootstrap import Bootstrap
    from controlshap.variances.grouped import Grouped

__getattr__, __dir__ = lazy_names(__name__, {"bootstrap": ("Bootstrap",), "grouped": ("Grouped",)})

__all__ = ["Analytic", "Bootstrap", "Grouped", "LeastSquares", "Variance"]
