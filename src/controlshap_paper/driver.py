"""Run what is missing, in parallel: every task saves its result as it finishes, and is skipped when that is there."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlshap._errors import InvalidArgumentError
from controlshap._optional import require
from controlshap._parallel import one_blas_thread
from controlshap_paper.cells import METHODS, SECONDS, Cell, Size, all_cells
from controlshap_paper.runs import is_done, run_and_save
from controlshap_paper.studies import NAMES as STUDIES
from controlshap_paper.studies import run_study
from controlshap_paper.truth import exact_runs, find_truth, truth_name

#: Seconds beside the model's own, roughly, for the estimate of the time left: of an evaluation, and of a fit.
_CONDITIONING, _FITTING = 1e-5, 0.4


@dataclass(frozen=True)
class Task:
    """One result: the runs of a cell by a method, its true values, or a study."""

    cell: Cell | None
    method: str

    @property
    def name(self) -> str:
        """The name of its files."""
        if self.cell is None:
            return self.method
        return truth_name(self.cell) if self.method == "truth" else f"{self.cell.name}-{self.method}"

    def cost(self, size: Size) -> float:
        """Seconds, roughly."""
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
        """Seconds it took."""
        if self.cell is None:
            return run_study(self.method, size, folder, seed, out)
        if self.method == "truth":
            return find_truth(self.cell, size, folder, seed, out)
        known = exact_runs(self.cell, size, seed, out) if self.method == "default" else None
        return run_and_save(self.cell, self.method, size, folder, seed, out, known)


def all_tasks(only: str = "") -> list[Task]:
    """Every task whose name matches; truths first, the paper's method next, forests (which take hours) last."""
    cells = all_cells()
    found: dict[str, Task] = {}
    for model in dict.fromkeys(cell.model for cell in cells):
        for method in ("truth", *METHODS):
            for cell in (c for c in cells if c.model == model):
                if method == "truth" or method in cell.methods():
                    task = Task(cell, method)
                    found.setdefault(task.name, task)
    tasks = [*(Task(None, study) for study in STUDIES), *found.values()]
    try:
        chosen = [task for task in tasks if re.search(only, task.name)]
    except re.error as error:
        raise InvalidArgumentError(f"`only` must be a regular expression; {only!r} is none: {error}.") from error
    # a line of the table needs the true values and the paper's own estimates beside it
    cells = [task.cell for task in chosen if task.cell is not None and task.method != "truth"]
    needed = {Task(cell, method).name for cell in cells for method in ("truth", "paper")}
    return [task for task in tasks if task in chosen or task.name in needed]


@dataclass(frozen=True)
class Outcome:
    """A task that ended: how long it took, or why it did not."""

    task: Task
    seconds: float
    error: str = ""


def run_tasks(
    tasks: list[Task],
    size: Size,
    folder: Path | None,
    seed: int,
    out: Path,
    n_jobs: int,
    told: Callable[[Outcome], Any] | None = None,
) -> list[Outcome]:
    """Run those whose results are not there; failures are told and returned, and stop nothing else."""
    missing = [task for task in tasks if not is_done(out, task.name, size, seed)]
    failed = []
    with warnings.catch_warnings():
        # joblib replaces a worker whose caches have grown, and loses nothing
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
        for outcome in _outcomes(missing, size, folder, seed, out, n_jobs):
            if told is not None:
                told(outcome)
            if outcome.error:
                failed.append(outcome)
    return failed


def _outcomes(
    tasks: list[Task], size: Size, folder: Path | None, seed: int, out: Path, n_jobs: int
) -> Iterator[Outcome]:
    if n_jobs == 1:
        yield from (_attempt(task, size, folder, seed, out) for task in tasks)
        return
    joblib = require("joblib", extra="reproduce", feature="`--jobs`")
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
        yield from parallel(joblib.delayed(_attempt)(task, size, folder, seed, out) for task in tasks)


def _attempt(task: Task, size: Size, folder: Path | None, seed: int, out: Path) -> Outcome:
    try:
        with one_blas_thread():
            return Outcome(task, task.run(size, folder, seed, out))
    except Exception as error:  # noqa: BLE001 - told by name at the end; hours of other cells go on
        return Outcome(task, 0.0, f"{type(error).__name__}: {error}")
