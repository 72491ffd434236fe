"""The one loop over parts: a bounded window, the part file as the truth, and parts that kill their workers found out.

A worker that dies takes innocent parts with it, and some clusters blame these too. So a lost part is only a suspect: it
waits until all others are done, and is then tried alone. What dies alone is at fault.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from controlshap.datasets.part import Job, Outcome, Task
from controlshap.datasets.part_file import part_evaluations, part_path
from controlshap.datasets.pools import Pool
from controlshap.datasets.result import FailedPart, RunStoppedError

#: Seconds for a file that a worker has written to be seen here (network file systems take their time).
SEEN_AFTER = 20.0


@dataclass
class Ended:
    """What a run did."""

    n_done: int = 0
    n_evaluations: int = 0
    failed: list[FailedPart] = field(default_factory=list)
    warned: dict[type[Warning], tuple[int, str]] = field(default_factory=dict)


def run_parts(
    pool: Pool, job: Job, tasks: Iterable[Task], tell: Callable[[Task, int, bool], None], ended: Ended
) -> None:
    """Do all tasks; fills `ended` as it goes, so that what was done is known after an exception."""
    fresh: Iterator[Task] = iter(tasks)
    under_way: dict[int, Task] = {}
    suspects: deque[Task] = deque()
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
            if outcome.kind == "lost" and not _is_there(job, task, 0.0):
                deaths[task.part] += alone
                if deaths[task.part] < pool.deaths_allowed:
                    suspects.append(task)
                    continue
                outcome = Outcome(task.part, "failed", f"{outcome.reason} each time, also when it was alone")
            _settle(job, task, outcome, ended, tell)


def _settle(job: Job, task: Task, outcome: Outcome, ended: Ended, tell: Callable[[Task, int, bool], None]) -> None:
    """Book a part that has ended for good."""
    if outcome.kind == "failed":
        ended.failed.append(FailedPart(task.part, (task.first, task.last), outcome.reason))
        tell(task, 0, True)
        return
    if outcome.kind == "stopped":
        raise RunStoppedError(f"a part could not be written ({outcome.reason}). Make room in `out`")
    n_evaluations = outcome.n_evaluations
    if outcome.kind == "lost":  # but its file is there
        n_evaluations = part_evaluations(part_path(job.folder, task.part), job.run, task.last - task.first)
    elif not _is_there(job, task, SEEN_AFTER):
        raise RunStoppedError(
            f"a worker has written part {task.part}, but it is not in {str(job.folder)!r} as seen from here. Use a "
            "folder that all workers and this process share"
        )
    ended.n_done += 1
    ended.n_evaluations += n_evaluations
    for kind, n, text in outcome.warned:
        before, first = ended.warned.get(kind, (0, text))
        ended.warned[kind] = before + n, first
    tell(task, n_evaluations, False)


def _is_there(job: Job, task: Task, patience: float) -> bool:
    """Whether the file is there, or appears soon."""
    path, until = part_path(job.folder, task.part), time.monotonic() + patience
    while not path.is_file():
        if time.monotonic() >= until:
            return False
        time.sleep(0.1)
    return True


def say_how_to_finish(error: RunStoppedError, folder: Path, n_parts: int) -> RunStoppedError:
    """The same error, with what is kept and what to do."""
    n_done = sum(part_path(folder, part).is_file() for part in range(n_parts))
    return RunStoppedError(
        f"`explain_dataset` was stopped: {error}. {n_done} of {n_parts} parts are done and kept; run the same again to "
        "finish the rest."
    )
