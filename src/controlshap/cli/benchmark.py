"""What `controlshap benchmark` does: errors and times of our default, of plain sampling and of shap on one model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._optional import require
from controlshap._types import FloatArray
from controlshap.cli.explain import ModelOptions, parse_control, prepare
from controlshap.cli.inputs import open_rows, read_groups, read_rows
from controlshap.explainer import Explainer
from controlshap.models.adapters import as_model

#: How many times the budget a run has that stands for the truth.
TRUTH = 50
OURS, PLAIN, SHAP = "controlshap", "controlshap, no control", "shap.KernelExplainer"


@dataclass(frozen=True)
class BenchmarkOptions:
    """Options of `controlshap benchmark`, as they are written there."""

    features: str = "independent"
    estimator: str = "auto"
    control: str = "auto"
    groups: Path | None = None
    budget: int = 2000
    n_rows: int = 3
    seeds: int = 5
    max_background: int = 50
    rng: int = 0


@dataclass(frozen=True)
class Problem:
    """A model, a background and rows, as frames."""

    name: str
    model: Any
    background: Any
    rows: Any


@dataclass(frozen=True)
class Measured:
    """One method: squared errors `(rows,)`, evaluations and seconds a row."""

    method: str
    squared_errors: FloatArray
    n_evaluations: float
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """All methods on one problem, and the errors of the truth they were held against."""

    problem: str
    setting: str
    budget: int
    truth_budget: int
    truth_squared_errors: FloatArray
    methods: tuple[Measured, ...]
    notes: tuple[str, ...]

    def ratio(self, method: Measured) -> float:
        """Squared error of a method over ours, median over rows; infinite where ours has none."""
        ours, theirs = self.methods[0].squared_errors, method.squared_errors
        with np.errstate(divide="ignore"):
            ratios = np.where(theirs == ours, 1.0, theirs / np.where(ours > 0, ours, 0.0))
        return float(np.sort(ratios)[(len(ratios) - 1) // 2])

    @property
    def truth_share(self) -> float:
        """Standard error of the truth over our error, root mean squares."""
        truth, ours = self.truth_squared_errors.mean(), self.methods[0].squared_errors.mean()
        return 0.0 if truth == 0 else math.sqrt(truth / ours) if ours > 0 else math.inf

    def to_json(self) -> dict[str, Any]:
        """For programs; a ratio is null where our values have no error."""

        def finite(number: float) -> float | None:
            return number if math.isfinite(number) else None

        return {
            "problem": self.problem,
            "setting": self.setting,
            "budget": self.budget,
            "truth": {"budget": self.truth_budget, "standard_error_over_our_error": finite(self.truth_share)},
            "methods": [
                {
                    "method": one.method,
                    "root_mean_squared_error": math.sqrt(one.squared_errors.mean()),
                    "evaluations_a_row": one.n_evaluations,
                    "seconds_a_row": one.seconds,
                    "squared_error_over_ours": finite(self.ratio(one)),
                    "seconds_over_ours": one.seconds / self.methods[0].seconds,
                }
                for one in self.methods
            ],
            "notes": list(self.notes),
        }

    def lines(self) -> list[str]:
        """For people."""
        told = [f"{self.problem}: {self.setting}"]
        if self.truth_share == 0:
            told.append("Errors are taken against exact values.")
        else:
            told.append(
                f"Errors are taken against runs of {self.truth_budget:,} evaluations a row, whose own standard error "
                f"is {self.truth_share:.2g} of our error"
                + ("." if self.truth_share < 0.2 else ": the ratios below understate the difference.")
            )
        told.append(
            f"{'':24}  {'root mean':>12}  {'evaluations':>11}  {'seconds':>9}  {'squared error':>13}  {'time':>9}"
        )
        told.append(f"{'':24}  {'square error':>12}  {'a row':>11}  {'a row':>9}  {'over ours':>13}  {'over ours':>9}")
        for one in self.methods:
            ratio, slower = self.ratio(one), one.seconds / self.methods[0].seconds
            told.append(
                f"{one.method:24}  {math.sqrt(one.squared_errors.mean()):12.3g}  {one.n_evaluations:11,.0f}  "
                f"{one.seconds:9.3g}  {_factor(ratio):>13}  {_factor(slower):>9}"
            )
        return [*told, "Ratios of squared errors are medians over the rows.", *self.notes]


def benchmark(
    files: tuple[str, str, str] | None, *, model_options: dict[str, Any], options: BenchmarkOptions
) -> Comparison:
    """Measure.

    Parameters
    ----------
    files : tuple of str or None
        Model, rows and background; None for the built-in problem.
    model_options : dict
        As for `ModelOptions`.
    options : BenchmarkOptions
    """
    problem = _built_in(options) if files is None else _of_files(files, ModelOptions(**model_options), options)
    groups = read_groups(options.groups)

    def explainer(control: Any) -> Explainer:
        return Explainer(
            problem.model, problem.background, features=options.features, estimator=options.estimator,
            control=control, groups=groups,
        )  # fmt: skip

    ours, plain = explainer(parse_control(options.control)), explainer("none")
    n_rows = len(problem.rows)
    notes: list[str] = []
    with_shap = _shap_fits(problem, options, groups, notes)
    with _bar(n_rows * (options.seeds * (2 + with_shap) + 1)) as tick:
        truth_budget = TRUTH * options.budget
        truth = ours(problem.rows, budget=truth_budget, rng=_seed(options.rng, 10**6))
        tick(n_rows)
        methods = [
            _measure(name, one, problem, truth.values, options, tick) for name, one in ((OURS, ours), (PLAIN, plain))
        ]
        if with_shap:
            methods.append(_measure_shap(problem, truth.values, options, tick))
    axes = tuple(range(1, truth.values.ndim))
    setting = (
        f"{len(truth.feature_names)} players, {len(problem.background)} background rows, {options.features} features; "
        f"{n_rows} rows, {options.seeds} runs of {options.budget:,} evaluations"
    )
    truth_errors = (truth.standard_errors**2).mean(axis=axes)
    return Comparison(
        problem.name, setting, options.budget, truth_budget, truth_errors, tuple(methods), tuple(notes)
    )  # fmt: skip


def _of_files(files: tuple[str, str, str], model_options: ModelOptions, options: BenchmarkOptions) -> Problem:
    model, data, background = files
    prepared = prepare(
        model, data, background, model_options, rows=f":{options.n_rows}", most=options.max_background,
        seed=options.rng,
    )  # fmt: skip
    assert prepared.rows is not None
    rows = read_rows(open_rows(data, "DATA"), *prepared.rows)[list(prepared.columns.names)]
    return Problem(model, prepared.model, prepared.background.frame, rows)


def _built_in(options: BenchmarkOptions) -> Problem:
    """A small network for scikit-learn's breast-cancer data."""
    pandas, _ = (
        require(package, extra="sklearn,frames", feature="The built-in problem") for package in ("pandas", "sklearn")
    )
    from sklearn.datasets import load_breast_cancer
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data = load_breast_cancer()
    frame = pandas.DataFrame(data.data, columns=[str(name) for name in data.feature_names]).filter(like="worst")
    network = MLPClassifier((20,), activation="tanh", solver="lbfgs", alpha=10.0, max_iter=2000, random_state=0)
    model = make_pipeline(StandardScaler(), network).fit(frame[100:], data.target[100:])
    if options.n_rows > 100:
        raise InvalidArgumentError("`--rows` must be at most 100 with the built-in problem.")
    background = frame[100:].sample(min(options.max_background, len(frame) - 100), random_state=options.rng)
    return Problem("a tanh network on breast-cancer data", model, background, frame[: options.n_rows])


