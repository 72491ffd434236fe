"""Errors of rows that a device explains together: rare rows, and rows that stop on their own, as in the core."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from device_cases import FEATURES, bound, data, explained, network
from scipy.stats import binom

import controlshap as cs
from controlshap.engine.device.explain import explain_on_device
from controlshap.engine.device.walks import DeviceData
from controlshap.statistics import analysis
from controlshap.statistics.stopping import Rule, Stopping
from controlshap.testing import marginal_game, shapley_by_definition

RNG = np.random.default_rng(0)
BACKGROUND = RNG.normal(size=(400, 6))
BACKGROUND[:, 4] = RNG.permutation(400) < 8
BACKGROUND[:, 5] = RNG.permutation(400) < 4
X = np.array([0.3, -0.2, 0.5, 0.1, 0.0, 0.0])


class Sigmoid(torch.nn.Module):
    """Two columns matter that differ from x in 8 and in 4 of 400 background rows."""

    def forward(self, rows):
        score = 1.5 * rows[:, 0] - rows[:, 1] + rows[:, 2] * rows[:, 3]
        return torch.sigmoid(score + 2.0 * rows[:, 4] - 2.0 * rows[:, 5] * rows[:, 0])


def model(rows):
    return Sigmoid()(torch.as_tensor(rows)).numpy()


def covered(explainer, truth, device, seed, n):
    """Share of 95 % intervals that hold, for each player."""
    found = explainer(np.tile(X, (n, 1)), budget=500, rng=seed, device=device)
    low, high = found.confidence_interval(0.95)
    return ((low <= truth) & (truth <= high)).mean(axis=0)


@pytest.mark.parametrize("groups", [None, {"both": [4, 5]}])
@pytest.mark.parametrize("control", ["none", "taylor"])
@pytest.mark.parametrize("features", ["independent", cs.Marginal(replace=True)], ids=str)
def test_rare_columns_are_covered_as_in_the_core(features, control, groups, global_seed, monkeypatch):
    members, n = [[0], [1], [2], [3], [4, 5]] if groups else [[j] for j in range(6)], 60
    truth = np.ravel(shapley_by_definition(marginal_game(model, X, BACKGROUND, members), len(members)))
    explainer = cs.Explainer(Sigmoid(), BACKGROUND, features, "permutation", control, groups=groups)
    ours, theirs = (covered(explainer, truth, device, global_seed, n)[4:] for device in ("cpu", None))
    # 50 pairs of walks: those of 400 rows that differ in a rare column are rarely drawn
    lowest = binom.ppf(1e-4, n, 0.95) / n
    assert (ours >= lowest).all()
    assert np.abs(ours - theirs).max() <= 1.0 - lowest
    monkeypatch.setattr(analysis, "allow_for_jump", lambda estimate, *_: estimate)
    without = covered(explainer, truth, "cpu", global_seed, n)[4:]  # Negative control: by the units alone
    assert without.min() < (lowest if groups is None else 0.95)
    assert (without <= ours).all()


def test_no_error_is_zero_where_no_unit_tells_of_a_player():
    explainer = cs.Explainer(Sigmoid(), BACKGROUND, estimator="permutation", control="none")
    found = explainer(np.tile(X, (40, 1)), budget=101, rng=0, device="cpu")
    silent = np.abs(found.values[:, 5]) < 1e-12
    assert 0.5 < silent.mean() < 1.0  # ten of 400 rows: none of four differs in 90 %
    assert found.standard_errors.min() > 1e-4
    # once every row had a part, the units that tell of a player limit its degrees of freedom
    complete = explainer(X[None], budget=1 + 10 * 800, rng=0, device="cpu")
    assert complete.complete.all()
    assert (complete.degrees_of_freedom[0, 4:] <= [2 * 16, 2 * 8]).all()


@pytest.mark.parametrize("control", ["none", "taylor"])
@pytest.mark.parametrize("features", FEATURES, ids=repr)
def test_a_row_that_stops_is_a_shorter_run(features, control):
    """Stages change nothing: a row that ends after n units is a run of n units."""
    background, module = data(30), network(n_outputs=2)
    imputer, rows = bound(features, background), background[:6] + 0.4
    stopping = Stopping(20_000, absolute=0.015)
    found = explain_on_device(module, rows, imputer, stopping=stopping, entropy=3, control=control)
    assert (found.status == "converged").all()
    assert len({stages[-1] for stages in found.stages}) > 1
    assert (np.sqrt(found.variances[:, :-1]) <= 0.015).all()
    for row, stages in enumerate(found.stages):
        assert stages[0] == stopping.first_look
        settings = {"entropy": 3, "control": control, "first_row": row}
        alone = explained(module, rows[row : row + 1], imputer, budget=int(found.n_evaluations[row]), **settings)
        assert alone.stages == (stages[-1:],)
        np.testing.assert_allclose(alone.values[0], found.values[row], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(alone.variances[0], found.variances[row], rtol=1e-7, atol=1e-14)
        assert alone.complete[0] == found.complete[row]


@pytest.mark.parametrize(
    "asked", [{"tolerance": 0.05}, {"absolute_tolerance": 0.01}, {"stop": "top 2"}, {"stop": ["top 2", "ranking 1"]}]
)
def test_stopping_takes_as_long_as_in_the_core(asked):
    explainer = cs.Explainer(Sigmoid(), BACKGROUND, estimator="permutation", control="none")
    rows = np.tile(X + 1e-9, (30, 1))  # agrees with the background nowhere: the core shows as many rows as a device
    ours, theirs = (explainer(rows, budget=20_000, rng=0, device=device, **asked) for device in ("cpu", None))
    assert (ours.status == "converged").all()
    assert (theirs.status == "converged").all()
    np.testing.assert_array_equal(ours.look_shares, theirs.look_shares)
    assert set(ours.n_evaluations) <= {1 + 10 * n for n in max(theirs.stages, key=len) + max(ours.stages, key=len)}
    mean = ours.n_evaluations.mean() / theirs.n_evaluations.mean()
    assert mean == pytest.approx(1.0, abs=0.25)


def test_rows_that_do_not_get_there_are_named():
    explainer = cs.Explainer(network(), data(30), estimator="permutation")
    with pytest.warns(cs.NotConvergedWarning, match=r"Row 0 and 2 others spent the budget of 300.*absolute_tol"):
        found = explainer(data(3), budget=300, absolute_tolerance=1e-9, rng=0, device="cpu")
    assert (found.status == "budget reached").all()
    assert (found.n_evaluations > 290).all()


def test_few_players_are_enumerated_where_that_is_no_more_than_a_run_would_take():
    explainer = cs.Explainer(network(), data(20))
    found = explainer(data(2), tolerance=0.1, rng=0, device="cpu")
    assert (found.status == "exact").all()


def test_the_goals_are_named_as_they_were_asked_for():
    stopping = Stopping(100, tolerance=0.1, absolute=0.2, rules=(Rule("signs"), Rule("top", 3)))
    assert stopping.goals == "tolerance=0.1 and absolute_tolerance=0.2 and stop='signs' and stop='top 3'"


def test_units_in_stages_hold_those_of_shorter_runs():
    for n_rows in (1, 5, 37):
        common = DeviceData(None, None, 5, np.zeros((n_rows, 5)), None, None, replaced=False, entropy=0)
        before = np.zeros(0)
        for n_units in range(2, 4 * n_rows + 3):
            units = common.units(n_units)
            design = common.design(units)
            assert len(units) == n_units
            assert np.isin(before, units).all()
            np.testing.assert_array_equal(design.labels, np.arange(n_units) % len(design.counts))
            before = units
