"""Rows in memory (an array, a pandas or a polars frame) in parts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.datasets.parts import DEFAULT_ROWS, MOST_ROWS, IntegerArray, check_columns, chosen_rows, cut


@dataclass(frozen=True, eq=False)
class MemorySource:
    """Rows that are there already; they are sent to workers part by part."""

    data: Any
    columns: tuple[str, ...]
    bounds: IntegerArray
    part_rows: int
    travels = True
    n_files = 1

    @classmethod
    def open(cls, data: Any, part_rows: int | None, wanted: Sequence[str] | None) -> MemorySource:
        """Check, and cut."""
        is_frame = hasattr(data, "columns") and hasattr(data, "shape")
        if not is_frame:
            if not isinstance(data, (np.ndarray, list, tuple)):
                raise InvalidArgumentError(
                    f"`source` must be a path, a pandas or polars frame, or an array; got {type(data).__name__}."
                )
            data = np.asarray(data)
            if data.ndim != 2:
                raise InvalidArgumentError(
                    f"`source` must be two-dimensional, (rows, columns); got {data.ndim} dimension(s)."
                )
        n_rows, n_columns = data.shape
        if n_rows == 0 or n_columns == 0:
            raise InvalidArgumentError(f"`source` is empty (shape {data.shape}); it needs rows and columns.")
        columns = tuple(str(c) for c in data.columns) if is_frame else tuple(f"x{i}" for i in range(n_columns))
        if is_frame and wanted is not None:
            columns = check_columns(columns, wanted)
            names = {str(name): name for name in data.columns}
            data = data[[names[name] for name in columns]]
        step = part_rows or DEFAULT_ROWS
        return cls(data, columns, cut([n_rows], step), step)

    def recut(self, part_rows: int) -> MemorySource:
        """The same rows in parts of another size."""
        rows = int(self.bounds[0]), int(self.bounds[-1])
        return replace(self, bounds=cut([len(self.data)], part_rows, rows), part_rows=part_rows)

    def between(self, first: int, end: int) -> MemorySource:
        """Some of the rows, with the numbers that they have here."""
        return replace(self, bounds=cut([len(self.data)], self.part_rows, (first, end)))

    @property
    def n_rows(self) -> int:
        """Rows there are."""
        return int(self.bounds[-1] - self.bounds[0])

    @property
    def n_parts(self) -> int:
        """Parts there are."""
        return len(self.bounds) - 1

    def read_part(self, part: int) -> Any:
        """Rows of one part, of the kind that came in."""
        return self._rows(slice(int(self.bounds[part]), int(self.bounds[part + 1])))

    def sample(self, n: int, seed: int = 0) -> Any:
        """Rows chosen at random, in order."""
        return self._rows(self.bounds[0] + chosen_rows(self.n_rows, n, seed))

    def describe(self) -> dict[str, Any]:
        """Names, number and a hash of the contents."""
        digest = hashlib.sha256(repr(self.columns).encode())
        first, end = int(self.bounds[0]), int(self.bounds[-1])
        for start in range(first, end, MOST_ROWS):  # not by parts: the same rows are the same, however they are cut
            digest.update(_bytes(self._rows(slice(start, min(start + MOST_ROWS, end)))))
        return {
            "kind": "memory",
            "columns": list(self.columns),
            "rows": [int(self.bounds[0]), int(self.bounds[-1])],
            "sha256": digest.hexdigest(),
        }

    def changed(self) -> list[str]:
        """None: there are no files."""
        return []

    def _rows(self, which: Any) -> Any:
        return self.data.iloc[which] if hasattr(self.data, "iloc") else self.data[which]


def _bytes(rows: Any) -> bytes:
    """Contents with their types; equal for equal rows."""
    if hasattr(rows, "iloc"):
        import pandas

        kinds = repr([str(kind) for kind in rows.dtypes]).encode()
        hashes: bytes = pandas.util.hash_pandas_object(rows, index=False).to_numpy().tobytes()
        return kinds + hashes
    if hasattr(rows, "columns"):
        text = repr([str(kind) for kind in rows.dtypes]) + repr(rows.rows())
        return text.encode()
    if rows.dtype.kind == "O":
        return repr(rows.tolist()).encode()
    contents: bytes = str(rows.dtype).encode() + np.ascontiguousarray(rows).tobytes()
    return contents
