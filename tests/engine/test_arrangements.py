"""`order=` and `hierarchy=` against the mean over every permutation that is allowed, listed one by one."""

from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from calibration_cases import check, check_together
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression

import controlshap as cs
from controlshap.crossfitting import known_simulated
from controlshap.data.orders import read_arrangement
from controlshap.data.players import resolve_players
from controlshap.functions.network import Network
from controlshap.functions.polynomial import Quadratic
from controlshap.testing import (
    allowed_orders,
    gaussian_quadratic_game,
    marginal_game,
    mixture_quadratic_game,
    pathwise_game,
    shapley_by_definition,
    values_over,
)

RNG = np.random.default_rng(51)
BACKGROUND = RNG.normal(size=(12, 7)) @ (np.eye(7) + 0.4 * RNG.normal(size=(7, 7)))
X = BACKGROUND[0] + 0.8
#: So many rows that a budget of 350 does not meet all of them.
WIDE = RNG.normal(size=(60, 7)) @ (np.eye(7) + 0.4 * RNG.normal(size=(7, 7)))
GROUPS = {"pair": [0, 3]}
COLUMNS = [[0, 3], [1], [2], [4], [5], [6]]  # of the players pair, x1, x2, x4, x5, x6
SLOPE, BEND = 0.4 * RNG.normal(size=(2, 7)), 0.1 * RNG.normal(size=(2, 7, 7))
CASES = {
    "order": ({"order": [["pair", "x4"], ["x1", "x2", "x6"], ["x5"]]}, {"components": [[0, 3], [1, 2, 5], [4]]}),
    "chain": ({"order": ["x6", ["x0", "x3"], 1, 2, "x5", "x4"]}, {"components": [[5], [0], [1], [2], [4], [3]]}),
    "hierarchy": (
        {"hierarchy": {"first": ["pair", "x1", "x4"], "second": ["x2", "x6"]}},
        {"groups": [[0, 1, 3], [2, 5]]},
    ),
    "nested": (
        {"hierarchy": {"first": {"a": ["pair", "x1"], "b": ["x4"]}, "second": [["x2", "x6"], "x5"]}},
        {"groups": [[[0, 1], [3]], [[2, 5], 4]]},
    ),
    "both": (
        {"order": [["pair", "x1", "x4"], ["x2", "x5", "x6"]], "hierarchy": [["x1", "x4"], ["x2", "x6"]]},
        {"components": [[0, 1, 3], [2, 4, 5]], "groups": [[1, 3], [2, 5]]},
    ),
}


def model(rows):
    score = rows @ SLOPE.T
    score[:, 0] += 0.3 * rows[:, 0] * rows[:, 1] - 0.2 * rows[:, 2] * rows[:, 5] * rows[:, 4]
    score[:, 1] += 0.3 * rows[:, 2] * rows[:, 1] + 0.2 * rows[:, 0] * rows[:, 4] * rows[:, 6]
    return np.tanh(score)


def quadratic(rows):
    return rows @ SLOPE.T + np.einsum("ni,oij,nj->no", rows, BEND, rows)


def make(case, function=model, data=BACKGROUND, **settings):
    return cs.Explainer(function, data, groups=GROUPS, **CASES[case][0], **settings)


def truth_of(case, game):
    return values_over(game, allowed_orders(6, **CASES[case][1]))


@cache
def marginal_truth(case, *, wide=False):
    return truth_of(case, marginal_game(model, X, WIDE if wide else BACKGROUND, COLUMNS))


def arrangement_of(case):
    players = resolve_players(GROUPS, tuple(f"x{i}" for i in range(7)))
    settings = CASES[case][0]
    names = tuple(f"x{i}" for i in range(7))
    return read_arrangement(settings.get("order"), settings.get("hierarchy"), players, names)


# ------------------------------------------------------------------------------------------------------- permutations


