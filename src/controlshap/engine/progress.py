"""Progress of a run: a bar for people, lines of JSON for programs, or a function of the user."""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from controlshap._errors import InvalidArgumentError, MissingExtraError
from controlshap._imports import require


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes
    ----------
    rows_done, n_rows : int
        Explained rows, including those of earlier runs, and all rows.
    n_evaluations : int
        Model evaluations of this run.
    seconds : float
        Time since this run began.
    seconds_left : float
        Time still needed, estimated from the rows of this run; infinite before the first.
    largest_error : float or None
        Largest standard error of the rows of this run; None for data sets, whose rows are explained elsewhere.
    """

    rows_done: int
    n_rows: int
    n_evaluations: int
    seconds: float
    seconds_left: float
    largest_error: float | None = None

    @property
    def evaluations_per_second(self) -> float:
        """Model evaluations of this run for each second."""
        return self.n_evaluations / self.seconds if self.seconds > 0 else 0.0


ProgressLike: TypeAlias = "Literal['json'] | bool | Callable[[Progress], Any] | None"
"""What `progress=` accepts."""


class Reporter:
    """Counts rows and reports progress; a bar appears after `delay` seconds."""

    def __init__(self, progress: ProgressLike, n_rows: int, rows_done: int, delay: float = 0.0) -> None:
        self._report = _make_report(progress, n_rows, rows_done, delay)
        self._n_rows, self._before = n_rows, rows_done
        self._rows = self._n_evaluations = 0
        self._largest_error: float | None = None
        self._began = time.perf_counter()

    def add(self, n_rows: int, n_evaluations: int, error: float | None = None, *, skipped: bool = False) -> None:
        """Count rows that are finished, with their largest error; those of a part that failed are not done."""
        if error is not None:
            self._largest_error = max(error, self._largest_error or 0.0)
        if skipped:
            self._n_rows -= n_rows
        else:
            self._rows += n_rows
            self._n_evaluations += n_evaluations
        if self._report is not None:
            self._report(self.now())

    def now(self) -> Progress:
        """The progress of the run."""
        seconds = time.perf_counter() - self._began
        done = self._before + self._rows
        left = (self._n_rows - done) * seconds / self._rows if self._rows else math.inf
        left = 0.0 if done >= self._n_rows else left
        return Progress(done, self._n_rows, self._n_evaluations, seconds, left, self._largest_error)

    def close(self) -> None:
        """Close the bar, if there is one."""
        if isinstance(self._report, _RowBar):
            self._report.close()


def check_progress(progress: Any) -> ProgressLike:
    """Check the argument `progress`."""
    if (
        progress is None
        or isinstance(progress, bool)
        or callable(progress)
        or (isinstance(progress, str) and progress == "json")
    ):
        checked: ProgressLike = progress
        return checked
    raise InvalidArgumentError(f"`progress` must be None, True, False, 'json' or a function; got {progress!r}.")


def make_bar(feature: str, *, otherwise: str = "", **options: Any) -> Any:
    """Make a tqdm bar with these options, or raise an error that says how to install tqdm for the feature."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without widgets gets a bar of text
        return require("tqdm.auto", extra="cli", feature=feature, otherwise=otherwise).tqdm(**options)


def _make_report(progress: ProgressLike, n_rows: int, rows_done: int, delay: float) -> Callable[[Progress], Any] | None:
    if progress is True:
        return _RowBar(n_rows, rows_done, delay)
    if progress is None and (sys.stderr.isatty() or _in_notebook()):
        with suppress(MissingExtraError):  # nobody asked for a bar
            return _RowBar(n_rows, rows_done, delay)
    if progress is None or progress is False:
        return None
    return _write_json if progress == "json" else progress


def _write_json(progress: Progress) -> None:
    line = asdict(progress) | {"evaluations_per_second": progress.evaluations_per_second}
    line["seconds_left"] = None if math.isinf(progress.seconds_left) else progress.seconds_left
    sys.stderr.write(json.dumps(line) + "\n")
    sys.stderr.flush()


class _RowBar:
    """A bar with rows, their rate and time left, evaluations and the largest error so far."""

    def __init__(self, n_rows: int, rows_done: int, delay: float) -> None:
        self._bar = make_bar(
            "`progress=True`", otherwise="or use progress='json'",
            total=n_rows, initial=rows_done, unit="row", dynamic_ncols=True, delay=delay,
        )  # fmt: skip

    def __call__(self, progress: Progress) -> None:
        self._bar.total = progress.n_rows
        spent = f"{progress.n_evaluations:,} at {progress.evaluations_per_second:,.0f} evaluations/s"
        error = "" if progress.largest_error is None else f", largest error {progress.largest_error:.2g}"
        self._bar.set_postfix_str(spent + error, refresh=False)
        self._bar.update(progress.rows_done - self._bar.n)

    def close(self) -> None:
        self._bar.close()


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
