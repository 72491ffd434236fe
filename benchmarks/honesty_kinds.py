"""Further games for `honesty.py`: groups, repeated and very few or many rows, wide data, dependent features, devices.

True values come from the definition (`controlshap.testing`), from few-player parts of a sum (Shapley values are
linear), or, where v(S) has no closed form, from long runs without control.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from honesty_games import Game, Rows, enumerate_values, make_game
from scipy.special import ndtr

import controlshap as cs
from controlshap.testing import shapley_by_definition

#: Runs and evaluations behind true values that have no closed form; the error left is a tenth of that of 2,000.
LONG_RUNS, LONG_BUDGET = 10, 20_000


def values_of_parts(parts: list[tuple[tuple[int, ...], Callable[[Rows], Rows]]], background: Rows, x: Rows) -> Rows:
    """Shapley values of a sum of functions of a few columns each: `function(rows of these columns)`."""
    truth = np.zeros((len(x), 1))
    for columns, function in parts:
        truth[list(columns)] += enumerate_values(function, background[:, list(columns)], x[list(columns)])
    return truth


def _sum_of(parts: list[tuple[tuple[int, ...], Callable[[Rows], Rows]]]) -> Callable[[Rows], Rows]:
    return lambda rows: sum(function(rows[:, list(columns)]) for columns, function in parts)  # type: ignore[return-value]


def _rule(signs: Rows, size: float, bar: float = 0.0) -> Callable[[Rows], Rows]:
    return lambda rows: size * (signs * rows > bar).all(axis=1)


def _wide_rules(p: int, n_rows: int, seed: int) -> Game:
    rng = np.random.default_rng(seed)
    parts = [
        (tuple(int(c) for c in rng.choice(p, 3, replace=False)), _rule(rng.choice([-1.0, 1.0], 3), float(rng.normal())))
        for _ in range(p // 2)
    ]
    background, x = rng.normal(size=(n_rows, p)), rng.normal(size=p)
    return Game(_sum_of(parts), background, x, values_of_parts(parts, background, x))


def _wide_one_hot(n_rows: int, seed: int) -> Game:
    """Twelve categories of five levels, each level a player; rules of three levels."""
    rng = np.random.default_rng(seed)
    chance = [0.5, 0.25, 0.15, 0.07, 0.03]
    levels = rng.choice(5, (n_rows + 1, 12), p=chance)
    data = np.eye(5)[levels].reshape(n_rows + 1, 60)
    parts = []
    for _ in range(25):
        categories = rng.choice(12, 3, replace=False)
        columns = tuple(int(c * 5 + rng.choice(5, p=chance)) for c in categories)
        parts.append((columns, _rule(rng.choice([-1.0, 1.0], 3), float(rng.normal()), -0.5)))
    background, x = data[:n_rows], data[n_rows]
    return Game(_sum_of(parts), background, x, values_of_parts(parts, background, x))


def _grouped(n_groups: int, size: int, n_rows: int, seed: int, *, labels: bool) -> Game:
    """Groups of correlated columns, which are revealed together."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n_rows + 1, n_groups, 1))
    data = (0.8 * shared + 0.6 * rng.normal(size=(n_rows + 1, n_groups, size))).reshape(n_rows + 1, -1)
    W = rng.normal(size=(n_groups * size, 6)) / np.sqrt(n_groups * size)
    a = rng.normal(size=6)

    def model(rows: Rows) -> Rows:
        score = np.tanh(2.0 * rows @ W) @ a
        return (score > 0).astype(float) if labels else np.exp(score)

    background, x = data[:n_rows], data[n_rows]

    def v(coalition: frozenset[int]) -> Rows:
        revealed = np.isin(np.repeat(np.arange(n_groups), size), list(coalition))
        return np.array([model(np.where(revealed, x, background)).mean()])

    groups = {f"g{k}": list(range(k * size, (k + 1) * size)) for k in range(n_groups)}
    return Game(model, background, x, shapley_by_definition(v, n_groups), {"groups": groups})


