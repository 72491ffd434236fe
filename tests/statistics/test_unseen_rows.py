"""Players of which few units tell, or none: the errors say what is not known of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom

import controlshap as cs
from controlshap.data.players import resolve_players
from controlshap.statistics.analysis import Analysis
from controlshap.statistics.control_variate import Estimate
from controlshap.statistics.unseen_rows import UnseenRows, add_unseen_rows, differs_from_x
from controlshap.testing import marginal_game, shapley_by_definition

NAMES = ("a", "b", "c", "d")


def test_a_group_differs_where_one_of_its_columns_does(as_array):
    x = np.array([1.0, np.nan, 0.0, 5.0])
    rows = np.array(
        [[1.0, np.nan, 0.0, 5.0], [1.0, 2.0, 0.0, 5.0], [1.0, np.nan, 1.0, 4.0], [np.nan, np.nan, 0.0, 5.0]]
    )
    alone = differs_from_x(as_array(x), as_array(rows), resolve_players(None, NAMES))
    assert_array_equal(alone, [[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0]])
    grouped = differs_from_x(as_array(x), as_array(rows), resolve_players({"g": ["a", "c"]}, NAMES))
    assert_array_equal(grouped, [[0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 0, 0]])
    several = differs_from_x(as_array(np.stack([x, rows[1]])), as_array(rows), resolve_players(None, NAMES))
    assert_array_equal(several[0], alone)
    assert_array_equal(several[1][1], [0, 0, 0, 0])


def estimate_of(n_players, n_outputs, as_array=np.asarray, seed=0):
    """Six factors that sum to zero, nine degrees of freedom."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(6, n_players + 1, n_outputs))
    values = rng.normal(size=(n_players + 1, n_outputs))
    arrays = values, factors - factors.mean(axis=1, keepdims=True), np.full(values.shape, 9.0)
    return Estimate(*map(as_array, arrays))


def without_control(estimate):
    return Analysis(estimate, estimate, estimate.values * 0.0, (estimate.values * 0.0)[..., None][..., :0])


@pytest.mark.parametrize("efficient", [True, False])
def test_what_was_not_drawn_and_by_how_many(efficient, as_array):
    # 40 rows: player 0 differs in all, 1 in rows 0 to 3, 2 in rows 38 and 39, 3 in none
    differs = np.zeros((40, 4), dtype=bool)
    differs[:, 0], differs[:4, 1], differs[38:, 2] = True, True, True
    changes = np.column_stack([np.tile([1.0, -1.0], 20), np.tile([0.0, 10.0], 20)])
    changes[38:, 0] = 4.0, 3.0
    unseen = UnseenRows(*map(as_array, (differs, np.arange(20)[:, None] % 10, changes[..., None])))
    assert_array_equal(unseen.n_telling, [20, 8, 0, 0])
    estimate = estimate_of(4, 2, as_array)
    widened = add_unseen_rows(without_control(estimate), unseen, efficient=efficient).controlled
    assert_array_equal(widened.values, estimate.values)
    assert_array_equal(widened.dof[:, 0], [9, 7, 9, 9, 9])  # rows 0 to 3 twice each, less one
    # its two of forty rows: 4 and 3 in the first output, and 0 and 10 in the second
    missing = 0.05 * np.sqrt([12.5, 50.0])
    # the first output varies more in all rows than in those drawn, where it is 1 or -1
    of_all, variances = changes[:, 0].var(), np.asarray(estimate.variances)
    assert of_all > 1.5
    shown = variances[:-1, 0].sum()
    inflation = np.array([1.0 + 0.75 * (of_all - 1.0) / 20 / shown, 1.0])
    others = missing**2 / 9.0 if efficient else np.zeros(2)
    expected = variances * inflation + np.array([others, others, missing**2, others, 0.0 * others])
    assert_allclose(widened.variances, expected)
    assert (np.abs(np.asarray(widened.factors.sum(axis=1))).max() < 1e-12) == efficient


