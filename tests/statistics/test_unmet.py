"""Players that few units, or none, have met: what is not known of them is told."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom

import controlshap as cs
from controlshap.data.players import resolve_players
from controlshap.statistics.analysis import Analysis
from controlshap.statistics.control_variate import Estimate
from controlshap.statistics.unseen_rows import Background, Changes, Unmet, changes_of, differing, widened
from controlshap.testing import marginal_game, shapley_by_definition

NAMES = ("a", "b", "c", "d")


def test_a_group_differs_where_one_of_its_columns_does():
    x = np.array([1.0, np.nan, 0.0, 5.0])
    rows = np.array(
        [[1.0, np.nan, 0.0, 5.0], [1.0, 2.0, 0.0, 5.0], [1.0, np.nan, 1.0, 4.0], [np.nan, np.nan, 0.0, 5.0]]
    )
    alone = differing(x, rows, resolve_players(None, NAMES))
    assert_array_equal(alone, [[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0]])
    grouped = differing(x, rows, resolve_players({"g": ["a", "c"]}, NAMES))
    assert_array_equal(grouped, [[0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 0, 0]])


def estimate_of(n_players, n_outputs, seed=0):
    """Six roots that sum to zero, nine degrees of freedom."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6, n_players + 1, n_outputs))
    values = rng.normal(size=(n_players + 1, n_outputs))
    return Estimate(values, rows - rows.mean(axis=1, keepdims=True), np.full(values.shape, 9.0))


def of_model(changes, n_players):
    """Without controls."""
    nothing = np.zeros((*changes.shape, 0))
    return Changes(changes, nothing, nothing[:n_players])


@pytest.mark.parametrize("closes_sum", [True, False])
def test_what_was_not_met_and_by_how_many(closes_sum):
    # 40 rows: player 0 differs in all, 1 in rows 0 to 3, 2 in rows 38 and 39, 3 in none
    differ = np.zeros((40, 4), dtype=bool)
    differ[:, 0], differ[:4, 1], differ[38:, 2] = True, True, True
    changes = np.column_stack([np.tile([1.0, -1.0], 20), np.tile([0.0, 10.0], 20)])
    changes[38:, 0] = 4.0, 3.0
    unmet = Unmet(differ, np.arange(20)[:, None] % 10)
    assert_array_equal(unmet.n_met(), [20, 8, 0, 0])
    estimate = estimate_of(4, 2)
    found = unmet.widen(estimate, unmet.n_met(), of_model(changes, 4), closes_sum=closes_sum)
    assert_array_equal(found.values, estimate.values)
    assert_array_equal(found.dof[:, 0], [9, 7, 9, 9, 9])  # rows 0 to 3 twice each, less one
    # its two of forty rows: 4 and 3 in the first output, and 0 and 10 in the second
    missing = 0.05 * np.sqrt([12.5, 50.0])
    # the first output varies more in all rows than in those met, where it is 1 or -1
    of_all = changes[:, 0].var()
    assert of_all > 1.5
    shown = estimate.variances[:-1, 0].sum()
    inflation = np.array([1.0 + 0.75 * (of_all - 1.0) / 20 / shown, 1.0])
    others = missing**2 / 9.0 if closes_sum else np.zeros(2)
    expected = estimate.variances * inflation + np.array([others, others, missing**2, others, 0.0 * others])
    assert_allclose(found.variances, expected)
    assert (np.abs(found.rows.sum(axis=1)).max() < 1e-12) == closes_sum


def test_several_draws_are_met_by_one_unit():
    differ = np.zeros((40, 4), dtype=bool)
    differ[:, 0], differ[:4, 1], differ[38:, 2] = True, True, True
    unmet = Unmet(differ, np.array([[0, 38], [5, 6], [7, 39], [8, 9]]))
    assert_array_equal(unmet.n_met(), [4, 1, 2, 0])
    found = unmet.widen(estimate_of(4, 1), unmet.n_met(), of_model(np.ones((40, 1)), 4), closes_sum=True)
    assert_array_equal(found.dof[:, 0], [9, 1, 1, 9, 9])
    assert len(found.rows) == 6  # nobody is left out


def test_what_controls_leave_is_what_matters():
    """A surrogate, and two learners with two coefficients each, that have all of the model but in row 3."""
    rng = np.random.default_rng(0)
    rows, x = rng.normal(size=(10, 2)), np.zeros(2)

    def fitted(some):
        return np.stack([some, some**2], axis=-1)[:, :1]  # (rows, outputs, learners), of the first column

    made = rows[:, 1] ** 3
    model = 0.5 * made + 2.0 * rows[:, 0] - rows[:, 0] ** 2
    model[3] += 7.0
    background = Background(rows, np.stack([model, made], axis=-1)[:, None], x, np.zeros((1, 2)))
    alpha = np.tile([0.5, 2.0, 99.0, -1.0, 99.0], (3, 1, 1))
    left = changes_of(alpha[:-1], background, fitted).left()
    assert_allclose(left[:, 0], np.where(np.arange(10) == 3, -7.0, 0.0), atol=1e-12)
    # rows 0 to 2 were met: the units show next to nothing, and row 3 is missing
    unmet = Unmet(np.ones((10, 2), dtype=bool), np.arange(3)[:, None])
    estimate = estimate_of(2, 1)
    analysis = Analysis(estimate, estimate, np.zeros((3, 1)), alpha)
    found = widened(analysis, unmet, background, fitted, closes_sum=True)
    added = (found.controlled.variances - estimate.variances)[:-1].sum()
    assert_allclose(added, 0.7 * 49.0 * 0.09 / 3)
    alpha[0, 0, 0] = 0.8  # of other coefficients than the rest: they do not add up to what is left
    assert_array_equal(widened(analysis, unmet, background, fitted, closes_sum=True).controlled.rows, estimate.rows)
    # a player that no unit met, and that no control serves: the model is missing, not what is left of it
    alpha[1], unmet.differ[:9, 1] = 0.0, False
    unmet.differ[0, 0] = False
    alone = widened(analysis, unmet, background, fitted, closes_sum=True).controlled
    assert_allclose(alone.rows[-1, 1, 0], 0.1 * max(abs(model[9]), model.std()))
    complete = widened(analysis, Unmet(unmet.differ, np.arange(10)[:, None]), background, fitted, closes_sum=True)
    assert_array_equal(complete.controlled.rows, estimate.rows)


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
    monkeypatch.setattr(Unmet, "widen", lambda unmet, estimate, n_met, changes, closes_sum: estimate)


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
