"""Known Shapley values under a conditioned Gaussian: simulated without model calls, with their error.

A network's conditional mean is known in closed form for every coalition, so only permutations are left to simulate, and
with few players nothing: all coalitions are enumerated. Any other function is averaged over permutations and draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.exact import all_coalitions, shapley_values
from controlshap.exact_forms.functions import KnownFunction
from controlshap.exact_forms.network import Network
from controlshap.exact_forms.smoothed import smoothed_network
from controlshap.samplers.permutation import sample_permutations
from controlshap.values.gaussian import GaussianImputer
from controlshap.values.scores import coalition_scores, walk_scores

#: Replications, whose scatter is the error.
REPLICATIONS = 20
#: Doubles of factors that simulating permutations may form, all together: bounds the time.
WORK = 8e7
#: Pairs of permutations for a network, and evaluations for any other function.
MOST_PAIRS, FEWEST_PAIRS, MOST_ROWS = 6000, 400, 400_000
#: Coalitions that are enumerated instead, where they are fewer than the walks, and doubles of them at a time.
MOST_COALITIONS, COALITION_DOUBLES = 4096, 2**20


@dataclass(frozen=True)
class Simulated:
    """Shapley values and base value of a function by replication, `(replications, players + 1)`."""

    values: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The values, `(players + 1,)`."""
        mean: FloatArray = self.values.mean(axis=0)
        return mean

    @property
    def root_rows(self) -> FloatArray:
        """Root `(replications, players + 1)` of the covariance of the mean."""
        n = len(self.values)
        rows: FloatArray = (self.values - self.mean) / np.sqrt(n * (n - 1))
        return rows


def has_conditional_mean(function: KnownFunction, imputer: GaussianImputer) -> bool:
    """Whether the draw can be integrated out."""
    return isinstance(function, Network) and imputer.finite_draws is None


def scores_of(network: Network) -> FloatArray:
    """Weights `(units + 1, columns)` of all scores that a network needs."""
    return np.concatenate([network.weights, network.linear[None]])


def mean_walks(imputer: GaussianImputer, x: FloatArray, permutations: IntArray, networks: list[Network]) -> FloatArray:
    """Contributions `(u, players, networks)` along walks of conditional means."""
    scores = walk_scores(imputer, x, permutations, np.concatenate([scores_of(network) for network in networks]))
    values = _smoothed(networks, *scores)
    contributions: FloatArray = np.take_along_axis(
        np.diff(values, axis=1), np.argsort(permutations, axis=1)[:, :, None], axis=1
    )
    return contributions


def mean_coalitions(
    imputer: GaussianImputer, x: FloatArray, coalitions: BoolArray, networks: list[Network]
) -> FloatArray:
    """Conditional means `(u, k, networks)` given coalitions."""
    weights = np.concatenate([scores_of(network) for network in networks])
    return _smoothed(networks, *coalition_scores(imputer, x, coalitions, weights))


def _smoothed(networks: list[Network], means: FloatArray, variances: FloatArray) -> FloatArray:
    """Values `(..., networks)` from the scores of all of them, one after the other."""
    ends = np.cumsum([len(network.weights) + 1 for network in networks])
    found = []
    for network, end in zip(networks, ends, strict=True):
        own = slice(end - len(network.weights) - 1, end)
        found.append(smoothed_network(network, means[..., own], variances[..., own]))
    return np.stack(found, axis=-1)


def simulate_networks(
    imputer: GaussianImputer, x: FloatArray, networks: list[Network], rng: np.random.Generator
) -> list[Simulated]:
    """Known values of networks: of all coalitions where these are few, else from the same permutations."""
    p, c = imputer.players.n_players, imputer.players.n_columns
    pairs = int(np.clip(WORK // (2 * c * (c + 10 * p)), FEWEST_PAIRS, MOST_PAIRS)) // REPLICATIONS
    found = np.empty((len(networks), REPLICATIONS, p + 1))
    if 2**p <= min(MOST_COALITIONS, 2 * pairs * REPLICATIONS):
        found[:] = _enumerated(imputer, x, networks)[:, None]  # replications that agree: no error
        return [Simulated(values) for values in found]
    base = [float(_base(imputer, network)) for network in networks]
    for number in range(REPLICATIONS):
        forward = sample_permutations(p, pairs, rng)
        both = np.concatenate([forward, forward[:, ::-1]])
        found[:, number, :p] = mean_walks(imputer, x, both, networks).mean(axis=0).T
    found[:, :, p] = np.array(base)[:, None]
    return [Simulated(values) for values in found]


def _enumerated(imputer: GaussianImputer, x: FloatArray, networks: list[Network]) -> FloatArray:
    """Shapley values and base value `(networks, players + 1)` from the conditional means of all coalitions."""
    coalitions = all_coalitions(imputer.players.n_players)
    step = max(1, COALITION_DOUBLES // (len(x) * (1 + sum(len(network.weights) + 1 for network in networks))))
    parts = [
        mean_coalitions(imputer, x, coalitions[None, start : start + step], networks)[0]
        for start in range(0, len(coalitions), step)
    ]
    table = np.concatenate(parts)
    return np.concatenate([shapley_values(table), table[:1]]).T


def _base(imputer: GaussianImputer, network: Network) -> FloatArray:
    weights = scores_of(network)
    variances = np.einsum("nc,cd,nd->n", weights, imputer.moments.covariance, weights)
    return smoothed_network(network, weights @ imputer.moments.mean, variances)


def simulate_walks(
    walk: Callable[[IntArray, FloatArray], FloatArray],
    imputer: GaussianImputer,
    rng: np.random.Generator,
) -> list[Simulated]:
    """Known values of any functions from paired walks with draws.

    Parameters
    ----------
    walk : callable
        Contributions and base `(u, players + 1, functions)` of paired walks along permutations with draws `(u, 1, c)`.
    """
    p = imputer.players.n_players
    units = max(2, MOST_ROWS // (2 * p * REPLICATIONS))
    found = []
    for _ in range(REPLICATIONS):
        permutations = sample_permutations(p, units, rng)
        found.append(walk(permutations, imputer.sample(units, rng)[:, None]).mean(axis=0))
    return [Simulated(values) for values in np.stack(found).transpose(2, 0, 1)]
