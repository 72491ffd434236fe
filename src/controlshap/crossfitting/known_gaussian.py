"""Known Shapley values of fitted functions under a conditioned Gaussian.

A network's conditional mean is known in closed form for every coalition, so that only permutations are simulated; with
few players all coalitions are enumerated instead. Any other function is averaged over permutations and draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.crossfitting.known_marginal import FittedFunctions, interleave
from controlshap.crossfitting.known_simulated import (
    MANY_WALKS,
    REPLICATIONS,
    Simulated,
    SimulatedControls,
    replicate,
    simulate_walks,
)
from controlshap.crossfitting.network_walks import (
    NetworkWalks,
    average_networks,
    mean_coalitions,
    mean_walks,
    score_matrices,
    score_weights,
    with_scores,
)
from controlshap.data.players import Players
from controlshap.estimators.enumeration import chains, n_chains, shapley_values
from controlshap.functions.base import KnownFunction
from controlshap.sampling.game import FunctionGame
from controlshap.values.linear_scores import draw_scores
from controlshap.values.normal_parts import NormalParts

#: Doubles of factors that simulating permutations may form, all together: bounds the time.
WORK = 8e7
#: Pairs of permutations.
MOST_PAIRS, FEWEST_PAIRS = 6000, 400
#: One in so many pairs comes first where the scores' values are known, and is enough in most cases.
FIRST = 30
#: Coalitions that are enumerated instead, where chains of them are fewer than the walks, and doubles at a time.
MOST_COALITIONS, COALITION_DOUBLES = 2**15, 2**20


def has_conditional_mean(function: KnownFunction, imputer: NormalParts) -> bool:
    """Whether the draw can be integrated out."""
    return function.takes_scores and imputer.finite_draws is None


@dataclass(frozen=True)
class GaussianControls(SimulatedControls):
    """Controls against conditional means of networks, and these against simulated values."""

    shared = True  # the D matrices of scores

    @staticmethod
    def _simulate(
        fitted: FittedFunctions, rng: np.random.Generator, tolerances: FloatArray | None, n_walks: float
    ) -> dict[int, Simulated]:
        """Networks from the same permutations, other functions from the same walks."""
        imputer = cast("NormalParts", fitted.imputer)
        placed = [one for one in fitted.distinct if has_conditional_mean(one[0], imputer)]
        networks = [function for function, _, _ in placed]
        others = [function for function, _, _ in fitted.distinct if not has_conditional_mean(function, imputer)]
        simulated: list[Simulated] = []
        if networks:
            # the leader is the same fit to the first fold that has as many scores, of the same output and place
            first: dict[tuple[int, int, int], int] = {}
            kinds = [(len(network.score_weights), output, place) for network, output, place in placed]
            leaders = np.array([first.setdefault(kind, number) for number, kind in enumerate(kinds)])
            enough = None if tolerances is None else tolerances[[output for _, output, _ in placed]]
            simulated += simulate_networks(imputer, fitted.x, networks, rng, leaders, enough, n_walks, fitted.cache)
        if others:
            game = FunctionGame.of((tuple(others),), fitted.x, imputer, fitted.memory_limit)
            simulated += simulate_walks(game, rng)
        return {id(function): one for function, one in zip([*networks, *others], simulated, strict=True)}

    @cached_property
    def _games(self) -> tuple[ConditionedGame, ...]:
        return tuple(ConditionedGame(game) for game in self.fitted.games)

    def controls(
        self, fold: int, design: Any, draws: FloatArray, rows: IntArray | None, taken: BoolArray | None = None
    ) -> FloatArray:
        """Errors of units against the mean over draws, and the difference of that mean from the simulated value."""
        game, known = self._games[fold], self.known_values(fold)
        if not game.integrated.any():
            return super().controls(fold, design, draws, rows, taken)
        terms = self.fitted.unit_terms(game, design, draws, np.concatenate([known[-1], known[-1]], axis=1))
        drawn, means = np.split(terms.unit_values(), 2, axis=-1)
        expected = terms.expected_units(known)
        middle = np.where(game.integrated, means, expected)
        if not self.fitted.estimator.is_least_squares:
            middle[:, -1] = known[-1]
        return interleave(drawn - middle, middle - expected)

    def _error_in(self, function: KnownFunction) -> int:
        """In the second control where the draw is integrated out."""
        return int(has_conditional_mean(function, cast("NormalParts", self.fitted.imputer)))


@dataclass(frozen=True)
class ConditionedGame:
    """Fitted functions on rows, and beside them, as further functions, their means over draws given a coalition.

    Attributes
    ----------
    drawn : FunctionGame
        The functions on rows.
    """

    drawn: FunctionGame

    @property
    def imputer(self) -> NormalParts:
        """The value function."""
        return cast("NormalParts", self.drawn.imputer)

    @cached_property
    def integrated(self) -> BoolArray:
        """Which functions `(outputs, functions)` have conditional means; those of others are left 0."""
        every = self.drawn.functions
        return np.array([[has_conditional_mean(f, self.imputer) for f in of_output] for of_output in every])

    @cached_property
    def _networks(self) -> list[KnownFunction]:
        """All functions, output by output; networks where all are integrated."""
        return [f for of_output in self.drawn.functions for f in of_output]

    @property
    def at_x(self) -> FloatArray:
        """v(all), `(outputs, 2 functions)`."""
        return np.concatenate([self.drawn.at_x, self.drawn.at_x], axis=1)

    @cached_property
    def takes_scores(self) -> bool:
        """Whether all functions are networks of so few units that their scores cost less than rows."""
        alone = len(self.imputer.parts) == 1
        return alone and bool(self.integrated.all()) and len(score_weights(self._networks)) <= len(self.drawn.x)

    def evaluate(self, rows: FloatArray) -> FloatArray:
        """The functions on rows, twice."""
        values = self.drawn.evaluate(rows)
        return np.concatenate([values, values], axis=-1)

    def start_values(self, draws: FloatArray) -> FloatArray:
        """The functions on draws, twice."""
        return self.evaluate(draws)

    def coalition_values(self, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """Values `(u, k, d, outputs, 2 functions)`."""
        return self._beside_means(self.drawn.coalition_values(coalitions, draws), coalitions)

    def _beside_means(self, values: FloatArray, coalitions: BoolArray) -> FloatArray:
        means = np.zeros((*coalitions.shape[:2], 1, *self.integrated.shape))
        for output, place, network in self._integrate_networks():
            means[:, :, 0, output, place] = mean_coalitions(self.imputer, self.drawn.x, coalitions, [network])[..., 0]
        return np.concatenate([values, np.broadcast_to(means, values.shape)], axis=-1)

    def walk_values(self, permutations: IntArray, draws: FloatArray, at_draws: FloatArray) -> FloatArray:
        """Values `(u, players + 1, outputs, 2 functions)`, from scores alone where these cost less than rows."""
        shape = self.integrated.shape
        if self.takes_scores:
            own = draws[..., : len(self.drawn.x)]  # draws may have further columns
            parts = draw_walks(self.imputer, self.drawn.x, permutations, own, self._networks)
            return np.concatenate([part.reshape(*part.shape[:2], *shape) for part in parts], axis=-1)
        values = self.drawn.walk_values(permutations, draws, np.ascontiguousarray(at_draws[..., : shape[1]]))
        means = np.zeros_like(values)
        for output, place, network in self._integrate_networks():
            means[:, :, output, place] = mean_walks(self.imputer, self.drawn.x, permutations, [network])[..., 0]
        return np.concatenate([values, means], axis=-1)

    def _integrate_networks(self) -> Iterator[tuple[int, int, KnownFunction]]:
        for output, place in np.argwhere(self.integrated):
            yield output, place, self.drawn.functions[output][place]


def draw_walks(
    imputer: NormalParts, x: FloatArray, permutations: IntArray, draws: FloatArray, networks: list[KnownFunction]
) -> tuple[FloatArray, FloatArray]:
    """Values `(u, players + 1, networks)` along walks, averaged over draws `(u, d, columns)`, and conditional means.

    Both come from one factor, and no row is formed; for a distribution of one part.
    """
    scores, means, variances = draw_scores(imputer.parts[0], x, permutations, score_weights(networks), draws)
    drawn = np.stack([network.of_scores(scores[..., own]) for network, own in with_scores(networks)], axis=-1)
    return drawn.mean(axis=1), average_networks(networks, means, variances)


def simulate_networks(
    imputer: NormalParts,
    x: FloatArray,
    networks: list[KnownFunction],
    rng: np.random.Generator,
    leaders: IntArray | None = None,
    tolerances: FloatArray | None = None,
    n_walks: float = 0.0,
    cache: dict[str, Any] | None = None,
) -> list[Simulated]:
    """Known values of networks: of all coalitions where these are few, else from the same permutations.

    Parameters
    ----------
    leaders : ndarray of shape (networks,), optional
        For each network the number of one much like it (its own, by default). Of a network that follows another only
        the difference is simulated, from a part of the permutations: it varies little.
    tolerances : ndarray of shape (networks,), optional
        Variances of the known values, on average over players, that are small enough: further permutations are left
        out. By default all are used.
    n_walks : float
        Paired walks that the model's evaluations would make. With many of them there are more permutations.
    cache : dict, optional
        Of an explainer, for the D matrices of the networks' scores, from as many permutations as a simulation has at
        most. Not with many walks, whose errors go below theirs. Without it networks are simulated whole.
    """
    p, c = imputer.players.n_players, imputer.players.n_columns
    pairs = int(np.clip(WORK // (2 * c * (c + 10 * p) * len(imputer.parts)), FEWEST_PAIRS, MOST_PAIRS)) // REPLICATIONS
    n_permutations, pairs = 2 * pairs * REPLICATIONS, int(pairs * max(1.0, n_walks / MANY_WALKS))
    if can_enumerate_means(imputer.players, 2 * pairs * REPLICATIONS):
        return [Simulated.exactly(values) for values in enumerate_networks(imputer, x, networks)]
    led, matrices = np.arange(len(networks)) if leaders is None else leaders, None
    if cache is not None and n_walks <= MANY_WALKS:
        matrices = score_matrices(imputer, n_permutations, cache)
    walks = NetworkWalks(imputer, x, networks, led, rng, matrices)
    if matrices is None:
        values = replicate(walks.simulate, pairs, tolerances)
    else:
        values = replicate(walks.simulate, pairs, tolerances, FIRST, walks.known_variances)
    base = np.array([_base(imputer, x, network) for network in networks])
    bases = np.broadcast_to(base[:, None, None], (len(base), REPLICATIONS, 1))
    return [Simulated(one) for one in np.concatenate([values, bases], axis=2)]


def can_enumerate_means(players: Players, n_walks: int) -> bool:
    """Whether the means of all coalitions cost less than so many walks."""
    p, arrangement = players.n_players, players.arrangement
    if arrangement is not None:
        return arrangement.n_places <= min(MOST_COALITIONS, n_walks * p)
    return 2**p <= MOST_COALITIONS and n_chains(p) <= n_walks


def enumerate_networks(imputer: NormalParts, x: FloatArray, networks: list[KnownFunction]) -> FloatArray:
    """Shapley values and base value `(networks, players + 1)` from the conditional means of all coalitions."""
    arrangement = imputer.players.arrangement
    if arrangement is not None:
        table = mean_coalitions(imputer, x, arrangement.coalitions[None], networks)[0]
        return np.concatenate([arrangement.matrix @ table, table[:1]]).T
    table = enumerate_means(imputer, x, networks)
    return np.concatenate([shapley_values(table), table[:1]]).T


def enumerate_means(imputer: NormalParts, x: FloatArray, networks: list[KnownFunction]) -> FloatArray:
    """Conditional means `(2^players, networks)` of all coalitions, in the order of `all_coalitions`."""
    permutations, own = chains(imputer.players.n_players)
    p = permutations.shape[1]
    weights = score_weights(networks)
    table = np.empty((2**p, len(networks)))
    step = max(1, COALITION_DOUBLES // ((p + 1) * len(weights)))
    for start in range(0, len(permutations), step):
        some, inside = permutations[start : start + step], own[start : start + step]
        means = mean_walks(imputer, x, some, networks)
        # the number of a coalition has bit j for player j, as in `all_coalitions`
        numbers = np.concatenate([np.zeros((len(some), 1), dtype=np.int64), np.cumsum(1 << some, axis=1)], axis=1)
        table[numbers[inside]] = means[inside]
    return table


def _base(imputer: NormalParts, x: FloatArray, network: KnownFunction) -> float:
    nobody = np.zeros((1, 1, imputer.players.n_players), dtype=bool)
    return float(mean_coalitions(imputer, x, nobody, [network])[0, 0, 0])