def _measure(
    name: str, explainer: Explainer, problem: Problem, truth: FloatArray, options: BenchmarkOptions,
    tick: Callable[[int], Any],
) -> Measured:  # fmt: skip
    explainer(problem.rows[:1], budget=options.budget, rng=options.rng)  # what is done once is not a row's time
    errors, spent, seconds = [], [], 0.0
    for seed in range(options.seeds):
        began = time.perf_counter()
        found = explainer(problem.rows, budget=options.budget, rng=_seed(options.rng, seed))
        seconds += time.perf_counter() - began
        errors.append(_squared(found.values - truth))
        spent.append(found.n_evaluations.mean())
        tick(len(problem.rows))
    n = options.seeds * len(problem.rows)
    return Measured(name, np.mean(errors, axis=0), float(np.mean(spent)), seconds / n)


def _measure_shap(
    problem: Problem, truth: FloatArray, options: BenchmarkOptions, tick: Callable[[int], Any]
) -> Measured:
    import shap

    predict, names = as_model(problem.model).predict, list(problem.background.columns)
    counted = [0]

    def function(rows: Any) -> Any:
        import pandas

        counted[0] += len(rows)
        return predict(pandas.DataFrame(np.asarray(rows, dtype=float), columns=names))

    errors, seconds = [], 0.0
    background = problem.background.to_numpy(float)
    explainer = shap.KernelExplainer(function, background)
    counted[0] = 0
    kept = np.random.get_state()  # noqa: NPY002
    try:
        for seed in range(options.seeds):
            np.random.seed(options.rng * 1000 + seed)  # noqa: NPY002 - shap draws from the global generator
            began = time.perf_counter()
            found = explainer.shap_values(
                problem.rows.to_numpy(float), nsamples=options.budget // len(background), l1_reg=False, silent=True
            )
            seconds += time.perf_counter() - began
            errors.append(_squared(np.asarray(found).reshape(truth.shape) - truth))
            tick(len(problem.rows))
    finally:
        np.random.set_state(kept)  # noqa: NPY002
    n = options.seeds * len(problem.rows)
    return Measured(SHAP, np.mean(errors, axis=0), counted[0] / n, seconds / n)


def _shap_fits(problem: Problem, options: BenchmarkOptions, groups: Any, notes: list[str]) -> bool:
    """Whether shap can be asked the same question; what is left out is noted."""
    n_columns = problem.background.shape[1]
    numeric = all(kind.kind in "biuf" for kind in problem.background.dtypes)
    reasons = (
        (options.features != "independent", "it explains independent features only"),
        (groups is not None, "groups are compared without it"),
        (not numeric, "some columns are not numbers"),
        (options.budget // len(problem.background) < n_columns + 2,
         f"{options.budget:,} evaluations are too few for it with {len(problem.background)} background rows"),
    )  # fmt: skip
    why = next((reason for applies, reason in reasons if applies), None)
    if why is None:
        try:
            import shap  # noqa: F401
        except ImportError:
            why = "it is not installed (pip install 'controlshap[shap]')"
    if why is not None:
        notes.append(f"Without shap.KernelExplainer: {why}.")
    return why is None


def _squared(errors: FloatArray) -> FloatArray:
    squared: FloatArray = (errors**2).mean(axis=tuple(range(1, errors.ndim)))
    return squared


def _seed(base: int, number: int) -> int:
    return base * 10**7 + number + 1


def _factor(ratio: float) -> str:
    return "no error" if math.isinf(ratio) else f"{ratio:.3g}" if ratio < 100 else f"{ratio:,.0f}"


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], Any]]:
    """Progress with time left, on a terminal."""
    with require("tqdm", extra="cli", feature="The progress bar").tqdm(
        total=total, unit="row", disable=None, leave=False
    ) as bar:
        yield bar.update
