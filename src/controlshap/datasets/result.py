"""What a run over a data set returns, and what it says when it was stopped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from controlshap._errors import RunStoppedError

__all__ = ["DatasetResult", "FailedPart", "RunStoppedError"]


@dataclass(frozen=True)
class FailedPart:
    """A part without result.

    Attributes
    ----------
    part : int
    rows : tuple of int
        First row, and the one after the last.
    reason : str
    """

    part: int
    rows: tuple[int, int]
    reason: str


@dataclass(frozen=True)
class DatasetResult:
    """What there is after a run.

    Attributes
    ----------
    path : Path
        The folder; `controlshap.load(path)` reads it.
    n_rows, n_parts : int
        Of the whole data set.
    n_done : int
        Parts that are there.
    failed : tuple of FailedPart
        Parts that could not be explained; a second run tries them again.
    n_evaluations : int
        Model evaluations behind all parts that are there, those of earlier runs included.
    seconds : float
        Of this run.
    """

    path: Path
    n_rows: int
    n_parts: int
    n_done: int
    failed: tuple[FailedPart, ...]
    n_evaluations: int
    seconds: float
