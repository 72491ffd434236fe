"""When a device is used, when its settings are refused, and that nobody pays for it otherwise."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from device_cases import Odd, bound, data, explained, network

import controlshap as cs
from controlshap._errors import BudgetTooSmallError, InvalidArgumentError, ModelOutputError
from controlshap.engine.device import learning, support
from controlshap.engine.device.explain import explain_problem
from controlshap.engine.device.support import wants_device
from controlshap.limits import Limits
from controlshap.values.base import Marginal
from controlshap.values.gaussian import GaussianConditional


def test_bad_arguments():
    background, module = data(), network()
    imputer = bound(Marginal(), background)
    with pytest.raises(BudgetTooSmallError, match="at least 17 evaluations") as info:
        explained(module, background[:1], imputer, budget=16, entropy=0)
    assert info.value.needed == 17
    assert explained(module, background[:1], imputer, budget=17, entropy=0).n_evaluations == 17
    with pytest.raises(InvalidArgumentError, match=r"`device='cuda'`: the module is on 'cpu'"):
        explained(module, background[:1], imputer, budget=100, entropy=0, device="cuda")
    with pytest.raises(InvalidArgumentError, match="`chunk_rows` must be"):
        explained(module, background[:1], imputer, budget=100, entropy=0, chunk_rows=0)
    missing = background.copy()
    missing[0, 0] = np.nan
    with pytest.raises(InvalidArgumentError, match="missing values"):
        explained(module, missing[:1], imputer, budget=100, entropy=0, control="taylor")
    with pytest.raises(InvalidArgumentError, match="two players or more"):
        explained(module, background[:1], bound(Marginal(), background, [list(range(5))]), budget=9, entropy=0)


def problem_of(model, budget=3000, **settings):
    explainer = cs.Explainer(model, data(), **settings)
    return explainer._assembly.problem(), lambda **asked: Limits(budget=budget, **asked).stopping(5)


@pytest.mark.parametrize(
    ("settings", "asked", "reason"),
    [
        ({"estimator": cs.Kernel(n_draws=3)}, {}, "the estimator is Kernel"),
        ({"estimator": cs.Permutation(paired=False)}, {}, "the estimator is Permutation"),
        ({"estimator": "permutation", "variance": "bootstrap"}, {}, "the variance is Bootstrap"),
        ({"estimator": "permutation", "control": cs.Trees()}, {}, "the control is"),
        ({"estimator": "permutation", "control": ["taylor", "taylor"]}, {}, "more than one control"),
        ({"estimator": "permutation", "control": "thorough"}, {}, "fits functions"),
        ({"features": GaussianConditional(draws="background")}, {}, "are enumerated"),
        ({"estimator": "permutation"}, {"time_limit": 9.0}, "`time_limit` is for each row"),
        ({"groups": [[0, 1, 2, 3, 4]]}, {}, "one player"),
    ],
)
def test_settings_that_are_not_for_the_device(settings, asked, reason):
    problem, stopping = problem_of(network(), **settings)
    with pytest.raises(InvalidArgumentError, match=reason):
        wants_device("cpu", problem, stopping(**asked))
    assert not wants_device(None, problem, stopping(**asked))


def test_the_device_is_used_where_asked_for():
    problem, stopping = problem_of(network(), estimator="permutation")
    assert wants_device("cpu", problem, stopping())
    with pytest.raises(InvalidArgumentError, match="keep=True"):
        wants_device("cpu", problem, stopping(), keep=True)
    with pytest.raises(InvalidArgumentError, match="history=True"):
        wants_device("cpu", problem, replace(stopping(), staged=True))
    assert not wants_device(None, problem, stopping())  # a module on the CPU goes row by row unless asked otherwise
    with pytest.raises(InvalidArgumentError, match="`device` must be None, 'cpu' or 'cuda'"):
        wants_device("tpu", problem, stopping())
    problem, stopping = problem_of(lambda rows: rows[:, 0], estimator="permutation")
    with pytest.raises(InvalidArgumentError, match="not a torch module"):
        wants_device("cpu", problem, stopping())


def test_a_plan_says_what_a_gpu_does_and_a_result_why_it_was_not_used(monkeypatch):
    monkeypatch.setattr(support, "_is_on_gpu", lambda module: True)
    monkeypatch.setattr(support, "wants_device", lambda *_: False)
    explainer = cs.Explainer(network(9), data(20, 9), "correlated")
    plan = explainer.plan(data(3, 9), budget=500)
    assert plan.controls == (cs.Taylor(),)
    assert plan.n_rows == 3
    assert "device      all rows at once on the GPU" in plan.notes
    assert cs.Explainer(network(9), data(20, 9)).plan(budget=500).controls == ()
    single = cs.Explainer(network(9), data(20, 9), estimator=cs.Permutation(paired=False))
    assert "not used, which takes far longer: the estimator is" in str(single.plan(budget=500))
    assert "the estimator is" in single(data(1, 9), budget=200, rng=0).settings["device_unused"]
    spread = explainer(data(2, 9), budget=200, rng=0, n_jobs=2).settings["device_unused"]
    assert spread == "`n_jobs` spreads the rows over processes"
    assert "with what earlier ones taught" in str(explainer.plan(budget=500, surrogate="online"))
    monkeypatch.setattr(support, "_is_on_gpu", lambda module: False)
    assert "device_unused" not in single(data(1, 9), budget=200, rng=0).settings


def test_a_result_of_a_device_says_what_was_evaluated_once():
    explainer = cs.Explainer(network(), data(12), estimator="permutation")
    ours, theirs = (explainer(data(2), budget=100, rng=0, device=device).settings for device in ("cpu", None))
    for name in ("answers_digest", "n_surrogate_evaluations", "n_background_evaluations"):
        assert ours[name] == theirs[name]


@pytest.mark.parametrize("features", ["independent", "correlated"])
@pytest.mark.parametrize("control", ["auto", "taylor", "none"])
def test_a_problem_of_an_explainer(features, control):
    problem, stopping = problem_of(network(), features=features, estimator="permutation", control=control)
    assert wants_device("cpu", problem, stopping())
    result = explain_problem(problem, data()[:2], stopping=stopping(), entropy=3, device="cpu")
    same = explained(network(), data()[:2], problem.imputer, budget=3000, entropy=3, control=control)
    np.testing.assert_allclose(result.values, same.values, rtol=1e-12)
    assert ("d_matrices" in problem.cache) == (features == "correlated" and control != "none")


def test_the_benchmark_runs(monkeypatch, tmp_path):
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("OUT", str(tmp_path))
    import torch_device

    monkeypatch.setattr(torch_device, "SMALL", torch_device.Size(16, 3, 900, 2, 2000, (2**11,), 300, 2, repeats=1))
    monkeypatch.setattr(learning, "N_STEPS", 20)
    found = torch_device.main(["--small"])
    methods = [one["method"] for one in found["overheads"]]
    fitted = ["Permutation + LogisticRidge", "Kernel + LogisticRidge"]
    assert methods == [*["Permutation"] * 3, "Permutation + Taylor", *fitted, *["Permutation"] * 4]
    assert found["memory"]["largest_difference"] < 1e-6
    assert "| float32, correlated, Taylor | Permutation + Taylor |" in (tmp_path / "torch_device.md").read_text()


def test_the_library_does_not_import_torch():
    code = "import controlshap, controlshap.engine.device, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_of_devices():
    explainer = cs.Explainer(network(), data(12), estimator="permutation")
    assert explainer(data(2), budget=100, rng=0, device="cpu:0").settings["device"] == "cpu"
    for device in ("gpu", "cuda:one", "", 0):
        with pytest.raises(InvalidArgumentError, match="`device` must be None"):
            explainer(data(2), budget=100, rng=0, device=device)
    with pytest.raises(ModelOutputError, match="real numbers"):
        explained(
            Odd(lambda rows: torch.complex(rows[:, 0], rows[:, 1])), data()[:2], bound(Marginal(), data()), budget=200,
            entropy=0,
        )  # fmt: skip
