"""Models, data and cells of the efficiency benchmark.

A case is a model as a bare callable with its rows; a cell is a case at a budget and a size of background, with the
figure to reach if there is one. No explainer can recognise a model: the fitted ones travel beside the callable only to
give the exact values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import paper_data
from efficiency_kinds import HELD_BACK, TUNED, make_kind

N_TRAIN = 2000


@dataclass(frozen=True)
class Case:
    """A model and its rows.

    Attributes
    ----------
    model : callable
        Rows to one number each.
    pool, rows : ndarray
        What backgrounds are taken from, and rows to explain.
    players : list of lists of int
        Columns of each player.
    fitted : object or None
        The model itself where the library knows its exact Shapley values (sums of trees).
    """

    model: Callable[[np.ndarray], np.ndarray]
    pool: np.ndarray
    rows: np.ndarray
    players: list[list[int]]
    fitted: Any = None

    @property
    def groups(self) -> dict[str, list[int]] | None:
        """Players of several columns, as `Explainer(groups=...)` takes them."""
        several = {f"player {i}": columns for i, columns in enumerate(self.players) if len(columns) > 1}
        return several or None

    def background(self, n_rows: int) -> np.ndarray:
        """A fixed random part of the pool."""
        if n_rows > len(self.pool):
            raise ValueError(f"The pool has {len(self.pool)} rows; {n_rows} were asked for.")
        return self.pool[np.random.default_rng(0).permutation(len(self.pool))[:n_rows]]


@dataclass(frozen=True)
class Cell:
    """One line of the table; `target` is the ratio to reach against the first peer."""

    section: str
    case: str
    budget: int = 10_000
    n_background: int = 100
    target: float | None = None

    @property
    def correlated(self) -> bool:
        """Whether absent features are conditioned on the revealed ones."""
        return self.section == "correlated features"

    @property
    def name(self) -> str:
        """Unique, for people and for the cache."""
        where = "correlated" if self.correlated else f"{self.n_background} background rows"
        return f"{self.case}, {self.budget:,} evaluations, {where}"


def cells() -> list[Cell]:
    """Every cell of the table."""
    main = "10,000 evaluations, 100 background rows"
    targets = {
        "tanh credit": 150, "tanh brca": 200, "tanh census": 200, "tanh simulated": 1000, "tanh bank": 20,
        "forest credit": 8, "forest brca": 10, "forest simulated": 10,
        "svm credit": 5, "neighbours credit": 5, "relu credit": 5, "boosting credit": 5,
        "svr diabetes": 30, "gaussian process diabetes": 30, "relu friedman": 30,
        "additive": None, "categorical": None, "step": None, "three-way": None,
    }  # fmt: skip
    small = {
        500: {"tanh credit": 30, "tanh brca": 60, "tanh census": 20},
        2000: {"tanh credit": 50, "tanh brca": 120, "tanh census": 25},
    }
    others = ("tanh simulated", "tanh bank", "forest credit", "boosting credit", "svr diabetes", "relu friedman")
    odd = ("additive", "categorical", "step", "three-way")
    conditional = {"brca": 50, "simulated": 50, "credit": 40, "bank": 20, "census": 20}
    found = [Cell(main, case, target=target) for case, target in targets.items()]
    found += [Cell("correlated features", f"tanh {name}", target=target) for name, target in conditional.items()]
    paper = ("tanh credit", "tanh brca", "tanh census", *others)
    for budget, known in small.items():
        found += [Cell(f"{budget:,} evaluations", case, budget, target=known.get(case)) for case in (*paper, *odd)]
    for n, cases in (
        (20, ("tanh credit", "tanh census", "forest credit", "forest simulated", "svr diabetes")),
        (1000, ("tanh census", "tanh simulated", "forest simulated", "relu friedman")),
    ):
        found += [Cell(f"{n:,} background rows", case, budget, n) for case in cases for budget in (2000, 10_000)]
    for n in (6, 10, 20, 40, 60):
        for kind in ("tanh", "boosting"):
            found += [Cell("6 to 60 players", f"{kind} {n} players", budget) for budget in (2000, 10_000)]
    for section, kinds in (("kinds, held back", HELD_BACK), ("kinds, looked at", TUNED)):
        found += [Cell(section, f"kind: {kind}", budget) for kind in kinds for budget in (500, 2000, 10_000)]
    return found + [Cell("50,000 evaluations", case, 50_000) for case in paper]


@lru_cache(maxsize=4)
def make_case(name: str, data_folder: str | None = None) -> Case:
    """Load or fit the model of a case."""
    kind, *rest = name.split()
    if kind == "kind:":
        return kind_case(name.removeprefix("kind: "))
    if name in ODD:
        return _odd(name)
    if rest[-1] == "players":
        return _random_players(kind, int(rest[0]))
    if rest[-1] == "diabetes":
        return _diabetes(kind)
    if rest[-1] == "friedman":
        return _friedman()
    folder = paper_data.data_folder(data_folder)
    data = paper_data.load(rest[-1], folder)
    place = {column: i for i, column in enumerate(data.columns)}
    players = [[place[column] for column in columns] for columns in data.groups.values()]
    if kind == "tanh":
        return Case(paper_data.load_network(data.name, folder), data.X_train, data.X_test, players)
    fitted = _classifier(kind).fit(data.X_train[:5000], data.y_train[:5000])
    exact = fitted if kind == "forest" else None
    return Case(lambda rows: fitted.predict_proba(rows)[:, 1], data.X_train, data.X_test, players, exact)


def kind_case(name: str) -> Case:
    """A kind: all of its rows but the last hundred are what backgrounds are taken from."""
    model, rows, fitted = make_kind(name)
    return Case(model, rows[:-100], rows[-100:], [[column] for column in range(rows.shape[1])], fitted)


def _classifier(kind: str) -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import SVC

    return {
        "forest": lambda: RandomForestClassifier(n_estimators=100, random_state=0),
        "svm": lambda: CalibratedClassifierCV(SVC(), ensemble=False),
        "neighbours": lambda: KNeighborsClassifier(n_neighbors=15),
        "relu": lambda: MLPClassifier(hidden_layer_sizes=(50,), alpha=1.0, max_iter=500, random_state=0),
        "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    }[kind]()


def _diabetes(kind: str) -> Case:
    """Support-vector or Gaussian-process regression on scikit-learn's diabetes data, standardised."""
    from sklearn.datasets import load_diabetes
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.svm import SVR

    X, y = load_diabetes(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    if kind == "svr":
        fitted = SVR(C=100.0).fit(X[:-42], y[:-42])
    else:
        kernel = ConstantKernel() * RBF(3.0) + WhiteKernel()
        fitted = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(X[:-42], y[:-42])
    return Case(lambda rows: fitted.predict(rows), X[:-42], X[-42:], [[column] for column in range(10)])


def _friedman() -> Case:
    """A ReLU regression on Friedman's first function."""
    from sklearn.datasets import make_friedman1
    from sklearn.neural_network import MLPRegressor

    X, y = make_friedman1(n_samples=N_TRAIN + 100, n_features=10, noise=1.0, random_state=0)
    fitted = MLPRegressor(hidden_layer_sizes=(50,), alpha=0.1, max_iter=1000, random_state=0)
    fitted.fit(X[:N_TRAIN], y[:N_TRAIN])
    return Case(lambda rows: fitted.predict(rows), X[:N_TRAIN], X[N_TRAIN:], [[column] for column in range(10)])


def _gaussian_rows(n_columns: int) -> np.ndarray:
    """Normal columns with correlations of 0.3."""
    rng = np.random.default_rng(n_columns)
    shared = rng.normal(size=(N_TRAIN + 100, 1))
    return np.sqrt(0.3) * shared + np.sqrt(0.7) * rng.normal(size=(N_TRAIN + 100, n_columns))


def _random_players(kind: str, n_players: int) -> Case:
    """A random tanh network, or a boosted regression fitted to it, on any number of columns."""
    X = _gaussian_rows(n_players)
    rng = np.random.default_rng(1)
    weights, shift = rng.normal(size=(n_players, 50)) * 2.0 / np.sqrt(n_players), rng.normal(size=50)
    out = rng.normal(size=50) / np.sqrt(50)

    def network(rows: np.ndarray) -> np.ndarray:
        return np.tanh(rows @ weights + shift) @ out

    players = [[column] for column in range(n_players)]
    if kind == "tanh":
        return Case(network, X[:N_TRAIN], X[N_TRAIN:], players)
    from sklearn.ensemble import HistGradientBoostingRegressor

    y = network(X) + 0.1 * rng.normal(size=len(X))
    fitted = HistGradientBoostingRegressor(random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN])
    return Case(lambda rows: fitted.predict(rows), X[:N_TRAIN], X[N_TRAIN:], players, fitted)


