"""Estimators: from values of coalitions to terms, and from terms to Shapley values. Arrays only."""

from controlshap.estimators.enumeration import Enumeration
from controlshap.estimators.kernel import Kernel
from controlshap.estimators.per_feature import PerFeature
from controlshap.estimators.protocol import Estimator
from controlshap.estimators.walks import Permutation

__all__ = ["Enumeration", "Estimator", "Kernel", "PerFeature", "Permutation"]
