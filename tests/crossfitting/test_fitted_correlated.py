"""Fitted functions under a conditioned Gaussian: scores, smoothed units and simulated values against the textbook.

The oracle conditions one coalition at a time with `conditional_map` and integrates numerically; it shares no code with
the Cholesky walks and the mixture of normals that it is held against.
"""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from conftest import make_data
from gaussian_cases import (
    GROUPINGS,
    MEMORY,
    NAMES,
    bound,
    conditional,
    integrated,
    network,
    network_game,
    quadratic,
    trees,
    truth_of,
)
from numpy.testing import assert_allclose
from scipy.stats import f as f_distribution
from scipy.stats import t as t_distribution

import controlshap as cs
from controlshap.crossfitting import known_gaussian, known_simulated
from controlshap.crossfitting.known_gaussian import GaussianControls, simulate_networks
from controlshap.crossfitting.known_marginal import FittedFunctions, MarginalControls
from controlshap.crossfitting.known_simulated import REPLICATIONS
from controlshap.crossfitting.network_walks import mean_coalitions, mean_walks
from controlshap.data.players import resolve_players
from controlshap.estimators.base import UnitDraws
from controlshap.estimators.kernel import sample_coalitions
from controlshap.estimators.permutation import sample_permutations, walk_contributions
from controlshap.functions import network as network_module
from controlshap.functions.base import Sum
from controlshap.functions.network import Network
from controlshap.functions.waves import Waves
from controlshap.sampling.game import FunctionGame
from controlshap.statistics.terms import LeastSquaresTerms
from controlshap.values.linear_scores import coalition_scores, walk_scores

# --------------------------------------------------------------------------------------------------- scores and means


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("groups", GROUPINGS)
def test_scores_along_walks_have_the_textbook_mean_and_variance(groups, constant):
    imputer, x, _ = bound(GROUPINGS[groups], constant=constant)
    p = imputer.players.n_players
    permutations = sample_permutations(p, 6, np.random.default_rng(0))
    weights = np.random.default_rng(1).normal(size=(3, 7))
    weights[1] = 0.0  # a network without a linear part
    means, variances = walk_scores(imputer, x, permutations, weights)
    for walk, permutation in enumerate(permutations):
        for k in range(p + 1):
            mean, covariance = conditional(imputer, x, permutation[:k])
            assert_allclose(means[walk, k], weights @ mean, atol=1e-9)
            expected = np.einsum("nc,cd,nd->n", weights, covariance, weights)
            assert_allclose(variances[walk, k], expected, atol=1e-9)
    assert (variances[:, -1] == 0).all()


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("groups", GROUPINGS)
def test_scores_of_coalitions_have_the_textbook_mean_and_variance(groups, constant):
    imputer, x, _ = bound(GROUPINGS[groups], constant=constant)
    p = imputer.players.n_players
    coalitions = sample_coalitions(p, 12, np.random.default_rng(0)).reshape(4, 3, p)
    coalitions[0, 0], coalitions[0, 1] = False, True  # nobody, everybody
    weights = np.random.default_rng(1).normal(size=(2, 7))
    means, variances = coalition_scores(imputer, x, coalitions, weights)
    for place in np.ndindex(4, 3):
        mean, covariance = conditional(imputer, x, np.flatnonzero(coalitions[place]))
        assert_allclose(means[place], weights @ mean, atol=1e-9)
        expected = np.einsum("nc,cd,nd->n", weights, covariance, weights)
        assert_allclose(variances[place], expected, atol=1e-9)


def test_a_constant_column_moves_the_mean_and_nothing_else():
    # What the tests above would not see if oracle and code shared the same neglect.
    imputer, x, background = bound(None)
    assert x[2] != background[0, 2]
    alone = np.zeros((1, 1, 7), dtype=bool)
    alone[..., 2] = True
    weights = np.random.default_rng(1).normal(size=(1, 7))
    means, variances = coalition_scores(imputer, x, np.concatenate([~alone & alone, alone], axis=1), weights)
    assert_allclose(means[0, 1] - means[0, 0], weights[:, 2] * (x[2] - 1.5), atol=1e-12)
    assert_allclose(variances[0, 1], variances[0, 0], rtol=1e-12)


