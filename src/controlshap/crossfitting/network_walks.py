"""Shapley values of networks under a conditioned Gaussian, from simulated walks.

Along a permutation the conditional means of a network are known in closed form, so that only permutations are random.
Most of what a network does along a walk is explained by its linear scores, whose Shapley values are known from the D
matrices of an explainer (`controls/d_matrices.py`). So what the scores do not explain is simulated,

    phi_j(g) = a' phi_j(scores) + E[contribution of j to g - a' its contributions to the scores],

with the slopes a from a regression over all players. Both sides come in as many replications, whose scatter is the
error of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from controlshap._arrays import pseudo_inverse
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.controls.d_matrices import DMatrices, d_matrices
from controlshap.crossfitting.known_simulated import REPLICATIONS
from controlshap.estimators.permutation import reverse_permutations, sample_permutations, walk_contributions
from controlshap.functions.base import KnownFunction
from controlshap.values.linear_scores import coalition_scores, walk_scores
from controlshap.values.normal_parts import NormalParts

#: Pairs of each replication that are walked at once: bounds the memory.
AT_ONCE = 60
#: One in so many pairs shows how a network differs from its leader: folds fit the same data, and differ little.
FOLLOWED = 10
#: Bytes up to which an explainer keeps D matrices for this: 58 columns, each a player.
MOST_BYTES = 2**25


def score_weights(networks: list[KnownFunction]) -> FloatArray:
    """Weights `(scores, columns)` of all scores that networks need: of their units, then of their linear part."""
    return np.concatenate([network.score_weights for network in networks])


def with_scores(networks: list[KnownFunction]) -> Iterator[tuple[KnownFunction, slice]]:
    """Each network with the slice of its own scores among those of all."""
    end = 0
    for network in networks:
        start, end = end, end + len(network.score_weights)
        yield network, slice(start, end)


def average_networks(networks: list[KnownFunction], means: FloatArray, variances: FloatArray) -> FloatArray:
    """Means `(..., networks)` of networks whose scores are normal."""
    values = [one.mean_of_scores(means[..., own], variances[..., own]) for one, own in with_scores(networks)]
    return np.stack(values, axis=-1)


def score_matrices(imputer: NormalParts, n_permutations: int, cache: dict[str, Any]) -> DMatrices | None:
    """D matrices in as many replications as walks have, kept in an explainer's cache; None where there are none."""
    players = imputer.players
    if len(imputer.parts) > 1:
        return None  # the weights of parts change along a walk: what it does is not linear
    if REPLICATIONS * players.n_players * players.n_columns**2 * 8 > MOST_BYTES:
        return None
    if "score_matrices" not in cache:
        cache["score_matrices"] = d_matrices(imputer.parts[0], n_permutations)
    matrices: DMatrices = cache["score_matrices"]
    return matrices if len(matrices.matrices) == REPLICATIONS else None


