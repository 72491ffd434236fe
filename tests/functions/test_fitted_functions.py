"""Functions that are fitted to a model: their Shapley values against enumeration, and what a fit must keep to.

Values are held against the definition for every draw on its own. A fit that leaves a fold out must not know anything
of it: outputs inside the fold are replaced by nonsense, and the fit must stay as it was.
"""

import lightgbm
import numpy as np
import pytest
import xgboost
from conftest import make_data
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression

import controlshap as cs
from controlshap.controls import trees as boosting
from controlshap.controls.base import FoldedRows
from controlshap.controls.network import fit_network
from controlshap.controls.polynomial import fit_polynomial
from controlshap.controls.ridge import fit_logistic, fit_ridge
from controlshap.crossfitting.folds import deal
from controlshap.data.players import resolve_players
from controlshap.functions.base import Sum
from controlshap.functions.logistic import WIDEST
from controlshap.functions.network import PRECISION, Network
from controlshap.functions.polynomial import Quadratic
from controlshap.functions.waves import Waves
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import visit_sequence
from controlshap.testing import marginal_game, shapley_by_definition

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # lightgbm invents names

NAMES = tuple(f"c{i}" for i in range(7))
GROUPINGS = {"alone": None, "one-hot": {"level": [4, 5, 6]}, "mixed": [[0, 3, 5], [1, 6]]}
DATA = make_data(n_rows=60, seed=4, grouped=False)
LEARNERS = {
    "ridge": cs.LogisticRidge(),
    "network": cs.RidgeNetwork(3),
    "polynomial": cs.Polynomial(),
    "polynomial, few terms": cs.Polynomial(max_terms=13),
    "waves": cs.WaveNetwork(8, n_steps=60),
    "waves alone": cs.WaveNetwork(8, n_steps=60, start=None),
    "trees": cs.Trees(n_trees=6, n_leaves=5),
    "trees on a network": cs.Trees(n_trees=6, n_leaves=5, start=cs.RidgeNetwork(2)),
    "trees on a polynomial": cs.Trees(n_trees=6, n_leaves=5, start=cs.Polynomial()),
    "polynomial on a ridge": cs.Polynomial(start=cs.LogisticRidge()),
    "shallow trees": cs.ShallowTrees(n_trees=3, depth=3),
    "shallow trees alone": cs.ShallowTrees(n_trees=3, depth=3, start=None),
    "trees alone": cs.Trees(n_trees=6, n_leaves=5, start=None),
}


def folded(n_rows=240, seed=0, output=None):
    """Rows as walks evaluate them (columns of x and of the background mixed), in five folds and none."""
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((n_rows, 7)) < 0.5, DATA.x, DATA.background[rng.integers(0, 60, n_rows)])
    outputs = DATA.model(rows) if output is None else output(rows)
    return FoldedRows(rows, outputs, rng.integers(-1, 5, n_rows))


def some_draws():
    """Draws among which is x itself, one that shares columns with x, and one that is far away."""
    draws = DATA.background[:4].copy()
    draws[1] = DATA.x
    draws[2, :3] = DATA.x[:3]
    draws[3, :4] *= 4.0
    return draws


def network(n_units, *, linear):
    rng = np.random.default_rng(n_units)
    slope = rng.normal(size=7) if linear else np.zeros(7)
    return Network(0.3, slope, rng.normal(size=(n_units, 7)), rng.normal(size=n_units), 2.0 * rng.normal(size=n_units))


def waves(n):
    rng = np.random.default_rng(n)
    return Waves(0.3, rng.normal(size=7), rng.normal(size=(n, 7)), rng.normal(size=n), rng.normal(size=n))


def quadratic():
    rng = np.random.default_rng(1)
    bend = rng.normal(size=(7, 7))
    return Quadratic(-0.7, rng.normal(size=7), bend + bend.T)


def boosted():
    return boosting.fit_boosting(folded(), None, 8, 6, 0.3)


def boosted_without_lightgbm():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosting, "find_spec", lambda name: None if name == "lightgbm" else object())
        function = boosting.fit_boosting(folded(), None, 8, 6, 0.3)
    assert function.text is None
    return function


