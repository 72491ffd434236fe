"""Rows of one call, each explained on its own: here, or spread over processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from controlshap._parallel import ordered_map
from controlshap._progress import ProgressLike, Reporter
from controlshap._types import FloatArray
from controlshap.engine.row import explain_row
from controlshap.problem import Problem
from controlshap.results.collect import KEPT, RowResult, gather
from controlshap.sampling.recording import Tape
from controlshap.statistics.stopping import Stopping

#: Seconds before a call shows a bar.
DELAY = 2.0

_Item = TypeVar("_Item")


def explain_rows(
    problem: Problem,
    rows: FloatArray,
    first: int,
    stopping: Stopping,
    entropy: int,
    *,
    n_jobs: int,
    keep: bool | None,
    progress: ProgressLike,
) -> list[RowResult]:
    """Explain rows whose numbers, and so their random streams, start at `first`."""
    # what is let go in the end is not gathered in the first place
    kept = math.inf if keep else 0 if keep is False else KEPT
    task = partial(_explain_numbered, problem, entropy, stopping, kept)
    results = _first_here(task, list(enumerate(rows, start=first)), n_jobs)
    return gather(_watched(results, Reporter(progress, len(rows), 0, DELAY)), keep)


def continue_rows(
    problem: Problem, items: list[tuple[int, FloatArray, Stopping, Tape]], entropy: int, *, n_jobs: int
) -> list[RowResult]:
    """Go on with rows from their tapes."""
    return gather(_first_here(partial(_continue_numbered, problem, entropy), items, n_jobs), keep=True)


def _watched(results: Iterator[RowResult], reporter: Reporter) -> Iterator[RowResult]:
    try:
        for result in results:
            reporter.add(1, result.n_evaluations)
            yield result
    finally:
        reporter.close()


def _first_here(task: Callable[[_Item], RowResult], items: list[_Item], n_jobs: int) -> Iterator[RowResult]:
    """The first row in this process: what is computed once (D matrices) is then kept, and sent along to the workers."""
    yield from ordered_map(task, items[:1], 1)
    yield from ordered_map(task, items[1:], n_jobs)


def _explain_numbered(
    problem: Problem, entropy: int, stopping: Stopping, kept: float, item: tuple[int, FloatArray]
) -> RowResult:
    number, row = item
    return explain_row(problem, row, number, entropy, stopping, Tape(records=kept > 0, most_bytes=kept))


def _continue_numbered(problem: Problem, entropy: int, item: tuple[int, FloatArray, Stopping, Tape]) -> RowResult:
    number, row, stopping, tape = item
    return explain_row(problem, row, number, entropy, stopping, tape)
