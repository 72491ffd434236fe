"""Correlated columns with a one-hot block, functions fitted to nothing, and their textbook values."""

import warnings

import numpy as np
from conftest import make_data
from scipy.special import expit

import controlshap as cs
from controlshap.controls.base import FoldedRows
from controlshap.controls.trees import fit_boosting
from controlshap.data.players import resolve_players
from controlshap.functions.network import Network
from controlshap.functions.polynomial import Quadratic
from controlshap.testing import conditional_map, pathwise_game, shapley_by_definition

NAMES = tuple(f"c{i}" for i in range(7))
GROUPINGS = {"alone": None, "groups": {"pair": [1, 3], "level": [4, 5, 6]}, "mixed": [[0, 6], [2, 4, 5]]}
MEMORY = 2**24


def bound(groups, *, constant=True, draws="gaussian"):
    """An imputer of correlated columns with a one-hot block; column 2 is constant, and x differs in it."""
    data = make_data(n_rows=30, seed=2)
    background = data.background.copy()
    if constant:
        background[:, 2] = 1.5
    players = resolve_players(groups, NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.SingularCovarianceWarning)  # a full one-hot block
        imputer = cs.GaussianConditional(draws=draws).bind(background, players, NAMES)
    return imputer, data.x + 0.3 * (np.arange(7) < 4), background


def network(n_units=2, seed=0):
    rng = np.random.default_rng(seed)
    weights = 0.8 * rng.normal(size=(n_units, 7))
    return Network(0.3, 0.4 * rng.normal(size=7), weights, rng.normal(size=n_units), 2.0 * rng.normal(size=n_units))


def quadratic(seed=1):
    bend = 0.3 * np.random.default_rng(seed).normal(size=(7, 7))
    return Quadratic(-0.7, np.random.default_rng(seed + 1).normal(size=7), bend + bend.T)


def trees(background):
    rng = np.random.default_rng(0)
    rows = background[rng.integers(0, len(background), 300)] + 0.3 * rng.normal(size=(300, 7))
    said = np.sin(2.0 * rows[:, 0]) * rows[:, 1] * rows[:, 2] + rows[:, 5]
    return fit_boosting(FoldedRows(rows, said, np.zeros(300)), None, 10, 12, 0.5)


def conditional(imputer, x, coalition):
    """Mean and covariance of a row given the columns of a coalition, one at a time."""
    moments, players = imputer.moments, imputer.players
    revealed = [int(column) for player in coalition for column in players.columns[player]]
    # a constant column tells nothing about the others, and has the variance of the identity to be conditioned on
    matrix = conditional_map(moments.correlation * np.outer(moments.scale, moments.scale), revealed)
    return moments.mean + matrix @ (x - moments.mean), moments.covariance - matrix @ moments.covariance


def integrated(mean, variance):
    """E sigmoid(mean + sd Z) by the trapezoid rule, whose error here is far below rounding."""
    grid = np.linspace(-11.0, 11.0, 4001)
    density = np.exp(-0.5 * grid**2) / np.sqrt(2.0 * np.pi) * (grid[1] - grid[0])
    return expit(np.asarray(mean)[..., None] + np.sqrt(variance)[..., None] * grid) @ density


def network_game(function, imputer, x):
    def v(coalition):
        mean, covariance = conditional(imputer, x, coalition)
        spread = np.maximum(np.einsum("nc,cd,nd->n", function.weights, covariance, function.weights), 0.0)
        hidden = integrated(function.weights @ mean + function.intercepts, spread)
        return np.array([function.constant + function.linear @ mean + hidden @ function.scales])

    return v


def truth_of(function, imputer, x, background):
    """Shapley values and base value by enumeration of all coalitions."""
    columns = imputer.players.columns
    if imputer.finite_draws is not None:
        moments = imputer.moments
        covariance = moments.correlation * np.outer(moments.scale, moments.scale)
        game = pathwise_game(function.predict, x, background, covariance, columns)
    elif isinstance(function, Network):
        game = network_game(function, imputer, x)
    else:

        def game(coalition):
            mean, covariance = conditional(imputer, x, coalition)
            bend = function.quadratic
            value = function.constant + function.linear @ mean + mean @ bend @ mean + np.trace(bend @ covariance)
            return np.array([value])

    values = shapley_by_definition(game, imputer.players.n_players)[:, 0]
    return np.append(values, game(frozenset()))
