"""An Arrow IPC (Feather) file, read batch by batch; and what all Arrow data has in common."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._files import hash_file
from controlshap.datasets.files import Column, import_pyarrow


class ArrowFile:
    """Record batches by number; the last one is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pa = import_pyarrow("`source`: reading Arrow files")
        self._file: Any = None
        self._last: tuple[int, Any] | None = None
        file = self._opened()
        rows = [file.get_batch(i).num_rows for i in range(file.num_record_batches)]
        self._starts = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        self.n_rows = int(self._starts[-1])
        self.columns: dict[str, Column] = {}
        for place, field in enumerate(file.schema):
            batches = (file.get_batch(i).column(place) for i in range(file.num_record_batches))
            self.columns[field.name] = column_of(self._pa, field.type, batches)

    def read(self, start: int, n: int, columns: dict[str, Column]) -> Any:
        """Rows from `start` on."""
        pieces, wanted = [], n
        while wanted:
            number = int(np.searchsorted(self._starts, start, side="right")) - 1
            if self._last is None or self._last[0] != number:
                self._last = number, self._opened().get_batch(number)
            piece = self._last[1].slice(start - int(self._starts[number]), wanted)
            pieces.append(conform(self._pa, piece, columns))
            start, wanted = start + piece.num_rows, wanted - piece.num_rows
        return self._pa.Table.from_batches(pieces)

    def sha256(self) -> str:
        """Hash of the contents."""
        return hash_file(self.path)

    def _opened(self) -> Any:
        if self._file is None:
            try:
                self._file = self._pa.ipc.open_file(self._pa.memory_map(str(self.path)))
            except (self._pa.ArrowInvalid, OSError) as error:
                told = str(error).replace("\n", " ").rstrip(". ")
                raise InvalidArgumentError(
                    f"`source`: {self.path.name!r} cannot be read as an Arrow IPC or Feather file: {told}. Check its "
                    "kind."
                ) from error
        return self._file

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pa": None, "_file": None, "_last": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pa = import_pyarrow("`source`: reading Arrow files")


def column_of(pa: Any, kind: Any, pieces: Iterable[Any]) -> Column:
    """What a column holds, from all of its pieces."""
    categories: dict[Any, None] = {}
    nulls = False
    is_dictionary = pa.types.is_dictionary(kind)
    for piece in pieces:
        nulls = nulls or bool(piece.null_count)
        if is_dictionary:
            categories.update(dict.fromkeys(piece.dictionary.to_pylist()))
        elif nulls:
            break
    if not is_dictionary:
        return Column(kind, nulls)
    return Column(kind.value_type, nulls, tuple(c for c in categories if c is not None), bool(kind.ordered))


def conform(pa: Any, batch: Any, columns: dict[str, Column]) -> Any:
    """A record batch with these columns in the types given; categories as their values."""
    arrays = []
    for name, column in columns.items():
        array = batch.column(batch.schema.get_field_index(name))
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        arrays.append(array if array.type == column.type else array.cast(column.type))
    return pa.record_batch(arrays, names=list(columns))
