"""Rows to explain, cut into numbered parts: files too large for memory, or rows in memory."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from controlshap._checks import check_whole, is_whole, show
from controlshap._errors import InvalidArgumentError
from controlshap._files import hash_file
from controlshap._random import Purpose, stream
from controlshap._types import IntArray
from controlshap.data.frames import native_frame, read_frame
from controlshap.data.table import is_frame, read_array, read_row_names
from controlshap.datasets.csv_files import CsvFile
from controlshap.datasets.files import (
    ArrowFile,
    FileColumn,
    ParquetFile,
    TableFile,
    find_files,
    import_pyarrow,
    kind_of,
    stamp_file,
    to_pandas,
    unify_columns,
)

#: Rows of a part, unless `part_rows` is given.
DEFAULT_ROWS = 50
#: Most rows of a part that is one of several files, unless `part_rows` is given.
MOST_ROWS = 10_000
_READERS: dict[str, type[CsvFile | ParquetFile | ArrowFile]] = {
    "csv": CsvFile, "parquet": ParquetFile, "arrow": ArrowFile,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class RowSource(ABC):
    """Rows in numbered parts; part `i` has the rows from `bounds[i]` up to `bounds[i + 1]`."""

    columns: tuple[str, ...]
    #: Number of rows in each file; rows in memory count as one file.
    file_rows: tuple[int, ...]
    bounds: IntArray
    part_rows: int
    #: Columns that are read for their own sake, beside those that were asked for; the first names the rows.
    kept: tuple[str, ...]
    #: Whether rows have to be sent to workers; files are read by each worker itself.
    travels: ClassVar[bool]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.bounds[-1] - self.bounds[0])

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self.bounds) - 1

    def recut(self, part_rows: int) -> Self:
        """The same rows in parts of another size."""
        rows = int(self.bounds[0]), int(self.bounds[-1])
        return replace(self, bounds=cut_parts(self.file_rows, part_rows, rows), part_rows=part_rows)

    def between(self, first: int, end: int) -> Self:
        """The rows from `first` up to `end`, which keep their numbers."""
        return replace(self, bounds=cut_parts(self.file_rows, self.part_rows, (first, end)))

    @abstractmethod
    def read_part(self, part: int) -> Any:
        """Rows of one part: a frame with the same types in every part, or an array."""

    @abstractmethod
    def sample(self, n: int, seed: int = 0) -> Any:
        """Rows chosen at random without replacement, in the order of the source; all where there are no more."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Identity of the rows for a manifest: names, sizes and hashes of contents."""

    @abstractmethod
    def changed_files(self) -> list[str]:
        """Names of files that were written to or removed since they were opened."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open; the next reading opens it again."""


@dataclass(frozen=True, eq=False)
class FileSource(RowSource):
    """Rows of one or several files, in the order of the files."""

    kind: str
    files: tuple[TableFile, ...]
    types: dict[str, FileColumn]
    stamps: tuple[tuple[int, int], ...]
    travels = False

    @classmethod
    def open(
        cls,
        paths: Sequence[Path],
        kind: str,
        part_rows: int | None,
        columns: Sequence[str] | None,
        texts: Sequence[str],
        numbers: Sequence[str],
        keep: Sequence[str] = (),
    ) -> FileSource:
        """Go through all files once."""
        pa = import_pyarrow("`source`: reading files")
        part_rows = part_rows or (DEFAULT_ROWS if len(paths) == 1 else MOST_ROWS)
        stamps = {path: stamp_file(path) for path in paths}  # before anything is read
        for path, (n_bytes, _) in stamps.items():
            if n_bytes == 0:
                raise InvalidArgumentError(
                    f"`source`: {path.name!r} is empty (0 bytes). Write it again, or leave it out."
                )
        files = tuple(file for file in map(_READERS[kind], paths) if file.n_rows)
        if not files:
            raise InvalidArgumentError(f"`source`: {paths[0].name!r} holds no rows. Give a file with rows to explain.")
        types = unify_columns(files)
        types = {name: types[name] for name in _check_columns(tuple(types), columns, keep)}
        if kind == "csv":  # whose columns have no types of their own: "02" may be a name
            types |= {name: replace(types[name], type=pa.string()) for name in texts if name in types}
            _refuse_text(files, [name for name in numbers if name in types and pa.types.is_string(types[name].type)])
        file_rows = tuple(file.n_rows for file in files)
        return cls(
            tuple(types), file_rows, cut_parts(file_rows, part_rows), part_rows, tuple(keep), kind, files, types,
            tuple(stamps[file.path] for file in files),
        )  # fmt: skip

    def read_part(self, part: int) -> Any:
        """Rows of one part as a pandas frame."""
        first, end = int(self.bounds[part]), int(self.bounds[part + 1])
        starts = np.cumsum([0, *self.file_rows])
        number = int(np.searchsorted(starts, first, side="right")) - 1
        for other in (*self.files[:number], *self.files[number + 1 :]):
            other.close()  # parts may come in any order: one open file at a time
        table = self.files[number].read(first - int(starts[number]), end - first, self.types)
        return to_pandas(table, self.types)

    def sample(self, n: int, seed: int = 0) -> Any:
        """Rows chosen at random, in order; parts are read one at a time."""
        import pandas

        chosen = self.bounds[0] + _draw_rows(self.n_rows, n, seed)
        owner = np.searchsorted(self.bounds, chosen, side="right") - 1
        frames = [
            self.read_part(int(part)).iloc[chosen[owner == part] - self.bounds[part]] for part in np.unique(owner)
        ]
        self.close()
        return pandas.concat(frames, ignore_index=True)

    def describe(self) -> dict[str, Any]:
        """Names, sizes and hashes of the files."""
        return {
            "kind": self.kind,
            "columns": list(self.columns),
            "rows": [int(self.bounds[0]), int(self.bounds[-1])],
            "files": [
                {"name": f.path.name, "bytes": f.path.stat().st_size, "n_rows": f.n_rows, "sha256": hash_file(f.path)}
                for f in self.files
            ],
        }

    def close(self) -> None:
        """Close all files."""
        for file in self.files:
            file.close()

    def changed_files(self) -> list[str]:
        """Names of files whose size or time has changed since they were opened, or that are gone."""
        return [
            file.path.name
            for file, stamp in zip(self.files, self.stamps, strict=True)
            if not file.path.is_file() or stamp_file(file.path) != stamp
        ]