def test_the_smoothed_logistic_is_the_integral():
    means = np.concatenate([np.linspace(-30, 30, 61), [1e-3, 0.5, 4.4]])[:, None]
    variances = np.array([0.0, 1e-6, 0.01, 0.3, 1.0, 3.0, 10.0, 40.0, 100.0])
    found = Network.mean_activation(means, variances)
    exact = integrated(*np.broadcast_arrays(means, variances))
    assert_allclose(found, exact, rtol=0, atol=1e-7)
    assert np.abs(found - exact).max() < 2e-8  # as its module says
    assert_allclose(found + Network.mean_activation(-means, variances), 1.0, atol=1e-12)
    assert (np.diff(found[:61], axis=0) >= -1e-15).all()


def test_the_mean_of_a_quadratic_is_that_of_its_terms():
    function, rng = quadratic(2), np.random.default_rng(4)
    root = rng.normal(size=(7, 7))
    rows = rng.normal(size=(3, 7))
    means = rows @ function.score_weights.T
    assert_allclose(function.of_scores(means), function.predict(rows), rtol=1e-10)
    variances = ((function.score_weights @ root) ** 2).sum(axis=1)
    expected = function.predict(rows) + np.trace(function.quadratic @ root @ root.T)
    assert_allclose(function.mean_of_scores(means, variances), expected, rtol=1e-10)


@pytest.mark.parametrize("kind", ["waves", "both"])
def test_means_of_waves_over_normal_scores_are_integrals(kind):
    rng = np.random.default_rng(3)
    waves = Waves(0.3, rng.normal(size=2), rng.normal(size=(1, 2)), np.array([0.7]), np.array([1.3]))
    function = waves
    if kind == "both":
        function = Sum(Network(0.1, np.zeros(2), rng.normal(size=(1, 2)), np.ones(1), np.ones(1)), waves)
    n = len(function.score_weights)
    means, variances = rng.normal(size=n), rng.uniform(0.1, 2.0, n)
    found = function.mean_of_scores(means, variances)
    # each part depends on one score: integrate them one by one
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    scores = np.tile(means, (n, len(nodes), 1))
    for k in range(n):
        scores[k, :, k] += np.sqrt(variances[k]) * nodes
    at_means = function.of_scores(means)
    gains = (function.of_scores(scores) - at_means) @ weights / weights.sum()
    assert_allclose(found, at_means + gains.sum(), atol=1e-7)
    assert abs(found - at_means) > 1e-2


def test_a_wrong_constant_of_the_mixture_is_caught(monkeypatch):
    slopes = network_module.SLOPES
    monkeypatch.setattr(network_module, "SLOPES", (*slopes[:-1], 1.001 * slopes[-1]))
    means = np.linspace(-5, 5, 41)
    assert np.abs(Network.mean_activation(means, np.ones(1)) - integrated(means, np.ones(41))).max() > 1e-7


@pytest.mark.parametrize("groups", GROUPINGS)
def test_conditional_means_of_networks_are_those_of_the_definition(groups):
    imputer, x, _ = bound(GROUPINGS[groups])
    p = imputer.players.n_players
    functions = [network(3, seed=4), network(1, seed=5)]
    permutations = sample_permutations(p, 3, np.random.default_rng(2))
    walks = walk_contributions(permutations, mean_walks(imputer, x, permutations, functions))
    coalitions = sample_coalitions(p, 6, np.random.default_rng(3)).reshape(3, 2, p)
    for number, function in enumerate(functions):
        v = network_game(function, imputer, x)
        tolerance = 1e-7 * (1.0 + np.abs(function.scales).sum())
        for walk, permutation in enumerate(permutations):
            prefixes = [v(frozenset(permutation[:k].tolist()))[0] for k in range(p + 1)]
            expected = np.empty(p)
            expected[permutation] = np.diff(prefixes)
            assert_allclose(walks[walk, :, number], expected, rtol=0, atol=tolerance)
        means = mean_coalitions(imputer, x, coalitions, [function])[..., 0]
        for place in np.ndindex(3, 2):
            expected = v(frozenset(np.flatnonzero(coalitions[place]).tolist()))[0]
            assert_allclose(means[place], expected, rtol=0, atol=tolerance)


