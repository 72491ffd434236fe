"""Estimators: from values of coalitions to terms, and from terms to Shapley values. Arrays only."""

from typing import TYPE_CHECKING

from controlshap._imports import lazy_names
from controlshap.estimators.base import Estimator
from controlshap.estimators.enumeration import Enumeration
from controlshap.estimators.kernel import Kernel
from controlshap.estimators.permutation import Permutation

if TYPE_CHECKING:
    from controlshap.estimators.per_feature import PerFeature

__getattr__, __dir__ = lazy_names(__name__, {"per_feature": ("PerFeature",)})

__all__ = ["Enumeration", "Estimator", "Kernel", "PerFeature", "Permutation"]
