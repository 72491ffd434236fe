"""A Gaussian process over coalitions, fitted to the even part of a game.

With signs s in {-1, 1}^p and a strength w_j of each player, rho_j = tanh w_j, the kernel

    k(s, s') = sum over even sets T of prod_{i in T} rho_i s_i s'_i = cosh(sum_i w_i s_i s'_i) / prod_i cosh w_i

is a prior over even games in which interactions of higher order are smaller, and those of players with little strength
too (`controls.coalition_process` has the odd ones, of players alike). The section at s' has the interactions

    I_ij = 4 rho_i rho_j s'_i s'_j integral_0^1 prod_{k != i, j} (1 + rho_k s'_k (2t - 1)) dt.

Interactions of pairs depend on the even part of a game alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from controlshap._types import BoolArray, FloatArray
from controlshap.controls.coalition_process import solve_process
from controlshap.functions.logistic import unit_nodes
from controlshap.interactions.index import pair_numbers

#: Values of rho that are tried where players are alike, and for the strongest player where they are not.
RHOS = (0.03, 0.1, 0.25, 0.5, 0.8)
#: Powers of the size of a player's interactions that its strength is in proportion to, and the least share of the
#: largest strength.
POWERS, LEAST_SHARE = (0.5, 1.0), 0.02
#: Noise relative to the prior variance: strengths are chosen with the middle one.
NOISES = (1e-9, 1e-4, 1e-2)
#: Coalitions that strengths and the noise are chosen with: with 70, errors of twelve players are up to 1.8 times as
#: large at 250 pairs, and the interactions take a fifth less time. A second round with the strengths of the first makes
#: errors up to 8 % smaller, and they take a quarter more.
TUNING = 100
#: Coalitions whose values are predicted at once.
AT_ONCE = 1024


@dataclass(frozen=True)
class EvenPrior:
    """Strengths of the players `(players,)`, and the noise relative to the prior variance."""

    strengths: FloatArray
    noise: float

    @classmethod
    def choose(cls, coalitions: BoolArray, targets: FloatArray) -> EvenPrior:
        """The prior of the smallest leave-one-out error among some of the coalitions.

        Players alike come first; the interactions of that fit show which of them are stronger.
        """
        few = np.unique(np.linspace(0, len(targets) - 1, min(TUNING, len(targets))).astype(np.int64))
        some, left = coalitions[few], targets[few]

        def best(priors: list[EvenPrior]) -> EvenPrior:
            return min(priors, key=lambda prior: prior.left_out(some, left))

        p = coalitions.shape[1]
        chosen = best([cls(np.full(p, np.arctanh(rho)), NOISES[1]) for rho in RHOS])
        sizes: FloatArray = np.zeros((p, p))
        sizes[pair_numbers(p)] = EvenProcess.fit(coalitions, targets, chosen).interactions() ** 2
        relevance = np.sqrt((sizes + sizes.T).sum(axis=0))
        if relevance.max() > 0.0:
            shares = [np.maximum((relevance / relevance.max()) ** power, LEAST_SHARE) for power in POWERS]
            chosen = best([chosen, *(cls(np.arctanh(rho) * of, NOISES[1]) for rho, of in product(RHOS, shares))])
        return best([cls(chosen.strengths, noise) for noise in NOISES])

    def gram(self, coalitions: BoolArray) -> FloatArray:
        """Covariances of coalitions `(n, n)`, with the noise."""
        gram = self.kernel(coalitions, coalitions)
        total = self.strengths.sum()
        gram[np.diag_indices_from(gram)] += self.noise * (0.5 + 0.5 * np.exp(-2.0 * total) - self._middle)
        return gram

    def left_out(self, coalitions: BoolArray, targets: FloatArray) -> float:
        """Sum of squared leave-one-out errors."""
        inverse = np.linalg.inv(self.gram(coalitions))
        errors = (inverse @ targets) / np.maximum(np.diag(inverse), 1e-300)
        return float(errors @ errors)

    def kernel(self, one: BoolArray, other: BoolArray) -> FloatArray:
        """Kernel of the process less its value at the ends: `k(s, s') - k(s, 1) - k(1, s') + k(1, 1)`.

        Divided by its largest value, up to 2.
        """
        total = self.strengths.sum()

        def of(scores: FloatArray) -> FloatArray:
            return np.asarray(0.5 * (np.exp(scores - total) + np.exp(-scores - total)))

        first, second = 2.0 * one - 1.0, 2.0 * other - 1.0
        weighted = first * self.strengths
        gram = of(weighted @ second.T)
        gram -= of(weighted.sum(axis=1))[:, None]
        gram -= of(second @ self.strengths)
        gram += of(np.asarray(total))
        return gram

    @property
    def _middle(self) -> float:
        """Mean of the kernel over coalitions: what a constant has of it."""
        return float(np.exp(-(self.strengths + np.log(2.0) - np.log1p(np.exp(-2.0 * self.strengths))).sum()))


@dataclass(frozen=True)
class EvenProcess:
    """A process fitted to the even part of a game, less its value at the ends.

    Attributes
    ----------
    coalitions : ndarray of shape (n, players)
        Coalitions that it was fitted to.
    coefficients : ndarray of shape (n,)
    prior : EvenPrior
    """

    coalitions: BoolArray
    coefficients: FloatArray
    prior: EvenPrior

    @classmethod
    def fit(cls, coalitions: BoolArray, targets: FloatArray, prior: EvenPrior) -> EvenProcess:
        """Fit to coalitions `(n, players)` and the even part `(n,)` of their values less that of the ends.

        Of each coalition and its complement one is there.
        """
        return cls(coalitions, solve_process(prior.gram(coalitions), targets), prior)

    def predict(self, coalitions: BoolArray) -> FloatArray:
        """The even part `(m,)` of the values of coalitions `(m, players)` less that of the ends."""
        parts = [coalitions[start : start + AT_ONCE] for start in range(0, len(coalitions), AT_ONCE)]
        return np.concatenate([self.prior.kernel(part, self.coalitions) @ self.coefficients for part in parts])

    def interactions(self) -> FloatArray:
        """Pairwise interactions `(pairs,)`."""
        p, strengths = self.coalitions.shape[1], self.prior.strengths
        coalitions = np.concatenate([self.coalitions, np.ones((1, p), dtype=bool)])  # its section is taken off all
        coefficients = np.append(self.coefficients, -self.coefficients.sum())
        turned = np.tanh(strengths) * (2.0 * coalitions - 1.0)
        scale = 0.5 * (1.0 + np.exp(-2.0 * strengths))  # of the kernel's product
        found = np.zeros((p, p))
        for node, weight in zip(*unit_nodes(max(1, p - 1)), strict=True):
            factors = 1.0 + (2.0 * node - 1.0) * turned
            each = turned / factors
            found += (each * (weight * coefficients * (scale * factors).prod(axis=1))[:, None]).T @ each
        return np.asarray(4.0 * found[pair_numbers(p)])