# --------------------------------------------------------------------------------------------------- simulated values


def fitted(functions, imputer, x, estimator=None, weights=None):
    """One output, one fold for each function."""
    of_folds = tuple(((function,),) for function in functions)
    weights = np.full(len(functions), 1.0 / len(functions)) if weights is None else weights
    return FittedFunctions(of_folds, weights, estimator or cs.Permutation(), imputer, x, MEMORY)


def reference(functions, imputer, x, seed, *, estimator=None, weights=None):
    return GaussianControls.of(fitted(functions, imputer, x, estimator, weights), np.random.default_rng(seed))


def cases():
    """Functions and imputers for which the values can be enumerated."""
    for groups in ("alone", "groups"):
        imputer, x, background = bound(GROUPINGS[groups])
        for name, function in (("network", network()), ("quadratic", quadratic())):
            yield f"{name}, {groups}", function, imputer, x, background
    imputer, x, background = bound(GROUPINGS["groups"], draws="background")
    boosted = trees(background)
    both = Sum(network(), boosted)
    for name, function in (("network", network()), ("quadratic", quadratic()), ("trees", boosted), ("sum", both)):
        yield f"{name}, drawn from the background", function, imputer, x, background


CASES = {name: rest for name, *rest in cases()}


@pytest.fixture
def quick(monkeypatch):
    """Simulations so short that their error is what a test sees."""
    monkeypatch.setattr(known_gaussian, "MOST_COALITIONS", 0)
    monkeypatch.setattr(known_gaussian, "MOST_PAIRS", 400)
    monkeypatch.setattr(known_gaussian, "FEWEST_PAIRS", 400)
    monkeypatch.setattr(known_simulated, "MOST_ROWS", 8000)


@pytest.mark.parametrize("name", CASES)
def test_simulated_values_are_those_of_the_definition(name, global_seed, monkeypatch):
    monkeypatch.setattr(known_gaussian, "MOST_COALITIONS", 0)
    function, imputer, x, background = CASES[name]
    found = reference([function], imputer, x, global_seed).simulated[0][0][0]
    truth = truth_of(function, imputer, x, background)
    error = np.sqrt((found.root_rows**2).sum(axis=0))
    # the mixture of normals is off by 1.4e-8 of a unit's scale: all there is of an error in a base value of a network
    gap = np.maximum(np.abs(found.mean - truth) - 1e-6, 0.0)
    limit = t_distribution.isf(1e-4 / (2 * len(truth)), REPLICATIONS - 1)  # about 6
    assert (gap <= limit * error).all()
    assert error[:-1].max() < 0.02 * np.abs(truth).max()
    assert error[:-1].max() > 1e-5 * np.abs(truth).max()
    total = function.predict(x[None])[0]
    assert_allclose(found.mean.sum(), total, atol=1e-6)


def spread_of_replications(name, seed, n):
    """Squared errors of n simulations against what their roots say, `(players + 1,)` each."""
    function, imputer, x, background = CASES[name]
    truth = truth_of(function, imputer, x, background)
    found = [reference([function], imputer, x, (seed, k)).simulated[0][0][0] for k in range(n)]
    observed = np.mean([(one.mean - truth) ** 2 for one in found], axis=0)
    told = np.mean([(one.root_rows**2).sum(axis=0) for one in found], axis=0)
    varied = told > 1e-16
    return observed[varied], told[varied]


@pytest.mark.parametrize("name", ["network, groups", "quadratic, groups", "trees, drawn from the background"])
def test_roots_of_simulated_values_are_their_error(name, quick, global_seed):
    n = 60
    observed, told = spread_of_replications(name, global_seed, n)
    level = 1e-4 / (2 * len(observed))
    dof = n, n * (REPLICATIONS - 1)
    low, high = f_distribution.ppf(level, *dof), f_distribution.isf(level, *dof)
    assert (observed < high * told).all()
    assert (observed > low * told).all()
    # Negative control: errors of half the size, or of the size of a single replication, would be noticed.
    assert (observed > high * told / 4).any()
    assert (observed < low * told * REPLICATIONS).all()


