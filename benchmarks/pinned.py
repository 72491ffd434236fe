"""Did a change of the code change any number? A pinned set of settings, compared bit for bit.

    python benchmarks/pinned.py --write FILE.npz                 before: run every combination, keep what it says
    python benchmarks/pinned.py --compare FILE.npz [--list]      after: run again, exit 1 where something differs
        [--only GLOB] [--allow GLOB] [--every N] [--jobs 2]      globs match whole names, `*` also across slashes

Goes through the public interface only. A combination is named by its settings,
features/estimator/control/variance/groups/outputs/budget/stopping, after the way it is called, the data and the model
where these are not the usual ones, and before the coefficient:

    independent/kernel/ridge/least_squares/groups/1-output/b1000/none
    device/torch/correlated/permutation/taylor/auto/no-groups/2-outputs/b200/none

Settings that are refused are pinned by the type of the exception and its message, warnings by their categories. All is
seeded. Bits are those of one machine and its libraries: compare where you wrote.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import itertools
import json
import multiprocessing
import os
import platform
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

# before numpy comes: sums in one order
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import numpy as np
import pandas as pd
import scipy

import controlshap as cs

SEED = 7
#: What of an explanation is pinned: numbers, and words.
NUMBERS = (
    "values", "standard_errors", "base_values", "base_standard_errors", "uncontrolled_values",
    "uncontrolled_standard_errors", "variance_reduction", "degrees_of_freedom", "covariance", "n_evaluations",
    "look_shares", "complete", "background_standard_errors",
)  # fmt: skip
WORDS = ("status", "method", "controls", "feature_names")
#: Warnings that other libraries give when they are first imported, and so not with every order of the combinations.
IMPORTED = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning)

Record = dict[str, Any]
"""What is pinned of a combination: arrays of doubles, and texts."""


# Data: eight columns, the last two of them binary; two rows to explain.


@dataclass(frozen=True)
class Data:
    """Background, rows to explain, and groups for those who want some."""

    background: Any
    rows: Any
    groups: Any


def numbers(n_rows: int, n_columns: int = 8, seed: int = 0) -> np.ndarray:
    """Correlated normal columns; from the seventh on they are binary."""
    rng = np.random.default_rng(seed)
    common, own = rng.normal(size=(n_rows, 1)), rng.normal(size=(n_rows, n_columns))
    rows = own + np.linspace(0.2, 1.2, n_columns) * common
    rows[:, 6:8] = rows[:, 6:8] > 0.3
    return rows


def with_gaps(rows: np.ndarray) -> np.ndarray:
    """A part of two columns is missing."""
    rows = rows.copy()
    rows[::4, 1] = np.nan
    rows[1::5, 4] = np.nan
    return rows


def one_hot(rows: np.ndarray) -> np.ndarray:
    """Three numbers, a level of three that depends on them, a level of two."""
    level = np.digitize(rows[:, 3] + 0.5 * rows[:, 0], (-0.5, 0.8))
    return np.column_stack([rows[:, :3], np.eye(3)[level], np.eye(2)[rows[:, 6].astype(int)]])


def categories(rows: np.ndarray) -> pd.DataFrame:
    """Numbers, whole numbers, categories, words, and yes or no."""
    return pd.DataFrame(
        {
            "age": rows[:, 0],
            "job": pd.Categorical(np.array(["clerk", "cook", "nurse"])[np.digitize(rows[:, 3], (-0.5, 0.8))]),
            "children": np.digitize(rows[:, 4], (0.0, 1.0, 2.0)),
            "owner": rows[:, 6] > 0,
            "score": rows[:, 2],
            "town": np.where(rows[:, 1] > 0, "Ulm", "Bonn"),
        }
    )


@functools.cache
def data(name: str) -> Data:
    """A data set by its name."""
    groups: Any = {"pair": [0, 3], "binary": [6, 7]}
    kind, _, size = name.rpartition("-")
    background, rows = numbers(int(size) if kind == "rows" else 40), numbers(12, seed=1)[[3, 8]]
    if kind == "rows":
        return Data(background, rows, groups)
    if kind == "players":
        columns = int(size)
        few = numbers(20, columns)
        return Data(few, numbers(12, columns, seed=1)[[3, 8]], [[0, 1], [2, columns - 1]])
    if name == "missing":
        return Data(with_gaps(background), with_gaps(rows), groups)
    if name == "one-hot":
        return Data(one_hot(background), one_hot(rows), {"level": [3, 4, 5], "side": [6, 7]})
    if name == "constant":
        background[:, 2] = 1.5
        return Data(background, rows, groups)
    if name == "repeated":  # two columns are the same, so that the covariance is singular
        background[:, 2], rows[:, 2] = background[:, 1], rows[:, 1]
        return Data(background, rows, groups)
    if name == "frame":
        names = [f"column {k}" for k in range(8)]
        frames = [pd.DataFrame(part, columns=names) for part in (background, rows)]
        return Data(*frames, {"pair": ["column 0", "column 3"]})
    if name == "categories":
        return Data(categories(background), categories(rows), {"home": ["owner", "town"]})
    raise KeyError(name)


# Models. Functions go column by column, so that what they say of a row does not depend on the rows beside it.


def smooth(rows: Any) -> np.ndarray:
    """A bent score of all columns with interactions of two and three; NaN counts as 0.3."""
    rows = np.asarray(rows, dtype=float)
    rows = np.where(np.isnan(rows), 0.3, rows)
    x = [rows[:, k] for k in range(rows.shape[1])]
    score = 0.8 * x[0] * x[1] + 0.7 * x[2] - 0.5 * x[3] + 0.4 * x[0] * x[2] * x[-1]
    for k in range(4, len(x)):
        score = score + (0.3 if k % 2 else -0.6) * x[k]
    return np.tanh(0.6 * score) + 0.2 * np.sin(x[1] + x[-1])


def both(rows: Any) -> np.ndarray:
    """Two outputs; the second has steps."""
    rows = np.asarray(rows, dtype=float)
    full = np.where(np.isnan(rows), 0.3, rows)
    return np.column_stack([smooth(rows), (full[:, 0] + full[:, 1] > 0.5) * full[:, 2] - 0.3 * full[:, -1]])


def probability(rows: Any) -> np.ndarray:
    """Between 0 and 1."""
    return 1.0 / (1.0 + np.exp(-2.0 * smooth(rows)))


def of_categories(frame: Any) -> np.ndarray:
    """A function of a frame with categories."""
    nurse, ulm = ((frame[name] == level).to_numpy(dtype=float) for name, level in (("job", "nurse"), ("town", "Ulm")))
    age, score, children = (frame[name].to_numpy(dtype=float) for name in ("age", "score", "children"))
    return np.tanh(age * nurse + 0.5 * score * ulm) + 0.2 * children * frame["owner"].to_numpy(dtype=float)


def both_of_categories(frame: Any) -> np.ndarray:
    """Two outputs."""
    return np.column_stack([of_categories(frame), frame["age"].to_numpy() * (frame["town"] == "Ulm").to_numpy()])


def module(n_columns: int, n_outputs: int, *, single: bool = False) -> Any:
    """A small tanh network of torch whose weights come from numpy."""
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng(4)
    layers = [torch.nn.Linear(n_columns, 12), torch.nn.Tanh(), torch.nn.Linear(12, n_outputs)]
    with torch.no_grad():
        for layer in (layers[0], layers[2]):
            for parameter in layer.parameters():
                parameter.data = torch.as_tensor(rng.normal(size=tuple(parameter.shape)) * 0.5, dtype=torch.float64)
    return torch.nn.Sequential(*layers).to(torch.float32 if single else torch.float64)


def fitted(kind: str, n_outputs: int, gaps: bool) -> Any:
    """A model of scikit-learn, lightgbm or xgboost, most of them of a form whose values are exact."""
    import lightgbm
    import xgboost
    from sklearn import ensemble, linear_model, neural_network, pipeline, preprocessing, tree

    rows = numbers(300, seed=2)
    target, kinds = smooth(rows), (smooth(rows) > 0.2).astype(int)
    rows = with_gaps(rows) if gaps else rows
    small: dict[str, Any] = {"random_state": 0, "max_depth": 3}
    few: dict[str, Any] = {"n_estimators": 8} | small
    boosted: dict[str, Any] = few | {"n_jobs": 1}
    outputs = target if n_outputs == 1 else both(rows)
    linear, logistic = linear_model.LinearRegression(), linear_model.LogisticRegression()
    network = neural_network.MLPRegressor(hidden_layer_sizes=(6,), activation="tanh", max_iter=60, random_state=0)
    untrained = {
        "linear": (linear, outputs),
        "logistic": (logistic, kinds),
        "softmax": (logistic, np.digitize(target, (-0.2, 0.5))),
        "pipeline": (pipeline.make_pipeline(preprocessing.StandardScaler(), logistic), kinds),
        "perceptron": (network, outputs),
        "tree": (tree.DecisionTreeRegressor(**small), outputs),
        "forest": (ensemble.RandomForestRegressor(**few), target),
        "forest-classifier": (ensemble.RandomForestClassifier(**few), kinds),
        "boosting": (ensemble.GradientBoostingRegressor(**few), target),
        "boosting-margin": (ensemble.GradientBoostingClassifier(**few), kinds),
        "histogram": (ensemble.HistGradientBoostingRegressor(max_iter=8, **small), target),
        "lightgbm": (lightgbm.LGBMRegressor(verbosity=-1, **boosted), target),
        "xgboost": (xgboost.XGBRegressor(**boosted), target),
    }
    model, labels = untrained[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a network that has not converged will do
        model = model.fit(rows, labels)
    return model.decision_function if kind == "boosting-margin" else model


@functools.cache
def model(kind: str, n_outputs: int, data_name: str) -> Any:
    """A model by its name, for a data set."""
    if kind == "function" and data_name == "categories":
        return (of_categories, both_of_categories)[n_outputs - 1]
    if kind == "function":
        return (smooth, both)[n_outputs - 1]
    if kind in ("torch", "torch-single"):
        return module(data(data_name).background.shape[1], n_outputs, single=kind == "torch-single")
    return fitted(kind, n_outputs, gaps=data_name == "missing")


# Settings by the names that stand in a combination's name; others are taken as they are.


def features_of(name: str, rows: Any) -> Any:
    """`features=`."""
    if name == "correlated-threshold":
        return cs.GaussianConditional(binary="threshold")
    if name == "correlated-background":
        return cs.GaussianConditional(draws="background")
    if name == "correlated-given":
        return cs.GaussianConditional(mean=np.zeros(rows.shape[1]), covariance=np.eye(rows.shape[1]) + 0.5)
    if name == "independent-replace":
        return cs.Marginal(replace=True)
    return name


def estimator_of(name: str, n_rows: int) -> Any:
    """`estimator=`, of which some know the number of background rows."""
    made: dict[str, Callable[[], Any]] = {
        "kernel-draws": lambda: cs.Kernel(n_draws=5),
        "kernel-whole": lambda: cs.Kernel(n_draws=n_rows, reuse=True),
        "kernel-whole-anew": lambda: cs.Kernel(n_draws=n_rows),
        "kernel-unpaired": lambda: cs.Kernel(paired=False),
        "kernel-open": lambda: cs.Kernel(closes_sum=False),
        "permutation-unpaired": lambda: cs.Permutation(paired=False),
        "permutation-draws": lambda: cs.Permutation(n_draws=3),
        "per_feature-draws": lambda: cs.PerFeature(n_draws=2),
        "per_feature-paper": lambda: cs.PerFeature(closes_sum=False, own_draws=True, shares_draws=False),
    }
    return made[name]() if name in made else name


def control_of(name: str) -> Any:
    """`control=`; names joined by + are a list."""
    made: dict[str, Callable[[], Any]] = {
        "wide_network": lambda: cs.WideNetwork(n_hidden=8, n_steps=60),
        "trees": lambda: cs.Trees(n_trees=15, n_leaves=15),
        "trees-alone": lambda: cs.Trees(n_trees=15, start=None),
        "cubic": lambda: cs.Polynomial(degree=3),
        "coalitions-alone": lambda: cs.CoalitionProcess(start=None),
        "taylor-diagonal": lambda: cs.Taylor(derivatives=cs.FiniteDifferences(cross=False)),
        "taylor-few": lambda: cs.Taylor(n_permutations=50, seed=3),
    }
    parts = [made[part]() if part in made else part for part in name.split("+")]
    return parts if len(parts) > 1 else parts[0]


def variance_of(name: str) -> Any:
    """`variance=`."""
    made: dict[str, Callable[[], Any]] = {
        "paper": lambda: cs.LeastSquares(paper=True),
        "grouped-5": lambda: cs.Grouped(n_groups=5),
        "bootstrap-50": lambda: cs.Bootstrap(n_resamples=50),
    }
    return made[name]() if name in made else name


#: Arguments of the call by the name of the stopping; after "-then-" those of `refine`.
STOPPING: dict[str, dict[str, Any]] = {
    "none": {},
    "tolerance": {"tolerance": 0.05},
    "absolute": {"absolute_tolerance": 0.02},
    "signs": {"stop": "signs"},
    "top-2": {"stop": "top 2"},
    "ranking": {"stop": "ranking"},
    "signs+top-2": {"stop": ["signs", "top 2"], "level": 0.9},
    "history": {"history": True},
    "keep": {"keep": True},
    "more": {"budget": 700},
    "much-more": {"budget": 4000},
}


@dataclass(frozen=True)
class Combination:
    """Settings by their names. `budget` is a number, "least" (what suffices), "too-small" (one less) or "default"."""

    way: str = "explainer"
    data: str = "rows-40"
    model: str = "function"
    features: str = "independent"
    estimator: str = "auto"
    control: str = "auto"
    variance: str = "auto"
    groups: str = "no-groups"
    outputs: int = 1
    budget: int | str = 1000
    stopping: str = "none"
    coefficient: str = "auto"

    @property
    def name(self) -> str:
        usual = {"way": "explainer", "data": "rows-40", "model": "function", "coefficient": "auto"}
        levels = self.levels
        return "/".join(level for factor, level in levels.items() if usual.get(factor) != level)

    @property
    def levels(self) -> dict[str, str]:
        """Factors, in the order of the name, with their levels."""
        found = {field.name: str(getattr(self, field.name)) for field in fields(self)}
        found["outputs"] += "-output" if self.outputs == 1 else "-outputs"
        found["budget"] = f"b{self.budget}" if isinstance(self.budget, int) else self.budget
        return found

    def explainer(self) -> Any:
        """With the settings."""
        table = data(self.data)
        settings = {
            "features": features_of(self.features, table.background),
            "estimator": estimator_of(self.estimator, len(table.background)),
            "control": control_of(self.control),
            "variance": variance_of(self.variance),
            "groups": table.groups if self.groups == "groups" else None,
            "coefficient": self.coefficient,
        }
        if self.way == "small-memory":
            settings["memory_limit"] = 2**20
        if self.way == "sampled":
            settings["max_background"] = 20
        if self.way in ("slow", "fast"):
            settings["seconds_per_evaluation"] = 1.0 if self.way == "slow" else 0.0
        if self.way == "explain":
            return functools.partial(explain_at_once, self.target, table.background, settings)
        explainer = cs.Explainer(self.target, table.background, **settings)
        if self.way.startswith("shared"):
            learner = {"shared-ridge": cs.LogisticRidge, "shared-trees": functools.partial(cs.Trees, n_trees=15)}
            explainer.fit_surrogate(table.rows, budget=600, learner=learner[self.way](), rng=SEED)
        return explainer

    @property
    def target(self) -> Any:
        """The model."""
        return model(self.model, self.outputs, self.data)

    def run(self) -> Iterator[tuple[str, Any]]:
        """The explanation, and each refinement of it."""
        explainer, rows = self.explainer(), data(self.data).rows
        first, *later = self.stopping.split("-then-")
        arguments = {"rng": SEED, "progress": False} | STOPPING[first] | self._limit()
        if self.way == "device":
            arguments["device"] = "cpu"
        if self.way == "one-row":
            rows = rows[0]
        found = explainer(rows, **arguments)
        yield "", found
        for number, stopping in enumerate(later, 1):
            found = explainer.refine(found, **{"budget": 3000} | STOPPING[stopping])
            yield f"refined {number}: ", found

    def _limit(self) -> dict[str, int]:
        if self.budget == "default":
            return {}
        if isinstance(self.budget, int):
            return {"budget": self.budget}
        needed = 1
        try:  # an explainer of its own: what one was asked before has no part in what it says
            self.explainer()(data(self.data).rows, budget=1, rng=SEED, progress=False)
        except cs.BudgetTooSmallError as error:
            needed = error.needed
        return {"budget": max(1, needed - (self.budget == "too-small"))}


def explain_at_once(target: Any, background: Any, settings: dict[str, Any], rows: Any, **arguments: Any) -> Any:
    """`cs.explain` with the arguments of an explainer."""
    return cs.explain(target, rows, background, **arguments, **settings)


def crossed(**levels: Any) -> Iterator[Combination]:
    """Every combination of the levels; a string or number is one level."""
    several = [[one] if isinstance(one, (str, int)) else one for one in levels.values()]
    for chosen in itertools.product(*several):
        yield Combination(**dict(zip(levels, chosen, strict=True)))


def combinations() -> Iterator[Combination]:
    """The pinned set; some come more than once."""
    two = ("independent", "correlated")
    main = ("permutation", "kernel", "per_feature")
    # estimators and controls
    cheap = ("auto", "none", "taylor", "ridge", "polynomial", "coalitions", "taylor+ridge")
    yield from crossed(features=two, estimator=("auto", *main, "kernel-draws", "permutation-unpaired"), control=cheap)
    yield from crossed(data="rows-5", features=two, estimator=("kernel-whole", "kernel-whole-anew"), control=cheap,
                       outputs=(1, 2))  # fmt: skip
    fits = ("network", "trees", "wide_network", "ridge+trees", "ridge+network+polynomial", "thorough")
    yield from crossed(features="independent", estimator=("auto", *main[:2]), control=fits, budget=600)
    yield from crossed(features="correlated", estimator=main[:2], control=("network", "trees", "wide_network"))
    yield from crossed(
        features="independent", estimator=("permutation", "kernel"),
        control=("trees-alone", "cubic", "taylor-diagonal", "taylor-few"), outputs=(1, 2), budget=600,
    )  # fmt: skip
    more = ("kernel-unpaired", "kernel-open", "permutation-draws", "per_feature-draws", "per_feature-paper")
    yield from crossed(features=two, estimator=more, control=("none", "taylor", "ridge"))
    # coalitions of the whole background, as "auto" takes them from a budget on
    whole = ("auto", "coalitions", "coalitions-alone", "coalitions+ridge", "none")
    yield from crossed(data="players-10", estimator=("auto", "kernel-whole"), control=whole, budget=5000)
    yield from crossed(data="players-10", estimator="kernel-whole", control="coalitions", budget=5000, groups="groups",
                       outputs=(1, 2))  # fmt: skip
    # variances
    variances = ("auto", "analytic", "bootstrap", "least_squares", "grouped", "paper")
    estimators = (*main, "kernel-draws", "permutation-unpaired")
    yield from crossed(features=two, estimator=estimators, control=("none", "taylor"), variance=variances)
    yield from crossed(features=two, estimator=("auto", "kernel"), control=("auto", "ridge"), variance=variances)
    yield from crossed(features="independent-replace", estimator=main, control=("none", "ridge"),
                       variance=("auto", "grouped-5", "bootstrap-50"))  # fmt: skip
    # groups and outputs
    yield from crossed(features=two, estimator=("auto", *main), control=("auto", "none", "taylor", "ridge"),
                       groups=("no-groups", "groups"), outputs=(1, 2))  # fmt: skip
    # budgets
    yield from crossed(features=two, estimator=("auto", *main, "kernel-draws", "kernel-whole"),
                       control=("auto", "none"), budget=("too-small", "least", 200, 5000))  # fmt: skip
    yield from crossed(features=two, estimator=("auto", *main[:2]), control=("none", "taylor", "ridge"), budget=20_000)
    yield from crossed(features=two, control=("none", "auto"), budget="default")
    yield from crossed(data=("players-4", "players-12"), features=two, control=("none", "auto"), budget=(200, 5000))
    # stopping and refining
    goals = ("tolerance", "absolute", "signs", "top-2", "ranking", "signs+top-2", "history")
    yield from crossed(features=two, estimator=("auto", "kernel"), control=("none", "auto"), stopping=goals,
                       budget=4000)  # fmt: skip
    yield from crossed(estimator=main, control="taylor", stopping=goals, budget=4000, outputs=2)
    refined = ("keep-then-more", "keep-then-more-then-more", "none-then-tolerance", "signs-then-much-more",
               "tolerance-then-signs-then-more")  # fmt: skip
    yield from crossed(features=two, estimator=("auto", "permutation", "kernel"), control=("none", "auto"),
                       stopping=refined, budget=800)  # fmt: skip
    yield from crossed(data="players-10", stopping="keep-then-more", budget=5000)
    # backgrounds
    backgrounds = ("rows-1", "rows-5", "rows-300", "missing", "one-hot", "constant", "frame", "categories")
    yield from crossed(data=backgrounds, estimator=("auto", "permutation", "kernel"), control=("auto", "none"))
    yield from crossed(data=backgrounds, features="correlated", control=("auto", "none"))
    yield from crossed(data=("missing", "one-hot", "categories"), estimator=("permutation", "kernel"), control="ridge",
                       groups="groups", outputs=(1, 2))  # fmt: skip
    yield from crossed(data=("missing", "categories"), control=("trees", "taylor", "polynomial"))
    yield from crossed(data="repeated", features=two, control=("auto", "none", "taylor"))
    # conditioning in other ways
    conditioned = ("correlated-threshold", "correlated-background", "correlated-given")
    yield from crossed(features=conditioned, estimator=("auto", *main), control=("auto", "none", "taylor"))
    yield from crossed(data="one-hot", features=conditioned, control=("none", "ridge"), groups="groups")
    yield from crossed(features=conditioned[:2], stopping=("tolerance", "ranking"), budget=2000)
    # coefficients
    yield from crossed(features=two, estimator=main, control=("taylor", "taylor+ridge"), coefficient=("units", "folds"))
    yield from crossed(estimator="permutation", control="ridge", variance=("bootstrap", "analytic"),
                       coefficient=("units", "folds"))  # fmt: skip
    # ways of calling
    yield from crossed(way=("explain", "small-memory", "sampled", "one-row"), features=two, control=("auto", "none"))
    yield from crossed(way="fast", features=two, estimator=("auto", "permutation", "kernel"), budget=300)
    yield from crossed(way="slow", features=two, estimator=("auto", "permutation", "kernel"), budget=300)
    yield from crossed(way=("shared-ridge", "shared-trees"), features=two, stopping=("none", "tolerance"))
    # torch modules, as models and on their device
    yield from crossed(model="torch", features=two, estimator=("auto", "kernel"), control=("auto", "taylor"))
    yield from crossed(way="device", model="torch", features=two, control=("auto", "none", "taylor"),
                       groups=("no-groups", "groups"), outputs=(1, 2), budget=(200, 2000))  # fmt: skip
    yield from crossed(way="device", model="torch-single", features=two, control=("none", "taylor"))
    yield from crossed(way="device", model="torch", features=(*conditioned[:2], "independent-replace"),
                       control=("none", "taylor"))  # fmt: skip
    yield from crossed(way="device", model="torch", data=("rows-1", "rows-5", "rows-300", "players-4"),
                       estimator=("auto", "permutation"))  # fmt: skip
    yield from crossed(way="device", model="torch", estimator=("kernel", "permutation-unpaired"))
    yield from crossed(way="device", model="torch", stopping=("tolerance", "history"))
    yield from crossed(way="device", model="function")
    # models of a known form
    forms = ("linear", "logistic", "tree", "forest", "forest-classifier", "boosting", "boosting-margin", "histogram",
             "lightgbm", "xgboost", "softmax", "pipeline", "perceptron")  # fmt: skip
    yield from crossed(model=forms, groups=("no-groups", "groups"))
    yield from crossed(model=("linear", "logistic", "forest"), data=("rows-1", "rows-300"))
    yield from crossed(model=("linear", "tree", "perceptron"), outputs=2)
    yield from crossed(model=("linear", "logistic", "softmax", "forest", "perceptron"), features="correlated",
                       control=("auto", "taylor"))  # fmt: skip
    yield from crossed(model=("logistic", "softmax", "perceptron"), estimator="permutation", control="taylor")
    yield from crossed(model=("histogram", "lightgbm", "xgboost"), data="missing")


# shap's interface, and arguments that are refused: by hand.


def shap_calls() -> dict[str, Callable[[], Iterator[tuple[str, Any]]]]:
    """Calls of `KernelExplainer` by their names."""
    cases: dict[str, tuple[Any, str, dict[str, Any], dict[str, Any]]] = {}
    for link, nsamples in itertools.product(("identity", "logit"), ("auto", 5, 60, 300)):
        cases[f"{link}/{nsamples}"] = probability, "rows-5", {"link": link}, {"nsamples": nsamples}
        cases[f"{link}/10-players/{nsamples}"] = probability, "players-10", {"link": link}, {"nsamples": nsamples}
    for link in ("identity", "logit"):
        usual = {"link": link, "rng": 3}
        cases[f"{link}/groups"] = probability, "rows-5", usual | {"groups": {"pair": [0, 3]}}, {"nsamples": 60}
        cases[f"{link}/frame"] = probability, "frame", usual, {"nsamples": 30}
        cases[f"{link}/weights"] = probability, "weights", usual, {"nsamples": 80}
        cases[f"{link}/tolerance"] = probability, "rows-40", usual, {"budget": 8000, "tolerance": 0.1}
        cases[f"{link}/signs"] = probability, "rows-40", usual, {"budget": 8000, "stop": "signs"}
        cases[f"{link}/no-control"] = probability, "rows-40", usual | {"control": "none"}, {"nsamples": 40}
        cases[f"{link}/permutation"] = probability, "rows-40", usual | {"estimator": "permutation"}, {"nsamples": 40}
        cases[f"{link}/kernel"] = probability, "rows-40", usual | {"estimator": "kernel"}, {"nsamples": 40}
        cases[f"{link}/correlated"] = probability, "rows-40", usual | {"features": "correlated"}, {"nsamples": 40}
        cases[f"{link}/l1_reg"] = probability, "rows-5", usual, {"nsamples": 60, "l1_reg": "num_features(3)"}
        cases[f"{link}/keep_index"] = probability, "frame", usual | {"keep_index": True}, {"nsamples": 30}
        cases[f"{link}/one-output-of-two-dimensions"] = column, "rows-5", usual, {"nsamples": 60}
        cases[f"{link}/unknown"] = probability, "rows-5", usual | {"colour": 1}, {}
        cases[f"{link}/nsamples-0"] = probability, "rows-5", usual, {"nsamples": 0}
    cases["identity/2-outputs"] = both, "rows-5", {}, {"nsamples": 60}
    cases["logit/2-outputs"] = both, "rows-5", {"link": "logit"}, {"nsamples": 60}
    return {f"shap/{name}": functools.partial(shap_call, *case) for name, case in cases.items()}


def column(rows: Any) -> np.ndarray:
    """One output, as an array of two dimensions."""
    return probability(rows)[:, None]


def shap_call(
    target: Any, data_name: str, settings: dict[str, Any], arguments: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """What `shap_values` returns, and the explanation behind it."""
    table = data("rows-40" if data_name == "weights" else data_name)
    background = table.background
    if data_name == "weights":
        import shap

        background = shap.kmeans(background, 6)
    explainer = cs.KernelExplainer(target, background, **settings)
    yield "shap_values: ", explainer.shap_values(table.rows, silent=True, **arguments)
    yield "expected_value: ", np.asarray(explainer.expected_value, dtype=float)
    yield "", explainer.explanation


def refusals() -> dict[str, Callable[[], Iterator[tuple[str, Any]]]]:
    """Arguments that make no sense, of an explainer or of its call, by their names."""
    of_explainer: dict[str, Any] = {
        "features": ("dependent", 3, cs.Marginal), "estimator": ("shapley", cs.Kernel, None),
        "control": ("magic", [], ["ridge", "none"], cs.Taylor), "variance": ("jackknife", cs.Analytic),
        "groups": ([[0, 1], [1, 2]], [[0, 99]], {"a": ["b"]}, [[]], 5, {"x1": [0, 2]}), "coefficient": ("mean",),
        "memory_limit": (10,), "max_background": (1,),
    }  # fmt: skip
    of_call: dict[str, Any] = {
        "budget": (0, -5, 2.5, "many", 1), "tolerance": (0, -1.0, np.inf, "small"), "absolute_tolerance": (0.0,),
        "stop": ("sign", "top", "top 0", "top 8", "signs 2", ["signs", "order"], 3), "level": (0.0, 1.0, 95),
        "time_limit": (0, -1), "keep": ("yes",), "history": (2,), "device": ("tpu", "cuda:x"), "n_jobs": (0,),
        "progress": ("bar",), "rng": ("seed", -1),
    }  # fmt: skip
    found: dict[str, Callable[[], Iterator[tuple[str, Any]]]] = {}
    for kind, arguments in (("explainer", of_explainer), ("call", of_call)):
        for argument, values in arguments.items():
            for value in values:
                shown = value.__name__ if isinstance(value, type) else repr(value)
                found[f"refused/{kind}/{argument}={shown}"] = functools.partial(refused, kind, argument, value)
    for name in ("too-few-columns", "text", "infinite", "missing-correlated", "empty", "not-finite", "wrong-rows"):
        found[f"refused/input/{name}"] = functools.partial(refused_input, name)
    return found


def refused(kind: str, argument: str, value: Any) -> Iterator[tuple[str, Any]]:
    """One bad argument."""
    table = data("rows-40")
    settings = {"control": "none"} | ({argument: value} if kind == "explainer" else {})
    limits = {"budget": 500, "rng": SEED, "progress": False} | ({argument: value} if kind == "call" else {})
    yield "", cs.Explainer(smooth, table.background, **settings)(table.rows, **limits)


def refused_input(name: str) -> Iterator[tuple[str, Any]]:
    """Bad rows, or a bad model."""
    table = data("rows-40")
    background, rows, target, features = table.background, table.rows, smooth, "independent"
    if name == "too-few-columns":
        rows = rows[:, :5]
    if name == "text":
        rows = rows.astype(str)
    if name == "infinite":
        rows = np.where(rows == 1.0, np.inf, rows)
    if name == "missing-correlated":
        rows, features = with_gaps(rows), "correlated"
    if name == "empty":
        background = background[:0]
    if name == "not-finite":
        target = not_finite
    if name == "wrong-rows":
        target = wrong_rows
    explainer = cs.Explainer(target, background, features, control="none")
    yield "", explainer(rows, budget=500, rng=SEED, progress=False)


def not_finite(rows: Any) -> np.ndarray:
    """A model that fails."""
    return np.full(len(rows), np.nan)


def wrong_rows(rows: Any) -> np.ndarray:
    """A model that forgets a row."""
    return smooth(rows)[1:]


# Running, keeping and comparing.


@functools.cache
def pinned() -> dict[str, Callable[[], Iterator[tuple[str, Any]]]]:
    """Everything that is pinned, by its name."""
    found: dict[str, Callable[[], Iterator[tuple[str, Any]]]] = {}
    for combination in combinations():
        found.setdefault(combination.name, combination.run)
    return found | shap_calls() | refusals()


@functools.cache
def factor_levels() -> dict[str, dict[str, str]]:
    """Factors and levels of every name, for the table."""
    levels = {combination.name: combination.levels for combination in combinations()}
    return {name: levels.get(name, {"way": name.split("/")[0]}) for name in pinned()}


def run(name: str) -> tuple[str, Record]:
    """What is pinned of a combination."""
    record: Record = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for part, found in pinned()[name]():
                record |= {part + field: value for field, value in read(found).items()}
        except Exception as error:  # noqa: BLE001 - what is not the library's own is pinned, too, and told
            record["refused"] = f"{type(error).__name__}: {plain(str(error))}"
            record["foreign"] = "" if isinstance(error, cs.ControlShapError) else "yes"
    kinds = {warning.category for warning in caught if not issubclass(warning.category, IMPORTED)}
    record["warnings"] = ", ".join(sorted(kind.__name__ for kind in kinds))
    return name, record


def read(found: Any) -> Record:
    """Numbers and words of an explanation, or an array as it is."""
    if isinstance(found, np.ndarray):
        return {"array": found.astype(float)}
    record: Record = {}
    for field in NUMBERS:
        value = getattr(found, field, None)
        if value is not None:
            record[field] = np.asarray(value, dtype=float)
    for field in WORDS:
        record[field] = " | ".join(str(one) for one in getattr(found, field, ()))
    record["low"], record["high"] = found.confidence_interval(0.9)
    record["simultaneous low"], record["simultaneous high"] = found.confidence_interval(simultaneous=True)
    for row, history in enumerate(found.history or ()):
        record[f"history {row}"] = np.asarray(history.standard_errors, dtype=float)
    return record


def plain(message: str) -> str:
    """Without addresses in memory, and without the modules in which classes stand."""
    return re.sub(r"\bcontrolshap(\.\w+)*\.(?=\w+'?>)", "controlshap.", re.sub(r"0x[0-9a-f]+", "0x", message))


def run_all(names: list[str], jobs: int) -> dict[str, Record]:
    """All of them, in processes of their own where there are several."""
    found: dict[str, Record] = {}
    pool = multiprocessing.get_context("spawn").Pool(jobs) if jobs > 1 else None
    results: Iterable[tuple[str, Record]] = map(run, names) if pool is None else pool.imap(run, names, chunksize=4)
    for name, record in results:
        found[name] = record
        if len(found) % 100 == 0:
            print(f"{len(found)} of {len(names)}", file=sys.stderr, flush=True)
    if pool is not None:
        pool.close()
        pool.join()
    return found


def about() -> str:
    """What the bits depend on, beside the code."""
    versions = {"Python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    return ", ".join([platform.machine(), *(f"{name} {version}" for name, version in versions.items())])


def write(path: Path, found: dict[str, Record]) -> None:
    """One array of all numbers, and an index of what is where."""
    index: dict[str, dict[str, Any]] = {}
    parts: list[np.ndarray] = []
    start = 0
    for name, record in found.items():
        index[name] = {}
        for field, value in record.items():
            if isinstance(value, str):
                index[name][field] = value
            else:
                index[name][field] = [start, list(value.shape)]
                parts.append(np.ascontiguousarray(value, dtype=float).ravel())
                start += value.size
    np.savez_compressed(path, numbers=np.concatenate(parts), index=json.dumps(index), about=about())


def load(path: Path) -> tuple[dict[str, Record], str]:
    """What `write` wrote."""
    with np.load(path) as file:
        every, index, said = file["numbers"], json.loads(str(file["index"])), str(file["about"])
    found: dict[str, Record] = {}
    for name, record in index.items():
        found[name] = {}
        for field, value in record.items():
            if not isinstance(value, str):
                start, shape = value
                value = every[start : start + int(np.prod(shape, dtype=int))].reshape(shape)
            found[name][field] = value
    return found, said


@dataclass(frozen=True)
class Difference:
    """Fields of a combination that differ, and the largest difference over the largest magnitude of its field."""

    fields: tuple[str, ...] = ()
    relative: float = 0.0


def compare(old: Record | None, new: Record | None) -> Difference:
    """Bit for bit; any NaN is like any other."""
    if old is None or new is None:
        return Difference(("not in the file",) if old is None else ("not run any more",), np.inf)
    differing, relative = [], 0.0
    for field in sorted(old.keys() | new.keys()):
        one, other = old.get(field), new.get(field)
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.shape == other.shape:
            other = np.asarray(other, dtype=float)
            unlike = (one.view(np.int64) != other.view(np.int64)) & ~(np.isnan(one) & np.isnan(other))
            if unlike.any():
                differing.append(field)
                scale = np.abs(one[np.isfinite(one)]).max(initial=np.finfo(float).tiny)
                with np.errstate(invalid="ignore"):
                    gap = np.abs(one - other)[unlike]
                relative = max(relative, float(np.nan_to_num(gap, nan=np.inf, posinf=np.inf).max() / scale))
        elif not (isinstance(one, str) and one == other):
            differing.append(field)
            relative = relative if isinstance(one, str) and isinstance(other, str) else np.inf
    return Difference(tuple(differing), relative)


def table(differences: dict[str, Difference], allowed: set[str]) -> list[str]:
    """All, and every level of a factor at which something differs."""
    lines = [
        "| | combinations | same bits | differing | of these allowed | largest relative difference |",
        "|---|---|---|---|---|---|",
    ]
    by_level: dict[str, list[str]] = {"all": list(differences)}
    for name in differences:
        for factor, level in factor_levels().get(name, {}).items():
            by_level.setdefault(f"{factor} {level}", []).append(name)
    for title, names in by_level.items():
        odd = [name for name in names if differences[name].fields]
        if odd or title == "all":
            largest = max((differences[name].relative for name in odd), default=0.0)
            n_allowed = sum(name in allowed for name in odd)
            counts = " | ".join(str(n) for n in (len(names), len(names) - len(odd), len(odd), n_allowed))
            lines.append(f"| {title} | {counts} | {largest:.2g} |")
    return lines


def matching(names: Iterable[str], globs: list[str]) -> list[str]:
    """Names that one of the globs matches."""
    return [name for name in names if any(fnmatch.fnmatchcase(name, one) for one in globs)]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path, metavar="FILE", help="run everything and keep it in FILE.npz")
    what.add_argument("--compare", type=Path, metavar="FILE", help="run again and compare with FILE.npz")
    parser.add_argument("--only", action="append", metavar="GLOB", help="names to run; may be given several times")
    parser.add_argument("--allow", action="append", metavar="GLOB", default=[], help="names that may differ")
    parser.add_argument("--list", action="store_true", help="name every combination that differs, and its fields")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run every N-th of the names only")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    arguments = parser.parse_args()
    names = matching(pinned(), arguments.only or ["*"])[:: arguments.every]
    old, said = load(arguments.compare) if arguments.compare else ({}, about())
    began = time.perf_counter()
    found = run_all(names, arguments.jobs)
    seconds = time.perf_counter() - began
    n_refused = sum("refused" in record for record in found.values())
    print(f"{len(found)} combinations, {n_refused} of them refused, in {seconds:.0f} s; {Path(cs.__file__).parent}")
    for name, record in found.items():
        if record.get("foreign"):
            print(f"failed: {name}: {record['refused']}")
    if arguments.write:
        write(arguments.write, found)
        return 0
    if said != about():
        print(f"Bits may differ: the file was written with {said}; this is {about()}.")
    expected = matching(old, arguments.only or ["*"]) if arguments.every == 1 else []
    every = dict.fromkeys([*found, *expected])
    differences = {name: compare(old.get(name), found.get(name)) for name in every}
    odd = [name for name, difference in differences.items() if difference.fields]
    allowed = set(matching(odd, arguments.allow))
    print("\n".join(["", *table(differences, allowed)]))
    if arguments.list:
        print()
        for name in odd:
            mark = " (allowed)" if name in allowed else ""
            print(f"- {name}{mark}: {differences[name].relative:.2g}; {', '.join(differences[name].fields)}")
            for field in differences[name].fields:
                before, after = (records.get(name, {}).get(field) for records in (old, found))
                if isinstance(before, str) or isinstance(after, str):
                    print(f"    {field}: {before!r} -> {after!r}")
    return int(len(odd) > len(allowed))


if __name__ == "__main__":
    sys.exit(main())
