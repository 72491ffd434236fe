"""Modules, rows and imputers that are explained on a device."""

from __future__ import annotations

import numpy as np
import torch

from controlshap.data.players import resolve_players
from controlshap.engine.device.explain import explain_on_device
from controlshap.statistics.stopping import Stopping
from controlshap.values.base import Marginal
from controlshap.values.gaussian import GaussianConditional

GROUPS = [[0, 3], [2, 4]]
FEATURES = [Marginal(), Marginal(replace=True), GaussianConditional(), GaussianConditional(draws="background")]


def network(n_columns=5, n_outputs=1, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(n_columns, 16), torch.nn.Tanh(), torch.nn.Linear(16, n_outputs)]
    module = torch.nn.Sequential(*layers).to(torch.float64)
    with torch.no_grad():
        module[0].weight.mul_(2.0)
    return module.to(dtype)


def data(n_rows=20, n_columns=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, n_columns)) + 0.7 * rng.normal(size=(n_rows, 1))


def bound(features, background, groups=None):
    names = tuple(f"x{i}" for i in range(background.shape[1]))
    return features.bind(background, resolve_players(groups, names), names)


def explained(module, rows, imputer, *, budget, **settings):
    """`explain_on_device` with a budget alone."""
    return explain_on_device(module, rows, imputer, stopping=Stopping(budget), **settings)


def predictions(module):
    return lambda rows: module(torch.as_tensor(rows)).detach().numpy().astype(float)


class Quadratic(torch.nn.Module):
    """`linear . r + r' quadratic r`, for which conditional values are known."""

    def __init__(self, linear, quadratic):
        super().__init__()
        self.linear = torch.nn.Parameter(torch.as_tensor(linear))
        self.quadratic = torch.nn.Parameter(torch.as_tensor(quadratic))

    def forward(self, rows):
        return rows @ self.linear.T + torch.einsum("nc,ocd,nd->no", rows, self.quadratic, rows)


class Forgetful(torch.nn.Module):
    """Runs out of memory on more rows than it may have, or a number of times."""

    def __init__(self, inner, most_rows=10**9, failures=0):
        super().__init__()
        self.inner, self.most_rows, self.failures, self.seen = inner, most_rows, failures, []

    def forward(self, rows):
        self.seen.append(len(rows))
        if len(rows) > self.most_rows or (self.failures and len(rows) > 100):
            self.failures -= 1
            raise torch.OutOfMemoryError("out of memory")
        return self.inner(rows)


class Odd(torch.nn.Module):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, rows):
        return self.answer(rows)
