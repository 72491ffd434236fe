"""Estimators fed with everything there is must return the exact values: no noise for a bug to hide behind."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import controlshap as cs
from controlshap.data.players import resolve_players
from controlshap.estimators.base import UnitDraws
from controlshap.models.model import as_model
from controlshap.sampling.game import Game
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.testing import marginal_game, pathwise_game, shapley_by_definition
from controlshap.testing.exhaustive import every_coalition, every_permutation


@pytest.fixture(params=["independent", "correlated"])
def case(request, data):
    """A game with two outputs, groups and one draw per unit, and the exact values of each draw."""
    names = tuple(f"c{i}" for i in range(7))
    players = resolve_players(data.groups, names)
    value_function = cs.Marginal() if request.param == "independent" else cs.GaussianConditional(draws="background")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.SingularCovarianceWarning)
        imputer = value_function.bind(data.background, players, names)
    at_x = data.model2(data.x[None])[0][:, None]
    game = Game(data.x, imputer, at_x, 2**28, as_model(data.model2), (), "row 0")

    def exact(draw):
        if request.param == "independent":
            v = marginal_game(data.model2, data.x, draw[None], data.columns)
        else:
            moments = imputer.moments
            covariance = moments.correlation * np.outer(moments.scale, moments.scale)
            v = pathwise_game(data.model2, data.x, draw[None], covariance, data.columns)
        return shapley_by_definition(v, 4)

    return data, game, exact


def draws_for(data, n_units, draw):
    rows = np.broadcast_to(draw, (n_units, 1, 7)).copy()
    values = data.model2(rows[:, 0])[:, None, :, None]
    return UnitDraws(rows, values, None, values[0, 0])


@pytest.mark.parametrize("paired", [True, False])
def test_every_permutation_gives_the_exact_values(case, paired):
    data, game, exact = case
    draw = data.background[3]
    terms = cs.Permutation(paired=paired).terms(game, every_permutation(4), draws_for(data, 24, draw))
    assert_allclose(terms.solve(np.full((1, 24), 1 / 24))[0, :4, :, 0], exact(draw), atol=1e-9)


@pytest.mark.parametrize("paired", [True, False])
def test_every_permutation_for_every_player_gives_the_exact_values(case, paired):
    data, game, exact = case
    draw = data.background[3]
    design = np.repeat(every_permutation(4)[:, None], 4, axis=1)
    terms = cs.PerFeature(paired=paired).terms(game, design, draws_for(data, 24, draw))
    assert_allclose(terms.solve(np.full((1, 24), 1 / 24))[0, :4, :, 0], exact(draw), atol=1e-9)


@pytest.mark.parametrize("paired", [True, False])
def test_every_coalition_with_its_weight_gives_the_exact_values(case, paired):
    data, game, exact = case
    draw = data.background[3]
    coalitions, weights = every_coalition(4)
    terms = cs.Kernel(paired=paired).terms(game, coalitions, draws_for(data, 14, draw))
    assert_allclose(terms.solve(weights[None])[0, :4, :, 0], exact(draw), atol=1e-9)


def test_the_wrong_weights_do_not(case):
    # Negative control: sizes with the binomial applied twice, as in a known defect of the paper's code.
    data, game, exact = case
    draw = data.background[3]
    coalitions, weights = every_coalition(4)
    sizes = coalitions.sum(axis=1)
    wrong = weights / np.where(np.isin(sizes, (1, 3)), 4, 6)
    terms = cs.Kernel().terms(game, coalitions, draws_for(data, 14, draw))
    assert np.abs(terms.solve(wrong[None] / wrong.sum())[0, :4, :, 0] - exact(draw)).max() > 1e-3


def test_pseudo_values_average_to_the_estimate(case):
    data, game, _ = case
    coalitions, _ = every_coalition(4)
    for paired in (True, False):
        terms = cs.Kernel(paired=paired).terms(game, coalitions, draws_for(data, 14, data.background[0]))
        weights = np.random.default_rng(0).dirichlet(np.ones(14))
        pseudo = terms.pseudo_values(weights)
        assert_allclose(np.tensordot(weights, pseudo, axes=1), terms.solve(weights[None])[0], atol=1e-12)


def test_the_slope_in_the_base_value_is_the_numerical_one(case):
    data, game, _ = case
    coalitions, _ = every_coalition(4)
    draws = draws_for(data, 14, data.background[0])
    for paired in (True, False):
        estimator = cs.Kernel(paired=paired)
        weights = TwoStageDesign.independent(14).weights
        before = estimator.terms(game, coalitions, draws)
        shifted = UnitDraws(draws.rows, draws.values, None, draws.base + 1.0)
        after = estimator.terms(game, coalitions, shifted)
        change = (after.solve(weights[None]) - before.solve(weights[None]))[0, :, 0, 0]
        assert_allclose(before.base_slope(weights), change, atol=1e-10)
        assert_allclose(change.sum(), 0, atol=1e-10)  # values and base always sum to f(x)


@pytest.mark.parametrize("groups", [None, {"pair": [1, 3], "level": [4, 5, 6]}])
@pytest.mark.parametrize("features", ["independent", "correlated"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_auto_is_exact_over_a_finite_background(data, groups, features, outputs):
    model = data.model if outputs == 1 else data.model2
    columns = data.columns if groups else [[c] for c in range(7)]
    value_function = cs.Marginal() if features == "independent" else cs.GaussianConditional(draws="background")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.SingularCovarianceWarning)
        explainer = cs.Explainer(model, data.background, features=value_function, groups=groups, control="none")
    needed = (2 ** len(columns) - 2) * 24 + 1
    explanation = explainer(data.x, budget=needed, rng=0)
    if features == "independent":
        v = marginal_game(model, data.x, data.background, columns)
    else:
        moments = explainer._assembly.imputer.moments
        covariance = moments.correlation * np.outer(moments.scale, moments.scale)
        v = pathwise_game(model, data.x, data.background, covariance, columns)
    expected = shapley_by_definition(v, len(columns))
    assert_allclose(explanation.values[0], expected[:, 0] if outputs == 1 else expected, atol=1e-8)
    assert explanation.status[0] == "exact"
    assert (explanation.standard_errors == 0).all()
    if features == "independent":  # x agrees with some rows in a level, and what is known then is not shown
        assert explanation.n_evaluations[0] < needed
    else:
        assert explanation.n_evaluations[0] == needed
    assert explainer(data.x, budget=needed - 1, rng=0).status[0] == "budget reached"