class NetworkWalks:
    """Simulated walks of some networks at x.

    Parameters
    ----------
    leaders : ndarray of shape (networks,)
        For each network the number of one much like it, or its own. Of a network that follows another only the
        difference is simulated, from a part of the permutations: it varies little.
    matrices : DMatrices or None
        For the values of scores; None simulates the networks whole.
    """

    def __init__(
        self,
        imputer: NormalParts,
        x: FloatArray,
        networks: list[KnownFunction],
        leaders: IntArray,
        rng: np.random.Generator,
        matrices: DMatrices | None,
    ) -> None:
        self.imputer, self.x, self.networks, self.leaders, self.rng = imputer, x, networks, leaders, rng
        self._first = np.unique(leaders)
        self._followers = np.setdiff1d(np.arange(len(networks)), self._first)
        self._slopes: dict[int, FloatArray] = {}
        self._of_scores: FloatArray | None = None
        if matrices is not None:
            moments, weights = imputer.parts[0].moments, score_weights(networks)
            gap = (x - moments.mean) / moments.scale
            self._of_scores = (matrices.matrices @ gap) @ (weights * moments.scale).T  # (replications, players, scores)

    def simulate(self, pairs: int) -> FloatArray:
        """Values `(networks, replications, players)`, each replication from so many pairs of permutations."""
        first, followers, p = self._first, self._followers, self.imputer.players.n_players
        sums, gaps = np.zeros((REPLICATIONS, p, len(first))), np.zeros((REPLICATIONS, p, len(followers)))
        n_followed, arrangement = 0, self.imputer.players.arrangement
        for start in range(0, pairs, AT_ONCE):
            size = min(AT_ONCE, pairs - start)
            forward = sample_permutations(p, REPLICATIONS * size, self.rng, arrangement)
            ways = (forward, reverse_permutations(forward, arrangement))
            both = np.stack([one.reshape(REPLICATIONS, size, p) for one in ways], axis=1)
            walks = self._walk(both, first)
            sums += walks.sum(axis=(1, 2))
            if len(followers):
                part = -(-size // FOLLOWED)
                leading = walks[:, :, :part, :, np.searchsorted(first, self.leaders[followers])]
                gaps += (self._walk(both[:, :, :part], followers) - leading).sum(axis=(1, 2))
                n_followed += 2 * part
        values = np.empty((len(self.networks), REPLICATIONS, p))
        values[first] = np.moveaxis(sums, 2, 0) / (2 * pairs)
        if len(followers):
            values[followers] = values[self.leaders[followers]] + np.moveaxis(gaps, 2, 0) / n_followed
        return values + self._explain_by_scores()

    def known_variances(self) -> FloatArray:
        """Variances `(networks,)` of the known part of the values, on average over players, after a simulation."""
        explained = np.asarray(self._explain_by_scores()) * np.ones((len(self.networks), REPLICATIONS, 1))
        variances: FloatArray = explained.var(axis=1, ddof=1).mean(axis=1) / REPLICATIONS
        return variances

    def _explain_by_scores(self) -> FloatArray | float:
        """Part of the values that the scores explain, `(networks, replications, players)`."""
        if self._of_scores is None or not self._slopes:
            return 0.0
        owns = [own for _, own in with_scores(self.networks)]
        return np.stack([self._of_scores[..., own] @ self._slopes[k] for k, own in enumerate(owns)])

    def _walk(self, permutations: IntArray, chosen: IntArray) -> FloatArray:
        """Contributions of each player `(..., players, chosen)` to some networks, less those through the scores."""
        networks = [self.networks[k] for k in chosen]
        flat = permutations.reshape(-1, permutations.shape[-1])
        if self._of_scores is None:
            added = walk_contributions(flat, mean_walks(self.imputer, self.x, flat, networks))
        else:
            scores, variances = walk_scores(self.imputer.parts[0], self.x, flat, score_weights(networks))
            means = average_networks(networks, scores, variances)
            both = walk_contributions(flat, np.concatenate([means, scores], axis=-1))
            added, moved = np.split(both, [len(networks)], axis=-1)
            added = added - self._through_scores(permutations.shape[:-1], networks, chosen, added, moved)
        return added.reshape(*permutations.shape, len(networks))

    def _through_scores(
        self,
        shape: tuple[int, ...],
        networks: list[KnownFunction],
        chosen: IntArray,
        added: FloatArray,
        moved: FloatArray,
    ) -> FloatArray:
        """Slopes times what each player adds to the scores; the slopes are those of a network's first walks."""
        owns = [own for _, own in with_scores(networks)]
        if int(chosen[0]) not in self._slopes:
            of_pairs = [part.reshape(*shape, *part.shape[1:]).mean(axis=1) for part in (added, moved)]
            of_pairs = [part - part.mean(axis=(0, 1)) for part in of_pairs]
            slopes = [_regress(of_pairs[0][..., k], of_pairs[1][..., own]) for k, own in enumerate(owns)]
            self._slopes.update(zip(chosen.tolist(), slopes, strict=True))
        return np.stack([moved[..., own] @ self._slopes[k] for k, own in zip(chosen, owns, strict=True)], axis=-1)


def _regress(added: FloatArray, moved: FloatArray) -> FloatArray:
    """Slopes `(scores,)` of centred contributions `(...)` on those to scores `(..., scores)`."""
    regressors = moved.reshape(-1, moved.shape[-1])
    slopes: FloatArray = pseudo_inverse(regressors.T @ regressors) @ (regressors.T @ added.ravel())
    return slopes


def mean_walks(
    imputer: NormalParts, x: FloatArray, permutations: IntArray, networks: list[KnownFunction]
) -> FloatArray:
    """Conditional means `(u, players + 1, networks)` along walks."""
    score = partial(walk_scores, x=x, permutations=permutations)
    return _average_parts(imputer, networks, score, imputer.walk_weights(x, permutations))


def mean_coalitions(
    imputer: NormalParts, x: FloatArray, coalitions: BoolArray, networks: list[KnownFunction]
) -> FloatArray:
    """Conditional means `(u, k, networks)` given coalitions."""
    score = partial(coalition_scores, x=x, coalitions=coalitions)
    return _average_parts(imputer, networks, score, imputer.coalition_weights(x, coalitions))


def _average_parts(
    imputer: NormalParts,
    networks: list[KnownFunction],
    score: Callable[..., tuple[FloatArray, FloatArray]],
    shares: FloatArray,
) -> FloatArray:
    """Means over the parts of a distribution, which have shares `(..., parts)`; `score` gives moments of scores."""
    weights = score_weights(networks)
    means = [average_networks(networks, *score(part, weights=weights)) for part in imputer.parts]
    total = shares[..., :1] * means[0]
    for number, mean in enumerate(means[1:], start=1):
        total = total + shares[..., number, None] * mean
    return total
