"""Models, rows, exact values and cells of the calibration benchmark.

Diabetes patients (scikit-learn's data, standardised): ten columns, of which the three cholesterols, which correlate by
up to 0.9, are one player; the outcome is whether the disease progressed more than in half of the patients. Models are
bare callables. True values are enumerated; with correlated features by quadrature for the logistic regression, and by a
long run for the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

import controlshap as cs
from controlshap.testing import shapley_by_definition

GROUPS = {"cholesterol": [4, 5, 6]}
PLAYERS = [[0], [1], [2], [3], [4, 5, 6], [7], [8], [9]]
MODELS = ("logistic", "tanh", "forest")
N_ROWS, N_BACKGROUND = 4, 100
#: Long runs for values that cannot be computed.
N_RUNS, RUN_BUDGET = 25, 50_000


@dataclass(frozen=True)
class Cell:
    """A setting whose errors are compared with what happens; `stop` cells end when that is reached."""

    model: str
    features: str
    estimator: str
    control: str
    budget: int
    stop: str = ""

    @property
    def name(self) -> str:
        """Unique, for people and for the cache."""
        until = f", until {self.stop}" if self.stop else ""
        return f"{self.model}, {self.features}, {self.estimator}, {self.control}, {self.budget:,}{until}"


def cells() -> list[Cell]:
    """Every cell, those that take longest last (correlated features, "auto" and stages: up to half an hour each)."""
    kinds = product(MODELS, ("independent", "correlated"))
    found = [
        Cell(model, features, estimator, control, budget)
        for (model, features), estimator, control, budget in product(
            kinds, ("permutation", "kernel"), ("none", "taylor", "auto"), (500, 2000, 10_000)
        )
    ]
    found += [
        Cell(model, features, "auto", control, 20_000, stop)
        for model, features, control, stop in product(
            MODELS, ("independent", "correlated"), ("none", "auto"), ("tolerance 0.05", "top 3")
        )
    ]
    slow = {500: 0, 2000: 1, 20_000: 2, 10_000: 3}

    def cost(cell: Cell) -> tuple[bool, int, bool]:
        correlated, auto = cell.features == "correlated", cell.control == "auto"
        return bool(cell.stop) and correlated and auto, slow[cell.budget] + correlated, auto

    return sorted(found, key=cost)


@lru_cache(maxsize=1)
def data() -> tuple[np.ndarray, np.ndarray]:
    """Standardised columns and the outcome, 0 or 1."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), (y > np.median(y)).astype(int)


@lru_cache(maxsize=3)
def make_model(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """Probability of class 1."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    fitted = {
        "logistic": LogisticRegression(),
        "tanh": MLPClassifier((50,), activation="tanh", alpha=0.1, max_iter=2000, random_state=0),
        "forest": RandomForestClassifier(n_estimators=50, min_samples_leaf=5, random_state=0),
    }[name]
    X, y = data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.fit(X[N_ROWS:], y[N_ROWS:])
    if name == "logistic":
        return partial(logistic, coef=fitted.coef_[0], intercept=float(fitted.intercept_[0]))
    return lambda rows: fitted.predict_proba(rows)[:, 1]


def logistic(rows: np.ndarray, coef: np.ndarray, intercept: float) -> np.ndarray:
    """The probability, without the checks of a fitted model."""
    return expit(rows @ coef + intercept)


def rows_and_background(features: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows to explain, and what absent features come from: 100 rows, or all of them for a mean and a covariance."""
    X, _ = data()
    rest = X[N_ROWS:]
    chosen = np.random.default_rng(0).permutation(len(rest))[:N_BACKGROUND]
    return X[:N_ROWS], rest[chosen] if features == "independent" else rest


def make_explainer(cell: Cell, **settings: Any) -> cs.Explainer:
    """The explainer of a cell."""
    _, background = rows_and_background(cell.features)
    return cs.Explainer(
        make_model(cell.model), background, features=cell.features, estimator=cell.estimator, control=cell.control,
        groups=GROUPS, **settings,
    )  # fmt: skip


def find_truth(model: str, features: str, cache: Path) -> np.ndarray:
    """True values `(rows, players)`, from the cache if they are there."""
    file = cache / f"calibration {model} {features}.npy"
    if not file.is_file():
        cache.mkdir(exist_ok=True)
        np.save(file, _compute(model, features))
    return np.load(file)


def _compute(model: str, features: str) -> np.ndarray:
    rows, background = rows_and_background(features)
    if features == "independent":
        explainer = cs.Explainer(make_model(model), background, groups=GROUPS)
        found = explainer(rows, budget=2 ** len(PLAYERS) * len(background), rng=0)
        if not (found.status == "exact").all():
            raise RuntimeError("The enumeration was not exact.")
        return found.values
    if model == "logistic":
        return np.array([_logistic_truth(x, background) for x in rows])
    explainer = cs.Explainer(make_model(model), background, features="correlated", groups=GROUPS)
    return np.array([explainer(np.tile(x, (N_RUNS, 1)), budget=RUN_BUDGET, rng=99).values.mean(axis=0) for x in rows])


def _logistic_truth(x: np.ndarray, background: np.ndarray) -> np.ndarray:
    """`E sigmoid(score)` given a coalition, whose score is normal, by quadrature."""
    model = make_model("logistic")
    coef, intercept = model.keywords["coef"], model.keywords["intercept"]
    explainer = cs.Explainer(model, background, features="correlated", groups=GROUPS)
    moments = explainer._assembly.imputer.moments
    mean, covariance = moments.mean, moments.correlation * np.outer(moments.scale, moments.scale)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)

    def game(coalition: frozenset[int]) -> np.ndarray:
        known = np.isin(np.arange(len(x)), [column for player in coalition for column in PLAYERS[player]])
        center, spread = mean.copy(), covariance.copy()
        if known.any():
            slope = np.linalg.solve(covariance[np.ix_(known, known)], covariance[known])
            center = mean + (x - mean)[known] @ slope
            spread = covariance - covariance[:, known] @ slope
            center[known] = x[known]
        score = intercept + coef @ center
        error = np.sqrt(max(coef @ spread @ coef, 0.0))
        return np.array([expit(score + error * nodes) @ weights / weights.sum()])

    return shapley_by_definition(game, len(PLAYERS))[:, 0]
