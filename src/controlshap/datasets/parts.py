"""How rows are cut into parts, and chosen at random."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from controlshap._checks import at_least
from controlshap._errors import InvalidArgumentError
from controlshap._random import Purpose, stream

IntegerArray: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

#: Rows of a part, where nothing is said.
DEFAULT_ROWS = 50
#: Most rows of a part that is one of several files, where nothing is said.
MOST_ROWS = 10_000


def cut(file_rows: list[int], part_rows: int, rows: tuple[int, int] | None = None) -> IntegerArray:
    """Bounds of parts of at most `part_rows` rows; each file starts a new one. Of some rows, or of all."""
    starts = np.concatenate([[0], np.cumsum(file_rows)]).astype(np.int64)
    if rows is not None:
        starts = np.unique(np.clip(starts, *rows))
    inner = [np.arange(first, last, part_rows, dtype=np.int64) for first, last in pairwise(starts)]
    return np.concatenate([*inner, starts[-1:]])


def check_rows(rows: Any, n_rows: int) -> tuple[int, int]:
    """First row and the one after the last, of those that there are."""
    whole = isinstance(rows, (tuple, list)) and len(rows) == 2
    if not whole or not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in rows):
        raise InvalidArgumentError(f"`rows` must be two whole numbers, (first, end); got {rows!r}.")
    if not 0 <= rows[0] < rows[1] <= n_rows:
        raise InvalidArgumentError(f"`rows` must lie within the {n_rows} rows there are; got {rows!r}.")
    return int(rows[0]), int(rows[1])


def check_columns(there: Sequence[str], wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Those that are wanted; an error where one is not there."""
    if wanted is None:
        return tuple(there)
    missing = [name for name in wanted if name not in set(there)]
    if missing:
        raise InvalidArgumentError(
            f"`source` lacks the column(s) {missing[:8]}; it has {list(there[:8])}. Rename or add them."
        )
    return tuple(wanted)


def chosen_rows(n_rows: int, n: int, seed: int) -> IntegerArray:
    """Numbers of rows drawn without replacement, sorted; all of them where `n` is no smaller."""
    n = at_least("n", n, 1, "rows to sample")
    if n >= n_rows:
        return np.arange(n_rows, dtype=np.int64)
    rng = stream(seed, Purpose.BACKGROUND, 2)
    return np.sort(rng.choice(n_rows, n, replace=False, shuffle=False)).astype(np.int64)
