"""The one loop over parts: a bounded window of them is under way, and a part is done when its file is there.

A worker that dies takes innocent parts with it, and some clusters blame these too. So a lost part is only a suspect: it
waits until all others are done, and is then tried alone. A part whose worker dies when it runs alone has failed.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from controlshap._errors import RunStoppedError
from controlshap.datasets.part import DatasetJob, PartOutcome, PartTask
from controlshap.datasets.part_file import part_path, part_totals
from controlshap.datasets.pools import Pool
from controlshap.datasets.result import FailedPart

#: Seconds until a file that a worker has written must be visible here (network file systems take their time).
VISIBLE_AFTER = 20.0

Report: TypeAlias = Callable[[PartTask, int, bool, float | None], None]
"""Called after every part with its task, its evaluations, whether it failed, and the largest error of its values."""


@dataclass
class RunTotals:
    """Counts, failures and warnings of a run.

    Attributes
    ----------
    n_done, n_evaluations : int
        Finished parts and the evaluations behind them, including those of earlier runs.
    largest_error : float
        Largest standard error of a value in finished parts.
    warned : dict
        For each class of warning, how many there were and the first message.
    """

    n_done: int = 0
    n_evaluations: int = 0
    largest_error: float = 0.0
    failed: list[FailedPart] = field(default_factory=list)
    warned: dict[type[Warning], tuple[int, str]] = field(default_factory=dict)


def run_parts(pool: Pool, job: DatasetJob, tasks: Iterable[PartTask], report: Report, totals: RunTotals) -> None:
    """Explain all tasks, updating `totals` on the way, so that they are right after an exception too."""
    fresh: Iterator[PartTask] = iter(tasks)
    under_way: dict[int, PartTask] = {}
    suspects: deque[PartTask] = deque()
    deaths: Counter[int] = Counter()
    exhausted = alone = False
    while True:
        while not exhausted and len(under_way) < pool.window:
            task = next(fresh, None)
            if task is None:
                exhausted = True
                break
            under_way[task.part] = task
            pool.submit(task)
        if not under_way:
            if not suspects:
                return
            task, alone = suspects.popleft(), True
            under_way[task.part] = task
            pool.submit(task)
        for outcome in pool.wait():
            task = under_way.pop(outcome.part)
            if outcome.kind == "lost" and not _wait_for_file(job, task, 0.0):
                deaths[task.part] += alone
                if deaths[task.part] < pool.deaths_allowed:
                    suspects.append(task)
                    continue
                outcome = PartOutcome(task.part, "failed", f"{outcome.reason} each time, also when it was alone")
            _record(job, task, outcome, totals, report)


def _record(job: DatasetJob, task: PartTask, outcome: PartOutcome, totals: RunTotals, report: Report) -> None:
    """Count a part that has ended for good."""
    if outcome.kind == "failed":
        totals.failed.append(FailedPart(task.part, (task.first, task.end), outcome.reason))
        report(task, 0, True, None)
        return
    if outcome.kind == "stopped":
        raise RunStoppedError(f"a part could not be written ({outcome.reason}). Make room in `out`")
    n_evaluations, largest_error = outcome.n_evaluations, outcome.largest_error
    if outcome.kind == "lost":  # but its file is there
        n_evaluations, largest_error = part_totals(part_path(job.folder, task.part), job.run, (task.first, task.end))
    elif not _wait_for_file(job, task, VISIBLE_AFTER):
        raise RunStoppedError(
            f"a worker has written part {task.part}, but it is not in {str(job.folder)!r} as seen from here. Use a "
            "folder that all workers and this process share"
        )
    totals.n_done += 1
    totals.n_evaluations += n_evaluations
    totals.largest_error = max(totals.largest_error, largest_error or 0.0)
    for kind, n, message in outcome.warned:
        n_before, first_message = totals.warned.get(kind, (0, message))
        totals.warned[kind] = n_before + n, first_message
    report(task, n_evaluations, False, largest_error)


def _wait_for_file(job: DatasetJob, task: PartTask, seconds: float) -> bool:
    """Whether the file of a part is there, or appears within some seconds."""
    path, until = part_path(job.folder, task.part), time.monotonic() + seconds
    while not path.is_file():
        if time.monotonic() >= until:
            return False
        time.sleep(0.1)
    return True


def add_way_out(error: RunStoppedError, folder: Path, n_parts: int) -> RunStoppedError:
    """The same error, with what has been kept and how to finish."""
    return RunStoppedError(f"`explain_dataset` was stopped: {error}. {describe_way_out(folder, n_parts)}")


def describe_way_out(folder: Path, n_parts: int) -> str:
    """How much is done, and how to finish."""
    n_done = sum(part_path(folder, part).is_file() for part in range(n_parts))
    return f"{n_done} of {n_parts} parts are done and kept in {str(folder)!r}; run the same again to finish the rest."
