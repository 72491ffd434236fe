"""Interventions in a Gaussian, against the moments that follow from the causes one after the other."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from calibration_cases import check, check_together
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression

import controlshap as cs
from controlshap.crossfitting import known_simulated
from controlshap.estimators.enumeration import all_coalitions
from controlshap.testing import allowed_orders, causal_quadratic_game, moments_after, shapley_by_definition, values_over
from controlshap.testing.exhaustive import every_permutation

RNG = np.random.default_rng(61)
BACKGROUND = RNG.normal(size=(80, 6)) @ (np.eye(6) + 0.5 * RNG.normal(size=(6, 6)))
X = BACKGROUND[0] + 0.6
GROUPS, COLUMNS = {"pair": [0, 3]}, [[0, 3], [1], [2], [4], [5]]
SLOPE, BEND = RNG.normal(size=(2, 6)), 0.2 * RNG.normal(size=(2, 6, 6))
CASES = {
    "plain": ([["pair", "x1"], ["x4", "x2"], ["x5"]], [[0, 3, 1], [4, 2], [5]], [False, False, False]),
    "confounded": ([["pair", "x1"], ["x4", "x2"], ["x5"]], [[0, 3, 1], [4, 2], [5]], [True, False, False]),
    "mixed": ([["x5"], ["x2", "x1", "x4"], ["x0", "x3"]], [[5], [2, 1, 4], [0, 3]], [False, True, True]),
}


def model(rows):
    return rows @ SLOPE.T + np.einsum("ni,oij,nj->no", rows, BEND, rows)


def make(case, function=model, **settings):
    components, _, confounded = CASES[case]
    return cs.Explainer(function, BACKGROUND, features=cs.Causal(components, confounded), groups=GROUPS, **settings)


def game_of(case, slope=SLOPE, bend=BEND):
    moments = make(case).assembly.imputer.gaussian.moments
    return causal_quadratic_game(slope, bend, X, moments.mean, moments.covariance, *CASES[case][1:], COLUMNS)


@cache
def truth(case):
    return shapley_by_definition(game_of(case), 5)


@pytest.mark.parametrize("case", CASES)
def test_rows_have_the_moments_after_every_intervention(case):
    imputer = make(case).assembly.imputer
    moments = imputer.gaussian.moments
    n = 400
    half = imputer.sample(n, np.random.default_rng(0)) - moments.mean
    half = half @ np.linalg.inv(np.linalg.cholesky(half.T @ half / n)).T @ np.linalg.cholesky(moments.covariance).T
    draws = moments.mean + np.concatenate([half, -half])  # with the moments of the Gaussian, exactly
    coalitions = all_coalitions(5)
    rows = imputer.coalition_rows(X, coalitions[None], draws[None])[0]
    assert_allclose(rows[0], draws, atol=1e-12)
    for members, of_coalition in zip(coalitions, rows, strict=True):
        revealed = imputer.players.expand(members)
        assert_array_equal(of_coalition[:, revealed], np.broadcast_to(X[revealed], (2 * n, revealed.sum())))
        given = moments.mean, moments.covariance, *CASES[case][1:]
        center, spread = moments_after(X, np.flatnonzero(revealed).tolist(), *given)
        assert_allclose(of_coalition.mean(axis=0), center, atol=1e-9)
        assert_allclose(np.cov(of_coalition.T, bias=True), spread, atol=1e-9)
    few = imputer.coalition_rows(X, coalitions[None], draws[None, :3])[0]  # by themselves, not by matrices
    assert_allclose(few, rows[:, :3], atol=1e-9)


def test_one_component_is_the_conditioned_gaussian_and_a_confounded_one_ignores_what_is_revealed():
    every = [["x0", "x1", "x2", "x3", "x4", "x5"]]
    plain = cs.Explainer(model, BACKGROUND, features="correlated").assembly.imputer
    draws = plain.sample(24, np.random.default_rng(1)).reshape(24, 1, 6)
    permutations = every_permutation(6)[::30]
    for confounded in (False, True):
        imputer = cs.Explainer(model, BACKGROUND, features=cs.Causal(every, confounded)).assembly.imputer
        rows = imputer.walk_rows(X, permutations, draws)
        prefixes = np.argsort(permutations, axis=1)[:, None, :] < np.arange(1, 6)[None, :, None]
        independent = np.where(prefixes[:, :, None], X, draws[:, None])
        assert_allclose(rows, independent if confounded else plain.walk_rows(X, permutations, draws), atol=1e-9)


def test_the_four_structures_of_heskes_et_al():
    """Two columns with E(X2 | X1) = a X1, and the model b X2: figure 2 of the paper, symmetric and asymmetric."""
    rng, a, b = np.random.default_rng(0), 0.6, 2.0
    data = rng.normal(size=(500, 2))
    data = (data - data.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(data.T, bias=True))).T
    data = np.column_stack([data[:, 0], a * data[:, 0] + np.sqrt(1 - a**2) * data[:, 1]])
    x = np.array([1.5, -0.5])
    half, whole = 0.5 * a * b * x[0], a * b * x[0]
    structures = {
        "chain": ([[0], [1]], False, half, whole),
        "fork": ([[1], [0]], False, 0.0, 0.0),
        "confounder": ([[0, 1]], True, 0.0, 0.0),
        "cycle": ([[0, 1]], False, half, half),
    }
    for components, confounded, symmetric, asymmetric in structures.values():
        features = cs.Causal(components, confounded)
        for order, first in ((None, symmetric), (components, asymmetric)):
            explainer = cs.Explainer(lambda rows: b * rows[:, 1], data, features=features, order=order)
            found = explainer(x, budget=20_000, rng=0)
            expected = np.array([first, b * x[1] - first])
            assert (np.abs(found.values[0] - expected) < 4.5 * found.standard_errors[0] + 1e-9).all()
            assert found.standard_errors.max() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "settings"),
    [
        ("plain", {}), ("mixed", {"estimator": "kernel"}), ("confounded", {"control": "taylor"}),
        ("mixed", {"control": "none"}),
    ],
    ids=str,
)  # fmt: skip
def test_values_are_unbiased_with_honest_errors(case, settings, global_seed, monkeypatch):
    monkeypatch.setattr(known_simulated, "MOST_ROWS", 16_000)  # so short that the error of known values matters
    found = make(case, **settings)(np.tile(X, (60, 1)), budget=300, rng=global_seed)
    check(found, truth(case), least=0.9)
    check_together(found, truth(case))
    assert_allclose(found.values.sum(axis=1) + found.base_values, np.tile(model(X[None]), (60, 1)), atol=1e-9)


def test_more_columns_than_fit_into_a_byte():
    rng = np.random.default_rng(2)
    data = rng.normal(size=(60, 11)) @ (np.eye(11) + 0.3 * rng.normal(size=(11, 11)))
    features = cs.Causal([[0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 10]], [True, False, False])
    imputer = cs.Explainer(lambda rows: rows.sum(axis=1), data, features=features).assembly.imputer
    permutations = np.array([rng.permutation(11) for _ in range(300)])
    draws = imputer.sample(300, rng)[:, None]
    rows, prefixes = imputer.walk_rows(data[0], permutations, draws), np.argsort(permutations, axis=1)
    for unit in (0, 7):
        members = prefixes[unit] < 5
        center, _ = moments_after(
            data[0], np.flatnonzero(members).tolist(), imputer.center, imputer.gaussian.moments.covariance,
            imputer.components, imputer.confounded,
        )  # fmt: skip
        nothing = imputer.coalition_rows(data[0], members[None, None], imputer.center[None, None])[0, 0, 0]
        assert_allclose(nothing, center, atol=1e-9)
        one = imputer.coalition_rows(data[0], members[None, None], draws[unit : unit + 1])[0, 0]
        assert_allclose(rows[unit, 4], one, atol=1e-9)


def test_another_structure_is_caught(global_seed):
    """Negative control: confounded or not is seen."""
    found = make("plain", control="none")(np.tile(X, (80, 1)), budget=300, rng=global_seed)
    with pytest.raises(AssertionError, match="biased"):
        check(found, truth("confounded"), least=0.9)


def test_with_an_order_values_are_asymmetric_and_a_linear_model_is_its_own_taylor_polynomial():
    linear = LinearRegression().fit(BACKGROUND, model(BACKGROUND))
    game = game_of("mixed", linear.coef_, np.zeros((2, 6, 6)))
    found = make("mixed", linear, control="taylor")(X, budget=300, rng=0)
    assert_allclose(found.values[0], shapley_by_definition(game, 5), atol=1e-9)
    found = make("mixed", linear, control="taylor", order=CASES["mixed"][0])(X, budget=300, rng=0)
    asymmetric = values_over(game, allowed_orders(5, components=[[4], [2, 1, 3], [0]]))
    assert_allclose(found.values[0], asymmetric, atol=1e-9)


def test_frames_saving_refining_and_a_shared_surrogate(tmp_path):
    frame = pd.DataFrame(BACKGROUND, columns=list("abcdef"))
    features = cs.Causal([["a", "d", "b"], ["e", "c"], ["f"]], [True, False, False])

    def of_frame(rows):
        return model(np.asarray(rows))

    explainer = cs.Explainer(of_frame, frame, features=features)
    found = explainer(frame.iloc[:2], budget=400, rng=0)
    explainer.save(tmp_path / "explainer")
    again = cs.Explainer.load(tmp_path / "explainer", of_frame)(frame.iloc[:2], budget=400, rng=0)
    assert_array_equal(found.values, again.values)
    refined = explainer.refine(found, budget=200)
    assert (refined.n_evaluations > found.n_evaluations).all()
    shared = make("plain").fit_surrogate(BACKGROUND[:10], budget=500, rng=0)(X, budget=300, rng=0)
    assert "SharedSurrogate" in shared.method[0]
    assert (np.abs(shared.values[0] - truth("plain")) < 5.0 * shared.standard_errors[0]).all()


BAD = {
    "no list": ({"components": "x1"}, r"`components` must be a list of lists of columns"),
    "a missing column": ({"components": [["x0", "x1"]]}, r"`components` must name every column or group; \['x2'"),
    "a cycle": (
        {"components": [["x0"], ["x1", "x0"]]},
        r"`components`: 'x0' is named in component 1 and in component 2",
    ),
    "an unknown column": ({"components": [["x9"]]}, r"`components`: component 1 names 'x9'"),
    "flags of words": ({"components": [[0]], "confounded": "yes"}, r"`confounded` must be True or False.*got 'yes'"),
    "too few flags": ({"components": [[0], [1]], "confounded": [True]}, r"`confounded` has 1 entries for 2 components"),
    "no eigenvalue": ({"components": [[0]], "min_eigenvalue": 0}, r"`min_eigenvalue` must lie between 0 and 1; got 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_named(name):
    settings, message = BAD[name]
    with pytest.raises(cs.InvalidArgumentError, match=message):
        cs.Explainer(model, BACKGROUND, features=cs.Causal(**settings))
