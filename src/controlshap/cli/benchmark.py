"""`controlshap benchmark`: errors and times of the default, of plain sampling and of shap on one model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._imports import require
from controlshap._types import FloatArray
from controlshap.cli.explain import DesignOptions, ModelOptions, prepare
from controlshap.cli.inputs import open_rows, read_between
from controlshap.engine.progress import make_bar
from controlshap.explainer import Explainer
from controlshap.models.model import as_model

#: Budget of the reference run that errors are taken against, in budgets of a method.
REFERENCE_BUDGETS = 50
OURS, PLAIN, SHAP = "controlshap", "controlshap, no control", "shap.KernelExplainer"


@dataclass(frozen=True)
class BenchmarkOptions:
    """Other options of `controlshap benchmark`."""

    budget: int
    n_rows: int
    seeds: int
    max_background: int
    rng: int


@dataclass(frozen=True)
class BenchmarkProblem:
    """A model, a background and rows, as frames."""

    name: str
    model: Any
    background: Any
    rows: Any


@dataclass(frozen=True)
class MethodErrors:
    """Squared errors `(rows,)` of a method, and its evaluations and seconds a row."""

    method: str
    squared_errors: FloatArray
    n_evaluations: float
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """All methods on one problem, and the error of the reference that they are compared with."""

    problem: str
    setting: str
    budget: int
    truth_budget: int
    truth_squared_errors: FloatArray
    methods: tuple[MethodErrors, ...]
    notes: tuple[str, ...]

    def ratio(self, method: MethodErrors) -> float:
        """Return the squared error of a method over ours, median over rows; infinite if ours is 0."""
        ours, theirs = self.methods[0].squared_errors, method.squared_errors
        with np.errstate(divide="ignore"):
            ratios = np.where(theirs == ours, 1.0, theirs / np.where(ours > 0, ours, 0.0))
        return float(np.sort(ratios)[(len(ratios) - 1) // 2])

    @property
    def truth_share(self) -> float:
        """Standard error of the reference over our error, as root mean squares."""
        truth, ours = self.truth_squared_errors.mean(), self.methods[0].squared_errors.mean()
        return 0.0 if truth == 0 else math.sqrt(truth / ours) if ours > 0 else math.inf

    def to_json(self) -> dict[str, Any]:
        """Return the comparison for programs; a ratio is null if our values have no error."""

        def finite(number: float) -> float | None:
            return number if math.isfinite(number) else None

        return {
            "problem": self.problem,
            "setting": self.setting,
            "budget": self.budget,
            "truth": {"budget": self.truth_budget, "standard_error_over_our_error": finite(self.truth_share)},
            "methods": [
                {
                    "method": errors.method,
                    "root_mean_squared_error": math.sqrt(errors.squared_errors.mean()),
                    "evaluations_a_row": errors.n_evaluations,
                    "seconds_a_row": errors.seconds,
                    "squared_error_over_ours": finite(self.ratio(errors)),
                    "seconds_over_ours": errors.seconds / self.methods[0].seconds,
                }
                for errors in self.methods
            ],
            "notes": list(self.notes),
        }

    def lines(self) -> list[str]:
        """Return the comparison as lines for people."""
        if self.truth_share == 0:
            reference = "Errors are taken against exact values."
        else:
            reference = (
                f"Errors are taken against runs of {self.truth_budget:,} evaluations a row, whose own standard error "
                f"is {self.truth_share:.2g} of our error"
                + ("." if self.truth_share < 0.2 else ": the ratios below understate the difference.")
            )
        table = [
            f"{'':24}  {'root mean':>12}  {'evaluations':>11}  {'seconds':>9}  {'squared error':>13}  {'time':>9}",
            f"{'':24}  {'square error':>12}  {'a row':>11}  {'a row':>9}  {'over ours':>13}  {'over ours':>9}",
        ]
        for errors in self.methods:
            ratio, slower = self.ratio(errors), errors.seconds / self.methods[0].seconds
            table.append(
                f"{errors.method:24}  {math.sqrt(errors.squared_errors.mean()):12.3g}  "
                f"{errors.n_evaluations:11,.0f}  {errors.seconds:9.3g}  {_factor(ratio):>13}  {_factor(slower):>9}"
            )
        ending = ["Ratios of squared errors are medians over the rows.", *self.notes]
        return [f"{self.problem}: {self.setting}", reference, *table, *ending]


def benchmark(
    files: tuple[str, str, str] | None, model_options: ModelOptions, design: DesignOptions, options: BenchmarkOptions
) -> Comparison:
    """Measure the errors and times of all methods on one problem.

    `files` are the model, the rows to explain and the background; None stands for the built-in problem.
    """
    problem = _built_in(options) if files is None else _read_problem(files, model_options, options)
    ours = design.make_explainer(problem.model, problem.background)
    plain = design.make_explainer(problem.model, problem.background, control="none")
    n_rows = len(problem.rows)
    refusal = _refuse_shap(problem, design, options)
    total = n_rows * (options.seeds * (2 + (refusal is None)) + 1)
    with make_bar("The progress bar", total=total, unit="row", disable=None, leave=False) as bar:
        tick = bar.update
        truth_budget = REFERENCE_BUDGETS * options.budget
        truth = ours(problem.rows, budget=truth_budget, rng=_seed(options.rng, 10**6))
        tick(n_rows)
        methods = [
            _measure(name, explainer, problem, truth.values, options, tick)
            for name, explainer in ((OURS, ours), (PLAIN, plain))
        ]
        if refusal is None:
            methods.append(_measure_shap(problem, truth.values, options, tick))
    setting = (
        f"{len(truth.feature_names)} players, {len(problem.background)} background rows, {design.features} features; "
        f"{n_rows} rows, {options.seeds} runs of {options.budget:,} evaluations"
    )
    return Comparison(
        problem.name, setting, options.budget, truth_budget, _mean_square(truth.standard_errors), tuple(methods),
        () if refusal is None else (f"Without shap.KernelExplainer: {refusal}.",),
    )  # fmt: skip


def _read_problem(
    files: tuple[str, str, str], model_options: ModelOptions, options: BenchmarkOptions
) -> BenchmarkProblem:
    prepared = prepare(files, model_options, f":{options.n_rows}", options.max_background, options.rng)
    assert prepared.rows is not None
    rows = read_between(open_rows(files[1], "DATA"), *prepared.rows)[list(prepared.columns.names)]
    return BenchmarkProblem(files[0], prepared.loaded.model, prepared.background.frame, rows)


def _built_in(options: BenchmarkOptions) -> BenchmarkProblem:
    """Fit a small network to scikit-learn's breast-cancer data."""
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
    return BenchmarkProblem("a tanh network on breast-cancer data", model, background, frame[: options.n_rows])