FUNCTIONS = {
    "network of one": lambda: network(1, linear=False),
    "network of one with a linear part": lambda: network(1, linear=True),
    "network of three": lambda: network(3, linear=True),
    "waves": lambda: waves(3),
    "quadratic": quadratic,
    "lightgbm": boosted,
    "scikit-learn": boosted_without_lightgbm,
    "sum": lambda: Sum(Sum(network(2, linear=True), quadratic()), boosted()),
    **{f"fitted {name}": lambda one=learner: one.fit(folded(), 2) for name, learner in LEARNERS.items()},
}


def precision(function):
    """The quadrature is off by PRECISION of a unit's scale at most, and a value is a mean of differences."""
    if isinstance(function, Sum):
        return precision(function.first) + precision(function.second)
    return 1e-9 + (2.0 * PRECISION * np.abs(function.scales).sum() if isinstance(function, Network) else 0.0)


def check_values(function):
    x, draws, tolerance = DATA.x, some_draws(), precision(function)
    for groups in GROUPINGS.values():
        players = resolve_players(groups, NAMES)
        found = function.draw_values(x, draws, players)
        for draw, of_draw in zip(draws, found, strict=True):
            game = marginal_game(function.predict, x, draw[None], players.columns)
            assert_allclose(of_draw, shapley_by_definition(game, players.n_players)[:, 0], rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_of_every_draw_are_those_of_the_definition(name):
    check_values(FUNCTIONS[name]())


def test_values_of_another_function_are_caught():
    # Negative control: one weight that values and predictions do not share.
    right = network(3, linear=True)
    bent = right.weights.copy()
    bent[0, 3] += 1e-5

    class Wrong:
        predict = staticmethod(right.predict)
        draw_values = Network(right.constant, right.linear, bent, right.intercepts, right.scales).draw_values

    with pytest.raises(AssertionError):
        check_values(Wrong())


def test_a_score_beyond_the_quadrature_has_no_values():
    steep = Network(0.0, np.zeros(7), np.full((1, 7), 2.0 * WIDEST), np.zeros(1), np.ones(1))
    players = resolve_players(None, NAMES)
    assert steep.draw_values(DATA.x, DATA.background, players) is None
    assert Sum(steep, quadratic()).draw_values(DATA.x, DATA.background, players) is None
    assert Sum(quadratic(), steep).draw_values(DATA.x, DATA.background, players) is None


ROWS = folded(400, seed=1).rows
ONE, FEW = {"random_state": 0}, {"n_estimators": 6, "random_state": 0}
GIVEN = {
    "forest": lambda: RandomForestRegressor(max_depth=5, **FEW),
    "extra trees": lambda: ExtraTreesRegressor(max_depth=5, **FEW),
    "boosting": lambda: GradientBoostingRegressor(**FEW),
    "histogram": lambda: HistGradientBoostingRegressor(max_iter=6, max_leaf_nodes=7, **ONE),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=6, num_leaves=6, n_jobs=1, verbose=-1),
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=6, max_depth=3, n_jobs=1),
}


@pytest.mark.parametrize("name", GIVEN)
def test_values_of_a_given_ensemble_are_those_of_the_definition(name):
    model = GIVEN[name]().fit(ROWS, DATA.model(ROWS))
    function = cs.Trees(model=model).fit(folded(), 0)
    # xgboost adds its trees in single precision; the rest is exact
    assert_allclose(function.predict(ROWS), model.predict(ROWS), atol=1e-5 if name == "xgboost" else 1e-10)
    check_values(function)


def test_every_output_of_a_given_forest_has_its_own_values():
    classes = np.digitize(DATA.model(ROWS), [-0.3, 0.3])
    model = RandomForestClassifier(max_depth=4, **FEW).fit(ROWS, classes)
    data, trees = folded(), cs.Trees(model=model)
    for output in range(3):
        function = trees.fit(FoldedRows(data.rows, data.outputs, data.fold, output), None)
        assert_allclose(function.predict(ROWS), model.predict_proba(ROWS)[:, output], atol=1e-12)
        check_values(function)
    with pytest.raises(cs.InvalidArgumentError, match="fewer outputs"):
        trees.fit(FoldedRows(data.rows, data.outputs, data.fold, 3), None)


