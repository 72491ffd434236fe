"""What the scaling benchmark measures: the axes with their sizes, and one measurement, made in a process of its own.

A case is an axis, a setting and a size. Times are processor time of one thread; the time that the model takes is
counted inside the model. Memory is the peak that the system counts for the process, less the peak after a tiny
explanation with the same setting (the libraries are then loaded).
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import controlshap as cs
from controlshap.controls.d_matrices import d_matrices
from controlshap.data.players import resolve_players
from controlshap.estimators.kernel import sample_coalitions
from controlshap.estimators.permutation import sample_permutations

#: Permutations behind the D matrices, wherever they are used here; the default of `Taylor` is ten times as many.
N_PERMUTATIONS = 200
#: Cases faster than this are measured again, up to so many times in all; the best counts.
QUICK_SECONDS, REPEATS = 1.0, 20
#: Walks and coalitions whose rows are built on the axis of columns.
N_WALKS, N_COALITIONS = 20, 200


@dataclass(frozen=True)
class Setting:
    """How rows are explained (`control`), or which part is measured alone (no control)."""

    features: str
    estimator: str
    control: str = ""


@dataclass(frozen=True)
class Axis:
    """What grows.

    Attributes
    ----------
    name, title : str
    sizes, small : tuple of int
        In the full run and with --small.
    settings : tuple of Setting
    limit : float
        The exponent that time may have.
    fixed : str
        What stays as it is, in words.
    most : dict
        The largest size for settings with a control that takes long.
    """

    name: str
    title: str
    sizes: tuple[int, ...]
    small: tuple[int, ...]
    settings: tuple[Setting, ...]
    limit: float
    fixed: str
    most: dict[str, int]

    def sizes_of(self, setting: Setting, *, small: bool) -> tuple[int, ...]:
        most = self.most.get(setting.control, max(self.sizes))
        return tuple(size for size in (self.small if small else self.sizes) if size <= most)


@dataclass(frozen=True)
class Problem:
    """Sizes of an explanation."""

    n_players: int = 10
    n_background: int = 100
    n_rows: int = 1
    budget: int = 10_000


EXPLANATIONS = (
    Setting("independent", "permutation", "none"),
    Setting("independent", "kernel", "none"),
    Setting("independent", "permutation", "taylor"),
    Setting("independent", "permutation", "ridge"),
    Setting("correlated", "permutation", "none"),
    Setting("correlated", "kernel", "none"),
    Setting("correlated", "permutation", "taylor"),
    Setting("correlated", "permutation", "ridge"),
)
PARTS = (
    Setting("correlated", "D matrices"),
    Setting("correlated", "walks"),
    Setting("independent", "walks"),
    Setting("correlated", "coalitions"),
)
#: What each axis leaves as it is, and the field that it changes.
FIXED = {
    "players": (Problem(), "n_players"),
    "background": (Problem(n_rows=2, budget=2_000), "n_background"),
    "rows": (Problem(n_background=50, budget=200), "n_rows"),
    "evaluations": (Problem(), "budget"),
}
AXES = (
    Axis(
        "players", "Players", (10, 20, 50, 100, 200, 500), (10, 20, 30), EXPLANATIONS, 3.0,
        "every player one column, 100 background rows, 1 row of 10,000 evaluations", {},
    ),
    Axis(
        "background", "Background rows", (10, 30, 100, 300, 1_000, 3_000, 10_000), (10, 30, 100), EXPLANATIONS, 1.0,
        "10 players, 2 rows of 2,000 evaluations. The ridge control of independent features knows its values for every "
        "background row up to 2,000 rows, beyond that for the visited ones", {},
    ),
    Axis(
        "rows", "Explained rows", (1, 10, 100, 1_000, 10_000), (1, 3, 9), EXPLANATIONS, 1.0,
        "10 players, 50 background rows, 200 evaluations a row", {"ridge": 1_000},
    ),
    Axis(
        "evaluations", "Evaluations", (1_000, 3_000, 10_000, 30_000, 100_000), (300, 1_000, 3_000), EXPLANATIONS, 1.0,
        "10 players, 100 background rows, 1 row", {},
    ),
    Axis(
        "columns", "Columns", (10, 20, 50, 100, 200, 500), (10, 20, 30), PARTS, 3.0,
        f"D matrices from {N_PERMUTATIONS} permutations (up to ten players all coalitions are enumerated), the rows of "
        f"{N_WALKS} walks, the rows of {N_COALITIONS} coalitions. The D matrices are players x columns^2 numbers, at "
        "least four times over, to know their error", {},
    ),
)  # fmt: skip
BY_NAME = {axis.name: axis for axis in AXES}


class TimedModel:
    """tanh of a linear score, a cheap model of whole batches, which counts its own calls, rows and time."""

    def __init__(self, n_columns: int) -> None:
        self.slopes = np.random.default_rng(1).standard_normal(n_columns) / (3.0 * np.sqrt(n_columns))
        self.clear()

    def clear(self) -> None:
        self.seconds, self.n_calls, self.n_rows = 0.0, 0, 0

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        start = time.process_time()
        outputs = np.tanh(rows @ self.slopes)
        self.seconds += time.process_time() - start
        self.n_calls += 1
        self.n_rows += len(rows)
        return outputs


def make_rows(n_rows: int, n_columns: int, seed: int) -> np.ndarray:
    """Correlated columns: five factors and noise."""
    loadings = np.random.default_rng(0).standard_normal((5, n_columns))
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_rows, 5)) @ loadings + rng.standard_normal((n_rows, n_columns))


def make_explainer(setting: Setting, problem: Problem, model: Callable[[np.ndarray], np.ndarray]) -> cs.Explainer:
    # Second differences between columns are evaluations, not ours; without them no budget is too small.
    taylor = cs.Taylor(derivatives=cs.FiniteDifferences(cross=False), n_permutations=N_PERMUTATIONS)
    return cs.Explainer(
        model,
        make_rows(problem.n_background, problem.n_players, 2),
        features=setting.features,
        estimator=setting.estimator,
        control=taylor if setting.control == "taylor" else setting.control,
    )


def measure(axis: str, setting: Setting, size: int) -> dict[str, float]:
    """One case: seconds in all, of the model and once for all rows; evaluations; memory in MB."""
    warnings.simplefilter("ignore", cs.SingularCovarianceWarning)  # fewer background rows than columns
    found = _measure_part(setting, size) if axis == "columns" else _measure_explanation(axis, setting, size)
    return found | {"memory": max(0.0, peak() - found.pop("before"))}


def _measure_explanation(axis: str, setting: Setting, size: int) -> dict[str, float]:
    tiny = Problem(4, 8, 1, 200)
    make_explainer(setting, tiny, TimedModel(4))(make_rows(1, 4, 3), budget=tiny.budget, rng=0)
    fixed, field = FIXED[axis]
    problem = replace(fixed, **{field: size})
    before, model = peak(), TimedModel(problem.n_players)
    rows = make_rows(problem.n_rows + 1, problem.n_players, 3)
    start = time.process_time()
    explainer = make_explainer(setting, problem, model)
    explainer(rows[:1], budget=problem.budget, rng=0)
    first = time.process_time() - start

    def explain() -> tuple[float, float, int]:
        model.clear()
        start = time.process_time()
        explainer(rows[1:], budget=problem.budget, rng=1)
        return time.process_time() - start, model.seconds, model.n_rows

    total, of_model, evaluations = best(explain)
    once = max(0.0, first - total / problem.n_rows)
    return {"total": total, "model": of_model, "once": once, "evaluations": evaluations, "before": before}


def _measure_part(setting: Setting, size: int) -> dict[str, float]:
    _part(setting, 4)()
    before = peak()
    action = _part(setting, size)

    def timed() -> tuple[float]:
        start = time.process_time()
        action()
        return (time.process_time() - start,)

    return {"total": best(timed)[0], "model": 0.0, "once": 0.0, "evaluations": 0, "before": before}


def _part(setting: Setting, n_columns: int) -> Callable[[], object]:
    """D matrices, or rows of walks or coalitions, ready to be made."""
    names = tuple(f"x{i}" for i in range(n_columns))
    value_function = cs.Marginal() if setting.features == "independent" else cs.GaussianConditional()
    imputer = value_function.bind(make_rows(2 * n_columns, n_columns, 2), resolve_players(None, names), names)
    if setting.estimator == "D matrices":
        return lambda: d_matrices(imputer, N_PERMUTATIONS)
    rng, x = np.random.default_rng(4), make_rows(1, n_columns, 3)[0]
    if setting.estimator == "walks":
        permutations = sample_permutations(n_columns, N_WALKS, rng)
        draws = make_rows(N_WALKS, n_columns, 5)[:, None]
        return lambda: imputer.walk_rows(x, permutations, draws)
    coalitions = sample_coalitions(n_columns, N_COALITIONS, rng)[:, None]
    draws = make_rows(N_COALITIONS, n_columns, 5)[:, None]
    return lambda: imputer.coalition_rows(x, coalitions, draws)


def best(action: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
    """The fastest of a few runs; of slow ones there is one."""
    runs = [action()]
    while len(runs) < REPEATS and sum(run[0] for run in runs) < QUICK_SECONDS:
        runs.append(action())
    return min(runs)


def peak() -> float:
    """Peak resident memory of this process in MB."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / 2**20 if sys.platform == "darwin" else size / 2**10
