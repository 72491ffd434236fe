"""Control variates: functions whose Shapley values are known; one kind per file."""

from typing import TYPE_CHECKING

from controlshap._imports import lazy_names
from controlshap.controls.base import Context, Control, PreparedControl
from controlshap.controls.learners import (
    LogisticRidge,
    Polynomial,
    RidgeNetwork,
    ShallowTrees,
    Trees,
    WaveNetwork,
    WideNetwork,
)

if TYPE_CHECKING:
    from controlshap.controls.coalition_process import CoalitionProcess
    from controlshap.controls.shared import SharedSurrogate
    from controlshap.controls.taylor import Taylor

__getattr__, __dir__ = lazy_names(
    __name__,
    {"coalition_process": ("CoalitionProcess",), "shared": ("SharedSurrogate",), "taylor": ("Taylor",)},
)

__all__ = [
    "CoalitionProcess",
    "Context",
    "Control",
    "LogisticRidge",
    "Polynomial",
    "PreparedControl",
    "RidgeNetwork",
    "ShallowTrees",
    "SharedSurrogate",
    "Taylor",
    "Trees",
    "WaveNetwork",
    "WideNetwork",
]