def test_a_model_that_is_no_sum_of_trees_is_refused():
    with pytest.raises(cs.InvalidArgumentError, match="sum of trees"):
        cs.Trees(model=LinearRegression().fit(ROWS, ROWS[:, 0]))


# ---------------------------------------------------------------------------------------------------- what fits find


def test_a_polynomial_is_found_again():
    wanted = quadratic()
    found, _ = fit_polynomial(folded(output=wanted.predict), 3, 2, 300)
    rows = folded(seed=9).rows
    # the penalty of 1e-6 per row moves coefficients by about that share
    assert_allclose(found.predict(rows), wanted.predict(rows), atol=1e-3 * np.ptp(wanted.predict(rows)))


def test_degree_one_has_no_products_and_finds_a_line():
    slope = np.arange(7.0)
    data = folded(output=lambda rows: rows @ slope + 2.0)
    found, _ = fit_polynomial(data, None, 1, 300)
    assert not found.quadratic.any()
    assert_allclose(found.predict(data.rows), data.outputs, atol=1e-3 * np.ptp(data.outputs))


@pytest.mark.parametrize(("max_terms", "most_columns"), [(7, 0), (8, 1), (9, 1), (10, 2), (12, 2), (13, 3), (300, 7)])
def test_products_are_of_the_columns_that_matter_most(max_terms, most_columns):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 7))
    effects = np.array([0.1, 5.0, 0.2, 4.0, 0.3, 3.0, 0.4])
    data = FoldedRows(rows, rows @ effects + rows[:, 1] * rows[:, 3], np.zeros(300, dtype=int))
    found, _ = fit_polynomial(data, None, 2, max_terms)
    assert_allclose(found.quadratic, found.quadratic.T, rtol=1e-12)
    used = np.flatnonzero(found.quadratic.any(axis=0))
    strongest = np.argsort(-effects)[:most_columns]
    assert_array_equal(used, np.sort(strongest))
    assert 7 + len(used) * (len(used) + 1) // 2 <= max(7, max_terms)
    if most_columns >= 2:
        assert abs(found.quadratic[1, 3] - 0.5) < 1e-3


@pytest.mark.parametrize("name", LEARNERS)
def test_constant_columns_have_no_part(name):
    data = folded()
    rows = data.rows.copy()
    rows[:, 2] = 3.0
    function = LEARNERS[name].fit(FoldedRows(rows, DATA.model(rows), data.fold), 1)
    moved = rows.copy()
    moved[:, 2] = -40.0
    assert_array_equal(function.predict(moved), function.predict(rows))
    values = function.draw_values(moved[0], rows[:5], resolve_players(None, NAMES))
    assert_allclose(values[:, 2], 0.0, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 7.0, -1e-9])
@pytest.mark.parametrize("name", LEARNERS)
def test_constant_outputs_are_no_trouble(name, value):
    data = folded(output=lambda rows: np.full(len(rows), value))
    function = LEARNERS[name].fit(data, 0)
    # a ridge takes a constant to lie within a range of 2: its penalty leaves a share of that
    assert_allclose(function.predict(data.rows), value, atol=1e-4)
    assert np.abs(function.draw_values(DATA.x, DATA.background, resolve_players(None, NAMES))).max() < 1e-4


@pytest.mark.parametrize("name", ["ridge", "network", "trees"])
def test_separable_data_keep_values_in_reach(name):
    data = folded(output=lambda rows: (rows[:, 0] > 0.2).astype(float))
    function = LEARNERS[name].fit(data, 0)
    values = function.draw_values(DATA.x, DATA.background, resolve_players(None, NAMES))
    assert values is not None
    assert np.abs(values).max() < 2.0
    smooth = function.first if isinstance(function, Sum) else function
    assert np.abs(data.rows @ smooth.weights.T).max() < WIDEST


def steep_relu(rows):
    """A network of ReLU units whose probability is nearly a step; about one row in ten is on its upper side."""
    rng = np.random.default_rng(1)
    hidden = np.maximum(rows @ (rng.normal(size=(16, 20)) / np.sqrt(20.0)).T, 0.0)
    return expit(30.0 * (hidden @ (rng.normal(size=16) / 4.0) - 0.4))