@pytest.mark.parametrize("case", CASES)
def test_permutations_are_uniform_among_those_allowed_and_so_are_their_reverses(case, global_seed):
    arrangement, every = arrangement_of(case), allowed_orders(6, **CASES[case][1])
    n = 400 * len(every) if len(every) > 1 else 10
    drawn = arrangement.sample(min(n, 40_000), np.random.default_rng(global_seed))
    for permutations in (drawn, arrangement.reverse(drawn)):
        codes = permutations @ 6 ** np.arange(6)
        counts = np.array([(codes == np.array(one) @ 6 ** np.arange(6)).sum() for one in every])
        assert counts.sum() == len(permutations)  # none but these
        expected = len(permutations) / len(every)
        statistic = ((counts - expected) ** 2 / expected).sum()
        # chi-squared with mean k - 1 and variance 2 (k - 1): 4.5 deviations, and 10 for its skew
        assert statistic < len(every) - 1 + 4.5 * np.sqrt(2 * max(1, len(every) - 1)) + 10
    assert_array_equal(arrangement.reverse(arrangement.reverse(drawn)), drawn)


def test_a_reverse_turns_what_is_free_and_nothing_else():
    order = arrangement_of("order")
    assert_array_equal(order.reverse(np.array([[0, 3, 1, 5, 2, 4]])), [[3, 0, 2, 5, 1, 4]])
    nested = arrangement_of("nested")
    assert_array_equal(nested.reverse(np.array([[0, 1, 3, 4, 2, 5]])), [[5, 2, 4, 3, 1, 0]])


@pytest.mark.parametrize("case", CASES)
def test_listed_coalitions_give_the_values_of_any_game(case):
    arrangement = arrangement_of(case)
    worth = np.random.default_rng(0).normal(size=64)

    def game(coalition):
        return worth[sum(1 << player for player in coalition)]

    table = np.array([game(frozenset(np.flatnonzero(one).tolist())) for one in arrangement.coalitions])
    assert not arrangement.coalitions[0].any()
    assert arrangement.coalitions[-1].all()
    assert_allclose(arrangement.matrix @ table, truth_of(case, game)[:, 0], atol=1e-12)
    every = allowed_orders(6, **CASES[case][1])
    before = [
        [np.mean([one.index(a) < one.index(b) for one in every]) if a != b else 0.5 for b in range(6)] for a in range(6)
    ]
    assert_allclose(arrangement.precedes, before, atol=1e-12)


# ----------------------------------------------------------------------------------------------------- known functions


@pytest.mark.parametrize("case", CASES)
def test_networks_and_polynomials_have_known_values(case):
    players = make(case).players
    network = Network(0.3, SLOPE[0], 2.0 * SLOPE, np.array([0.2, -1.0]), np.array([2.0, -0.7]))
    bent = Quadratic(0.5, SLOPE[1], BEND[0] + BEND[0].T)
    for function in (network, bent):
        found = function.mean_values(X, BACKGROUND, players)
        game = marginal_game(lambda rows, f=function: f.predict(rows)[:, None], X, BACKGROUND, COLUMNS)
        assert_allclose(found, truth_of(case, game)[:, 0], atol=1e-7)
        ordinary = shapley_by_definition(game, 6)[:, 0]
        if function is network:
            assert np.abs(found - ordinary).max() > 1e-3  # negative control: it is not what all permutations give


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("features", ["independent", "correlated", "mixture"])
def test_linear_and_logistic_models_are_exact(case, features):
    linear = LinearRegression().fit(BACKGROUND, quadratic(BACKGROUND))
    explainer = make(case, linear, features=features if features != "mixture" else cs.Mixture(1))
    found = explainer(X, rng=0)
    assert found.status[0] == "exact"
    assert found.n_evaluations[0] == 1
    if features == "independent":
        game = marginal_game(linear.predict, X, BACKGROUND, COLUMNS)
    else:
        moments = explainer.assembly.imputer.parts[0].moments
        game = gaussian_quadratic_game(linear.coef_, np.zeros((2, 7, 7)), X, moments.mean, moments.covariance, COLUMNS)
    assert_allclose(found.values[0], truth_of(case, game), atol=1e-8)
    if features == "independent":
        logistic = LogisticRegression().fit(BACKGROUND, quadratic(BACKGROUND)[:, 0] > 0)
        found = make(case, logistic)(X, rng=0)
        game = marginal_game(lambda rows: logistic.predict_proba(rows)[:, 1:], X, BACKGROUND, COLUMNS)
        assert found.status[0] == "exact"
        assert_allclose(found.values[0], truth_of(case, game)[:, 0], atol=1e-8)


# ----------------------------------------------------------------------------------------------------- whole explainers


