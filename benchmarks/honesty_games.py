"""Games on which errors are hard to get right, with their true Shapley values.

Half of the games were used to choose the rules for errors (`tuned`), the other half was held back. A game is a model, a
background and one explained row; true values come from all coalitions (up to 14 players), or from a long run of walks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from math import factorial
from typing import Any

import numpy as np

Rows = np.ndarray[Any, np.dtype[np.float64]]
#: Pairs of walks behind true values of many players; the error left is a tenth of that of 10,000 evaluations.
TRUTH_PAIRS = 20_000


@dataclass(frozen=True)
class Game:
    """One explained row with its true values `(players, outputs)`, and what an `Explainer` and its call are told.

    `front` takes the place of the `Explainer`: it gets the game and further settings, and is called as that is.
    """

    model: Any
    background: Rows
    x: Rows
    truth: Rows
    settings: dict[str, Any] = field(default_factory=dict)
    call: dict[str, Any] = field(default_factory=dict)
    front: Callable[..., Any] | None = None


def enumerate_values(model: Callable[[Rows], Rows], background: Rows, x: Rows) -> Rows:
    """Shapley values `(players, outputs)` from all coalitions."""
    p = len(x)
    coalitions = np.array(list(product([False, True], repeat=p)))
    sizes = coalitions.sum(axis=1)
    values = []
    for start in range(0, len(coalitions), max(1, 200_000 // len(background))):
        part = coalitions[start : start + max(1, 200_000 // len(background))]
        rows = np.where(part[:, None], x, background).reshape(-1, p)
        outputs = np.asarray(model(rows), dtype=float).reshape(len(part), len(background), -1)
        values.append(outputs.mean(axis=1))
    v = np.concatenate(values)
    number = {tuple(c): k for k, c in enumerate(coalitions)}
    result = np.zeros((p, v.shape[1]))
    for j in range(p):
        without = np.flatnonzero(~coalitions[:, j])
        joined = coalitions[without].copy()
        joined[:, j] = True
        weights = np.array([factorial(s) * factorial(p - s - 1) / factorial(p) for s in range(p)])
        after = np.array([number[tuple(c)] for c in joined])
        result[j] = weights[sizes[without]] @ (v[after] - v[without])
    return result


def simulate_values(model: Callable[[Rows], Rows], background: Rows, x: Rows, n_pairs: int = TRUTH_PAIRS) -> Rows:
    """Shapley values from long walks, every background row equally often."""
    p, n_rows = len(x), len(background)
    rng = np.random.default_rng(99)
    n_pairs = max(1, n_pairs // n_rows) * n_rows
    total = None
    for start in range(0, n_pairs, 500):
        n = min(500, n_pairs - start)
        order = rng.permuted(np.tile(np.arange(p), (n, 1)), axis=1)
        draws = background[(start + np.arange(n)) % n_rows]
        for walk in (order, order[:, ::-1]):
            rank = np.argsort(walk, axis=1)
            revealed = rank[:, None, :] < np.arange(p + 1)[None, :, None]
            rows = np.where(revealed, x, draws[:, None])
            outputs = np.asarray(model(rows.reshape(-1, p)), dtype=float).reshape(n, p + 1, -1)
            added = np.take_along_axis(np.diff(outputs, axis=1), rank[:, :, None], axis=1).sum(axis=0)
            total = added if total is None else total + added
    assert total is not None
    return total / (2 * n_pairs)


def make_game(model: Callable[[Rows], Rows], background: Rows, x: Rows, truth: Rows | None = None) -> Game:
    """A game with its true values."""
    if truth is None:
        truth = (enumerate_values if len(x) <= 14 else simulate_values)(model, background, x)
    return Game(model, background, x, truth)


def _classification(p: int, seed: int, n: int = 1500) -> tuple[Rows, Rows]:
    from sklearn.datasets import make_classification

    X, y = make_classification(
        n_samples=n, n_features=p, n_informative=max(4, p // 2), n_redundant=p // 5, random_state=seed, class_sep=0.8
    )
    return X, y


def _network(p: int, seed: int) -> tuple[Any, Rows]:
    from sklearn.neural_network import MLPClassifier

    X, y = _classification(p, seed)
    return MLPClassifier((24,), max_iter=300, random_state=seed, alpha=1e-3).fit(X, y), X


def _labels_network(p: int, seed: int, n_rows: int) -> Game:
    model, X = _network(p, seed)
    return make_game(lambda rows: model.predict(rows).astype(float), X[:n_rows], X[-1])


def _probability_network(p: int, seed: int, n_rows: int) -> Game:
    model, X = _network(p, seed)
    return make_game(lambda rows: model.predict_proba(rows)[:, 1], X[:n_rows], X[-1])


def _labels_forest(p: int, seed: int, n_rows: int) -> Game:
    from sklearn.ensemble import RandomForestClassifier

    X, y = _classification(p, seed)
    model = RandomForestClassifier(15, max_depth=8, random_state=seed).fit(X, y)
    trees = [tree.tree_ for tree in model.estimators_]

    def predict(rows: Rows) -> Rows:
        votes = sum(tree.predict(rows.astype(np.float32)) for tree in trees)
        return (votes[:, 1] > votes[:, 0]).astype(float)

    return make_game(predict, X[:n_rows], X[-1])


def _boosting(p: int, seed: int, n_rows: int) -> Game:
    from sklearn.ensemble import GradientBoostingRegressor

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1500, p))
    y = X[:, 0] * X[:, 1] + 2 * (X[:, 2] > 0.5) * X[:, 3] + np.sin(2 * X[:, 4]) + 0.3 * X[:, 5:8].sum(axis=1)
    model = GradientBoostingRegressor(n_estimators=60, max_depth=4, random_state=seed).fit(X, y)
    return make_game(model.predict, X[:n_rows], X[-1])


def _tree_labels(p: int, seed: int, n_rows: int) -> Game:
    from sklearn.tree import DecisionTreeClassifier

    X, y = _classification(p, seed)
    model = DecisionTreeClassifier(max_depth=7, random_state=seed).fit(X, y)
    tree = model.tree_
    return make_game(
        lambda rows: tree.predict(rows.astype(np.float32)).reshape(len(rows), -1).argmax(axis=1).astype(float),
        X[:n_rows], X[-1],
    )  # fmt: skip


def _svm(p: int, seed: int, n_rows: int, *, labels: bool) -> Game:
    from sklearn.svm import SVC

    X, y = _classification(p, seed, 500)
    model = SVC(C=3.0, random_state=seed).fit(X, y)
    if labels:
        return make_game(lambda rows: model.predict(rows).astype(float), X[:n_rows], X[-1])
    return make_game(lambda rows: model.decision_function(rows), X[:n_rows], X[-1])


def _and(p: int) -> Game:
    return make_game(
        lambda rows: (rows > 0.5).all(axis=1).astype(float), np.zeros((1, p)), np.ones(p), np.full((p, 1), 1.0 / p)
    )


def _or(p: int) -> Game:
    return make_game(
        lambda rows: (rows > 0.5).any(axis=1).astype(float), np.zeros((1, p)), np.ones(p), np.full((p, 1), 1.0 / p)
    )


def _rare_leaf(p: int, depth: int = 6, *, flip: bool) -> Game:
    """A leaf of `depth` players, and (flip) a small effect of the opposite sign for each of them."""
    small = -0.02 if flip else 0.0

    def model(rows: Rows) -> Rows:
        leaf = (rows[:, :depth] > 0.5).all(axis=1) & (rows[:, depth : 2 * depth] < 0.5).all(axis=1)
        return 3.0 * leaf + small * rows[:, :depth].sum(axis=1) + 0.3 * rows[:, 2 * depth :].sum(axis=1)

    a, d = depth, depth
    inside = factorial(a - 1) * factorial(d) / factorial(a + d)
    outside = -factorial(a) * factorial(d - 1) / factorial(a + d)
    truth = np.full((p, 1), 0.3)
    truth[:depth] = 3.0 * inside + small
    truth[depth : 2 * depth] = 3.0 * outside
    return Game(model, np.zeros((1, p)), np.ones(p), truth)


def _rare_three_way(n_rows: int, n_rare: int, *, flip: bool) -> Game:
    """A product of three players that only a few background rows take part in."""
    rng = np.random.default_rng(3)
    background = rng.normal(size=(n_rows, 8))
    background[:, 7] = 0.0
    background[:n_rare, 7] = 1.0
    x = np.array([1.2, 0.8, -1.0, 0.5, 0.3, -0.4, 1.0, 0.0])
    sign = -0.05 if flip else 0.05

    def model(rows: Rows) -> Rows:
        smooth = 0.4 * rows[:, 3] + 0.2 * rows[:, 4] * rows[:, 5] + sign * rows[:, :3].sum(axis=1)
        return smooth + 15.0 * rows[:, 7] * (rows[:, 0] > 0) * (rows[:, 1] > 0) * (rows[:, 2] < 0)

    return make_game(model, background, x)


def _influential(p: int, n_rows: int, seed: int) -> Game:
    """One background row is far away, and a rule that only it satisfies."""
    rng = np.random.default_rng(seed)
    background = rng.normal(size=(n_rows, p))
    background[0] = 4.0
    x = rng.normal(size=p)
    w = rng.normal(size=p)

    def model(rows: Rows) -> Rows:
        return np.tanh(rows @ w / np.sqrt(p)) + 25.0 * (rows[:, : p // 2] > 3).all(axis=1)

    return make_game(model, background, x)


def _exponential(p: int, n_rows: int, seed: int, scale: float) -> Game:
    rng = np.random.default_rng(seed)
    background = rng.normal(size=(n_rows, p))
    x = rng.normal(size=p) + 0.5
    return make_game(lambda rows: np.exp(scale * rows[:, :6].sum(axis=1)), background, x)


def _tanh(p: int, n_rows: int, seed: int) -> Game:
    rng = np.random.default_rng(seed)
    W, a = rng.normal(size=(p, 12)) / np.sqrt(p), rng.normal(size=12)
    background, x = rng.normal(size=(n_rows, p)), rng.normal(size=p)
    return make_game(lambda rows: np.tanh(1.5 * rows @ W) @ a, background, x)


def _maximum(p: int, n_rows: int) -> Game:
    rng = np.random.default_rng(4)
    return make_game(lambda rows: rows.max(axis=1), rng.normal(size=(n_rows, p)), rng.normal(size=p))


def _rules(p: int, n_rows: int) -> Game:
    rng = np.random.default_rng(8)
    sets = [rng.choice(p, 4, replace=False) for _ in range(6)]
    signs, sizes = rng.choice([-1, 1], (6, 4)), rng.normal(size=6)

    def model(rows: Rows) -> Rows:
        return sum(
            size * (sign * rows[:, columns] > 0).all(axis=1)
            for columns, sign, size in zip(sets, signs, sizes, strict=True)
        )

    return make_game(model, rng.normal(size=(n_rows, p)), rng.normal(size=p))


def _one_hot(n_rows: int, seed: int) -> Game:
    rng = np.random.default_rng(seed)
    level = rng.choice(6, n_rows, p=[0.5, 0.25, 0.15, 0.06, 0.03, 0.01])
    background = np.column_stack([rng.normal(size=(n_rows, 5)), np.eye(6)[level]])
    x = np.concatenate([rng.normal(size=5), np.eye(6)[0]])
    W, a = rng.normal(size=(11, 16)), rng.normal(size=16)
    W[5:] *= 2.0
    return make_game(lambda rows: np.maximum(rows @ W, 0.0) @ a, background, x)


def _three_classes(p: int, n_rows: int, seed: int) -> Game:
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(p, 3))
    background, x = rng.normal(size=(n_rows, p)), rng.normal(size=p)

    def model(rows: Rows) -> Rows:
        score = rows @ W + rows[:, :3] * rows[:, 3:6]
        return np.eye(3)[score.argmax(axis=1)]

    return make_game(model, background, x)


#: Name: (used to choose the rules, how to make it).
GAMES: dict[str, tuple[bool, Callable[[], Game]]] = {
    "network labels, 30 players": (True, lambda: _labels_network(30, 0, 100)),
    "network labels, 12 players": (False, lambda: _labels_network(12, 5, 50)),
    "network labels, 50 players": (False, lambda: _labels_network(50, 7, 100)),
    "network probability, 30 players": (True, lambda: _probability_network(30, 0, 100)),
    "network probability, 20 players": (False, lambda: _probability_network(20, 3, 60)),
    "forest labels, 12 players": (True, lambda: _labels_forest(12, 1, 60)),
    "forest labels, 8 players": (False, lambda: _labels_forest(8, 2, 50)),
    "tree labels, 13 players": (False, lambda: _tree_labels(13, 3, 30)),
    "three classes, 9 players": (False, lambda: _three_classes(9, 50, 4)),
    "boosting, 30 players": (True, lambda: _boosting(30, 0, 100)),
    "boosting, 13 players": (True, lambda: _boosting(13, 1, 40)),
    "boosting, 20 players": (False, lambda: _boosting(20, 2, 50)),
    "SVM labels, 9 players": (False, lambda: _svm(9, 5, 50, labels=True)),
    "SVM score, 9 players": (False, lambda: _svm(9, 5, 50, labels=False)),
    "AND of 12": (True, lambda: _and(12)),
    "AND of 20": (False, lambda: _and(20)),
    "OR of 14": (False, lambda: _or(14)),
    "rare leaf, 20 players": (True, lambda: _rare_leaf(20, flip=False)),
    "rare leaf with flipped signs": (True, lambda: _rare_leaf(20, flip=True)),
    "rare leaf of 4, 15 players": (False, lambda: _rare_leaf(15, 4, flip=True)),
    "rare interaction, 100 rows": (True, lambda: _rare_three_way(100, 2, flip=False)),
    "rare interaction with flipped signs": (True, lambda: _rare_three_way(100, 1, flip=True)),
    "rare interaction, 25 rows": (False, lambda: _rare_three_way(25, 1, flip=True)),
    "influential row, 10 players": (True, lambda: _influential(10, 80, 0)),
    "influential row, 8 players": (False, lambda: _influential(8, 200, 1)),
    "exponential, 8 players": (True, lambda: _exponential(8, 60, 0, 0.6)),
    "exponential, 9 players": (False, lambda: _exponential(9, 40, 2, 0.5)),
    "tanh network, 10 players": (True, lambda: _tanh(10, 50, 0)),
    "tanh network, 40 players": (False, lambda: _tanh(40, 100, 1)),
    "maximum of 10": (False, lambda: _maximum(10, 100)),
    "rules, 12 players": (False, lambda: _rules(12, 40)),
    "one-hot rare levels": (True, lambda: _one_hot(200, 0)),
    "one-hot rare levels, 60 rows": (False, lambda: _one_hot(60, 6)),
}
