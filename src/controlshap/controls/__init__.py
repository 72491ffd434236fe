"""Control variates: functions whose Shapley values are known; one kind per file."""

from controlshap.controls.base import Context, Control, PreparedControl
from controlshap.controls.coalition_process import CoalitionProcess
from controlshap.controls.learners import LogisticRidge, Polynomial, RidgeNetwork, Trees, WaveNetwork, WideNetwork
from controlshap.controls.shared import SharedSurrogate
from controlshap.controls.taylor import Taylor

__all__ = [
    "CoalitionProcess",
    "Context",
    "Control",
    "LogisticRidge",
    "Polynomial",
    "PreparedControl",
    "RidgeNetwork",
    "SharedSurrogate",
    "Taylor",
    "Trees",
    "WaveNetwork",
    "WideNetwork",
]
