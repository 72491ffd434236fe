"""Known Shapley values under a conditioned Gaussian: simulated without model calls, with their error.

A network's conditional mean is known in closed form for every coalition, so only permutations are left to simulate, and
with few players nothing: all coalitions are enumerated. Any other function is averaged over permutations and draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.estimators.chains import chains, n_chains
from controlshap.estimators.exact import shapley_values
from controlshap.estimators.permutation_sampling import sample_permutations
from controlshap.functions.base import KnownFunction
from controlshap.functions.network import Network
from controlshap.values.gaussian import GaussianImputer
from controlshap.values.linear_scores import coalition_scores, draw_scores, walk_scores

#: Replications, whose scatter is the error.
REPLICATIONS = 20
#: Doubles of factors that simulating permutations may form, all together: bounds the time.
WORK = 8e7
#: Pairs of permutations for a network, and evaluations for any other function.
MOST_PAIRS, FEWEST_PAIRS, MOST_ROWS = 6000, 400, 400_000
#: Walks of the model from which on pairs grow with them, so that errors go on falling where the model is its fit.
MANY_WALKS = 1000
#: Pairs that are walked at once: bounds the memory.
AT_ONCE = 300
#: One in so many pairs comes first, and says how many are needed.
FIRST = 10
#: One in so many pairs says how a network differs from its leader: folds fit the same data, and differ little.
FOLLOWED = 10
#: Coalitions that are enumerated instead, where chains of them are fewer than the walks, and doubles at a time.
MOST_COALITIONS, COALITION_DOUBLES = 2**15, 2**20


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


def draw_walks(
    imputer: GaussianImputer, x: FloatArray, permutations: IntArray, draws: FloatArray, networks: list[Network]
) -> tuple[FloatArray, FloatArray]:
    """Contributions and base `(u, players + 1, networks)` of walks with draws `(u, d, columns)`, and of their means.

    Both from one factor, and without forming a row.
    """
    weights = np.concatenate([scores_of(network) for network in networks])
    scores, means, variances = draw_scores(imputer, x, permutations, weights, draws)
    drawn = np.stack([network.of_scores(scores[..., own]) for network, own in _own(networks)], axis=-1).mean(axis=1)
    places = np.argsort(permutations, axis=1)[:, :, None]
    found = []
    for values in (drawn, _smoothed(networks, means, variances)):
        contributions = np.take_along_axis(np.diff(values, axis=1), places, axis=1)
        found.append(np.concatenate([contributions, values[:, :1]], axis=1))
    return found[0], found[1]


def mean_coalitions(
    imputer: GaussianImputer, x: FloatArray, coalitions: BoolArray, networks: list[Network]
) -> FloatArray:
    """Conditional means `(u, k, networks)` given coalitions."""
    weights = np.concatenate([scores_of(network) for network in networks])
    return _smoothed(networks, *coalition_scores(imputer, x, coalitions, weights))


def _own(networks: list[Network]) -> Iterator[tuple[Network, slice]]:
    """Each network with its own among the scores of all."""
    end = 0
    for network in networks:
        start, end = end, end + len(network.weights) + 1
        yield network, slice(start, end)


def _smoothed(networks: list[Network], means: FloatArray, variances: FloatArray) -> FloatArray:
    """Values `(..., networks)` from the scores of all of them, one after the other."""
    found = [network.mean_of_scores(means[..., own], variances[..., own]) for network, own in _own(networks)]
    return np.stack(found, axis=-1)


def simulate_networks(
    imputer: GaussianImputer,
    x: FloatArray,
    networks: list[Network],
    rng: np.random.Generator,
    leaders: IntArray | None = None,
    tolerances: FloatArray | None = None,
    n_walks: float = 0.0,
) -> list[Simulated]:
    """Known values of networks: of all coalitions where these are few, else from the same permutations.

    Parameters
    ----------
    leaders : ndarray of shape (networks,), optional
        For each network the number of one much like it (its own, by default). Of a network that follows another only
        the difference is simulated, from a part of the permutations: it varies little.
    tolerances : ndarray of shape (networks,), optional
        Variances of the known values, on average over players, that are small enough: the rest of the permutations is
        left out. By default all are used.
    n_walks : float
        Paired walks that the model's evaluations would make. With many of them there are more permutations.
    """
    p, c = imputer.players.n_players, imputer.players.n_columns
    pairs = int(np.clip(WORK // (2 * c * (c + 10 * p)), FEWEST_PAIRS, MOST_PAIRS)) // REPLICATIONS
    pairs = int(pairs * max(1.0, n_walks / MANY_WALKS))
    if 2**p <= MOST_COALITIONS and n_chains(p) <= 2 * pairs * REPLICATIONS:
        exact = _enumerated(imputer, x, networks)
        return [Simulated(np.tile(values, (REPLICATIONS, 1))) for values in exact]  # they agree: no error
    led = np.arange(len(networks)) if leaders is None else leaders
    some = pairs if tolerances is None else -(-pairs // FIRST)
    found = _replications(imputer, x, networks, led, some, rng)
    if tolerances is not None:
        variances = found.var(axis=1, ddof=1).mean(axis=1) / REPLICATIONS
        # in so many times as many; all of them where a model is its fit, and none more where nothing varies
        times = np.divide(variances, tolerances, out=np.full_like(variances, np.inf), where=tolerances > 0)
        wanted = np.where(variances > 0, some * times, 0.0).max()
        more = int(np.ceil(wanted)) - some if wanted < pairs else pairs - some
        if more > 0:
            rest = _replications(imputer, x, networks, led, more, rng)
            found = (some * found + more * rest) / (some + more)
    base = np.array([float(_base(imputer, network)) for network in networks])
    bases = np.broadcast_to(base[:, None, None], (len(base), REPLICATIONS, 1))
    return [Simulated(values) for values in np.concatenate([found, bases], axis=2)]


def _replications(
    imputer: GaussianImputer,
    x: FloatArray,
    networks: list[Network],
    led: IntArray,
    pairs: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Values `(networks, replications, players)`, each replication from so many pairs of permutations."""
    first = np.unique(led)
    followers = np.setdiff1d(np.arange(len(networks)), first)
    p = imputer.players.n_players
    sizes = [min(AT_ONCE, pairs - start) for start in range(0, pairs, AT_ONCE)]
    parts = [-(-size // FOLLOWED) for size in sizes]
    found = np.empty((len(networks), REPLICATIONS, p))
    for number in range(REPLICATIONS):
        sums, gaps = np.zeros((p, len(first))), np.zeros((p, len(followers)))
        for size, part in zip(sizes, parts, strict=True):
            forward = sample_permutations(p, size, rng)
            both = np.concatenate([forward, forward[:, ::-1]])
            walks = mean_walks(imputer, x, both, [networks[k] for k in first])
            sums += walks.sum(axis=0)
            if len(followers):
                some = np.r_[:part, size : size + part]
                own = mean_walks(imputer, x, both[some], [networks[k] for k in followers])
                gaps += (own - walks[some][:, :, np.searchsorted(first, led[followers])]).sum(axis=0)
        found[first, number] = sums.T / (2 * pairs)
        found[followers, number] = found[led[followers], number] + gaps.T / (2 * sum(parts))
    return found


def _enumerated(imputer: GaussianImputer, x: FloatArray, networks: list[Network]) -> FloatArray:
    """Shapley values and base value `(networks, players + 1)` from the conditional means of all coalitions."""
    permutations, own = chains(imputer.players.n_players)
    p = permutations.shape[1]
    weights = np.concatenate([scores_of(network) for network in networks])
    table = np.empty((2**p, len(networks)))
    step = max(1, COALITION_DOUBLES // ((p + 1) * len(weights)))
    for start in range(0, len(permutations), step):
        some, inside = permutations[start : start + step], own[start : start + step]
        means, variances = walk_scores(imputer, x, some, weights)
        # the number of a coalition has bit j for player j, as in `all_coalitions`
        numbers = np.concatenate([np.zeros((len(some), 1), dtype=np.int64), np.cumsum(1 << some, axis=1)], axis=1)
        table[numbers[inside]] = _smoothed(networks, means[inside], variances[inside])
    return np.concatenate([shapley_values(table), table[:1]]).T


def _base(imputer: GaussianImputer, network: Network) -> FloatArray:
    weights = scores_of(network)
    variances = np.einsum("nc,cd,nd->n", weights, imputer.moments.covariance, weights)
    return network.mean_of_scores(weights @ imputer.moments.mean, variances)


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