@pytest.mark.parametrize("case", CASES)
def test_all_coalitions_are_exact(case):
    found = make(case)(X, budget=20_000, rng=0)
    assert found.status[0] == "exact"
    assert_allclose(found.values[0], marginal_truth(case), atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("control", ["auto", "none", "simulated"])
def test_values_are_unbiased_with_honest_errors(case, control, global_seed, monkeypatch):
    if control == "simulated":  # as functions without a closed form are
        monkeypatch.setattr(Network, "takes_arrangements", False)
        monkeypatch.setattr(known_simulated, "MOST_ROWS", 4000)
    explainer = make(case, data=WIDE, control="none" if control == "none" else "auto", estimator="permutation")
    found = explainer(np.tile(X, (80, 1)), budget=350, rng=global_seed)
    check(found, marginal_truth(case, wide=True), least=0.9)
    check_together(found, marginal_truth(case, wide=True))
    assert_allclose(found.values.sum(axis=1) + found.base_values, np.tile(model(X[None]), (80, 1)), atol=1e-9)


def test_ordinary_values_are_caught(global_seed):
    """Negative control: permutations without order are seen."""
    explainer = cs.Explainer(model, WIDE, groups=GROUPS, estimator="permutation")
    found = explainer(np.tile(X, (80, 1)), budget=200, rng=global_seed)
    with pytest.raises(AssertionError, match="biased"):
        check(found, marginal_truth("order", wide=True), least=0.9)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["order", "nested"])
@pytest.mark.parametrize("features", ["correlated", "mixture", "taylor"])
def test_other_value_functions_are_arranged_too(case, features, global_seed):
    # a ridge: the quadratic that "auto" tries is the model itself
    settings = {"features": "correlated", "control": "taylor" if features == "taylor" else "ridge"}
    if features == "mixture":
        settings["features"] = cs.Mixture(2)
    background = np.concatenate([BACKGROUND + 0.3 * RNG.normal(size=BACKGROUND.shape) for _ in range(5)])
    explainer = cs.Explainer(
        quadratic, background, groups=GROUPS, estimator="permutation", **CASES[case][0], **settings
    )
    imputer = explainer.assembly.imputer
    moments = [part.moments for part in imputer.parts]
    game = mixture_quadratic_game(
        SLOPE, BEND, X, getattr(imputer, "weights", np.ones(1)), [m.mean for m in moments],
        [m.covariance for m in moments], COLUMNS,
    )  # fmt: skip
    truth = truth_of(case, game)
    found = explainer(np.tile(X, (60, 1)), budget=400, rng=global_seed)
    check(found, truth, least=0.9)
    check_together(found, truth)


def test_conditioned_rows_of_the_background_are_arranged():
    features = cs.GaussianConditional(draws="background")
    explainer = make("nested", features=features)
    moments = explainer.assembly.imputer.moments
    covariance = moments.correlation * np.outer(moments.scale, moments.scale)
    truth = truth_of("nested", pathwise_game(model, X, BACKGROUND, covariance, COLUMNS))
    found = explainer(X, budget=20_000, rng=0)
    assert found.status[0] == "exact"
    assert_allclose(found.values[0], truth, atol=1e-8)


def test_a_null_player_gets_nothing_and_owen_values_of_a_group_are_its_value_as_one_player():
    def without(rows):
        return model(np.where(np.arange(7) == 6, 0.0, rows))

    for case in CASES:
        found = make(case, without, estimator="permutation", control="none")(X, budget=500, rng=0)
        assert_allclose(found.values[0][list(found.feature_names).index("x6")], 0.0, atol=1e-15)
    groups = {"first": [0, 3, 1, 4], "second": [2, 6]}
    as_one = cs.Explainer(model, BACKGROUND, groups=groups)(X, budget=20_000, rng=0)
    found = make("hierarchy")(X, budget=20_000, rng=0).by_group()
    assert found.feature_names == ("first", "second", "x5")
    order = [as_one.feature_names.index(name) for name in found.feature_names]
    assert_allclose(found.values[0], as_one.values[0][order], atol=1e-10)


