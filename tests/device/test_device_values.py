"""Shapley values of a torch module on a device: unbiased, calibrated, in agreement with the core."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from calibration_cases import MOST, WIDEST, check_nothing_seen
from device_cases import FEATURES, GROUPS, Quadratic, bound, data, explained, network, predictions

import controlshap as cs
from controlshap.engine.device.explain import explain_problem
from controlshap.engine.device.taylor import derivatives
from controlshap.estimators.enumeration import all_coalitions, shapley_values
from controlshap.results.collect import make_explanation
from controlshap.statistics.stopping import Stopping
from controlshap.testing import gaussian_quadratic_game, marginal_game, shapley_by_definition
from controlshap.values.base import Marginal
from controlshap.values.gaussian import GaussianConditional


@pytest.mark.slow
@pytest.mark.parametrize("control", ["none", "taylor"])
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("budget", [170, 3000])
def test_unbiased_for_independent_features(groups, control, budget):
    """300 runs of one row against enumeration: biases below 4.5 standard errors, errors as observed, 95 % covered.

    With 21 units of 25 background rows and a control, or 3 players and little more than one visit for each row,
    intervals of the core cover less (88 to 90 %), and so do these.
    """
    background, module = data(25), network(n_outputs=2)
    imputer, n = bound(Marginal(), background, groups), 300
    x = background[3] + 0.5
    columns = [list(c) for c in imputer.players.columns]
    truth = shapley_by_definition(marginal_game(predictions(module), x, background, columns), len(columns))
    result = explained(
        module, np.tile(x, (n, 1)), imputer, budget=budget, entropy=11, control=control, chunk_rows=2**16
    )
    _check_runs(result, truth, calibrated=budget > 170 or (control == "none" and groups is None))
    np.testing.assert_allclose(result.values.sum(axis=1), np.tile(predictions(module)(x[None]), (n, 1)), atol=1e-12)
    np.testing.assert_allclose(result.values[:, -1] - predictions(module)(background).mean(axis=0), 0.0, atol=1e-12)


def _check_runs(result, truth, *, calibrated=True):
    n, errors = len(result.values), result.values[:, :-1] - truth
    observed = errors.std(axis=0, ddof=1)
    assert (abs(errors.mean(axis=0)) < 4.5 * observed / np.sqrt(n)).all()
    if not calibrated:
        return
    claimed = np.sqrt(result.variances[:, :-1].mean(axis=0))
    # a ratio of standard deviations from n runs scatters by 1/sqrt(2n), more for heavy tails
    noise = 4.0 / np.sqrt(2 * n) + 0.05
    assert (claimed / observed > 1.0 - noise).all()
    assert (claimed / observed < WIDEST + noise).all()
    critical = scipy.stats.t.ppf(0.975, result.degrees_of_freedom[:, :-1])
    for factor, right in ((1.0, True), (0.6, False)):  # intervals that are too short are noticed
        inside = abs(errors) <= factor * critical * np.sqrt(result.variances[:, :-1])
        covered = inside.mean()
        # players are correlated: as if there were one for each run
        tolerance = 3.0 * np.sqrt(0.95 * 0.05 / n)
        assert (0.95 - tolerance < covered < MOST + tolerance) == right


@pytest.mark.slow
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("control", ["none", "taylor"])
@pytest.mark.parametrize("budget", [150, 2000])
def test_unbiased_for_correlated_features(groups, control, budget):
    rng = np.random.default_rng(5)
    background, n = data(50), 300
    linear, quadratic = rng.normal(size=(2, 5)), 0.15 * rng.normal(size=(2, 5, 5))
    quadratic = quadratic + quadratic.transpose(0, 2, 1)
    imputer, x = bound(GaussianConditional(), background, groups), background[1] + 0.3
    columns = [list(c) for c in imputer.players.columns]
    moments = imputer.moments
    game = gaussian_quadratic_game(linear, quadratic, x, moments.mean, moments.covariance, columns)
    truth = shapley_by_definition(game, len(columns))
    result = explained(
        Quadratic(linear, quadratic), np.tile(x, (n, 1)), imputer, budget=budget, entropy=4, control=control
    )
    _check_runs(result, truth)
    assert (result.variance_reduction.mean() > 0.2) == (control == "taylor")
    assert result.method[0] == "Permutation" + (" + Taylor" if control == "taylor" else "")


@pytest.mark.parametrize("control", ["none", "taylor"])
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("features", FEATURES, ids=repr)
def test_agrees_with_the_core(features, groups, control):
    background, module = data(30), network(n_outputs=2)
    X, budget = background[:6] + 0.4, 1201
    imputer = bound(features, background, groups)
    result = explained(module, X, imputer, budget=budget, entropy=0, control=control)
    explainer = cs.Explainer(
        module, background, features=features, estimator="permutation", control=control, groups=groups
    )
    theirs = explainer(X, budget=budget, rng=1)
    errors = np.sqrt(result.variances[:, :-1])
    z = (result.values[:, :-1] - theirs.values) / np.hypot(errors, theirs.standard_errors)
    assert abs(z).max() < 4.5
    np.testing.assert_array_equal(theirs.n_evaluations, result.n_evaluations)
    np.testing.assert_array_equal(theirs.complete, result.complete)
    # errors of 6 rows together agree within a tenth
    assert np.sqrt((errors**2).sum() / (theirs.standard_errors**2).sum()) == pytest.approx(1.0, abs=0.15)
    assert result.variance_reduction.mean() == pytest.approx(theirs.variance_reduction.mean(), abs=0.1)
    about = {"data": X, "column_names": imputer.players.names, "output_names": None, "entropy": 0}
    ours = make_explanation(result.attributes(), np.zeros(2), imputer.players, **about, settings=theirs.settings)
    assert (ours.method == theirs.method).all()
    assert (ours.background_standard_errors is None) == (theirs.background_standard_errors is None)
    for name in ("values", "standard_errors", "base_values", "base_standard_errors", "uncontrolled_values",
                 "uncontrolled_standard_errors", "variance_reduction", "degrees_of_freedom", "covariance",
                 "n_evaluations", "status", "look_shares", "complete"):  # fmt: skip
        assert getattr(ours, name).shape == getattr(theirs, name).shape, name
    np.testing.assert_allclose(np.einsum("ropp->rpo", ours.covariance), ours.standard_errors**2)
    assert ours.controls[0].startswith("Taylor") == (control == "taylor")


def test_simulated_known_values_of_many_players():
    background, module = data(60, 12), network(12)
    imputer, X, cache = bound(GaussianConditional(), background), background[:3] + 0.2, {}
    result = explained(module, X, imputer, budget=3000, entropy=0, cache=cache)
    assert not cache["d_matrices"].is_exact
    theirs = cs.Explainer(module, background, "correlated", "permutation", "taylor")(X, budget=20_000, rng=0)
    z = (result.values[:, :-1, 0] - theirs.values) / np.hypot(
        np.sqrt(result.variances[:, :-1, 0]), theirs.standard_errors
    )
    assert abs(z).max() < 4.0
    assert result.method[0] == "Permutation + Taylor"
    again = explained(module, X, imputer, budget=3000, entropy=0, cache=cache)
    np.testing.assert_array_equal(again.values, result.values)


def test_auto_uses_the_control_where_it_helps():
    background, module = data(), network()
    correlated = explained(module, background[:2], bound(GaussianConditional(), background), budget=500, entropy=0)
    independent = explained(module, background[:2], bound(Marginal(), background), budget=500, entropy=0)
    assert (correlated.method[0], independent.method[0]) == ("Permutation + Taylor", "Permutation")
    assert list(independent.controls) == ["", ""]
    assert correlated.controls[0].startswith("Taylor 0.")


def test_derivatives_are_those_of_a_quadratic():
    rng = np.random.default_rng(0)
    linear, quadratic = rng.normal(size=(2, 4)), rng.normal(size=(2, 4, 4))
    rows = torch.as_tensor(rng.normal(size=(7, 4)))
    with torch.no_grad():
        gradient, hessian = derivatives(Quadratic(linear, quadratic), rows, 2, second=True)
    bend = torch.as_tensor(quadratic + quadratic.transpose(0, 2, 1))
    np.testing.assert_allclose(gradient, torch.as_tensor(linear) + torch.einsum("ocd,nd->noc", bend, rows))
    np.testing.assert_allclose(hessian, bend.expand(7, 2, 4, 4))


def test_a_pair_is_exact_for_two_way_interactions():
    rng = np.random.default_rng(0)
    module = Quadratic(rng.normal(size=(1, 5)), rng.normal(size=(1, 5, 5)))
    background = data(9)
    imputer, x = bound(Marginal(), background), background[0] + 1.0
    result = explained(module, x[None], imputer, budget=1 + 8 * 18, entropy=0)
    table = np.stack([marginal_game(predictions(module), x, background, [[k] for k in range(5)])(
        frozenset(np.flatnonzero(coalition).tolist())) for coalition in all_coalitions(5)])  # fmt: skip
    np.testing.assert_allclose(result.values[0, :-1], shapley_values(table), atol=1e-10)
    assert result.complete.all()
    check_nothing_seen(np.sqrt(result.variances[0, :-1]))


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("n_rows", [1, 20])
def test_few_players_are_enumerated(groups, n_outputs, n_rows):
    background, module, X = data(n_rows), network(n_outputs=n_outputs), data(7) + 0.3
    explainer = cs.Explainer(module, background, groups=groups)
    theirs = explainer(X, budget=3000, rng=0)
    problem = explainer._assembly.problem()
    assert (theirs.status == "exact").all()
    for settings in ({}, {"chunk_rows": 100}):
        result = explain_problem(problem, X, stopping=Stopping(3000), entropy=0, device="cpu", **settings)
        about = {"data": X, "column_names": explainer.column_names, "output_names": None, "entropy": 0}
        ours = make_explanation(
            result.attributes(), np.zeros(n_outputs), explainer.players, **about, settings=theirs.settings
        )
        for name in ("values", "standard_errors", "base_values", "base_standard_errors", "covariance",
                     "degrees_of_freedom", "n_evaluations"):  # fmt: skip
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-10, atol=1e-12)
        for name in ("status", "method", "controls", "complete"):
            assert (getattr(ours, name) == getattr(theirs, name)).all()
        if theirs.background_standard_errors is None:
            assert ours.background_standard_errors is None
        else:
            np.testing.assert_allclose(ours.background_standard_errors, theirs.background_standard_errors, rtol=1e-9)
    assert (explainer.refine(ours, budget=100).values == ours.values).all()  # exact rows stay as they are
