"""Control variates: functions whose Shapley values are known; one kind per file."""

from typing import TYPE_CHECKING

from controlshap._imports import lazy_names
from controlshap.controls.base import Context, Control, PreparedControl
from controlshap.controls.polynomial import Polynomial
from controlshap.controls.ridge import LogisticRidge
from controlshap.controls.shallow_trees import ShallowTrees

if TYPE_CHECKING:
    from controlshap.controls.coalition_process import CoalitionProcess
    from controlshap.controls.network import RidgeNetwork
    from controlshap.controls.shared import SharedSurrogate
    from controlshap.controls.taylor import Taylor
    from controlshap.controls.trees import Trees
    from controlshap.controls.wide_network import WaveNetwork, WideNetwork

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "coalition_process": ("CoalitionProcess",),
        "network": ("RidgeNetwork",),
        "shared": ("SharedSurrogate",),
        "taylor": ("Taylor",),
        "trees": ("Trees",),
        "wide_network": ("WaveNetwork", "WideNetwork"),
    },
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