def test_one_unit_of_several_draws_tells_of_all_its_rows(as_array):
    differs = np.zeros((40, 4), dtype=bool)
    differs[:, 0], differs[:4, 1], differs[38:, 2] = True, True, True
    drawn = np.array([[0, 38], [5, 6], [7, 39], [8, 9]])
    unseen = UnseenRows(*map(as_array, (differs, drawn, np.ones((40, 1, 1)))))
    assert_array_equal(unseen.n_telling, [4, 1, 2, 0])
    widened = add_unseen_rows(without_control(estimate_of(4, 1, as_array)), unseen, efficient=True).controlled
    assert_array_equal(widened.dof[:, 0], [9, 1, 1, 9, 9])
    assert len(widened.factors) == 6  # nobody is left out


def test_what_controls_leave_is_what_matters(as_array):
    """A surrogate, and two learners with two coefficients each, that have all of the model but in row 3."""
    rng = np.random.default_rng(0)
    rows, zero = rng.normal(size=(10, 2)), np.zeros((1, 2))

    def fitted(some):
        return np.stack([some, some**2], axis=-1)[:, :1]  # (rows, outputs, learners), of the first column

    prepared = rows[:, 1] ** 3
    model = 0.5 * prepared + 2.0 * rows[:, 0] - rows[:, 0] ** 2
    model[3] += 7.0
    changes = as_array(-np.stack([model, prepared], axis=-1)[:, None])
    estimate = estimate_of(2, 1, as_array)

    def widened(alpha, differs, drawn):
        analysis = Analysis(estimate, estimate, estimate.values * 0.0, as_array(alpha))
        unseen = UnseenRows(as_array(differs), as_array(drawn[:, None]), changes)
        changed = add_unseen_rows(analysis, unseen, lambda: as_array(fitted(zero) - fitted(rows)), efficient=True)
        return changed.controlled

    # rows 0 to 2 were drawn: the units show next to nothing, and row 3 is missing
    alpha, differs, drawn = np.tile([0.5, 2.0, 99.0, -1.0, 99.0], (3, 1, 1)), np.ones((10, 2), dtype=bool), np.arange(3)
    added = np.asarray(widened(alpha, differs, drawn).variances - estimate.variances)[:-1].sum()
    assert_allclose(added, 0.7 * 49.0 * 0.09 / 3)
    alpha[0, 0, 0] = 0.8  # of other coefficients than the rest: they do not add up to what is left
    assert_array_equal(widened(alpha, differs, drawn).factors, estimate.factors)
    # a player that no unit tells of, and that no control serves: the model is missing, not what is left of it
    alpha[1], differs[:9, 1], differs[0, 0] = 0.0, False, False
    alone = widened(alpha, differs, drawn)
    assert_allclose(alone.factors[-1, 1, 0], 0.1 * max(abs(model[9]), model.std()))
    assert_array_equal(widened(alpha, differs, np.arange(10)).factors, estimate.factors)


@pytest.mark.parametrize("n_controls", [0, 2])
def test_unseen_rows_of_rows_together(n_controls, as_array):
    """Rows that have drawn other rows, with other players that nothing tells of, are widened as each alone."""
    rng = np.random.default_rng(3)
    differs = rng.random((3, 30, 4)) < np.array([1.0, 0.05, 0.1, 0.0])
    drawn, changes = rng.integers(0, 30, size=(3, 12, 1)), rng.standard_t(2, size=(3, 30, 2, 1 + n_controls))
    alpha = np.tile(rng.normal(size=(1, 1, 2, n_controls)), (3, 5, 1, 1))
    values, factors = rng.normal(size=(3, 5, 2)), rng.normal(size=(3, 7, 5, 2))

    def widened(differs, drawn, changes, alpha, values, factors):
        estimate = Estimate(values, factors, values * 0.0 + 9.0)
        analysis = Analysis(estimate, estimate, values * 0.0, alpha)
        return add_unseen_rows(analysis, UnseenRows(differs, drawn, changes), efficient=True)

    arrays = differs, drawn, changes, alpha, values, factors
    together = widened(*map(as_array, arrays))
    silent = 0
    for row in range(3):
        alone = widened(*(array[row] for array in arrays))
        silent += len(alone.controlled.factors) - 7
        for name in ("controlled", "uncontrolled"):
            ours, theirs = getattr(together, name), getattr(alone, name)
            assert_allclose(ours.variances[row], theirs.variances, rtol=1e-12)
            assert_array_equal(ours.dof[row], theirs.dof)
    assert silent > 0


