"""Covariance of `solve(mean(terms))`; one method per file. Arrays only."""

from controlshap.variance.analytic import Analytic
from controlshap.variance.bootstrap import Bootstrap
from controlshap.variance.grouped import Grouped
from controlshap.variance.least_squares import LeastSquares
from controlshap.variance.protocol import Variance

__all__ = ["Analytic", "Bootstrap", "Grouped", "LeastSquares", "Variance"]