def walked(n_pairs, seed):
    """Rows of pairs of walks between one x and draws of 20 correlated columns, pairs dealt to five folds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1 + n_pairs, 20)) + 0.5 * rng.normal(size=(1 + n_pairs, 1))
    places = np.argsort(rng.permuted(np.tile(np.arange(20), (n_pairs, 1)), axis=1), axis=1)
    both = np.stack([places, 19 - places], axis=1)[:, :, None]  # (pairs, 2, 1, columns)
    rows = np.where(both < np.arange(1, 20)[:, None], X[0], X[1:, None, None]).reshape(-1, 20)
    return X[0], X[1:], FoldedRows(rows, steep_relu(rows), np.repeat(np.arange(n_pairs) % 5, 38))


@pytest.mark.parametrize("seed", range(12))
def test_a_ridge_does_not_diverge_on_a_steep_network(seed):
    """Whole Newton steps on the likelihood do: most of these seeds had a fit that was worse than a constant."""
    x, draws, data = walked(17, seed)
    players = resolve_players(None, [str(c) for c in range(20)])
    for fold in range(5):
        keep = data.others(fold)
        function = fit_ridge(data, fold)
        error = ((function.predict(data.rows[keep]) - data.outputs[keep]) ** 2).mean()
        assert error < 0.5 * data.outputs[keep].var()
        assert function.draw_values(x, draws, players) is not None


def test_a_linear_function_is_found_by_a_ridge_that_may_be_linear():
    slope = np.arange(1.0, 8.0)
    data = folded(200, output=lambda rows: 3.0 + rows @ slope)
    keep = data.fold == 1
    gaps = [fit(data, 1).predict(data.rows[keep]) - data.outputs[keep] for fit in (fit_ridge, fit_logistic)]
    left = [np.abs(gap).max() / data.outputs.std() for gap in gaps]
    assert left[0] < 1e-4
    assert left[1] > 0.01  # a logistic function bends


def test_a_network_beats_its_ridge_and_finds_small_networks():
    wanted = network(2, linear=True)
    data = folded(600, output=wanted.predict)
    rows = folded(400, seed=5).rows
    spread = wanted.predict(rows).var()
    left = {
        name: ((fit.predict(rows) - wanted.predict(rows)) ** 2).mean() / spread
        for name, fit in (("ridge", fit_ridge(data, 1)), ("network", fit_network(data, 1, 4)))
    }
    assert left["network"] < 1e-3
    assert left["network"] < 0.1 * left["ridge"]


# ------------------------------------------------------------------------------------------------- folds leave no trace


def nonsense(outputs, kind, rng):
    return {
        "shuffled": lambda: rng.permutation(outputs),
        "shifted": lambda: outputs + 3.0,
        "wild": lambda: 1e3 * rng.normal(size=len(outputs)),
    }[kind]()


@pytest.mark.parametrize("kind", ["shuffled", "shifted", "wild"])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_fold_left_out_leaves_no_trace(name, kind):
    data = folded(150)
    outputs = data.outputs.copy()
    inside = data.fold == 2
    outputs[inside] = nonsense(outputs[inside], kind, np.random.default_rng(3))
    one, other, third = (
        LEARNERS[name].fit(FoldedRows(data.rows, said, data.fold), fold).predict(data.rows)
        for said, fold in ((data.outputs, 2), (outputs, 2), (outputs, 1))
    )
    # Subtracting the Gram matrix of a fold leaves rounding, of the size of what was subtracted; the rest is exact.
    if "polynomial" in name:
        assert_allclose(other, one, rtol=0, atol=1e-9)
    else:
        assert_array_equal(other, one)
    assert np.abs(third - one).max() > 1e-3  # and the same outputs are seen where they are not left out


@pytest.mark.parametrize("name", LEARNERS)
def test_rows_of_no_fold_serve_every_fit(name):
    data = folded(150)
    outputs = data.outputs.copy()
    outputs[data.fold == -1] += 1.0
    for fold in (0, 4, None):
        one, other = (
            LEARNERS[name].fit(FoldedRows(data.rows, said, data.fold), fold).predict(data.rows)
            for said in (data.outputs, outputs)
        )
        assert np.abs(other - one).max() > 1e-3


@pytest.mark.parametrize("name", LEARNERS)
def test_a_fit_is_the_same_whichever_fold_came_first(name):
    learner = LEARNERS[name]
    one, other = folded(150), folded(150)
    rows = one.rows
    forwards = [learner.fit(one, k).predict(rows) for k in (0, 1, 2)]
    backwards = [learner.fit(other, k).predict(rows) for k in (2, 1, 0)][::-1]
    assert_array_equal(forwards, backwards)
    assert learner.fit(one, 1) is learner.fit(one, 1)


def test_thinned_rows_are_evenly_spread_and_always_the_same():
    data = folded(1000)
    assert data.thin(1000) is data
    thin = data.thin(90)
    assert data.thin(90) is thin
    assert 80 <= len(thin.rows) <= 90
    numbered = FoldedRows(np.arange(1000.0)[:, None], data.outputs, data.fold).thin(90)
    chosen = numbered.rows[:, 0].astype(int)
    assert (chosen[0], chosen[-1]) == (0, 999)
    assert np.ptp(np.diff(chosen)) <= 1
    assert_array_equal(thin.rows, data.rows[chosen])
    assert_array_equal(thin.outputs, data.outputs[chosen])
    assert_array_equal(thin.fold, data.fold[chosen])
    assert set(thin.fold) == set(data.fold)
    assert thin.output == data.output


def test_settings_that_limit_rows_are_kept_to():
    data = folded(1000)
    outputs = data.outputs.copy()
    kept = np.unique(np.linspace(0, 999, 100).astype(int))
    outputs[np.setdiff1d(np.arange(1000), kept)] = 1e3  # never looked at
    other = FoldedRows(data.rows, outputs, data.fold)
    for learner in (cs.LogisticRidge(max_rows=100), cs.RidgeNetwork(2, max_rows=100), cs.Polynomial(max_rows=100)):
        assert_array_equal(learner.fit(other, 0).predict(data.rows), learner.fit(data, 0).predict(data.rows))


# ------------------------------------------------------------------------------------------------------------- dealing


def cycles(n_blocks, n_units, seed=0):
    return TwoStageDesign(visit_sequence(n_blocks, n_units, np.random.default_rng(seed)), n_blocks)


@pytest.mark.parametrize("n_folds", [2, 3, 5])
@pytest.mark.parametrize("n_units", [40, 47, 60, 133])
def test_visits_of_a_row_go_to_different_folds_when_every_row_has_two(n_folds, n_units):
    strata = cycles(20, n_units)
    assert strata.visits.min() >= 2
    fold = deal(strata, n_folds, np.random.default_rng(1))
    assert set(fold) == set(range(n_folds))
    for block in range(20):
        counts = np.bincount(fold[strata.index == block], minlength=n_folds)
        assert counts.max() - counts.min() <= 1
    assert np.bincount(fold).min() > 0.4 * n_units / n_folds


@pytest.mark.parametrize("n_units", [3, 10, 24, 39])
def test_rows_are_dealt_whole_before_that(n_units):
    strata = cycles(20, n_units)
    assert len(strata.visits) < 20 or strata.visits.min() < 2
    fold = deal(strata, 5, np.random.default_rng(1))
    for block in np.unique(strata.index):
        assert len(set(fold[strata.index == block])) == 1
    blocks = np.bincount([fold[strata.index == block][0] for block in np.unique(strata.index)])
    assert blocks.max() - blocks.min() <= 1
    assert len(blocks) == min(5, len(strata.visits))


def test_visits_of_a_row_that_is_taken_all_go_to_different_folds():
    """Every fit then knows of it, and what it shows cancels what the others show less."""
    labels = np.concatenate([np.zeros(12, dtype=np.int64), np.arange(1, 15)])
    strata = TwoStageDesign(labels, 40, taken=np.array([0]))
    fold = deal(strata, 5, np.random.default_rng(1))
    assert sorted(np.bincount(fold[:12])) == [2, 2, 2, 3, 3]
    assert sorted(np.bincount(fold[12:])) == [2, 3, 3, 3, 3]


def test_independent_units_are_dealt_one_by_one():
    fold = deal(TwoStageDesign.independent(103), 5, np.random.default_rng(0))
    counts = np.bincount(fold)
    assert (counts.min(), counts.max()) == (20, 21)
    assert np.abs(np.corrcoef(fold, np.arange(103))[0, 1]) < 4 / np.sqrt(103)  # no pattern in time, level 1e-4
