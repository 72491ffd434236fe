"""Twenty-two small models of many kinds, for the choice of the design: what "auto" does is held against them.

Few and many players, labels, trees, kernel machines, neighbours, columns of few levels. The first half was looked at
while the rules of `engine/choice.py` were set; the second half was held back until they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Model = Callable[[np.ndarray], np.ndarray]
N_ROWS = 700
#: Kinds that were looked at, and kinds that were held back.
TUNED = (
    "kernel machine 11", "kernel labels 12", "neighbours 13", "relu 30", "forest levels 20", "boosted 15",
    "boosted wide 100", "logistic pairs 25", "tanh 13", "forest digits 64", "corner 9",
)  # fmt: skip
HELD_BACK = (
    "kernel machine 8", "forest labels 10", "neighbours mean 9", "relu 12", "trees levels 40", "boosted 8", "steps 14",
    "embedding 40", "tanh 20", "three labels 13", "rate 18",
)  # fmt: skip


def make_kind(name: str) -> tuple[Model, np.ndarray, Any]:
    """The model, 700 rows of data, and the fitted trees where these have exact values."""
    kind, n = name.rsplit(" ", 1)
    rng = np.random.default_rng(len(name) + 31 * int(n))
    return KINDS[kind](int(n), rng)


def _normal(n: int, rng: np.random.Generator) -> np.ndarray:
    return np.sqrt(0.3) * rng.normal(size=(N_ROWS, 1)) + np.sqrt(0.7) * rng.normal(size=(N_ROWS, n))


def _levels(n: int, rng: np.random.Generator, most: int = 4) -> np.ndarray:
    """Columns of two to `most` levels, uneven."""
    counts = rng.integers(2, most + 1, n)
    chances = [rng.dirichlet(np.full(k, 2.0)) for k in counts]
    return np.column_stack([rng.choice(k, N_ROWS, p=c) for k, c in zip(counts, chances, strict=True)]).astype(float)


def _kernel_machine(n: int, rng: np.random.Generator) -> tuple[Model, np.ndarray, Any]:
    X = _normal(n, rng)
    centers, weights = X[:60] + 0.3 * rng.normal(size=(60, n)), rng.normal(size=60)

    def model(rows: np.ndarray) -> np.ndarray:
        squares = (rows**2).sum(axis=1)[:, None] - 2.0 * rows @ centers.T + (centers**2).sum(axis=1)
        return np.exp(-squares / (2.0 * n)) @ weights

    return model, X, None


def _kernel_labels(n: int, rng: np.random.Generator) -> tuple[Model, np.ndarray, Any]:
    score, X, _ = _kernel_machine(n, rng)
    middle = np.median(score(X))
    return lambda rows: (score(rows) > middle).astype(float), X, None


def _neighbours(n: int, rng: np.random.Generator, *, mean: bool = False) -> tuple[Model, np.ndarray, Any]:
    X = _normal(n, rng)
    seen = X[:200]
    y = np.tanh(seen[:, 0] * seen[:, 1] + seen[:, 2]) if mean else (seen[:, :4].sum(axis=1) + seen[:, 4] ** 2 > 1) * 1.0

    def model(rows: np.ndarray) -> np.ndarray:
        squares = (seen**2).sum(axis=1) - 2.0 * rows @ seen.T
        return y[np.argpartition(squares, 10, axis=1)[:, :10]].mean(axis=1)

    return model, X, None


def _relu(n: int, rng: np.random.Generator) -> tuple[Model, np.ndarray, Any]:
    first, second = rng.normal(size=(n, 24)) * 2.0 / np.sqrt(n), rng.normal(size=(24, 12)) / np.sqrt(12)
    out, shift = rng.normal(size=12) * 2.0, rng.normal(size=24)

    def model(rows: np.ndarray) -> np.ndarray:
        return 1.0 / (1.0 + np.exp(-np.maximum(np.maximum(rows @ first + shift, 0.0) @ second, 0.0) @ out))

    return model, _normal(n, rng), None


def _trees(n: int, rng: np.random.Generator, kind: str) -> tuple[Model, np.ndarray, Any]:
    from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor

    boosted = kind in ("boosted", "boosted wide")
    X = _normal(n, rng) if boosted else _levels(n, rng)
    slopes = rng.normal(size=n) * (np.arange(n) < 12)
    y = np.tanh(X @ slopes / 2.0) + 0.5 * X[:, 0] * X[:, 1] * (X[:, 2] > X[:, 3]) + 0.1 * rng.normal(size=N_ROWS)
    fitted = {
        "boosted": HistGradientBoostingRegressor(max_iter=60, random_state=0),
        "boosted wide": HistGradientBoostingRegressor(max_iter=60, random_state=0),
        "forest levels": RandomForestRegressor(n_estimators=30, random_state=0),
        "trees levels": ExtraTreesRegressor(n_estimators=30, random_state=0),
    }[kind].fit(X, y)
    return lambda rows: fitted.predict(rows), X, fitted


def _forest_labels(n: int, rng: np.random.Generator) -> tuple[Model, np.ndarray, Any]:
    score, X, _ = _trees(n, rng, "forest levels")
    middle = np.median(score(X))
    return lambda rows: (score(rows) > middle).astype(float), X, None


def _digits(n: int, rng: np.random.Generator) -> tuple[Model, np.ndarray, Any]:
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestRegressor

    X, y = load_digits(return_X_y=True)
    chosen = rng.permutation(len(X))[:N_ROWS]
    fitted = RandomForestRegressor(n_estimators=30, random_state=0).fit(X[chosen, :n], y[chosen] == 3)
    return lambda rows: fitted.predict(rows), X[chosen, :n].astype(float), fitted


def _logistic_pairs(n: int, rng: np.random.Generator) -> tuple[Model, np.ndarray, Any]:
    slopes, pairs = rng.normal(size=n) / 2.0, np.triu(rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.1), 1)
    return lambda r: 1.0 / (1.0 + np.exp(-(r @ slopes + np.einsum("ni,ij,nj->n", r, pairs, r)))), _normal(n, rng), None


def _tanh(n: int, rng: np.random.Generator) -> tuple[Model, np.ndarray, Any]:
    weights, out = rng.normal(size=(n, 20)) * 1.5 / np.sqrt(n), rng.normal(size=20)
    return lambda rows: np.tanh(rows @ weights) @ out, _normal(n, rng), None


def _corner(n: int, rng: np.random.Generator) -> tuple[Model, np.ndarray, Any]:
    return lambda rows: (rows[:, :4] > 0.3).all(axis=1) * 2.0 + np.sin(rows).sum(axis=1), _normal(n, rng), None


def _steps(n: int, rng: np.random.Generator) -> tuple[Model, np.ndarray, Any]:
    planes = rng.normal(size=(n, 4)) / np.sqrt(n)
    return lambda rows: (rows @ planes > 0.2).sum(axis=1) + 0.1 * rows[:, 0], _normal(n, rng), None


def _embedding(n: int, rng: np.random.Generator) -> tuple[Model, np.ndarray, Any]:
    X, table = _levels(n, rng, 6), rng.normal(size=(n, 6, 8)) * 2.0 / np.sqrt(n)
    out, columns = rng.normal(size=8), np.arange(n)
    return lambda rows: np.tanh(table[columns, rows.astype(int)].sum(axis=1)) @ out, X, None


def _three_labels(n: int, rng: np.random.Generator) -> tuple[Model, np.ndarray, Any]:
    scores = rng.normal(size=(n, 3))
    return lambda rows: np.argmax(np.tanh(rows) @ scores, axis=1).astype(float), _normal(n, rng), None


def _rate(n: int, rng: np.random.Generator) -> tuple[Model, np.ndarray, Any]:
    slopes = rng.normal(size=n) * 0.4
    return lambda rows: np.exp(rows @ slopes) / (1.0 + np.maximum(rows[:, 0], 0.0)), _normal(n, rng), None


KINDS: dict[str, Callable[[int, np.random.Generator], tuple[Model, np.ndarray, Any]]] = {
    "kernel machine": _kernel_machine,
    "kernel labels": _kernel_labels,
    "neighbours": _neighbours,
    "neighbours mean": lambda n, rng: _neighbours(n, rng, mean=True),
    "relu": _relu,
    "forest digits": _digits,
    "forest labels": _forest_labels,
    "logistic pairs": _logistic_pairs,
    "tanh": _tanh,
    "corner": _corner,
    "steps": _steps,
    "embedding": _embedding,
    "three labels": _three_labels,
    "rate": _rate,
    **{
        kind: (lambda n, rng, kind=kind: _trees(n, rng, kind))
        for kind in ("forest levels", "trees levels", "boosted", "boosted wide")
    },
}
