"""Functions whose Shapley values are known; one file each."""

from typing import TypeAlias

from controlshap.controls.base import FittedSurrogate, Surrogate
from controlshap.controls.coalition_process import CoalitionProcess
from controlshap.controls.learners import Learner, LogisticRidge, Polynomial, RidgeNetwork, Trees, WideNetwork
from controlshap.controls.shared import SharedSurrogate
from controlshap.controls.taylor import Taylor

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
