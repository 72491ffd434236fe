"""Torch modules of any type and make: narrow, scripted, in place, and those that answer oddly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from device_cases import Odd, bound, data, explained, network

import controlshap as cs
from controlshap._errors import ModelOutputError
from controlshap.values.base import Marginal
from controlshap.values.gaussian import GaussianConditional


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("features", [Marginal(), GaussianConditional()], ids=repr)
def test_narrow_types(features, dtype):
    """A module in a narrow type against itself, row by row: inputs and outputs are rounded alike."""
    background, module = data(20), network(n_outputs=2, dtype=dtype)
    imputer, X = bound(features, background), background[:4] + 0.3
    result = explained(module, X, imputer, budget=900, entropy=0)
    theirs = cs.Explainer(module, background, features=features, estimator="permutation", control="none")(
        X, budget=20_000, rng=0
    )
    z = (result.values[:, :-1] - theirs.values) / np.hypot(np.sqrt(result.variances[:, :-1]), theirs.standard_errors)
    assert abs(z).max() < 4.5
    assert result.dtype == str(dtype).removeprefix("torch.")
    assert all(parameter.dtype == dtype for parameter in module.parameters())


class Offset(torch.nn.Module):
    def __init__(self, inner, offset):
        super().__init__()
        self.inner, self.offset = inner, offset

    def forward(self, rows):
        return self.inner(rows) + self.offset


def test_a_large_offset_costs_no_accuracy_in_the_means():
    """Outputs near 2^20 in float32 are multiples of 1/16: the means must not add to that, but for a few roundings."""
    background = data(20)
    imputer, X = bound(Marginal(), background), background[:3]
    inner = torch.nn.Sequential(torch.nn.Linear(5, 1))
    with torch.no_grad():
        inner[0].weight[:] = torch.tensor([[1.0, 2.0, -1.0, 0.5, 3.0]])
        inner[0].bias.zero_()
    rounded = torch.round(torch.as_tensor(background, dtype=torch.float32) * 4) / 4  # sums are exact in float32
    imputer = bound(Marginal(), rounded.double().numpy())
    X = rounded[:3].double().numpy()
    exact = explained(Offset(inner, 0.0), X, imputer, budget=2000, entropy=0)
    shifted = explained(Offset(inner, 2.0**20), X, imputer, budget=2000, entropy=0)
    np.testing.assert_allclose(shifted.values[:, :-1], exact.values[:, :-1], atol=1e-8)
    np.testing.assert_allclose(shifted.values[:, -1] - 2.0**20, exact.values[:, -1], atol=1e-8)


def test_scripted_and_compiled_modules():
    background, module = data(20), network(dtype=torch.float32)
    for features in (Marginal(), GaussianConditional()):
        imputer = bound(features, background)
        plain = explained(module, background[:3], imputer, budget=600, entropy=0, control="taylor")
        for other in (
            torch.jit.script(module),
            torch.jit.trace(module, torch.zeros(2, 5)),
            torch.compile(module, backend="eager"),
        ):
            found = explained(other, background[:3], imputer, budget=600, entropy=0, control="taylor")
            np.testing.assert_allclose(found.values, plain.values, rtol=1e-4, atol=1e-5)


def test_modes_are_restored_and_dropout_is_off():
    background = data(20)
    module = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    module.train()
    module[0].eval()
    imputer = bound(Marginal(), background)
    one = explained(module, background[:2], imputer, budget=500, entropy=0)
    two = explained(module, background[:2], imputer, budget=500, entropy=0)
    np.testing.assert_array_equal(one.values, two.values)
    assert [part.training for part in module] == [False, True, True, True]
    assert module.training
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_module_without_parameters():
    class Sum(torch.nn.Module):
        def forward(self, rows):
            return rows.sum(dim=1)

    background = data(20)
    result = explained(Sum(), background[:2], bound(Marginal(), background), budget=2000, entropy=0)
    exact = background[:2] - background.mean(axis=0)
    np.testing.assert_allclose(result.values[:, :-1, 0], exact, atol=1e-6)
    assert result.dtype == "float32"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda rows: rows.sum(), r"shape \(\)"),
        (lambda rows: rows[:3, 0], "one value per row"),
        (lambda rows: (rows, rows), "returned tuple"),
        (lambda rows: rows[:, None, :2], "one value per row"),
        (lambda rows: rows[:, :0], "one value per row"),
        (lambda rows: rows[:, : 1 + (len(rows) > 30)], "1 outputs a row before and 2"),
        (lambda rows: torch.where(rows[:, 0] == 77.0, torch.nan, rows[:, 0]), "on row 102 it returned NaN"),
        (lambda rows: torch.where((rows[:, 0] == 77.0) & (rows[:, 1] != 1.0), torch.inf, rows[:, 0]), "on row 102"),
        (lambda rows: rows[:, 0] / 0.0, "on background row 0"),
    ],
)
def test_odd_outputs_are_refused(answer, message):
    background = data(20)
    X = background[:4].copy()
    X[2, :2] = 77.0, 1.0
    with pytest.raises(ModelOutputError, match=message):
        explained(Odd(answer), X, bound(Marginal(), background), budget=200, entropy=0, first_row=100)


def test_an_error_of_the_module_is_passed_on():
    def fails(rows):
        raise RuntimeError("my own")

    with pytest.raises(RuntimeError, match="my own") as info:
        explained(Odd(fails), data()[:2], bound(Marginal(), data()), budget=200, entropy=0)
    assert "background rows 0 to 19" in info.value.__notes__[0]


@pytest.mark.parametrize("features", [Marginal(), GaussianConditional()], ids=repr)
@pytest.mark.parametrize("control", ["none", "taylor"])
def test_a_module_that_works_in_place_harms_nothing(features, control):
    background, inner = data(20), network()
    X, imputer = background[:3].copy(), bound(features, background)
    settings = {"budget": 300, "entropy": 0, "control": control}

    class InPlace(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, rows):
            return self.inner(rows.mul_(2.0))

    class Doubled(InPlace):
        def forward(self, rows):
            return self.inner(rows * 2.0)

    found = explained(InPlace(), X, imputer, **settings)
    expected = explained(Doubled(), X, imputer, **settings)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.variances, expected.variances, rtol=1e-9, atol=1e-15)
