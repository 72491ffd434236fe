"""A shared surrogate on a device: its known values, what it saves, and when it is used."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from device_cases import GROUPS, bound, data, explained, network, predictions
from test_device_values import _check_runs

import controlshap as cs
from controlshap._arrays import prefix_masks, pseudo_inverse
from controlshap._errors import InvalidArgumentError
from controlshap.controls.shared import SharedSurrogate
from controlshap.crossfitting.known_gaussian import enumerate_networks
from controlshap.crossfitting.network_walks import score_matrices
from controlshap.engine.device import known, learning
from controlshap.engine.device.evaluation import DeviceEvaluator
from controlshap.engine.device.explain import make_data
from controlshap.engine.device.rows import Conditioner
from controlshap.functions.waves import Waves
from controlshap.testing import marginal_game, shapley_by_definition
from controlshap.values.base import Marginal
from controlshap.values.gaussian import GaussianConditional
from controlshap.values.linear_scores import walk_scores


@pytest.fixture(autouse=True)
def short_fits(monkeypatch):
    monkeypatch.setattr(learning, "N_WAVES", 12)
    monkeypatch.setattr(learning, "N_STEPS", 150)


def waves(n_columns=5, n_units=4, seed=0):
    rng = np.random.default_rng(seed)
    return Waves(
        rng.normal(), rng.normal(size=n_columns), 0.5 * rng.normal(size=(n_units, n_columns)),
        rng.uniform(0, 6, n_units), rng.normal(size=n_units),
    )  # fmt: skip


class Cosines(torch.nn.Module):
    """`Waves` of several outputs as a module."""

    def __init__(self, functions):
        super().__init__()
        self.functions, self.shift = functions, torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, rows):
        found = [torch.as_tensor(one.predict(rows.double().numpy())) for one in self.functions]
        return torch.stack(found, dim=1).to(rows.dtype)


def test_pseudo_inverses_of_two_controls_are_those_of_the_core():
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(500, 2, 2)) * 10.0 ** rng.uniform(-6, 6, (500, 1, 2))
    roots[:100, :, 1] = roots[:100, :, 0]  # two directions of which there is one
    roots[100:110], roots[110:150, :, 0] = 0.0, 0.0
    for scale in (1.0, 1e-120):
        matrices = scale * roots.swapaxes(1, 2) @ roots
        ours, theirs = pseudo_inverse(torch.as_tensor(matrices)).numpy(), pseudo_inverse(matrices)
        # in units of its own: next to the limit of what is singular either may be taken
        eigenvalues = np.linalg.eigvalsh(matrices)
        clear = ~((eigenvalues[:, 0] > 1e-9 * eigenvalues[:, 1]) & (eigenvalues[:, 0] < 1e-7 * eigenvalues[:, 1]))
        size = abs(theirs).max(axis=(1, 2), keepdims=True) + (theirs == 0).all(axis=(1, 2), keepdims=True)
        np.testing.assert_allclose((ours / size)[clear], (theirs / size)[clear], atol=1e-6)
        assert clear.sum() > 400


def common_data(imputer, functions, dtype=torch.float64):
    shared = SharedSurrogate(functions, 0)
    module = Cosines(functions).to(dtype)
    with torch.no_grad():
        return make_data(DeviceEvaluator.of(module, "cpu"), imputer, 0, None, shared)


@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize(("dtype", "bound_"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_values_of_draws_are_those_of_the_function(groups, dtype, bound_):
    background, rows, functions = data(12), data(4, seed=2), (waves(), waves(seed=1))
    imputer = bound(Marginal(), background, groups)
    common = common_data(imputer, functions, dtype)
    tensor = torch.as_tensor(rows)
    values = np.stack([function.predict(rows) for function in functions], axis=1)
    np.testing.assert_allclose(common.surrogate.values(tensor), values, atol=bound_)
    found = known.values_of_rows(common, None, tensor, 50)
    for row, x in enumerate(rows):
        for output, function in enumerate(functions):
            truth = function.draw_values(x, background, imputer.players)
            np.testing.assert_allclose(found[row, :, :, output], truth, atol=bound_)


def test_scores_along_walks_are_those_of_the_core():
    background, weights = data(40), np.random.default_rng(1).normal(size=(3, 5))
    background[:, 2] = 1.5  # constant: it does not vary, and x may differ there
    imputer, x = bound(GaussianConditional(), background), data(1, seed=4)[0]
    conditioner = Conditioner.of(imputer, torch.device("cpu"))
    permutations = np.array([np.random.default_rng(k).permutation(5) for k in range(6)])
    ranks = torch.as_tensor(np.argsort(permutations, axis=1))
    maps, variances = conditioner.walk_scores(ranks, prefix_masks(ranks, 5), torch.as_tensor(weights))
    scores = torch.einsum("udkch,c->udkh", maps, torch.as_tensor(x) - conditioner.mean)
    scores = scores.numpy() + weights @ imputer.moments.mean
    means, left = walk_scores(imputer, x, permutations, weights)
    np.testing.assert_allclose(scores[:, 0], means[:, 1:-1], atol=1e-10)
    np.testing.assert_allclose(variances[:, 0], left[:, 1:-1], atol=1e-10)
    means, left = walk_scores(imputer, x, permutations[:, ::-1], weights)
    np.testing.assert_allclose(scores[:, 1], means[:, -2:0:-1], atol=1e-10)  # complements, the largest first
    np.testing.assert_allclose(variances[:, 1], left[:, -2:0:-1], atol=1e-10)


@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("n_columns", [5, pytest.param(12, marks=pytest.mark.slow)])
def test_simulated_values_are_those_of_all_coalitions(groups, n_columns):
    background, rows = data(60, n_columns), data(5, n_columns, seed=7)
    functions = (waves(n_columns), waves(n_columns, seed=3))
    imputer = bound(GaussianConditional(), background, groups)
    common = common_data(imputer, functions)
    truth = np.stack([enumerate_networks(imputer, x, list(functions)).T for x in rows])
    sizes = {}
    for matrices in (None, score_matrices(imputer, 2000, {})) if n_columns > 10 else (None,):
        by_replication = known.values_of_rows(common, matrices, torch.as_tensor(rows), 50).numpy()
        mean, errors = by_replication.mean(axis=1), by_replication.std(axis=1, ddof=1) / np.sqrt(20)
        np.testing.assert_allclose(mean[:, -1], truth[:, -1], atol=1e-12)
        np.testing.assert_allclose(mean.sum(axis=1), truth.sum(axis=1), atol=1e-10)
        z = (mean - truth)[:, :-1] / errors[:, :-1]
        assert abs(z).max() < scipy.stats.t.ppf(1 - 1e-3 / (2 * z.size), 19)
        sizes[matrices is not None] = errors.mean()
    assert len(sizes) == 1 or sizes[True] < sizes[False]


@pytest.mark.parametrize("features", [Marginal(), Marginal(replace=True)], ids=repr)
def test_a_module_that_is_its_surrogate_has_its_values(features):
    """Its errors are the allowance for what no unit has shown, as in the core."""
    functions, rows = (waves(), waves(seed=1)), data(3, seed=5)
    imputer = bound(features, data(30))
    found = explained(Cosines(functions), rows, imputer, budget=900, entropy=0, surrogate=SharedSurrogate(functions, 0))
    for row, x in enumerate(rows):
        for output, function in enumerate(functions):
            truth = function.mean_values(x, imputer.finite_draws, imputer.players)
            np.testing.assert_allclose(found.values[row, :-1, output], truth, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("budget", [170, 2000])
@pytest.mark.parametrize("features", [Marginal(), GaussianConditional()], ids=repr)
def test_unbiased_with_a_surrogate(features, groups, budget):
    """300 runs of one row: biases below 4.5 standard errors, errors as observed, 95 % covered, and smaller."""
    background, module = data(50), network(n_outputs=2)
    imputer, n = bound(features, background, groups), 300
    x, explainer = background[3] + 0.5, cs.Explainer(module, background, features, groups=groups)
    shared = explainer.fit_surrogate(data(20, seed=9), budget=4000, rng=0, device="cpu")._assembly.shared
    if features == Marginal():
        columns = [list(c) for c in imputer.players.columns]
        truth = shapley_by_definition(marginal_game(predictions(module), x, background, columns), len(columns))
    else:
        settings = {"budget": 600_000, "entropy": 5, "control": "taylor", "chunk_rows": 2**16}
        truth = explained(module, x[None], imputer, **settings).values[0, :-1]
    settings = {"budget": budget, "entropy": 11, "chunk_rows": 2**16}
    result = explained(module, np.tile(x, (n, 1)), imputer, surrogate=shared, **settings)
    plain = explained(module, np.tile(x, (n, 1)), imputer, control="none", **settings)
    _check_runs(result, truth, calibrated=budget > 170)
    # walks through the whole background have left the noise of rows behind, and most is the same
    share = 0.5 if budget == 170 or features != Marginal() else 1.0
    assert result.variances[:, :-1].mean() < share * plain.variances[:, :-1].mean()


@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_a_surrogate_is_fitted_and_used_on_the_device(features):
    background, rows = data(40), data(8, seed=3)
    explainer = cs.Explainer(network(), background, features, estimator="permutation")
    assert explainer.fit_surrogate(rows, budget=2000, rng=0, device="cpu") is explainer
    assert 1900 < explainer.n_surrogate_evaluations <= 2100
    found = explainer(rows, budget=600, rng=0, device="cpu")
    assert found.settings["n_surrogate_evaluations"] == explainer.n_surrogate_evaluations
    assert set(found.method) == {"Permutation + SharedSurrogate"}
    assert found.controls[0].startswith("SharedSurrogate ")
    again = explainer(rows, budget=600, rng=0, device="cpu")
    np.testing.assert_array_equal(found.values, again.values)
    core = explainer(rows, budget=600, rng=0)  # takes the same function, and others beside it
    z = (found.values - core.values) / np.hypot(found.standard_errors, core.standard_errors)
    assert abs(z).max() < 5.0
    plain = cs.Explainer(network(), background, features, estimator="permutation", control="none")
    share = 0.6 if features == "correlated" else 1.0
    assert found.standard_errors.mean() < share * plain(rows, budget=600, rng=0, device="cpu").standard_errors.mean()
    same = cs.Explainer(network(), background, features, estimator="permutation")
    same.fit_surrogate(rows, budget=2000, rng=0, device="cpu")
    for one, other in zip(explainer._assembly.shared.functions, same._assembly.shared.functions, strict=True):
        np.testing.assert_array_equal(one.weights, other.weights)


@pytest.mark.parametrize("features", [Marginal(), GaussianConditional()], ids=repr)
def test_chunks_and_other_rows_change_nothing_but_rounding(features, monkeypatch):
    functions = (waves(), waves(seed=1))
    imputer, rows = bound(features, data(30)), data(6, seed=5)
    settings = {"budget": 500, "entropy": 0, "surrogate": SharedSurrogate(functions, 0)}
    module = network(n_outputs=2)
    whole = explained(module, rows, imputer, **settings)
    monkeypatch.setattr("controlshap.engine.device.surrogate.MOST_AT_ONCE", {"cpu": 300})
    parts = explained(module, rows, imputer, chunk_rows=50, **settings)
    alone = explained(module, rows[2:3], imputer, first_row=2, **settings)
    np.testing.assert_allclose(parts.values, whole.values, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(alone.values[0], whole.values[2], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(alone.variances[0], whole.variances[2], rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrow_types(dtype):
    background, rows = data(30), data(4, seed=5)
    explainer = cs.Explainer(network(dtype=dtype), background, estimator="permutation")
    plain = explainer(rows, budget=600, rng=0, device="cpu")
    found = explainer.fit_surrogate(rows, budget=2000, rng=0, device="cpu")(rows, budget=600, rng=0, device="cpu")
    assert found.standard_errors.mean() < plain.standard_errors.mean()
    z = (found.values - plain.values) / np.hypot(found.standard_errors, plain.standard_errors)
    assert abs(z).max() < 5.0


@pytest.mark.parametrize(
    ("settings", "asked", "reason"),
    [
        ({}, {"learner": cs.WideNetwork()}, "a learner is named"),
        ({"features": cs.GaussianConditional(draws="background")}, {}, "draws from a Gaussian"),
        ({"groups": [[0, 1, 2, 3, 4]]}, {}, "one player"),
    ],
)
def test_fits_that_are_not_for_the_device(settings, asked, reason):
    explainer = cs.Explainer(network(), data(), **settings)
    with pytest.raises(InvalidArgumentError, match=reason):
        explainer.fit_surrogate(data(), budget=500, device="cpu", **asked)
    with pytest.raises(InvalidArgumentError, match="`device` must be None"):
        explainer.fit_surrogate(data(), budget=500, device="tpu", **asked)


def test_other_surrogates_are_not_for_the_device():
    explainer = cs.Explainer(network(), data(), estimator="permutation")
    explainer.fit_surrogate(data(), budget=300, learner=cs.LogisticRidge(), rng=0)
    with pytest.raises(InvalidArgumentError, match="not one that was fitted on a device"):
        explainer(data(2), budget=300, rng=0, device="cpu")
    with pytest.raises(InvalidArgumentError, match="not a torch module"):
        cs.Explainer(lambda rows: rows[:, 0], data()).fit_surrogate(data(), budget=300, device="cpu")
