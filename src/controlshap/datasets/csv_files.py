"""A CSV file: looked at once in blocks of whole lines, then read from any part on."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.datasets.files import Column, import_pyarrow, unify_types

#: Bytes looked at together; a few times as much is held.
BLOCK = 2**18
#: What counts as missing, also in columns of text: the list that pandas uses.
NULLS = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip


class CsvFile:
    """Offsets of every `step`-th row, and the types of the columns over all rows."""

    def __init__(self, path: Path, step: int) -> None:
        self.path = path
        self._step = step
        self._delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        self._pa = import_pyarrow("`source`: reading CSV files")
        digest = hashlib.sha256()
        offsets: list[Any] = []
        types: dict[str, Any] = {}
        nulls: set[str] = set()
        self.n_rows = 0
        self._names: list[str] = []
        for start, block, lines in _blocks(path, digest):
            if not self._names and len(lines):
                self._names = self._header(block[: lines[0, 1]])
                lines = lines[1:]
            if not len(lines):
                continue
            table = self._parse(block[lines[0, 0] :], None)
            if table.num_rows != len(lines):
                raise self._error(f"a quote is not closed near row {self.n_rows}")
            for name in self._names:
                kind = self._plain(table.column(name).type, name)
                types[name] = kind if name not in types else unify_types(self._pa, types[name], kind)
                if table.column(name).null_count:
                    nulls.add(name)
            offsets.append(start + lines[(-self.n_rows) % step :: step, 0])
            self.n_rows += len(lines)
        if not self._names:
            raise InvalidArgumentError(f"`source`: {path.name!r} holds no lines. Give a file with a header and rows.")
        self._offsets = np.concatenate([*offsets, [path.stat().st_size]]).astype(np.int64)
        self._sha256 = digest.hexdigest()
        # a column that is text in one block may have been read as numbers or dates in another: nulls are the same there
        self.columns = {name: Column(types.get(name, self._pa.null()), name in nulls) for name in self._names}

    def read(self, start: int, n: int, columns: dict[str, Column]) -> Any:
        """Rows from `start` on."""
        first, last = start // self._step, -(-(start + n) // self._step)
        with self.path.open("rb") as file:
            file.seek(int(self._offsets[first]))
            text = file.read(int(self._offsets[last] - self._offsets[first]))
        return self._parse(text, columns).slice(start - first * self._step, n)

    def sha256(self) -> str:
        """Hash of the contents."""
        return self._sha256

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pa": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pa = import_pyarrow("`source`: reading CSV files")

    def _header(self, line: bytes) -> list[str]:
        for magic, kind in ((b"PAR1", "a Parquet"), (b"ARROW1", "an Arrow"), (b"\x1f\x8b", "a gzip"), (b"PK", "a zip")):
            if line.startswith(magic):
                raise self._error(f"it is {kind} file; rename or unpack it")
        import csv

        try:
            text = line.decode("utf-8").strip("\r\n")
        except UnicodeDecodeError as error:
            raise self._error("it is not UTF-8 text; save it in that encoding") from error
        names = next(csv.reader([text], delimiter=self._delimiter))
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise self._error(f"column names must be unique, but {twice[:8]} stand for several columns; rename them")
        if len(names) == 1 and (";" in text or "\t" in text):
            raise self._error("its columns are not separated by commas; save it with commas, or tabs as .tsv")
        return names

    def _parse(self, text: bytes, columns: dict[str, Column] | None) -> Any:
        from pyarrow import csv

        wanted = (
            None if columns is None else {n: c.type for n, c in columns.items() if not self._pa.types.is_null(c.type)}
        )
        try:
            return csv.read_csv(
                self._pa.BufferReader(text),
                read_options=csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(text) + 1),
                parse_options=csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    include_columns=list(columns or ()),
                    column_types=wanted,
                    null_values=NULLS,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except self._pa.ArrowInvalid as error:
            raise self._error(str(error).replace("\n", " ")) from error

    def _plain(self, kind: Any, name: str) -> Any:
        """Numbers, booleans and text; dates and times are text too."""
        types = self._pa.types
        if types.is_binary(kind) or types.is_large_binary(kind):
            raise self._error(f"column {name!r} is not UTF-8 text; save it in that encoding")
        if types.is_null(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
            return kind
        return self._pa.string()

    def _error(self, reason: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"`source`: {self.path.name!r} cannot be read as CSV: {reason}.")


def _blocks(path: Path, digest: Any) -> Iterator[tuple[int, bytes, np.ndarray[Any, np.dtype[np.int64]]]]:
    """Blocks of whole lines: offset in the file, bytes, and start and end `(lines, 2)` of lines that are not empty.

    A line ends where a newline stands outside quotes: quotes inside a quoted field are doubled, so their number tells.
    """
    with path.open("rb") as file:
        rest = file.read(len(codecs.BOM_UTF8))
        digest.update(rest)
        start = len(rest) if rest == codecs.BOM_UTF8 else 0
        rest = rest[start:]
        while True:
            more = file.read(BLOCK)
            digest.update(more)
            block = rest + more
            if not block:
                return
            if not more and not block.endswith(b"\n"):
                block += b"\n"
            text = np.frombuffer(block, dtype=np.uint8)
            ends = np.flatnonzero((text == 10) & (np.cumsum(text == 34, dtype=np.uint8) % 2 == 0))
            if not len(ends):
                if not more:  # a quote that is never closed: let the parser say so
                    yield start, block, np.array([[0, len(block)]], dtype=np.int64)
                    return
                rest = block
                continue
            begins = np.concatenate([[0], ends[:-1] + 1])
            lengths = ends - begins
            empty = (lengths == 0) | ((lengths == 1) & (text[begins] == 13))
            used = int(ends[-1]) + 1
            yield start, block[:used], np.column_stack([begins, ends + 1])[~empty].astype(np.int64)
            start, rest = start + used, block[used:]
            if not more and not rest:
                return