def _repeated(n_different: int, seed: int) -> Game:
    """Few different background rows with weights of 1 to 30, as rows that occur several times."""
    rng = np.random.default_rng(seed)
    p = 9
    different, x = rng.normal(size=(n_different, p)), rng.normal(size=p)
    background = np.repeat(different, rng.integers(1, 31, n_different), axis=0)
    w = rng.normal(size=p)
    return make_game(lambda rows: (rows @ w > 0) * 1.0 + rows[:, 0] * rows[:, 1] * rows[:, 2], background, x)


def _few_rows(n_rows: int, p: int, seed: int, *, labels: bool) -> Game:
    rng = np.random.default_rng(seed)
    W, a = rng.normal(size=(p, 8)) / np.sqrt(p), rng.normal(size=8)
    background, x = rng.normal(size=(n_rows, p)), rng.normal(size=p)

    def model(rows: Rows) -> Rows:
        score = np.tanh(2.5 * rows @ W) @ a
        return (score > 0.3).astype(float) if labels else score

    return make_game(model, background, x)


def _many_rows(p: int, n_rows: int, seed: int, *, rare: bool) -> Game:
    rng = np.random.default_rng(seed)
    background, x = rng.normal(size=(n_rows, p)), rng.normal(size=p) + 0.3
    if rare:
        background[:, p - 1] = 0.0
        background[0, p - 1] = 1.0
        x[p - 1] = 0.0

    def model(rows: Rows) -> Rows:
        said = np.exp(0.5 * rows[:, :5].sum(axis=1))
        return said + 200.0 * rows[:, p - 1] * (rows[:, 0] > 0) * (rows[:, 1] > 0) if rare else said

    return make_game(model, background, x)


def _rare_product(n_rows: int, seed: int) -> Game:
    """A product of four in which one row in n_rows is ten times as large."""
    rng = np.random.default_rng(seed)
    background, x = rng.normal(size=(n_rows, 8)), rng.normal(size=8)
    background[0, :2] = 10.0
    return make_game(lambda rows: rows[:, 0] * rows[:, 1] * rows[:, 2] * rows[:, 3] + rows[:, 4], background, x)


def _steps(p: int, n_rows: int, seed: int) -> Game:
    """How many of overlapping triples are all above a bar, rounded down to halves."""
    rng = np.random.default_rng(seed)
    background, x = rng.normal(size=(n_rows, p)), rng.normal(size=p) + 0.5
    w = rng.normal(size=p)
    return make_game(lambda rows: np.floor(rows @ w), background, x)


def _correlated(p: int, seed: int, *, step: bool) -> Game:
    """An exponential or a step of a linear score, whose means given some columns are known of a Gaussian."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(p, p)) / np.sqrt(p) + 0.5 * np.eye(p)
    background, x = rng.normal(size=(300, p)) @ mix.T, rng.normal(size=p) @ mix.T
    w = rng.normal(size=p) * (0.5 if not step else 1.0)
    mean, covariance = background.mean(axis=0), np.cov(background.T)

    def v(coalition: frozenset[int]) -> Rows:
        S = sorted(coalition)
        rest = [j for j in range(p) if j not in coalition]
        center, spread = mean @ w, w @ covariance @ w
        if S:
            pull = np.linalg.solve(covariance[np.ix_(S, S)], covariance[np.ix_(S, rest)])
            center = x[S] @ w[S] + (mean[rest] + (x[S] - mean[S]) @ pull) @ w[rest]
            left = covariance[np.ix_(rest, rest)] - covariance[np.ix_(rest, S)] @ pull
            spread = max(float(w[rest] @ left @ w[rest]), 0.0)
        if not step:
            return np.array([np.exp(center + spread / 2.0)])
        return np.array([float(center > 0.4) if spread < 1e-12 else ndtr((center - 0.4) / np.sqrt(spread))])

    def model(rows: Rows) -> Rows:
        return (rows @ w > 0.4).astype(float) if step else np.exp(rows @ w)

    return Game(model, background, x, shapley_by_definition(v, p), {"features": "correlated"})


def _dependent(features: str, seed: int) -> Game:
    """Skewed, dependent columns; true values from long runs."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(121, 6)) @ (0.6 * np.eye(6) + 0.2)
    data = np.exp(scores) if seed % 2 else np.sign(scores) * scores**2
    background, x = data[:120], data[120]
    model = lambda rows: np.tanh(rows[:, 0] * rows[:, 1] - rows[:, 2]) + (rows[:, 3] + rows[:, 4] > 2.0)  # noqa: E731
    explainer = cs.Explainer(model, background, features=features, control="none")
    runs = explainer(np.tile(x, (LONG_RUNS, 1)), budget=LONG_BUDGET, rng=99, keep=False)
    return Game(model, background, x, runs.values.mean(axis=0)[:, None], {"features": features})