def additive(rows: np.ndarray) -> np.ndarray:
    """No interactions: exact after one pass over the background, for whoever makes one."""
    return np.sin(2 * rows[:, :4]).sum(axis=1) + np.abs(rows[:, 4:8]).sum(axis=1) + rows[:, 8] ** 3 + rows[:, 9]


def categorical(rows: np.ndarray) -> np.ndarray:
    """Four columns of codes 0 to 4 with strong effects that follow no order, times one another."""
    effects = np.random.default_rng(2).normal(size=(4, 5))
    chosen = [effects[j, rows[:, j].astype(int)] for j in range(4)]
    return 3 * chosen[0] * chosen[1] + 2 * chosen[2] * chosen[3] + chosen[0] * np.tanh(rows[:, 4:]).sum(axis=1)


def step(rows: np.ndarray) -> np.ndarray:
    """Flat with jumps: a count of half-spaces and a corner."""
    planes = np.random.default_rng(3).normal(size=(rows.shape[1], 3))
    return (rows @ planes > 0.5).sum(axis=1) + (rows[:, :4] > 0).all(axis=1) * 2.0


def three_way(rows: np.ndarray) -> np.ndarray:
    """Products of three columns and nothing else."""
    return sum(rows[:, [j, j + 1, j + 2]].prod(axis=1) for j in (0, 3, 6, 9))


ODD = {"additive": additive, "categorical": categorical, "step": step, "three-way": three_way}


def _odd(name: str) -> Case:
    """Twelve columns; four of them are codes where the model wants codes."""
    X = _gaussian_rows(12)
    if name == "categorical":
        X[:, :4] = np.clip(np.floor(1.2 * X[:, :4] + 2.5), 0, 4)
    return Case(ODD[name], X[:N_TRAIN], X[N_TRAIN:], [[column] for column in range(12)])
