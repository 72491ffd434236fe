"""A Gaussian process over coalitions as a control: for KernelSHAP that evaluates the whole background every time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray, IntArray
from controlshap.controls.fits.coalition_process import OddGame, fit_odd_game
from controlshap.controls.learners import LogisticRidge, Smooth

_RIDGE = LogisticRidge()


@final
@dataclass(frozen=True)
class CoalitionProcess:
    """Fitted to the values of coalitions themselves: interactions of higher order are smaller, whatever the model.

    For `Kernel(n_draws=..., reuse=True)` over the whole background, where these values carry no noise.

    Parameters
    ----------
    start : LogisticRidge, RidgeNetwork, Polynomial or None
        A function of rows that is fitted first; the process takes what it leaves of each coalition's value.
    n_folds : int
        Folds of units; each is controlled by a process fitted to the others.
    max_units : int
        Most pairs of coalitions that a fit uses.
    """

    start: Smooth | None = _RIDGE
    n_folds: int = 5
    max_units: int = 600

    def __post_init__(self) -> None:
        for name, value, least in (("n_folds", self.n_folds, 2), ("max_units", self.max_units, 20)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidArgumentError(f"`{name}` must be a whole number of at least {least}; got {value!r}.")

    def learn_game(self, signs: FloatArray, targets: FloatArray, others: IntArray) -> OddGame:
        """Fit to some units `(n, players)`, targets `(n,)`; a pair that occurs several times is used once."""
        _, first = np.unique(signs[others], axis=0, return_index=True)
        chosen = others[np.sort(first)[: self.max_units]]
        return fit_odd_game(signs[chosen], targets[chosen])