def _torch(p: int, n_rows: int, seed: int, *, step: bool) -> Game:
    import torch

    torch.manual_seed(seed)
    inner = torch.nn.Sequential(torch.nn.Linear(p, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()

    class Module(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, rows: Any) -> Any:
            said = 3.0 * self.inner(3.0 * rows)
            return (said > 0).double() if step else said

    module = Module()
    rng = np.random.default_rng(seed)
    background, x = rng.normal(size=(n_rows, p)), rng.normal(size=p)

    def model(rows: Rows) -> Rows:
        with torch.no_grad():
            return np.asarray(module(torch.as_tensor(rows))[:, 0])

    truth = enumerate_values(model, background, x)
    return Game(module, background, x, truth, {}, {"device": "cpu"})


def _three_probabilities(p: int, n_rows: int, seed: int) -> Game:
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(p, 3))
    background, x = rng.normal(size=(n_rows, p)), rng.normal(size=p)

    def model(rows: Rows) -> Rows:
        score = np.exp(rows @ W + 2.0 * rows[:, :3] * rows[:, 3:6])
        return score / score.sum(axis=1, keepdims=True)

    return make_game(model, background, x)


KINDS: dict[str, tuple[bool, Callable[[], Game]]] = {
    "rules, 100 players": (True, lambda: _wide_rules(100, 50, 0)),
    "rules, 60 players, 300 rows": (False, lambda: _wide_rules(60, 300, 1)),
    "one-hot, 60 columns": (True, lambda: _wide_one_hot(80, 0)),
    "one-hot, 60 columns, 200 rows": (False, lambda: _wide_one_hot(200, 1)),
    "8 groups, labels": (True, lambda: _grouped(8, 3, 60, 0, labels=True)),
    "10 groups, exponential": (False, lambda: _grouped(10, 3, 50, 1, labels=False)),
    "repeated rows": (True, lambda: _repeated(15, 0)),
    "repeated rows, 6 different": (False, lambda: _repeated(6, 1)),
    "5 background rows": (True, lambda: _few_rows(5, 12, 0, labels=False)),
    "13 background rows, labels": (False, lambda: _few_rows(13, 11, 1, labels=True)),
    "one background row, network": (False, lambda: _few_rows(1, 13, 2, labels=False)),
    "1,000 rows, exponential": (True, lambda: _many_rows(7, 1000, 0, rare=False)),
    "1,000 rows, one rare": (False, lambda: _many_rows(8, 1000, 1, rare=True)),
    "products, a row ten times as far": (True, lambda: _rare_product(150, 0)),
    "products, 60 rows, one far": (False, lambda: _rare_product(60, 1)),
    "steps, 12 players": (True, lambda: _steps(12, 50, 0)),
    "steps, 9 players": (False, lambda: _steps(9, 100, 1)),
    "three probabilities": (True, lambda: _three_probabilities(8, 60, 0)),
    "correlated, exponential": (True, lambda: _correlated(8, 0, step=False)),
    "correlated, step": (True, lambda: _correlated(8, 1, step=True)),
    "correlated, exponential, 9 players": (False, lambda: _correlated(9, 2, step=False)),
    "correlated, step, 10 players": (False, lambda: _correlated(10, 3, step=True)),
    "copula": (True, lambda: _dependent("copula", 1)),
    "copula, heavy tails": (False, lambda: _dependent("copula", 2)),
    "empirical": (True, lambda: _dependent("empirical", 3)),
    "empirical, heavy tails": (False, lambda: _dependent("empirical", 4)),
    "torch network": (True, lambda: _torch(10, 40, 0, step=False)),
    "torch labels": (False, lambda: _torch(9, 60, 1, step=True)),
}
