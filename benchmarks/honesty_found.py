"""Games for `honesty.py` that were written to break it, without a look at its others, and did.

All of them were looked at afterwards, and so they are not held back: the first two led to what `docs/mathematics.md`
says of coefficients at rows that are taken all (section 8); of the others nothing was learned that could be kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from honesty_games import Game, Rows, make_game

from controlshap.testing import shapley_by_definition


def _product_far_away() -> Game:
    """A product of four, and one background row far away in all of them."""
    rng = np.random.default_rng(105)
    background = rng.normal(size=(120, 9))
    background[7] = 5.0 * rng.choice([-1, 1], 9)
    x = 0.7 * rng.normal(size=9)
    return make_game(lambda rows: rows[:, :4].prod(axis=1) + np.sin(rows[:, 4:]).sum(axis=1), background, x)


def _outliers_in_columns() -> Game:
    """Two columns with an outlier each; f(b) shows one of them, and what is fitted to f follows the other."""
    rng = np.random.default_rng(106)
    background = rng.normal(size=(60, 8))
    background[3, 0], background[9, 1] = 100.0, -80.0
    x = rng.normal(size=8)

    def model(rows: Rows) -> Rows:
        return rows[:, 0] * (rows[:, 2] > 0) + rows[:, 1] * rows[:, 3] + rows[:, 4] * rows[:, 5]

    return make_game(model, background, x)


def _histogram_boosting() -> Game:
    """Boosted trees that learned a rule of two columns, which one unit in forty shows for one of its players."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(102)
    X = rng.normal(size=(2000, 11))
    y = 5 * (X[:, 0] > 1) * (X[:, 1] > 0) + X[:, 2] * X[:, 3] + 0.5 * X[:, 4] + 0.2 * rng.normal(size=2000)
    model = HistGradientBoostingRegressor(max_iter=40, max_leaf_nodes=15, random_state=0).fit(X, y)
    return make_game(model.predict, X[:70], X[-1])


def _lognormal() -> Game:
    """The exponential of a score with a standard deviation of more than 2."""
    rng = np.random.default_rng(107)
    background, x, w = rng.normal(size=(100, 10)), rng.normal(size=10), 0.8 * rng.normal(size=10)
    return make_game(lambda rows: np.exp(rows @ w), background, x)


def _correlated_groups() -> Game:
    """The same of correlated columns in groups; its means given some of the columns are known of a Gaussian."""
    rng = np.random.default_rng(113)
    n_groups, p = 7, 14
    mix = rng.normal(size=(p, p)) / np.sqrt(p) + 0.5 * np.eye(p)
    background, x, w = rng.normal(size=(200, p)) @ mix.T, rng.normal(size=p) @ mix.T, 0.45 * rng.normal(size=p)
    mean, covariance = background.mean(axis=0), np.cov(background.T)

    def v(coalition: frozenset[int]) -> Rows:
        inside = np.isin(np.arange(p) // 2, list(coalition))
        S, rest = np.flatnonzero(inside), np.flatnonzero(~inside)
        center, spread = mean @ w, w @ covariance @ w
        if len(S):
            pull = np.linalg.solve(covariance[np.ix_(S, S)], covariance[np.ix_(S, rest)])
            center = x[S] @ w[S] + (mean[rest] + (x[S] - mean[S]) @ pull) @ w[rest]
            spread = w[rest] @ (covariance[np.ix_(rest, rest)] - covariance[np.ix_(rest, S)] @ pull) @ w[rest]
        return np.array([np.exp(center + max(float(spread), 0.0) / 2.0)])

    groups = {f"g{k}": [2 * k, 2 * k + 1] for k in range(n_groups)}
    settings = {"features": "correlated", "groups": groups}
    return Game(lambda rows: np.exp(rows @ w), background, x, shapley_by_definition(v, n_groups), settings)


FOUND: dict[str, tuple[bool, Callable[[], Game]]] = {
    "product of four, one row far away": (True, _product_far_away),
    "outliers in two columns": (True, _outliers_in_columns),
    "histogram boosting, 11 players": (True, _histogram_boosting),
    "lognormal, 10 players": (True, _lognormal),
    "correlated groups, lognormal": (True, _correlated_groups),
}
