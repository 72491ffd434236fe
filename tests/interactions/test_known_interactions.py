"""Exact pairwise interactions of functions against their definition, with and without groups."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.ensemble import (
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from controlshap.data.players import resolve_players
from controlshap.estimators.enumeration import all_coalitions
from controlshap.functions.base import KnownFunction, Sum
from controlshap.functions.composed import Blend
from controlshap.functions.logistic import logistic_interactions
from controlshap.functions.network import Network
from controlshap.functions.polynomial import Quadratic
from controlshap.functions.recognise import recognise
from controlshap.functions.tree_patterns import MOST_PAIRED
from controlshap.functions.waves import Waves
from controlshap.interactions.index import pair_numbers, table_interactions
from controlshap.testing import game_from_values, interactions_by_definition, marginal_game, shapley_by_definition

GROUPS = {"plain": None, "groups": [[0, 3], [1], [2, 4, 5]]}


def make_functions():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 6)).round(1)
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) * (X[:, 3] > 0) + X[:, 4] + 0.1 * rng.normal(size=200)
    half = rng.normal(size=(6, 6))
    forest = RandomForestRegressor(5, max_depth=6, random_state=0).fit(X, y)
    classes = RandomForestClassifier(4, max_depth=5, random_state=0).fit(X, (y > 0.5).astype(int) + (y > -0.5))
    functions = {
        "linear": Quadratic(1.0, rng.normal(size=6)),
        "linear, two outputs": Quadratic(np.ones(2), rng.normal(size=(2, 6))),
        "quadratic": Quadratic(1.0, rng.normal(size=6), half + half.T),
        "logistic": Network(0.0, np.zeros(6), 2.0 * rng.normal(size=(1, 6)), np.array([0.3]), np.ones(1), 1e-12),
        "network": Network(
            0.2, rng.normal(size=6), rng.normal(size=(4, 6)), rng.normal(size=4), rng.normal(size=4), 1e-12
        ),
        "waves": Waves(0.2, rng.normal(size=6), rng.normal(size=(4, 6)), rng.normal(size=4), rng.normal(size=4)),
        "forest": recognise(forest),
        "classes": recognise(classes),
        "boosting": recognise(GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, y)),
    }
    scaled = make_pipeline(StandardScaler(), SVR(C=10.0)).fit(X, y)
    functions |= {
        "kernel machine": recognise(KernelRidge(kernel="laplacian", gamma=0.4).fit(X, np.stack([y, X[:, 0]], axis=1))),
        "behind a scaler": recognise(scaled),
        "average": recognise(VotingRegressor([("svr", SVR()), ("forest", forest)]).fit(X, y)),
    }
    functions["blend"] = Blend(functions["classes"], np.array([1.0, -2.0, 0.5]), 3.0)
    functions["sum"] = Sum(functions["network"], functions["forest"])
    return functions, X


FUNCTIONS, DATA = make_functions()


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_interactions_are_those_of_the_definition(name, groups):
    function = FUNCTIONS[name]
    players = resolve_players(groups, [f"x{i}" for i in range(6)])
    x, background = DATA[0].copy(), DATA[20:90]
    x[1] = background[:, 1].max() + 1.0  # beyond all splits
    game = marginal_game(function.predict, x, background, players.columns)
    expected = interactions_by_definition(game, players.n_players)
    found = function.mean_interactions(x, background, players)
    assert_allclose(found.reshape(expected.shape), expected, atol=1e-9 * max(1.0, np.abs(expected).max()))
    assert_allclose(found, found.swapaxes(0, 1), atol=1e-14)


@pytest.mark.parametrize("groups", [None, [[0, 3], [1], [2, 4, 5], [6, 7, 8, 9, 10]]], ids=["plain", "groups"])
def test_rows_of_trees_together_are_those_of_the_definition(groups):
    """Leaves of up to 11 factors, of which those beyond `MOST_PAIRED` go another way, missing values, three
    outputs."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(400, 11))
    X[rng.random(X.shape) < 0.05] = np.nan
    classes = np.digitize(np.nan_to_num(X) @ rng.normal(size=11) + rng.normal(size=400), [-1.0, 1.0])
    form = recognise(RandomForestClassifier(5, random_state=0).fit(X, classes))
    n_factors = np.diff(form.starts)
    assert n_factors.min() <= MOST_PAIRED < n_factors.max()
    players = resolve_players(groups, [f"x{i}" for i in range(11)])
    background, rows = X[:15], X[50:52]
    games = form.games(background, players, np.arange(0))
    found = games.interactions(rows)
    for row, of_row in zip(rows, found, strict=True):
        table = coalition_table(form.predict, row, background, players)
        expected = table_interactions(table)
        assert_allclose(of_row[pair_numbers(players.n_players)], expected, atol=1e-12)
        assert_allclose(of_row, form.mean_interactions(row, background, players), atol=1e-12)
        # the same bits whatever rows are beside it
        assert (games.interactions(row[None])[0] == of_row).all()


def coalition_table(predict, row, background, players):
    """Values of all coalitions, from one call."""
    revealed = all_coalitions(players.n_players)[:, players.owner]
    rows = np.where(revealed[:, None], row, background)
    return predict(rows.reshape(-1, len(row))).reshape(*rows.shape[:2], -1).mean(axis=1)


@pytest.mark.parametrize("n_players", [1, 2, 3, 4, 9])
def test_logistic_interactions_for_any_number_of_players(n_players):
    rng = np.random.default_rng(n_players)
    at_x, at_draws = 2.0 * rng.normal(size=n_players), 2.0 * rng.normal(size=(4, n_players))

    def game(coalition):
        chosen = np.where([j in coalition for j in range(n_players)], at_x, at_draws)
        return np.atleast_1d(expit(0.4 + chosen.sum(axis=1)).mean())

    expected = interactions_by_definition(game, n_players)[..., 0]
    assert_allclose(logistic_interactions(0.4, at_x, at_draws), expected, atol=1e-11)


def test_a_score_out_of_reach_has_no_known_interactions():
    steep = Network(0.0, np.zeros(2), np.array([[500.0, 1.0]]), np.zeros(1), np.ones(1))
    players = resolve_players(None, ["a", "b"])
    assert steep.mean_interactions(np.ones(2), np.zeros((3, 2)), players) is None
    assert Sum(steep, Quadratic(0.0, np.ones(2))).mean_interactions(np.ones(2), np.zeros((3, 2)), players) is None


def test_a_function_that_does_not_know_them_says_so():
    class Own(KnownFunction):
        def predict(self, rows):
            return rows[:, 0]

        def draw_values(self, x, draws, players):
            return None

    assert Own().mean_interactions(np.ones(1), np.ones((1, 1)), resolve_players(None, ["a"])) is None


def test_main_effects_and_interactions_of_the_definition_sum_to_the_game():
    table = np.random.default_rng(1).normal(size=2**5)
    game = game_from_values(table)
    values, index = shapley_by_definition(game, 5)[:, 0], interactions_by_definition(game, 5)[..., 0]
    main = values - 0.5 * index.sum(axis=1)
    assert_allclose(main.sum() + 0.5 * index.sum(), table[-1] - table[0], atol=1e-12)
    # negative control: the same interactions do not belong to another game
    assert np.abs(interactions_by_definition(game_from_values(table**2), 5)[..., 0] - index).max() > 0.1