@pytest.mark.parametrize("groups", GROUPINGS)
def test_networks_with_few_players_are_enumerated_without_error(groups, monkeypatch):
    imputer, x, _ = bound(GROUPINGS[groups])
    functions = [network(3, seed=4), network(1, seed=5)]
    monkeypatch.setattr(known_gaussian, "COALITION_DOUBLES", 200)  # several batches
    found = simulate_networks(imputer, x, functions, np.random.default_rng(0))
    for one, function in zip(found, functions, strict=True):
        assert np.abs(one.root_rows).max() < 1e-15
        assert_allclose(one.mean, truth_of(function, imputer, x, None), atol=1e-7 * (1 + np.abs(function.scales).sum()))
        assert_allclose(one.mean.sum(), function.predict(x[None])[0], atol=1e-7 * (1 + np.abs(function.scales).sum()))
    # Negative control: the values of another function are others.
    assert np.abs(found[0].mean - found[1].mean).max() > 1e-3


def test_two_players_are_simulated_without_error(quick):
    imputer, x, _ = bound([[0, 1, 2], [3, 4, 5, 6]])
    function = network()
    found = simulate_networks(imputer, x, [function], np.random.default_rng(0))[0]
    # both orders of two players are all there are
    assert np.abs(found.root_rows).max() < 1e-12
    assert_allclose(found.mean, truth_of(function, imputer, x, None), atol=1e-6)


def test_functions_are_simulated_together_and_their_roots_add_up_over_folds(quick):
    imputer, x, background = bound(GROUPINGS["groups"])
    functions, weights = [network(2, 0), network(2, 7)], np.array([0.3, 0.7])
    both = reference(functions, imputer, x, 5, weights=weights)
    rows = both.roots(2).factors
    expected = 0.3 * both.simulated[0][0][0].root_rows + 0.7 * both.simulated[1][0][0].root_rows
    assert_allclose(np.abs(rows[:, :, 0, 1]), np.abs(expected), atol=1e-15)
    assert (rows[..., 0] == 0).all()  # the noise of draws is integrated out: no error in it
    boosted = reference([trees(background), trees(background[::2])], imputer, x, 5, weights=weights)
    rows = boosted.roots(2).factors
    assert (rows[..., 1] == 0).all()
    assert (rows[:, :-1, 0, 0].std(axis=0) > 0).all()


# --------------------------------------------------------------------------------------------------- controls of units


ESTIMATORS = [
    cs.Permutation(), cs.Permutation(paired=False), cs.Permutation(n_draws=2), cs.Kernel(), cs.Kernel(paired=False),
    cs.Kernel(n_draws=2), cs.Kernel(paired=False, n_draws=2),
]  # fmt: skip


def unit_terms(function, imputer, x, estimator, design, draws):
    game = FunctionGame.of(((function,),), x, imputer, MEMORY)
    return estimator.terms(game, design, UnitDraws(draws, None, None, np.zeros_like(game.at_x)))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("name", ["network, groups", "quadratic, groups", "trees, drawn from the background"])
def test_the_noise_of_draws_has_mean_zero_for_every_design(name, estimator, global_seed, quick):
    function, imputer, x, _ = CASES[name]
    n, (one,) = 3000, estimator.sample(4, 1, np.random.default_rng((global_seed, 1)))
    design = np.repeat(one[None], n, axis=0)
    draws = imputer.sample(n * estimator.n_draws, np.random.default_rng((global_seed, 2)))
    known = reference([function], imputer, x, 3, estimator=estimator)
    controls = known.controls(0, design, draws.reshape(n, estimator.n_draws, 7), None)
    within, between = np.moveaxis(controls[:, :, 0], -1, 0)
    if function.takes_scores:
        error = within.mean(axis=1).std(axis=0) if estimator.is_least_squares else within.std(axis=0)
        assert (np.abs(within.mean(axis=0)) <= 5.5 * error / np.sqrt(n) + 1e-7).all()
        assert_allclose(between, np.broadcast_to(between[:1], between.shape), atol=1e-12)  # a fact of the design
        assert np.abs(between).max() > 1e-3
    else:
        assert (between == 0).all()  # nothing is integrated out: all of it is held against the simulated value
        assert np.abs(within.mean(axis=0)).max() > 1e-3


