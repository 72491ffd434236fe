"""What a worker does: explain the rows of one part, and write them. The file is the result; what returns is small."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from controlshap._errors import ControlShapWarning
from controlshap.datasets.layout import Layout
from controlshap.datasets.part_file import part_evaluations, part_path, write_part
from controlshap.datasets.sources import RowSource
from controlshap.engine import rows as rows_of_call
from controlshap.problem import Assembly
from controlshap.results.explanation import Explanation
from controlshap.statistics.stopping import Stopping

#: Bytes of results held before they are written.
HELD = 2**20
#: Most rows of which results are held.
MOST_HELD = 200


@dataclass(frozen=True, eq=False)
class Job:
    """All that parts have in common; sent to each worker once.

    `source` is None where rows travel with the part.
    """

    run: str
    explainer: Assembly
    source: RowSource | None
    stopping: Stopping
    entropy: int
    settings: dict[str, Any]
    layout: Layout
    folder: Path


@dataclass(frozen=True)
class Task:
    """One part: its number, its rows, and these themselves where a worker cannot read them."""

    part: int
    first: int
    last: int
    rows: Any = None


@dataclass(frozen=True)
class Outcome:
    """What became of a part.

    Attributes
    ----------
    part : int
    kind : {"done", "failed", "stopped", "lost"}
        "failed": the model or the rows are at fault. "stopped": the file could not be written. "lost": the worker is
        gone, and nobody knows why.
    reason : str
    n_evaluations : int
    warned : tuple
        Warnings of the library: class, number and first message.
    """

    part: int
    kind: Literal["done", "failed", "stopped", "lost"]
    reason: str = ""
    n_evaluations: int = 0
    warned: tuple[tuple[type[Warning], int, str], ...] = ()


class _WriteError(Exception):
    """The part could not be written, as against: not explained."""


# BLAS threads and warnings are settings of the whole process, and many models do not bear two threads at once.
_ONE_AT_A_TIME = threading.Lock()


def run_part(job: Job, task: Task) -> Outcome:
    """Explain and write one part. Never raises an `Exception`: an outcome always says what happened."""
    with _ONE_AT_A_TIME, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ControlShapWarning)
        try:
            n_evaluations = _explain_and_write(job, task)
        except _WriteError as error:
            return Outcome(task.part, "stopped", _told(error.__cause__ or error))
        except (Exception, SystemExit) as error:  # noqa: BLE001, whatever a model may raise
            return Outcome(task.part, "failed", _told(error))
    counted: dict[type[Warning], tuple[int, str]] = {}
    for one in caught:
        if issubclass(one.category, ControlShapWarning):
            n, text = counted.get(one.category, (0, str(one.message)))
            counted[one.category] = n + 1, text
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    warned = tuple((kind, n, text) for kind, (n, text) in counted.items())
    return Outcome(task.part, "done", "", n_evaluations, warned)


def explain_rows(job: Job, rows: Any, first: int) -> Explanation:
    """Explain rows whose numbers start at `first`, by an explainer of their own: it learns new levels of categories."""
    return rows_of_call.explain_rows(
        job.explainer.copy(), rows, first, job.stopping, job.entropy, job.settings, keep=False
    )


def _explain_and_write(job: Job, task: Task) -> int:
    path = part_path(job.folder, task.part)
    if path.is_file():
        # a cluster does a part again when the worker that had the answer is lost before the answer was read
        return part_evaluations(path, job.run, task.last - task.first)
    rows = task.rows
    if rows is None:
        assert job.source is not None
        rows = job.source.read_part(task.part)
    pieces = _pieces(job, task, rows)
    # The rows are explained while the file is open: an error of the model must not look like one of the disk.
    try:
        return write_part(path, _marked(pieces), job.layout, job.run)
    except _ModelError as error:
        raise error.error from error.error.__cause__
    except OSError as error:
        raise _WriteError from error


class _ModelError(Exception):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def _marked(pieces: Iterator[tuple[int, Explanation]]) -> Iterator[tuple[int, Explanation]]:
    while True:
        try:
            piece = next(pieces)
        except StopIteration:
            return
        except (Exception, SystemExit) as error:
            raise _ModelError(error) from error
        yield piece


def _pieces(job: Job, task: Task, rows: Any) -> Iterator[tuple[int, Explanation]]:
    """Results of few rows at a time: what is held does not depend on the size of the part."""
    p, outputs = len(job.layout.players), len(job.layout.outputs or ("",))
    step = max(1, min(MOST_HELD, HELD // (8 * outputs * p * (p + 8))))
    for start in range(0, task.last - task.first, step):
        some = rows.iloc[start : start + step] if hasattr(rows, "iloc") else rows[start : start + step]
        yield task.first + start, explain_rows(job, some, task.first + start)


def _told(error: BaseException) -> str:
    notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}{notes}"