@dataclass(frozen=True, eq=False)
class MemorySource(RowSource):
    """Rows of an array, a pandas or a polars frame; they are sent to workers part by part."""

    data: Any
    travels = True

    @classmethod
    def open(
        cls, data: Any, part_rows: int | None, columns: Sequence[str] | None, keep: Sequence[str] = ()
    ) -> MemorySource:
        """Check rows and cut them into parts."""
        named = is_frame(data)
        if named:
            data = native_frame(data, "source")
        elif isinstance(data, (np.ndarray, list, tuple)):
            data = read_array(data, "source")
            if data.ndim != 2:
                raise InvalidArgumentError(
                    f"`source` must be two-dimensional, (rows, columns); got {data.ndim} dimension(s)."
                )
        else:
            raise InvalidArgumentError(
                f"`source` must be a path, a pandas or polars frame, or an array; got {type(data).__name__}."
            )
        n_rows, n_columns = data.shape
        if n_rows == 0 or n_columns == 0:
            raise InvalidArgumentError(f"`source` is empty (shape {data.shape}); it needs rows and columns.")
        names = tuple(str(c) for c in data.columns) if named else tuple(f"x{i}" for i in range(n_columns))
        if keep and not named:
            raise InvalidArgumentError("`keep` names columns, and `source` is an array, which has none. Pass a frame.")
        if named and columns is not None:
            row_names = read_row_names(data)
            if not keep and row_names is not None:
                keep = (_free_name(data.index.name or "index", names),)
                data, names = data.assign(**{keep[0]: row_names}), (*names, keep[0])
            _check_columns(names, columns)
            read_frame(take_columns(data, columns).head(0), "source")  # refuses types of columns that no model takes
            names = _check_columns(names, columns, keep)
            data = take_columns(data, names)
        elif named:
            read_frame(data.head(0), "source")
        part_rows = part_rows or DEFAULT_ROWS
        return cls(names, (n_rows,), cut_parts((n_rows,), part_rows), part_rows, tuple(keep), data)

    def read_part(self, part: int) -> Any:
        """Rows of one part, of the kind that came in."""
        return self._take(slice(int(self.bounds[part]), int(self.bounds[part + 1])))

    def sample(self, n: int, seed: int = 0) -> Any:
        """Rows chosen at random, in order."""
        return self._take(self.bounds[0] + _draw_rows(self.n_rows, n, seed))

    def describe(self) -> dict[str, Any]:
        """Names, number and a hash of the contents."""
        digest = hashlib.sha256(repr(self.columns).encode())
        first, end = int(self.bounds[0]), int(self.bounds[-1])
        for start in range(first, end, MOST_ROWS):  # not by parts: the hash must not depend on how rows are cut
            digest.update(_row_bytes(self._take(slice(start, min(start + MOST_ROWS, end)))))
        contents = digest.hexdigest()
        return {"kind": "memory", "columns": list(self.columns), "rows": [first, end], "sha256": contents}

    def changed_files(self) -> list[str]:
        """An empty list: there are no files."""
        return []

    def close(self) -> None:
        """Do nothing: there are no files."""

    def _take(self, which: Any) -> Any:
        return self.data.iloc[which] if hasattr(self.data, "iloc") else self.data[which]