def test_sums_of_groups_have_honest_errors(global_seed):
    explainer = make("nested", data=WIDE, estimator="permutation", control="none")
    found = explainer(np.tile(X, (80, 1)), budget=200, rng=global_seed).by_group()
    truth = marginal_truth("nested", wide=True)
    check(found, np.stack([truth[[0, 1, 3]].sum(axis=0), truth[[2, 4, 5]].sum(axis=0)]), least=0.9)
    again = explainer(X, budget=200, rng=0)
    mine = again.by_group({"some": ["x1", "x2"], "rest": ["pair", "x4", "x5", "x6"]})
    assert_allclose(mine.values[0, 0], again.values[0, [1, 2]].sum(axis=0))


def test_sums_of_groups_are_drawn_reported_and_ranked(tmp_path):
    found = make("hierarchy", estimator="permutation")(BACKGROUND[:3], budget=150, rng=0).by_group()
    assert found.ranking().feature_names == found.feature_names
    assert found.summary().feature_names == found.feature_names
    with plt.rc_context({"figure.max_open_warning": 0}):
        found.output(0).plot.bar()
        found.output(0).plot.waterfall(0)
        plt.close("all")
    text = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Features of a group of `hierarchy` are revealed together" in text
    with pytest.raises(cs.InvalidArgumentError, match=r"made without `hierarchy`. Name the groups"):
        make("order")(X, budget=400, rng=0).by_group()
    with pytest.raises(cs.InvalidArgumentError, match=r"`groups`: 'a' names 'x9', which is no player"):
        found.by_group({"a": ["x9"]})


def test_refining_stopping_and_data_sets(tmp_path):
    explainer = make("nested", estimator="permutation")
    refined = explainer.refine(explainer(X, budget=150, rng=1), budget=100)
    whole = explainer(X, budget=int(refined.n_evaluations[0]), rng=1)
    assert_array_equal(refined.values, whole.values)
    explainer.save(tmp_path / "explainer")
    loaded = cs.Explainer.load(tmp_path / "explainer", model)
    assert_array_equal(loaded(X, budget=150, rng=0).values, explainer(X, budget=150, rng=0).values)
    direct = explainer(BACKGROUND[:4], budget=150, rng=0)
    explainer.explain_dataset(BACKGROUND[:4], tmp_path / "run", budget=150, part_rows=2, rng=0, progress=False)
    found = cs.load(tmp_path / "run")
    assert_array_equal(found.values, direct.values)
    direct.save(tmp_path / "explanation")
    assert_allclose(cs.load(tmp_path / "explanation").by_group().values, direct.by_group().values)


def test_many_rows_learn_from_each_other_and_no_row_leaves_walks():
    rng = np.random.default_rng(1)
    data, slope = rng.normal(size=(30, 12)), 0.3 * rng.normal(size=12)
    hierarchy = [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9, 10, 11]]

    def jumps(rows):
        return np.sign(rows @ slope + rows[:, 0] * rows[:, 5])

    explainer = cs.Explainer(jumps, data, hierarchy=hierarchy)
    found = explainer(rng.normal(size=(10, 12)), budget=1500, rng=0)
    assert all(method.startswith("Permutation") for method in found.method)
    assert explainer.plan(budget=1500).alternative is None
    exact = explainer(found.data[:1], budget=100_000, rng=0)
    assert exact.status[0] == "exact"
    assert (np.abs(found.values[0] - exact.values[0]) < 5.0 * found.standard_errors[0]).all()


def test_many_columns_in_a_deep_hierarchy():
    rng = np.random.default_rng(0)
    data, slope = rng.normal(size=(20, 200)), rng.normal(size=200) / 14

    def tree(columns):
        half = len(columns) // 2
        return [tree(columns[:half]), tree(columns[half:])] if len(columns) > 2 else columns

    explainer = cs.Explainer(lambda rows: np.tanh(rows @ slope), data, hierarchy=tree(list(range(200))))
    found = explainer(data[0], budget=4000, rng=0)
    assert found.values[0].sum() + found.base_values[0] == pytest.approx(np.tanh(data[0] @ slope))
    assert "LogisticRidge" in found.method[0]


# ------------------------------------------------------------------------------------------------------------ mistakes


