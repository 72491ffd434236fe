"""Ten models beside those of `efficiency_kinds.py`, of 8 to 14 players, so that all coalitions can be evaluated.

The depth of the trees on trial was set with a look at other models of the first three kinds; the rest had no part.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Model = Callable[[np.ndarray], np.ndarray]
N_ROWS = 600
NAMES = (
    "boosted classifier 12", "forest correlated 10", "decision list 11", "rules 14", "svm probability 13",
    "relu deep 10", "log of boosting 12", "neighbours 8", "wide network 9", "products of three 13",
)  # fmt: skip


def make_model(name: str) -> tuple[Model, np.ndarray]:
    """The model, and 600 rows of data."""
    kind, n = name.rsplit(" ", 1)
    rng = np.random.default_rng(sum(map(ord, name)))
    X = rng.normal(size=(N_ROWS, int(n)))
    return KINDS[kind](X, rng)


def _boosted_classifier(X: np.ndarray, rng: np.random.Generator) -> tuple[Model, np.ndarray]:
    from sklearn.ensemble import GradientBoostingClassifier

    y = X[:, 0] * X[:, 1] + X[:, 2] + np.sin(2 * X[:, 3]) + 0.5 * rng.normal(size=len(X)) > 0
    fitted = GradientBoostingClassifier(n_estimators=80, max_depth=3, random_state=0).fit(X, y)
    return lambda rows: fitted.predict_proba(rows)[:, 1], X


def _forest_correlated(X: np.ndarray, rng: np.random.Generator) -> tuple[Model, np.ndarray]:
    from sklearn.ensemble import RandomForestRegressor

    n = X.shape[1]
    X = X @ (np.eye(n) + 0.7 * rng.normal(size=(n, n)) / np.sqrt(n))
    y = X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + 0.3 * X[:, 3:].sum(axis=1)
    return RandomForestRegressor(40, min_samples_leaf=2, random_state=0).fit(X, y).predict, X


def _decision_list(X: np.ndarray, rng: np.random.Generator) -> tuple[Model, np.ndarray]:  # noqa: ARG001
    def model(r: np.ndarray) -> np.ndarray:
        rules = [r[:, 0] > 1, (r[:, 1] < -0.5) & (r[:, 2] > 0), r[:, 3] + r[:, 4] > 1]
        rules.append((r[:, 5] > 0.3) & (r[:, 6] > -0.3) & (r[:, 7] < 0.6))
        return np.select(rules, [3.0, -2.0, 1.5, 0.7], 0.0)

    return model, X


def _rules(X: np.ndarray, rng: np.random.Generator) -> tuple[Model, np.ndarray]:
    n = X.shape[1]
    columns = [rng.choice(n, 3, replace=False) for _ in range(20)]
    cuts, weights, slopes = 0.6 * rng.normal(size=(20, 3)), rng.normal(size=20), 0.2 * rng.normal(size=n)

    def model(r: np.ndarray) -> np.ndarray:
        met = [(r[:, own] > cut).all(axis=1) for own, cut in zip(columns, cuts, strict=True)]
        return r @ slopes + np.stack(met, axis=1) @ weights

    return model, X


def _svm_probability(X: np.ndarray, rng: np.random.Generator) -> tuple[Model, np.ndarray]:  # noqa: ARG001
    from sklearn.svm import SVC

    fitted = SVC(gamma=0.08).fit(X, X[:, 0] * X[:, 1] + X[:, 2] > 0)
    return lambda rows: 1.0 / (1.0 + np.exp(-1.7 * fitted.decision_function(rows))), X


def _relu_deep(X: np.ndarray, rng: np.random.Generator) -> tuple[Model, np.ndarray]:
    shapes = ((X.shape[1], 20), (20, 20), (20, 20), (20, 1))
    layers = [1.2 * np.sqrt(2 / shape[0]) * rng.normal(size=shape) for shape in shapes]

    def model(rows: np.ndarray) -> np.ndarray:
        for layer in layers[:-1]:
            rows = np.maximum(rows @ layer + 0.1, 0.0)
        return (rows @ layers[-1])[:, 0]

    return model, X


def _log_of_boosting(X: np.ndarray, rng: np.random.Generator) -> tuple[Model, np.ndarray]:
    from sklearn.ensemble import HistGradientBoostingRegressor

    y = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=len(X))
    fitted = HistGradientBoostingRegressor(max_iter=60, max_leaf_nodes=15, random_state=0).fit(X, y)
    return lambda rows: np.exp(fitted.predict(rows)), X


def _neighbours(X: np.ndarray, rng: np.random.Generator) -> tuple[Model, np.ndarray]:  # noqa: ARG001
    y = (X[:, 0] + X[:, 1] ** 2 + X[:, 2] * X[:, 3] > 1) * 1.0

    def model(rows: np.ndarray) -> np.ndarray:
        squares = (X**2).sum(axis=1) - 2.0 * rows @ X.T
        return y[np.argpartition(squares, 15, axis=1)[:, :15]].mean(axis=1)

    return model, X


def _wide_network(X: np.ndarray, rng: np.random.Generator) -> tuple[Model, np.ndarray]:
    weights, shifts, out = 0.4 * rng.normal(size=(X.shape[1], 60)), rng.normal(size=60), rng.normal(size=60) / 4
    return lambda rows: np.tanh(rows @ weights + shifts) @ out + rows[:, 0] * rows[:, 1], X


def _products_of_three(X: np.ndarray, rng: np.random.Generator) -> tuple[Model, np.ndarray]:
    n = X.shape[1]
    columns, weights = [rng.choice(n, 3, replace=False) for _ in range(12)], rng.normal(size=12)
    slopes = np.linspace(-1, 1, n)

    def model(rows: np.ndarray) -> np.ndarray:
        return rows @ slopes + np.stack([rows[:, own].prod(axis=1) for own in columns], axis=1) @ weights

    return model, X


KINDS: dict[str, Callable[[np.ndarray, np.random.Generator], tuple[Model, np.ndarray]]] = {
    "boosted classifier": _boosted_classifier,
    "forest correlated": _forest_correlated,
    "decision list": _decision_list,
    "rules": _rules,
    "svm probability": _svm_probability,
    "relu deep": _relu_deep,
    "log of boosting": _log_of_boosting,
    "neighbours": _neighbours,
    "wide network": _wide_network,
    "products of three": _products_of_three,
}
