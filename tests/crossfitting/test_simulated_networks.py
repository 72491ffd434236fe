"""How known values of networks are found: chains of coalitions, differences from a leader, no more than is needed."""

from math import comb

import numpy as np
import pytest
from gaussian_cases import GROUPINGS, MEMORY, bound, network, truth_of
from numpy.testing import assert_allclose
from scipy.stats import f as f_distribution

import controlshap as cs
from controlshap._errors import NotConvergedWarning
from controlshap.controls import ridge
from controlshap.controls.base import FoldedRows
from controlshap.controls.d_matrices import DMatrices, d_matrices
from controlshap.crossfitting import known_gaussian, network_walks
from controlshap.crossfitting.fit import _residual
from controlshap.crossfitting.known_gaussian import (
    ConditionedGame,
    GaussianControls,
    simulate_networks,
)
from controlshap.crossfitting.known_marginal import FittedFunctions
from controlshap.crossfitting.known_simulated import REPLICATIONS
from controlshap.crossfitting.network_walks import NetworkWalks, mean_coalitions, score_matrices
from controlshap.data.players import resolve_players
from controlshap.estimators.enumeration import all_coalitions, chains, n_chains, shapley_values
from controlshap.estimators.permutation import sample_permutations
from controlshap.functions.network import Network
from controlshap.sampling.game import FunctionGame
from controlshap.values.conditioning import condition
from controlshap.values.gaussian import GaussianImputer


