"""Rows that learn from earlier ones on a device."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from device_cases import data, network, predictions
from scipy.stats import t

import controlshap as cs
from controlshap.engine.device import learning, online
from controlshap.testing import marginal_game, shapley_by_definition

FEATURES = ["independent", "correlated"]


@pytest.fixture(autouse=True)
def short_fits(monkeypatch):
    monkeypatch.setattr(learning, "N_STEPS", 200)
    monkeypatch.setattr(learning, "N_WAVES", 16)
    monkeypatch.setattr(online, "ENDS", (3, 12))


def explainer(features="independent", **settings):
    return cs.Explainer(network(n_outputs=2), data(20), features, estimator="permutation", **settings)


def explained(n_rows, features="independent", device="cpu", **call):
    call = {"budget": 300, "rng": 0, "surrogate": "online"} | call
    return explainer(features)(data(40, seed=1)[:n_rows], device=device, **call)


@pytest.mark.parametrize("features", FEATURES)
def test_rows_depend_on_earlier_ones_alone(features):
    found, first = explained(20, features), explained(3, features)
    np.testing.assert_allclose(found.values[:3], first.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(explained(14, features).values, found.values[:14], rtol=1e-6, atol=1e-8)
    assert not (found.method[:3] == "Permutation + SharedSurrogate").any()
    assert (found.method[3:] == "Permutation + SharedSurrogate").all()
    assert found.settings["n_surrogate_evaluations"] == 0
    assert (found.n_evaluations == explained(20, features, surrogate=None).n_evaluations).all()


@pytest.mark.parametrize("features", FEATURES)
def test_later_rows_have_smaller_errors(features):
    taught, alone = explained(30, features, budget=600), explained(30, features, budget=600, surrogate=None)
    ratio = (alone.standard_errors**2).mean(axis=(1, 2)) / (taught.standard_errors**2).mean(axis=(1, 2))
    np.testing.assert_allclose(ratio[:3], 1.0)
    assert np.exp(np.log(ratio[12:]).mean()) > 1.2


def test_errors_are_honest_in_every_generation(global_seed):
    rows, background, module = data(40, seed=1)[:14], data(20), network(n_outputs=2)
    truth = np.stack(
        [
            shapley_by_definition(marginal_game(predictions(module), x, background, [[j] for j in range(5)]), 5)
            for x in rows
        ]
    )
    runs = [explained(14, budget=200, rng=100 * global_seed + k) for k in range(30)]
    left = np.stack([run.values - truth for run in runs])
    claimed = np.stack([run.standard_errors**2 for run in runs])
    for part in (slice(0, 3), slice(3, 12), slice(12, 14)):
        ratio = (left[:, part] ** 2).mean() / claimed[:, part].mean()
        assert 0.25 < ratio < 1.5  # with few units the allowance for what was not seen is much of the error
    most = t.ppf(1.0 - 1e-4 / (2 * truth.size), len(runs) - 1)
    assert (np.abs(left.mean(axis=0)) < most * left.std(axis=0, ddof=1) / np.sqrt(len(runs)) + 1e-12).all()


def test_rows_that_stop_teach_as_well():
    found = explained(14, budget=20_000, absolute_tolerance=0.03)
    assert (found.status == "converged").all()
    assert found.method[-1] == "Permutation + SharedSurrogate"


def test_settings_that_are_not_for_the_device():
    one = explainer()
    one.fit_surrogate(data(30), budget=500, rng=0, device="cpu")
    with pytest.raises(cs.InvalidArgumentError, match="goes on from a function"):
        one(data(3), budget=300, rng=0, surrogate="online", device="cpu")
    kernel = cs.Explainer(network(), data(20), estimator="kernel")
    with pytest.raises(cs.InvalidArgumentError, match="KernelSHAP has a ridge"):
        kernel(data(3), budget=300, rng=0, surrogate="online", device="cpu")
    few = cs.Explainer(network(), data(10))  # all coalitions
    assert (few(data(5), budget=1000, rng=0, surrogate="online", device="cpu").status == "exact").all()
    assert torch.is_grad_enabled()
