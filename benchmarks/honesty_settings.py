"""Games for `honesty.py` that are asked through other doors: backgrounds with weights, summaries, links, ranges.

The value of a coalition is a link of the weighted mean over the background, and so true values come from the
definition.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from honesty_games import Game, Rows

import controlshap as cs
from controlshap.testing import shapley_by_definition


class Linked:
    """A `KernelExplainer`, called as an `Explainer` is."""

    def __init__(self, game: Game, **settings: Any) -> None:
        self.explainer = cs.KernelExplainer(game.model, game.background, **game.settings | settings, rng=1)

    def __call__(self, rows: Rows, budget: int, rng: int = 1, **limits: Any) -> cs.Explanation:
        """The explanation of rows; `rng` is that of the explainer."""
        del rng
        limits.pop("keep", None)
        self.explainer.shap_values(rows, budget=budget, silent=True, **limits)
        assert self.explainer.explanation is not None
        return self.explainer.explanation


def _identity(means: Rows) -> Rows:
    return means


def _logit(means: Rows) -> Rows:
    return np.log(means / (1.0 - means))


def _linked(
    model: Callable[[Rows], Rows], rows: Rows, x: Rows, *, weights: Rows | None = None, link: str = "identity"
) -> Game:
    """A game of links of weighted means."""
    shares = np.full(len(rows), 1.0 / len(rows)) if weights is None else weights / weights.sum()
    apply = {"identity": _identity, "logit": _logit}[link]

    def v(coalition: frozenset[int]) -> Rows:
        mixed = rows.copy()
        mixed[:, list(coalition)] = x[list(coalition)]
        outputs = np.asarray(model(mixed), dtype=float).reshape(len(rows), -1)
        return apply(shares @ outputs)

    background: Any = rows
    if weights is not None:  # what shap.kmeans returns
        names = [f"x{j}" for j in range(rows.shape[1])]
        groups = [[j] for j in range(len(x))]
        background = SimpleNamespace(data=rows, weights=weights, group_names=names, groups=groups, transposed=False)
    return Game(model, background, x, shapley_by_definition(v, len(x)), {"link": link}, front=Linked)


def _summary_of(X: Rows, n_clusters: int) -> tuple[Rows, Rows]:
    """Centres of clusters, each column at the nearest value that occurs, and the share of each cluster."""
    from sklearn.cluster import KMeans

    found = KMeans(n_clusters, random_state=0, n_init=10).fit(X)
    centers = found.cluster_centers_
    for j in range(X.shape[1]):
        centers[:, j] = X[np.abs(X[:, j] - centers[:, [j]]).argmin(axis=1), j]
    return centers, np.bincount(found.labels_).astype(float)


def _network(p: int, seed: int) -> tuple[Any, Rows]:
    from sklearn.datasets import make_classification
    from sklearn.neural_network import MLPClassifier

    X, y = make_classification(n_samples=800, n_features=p, n_informative=p - 2, random_state=seed)
    return MLPClassifier((16,), max_iter=400, random_state=seed).fit(X, y), X


def _summarised_labels() -> Game:
    model, X = _network(9, 301)
    rows, weights = _summary_of(X, 10)
    return _linked(lambda r: model.predict(r).astype(float), rows, X[-1], weights=weights)


def _summarised_boosting() -> Game:
    from sklearn.ensemble import GradientBoostingRegressor

    rng = np.random.default_rng(302)
    X = rng.normal(size=(800, 10))
    y = X[:, 0] * X[:, 1] + 2.0 * (X[:, 2] > 0.5) * X[:, 3] + np.sin(2.0 * X[:, 4])
    model = GradientBoostingRegressor(n_estimators=50, random_state=0).fit(X, y)
    rows, weights = _summary_of(X, 12)
    return _linked(model.predict, rows, X[-1], weights=weights)


def _weighted_exponential() -> Game:
    rng = np.random.default_rng(303)
    rows, x, w = rng.normal(size=(25, 10)), rng.normal(size=10), 0.6 * rng.normal(size=10)
    return _linked(lambda r: np.exp(r @ w), rows, x, weights=rng.lognormal(0.0, 1.0, 25))


def _weighted_rule() -> Game:
    """A rule of five that only the row with the least weight fulfils."""
    rng = np.random.default_rng(304)
    rows, x = rng.normal(size=(20, 10)), rng.normal(size=10)
    rows[0, :5] = 4.0
    weights = rng.uniform(1.0, 5.0, 20)
    weights[0] = 0.5
    w = rng.normal(size=10)
    return _linked(lambda r: np.tanh(r @ w / 3.0) + 40.0 * (r[:, :5] > 3.0).all(axis=1), rows, x, weights=weights)


def _log_odds() -> Game:
    model, X = _network(10, 305)
    return _linked(lambda r: model.predict_proba(r)[:, 1], X[:15], X[-1], link="logit")


def _log_odds_of_steps() -> Game:
    """Log-odds of a mean of probabilities that have two values, 0.02 and 0.98."""
    rng = np.random.default_rng(306)
    rows, x, w = rng.normal(size=(12, 9)), rng.normal(size=9), rng.normal(size=9)
    return _linked(lambda r: 0.02 + 0.96 * (r @ w > 0.5), rows, x, link="logit")


OTHER_DOORS: dict[str, tuple[bool, Callable[[], Game]]] = {
    "summarised background, labels": (True, _summarised_labels),
    "summarised background, boosting": (False, _summarised_boosting),
    "weighted background, exponential": (False, _weighted_exponential),
    "weighted background, rule of the lightest row": (True, _weighted_rule),
    "log-odds of a mean, network": (True, _log_odds),
    "log-odds of a mean of steps": (False, _log_odds_of_steps),
}
