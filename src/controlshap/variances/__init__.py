"""Covariance of `solve(mean(terms))`; one method per file. Arrays only."""

from controlshap.variances.analytic import Analytic
from controlshap.variances.base import Variance
from controlshap.variances.bootstrap import Bootstrap
from controlshap.variances.grouped import Grouped
from controlshap.variances.least_squares import LeastSquares

__all__ = ["Analytic", "Bootstrap", "Grouped", "LeastSquares", "Variance"]
