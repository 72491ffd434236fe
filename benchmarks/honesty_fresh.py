"""A dozen games for `honesty.py` of kinds that its others do not have, all drawn before the first of them was run.

Counts, sums of rare events, survival, neighbours, parity, medians, claims, heavy-tailed columns, few leaves, one row as
background. Two of those that broke were looked at afterwards: "minima of pairs" led to what `docs/mathematics.md` says
of functions that help at no prior (section 12), from "claims above a deductible" nothing was learned to be kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from honesty_games import Game, Rows, make_game
from honesty_kinds import values_of_parts
from scipy.special import ndtr

from controlshap.testing import shapley_by_definition


def _counts() -> Game:
    """A count that grows exponentially with a score, rounded down."""
    rng = np.random.default_rng(201)
    background, x, w = rng.normal(size=(60, 12)), rng.normal(size=12), 0.4 * rng.normal(size=12)
    return make_game(lambda rows: np.floor(3.0 * np.exp(rows @ w)), background, x)


def _neighbours() -> Game:
    """The mean of the three nearest neighbours, constant on cells."""
    from sklearn.neighbors import KNeighborsRegressor

    rng = np.random.default_rng(202)
    X = rng.normal(size=(400, 9))
    model = KNeighborsRegressor(3).fit(X, 2.0 * (X[:, 0] > 0) * X[:, 1] + X[:, 2] ** 2 + rng.normal(size=400))
    return make_game(model.predict, X[:40], X[-1])


def _few_leaves() -> Game:
    """Probabilities of one tree of six leaves, which most of 30 players do not enter."""
    from sklearn.datasets import make_classification
    from sklearn.tree import DecisionTreeClassifier

    X, y = make_classification(n_samples=1000, n_features=30, n_informative=10, random_state=203)
    model = DecisionTreeClassifier(max_leaf_nodes=6, random_state=0).fit(X, y)
    used = [int(j) for j in np.unique(model.tree_.feature) if j >= 0]

    def predict(rows: Rows) -> Rows:
        return model.predict_proba(rows)[:, 1]

    def of_used(rows: Rows) -> Rows:
        full = np.zeros((len(rows), 30))
        full[:, used] = rows
        return predict(full)

    background, x = X[:80], X[-1]
    return Game(predict, background, x, values_of_parts([(tuple(used), of_used)], background, x))


def _extra_trees() -> Game:
    """Probabilities of four shallow random trees of 12 players: few levels."""
    from sklearn.datasets import make_classification
    from sklearn.ensemble import ExtraTreesClassifier

    X, y = make_classification(n_samples=800, n_features=12, n_informative=8, random_state=204)
    model = ExtraTreesClassifier(4, max_depth=4, random_state=0).fit(X, y)
    return make_game(lambda rows: model.predict_proba(rows)[:, 1], X[:50], X[-1])


def _survival() -> Game:
    """The chance to survive a time under a hazard that grows exponentially with a score; one background row."""
    rng = np.random.default_rng(205)
    background, x, w = rng.normal(size=(1, 14)), rng.normal(size=14), 0.9 * rng.normal(size=14)
    return make_game(lambda rows: np.exp(-0.5 * np.exp(np.minimum(rows @ w, 30.0))), background, x)


def _rare_events() -> Game:
    """A sum of twenty rules, each of which three columns together fulfil rarely; 60 players."""
    rng = np.random.default_rng(206)
    parts = []
    for _ in range(20):
        columns, size = rng.choice(60, 3, replace=False), float(rng.uniform(0.5, 2.0))
        parts.append(
            (tuple(int(c) for c in columns), lambda rows, size=size: size * (rows > 0.8).all(axis=1).astype(float))
        )
    background, x = rng.normal(size=(100, 60)), rng.normal(size=60) + 0.4

    def model(rows: Rows) -> Rows:
        return np.sum([function(rows[:, list(columns)]) for columns, function in parts], axis=0)

    return Game(model, background, x, values_of_parts(parts, background, x))


def _minima() -> Game:
    """A sum of minima of two columns and a product of four, 80 players; one background row."""
    rng = np.random.default_rng(207)
    pairs = rng.permutation(80).reshape(40, 2)
    parts = [(tuple(int(c) for c in pair), lambda rows: rows.min(axis=1)) for pair in pairs]
    parts.append(((0, 1, 2, 3), lambda rows: 4.0 * rows.prod(axis=1)))
    background, x = rng.normal(size=(1, 80)), rng.normal(size=80)

    def model(rows: Rows) -> Rows:
        return np.sum([function(rows[:, list(columns)]) for columns, function in parts], axis=0)

    return Game(model, background, x, values_of_parts(parts, background, x))


def _correlated_group_steps() -> Game:
    """Whether a score of correlated columns in groups passes a bar that it rarely passes."""
    rng = np.random.default_rng(208)
    n_groups, p = 8, 16
    mix = rng.normal(size=(p, p)) / np.sqrt(p) + 0.5 * np.eye(p)
    background, x, w = rng.normal(size=(250, p)) @ mix.T, rng.normal(size=p) @ mix.T, rng.normal(size=p)
    mean, covariance = background.mean(axis=0), np.cov(background.T)
    bar = float(mean @ w + 1.5 * np.sqrt(w @ covariance @ w))

    def v(coalition: frozenset[int]) -> Rows:
        inside = np.isin(np.arange(p) // 2, list(coalition))
        S, rest = np.flatnonzero(inside), np.flatnonzero(~inside)
        center, spread = mean @ w, w @ covariance @ w
        if len(S):
            pull = np.linalg.solve(covariance[np.ix_(S, S)], covariance[np.ix_(S, rest)])
            center = x[S] @ w[S] + (mean[rest] + (x[S] - mean[S]) @ pull) @ w[rest]
            spread = w[rest] @ (covariance[np.ix_(rest, rest)] - covariance[np.ix_(rest, S)] @ pull) @ w[rest]
        if spread < 1e-12:
            return np.array([float(center > bar)])
        return np.array([ndtr((center - bar) / np.sqrt(spread))])

    settings = {"features": "correlated", "groups": {f"g{k}": [2 * k, 2 * k + 1] for k in range(n_groups)}}
    truth = shapley_by_definition(v, n_groups)
    return Game(lambda rows: (rows @ w > bar).astype(float), background, x, truth, settings)


def _posterior() -> Game:
    """The posterior of quadratic discriminants, near 0 or 1 at most rows."""
    from sklearn.datasets import make_classification
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    X, y = make_classification(n_samples=600, n_features=11, n_informative=9, n_redundant=0, random_state=209)
    model = QuadraticDiscriminantAnalysis(reg_param=0.01).fit(X, y)
    return make_game(lambda rows: model.predict_proba(rows)[:, 1], X[:60], X[-1])


def _parity() -> Game:
    """The parity of four signs, and a small linear score."""
    rng = np.random.default_rng(210)
    background, x, w = rng.normal(size=(40, 10)), rng.normal(size=10), 0.1 * rng.normal(size=10)
    return make_game(lambda rows: np.sign(rows[:, :4]).prod(axis=1) + rows @ w, background, x)


def _claims() -> Game:
    """Claims: zero below a deductible, and the square of what is above it."""
    rng = np.random.default_rng(211)
    background, x, w = rng.normal(size=(120, 11)), rng.normal(size=11) + 0.3, rng.normal(size=11) / np.sqrt(11)
    return make_game(lambda rows: np.maximum(rows @ w - 1.2, 0.0) ** 2, background, x)


def _heavy_columns() -> Game:
    """Products of columns with Student's t of two degrees of freedom."""
    rng = np.random.default_rng(212)
    background, x = rng.standard_t(2, size=(80, 9)), rng.standard_t(2, size=9)
    return make_game(
        lambda rows: rows[:, 0] * rows[:, 1] + np.abs(rows[:, 2] + rows[:, 3]) + rows[:, 4] * (rows[:, 5] > 0)
        + np.median(rows[:, 4:9], axis=1),
        background, x,
    )  # fmt: skip


FRESH: dict[str, tuple[bool, Callable[[], Game]]] = {
    "counts, 12 players": (False, _counts),
    "three neighbours, 9 players": (False, _neighbours),
    "six leaves, 30 players": (False, _few_leaves),
    "four shallow trees, 12 players": (False, _extra_trees),
    "survival, one background row": (False, _survival),
    "sum of rare events, 60 players": (False, _rare_events),
    "minima of pairs, 80 players": (True, _minima),
    "correlated groups, rare step": (False, _correlated_group_steps),
    "discriminant posterior, 11 players": (False, _posterior),
    "parity of four, 10 players": (False, _parity),
    "claims above a deductible": (True, _claims),
    "heavy-tailed columns": (False, _heavy_columns),
}