def open_source(
    source: Any,
    part_rows: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    texts: Sequence[str] = (),
    numbers: Sequence[str] = (),
    keep: Sequence[str] = (),
) -> RowSource:
    """Open rows to be read in parts.

    Parameters
    ----------
    source : str, Path, frame or ndarray
        A CSV, Parquet or Arrow (IPC, Feather) file, a folder or glob of such files, or rows in memory.
    part_rows : int, optional
        Most rows of a part; a part never crosses files. By default 50, or one part for each of several files (up to
        10,000 rows).
    columns : sequence of str, optional
        Columns to read, in this order; all by default.
    texts : sequence of str
        Columns of a CSV file that hold text, even where it reads like numbers.
    numbers : sequence of str
        Columns of a CSV file in which text is an error.
    keep : sequence of str
        Columns to read beside `columns`; of a pandas frame, by default its index, unless that counts from 0.
    """
    if part_rows is not None:
        part_rows = check_whole("part_rows", part_rows, 1, "rows of a part")
    if not isinstance(source, (str, Path)):
        return MemorySource.open(source, part_rows, columns, keep)
    paths = [path.resolve() for path in find_files(str(source))]  # the current directory of workers may be another
    kinds = sorted({kind_of(path) for path in paths})
    if len(kinds) > 1:
        raise InvalidArgumentError(
            f"`source`: {str(source)!r} has files of several kinds ({', '.join(kinds)}). Give a glob that names one "
            "kind, such as '*.parquet'."
        )
    return FileSource.open(paths, kinds[0], part_rows, columns, texts, numbers, keep)


def cut_parts(file_rows: Sequence[int], part_rows: int, rows: tuple[int, int] | None = None) -> IntArray:
    """Bounds of parts of at most `part_rows` rows, each within one file; of all rows, or of those in `rows`."""
    starts = np.concatenate([[0], np.cumsum(file_rows)]).astype(np.int64)
    if rows is not None:
        starts = np.unique(np.clip(starts, *rows))
    inner = [np.arange(first, end, part_rows, dtype=np.int64) for first, end in pairwise(starts)]
    return np.concatenate([*inner, starts[-1:]])


def check_rows(rows: Any, n_rows: int) -> tuple[int, int]:
    """Check a range of rows: the first, and the one after the last."""
    is_pair = isinstance(rows, (tuple, list)) and len(rows) == 2
    if not is_pair or not all(is_whole(n) for n in rows):
        raise InvalidArgumentError(f"`rows` must be two whole numbers, (first, end); got {rows!r}.")
    if not 0 <= rows[0] < rows[1] <= n_rows:
        raise InvalidArgumentError(f"`rows` must lie within the {n_rows} rows there are; got {rows!r}.")
    return int(rows[0]), int(rows[1])


def _check_columns(names: Sequence[str], wanted: Sequence[str] | None, keep: Sequence[str] = ()) -> tuple[str, ...]:
    """The wanted columns, by default all, and then those to keep; an error where one is missing."""
    missing = [name for name in keep if name not in set(names)]
    if missing:
        raise InvalidArgumentError(f"`keep`: `source` has no column {missing[0]!r}; it has {list(names[:8])}.")
    if wanted is None:
        return tuple(names)
    missing = [name for name in wanted if name not in set(names)]
    if missing:
        raise InvalidArgumentError(
            f"`source` lacks the column(s) {missing[:8]}; it has {list(names[:8])}. Rename or add them."
        )
    return tuple(dict.fromkeys([*wanted, *keep]))


def take_columns(frame: Any, names: Sequence[str]) -> Any:
    """A frame with the columns of these names as text, in this order."""
    keys = {str(column): column for column in frame.columns}
    return frame[[keys[name] for name in names]]


def _free_name(name: Any, names: Sequence[str]) -> str:
    """A name for one more column."""
    return str(name) if str(name) not in names else f"{name} (index)"


def _refuse_text(files: Sequence[TableFile], names: Sequence[str]) -> None:
    """Name the first cell that is no number, in columns that must hold numbers: a single one makes text of a column."""
    for file, name in product(files, names):
        found = file.find_text(name) if isinstance(file, CsvFile) else None
        if found is not None:
            raise InvalidArgumentError(
                f"`source`: the column {name!r} must hold numbers, as in the background; row {found[0]} of "
                f"{file.path.name!r} (counted from 0, without the header) holds {show(found[1])}. Correct that cell, "
                "or leave it empty where the number is missing."
            )


def _draw_rows(n_rows: int, n: int, seed: int) -> IntArray:
    """Sorted row numbers drawn without replacement; all of them where `n` is no smaller than their number."""
    n = check_whole("n", n, 1, "rows to sample")
    if n >= n_rows:
        return np.arange(n_rows, dtype=np.int64)
    rng = stream(seed, Purpose.BACKGROUND, 2)
    return np.sort(rng.choice(n_rows, n, replace=False, shuffle=False)).astype(np.int64)


def _row_bytes(rows: Any) -> bytes:
    """Contents and types of rows, equal for equal rows."""
    if hasattr(rows, "iloc"):
        import pandas

        kinds = repr([str(kind) for kind in rows.dtypes]).encode()
        hashes: bytes = pandas.util.hash_pandas_object(rows, index=False).to_numpy().tobytes()
        return kinds + hashes
    if hasattr(rows, "columns"):
        return (repr([str(kind) for kind in rows.dtypes]) + repr(rows.rows())).encode()
    if rows.dtype.kind == "O":
        return repr(rows.tolist()).encode()
    contents: bytes = str(rows.dtype).encode() + np.ascontiguousarray(rows).tobytes()
    return contents
