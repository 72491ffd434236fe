"""A Gaussian process over coalitions as a control, fitted to the odd part of a game.

It serves KernelSHAP that evaluates the whole background with every coalition.

With signs s in {-1, 1}^p, the kernel `k(s, s') = sum over odd sets T of rho^|T| prod_{i in T} s_i s'_i` is a prior over
odd games in which interactions of higher order are smaller. It depends on the number of agreeing signs only:

    k = ((1 + rho)^m (1 - rho)^(p - m) - (1 - rho)^m (1 + rho)^(p - m)) / 2,        m agreements

and its sections are differences of products over players, so that the fit has exact Shapley values: for that of s'

    phi_j = 2 rho s'_j integral_0^1 prod_{i != j} (1 + rho s'_i (2t - 1)) dt

which again depends on counts only. A complement has the opposite sign, and even interactions have no part in a Shapley
value: pairs see the odd part alone.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg

from controlshap._types import FloatArray, IntArray
from controlshap.controls.base import Control, check_at_least
from controlshap.controls.ridge import RIDGE
from controlshap.functions.logistic import unit_nodes

#: Values of rho that are tried, from pairs alone to interactions of all orders, and relative sizes of the noise.
RHOS = (0.03, 0.1, 0.25, 0.5)
NOISES = (1e-9, 1e-4)
#: Prior variance of the additive part, relative to the rest: in effect free.
FREE = 1e3
#: Pairs that rho and the noise are chosen with.
TUNING_PAIRS = 120
#: Pairs whose values are predicted at once.
BATCH_PAIRS = 256


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

    start: Control | None = RIDGE
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


@dataclass(frozen=True)
class FittedProcess:
    """A process fitted to the odd part of a game.

    Attributes
    ----------
    signs : ndarray of shape (n, players)
        Coalitions that it was fitted to, 1 for members and -1 for the others.
    coefficients : ndarray of shape (n,)
    rho : float
    """

    signs: FloatArray
    coefficients: FloatArray
    rho: float

    def predict(self, signs: FloatArray) -> FloatArray:
        """Half the difference between coalitions and their complements, `(m,)`."""
        parts = [signs[start : start + BATCH_PAIRS] for start in range(0, len(signs), BATCH_PAIRS)]
        return np.concatenate([_gram(part, self.signs, self.rho) @ self.coefficients for part in parts])

    def values(self) -> FloatArray:
        """Shapley values `(players,)`."""
        p = self.signs.shape[1]
        nodes, weights = unit_nodes(p)
        tau = self.rho * (2.0 * nodes - 1.0)
        others = np.arange(p)  # members among the other p - 1 players
        integral = ((1.0 + tau) ** others[:, None] * (1.0 - tau) ** (p - 1 - others)[:, None]) @ weights
        members = self.signs > 0
        count = members.sum(axis=1)[:, None] - members
        sections = 2.0 * self.rho * self.signs * integral[count]
        additive = 2.0 * FREE * self.signs
        return np.asarray(self.coefficients @ (sections + additive))


def fit_process(signs: FloatArray, targets: FloatArray) -> FittedProcess:
    """Fit a process to distinct pairs `(n, players)` and targets `(n,)`.

    Rho and the noise are those of the smallest leave-one-out error among the first pairs.
    """
    few = slice(0, TUNING_PAIRS)
    rho, noise, least = RHOS[0], NOISES[-1], np.inf
    for candidate in RHOS:
        gram = _gram(signs[few], signs[few], candidate)
        for share in NOISES:
            inverse = np.linalg.inv(_noisy(gram, candidate, share, signs.shape[1]))
            left_out = (inverse @ targets[few]) / np.maximum(np.diag(inverse), 1e-300)
            error = float(left_out @ left_out)
            if error < least:
                rho, noise, least = candidate, share, error
    gram = _noisy(_gram(signs, signs, rho), rho, noise, signs.shape[1])
    return FittedProcess(signs, solve_process(gram, targets), rho)


def solve_process(gram: FloatArray, targets: FloatArray) -> FloatArray:
    """Coefficients `(n,)`; along directions that the targets do not have they are arbitrary: any function will do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
        coefficients: FloatArray = scipy.linalg.solve(gram, targets, assume_a="pos")
    return coefficients


def _noisy(gram: FloatArray, rho: float, share: float, n_players: int) -> FloatArray:
    noisy = gram.copy()
    noisy[np.diag_indices_from(noisy)] += share * _table(n_players, rho).max()
    return noisy


def product_kernel(p: int, rho: float) -> FloatArray:
    """Kernel `(1 + rho)^a (1 - rho)^(p - a)` of coalitions that agree in a = 0 ... p players."""
    agreements = np.arange(p + 1)
    kernel: FloatArray = (1.0 + rho) ** agreements * (1.0 - rho) ** (p - agreements)
    return kernel


def _table(p: int, rho: float) -> FloatArray:
    kernel = product_kernel(p, rho)
    return 0.5 * (kernel - kernel[::-1])


def _gram(one: FloatArray, other: FloatArray, rho: float) -> FloatArray:
    p = one.shape[1]
    inner = one @ other.T
    agreements: IntArray = np.rint((p + inner) / 2.0).astype(np.int64)
    gram: FloatArray = _table(p, rho)[agreements] + FREE * inner
    return gram
