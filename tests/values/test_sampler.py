"""A function of the user's that draws absent columns, against the textbook values of its Gaussian."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from calibration_cases import check, check_together
from numpy.testing import assert_allclose, assert_array_equal

import controlshap as cs
from controlshap.testing import conditional_map, gaussian_quadratic_game, shapley_by_definition
from controlshap.testing.exhaustive import every_permutation

RNG = np.random.default_rng(31)
FACTOR = np.eye(5) + 0.5 * RNG.normal(size=(5, 5))
MEAN, COVARIANCE = RNG.normal(size=5), FACTOR @ FACTOR.T
BACKGROUND = MEAN + RNG.normal(size=(40, 5)) @ FACTOR.T
X = BACKGROUND[0] + 0.5
GROUPS, COLUMNS = {"pair": [0, 3]}, [[0, 3], [1], [2], [4]]
SLOPE, BEND = RNG.normal(size=(2, 5)), 0.2 * RNG.normal(size=(2, 5, 5))


def model(rows):
    return rows @ SLOPE.T + np.einsum("ni,oij,nj->no", rows, BEND, rows)


def draw(x, revealed, n, rng):
    """The Gaussian given the revealed columns, as a user might write it."""
    rows = MEAN + rng.standard_normal((n, 5)) @ FACTOR.T
    rows = rows + (x - rows) @ conditional_map(COVARIANCE, np.flatnonzero(revealed)).T
    rows[:, revealed] = x[revealed]
    return rows


def make(function=draw, known_draws=4.0, **settings):
    return cs.Explainer(model, BACKGROUND, features=cs.Sampler(function, known_draws), groups=GROUPS, **settings)


@cache
def truth():
    return shapley_by_definition(gaussian_quadratic_game(SLOPE, BEND, X, MEAN, COVARIANCE, COLUMNS), 4)


def test_rows_are_those_of_the_function_and_the_same_along_walks_and_for_coalitions():
    imputer, x = make().assembly.imputer.for_row(X)
    permutations = every_permutation(4)
    draws = imputer.sample(3 * len(permutations), np.random.default_rng(3)).reshape(len(permutations), 3, -1)
    prefixes = np.argsort(permutations, axis=1)[:, None, :] < np.arange(1, 4)[None, :, None]
    walks = imputer.walk_rows(x, permutations, draws)
    assert_array_equal(walks, imputer.coalition_rows(x, prefixes, draws))
    revealed = imputer.players.expand(prefixes)
    assert_array_equal(np.where(revealed[:, :, None], walks, 0.0), np.where(revealed, X, 0.0)[:, :, None] + 0 * walks)
    fresh = make().assembly.imputer.coalition_rows(x, prefixes, draws)  # which keeps no rows
    assert_array_equal(walks, fresh)
    ends = np.array([[[False] * 4, [True] * 4]])
    found = imputer.coalition_rows(x, ends, draws[:1])[0]
    assert_array_equal(found[0], draws[0, :, :-1])
    assert_array_equal(found[1], np.tile(X, (3, 1)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"estimator": "kernel"}, {"known_draws": 0}, {"known_draws": 0.3, "control": "ridge"}], ids=str
)
def test_values_are_unbiased_with_honest_errors(settings, global_seed):
    found = make(**settings)(np.tile(X, (80, 1)), budget=300, rng=global_seed)
    check(found, truth(), least=0.9)
    check_together(found, truth())
    assert_allclose(found.values.sum(axis=1) + found.base_values, np.tile(model(X[None]), (80, 1)), atol=1e-9)


def test_a_function_that_reveals_something_else_is_caught(global_seed):
    """Negative control: absent columns that ignore the revealed ones."""

    def ignoring(x, revealed, n, rng):
        return np.where(revealed, x, draw(x, np.zeros(5, dtype=bool), n, rng))

    found = make(ignoring)(np.tile(X, (80, 1)), budget=300, rng=global_seed)
    with pytest.raises(AssertionError, match="biased"):
        check(found, truth(), least=0.9)


def test_every_evaluation_is_drawn_once_and_the_price_is_told():
    calls = []

    def counting(x, revealed, n, rng):
        calls.append(n)
        return draw(x, revealed, n, rng)

    explainer = make(counting, 0)
    calls.clear()
    found = explainer(X, budget=300, rng=0)
    assert found.method[0] == "Permutation"
    assert sum(calls) <= found.n_evaluations[0] + 256  # rows of nobody are drawn by the chunk
    explainer = make(counting, 2.0)
    calls.clear()
    found = explainer(X, budget=600, rng=0)
    assert "LogisticRidge" in found.method[0]
    assert 2 * found.n_evaluations[0] < sum(calls) < 3.5 * found.n_evaluations[0] + 256
    assert "draws       about 600 for the evaluations of a row, at most 1,200" in str(explainer.plan(budget=600))


def test_stopping_refining_and_a_shared_surrogate():
    explainer = make()
    short = explainer(X, budget=300, rng=1)
    refined = explainer.refine(short, budget=200)
    whole = explainer(X, budget=int(refined.n_evaluations[0]), rng=1)
    assert_array_equal(refined.values, whole.values)
    found = make().fit_surrogate(BACKGROUND[:10], budget=500, rng=0)(X, budget=300, rng=0)
    assert "SharedSurrogate" in found.method[0]
    assert (np.abs(found.values[0] - truth()) < 5.0 * found.standard_errors[0]).all()


def test_frames_of_numbers_and_data_sets(tmp_path):
    frame = pd.DataFrame(BACKGROUND, columns=list("abcde"))
    explainer = cs.Explainer(lambda rows: model(rows.to_numpy()), frame, features=cs.Sampler(draw))
    direct = explainer(frame.iloc[:3], budget=300, rng=0)
    assert_allclose(direct.values.sum(axis=1) + direct.base_values, model(BACKGROUND[:3]), atol=1e-9)
    result = explainer.explain_dataset(frame.iloc[:3], tmp_path / "run", budget=300, rng=0, progress=False)
    assert not result.failed
    assert_array_equal(cs.load(tmp_path / "run").values, direct.values)
    with pytest.raises(cs.InvalidArgumentError, match="`features` cannot be saved: Sampler is an object of your own"):
        explainer.save(tmp_path / "explainer")
    frame["e"] = np.where(BACKGROUND[:, 4] > 0, "high", "low")
    with pytest.raises(cs.InvalidArgumentError, match=r"column 'e' holds categories.*Code them as numbers"):
        cs.Explainer(lambda rows: rows["a"], frame, features=cs.Sampler(draw))


def changed(x, revealed, n, rng):
    return draw(x, revealed, n, rng) + 1e-12


BAD = {
    "of another shape": (lambda x, revealed, n, rng: np.zeros((n, 3)), r"shape \(3, 5\); got \(3, 3\).*revealed col"),
    "of one row": (lambda x, revealed, n, rng: draw(x, revealed, 1, rng)[0], r"shape \(3, 5\); got \(5,\)"),
    "of words": (lambda x, revealed, n, rng: "rows", r"array of numbers of shape \(3, 5\); got 'rows'"),
    "nothing": (lambda x, revealed, n, rng: None, r"`draw` must return"),
    "with holes": (
        lambda x, revealed, n, rng: np.where(revealed, x, np.nan) + np.zeros((n, 1)),
        r"NaN or infinite numbers in the column 'x1'",
    ),
    "with other revealed columns": (changed, r"changed the revealed column 'x0'.*rows\[:, revealed\] = x\[revealed\]"),
    "without chance": (
        lambda x, revealed, n, rng: np.where(revealed, x, MEAN) + np.zeros((n, 1)),
        r"same rows for 4 different generators.*background of one row",
    ),
    "with chance of its own": (
        lambda x, revealed, n, rng: draw(x, revealed, n, np.random.default_rng()),
        r"different rows for generators of the same seed.*Take all randomness from the `rng`",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_functions_that_return_rows(name):
    function, message = BAD[name]
    with pytest.raises(cs.InvalidArgumentError, match=message):
        make(function)


def test_settings():
    with pytest.raises(cs.InvalidArgumentError, match=r"`draw` must be a function draw\(x, revealed, n, rng\).*got 3"):
        cs.Sampler(3)
    with pytest.raises(cs.InvalidArgumentError, match=r"`known_draws` must be a number.*got -1"):
        cs.Sampler(draw, known_draws=-1)
    assert repr(cs.Sampler(draw)) == "Sampler(draw, known_draws=4)"
