"""Background rows weighted by nearness, against the definition with its loops left in."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from calibration_cases import check, check_together
from numpy.testing import assert_allclose, assert_array_equal

import controlshap as cs
from controlshap.crossfitting import known_simulated
from controlshap.data.players import resolve_players
from controlshap.estimators.enumeration import all_coalitions
from controlshap.testing import empirical_game, marginal_game, shapley_by_definition
from controlshap.testing.exhaustive import every_permutation

RNG = np.random.default_rng(21)
BACKGROUND = RNG.normal(size=(30, 5)) @ (np.eye(5) + 0.5 * RNG.normal(size=(5, 5)))
BACKGROUND[:, 2] = np.round(BACKGROUND[:, 2])
X = BACKGROUND[0] + 0.3
GROUPS, COLUMNS = {"pair": [0, 3]}, [[0, 3], [1], [2], [4]]
WEIGHTS = 0.4 * RNG.normal(size=(2, 5))
NEAR = cs.Empirical(bandwidth=0.5)


def model(rows):
    score = rows @ WEIGHTS.T
    return np.tanh(score + 0.2 * rows[:, :1] * rows[:, 1:2])


def make(features=NEAR, **settings):
    return cs.Explainer(model, BACKGROUND, features=features, groups=GROUPS, **settings)


@cache
def truth_of(bandwidth):
    names = make().feature_names
    order = [names.index(name) for name in ("pair", "x1", "x2", "x4")]
    values = shapley_by_definition(empirical_game(model, X, BACKGROUND, COLUMNS, bandwidth), 4)
    return values[np.argsort(order)]


def test_weights_of_every_coalition_are_those_of_the_definition():
    """With u on a fine grid, the mean over rows is the weighted mean to a step of the grid for each background row."""
    imputer = make().assembly.imputer
    n = 20_000
    chance = (np.arange(n) + 0.5) / n
    draws = np.concatenate([BACKGROUND[(chance * 30).astype(int)], chance[:, None]], axis=1)[None]
    coalitions = all_coalitions(4)[None]
    rows = imputer.coalition_rows(X, coalitions, draws)[0]
    game = empirical_game(model, X, BACKGROUND, list(imputer.players.columns), 0.5)
    for members, of_coalition in zip(coalitions[0], rows, strict=True):
        expected = game(frozenset(np.flatnonzero(members).tolist()))
        assert_allclose(model(of_coalition).mean(axis=0), expected, atol=2 * 30 / n)
        revealed = imputer.players.expand(members)
        assert_array_equal(of_coalition[:, revealed], np.broadcast_to(X[revealed], (n, revealed.sum())))
    assert_array_equal(rows[0], draws[0, :, :-1])  # nobody: the draw itself
    weighted, weights = imputer.weighted_rows(X, coalitions[0])
    means = np.einsum("kn,kno->ko", weights, np.stack([model(of_coalition) for of_coalition in weighted]))
    assert_allclose(means, [game(frozenset(np.flatnonzero(one).tolist())) for one in coalitions[0]], atol=1e-12)


def test_walks_are_the_coalitions_of_their_prefixes():
    imputer = make().assembly.imputer
    permutations = every_permutation(4)
    draws = imputer.sample(3 * len(permutations), np.random.default_rng(3)).reshape(len(permutations), 3, -1)
    prefixes = np.argsort(permutations, axis=1)[:, None, :] < np.arange(1, 4)[None, :, None]
    walks = imputer.walk_rows(X, permutations, draws)
    assert_array_equal(walks, imputer.coalition_rows(X, prefixes, draws))


@pytest.mark.parametrize(
    "settings", [{}, {"estimator": "kernel"}, {"estimator": "permutation", "control": "none"}], ids=str
)
def test_values_are_unbiased_with_honest_errors(settings, global_seed):
    found = make(**settings)(np.tile(X, (80, 1)), budget=300, rng=global_seed)
    check(found, truth_of(0.5), least=0.9)
    check_together(found, truth_of(0.5))
    assert_allclose(found.values.sum(axis=1) + found.base_values, np.tile(model(X[None]), (80, 1)), atol=1e-10)


def test_simulated_known_values_carry_their_error(monkeypatch, global_seed):
    """As with more players and rows than can be enumerated."""
    monkeypatch.setattr(known_simulated, "MOST_ROWS", 400)
    found = make()(np.tile(X, (80, 1)), budget=300, rng=global_seed)
    check(found, truth_of(0.5), least=0.9)
    check_together(found, truth_of(0.5))


def test_another_bandwidth_is_caught(global_seed):
    """Negative control: nearness by another measure is seen."""
    found = make(cs.Empirical(bandwidth=2.0))(np.tile(X, (80, 1)), budget=300, rng=global_seed)
    with pytest.raises(AssertionError, match="biased"):
        check(found, truth_of(0.5), least=0.9)


def test_a_wide_kernel_knows_nothing_of_the_revealed_columns():
    wide = shapley_by_definition(empirical_game(model, X, BACKGROUND, COLUMNS, 1e6), 4)
    assert_allclose(wide, shapley_by_definition(marginal_game(model, X, BACKGROUND, COLUMNS), 4), atol=1e-9)
    found = make(cs.Empirical(bandwidth=1e6))(X, budget=4000, rng=0)
    independent = make("independent")(X, budget=10_000, rng=0)
    assert independent.status[0] == "exact"
    assert (np.abs(found.values - independent.values) < 5.0 * found.standard_errors).all()


def test_a_column_that_never_varies_gets_nothing():
    data, row = np.column_stack([BACKGROUND, np.full(30, 7.0)]), np.append(X, 8.0)

    def explain(control):
        explainer = cs.Explainer(lambda rows: model(rows[:, :5]), data, features="empirical", control=control)
        return explainer(row, budget=500, rng=0)

    assert_allclose(explain("none").values[0, 5], 0.0, atol=1e-12)
    controlled = explain("ridge")  # which may use the column, since x differs there
    assert (np.abs(controlled.values[0, 5]) < 5.0 * controlled.standard_errors[0, 5]).all()


def test_stopping_refining_and_a_shared_surrogate():
    explainer = make()
    stopped = explainer(X, budget=50_000, absolute_tolerance=0.02, rng=0)
    assert stopped.status[0] == "converged"
    assert np.abs(stopped.values[0] - truth_of(0.5)).max() < 5.0 * 0.02
    short = explainer(X, budget=300, rng=1)
    refined = explainer.refine(short, budget=200)
    whole = explainer(X, budget=int(refined.n_evaluations[0]), rng=1)
    assert_array_equal(refined.values, whole.values)
    found = make().fit_surrogate(BACKGROUND[:10], budget=500, rng=0)(X, budget=300, rng=0)
    assert "SharedSurrogate" in found.method[0]
    assert (np.abs(found.values[0] - truth_of(0.5)) < 5.0 * found.standard_errors[0]).all()


def test_frames_and_what_has_no_known_values():
    frame = pd.DataFrame(BACKGROUND, columns=list("abcde"))
    found = cs.Explainer(lambda rows: model(rows.to_numpy()), frame, features="empirical")(
        frame.iloc[:2], budget=300, rng=0
    )
    assert_allclose(found.values.sum(axis=1) + found.base_values, model(BACKGROUND[:2]), atol=1e-10)
    with pytest.raises(cs.NoClosedFormError, match="not for EmpiricalImputer"):
        make(control="taylor")(X, budget=300, rng=0)


def test_draws_are_background_rows_in_equal_shares():
    players = resolve_players(None, tuple("abcde"))
    imputer = cs.Empirical().bind(BACKGROUND, players, tuple("abcde"))
    draws = imputer.sample(60_000, np.random.default_rng(0))
    found = (draws[:, None, :1] == BACKGROUND[None, :, :1]).all(axis=2).mean(axis=0)
    assert (np.abs(found - 1 / 30) < 4.5 * np.sqrt(1 / 30 / 60_000)).all()
