"""What the command line reads: rows to explain, a background that fits into memory, groups."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.datasets.sources import Source, open_source

#: Rows read at a time. Small parts make a sample of a large file slow.
LOOK_ROWS = 10_000


@dataclass(frozen=True)
class Background:
    """Rows of the background, how many there were, and the seed of the sample (None where all are used)."""

    frame: Any
    n_rows: int
    seed: int | None

    def describe(self) -> str:
        """In words."""
        if self.seed is None:
            return f"background: all {self.n_rows:,} rows"
        return f"background: {len(self.frame):,} of {self.n_rows:,} rows sampled, seed {self.seed}"


def open_rows(path: str, argument: str) -> Source:
    """A file, folder or glob; errors name the argument of the command."""
    with _named(argument):
        return open_source(path, LOOK_ROWS)


def read_background(source: Source, columns: tuple[str, ...], most: int, seed: int) -> Background:
    """All rows, or a sample without replacement, of some columns."""
    with _named("--background"):
        frame = source.sample(most, seed)[list(columns)]
    return Background(frame, source.n_rows, seed if len(frame) < source.n_rows else None)


def read_rows(source: Source, start: int, stop: int) -> Any:
    """The rows from `start` up to `stop` as one frame."""
    import pandas

    bounds = np.asarray(source.bounds)
    found = [
        source.read_part(part).iloc[max(start - bounds[part], 0) : stop - bounds[part]]
        for part in range(source.n_parts)
        if bounds[part] < stop and bounds[part + 1] > start
    ]
    return pandas.concat(found, ignore_index=True)


def parse_rows(text: str, n_rows: int) -> tuple[int, int]:
    """`--rows 10:20`, `:20`, `10:` or `7`, as first row and end."""
    match = re.fullmatch(r"\s*(\d*)\s*(:?)\s*(\d*)\s*", text)
    if match is None or not (match[1] or match[2]) or (match[3] and not match[2]):
        raise InvalidArgumentError(f"`--rows` must be 10:20, :20, 10: or one number; got {text!r}.")
    start = int(match[1] or 0)
    stop = (int(match[3]) if match[3] else n_rows) if match[2] else start + 1
    if not start < stop <= n_rows:
        raise InvalidArgumentError(
            f"`--rows` must lie within the {n_rows:,} rows there are (0:{n_rows}); got {text!r}."
        )
    return start, stop


def read_groups(path: Path | None) -> dict[str, list[str]] | None:
    """`--groups`: JSON, names of groups to lists of columns."""
    if path is None:
        return None
    try:
        found = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"`--groups`: {path.name!r} is not JSON ({error}).") from error
    well_formed = isinstance(found, dict) and all(
        isinstance(columns, list) and all(isinstance(column, str) for column in columns) for columns in found.values()
    )
    if not well_formed:
        raise InvalidArgumentError(
            f'`--groups`: {path.name!r} must hold names and lists of columns, as {{"Job": ["Job_a", "Job_b"]}}.'
        )
    groups: dict[str, list[str]] = found
    return groups


@contextmanager
def _named(argument: str) -> Iterator[None]:
    try:
        yield
    except InvalidArgumentError as error:
        raise InvalidArgumentError(str(error).replace("`source`", f"`{argument}`")) from error
