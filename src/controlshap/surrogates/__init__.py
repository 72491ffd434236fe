"""Functions whose Shapley values are known; one file each."""

from typing import TypeAlias

from controlshap.surrogates.learners import Learner, LogisticRidge, Polynomial, RidgeNetwork, Trees, WideNetwork
from controlshap.surrogates.process import CoalitionProcess
from controlshap.surrogates.protocol import FittedSurrogate, Surrogate
from controlshap.surrogates.shared import SharedSurrogate
from controlshap.surrogates.taylor import Taylor

Control: TypeAlias = "Surrogate | Learner | CoalitionProcess"
"""What `control=` holds: made before sampling, or fitted to what was sampled."""

__all__ = [
    "CoalitionProcess",
    "Control",
    "FittedSurrogate",
    "Learner",
    "LogisticRidge",
    "Polynomial",
    "RidgeNetwork",
    "SharedSurrogate",
    "Surrogate",
    "Taylor",
    "Trees",
    "WideNetwork",
]
