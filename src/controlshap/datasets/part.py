"""The task of a worker: explain the rows of one part and write them. The file is the result; what returns is small."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from controlshap._errors import ControlShapWarning
from controlshap.datasets.layout import PartLayout, read_kept
from controlshap.datasets.lessons import begin_lesson, write_lesson
from controlshap.datasets.part_file import part_path, part_totals, write_part
from controlshap.datasets.sources import RowSource, take_columns
from controlshap.engine import rows as engine_rows
from controlshap.engine.generations import Lesson
from controlshap.problem import Assembly
from controlshap.results.explanation import Explanation
from controlshap.statistics.stopping import Stopping

#: Bytes of results held before they are written.
HELD_BYTES = 2**20
#: Most rows whose results are held.
HELD_ROWS = 200


@dataclass(frozen=True, eq=False)
class DatasetJob:
    """All that the parts of a run have in common; sent to each worker once.

    Attributes
    ----------
    run : str
        Hash of all that the run depends on.
    source : RowSource or None
        None where rows are sent with their part.
    """

    run: str
    assembly: Assembly
    source: RowSource | None
    stopping: Stopping
    entropy: int
    settings: dict[str, Any]
    layout: PartLayout
    folder: Path


@dataclass(frozen=True)
class PartTask:
    """A part: its number, its first row and the one after its last, and the rows where workers cannot read them."""

    part: int
    first: int
    end: int
    rows: Any = None


@dataclass(frozen=True)
class PartOutcome:
    """How a part ended.

    Attributes
    ----------
    kind : {"done", "failed", "stopped", "lost"}
        "failed": the model or the rows are at fault. "stopped": the file could not be written. "lost": the worker is
        gone for an unknown reason.
    warned : tuple
        Warnings of the library: class, number and first message.
    largest_error : float or None
        Largest standard error of the part's values; None where there are none.
    """

    part: int
    kind: Literal["done", "failed", "stopped", "lost"]
    reason: str = ""
    n_evaluations: int = 0
    warned: tuple[tuple[type[Warning], int, str], ...] = ()
    largest_error: float | None = None


class _RowsError(Exception):
    """The rows could not be read or explained, whatever the cause; errors of writing stay as they are."""


# BLAS threads and warning filters belong to the whole process, and many models do not allow two threads at once.
_ONE_AT_A_TIME = threading.Lock()


def run_part(job: DatasetJob, task: PartTask) -> PartOutcome:
    """Explain and write one part. Never raises an `Exception`: the outcome reports failures."""
    with _ONE_AT_A_TIME, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ControlShapWarning)
        try:
            n_evaluations, error_of_part = _explain_and_write(job, task)
        except _RowsError as error:
            return PartOutcome(task.part, "failed", _describe_error(error.__cause__))
        except OSError as error:
            return PartOutcome(task.part, "stopped", _describe_error(error))
        except Exception as error:  # noqa: BLE001
            return PartOutcome(task.part, "failed", _describe_error(error))
    counts: dict[type[Warning], tuple[int, str]] = {}
    for warning in caught:
        if issubclass(warning.category, ControlShapWarning):
            n, message = counts.get(warning.category, (0, str(warning.message)))
            counts[warning.category] = n + 1, message
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    warned = tuple((kind, n, message) for kind, (n, message) in counts.items())
    return PartOutcome(task.part, "done", "", n_evaluations, warned, error_of_part)


def explain_rows(job: DatasetJob, rows: Any, first: int, lesson: Lesson | None = None) -> Explanation:
    """Explain rows whose numbers start at `first`; a copy of the assembly learns new levels of categories."""
    return engine_rows.explain_rows(
        job.assembly.copy(), rows, first, job.stopping, job.entropy, job.settings, keep=False, lesson=lesson
    )


def _explain_and_write(job: DatasetJob, task: PartTask) -> tuple[int, float]:
    """Evaluations of the part, and the largest error of its values."""
    path = part_path(job.folder, task.part)
    if path.is_file():
        # a cluster repeats a part when the worker that had the answer is lost before the answer was read
        return part_totals(path, job.run, (task.first, task.end))
    errors = []

    def watch() -> Iterator[tuple[int, Explanation]]:
        for first, explanation in _explain_pieces(job, task):
            errors.append(float(explanation.standard_errors.max()))
            yield first, explanation

    return write_part(path, watch(), job.layout, job.run), max(errors)


def _explain_pieces(job: DatasetJob, task: PartTask) -> Iterator[tuple[int, Explanation]]:
    """Explain few rows at a time, so that the memory needed does not depend on the size of the part."""
    layout = job.layout
    p, outputs = len(layout.players), len(layout.outputs or ("",))
    step = max(1, min(HELD_ROWS, HELD_BYTES // (8 * outputs * p * (p + 8))))
    try:
        lesson = None
        if job.stopping.online:
            n_numbers = job.assembly.background.shape[1] + outputs
            lesson = begin_lesson(job.folder, job.run, task.part, task.end - task.first, n_numbers)
        rows = task.rows
        if rows is None:
            assert job.source is not None
            rows = job.source.read_part(task.part)
        for start in range(0, task.end - task.first, step):
            piece = rows.iloc[start : start + step] if hasattr(rows, "iloc") else rows[start : start + step]
            kept = read_kept(piece, layout.kept, layout.kept_kinds) if layout.kept else None
            features = take_columns(piece, layout.columns) if layout.kept else piece
            explanation = explain_rows(job, features, task.first + start, lesson)
            yield task.first + start, replace(explanation, kept=kept)
    except (Exception, SystemExit) as error:  # whatever a model may raise
        raise _RowsError from error
    if lesson is not None:
        write_lesson(job.folder, job.run, task.part, lesson)  # before the part, whose file shows that both exist


def _describe_error(error: BaseException | None) -> str:
    notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}{notes}"