RING = ["x1"]
RING.append(RING)
EVERY = ["x0", "x1", "x2", "x3", "x4", "x5", "x6"]
BAD = {
    "an order of words": ({"order": "x1"}, r"`order` must be a list of lists of columns.*got 'x1'"),
    "an order that is a dict": ({"order": {"x1": ["x2"]}}, r"`order` must be a list of lists"),
    "an empty order": ({"order": []}, r"`order` must be a list of lists.*got \[\]"),
    "an empty component": ({"order": [EVERY, []]}, r"`order`: component 2 must be a non-empty list"),
    "a missing column": ({"order": [["x1"], EVERY[2:]]}, r"`order` must name every.*; \['x0'\] is missing"),
    "a repeated column": ({"order": [[*EVERY, "x1"]]}, r"`order`: 'x1' is named twice in component 1"),
    "a cycle": (
        {"order": [["x1"], EVERY[2:], ["x0", "x1"]]},
        r"'x1' is named in component 1 and in component 3, but a player cannot come before and after itself",
    ),
    "an unknown column": ({"order": [["X1", "x2"]]}, r"component 1 names 'X1', which is no column.*Did you mean.*'x1'"),
    "an unknown position": ({"order": [[0, 9]]}, r"component 1 names column 9, but positions run from 0 to 6"),
    "a group in two components": (
        {"order": [["x0", "x1"], ["x2", "x3", "x4", "x5", "x6"]], "groups": {"both": ["x0", "x3"]}},
        r"'both' is named in component 1 and in component 2, but the group would come apart",
    ),
    "a hierarchy of words": ({"hierarchy": "x1"}, r"`hierarchy` must be a dict of lists.*got 'x1'"),
    "an empty hierarchy": ({"hierarchy": {}}, r"`hierarchy` is empty"),
    "a group of a bare name": ({"hierarchy": {"a": "x1"}}, r"group 'a' must be a non-empty list.*Write \['x1'\]"),
    "a group of nothing": ({"hierarchy": {"a": []}}, r"group 'a' must be a non-empty list.*got \[\]"),
    "a column in two groups": (
        {"hierarchy": {"a": ["x1", "x2"], "b": ["x1"]}},
        r"'x1' is named in group 'a' and in group 'b'",
    ),
    "a group that contains itself": ({"hierarchy": {"a": RING}}, r"contains itself"),
    "groups that contradict the hierarchy": (
        {"hierarchy": {"a": ["x0", "x1"], "b": ["x3"]}, "groups": {"both": ["x0", "x3"]}},
        r"'both' is named in group 'a' and in group 'b', but the group would come apart",
    ),
    "order and hierarchy": (
        {"order": [["x0", "x1"], EVERY[2:]], "hierarchy": {"a": ["x1", "x2"]}},
        r"`hierarchy` and `order` contradict each other: 'x1' and 'x2' stand together",
    ),
    "Kernel": (
        {"order": [EVERY[:3], EVERY[3:]], "estimator": "kernel"},
        r"`estimator`: Kernel has no units that respect",
    ),
    "sampling by feature": (
        {"hierarchy": [["x0", "x1"]], "estimator": "per_feature"},
        r"PerFeature has no units.*'permutation'",
    ),
    "Taylor": (
        {"hierarchy": [["x0", "x1"]], "control": "taylor", "estimator": "permutation"},
        r"Taylor.*`order` or `hierarchy`",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_named(name):
    settings, message = BAD[name]
    with pytest.raises(cs.ControlShapError, match=message):
        cs.Explainer(model, BACKGROUND, **settings)(X, budget=400)


def test_interactions_are_refused_and_frames_go_by_names():
    with pytest.raises(cs.InvalidArgumentError, match="`interactions=2` counts all permutations"):
        make("order")(X, budget=400, interactions=2)
    frame = pd.DataFrame(BACKGROUND, columns=list("abcdefg"))
    frame["g"] = np.where(BACKGROUND[:, 6] > 0, "high", "low")

    def of_frame(rows):
        return expit(rows["a"] * rows["b"] - rows["f"] + (rows["g"] == "high"))

    explainer = cs.Explainer(of_frame, frame, order=[["g", "a"], ["b", "c", "d"], ["e", "f"]], features="correlated")
    found = explainer(frame.iloc[:2], budget=600, rng=0)
    assert_allclose(found.values.sum(axis=1) + found.base_values, of_frame(frame.iloc[:2]), atol=1e-9)