# ------------------------------------------------------------------------------------------------------- explanations

RNG = np.random.default_rng(0)
BACKGROUND = RNG.normal(size=(400, 6))
BACKGROUND[:, 4] = RNG.permutation(400) < 8
BACKGROUND[:, 5] = RNG.permutation(400) < 4
X = np.array([0.3, -0.2, 0.5, 0.1, 0.0, 0.0])


def model(rows):
    score = 1.5 * rows[:, 0] - rows[:, 1] + rows[:, 2] * rows[:, 3] + 2.0 * rows[:, 4] - 2.0 * rows[:, 5] * rows[:, 0]
    probability = 1.0 / (1.0 + np.exp(-score))
    return np.column_stack([probability, rows[:, 0] + 3.0 * rows[:, 4] * rows[:, 1]])


def truth(groups):
    return shapley_by_definition(marginal_game(model, X, BACKGROUND, groups), len(groups))


def without(monkeypatch):
    monkeypatch.setattr(UnseenRows, "widen", lambda unseen, estimate, controls, alpha, efficient: estimate)


def test_a_player_that_no_unit_has_met_has_an_error(monkeypatch):
    explainer = cs.Explainer(model, BACKGROUND, estimator="permutation", control="none")
    found = explainer(np.tile(X, (12, 1)), budget=1 + 10 * 10, rng=0)
    spread = model(BACKGROUND).std(axis=0)
    silent = np.abs(found.values[:, 5]).max(axis=1) < 1e-12  # closing the sum gives nothing to who does not vary
    assert 0.5 < silent.mean() < 1.0  # ten of 400 rows: none of four differs in 90 %
    assert (found.standard_errors[silent, 5] >= 0.99 * 0.01 * spread).all()
    without(monkeypatch)  # Negative control
    assert explainer(np.tile(X, (12, 1)), budget=1 + 10 * 10, rng=0).standard_errors[silent, 5].max() < 1e-12


def test_nothing_is_added_once_a_row_was_met(monkeypatch):
    explainer = cs.Explainer(model, BACKGROUND, estimator="permutation", control="none")
    found = explainer(X[None], budget=1 + 10 * 800, rng=0)  # two passes
    assert found.complete.all()
    assert (found.degrees_of_freedom[0, 4:].max(axis=-1) <= [15.0, 7.0]).all()  # 16 and 8 units have met them
    exact = cs.Explainer(model, BACKGROUND)(X[None], budget=30_000, rng=0)
    assert exact.status[0] == "exact"
    assert np.isinf(exact.degrees_of_freedom).all()
    without(monkeypatch)
    again = explainer(X[None], budget=1 + 10 * 800, rng=0)
    assert_array_equal(again.standard_errors, found.standard_errors)
    assert_array_equal(again.degrees_of_freedom[0, :4], found.degrees_of_freedom[0, :4])


CASES = {
    "walks": ({"estimator": "permutation", "control": "none"}, None),
    "walks, ridge": ({"estimator": "permutation", "control": "ridge"}, None),
    "kernel": ({"estimator": cs.Kernel(n_draws=2), "control": "none"}, None),
    "groups": ({"estimator": "permutation", "control": "ridge"}, {"both": [4, 5]}),
    "taylor": ({"estimator": "permutation", "control": "taylor"}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_intervals_of_rare_players_cover(case, global_seed, monkeypatch):
    settings, groups = CASES[case]
    members = [[0], [1], [2], [3], [4, 5]] if groups else [[j] for j in range(6)]
    expected, rare, n = truth(members), slice(4, None), 60
    explainer = cs.Explainer(model, BACKGROUND, groups=groups, **settings)

    def covered():
        found = explainer(np.tile(X, (n, 1)), budget=500, rng=global_seed)
        low, high = found.confidence_interval(0.95)
        return ((low <= expected) & (expected <= high))[:, rare].mean(axis=0)

    lowest = binom.ppf(1e-4, n, 0.95) / n  # 82 %
    assert (covered() >= lowest).all()
    if case != "kernel":  # where other players' noise is in every value
        without(monkeypatch)  # Negative control: 50 units, and columns that differ in 1 and 2 %
        assert covered().min() < (lowest if case != "groups" else 0.95)