def _measure(
    name: str, explainer: Explainer, problem: BenchmarkProblem, truth: FloatArray, options: BenchmarkOptions,
    tick: Callable[[int], Any],
) -> MethodErrors:  # fmt: skip
    explainer(problem.rows[:1], budget=options.budget, rng=options.rng)  # which does what is done once
    errors, spent, seconds = [], [], 0.0
    for seed in range(options.seeds):
        began = time.perf_counter()
        explanation = explainer(problem.rows, budget=options.budget, rng=_seed(options.rng, seed))
        seconds += time.perf_counter() - began
        errors.append(_mean_square(explanation.values - truth))
        spent.append(explanation.n_evaluations.mean())
        tick(len(problem.rows))
    n = options.seeds * len(problem.rows)
    return MethodErrors(name, np.mean(errors, axis=0), float(np.mean(spent)), seconds / n)


def _measure_shap(
    problem: BenchmarkProblem, truth: FloatArray, options: BenchmarkOptions, tick: Callable[[int], Any]
) -> MethodErrors:
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
            values = explainer.shap_values(
                problem.rows.to_numpy(float), nsamples=options.budget // len(background), l1_reg=False, silent=True
            )
            seconds += time.perf_counter() - began
            errors.append(_mean_square(np.asarray(values).reshape(truth.shape) - truth))
            tick(len(problem.rows))
    finally:
        np.random.set_state(kept)  # noqa: NPY002
    n = options.seeds * len(problem.rows)
    return MethodErrors(SHAP, np.mean(errors, axis=0), counted[0] / n, seconds / n)


def _refuse_shap(problem: BenchmarkProblem, design: DesignOptions, options: BenchmarkOptions) -> str | None:
    """Return why shap cannot solve the same problem, or None if it can."""
    n_columns = problem.background.shape[1]
    numeric = all(kind.kind in "biuf" for kind in problem.background.dtypes)
    reasons = (
        (design.features != "independent", "it explains independent features only"),
        (design.groups is not None, "groups are compared without it"),
        (not numeric, "some columns are not numbers"),
        (options.budget // len(problem.background) < n_columns + 2,
         f"{options.budget:,} evaluations are too few for it with {len(problem.background)} background rows"),
    )  # fmt: skip
    for applies, reason in reasons:
        if applies:
            return reason
    try:
        import shap  # noqa: F401
    except ImportError:
        return "it is not installed (pip install 'controlshap[shap]')"
    return None


def _mean_square(errors: FloatArray) -> FloatArray:
    """Return the mean square of each row."""
    mean: FloatArray = (errors**2).mean(axis=tuple(range(1, errors.ndim)))
    return mean


def _seed(base: int, number: int) -> int:
    return base * 10**7 + number + 1


def _factor(ratio: float) -> str:
    return "no error" if math.isinf(ratio) else f"{ratio:.3g}" if ratio < 100 else f"{ratio:,.0f}"