def kernel_design(p):
    """All coalitions with the weights of the kernel."""
    coalitions, weights = [], []
    for size in range(1, p):
        for members in combinations(range(p), size):
            coalitions.append(np.isin(np.arange(p), members))
            weights.append((p - 1) / (comb(p, size) * size * (p - size)))
    return np.array(coalitions), np.array(weights) / np.sum(weights)


def solved(controls, terms, weights):
    """What least squares makes of controls, with nothing for the players to sum to."""
    nothing = np.zeros((1, 1))
    targets = controls.mean(axis=1)[:, :, None]
    return LeastSquaresTerms(terms.regressors, targets, targets[:, None], nothing, nothing, terms.paired).solve(
        weights[None]
    )[0, :, 0, 0]


@pytest.mark.parametrize("paired", [True, False])
def test_over_all_coalitions_a_network_misses_the_simulated_value_by_its_error_only(paired, global_seed):
    function, imputer, x, _ = CASES["network, groups"]
    design, weights = kernel_design(4)
    draws = imputer.sample(len(design), np.random.default_rng(0))[:, None]
    terms = unit_terms(function, imputer, x, cs.Kernel(paired=paired), design, draws)
    known = reference([function], imputer, x, global_seed, estimator=cs.Kernel(paired=paired))
    between = known.controls(0, design, draws, None)[..., 1]
    found = solved(between, terms, weights)
    error = np.sqrt(known.roots(2).variances()[:, 0, 1])
    limit = t_distribution.isf(1e-4 / 8, REPLICATIONS - 1)
    assert (np.abs(found[:-1]) <= limit * error[:-1] + 1e-6).all()
    # Negative control: the same without the simulated value is no control at all.
    assert np.abs(solved(between + (terms.regressors @ np.arange(4.0))[:, None, None], terms, weights)).max() > 0.1


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("kind", ["network", "quadratic", "trees", "sum"])
def test_independent_features_leave_nothing_over_all_designs(kind, estimator):
    """With every permutation, or coalition, the noise of coalitions cancels exactly for each set of draws."""
    data = make_data(n_rows=12, seed=3)
    players = resolve_players(data.groups, NAMES)
    imputer = cs.Marginal().bind(data.background, players, NAMES)
    boosted = trees(data.background)
    function = {"network": network(), "quadratic": quadratic(), "trees": boosted, "sum": Sum(network(), boosted)}[kind]
    if estimator.is_least_squares:
        design, weights = kernel_design(4)
    else:
        design = np.array([p for p in np.ndindex(4, 4, 4, 4) if len(set(p)) == 4])
        weights = np.full(len(design), 1.0 / len(design))
    spread = 0.0
    for first in range(0, 12, estimator.n_draws):
        index = np.arange(first, first + estimator.n_draws)
        draws = np.broadcast_to(data.background[index], (len(design), len(index), 7))
        terms = unit_terms(function, imputer, data.x, estimator, design, draws)
        every = np.broadcast_to(index, (len(design), len(index)))
        functions = fitted([function], imputer, data.x, estimator)
        known = MarginalControls.of(functions, every, None, np.random.default_rng(0))
        within = known.controls(0, design, draws, every)[:, :, 0, :1]
        found = solved(within, terms, weights) if estimator.is_least_squares else weights @ within[..., 0]
        assert_allclose(found, 0.0, atol=1e-7)
        spread = max(spread, np.abs(within).max())
    # pairs are exact for two-way interactions; else there is noise to cancel
    assert (spread < 1e-9) == (kind == "quadratic" and estimator.paired)
