"""A Gaussian process over coalitions as a control: for KernelSHAP that evaluates the whole background every time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.controls.base import Control, check_at_least
from controlshap.controls.fits.coalition_process import FittedProcess, fit_process
from controlshap.controls.learners import LogisticRidge

_RIDGE = LogisticRidge()


@final
@dataclass(frozen=True)
class CoalitionProcess(Control):
    """Fitted to the values of coalitions themselves, with smaller interactions of higher order, whatever the model.

    For `Kernel(n_draws=..., reuse=True)` over the whole background, where these values carry no noise.

    Parameters
    ----------
    start : LogisticRidge, RidgeNetwork, Polynomial or None
        A function of rows that is fitted first; the process is fitted to what it leaves of each coalition's value.
    n_folds : int
        Folds of units; each is controlled by a process fitted to the others.
    max_units : int
        Most pairs of coalitions that a fit uses.
    """

    start: Control | None = _RIDGE
    n_folds: int = 5
    max_units: int = 600

    is_fitted = True
    models_coalitions = True

    def __post_init__(self) -> None:
        check_at_least(self, n_folds=2, max_units=20)

    def fit_coalitions(
        self, signs: FloatArray, targets: FloatArray, others: IntArray
    ) -> tuple[FittedProcess, IntArray]:
        """Fit to some units, and say to which; a pair of coalitions that occurs several times is used once."""
        _, first = np.unique(signs[others], axis=0, return_index=True)
        chosen = others[np.sort(first)[: self.max_units]]
        return fit_process(signs[chosen], targets[chosen]), chosen
