"""Run tasks in parallel: each saves its result when it finishes, and is skipped when the result is there."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlshap import InvalidArgumentError
from controlshap._imports import require
from controlshap_paper.cells import METHODS, SECONDS, Cell, Size, all_cells
from controlshap_paper.models import NAMES as MODELS
from controlshap_paper.runs import STUDIES, find_truth, is_done, run_and_save, run_study, truth_name

#: Seconds beside the model's own, roughly, for the estimate of the time left: of an evaluation, and of a fit.
_CONDITIONING, _FITTING = 1e-5, 0.4


@dataclass(frozen=True)
class PaperTask:
    """One result: the runs of a cell by a method, its true values, or a study."""

    cell: Cell | None
    method: str

    @property
    def name(self) -> str:
        """The name of its files, without suffix."""
        if self.cell is None:
            return self.method
        return truth_name(self.cell) if self.method == "truth" else f"{self.cell.name}-{self.method}"

    def cost(self, size: Size) -> float:
        """Roughly the seconds it takes."""
        if self.cell is None:
            return 20.0
        players = {"simulated": 10, "census": 12, "bank": 16}.get(self.cell.data, 20)
        per_feature = self.cell.estimator == "shapley_sampling"
        evaluations = size.n_coalitions * (2 * players if per_feature else 10)
        n = size.n_rows * size.n_runs
        if self.method == "truth":
            evaluations, n = size.truth_budget, size.n_rows
        seconds = evaluations * (1e-6 + SECONDS[self.cell.model])
        if self.cell.features == "correlated":
            seconds += evaluations * _CONDITIONING if per_feature and self.method != "truth" else 0.0
            seconds += _FITTING if self.method == "default" else 0.0
        elif self.method in ("default", "truth") and self.cell.model != "network":
            seconds, n = 2.0, size.n_rows  # exact, once
        return n * seconds

    def run(self, size: Size, folder: Path | None, seed: int, out: Path) -> float:
        """Run it and save its result; the seconds it took."""
        if self.cell is None:
            return run_study(self.method, size, folder, seed, out)
        if self.method == "truth":
            return find_truth(self.cell, size, folder, seed, out)
        return run_and_save(self.cell, self.method, size, folder, seed, out)


def all_tasks(only: str = "") -> list[PaperTask]:
    """Every task whose name matches; truths first, the paper's method next, forests (which take hours) last."""
    methods = ("truth", *METHODS)
    pairs = [(cell, method) for cell in all_cells() for method in ("truth", *cell.methods())]
    pairs.sort(key=lambda pair: (MODELS.index(pair[0].model), methods.index(pair[1])))
    by_name = {task.name: task for task in (PaperTask(*pair) for pair in pairs)}  # both estimators have the same truth
    tasks = [*(PaperTask(None, study) for study in STUDIES), *by_name.values()]
    try:
        chosen = [task for task in tasks if re.search(only, task.name)]
    except re.error as error:
        raise InvalidArgumentError(f"`only` must be a regular expression; {only!r} is none: {error}.") from error
    # a line of the table needs the true values and the paper's own estimates beside it
    cells = [task.cell for task in chosen if task.cell is not None and task.method != "truth"]
    needed = {PaperTask(cell, method).name for cell in cells for method in ("truth", "paper")}
    return [task for task in tasks if task in chosen or task.name in needed]


@dataclass(frozen=True)
class TaskResult:
    """How long a task took, or why it failed."""

    task: PaperTask
    seconds: float
    error: str = ""


def run_tasks(
    tasks: list[PaperTask],
    size: Size,
    folder: Path | None,
    seed: int,
    out: Path,
    n_jobs: int,
    report: Callable[[TaskResult], Any] | None = None,
) -> list[TaskResult]:
    """Run the tasks whose results are missing; failures are reported and returned, and stop no other task."""
    missing = [task for task in tasks if not is_done(out, task.name, size, seed)]
    failed = []
    with warnings.catch_warnings():
        # joblib replaces a worker whose caches have grown, and loses nothing
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
        for result in _run(missing, size, folder, seed, out, n_jobs):
            if report is not None:
                report(result)
            if result.error:
                failed.append(result)
    return failed


def _run(
    tasks: list[PaperTask], size: Size, folder: Path | None, seed: int, out: Path, n_jobs: int
) -> Iterator[TaskResult]:
    if n_jobs == 1:
        threadpoolctl = require("threadpoolctl", extra="reproduce", feature="One thread a task")
        for task in tasks:
            with threadpoolctl.threadpool_limits(1, user_api="blas"):
                result = _attempt(task, size, folder, seed, out)
            yield result
        return
    joblib = require("joblib", extra="reproduce", feature="`--jobs`")
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
        yield from parallel(joblib.delayed(_attempt)(task, size, folder, seed, out) for task in tasks)


def _attempt(task: PaperTask, size: Size, folder: Path | None, seed: int, out: Path) -> TaskResult:
    try:
        return TaskResult(task, task.run(size, folder, seed, out))
    except Exception as error:  # noqa: BLE001 - reported by name at the end; hours of other cells go on
        return TaskResult(task, 0.0, f"{type(error).__name__}: {error}")