@pytest.mark.parametrize("p", [1, 2, 3, 4, 7, 10])
def test_prefixes_of_chains_are_all_coalitions_once(p):
    permutations, own = chains(p)
    assert (np.sort(permutations, axis=1) == np.arange(p)).all()
    met = [
        frozenset(order[:k]) for order, inside in zip(permutations, own, strict=True) for k in np.flatnonzero(inside)
    ]
    assert len(met) == len(set(met)) == 2**p
    # the coalitions of half of the players need a chain each: there cannot be fewer
    assert len(permutations) == n_chains(p) == comb(p, p // 2)


def many_players(p=13, seed=0):
    """Correlated columns, each a player, and two networks."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(p, p))
    names = tuple(f"c{i}" for i in range(p))
    moments = condition(rng.normal(size=p), mixing @ mixing.T / p + 0.2 * np.eye(p), 1e-4, names)
    networks = [
        Network(0.1, 0.2 * rng.normal(size=p), rng.normal(size=(n, p)) / 2, rng.normal(size=n), rng.normal(size=n))
        for n in (1, 3)
    ]
    return GaussianImputer(resolve_players(None, names), moments), rng.normal(size=p), networks


def test_thousands_of_coalitions_are_enumerated_along_chains():
    imputer, x, networks = many_players()
    found = simulate_networks(imputer, x, networks, np.random.default_rng(0))
    table = mean_coalitions(imputer, x, all_coalitions(13)[None], networks)[0]
    expected = np.concatenate([shapley_values(table), table[:1]]).T
    for one, values in zip(found, expected, strict=True):
        assert np.abs(one.root_rows).max() < 1e-15
        assert_allclose(one.mean, values, atol=1e-9)
    # Negative control: simulated, they would differ by more.
    rest = NetworkWalks(imputer, x, networks, np.arange(2), np.random.default_rng(0), None).simulate(10)
    assert np.abs(rest.mean(axis=1) - expected[:, :-1]).max() > 1e-5


# ------------------------------------------------------------------------------------------------ followers of a leader


@pytest.fixture
def sampled(monkeypatch):
    monkeypatch.setattr(known_gaussian, "MOST_COALITIONS", 0)
    monkeypatch.setattr(known_gaussian, "MOST_PAIRS", 400)
    monkeypatch.setattr(known_gaussian, "FEWEST_PAIRS", 400)


def alike(amount, seed=0):
    """Two networks, the second with other weights."""
    first = network(2, seed)
    other = first.weights + amount * np.random.default_rng(9).normal(size=first.weights.shape)
    return [first, Network(first.constant, first.linear, other, first.intercepts, first.scales)]


@pytest.mark.parametrize("at_once", [300, 7])
@pytest.mark.parametrize("amount", [0.02, 1.0])
def test_followers_are_unbiased_and_their_roots_are_their_error(amount, at_once, sampled, monkeypatch, global_seed):
    """However much they differ from their leader, and in parts of unlike sizes."""
    monkeypatch.setattr(network_walks, "AT_ONCE", at_once)
    imputer, x, _ = bound(GROUPINGS["groups"])
    networks, n = alike(amount), 60
    truth = truth_of(networks[1], imputer, x, None)[:-1]
    found = [
        simulate_networks(imputer, x, networks, np.random.default_rng((global_seed, k)), np.zeros(2, dtype=int))[1]
        for k in range(n)
    ]
    errors = np.array([one.mean[:-1] for one in found]) - truth
    told = np.mean([(one.root_rows[:, :-1] ** 2).sum(axis=0) for one in found], axis=0)
    level = 1e-4 / (2 * len(truth))
    low = f_distribution.ppf(level, n, n * (REPLICATIONS - 1))
    high = f_distribution.isf(level, n, n * (REPLICATIONS - 1))
    observed = (errors**2).mean(axis=0)
    assert (observed < high * told).all()
    assert (observed > low * told).all()
    # Negative control: the error of the leader is another, and its values are others.
    leader = truth_of(networks[0], imputer, x, None)[:-1]
    assert (((errors + truth - leader) ** 2).mean(axis=0) > high * told).any()


def test_a_follower_much_like_its_leader_is_known_as_well(sampled):
    imputer, x, _ = bound(GROUPINGS["alone"])
    networks, rng = alike(0.02), np.random.default_rng(0)
    alone, led = (
        np.mean([(simulate_networks(imputer, x, networks, rng, leaders)[1].root_rows ** 2).sum() for _ in range(20)])
        for leaders in (None, np.zeros(2, dtype=int))
    )
    assert led < 1.3 * alone  # squared errors of 20 simulations with 19 degrees of freedom each: 7 % of chance
    apart = alike(1.0)
    far = np.mean(
        [(simulate_networks(imputer, x, apart, rng, np.zeros(2, int))[1].root_rows ** 2).sum() for _ in "12345"]
    )
    assert far > 2.0 * led  # Negative control


# ------------------------------------------------------------------------------------------------- what scores explain


@pytest.mark.parametrize("follower", ["alike", "linear"])
def test_with_values_of_scores_known_values_are_unbiased_and_their_roots_are_their_error(
    follower, sampled, global_seed
):
    """A network and one that follows it, which may have other scores; the D matrices of each run are others."""
    imputer, x, (_, first) = many_players(11)
    other = Network(first.constant, first.linear, 1.1 * first.weights, first.intercepts, first.scales)
    if follower == "linear":
        nothing = np.zeros(0)
        slope = first.linear + 0.2 * first.scales @ first.weights
        other = Network(first.constant, slope, np.zeros((0, len(slope))), nothing, nothing)
    networks, n = [first, other], 50
    truth = known_gaussian.enumerate_networks(imputer, x, networks)[:, :-1]
    leaders, tolerances = np.zeros(2, dtype=int), np.full(2, np.inf)

    def run(k, matrices):
        cache = None if matrices is None else {"score_matrices": matrices}
        rng = np.random.default_rng((global_seed, k))
        found = simulate_networks(imputer, x, networks, rng, leaders, tolerances, 0.0, cache)
        return np.array([one.values[:, :-1] for one in found])

    runs = np.array([run(k, d_matrices(imputer, 2000, seed=100 * global_seed + k)) for k in range(n)])
    observed = ((runs.mean(axis=2) - truth) ** 2).mean(axis=0)
    told = runs.var(axis=2, ddof=1).mean(axis=0) / REPLICATIONS
    level, dof = 1e-4 / (2 * truth.size), (n, n * (REPLICATIONS - 1))
    assert (observed < f_distribution.isf(level, *dof) * told).all()
    assert (observed > f_distribution.ppf(level, *dof) * told).all()
    # three times as many pairs, simulated whole, have a larger error
    whole = run(0, None)
    assert (whole.var(axis=1, ddof=1) / REPLICATIONS).mean() > 1.5 * told.mean()
    # Negative control: values of scores that are wrong make these wrong.
    wrong = d_matrices(imputer, 2000)
    wrong = DMatrices(1.2 * wrong.matrices, wrong.n_permutations)
    biased = ((run(0, wrong).mean(axis=1) - truth) ** 2 > f_distribution.isf(level, *dof) * told).any()
    assert biased


def test_values_of_scores_are_left_out_where_they_cannot_be_had(monkeypatch):
    imputer = many_players(11)[0]
    assert score_matrices(imputer, 800, {}) is not None
    monkeypatch.setattr(network_walks, "MOST_BYTES", 1000)  # they would be large
    cache = {}
    assert score_matrices(imputer, 800, cache) is None
    assert not cache


# ----------------------------------------------------------------------------------------------- no more than is needed


def walks_of(imputer, x, networks, tolerances, monkeypatch, seed=0, n_walks=0.0):
    """Simulated values and the number of walks behind them."""
    n, original = [], network_walks.mean_walks

    def spy(imputer, x, permutations, networks):
        n.append(len(permutations))
        return original(imputer, x, permutations, networks)

    with monkeypatch.context() as patched:
        patched.setattr(network_walks, "mean_walks", spy)
        found = simulate_networks(imputer, x, networks, np.random.default_rng(seed), None, tolerances, n_walks)
    return found, sum(n)


def test_permutations_end_where_the_error_is_small_enough(sampled, monkeypatch):
    imputer, x, _ = bound(GROUPINGS["alone"])
    networks = [network()]
    (full,), most = walks_of(imputer, x, networks, None, monkeypatch)
    assert most == 800
    reached = (full.root_rows[:, :-1] ** 2).sum(axis=0).mean()
    for factor in (0.1, 3.0, 1e4):
        (found,), n = walks_of(imputer, x, networks, np.array([factor * reached]), monkeypatch)
        variance = (found.root_rows[:, :-1] ** 2).sum(axis=0).mean()
        if factor == 0.1:
            assert n == 800  # out of reach: all of them
        elif factor == 3.0:
            assert 80 < n < 800
            assert 0.3 * factor * reached < variance < 3.0 * factor * reached
        else:
            assert n == 80  # one in ten
    assert_allclose(found.mean.sum(), networks[0].predict(x[None])[0], atol=1e-6)


@pytest.mark.parametrize(("tolerance", "n"), [(0.0, 800), (np.inf, 80), (np.nan, 800)])
def test_a_model_that_is_its_fit_gets_all_permutations(tolerance, n, sampled, monkeypatch):
    imputer, x, _ = bound(GROUPINGS["alone"])
    assert walks_of(imputer, x, [network()], np.array([tolerance]), monkeypatch)[1] == n


def test_a_constant_function_gets_no_more_than_the_first(sampled, monkeypatch):
    imputer, x, _ = bound(GROUPINGS["alone"])
    nothing = np.zeros(7)
    constant = Network(0.3, nothing, nothing[None], np.zeros(1), np.zeros(1))
    (found,), n = walks_of(imputer, x, [constant], np.zeros(1), monkeypatch)
    assert n == 80
    assert_allclose(found.mean, [*nothing, 0.3])


def test_models_that_leave_nothing_to_sampling():
    """Seventeen players are simulated: a constant and a ridge, whose fits are exact or nearly so."""
    rng = np.random.default_rng(0)
    background = rng.normal(size=(60, 17)) @ (np.eye(17) + 0.3 * rng.normal(size=(17, 17)))
    weights = rng.normal(size=17) / 4
    for model in (lambda rows: np.full(len(rows), 2.0), lambda rows: 1.0 / (1.0 + np.exp(-rows @ weights))):
        explanation = cs.Explainer(model, background, features="correlated")(background[:2], budget=1000, rng=0)
        assert np.isfinite(explanation.standard_errors).all()
        gap = explanation.values.sum(axis=1) - (model(background[:2]) - explanation.base_values)
        assert_allclose(gap, 0.0, atol=1e-9)


@pytest.mark.slow
def test_many_walks_of_the_model_get_more_permutations(sampled, monkeypatch):
    imputer, x, _ = bound(GROUPINGS["alone"])
    networks, none, many = [network()], np.zeros(1), known_gaussian.MANY_WALKS
    assert walks_of(imputer, x, networks, none, monkeypatch, n_walks=0.5 * many)[1] == 800
    assert walks_of(imputer, x, networks, none, monkeypatch, n_walks=2.5 * many)[1] == 2000
    assert walks_of(imputer, x, networks, np.ones(1), monkeypatch, n_walks=20 * many)[1] == 1600  # enough: one in ten
    variances = [
        np.mean(
            [
                (
                    simulate_networks(imputer, x, networks, np.random.default_rng(k), None, none, n)[0].root_rows ** 2
                ).sum()
                for k in range(20)
            ]
        )
        for n in (0, 8 * many)
    ]
    # 20 times 19 degrees of freedom for each of a few players: 4 standard errors are below 40 %
    assert 8 / 1.4 < variances[0] / variances[1] < 8 * 1.4


@pytest.mark.slow
def test_errors_fall_with_the_budget_where_the_model_is_its_fit(monkeypatch):
    """And so a tolerance is met. Seventeen players are not enumerated."""
    rng = np.random.default_rng(0)
    background = rng.normal(size=(200, 17)) @ (np.eye(17) + 0.3 * rng.normal(size=(17, 17)))
    weights = rng.normal(size=17) / 4
    monkeypatch.setattr(known_gaussian, "MOST_PAIRS", 400)
    monkeypatch.setattr(known_gaussian, "MANY_WALKS", 60)  # 2,040 evaluations
    explainer = cs.Explainer(
        lambda rows: 1.0 / (1.0 + np.exp(-rows @ weights)), background, features="correlated",
        seconds_per_evaluation=1e-6,
    )  # fmt: skip

    def error(budget):
        return np.sqrt((explainer(background[:1], budget=budget, rng=0).standard_errors ** 2).mean())

    # 19 degrees of freedom for each of 17 values: chance is 5 % of an error, and 25 % are five times that of both
    # (at 2,040 evaluations the fit itself is poor, and gets better with more)
    first, second = error(4_080), error(4 * 4_080)
    assert 0.5 / 1.25 < second / first < 0.5 * 1.25
    goal = {"absolute_tolerance": 0.5 * first, "rng": 0}
    stopped = explainer(background[:1], budget=100_000, **goal)
    assert stopped.status[0] == "converged"
    monkeypatch.setattr(known_gaussian, "MANY_WALKS", np.inf)  # Negative control: they do not, and it is not
    assert error(4 * 4_080) > 0.7 * first
    with pytest.warns(NotConvergedWarning, match="did not reach absolute_tolerance"):
        explainer(background[:1], budget=int(stopped.n_evaluations[0]), **goal)


def test_one_output_that_needs_more_gets_more(sampled, monkeypatch):
    imputer, x, _ = bound(GROUPINGS["alone"])
    networks = [network(), network(1, 5)]
    assert walks_of(imputer, x, networks, np.array([1.0, 1.0]), monkeypatch)[1] == 80
    assert walks_of(imputer, x, networks, np.array([1.0, 1e-12]), monkeypatch)[1] == 800


def test_what_is_left_to_sampling_is_what_the_better_function_leaves_in_rows_it_has_not_seen():
    rng = np.random.default_rng(0)
    rows, fold = rng.normal(size=(90, 7)), np.arange(90) % 4 - 1  # a quarter of no fold
    functions = [((network(1, 2 * k), network(1, 2 * k + 1)),) for k in range(3)]
    noise = rng.normal(size=90)
    said = noise.copy()
    for k in range(3):
        said[fold == k] += functions[k][0][1].predict(rows[fold == k])
    said[fold == -1] = 1e6  # rows that every fit has seen
    found = _residual(FoldedRows(rows, said, fold), functions)
    assert_allclose(found, (noise[fold >= 0] ** 2).mean())
    assert _residual(FoldedRows(rows, said, fold), functions[::-1]) > 1.5 * found  # Negative control: other folds


# ---------------------------------------------------------------------------------------------------- controls of walks


@pytest.mark.parametrize("n_draws", [1, 3])
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("groups", GROUPINGS)
def test_controls_of_walks_need_no_rows(groups, paired, n_draws, monkeypatch):
    """Two outputs with two networks each, a constant column, against walks that form every row."""
    imputer, x, _ = bound(GROUPINGS[groups])
    functions = [((network(1, 0), network(1, 3)), (network(1, 5), network(1, 6)))]
    estimator = cs.Permutation(paired=paired, n_draws=n_draws)
    fitted = FittedFunctions(tuple(functions), np.ones(1), estimator, imputer, x, MEMORY)
    known = GaussianControls.of(fitted, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    permutations = sample_permutations(imputer.players.n_players, 7, rng)
    draws = imputer.sample(7 * n_draws, rng).reshape(7, n_draws, -1)
    by_path = {}
    for takes_scores in (True, False):
        monkeypatch.setattr(ConditionedGame, "takes_scores", takes_scores)
        by_path[takes_scores] = GaussianControls(fitted, known.simulated).controls(0, permutations, draws, None)
    found, expected = by_path[True], by_path[False]
    assert found.shape == expected.shape == (7, imputer.players.n_players + 1, 2, 4)
    assert_allclose(found, expected, rtol=0, atol=1e-10)
    # Negative control: with the draws of another unit the noise of draws is another.
    other = GaussianControls(fitted, known.simulated).controls(0, permutations, draws[::-1], None)
    assert np.abs(other[..., ::2] - expected[..., ::2]).max() > 0.01


def test_wide_networks_take_the_rows():
    """Scores of many units cost more than rows of few columns."""
    imputer, x, _ = bound(GROUPINGS["alone"])
    games = [FunctionGame.of(((network(n),),), x, imputer, MEMORY) for n in (1, 6, 7, 30)]
    assert [ConditionedGame(game).takes_scores for game in games] == [True, True, False, False]


def test_folds_may_be_fitted_by_lines_and_by_curves(monkeypatch):
    """A network follows one that has as many scores: a line has none of a unit."""

    def alternate(data, fold, *settings):
        outside = ridge.RidgeData.standardise(data.rows[data.others(fold)], data.outputs[data.others(fold)])
        return outside.line(outside.fit_line()[0]) if fold is not None and fold % 2 else ridge.fit_logistic(data, fold)

    rng = np.random.default_rng(5)
    background, x, slopes = rng.normal(size=(60, 16)), rng.normal(size=16), rng.normal(size=16)
    explainer = cs.Explainer(lambda rows: np.tanh(rows @ slopes), background, features="correlated")
    expected = explainer(x, budget=600, rng=0)
    monkeypatch.setattr(ridge, "fit_ridge", alternate)
    found = explainer(x, budget=600, rng=0)
    gap = np.abs(found.values - expected.values)
    assert (gap < 5.0 * np.hypot(found.standard_errors, expected.standard_errors)).all()
    assert gap.max() > 0.0
