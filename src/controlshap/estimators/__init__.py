"""Estimators: from values of coalitions to terms, and from terms to Shapley values. Arrays only."""

from controlshap.estimators.base import Estimator
from controlshap.estimators.enumeration import Enumeration
from controlshap.estimators.kernel import Kernel
from controlshap.estimators.per_feature import PerFeature
from controlshap.estimators.permutation import Permutation

__all__ = ["Enumeration", "Estimator", "Kernel", "PerFeature", "Permutation"]
