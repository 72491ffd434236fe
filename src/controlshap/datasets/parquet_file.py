"""A Parquet file, read forward in small batches: never a whole row group at once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._files import hash_file
from controlshap.datasets.arrow_file import column_of, conform
from controlshap.datasets.files import Column, import_pyarrow

#: Rows decoded at a time.
BATCH = 4096


class ParquetFile:
    """Remembers where it stands, so that parts in order cost one pass over the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pa = import_pyarrow("`source`: reading Parquet files")
        self._file: Any = None
        self._batches: Any = None
        self._held: Any = None
        self._next = 0  # row that `_held` begins with
        file = self._opened()
        schema = file.schema_arrow
        index = _index_columns(schema.metadata or {})
        names = [name for name in schema.names if name not in index]
        self._names = names
        self.n_rows: int = file.metadata.num_rows
        groups = [file.metadata.row_group(g) for g in range(file.metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum([group.num_rows for group in groups])]).astype(np.int64)
        self.columns: dict[str, Column] = {}
        flat = {groups[0].column(c).path_in_schema: c for c in range(groups[0].num_columns)} if groups else {}
        for name in names:
            kind = schema.field(name).type
            chunks = [group.column(flat[name]) for group in groups] if name in flat else []
            known = bool(chunks) and all(c.statistics is not None and c.statistics.has_null_count for c in chunks)
            if known and not self._pa.types.is_dictionary(kind):
                nulls = any(chunk.statistics.null_count for chunk in chunks)
                self.columns[name] = Column(kind, nulls)
            else:
                batches = file.iter_batches(batch_size=65536, columns=[name])
                self.columns[name] = column_of(self._pa, kind, (batch.column(0) for batch in batches))

    def read(self, start: int, n: int, columns: dict[str, Column]) -> Any:
        """Rows from `start` on."""
        group = self._group(start)
        if self._batches is None or start < self._next or group > self._group(self._next) + 1:
            self._seek(group)
        pieces, wanted = [], n
        while wanted:
            held = self._held
            if held is None or start >= self._next + held.num_rows:
                self._next += 0 if held is None else held.num_rows
                self._held = next(self._batches)
                continue
            piece = held.slice(start - self._next, wanted)
            pieces.append(piece)
            start, wanted = start + piece.num_rows, wanted - piece.num_rows
        return self._pa.Table.from_batches([conform(self._pa, piece, columns) for piece in pieces])

    def sha256(self) -> str:
        """Hash of the contents."""
        return hash_file(self.path)

    def _group(self, row: int) -> int:
        """The row group that holds a row."""
        return int(np.searchsorted(self._starts, row, side="right")) - 1

    def _seek(self, group: int) -> None:
        """Begin with a row group."""
        groups = list(range(group, len(self._starts) - 1))
        self._batches = self._opened().iter_batches(
            batch_size=BATCH, row_groups=groups, columns=self._names, use_threads=False
        )
        self._held, self._next = None, int(self._starts[group])

    def _opened(self) -> Any:
        if self._file is None:
            from pyarrow import parquet

            try:
                self._file = parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=2**20)
            except (self._pa.ArrowInvalid, OSError) as error:
                raise InvalidArgumentError(
                    f"`source`: {self.path.name!r} cannot be read as Parquet: {_one_line(error)}. Check its kind."
                ) from error
        return self._file

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pa": None, "_file": None, "_batches": None, "_held": None, "_next": 0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pa = import_pyarrow("`source`: reading Parquet files")


def _index_columns(metadata: dict[bytes, bytes]) -> set[str]:
    """Columns that pandas wrote for the index of a frame; they are no columns of the table."""
    if b"pandas" not in metadata:
        return set()
    told = json.loads(metadata[b"pandas"]).get("index_columns", [])
    return {name for name in told if isinstance(name, str)} | {
        name for name in map(str, told) if re.fullmatch(r"__index_level_\d+__", name)
    }


def _one_line(error: Exception) -> str:
    return str(error).replace("\n", " ").rstrip(". ")
