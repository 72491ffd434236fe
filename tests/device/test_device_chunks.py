"""Many rows of a torch module at once: the same values in any chunk, also where memory runs out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from device_cases import FEATURES, GROUPS, Forgetful, Odd, bound, data, explained, network

import controlshap as cs
from controlshap._errors import InvalidArgumentError, ModelOutputError
from controlshap.engine.device import evaluation, stages
from controlshap.engine.device.enumeration import enumerate_on_device
from controlshap.engine.device.explain import explain_problem
from controlshap.statistics.stopping import Stopping
from controlshap.values.base import Marginal
from controlshap.values.gaussian import GaussianConditional


@pytest.mark.parametrize("features", FEATURES, ids=repr)
def test_chunks_change_nothing_but_rounding(features):
    background, module = data(30), network()
    imputer, X = bound(features, background), background[:7]
    whole = explained(module, X, imputer, budget=400, entropy=3, control="taylor")
    for chunk in (1, 100, 777):
        split = explained(module, X, imputer, budget=400, entropy=3, control="taylor", chunk_rows=chunk)
        np.testing.assert_allclose(split.values, whole.values, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(split.covariances, whole.covariances, rtol=1e-8, atol=1e-14)
    parts = [
        explained(module, X[k : k + 3], imputer, budget=400, entropy=3, control="taylor", first_row=k)
        for k in (0, 3, 6)
    ]
    np.testing.assert_allclose(np.concatenate([part.values for part in parts]), whole.values, rtol=1e-10, atol=1e-12)
    other = explained(module, X, imputer, budget=400, entropy=4, control="taylor")
    assert abs(other.values[:, :-1] - whole.values[:, :-1]).max() > 1e-6


def test_small_groups_of_rows(monkeypatch):
    background, module = data(30), network()
    imputer = bound(Marginal(), background)
    whole = explained(module, background, imputer, budget=400, entropy=3)
    monkeypatch.setattr(evaluation, "CPU_BYTES", 2**18)
    split = explained(module, background, imputer, budget=400, entropy=3)
    np.testing.assert_allclose(split.values, whole.values, rtol=1e-10, atol=1e-12)
    assert split.chunk_rows < whole.chunk_rows


@pytest.mark.parametrize("features", [Marginal(), GaussianConditional()], ids=repr)
def test_running_out_of_memory_halves_the_chunk(features):
    background = data(20)
    imputer, X, settings = bound(features, background), background[:5], {"budget": 400, "entropy": 0, "control": "none"}
    plain = explained(network(), X, imputer, **settings)
    once = Forgetful(network(), failures=1)
    found = explained(once, X, imputer, **settings)
    np.testing.assert_allclose(found.values, plain.values, rtol=1e-12, atol=1e-13)
    walks = [n for n in once.seen if n > 100]
    assert walks[1] in (walks[0] // 2, walks[0] // 2 - imputer.players.n_players + 1)
    assert found.chunk_rows < plain.chunk_rows
    narrow = Forgetful(network(), most_rows=50)
    split = explained(narrow, X, imputer, **settings)
    np.testing.assert_allclose(split.values, plain.values, rtol=1e-12, atol=1e-13)
    with pytest.raises(InvalidArgumentError, match=r"ran out of memory with a single pair of walks.*bfloat16"):
        explained(Forgetful(network(), most_rows=7), X, imputer, **settings)


def test_enumeration_under_pressure():
    background, X = data(20), data(5)
    imputer = bound(Marginal(), background)
    plain = enumerate_on_device(network(), X, imputer)
    halved = enumerate_on_device(Forgetful(network(), most_rows=130), X, imputer)
    np.testing.assert_allclose(halved.values, plain.values, rtol=1e-12, atol=1e-13)
    assert halved.chunk_rows <= 130
    with pytest.raises(InvalidArgumentError, match="single coalition"):
        enumerate_on_device(Forgetful(network(), most_rows=19), X, imputer, at_background=np.zeros((20, 1)))
    X[3, 0] = 77.0
    odd = Odd(lambda rows: torch.where((rows[:, 0] == 77.0) & (rows[:, 1] != X[3, 1]), torch.nan, rows[:, 0]))
    with pytest.raises(ModelOutputError, match="on row 3"):
        enumerate_on_device(odd.double(), X, imputer)


@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("features", FEATURES, ids=repr)
@pytest.mark.parametrize("budget", [150, 900])
def test_nothing_is_read_before_the_end(features, groups, budget, monkeypatch):
    """Tensors without data cannot be read: all goes through but the checks and the copy at the end."""
    for module in (evaluation, stages):
        monkeypatch.setattr(module, "refuse_not_finite", lambda *arguments: None)
    module = network(n_outputs=2, dtype=torch.float32).to("meta")
    imputer = bound(features, data(30), groups)
    known = np.zeros((1 if imputer.finite_draws is None else 30, 2))
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor") as info:
        explained(module, data(30)[:4], imputer, budget=budget, entropy=0, control="none", at_background=known)
    assert "all_to_host(tensors)" in str(info.traceback[-3].statement)


@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_evaluations_are_those_that_are_told(features):
    seen = []

    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, rows):
            seen.append(len(rows))
            return self.inner(rows)

    explainer = cs.Explainer(Counting(), data(12), features=features, estimator="permutation", control="none")
    found = explainer(data(4), budget=217, rng=0, device="cpu")
    assert (found.n_evaluations <= 217).all()
    assert sum(seen) == found.n_evaluations.sum() + explainer.n_background_evaluations


@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_a_row_is_explained_alike_alone_and_among_others(features):
    explainer = cs.Explainer(network(n_outputs=2), data(12), features=features, estimator="permutation")
    problem, X = explainer._assembly.problem(), data(5)
    together = explain_problem(problem, X, stopping=Stopping(217), entropy=5, device="cpu")
    for number in range(5):
        alone = explain_problem(
            problem, X[number : number + 1], stopping=Stopping(217), entropy=5, device="cpu", first_row=number
        )
        np.testing.assert_allclose(alone.values[0], together.values[number], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(alone.variances[0], together.variances[number], rtol=1e-9, atol=1e-16)
