"""The logistic ridge and KernelSHAP for many rows at once, against the core and against enumeration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from device_cases import bound, data, network, predictions
from scipy.stats import chi2

import controlshap as cs
from controlshap._random import Purpose
from controlshap.controls.base import FoldedRows
from controlshap.controls.ridge import fit_ridge
from controlshap.crossfitting.known_marginal import _shift
from controlshap.engine.device.counters import random_ranks, random_sizes, row_keys, unit_keys
from controlshap.engine.device.evaluation import DeviceEvaluator
from controlshap.engine.device.explain import make_data
from controlshap.engine.device.ridge import Ridges, UnitFolds, fit_ridges
from controlshap.estimators.kernel import size_probabilities
from controlshap.functions.network import Network
from controlshap.statistics.visits import TakeAll
from controlshap.testing import marginal_game, shapley_by_definition
from controlshap.values.base import Marginal

KINDS = {
    "walks": {"estimator": "permutation", "control": "ridge"},
    "coalitions": {"estimator": "kernel", "control": "none"},
    "coalitions with a ridge": {"estimator": "kernel"},
}


def test_fits_are_those_of_the_core():
    rng, x = np.random.default_rng(0), torch.as_tensor(data(2, 4, seed=1))
    background = torch.as_tensor(data(50, 4))
    mixed = torch.as_tensor(
        np.where(rng.random((2, 400, 4)) < 0.5, x[:, None], background[rng.integers(0, 50, (2, 400))])
    )
    outputs = torch.stack([torch.tanh(mixed.sum(dim=-1)), torch.sigmoid(2.0 * mixed[..., 0] - mixed[..., 1])], dim=-1)
    fold = np.arange(400) % 3
    found = fit_ridges(x, background, mixed, outputs, torch.as_tensor(fold != np.arange(3)[:, None]))
    ours = found.values(mixed[:, :, None], torch.as_tensor(fold))[:, :, 0]
    for row in range(2):
        for output in range(2):
            rows, answers = mixed[row].numpy(), outputs[row, :, output].numpy()
            for k in range(3):
                network = fit_ridge(FoldedRows(rows, answers, fold), k)
                own = network.predict(rows[fold == k])
                np.testing.assert_allclose(ours[row, fold == k, output], own, atol=0.003 * np.ptp(answers))
    assert float((ours[..., 1] - outputs[..., 1]).abs().max()) < 0.01  # it is a logistic function itself


@pytest.mark.parametrize("groups", [None, [[0, 3], [2, 4]]])
def test_values_of_draws_are_those_of_the_function(groups):
    rng, background, x = np.random.default_rng(0), data(7), data(3, seed=1)
    imputer = bound(Marginal(), background, groups)
    weights = rng.normal(size=(3, 2, 2, 5)) * np.array([0.1, 1.0, 5.0])[:, None, None, None]
    weights[2, 0, 0] *= 1e4
    intercepts, low, width = rng.normal(size=(3, 3, 2, 2))
    ridges = Ridges(*(torch.as_tensor(part) for part in (weights, intercepts, low, width.copy())))
    owner = torch.as_tensor(imputer.players.owner)
    values = ridges.draw_values(torch.as_tensor(x), torch.as_tensor(background), owner, imputer.players.n_players)
    for row, k, o in np.ndindex(3, 2, 2):
        known = Network(
            low[row, k, o], np.zeros(5), weights[row, k, o][None], intercepts[row, k, o][None], width[row, k, o][None]
        ).draw_values(x[row], background, imputer.players)
        if known is None:  # out of the quadrature's reach
            assert ridges.width[row, k, o] == 0.0
            known = 0.0
        np.testing.assert_allclose(values[row, k, :, :, o], known, atol=1e-7)
    assert ridges.width[2, 0, 0] == 0.0


@pytest.mark.parametrize("take_all", [None, TakeAll(np.arange(2), 3, 4)])
@pytest.mark.parametrize("n_units", [7, 15, 40])
def test_means_over_rows_are_corrected_as_in_the_core(n_units, take_all):
    module, background = network(), data(12)
    common = make_data(DeviceEvaluator.of(module, None), bound(Marginal(), background), 3, None)
    common = replace(common, take_all=take_all)
    folds = UnitFolds.of(common, common.units(n_units))
    values = np.random.default_rng(0).normal(size=(2, folds.n_folds, 12, 5, 1))
    found = folds.shift(torch.as_tensor(values))
    labels = np.where(folds.taken, -1, folds.fold)
    for row in range(2):
        known = _shift([part[..., None] for part in values[row]], folds.design.labels[:, None], labels)
        np.testing.assert_allclose(found[row], known[..., 0], atol=1e-12)


def test_sizes_of_coalitions_are_those_of_the_kernel():
    p, n = 6, 20_000
    keys = unit_keys(row_keys(5, Purpose.COALITIONS, torch.arange(1)), torch.arange(n))
    sizes, ranks = random_sizes(keys, size_probabilities(p)), random_ranks(keys, p)
    counts = np.bincount(sizes, minlength=p)[1:]
    expected = n * size_probabilities(p)
    assert counts.sum() == n
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-4, p - 2)
    inside = np.bincount(sizes[ranks[:, 2] < sizes], minlength=p)[1:]  # and independent of the order
    share = np.arange(1, p) / p
    assert (np.abs(inside - counts * share) < 4.5 * np.sqrt(counts * share * (1.0 - share))).all()


@pytest.mark.parametrize("groups", [None, [[0, 3], [2, 4]]])
@pytest.mark.parametrize("budget", [70, 300, 1500])
@pytest.mark.parametrize("kind", KINDS)
def test_unbiased_with_honest_errors(kind, budget, groups, global_seed):
    """Many copies of a row: their mean, and the size of their errors."""
    module, background, n = network(n_outputs=2), data(15), 150
    x = data(1, seed=9)[0] * 1.3
    members = [[0, 3], [2, 4], [1]] if groups else [[j] for j in range(5)]
    explainer = cs.Explainer(module, background, groups=groups, **KINDS[kind])
    order = [explainer.players.names.index(name) for name in explainer.players.names]
    found = explainer(np.tile(x, (n, 1)), budget=budget, rng=global_seed, device="cpu")
    members = [list(np.flatnonzero(explainer._assembly.players.owner == j)) for j in order]
    truth = shapley_by_definition(marginal_game(predictions(module), x, background, members), len(members))
    left = found.values - truth
    scale = left.std(axis=0) / np.sqrt(n)
    # a regression has a bias of order 1 / units, far below its error
    assert (np.abs(left.mean(axis=0)) < 4.5 * scale + 1e-12 + (budget == 70) * 0.5 * left.std(axis=0)).all()
    ratio = (left**2).mean() / (found.standard_errors**2).mean()
    assert 0.6 < ratio < 1.5
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.base_values, predictions(module)(np.tile(x, (n, 1))), atol=1e-9
    )


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_those_of_the_core(kind):
    module, background, rows = network(8), data(40, 8), data(12, 8, seed=2)
    settings = {"control": "ridge"} | KINDS[kind]
    for budget in (250, 1500):
        ours, theirs = (
            cs.Explainer(module, background, **settings)(rows, budget=budget, rng=1, device=device)
            for device in ("cpu", None)
        )
        np.testing.assert_array_equal(ours.method, theirs.method)
        ratio = (ours.standard_errors**2).mean() / (theirs.standard_errors**2).mean()
        assert ratio == pytest.approx(1.0, abs=0.35)
        apart = (ours.values - theirs.values) ** 2
        both = ours.standard_errors**2 + theirs.standard_errors**2
        assert apart.mean() / both.mean() == pytest.approx(1.0, abs=0.7)


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_and_other_rows_change_nothing_but_rounding(kind, monkeypatch):
    module, background, rows = network(n_outputs=2), data(30), data(4, seed=3)
    explainer = cs.Explainer(module, background, **KINDS[kind])
    found = explainer(rows, budget=400, rng=0, device="cpu")
    monkeypatch.setattr("controlshap.engine.device.evaluation.MOST_ROWS", {"cpu": 50})
    monkeypatch.setattr("controlshap.engine.device.stages.CACHED", 1)
    again = explainer(rows, budget=400, rng=0, device="cpu")
    np.testing.assert_allclose(again.values, found.values, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(again.standard_errors, found.standard_errors, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_stops_is_a_shorter_run(kind):
    module, background, rows = network(), data(30), data(3, seed=4)
    explainer = cs.Explainer(module, background, **KINDS[kind])
    found = explainer(rows, budget=20_000, absolute_tolerance=0.02, rng=3, device="cpu")
    assert (found.status == "converged").all()
    for row in range(3):
        alone = explainer(rows, budget=int(found.n_evaluations[row]), rng=3, device="cpu")
        np.testing.assert_allclose(alone.values[row], found.values[row], rtol=1e-7, atol=1e-7)


def test_many_units_of_a_regression_are_batched():
    module, background, rows = network(), data(20), data(2, seed=5)
    settings = {"estimator": "kernel", "control": "none"}
    ours, theirs = (
        cs.Explainer(module, background, **settings)(rows, budget=12_000, rng=1, device=device)
        for device in ("cpu", None)
    )
    assert (ours.standard_errors**2).mean() / (theirs.standard_errors**2).mean() == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize(
    ("settings", "features", "reason"),
    [
        ({"estimator": "kernel"}, "correlated", "KernelSHAP of conditioned"),
        ({"estimator": "kernel", "control": "taylor"}, "independent", "has a ridge"),
        ({"estimator": "permutation", "control": "ridge"}, "correlated", "needs independent"),
        ({"estimator": "permutation", "control": "ridge"}, cs.Marginal(replace=True), "background in cycles"),
        ({"estimator": "permutation", "control": cs.LogisticRidge(n_folds=3)}, "independent", "the control is"),
        ({"estimator": "kernel", "variance": "bootstrap"}, "independent", "not LeastSquares"),
    ],
)
def test_settings_that_are_not_for_the_device(settings, features, reason):
    explainer = cs.Explainer(network(), data(), features, **settings)
    with pytest.raises(cs.InvalidArgumentError, match=reason):
        explainer(data(1), budget=500, rng=0, device="cpu")
