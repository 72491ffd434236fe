"""A Gaussian process over coalitions, fitted to the even part of a game.

With signs s in {-1, 1}^p, the kernel `k(s, s') = sum over even sets T of rho^|T| prod_{i in T} s_i s'_i` is a prior
over even games in which interactions of higher order are smaller (`controls.coalition_process` has the odd ones).
With m agreeing signs

    k = ((1 + rho)^m (1 - rho)^(p - m) + (1 - rho)^m (1 + rho)^(p - m)) / 2

and the section at s' has the interactions

    I_ij = 4 rho^2 s'_i s'_j integral_0^1 prod_{k != i, j} (1 + rho s'_k (2t - 1)) dt.

Interactions of pairs depend on the even part of a game alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlshap._types import BoolArray, FloatArray
from controlshap.controls.coalition_process import RHOS, product_kernel, solve_process
from controlshap.functions.logistic import unit_nodes
from controlshap.interactions.index import pair_sums

#: Noise relative to the prior variance, from values without noise to single draws.
NOISES = (1e-9, 1e-4, 1e-2, 0.1, 1.0, 10.0)
#: Coalitions that rho and the noise are chosen with: with 120, errors are up to 4 % smaller (a network, boosting, a
#: forest, 12 players), and the choice takes 5 times as long.
TUNING = 60
#: Coalitions whose values are predicted at once.
AT_ONCE = 1024


@dataclass(frozen=True)
class EvenProcess:
    """A process fitted to the even part of a game, less its value at the ends.

    Attributes
    ----------
    coalitions : ndarray of shape (n, players)
        Coalitions that it was fitted to.
    coefficients : ndarray of shape (n,)
    rho : float
    """

    coalitions: BoolArray
    coefficients: FloatArray
    rho: float

    @classmethod
    def fit(cls, coalitions: BoolArray, targets: FloatArray) -> EvenProcess:
        """Fit to coalitions `(n, players)` and the even part `(n,)` of their values less that of the ends.

        Of each coalition and its complement one is there. Rho and the noise are those of the smallest leave-one-out
        error.
        """
        few = np.unique(np.linspace(0, len(targets) - 1, min(TUNING, len(targets))).astype(np.int64))
        rho, noise, least = RHOS[0], NOISES[-1], np.inf
        for candidate in RHOS:
            spectrum, vectors = np.linalg.eigh(_gram(coalitions[few], coalitions[few], candidate))
            turned = vectors.T @ targets[few]
            for share in NOISES:
                scaled = vectors / (np.maximum(spectrum, 0.0) + share * _scale(candidate, coalitions.shape[1]))
                left_out = (scaled @ turned) / np.maximum((scaled * vectors).sum(axis=1), 1e-300)
                error = float(left_out @ left_out)
                if error < least:
                    rho, noise, least = candidate, share, error
        gram = _gram(coalitions, coalitions, rho)
        gram[np.diag_indices_from(gram)] += noise * _scale(rho, coalitions.shape[1])
        return cls(coalitions, solve_process(gram, targets), rho)

    def predict(self, coalitions: BoolArray) -> FloatArray:
        """The even part `(m,)` of the values of coalitions `(m, players)` less that of the ends."""
        parts = [coalitions[start : start + AT_ONCE] for start in range(0, len(coalitions), AT_ONCE)]
        return np.concatenate([_gram(part, self.coalitions, self.rho) @ self.coefficients for part in parts])

    def interactions(self) -> FloatArray:
        """Pairwise interactions `(pairs,)`."""
        p = self.coalitions.shape[1]
        nodes, weights = unit_nodes(max(1, p - 1))
        tau = self.rho * (2.0 * nodes - 1.0)
        members = np.arange(max(1, p - 1))  # among the other p - 2 players
        integral = ((1.0 + tau) ** members[:, None] * (1.0 - tau) ** (p - 2 - members)[:, None]) @ weights
        coalitions = np.concatenate([self.coalitions, np.ones((1, p), dtype=bool)])  # its section is taken off all
        size = coalitions.sum(axis=1)
        scale = 4.0 * self.rho**2 * np.append(self.coefficients, -self.coefficients.sum())
        both, one, neither = (scale * integral[np.clip(size - less, 0, p - 2)] for less in (2, 1, 0))
        found: FloatArray = pair_sums(coalitions[None], both[None], neither[None], -one[None])[0]
        return found


def _table(p: int, rho: float) -> FloatArray:
    kernel = product_kernel(p, rho)
    return 0.5 * (kernel + kernel[::-1])


def _scale(rho: float, p: int) -> float:
    """Prior variance of a game's even part, without its constant."""
    return float(_table(p, rho)[p] - 1.0)


def _gram(one: BoolArray, other: BoolArray, rho: float) -> FloatArray:
    """Kernel of the process less its value at the ends: `k(s, s') - k(s, 1) - k(1, s') + k(1, 1)`."""
    p, table = one.shape[1], _table(one.shape[1], rho)
    of_one, of_other = one.sum(axis=1), other.sum(axis=1)
    agreements = one.astype(np.float32) @ (2.0 * other.T.astype(np.float32))  # whole numbers, without rounding
    agreements += (p - of_one[:, None]).astype(np.float32)
    agreements -= of_other.astype(np.float32)
    gram: FloatArray = table.take(agreements.astype(np.int32))
    gram -= (table[of_one] - table[p])[:, None]
    gram -= table[of_other]
    return gram
