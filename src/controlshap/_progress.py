"""How far a run is: a bar for people, lines of JSON for programs, or a function."""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from controlshap._errors import InvalidArgumentError, MissingExtraError
from controlshap._optional import require


@dataclass(frozen=True)
class Progress:
    """Where a run stands.

    Attributes
    ----------
    rows_done, n_rows : int
        Rows that are explained (in earlier runs too), of all.
    n_evaluations : int
        Model evaluations of this run.
    seconds : float
        Since this run began.
    seconds_left : float
        Estimated from the rows of this run; infinite before the first.
    """

    rows_done: int
    n_rows: int
    n_evaluations: int
    seconds: float
    seconds_left: float

    @property
    def evaluations_per_second(self) -> float:
        """Of this run."""
        return self.n_evaluations / self.seconds if self.seconds > 0 else 0.0


ProgressLike: TypeAlias = "Literal['json'] | bool | Callable[[Progress], Any] | None"
"""What `progress=` accepts."""


class Reporter:
    """Counts, and tells whoever wants to know after every row or part; a bar comes up after `delay` seconds."""

    def __init__(self, progress: ProgressLike, n_rows: int, rows_done: int, delay: float = 0.0) -> None:
        self._tell = _teller(progress, n_rows, rows_done, delay)
        self._n_rows, self._before = n_rows, rows_done
        self._rows = self._n_evaluations = 0
        self._began = time.perf_counter()

    def add(self, n_rows: int, n_evaluations: int, *, skipped: bool = False) -> None:
        """A part is finished; one that failed is `skipped`, and its rows are not done."""
        if skipped:
            self._n_rows -= n_rows
        else:
            self._rows += n_rows
            self._n_evaluations += n_evaluations
        if self._tell is not None:
            self._tell(self.now())

    def now(self) -> Progress:
        """Where the run stands."""
        seconds = time.perf_counter() - self._began
        done = self._before + self._rows
        left = (self._n_rows - done) * seconds / self._rows if self._rows else math.inf
        return Progress(done, self._n_rows, self._n_evaluations, seconds, 0.0 if done >= self._n_rows else left)

    def close(self) -> None:
        """Leave the bar as it is."""
        close = getattr(self._tell, "close", None)
        if close is not None:
            close()


def check_progress(progress: Any) -> ProgressLike:
    """One of the ways to tell."""
    if progress is None or isinstance(progress, bool) or progress == "json" or callable(progress):
        known: ProgressLike = progress
        return known
    raise InvalidArgumentError(f"`progress` must be None, True, False, 'json' or a function; got {progress!r}.")


def _teller(progress: ProgressLike, n_rows: int, rows_done: int, delay: float) -> Callable[[Progress], Any] | None:
    if progress is None:
        if not (sys.stderr.isatty() or _in_notebook()):
            return None
        try:
            return _Bar(n_rows, rows_done, delay)
        except MissingExtraError:
            return None  # nobody asked for a bar
    if progress is False:
        return None
    if progress is True:
        return _Bar(n_rows, rows_done, delay)
    return _write_json if progress == "json" else progress


def _write_json(progress: Progress) -> None:
    told = asdict(progress) | {"evaluations_per_second": progress.evaluations_per_second}
    told["seconds_left"] = None if math.isinf(progress.seconds_left) else progress.seconds_left
    sys.stderr.write(json.dumps(told) + "\n")
    sys.stderr.flush()


class _Bar:
    """A bar of tqdm: rows, rate and time left, evaluations a second."""

    def __init__(self, n_rows: int, rows_done: int, delay: float) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without widgets gets a bar of text
            tqdm = require("tqdm.auto", extra="cli", feature="`progress=True`", otherwise="or use progress='json'")
        self._bar = tqdm.tqdm(total=n_rows, initial=rows_done, unit="row", dynamic_ncols=True, delay=delay)

    def __call__(self, progress: Progress) -> None:
        self._bar.total = progress.n_rows
        self._bar.set_postfix_str(f"{progress.evaluations_per_second:,.0f} evaluations/s", refresh=False)
        self._bar.update(progress.rows_done - self._bar.n)

    def close(self) -> None:
        self._bar.close()


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
