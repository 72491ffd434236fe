"""Table files: those that a path names; Arrow and Parquet, read forward in batches; their columns, as pandas frames."""

from __future__ import annotations

import glob
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._files import DamagedFileError
from controlshap._imports import require

#: Rows of a Parquet file decoded at a time: never a whole row group.
BATCH_ROWS = 4096
#: Suffixes of files, and how these are read.
SUFFIXES = {
    ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip


@dataclass(frozen=True)
class FileColumn:
    """Type of a column, decided over all rows.

    Attributes
    ----------
    type : pyarrow.DataType
        Type of the values, or of the categories where there are any.
    has_nulls : bool
        Whether any value is missing; integers are then read as floats in every part.
    categories : tuple or None
        Levels of a dictionary column.
    ordered : bool
        Whether the categories are ordered.
    """

    type: Any
    has_nulls: bool
    categories: tuple[Any, ...] | None = None
    ordered: bool = False

    @classmethod
    def of(cls, array: Any) -> FileColumn:
        """Describe an Arrow array."""
        import pyarrow as pa

        if not pa.types.is_dictionary(array.type):
            return cls(array.type, bool(array.null_count))
        levels = tuple(level for level in array.dictionary.to_pylist() if level is not None)
        return cls(array.type.value_type, bool(array.null_count), levels, bool(array.type.ordered))

    def merge(self, other: FileColumn) -> FileColumn:
        """Describe a column whose values are in both; plain values beside categories make all of them plain."""
        categories = None
        if self.categories is not None and other.categories is not None:
            categories = tuple(dict.fromkeys([*self.categories, *other.categories]))
        kind = unify_types(self.type, other.type)
        return FileColumn(kind, self.has_nulls or other.has_nulls, categories, self.ordered and other.ordered)


class TableFile(ABC):
    """A file read forward in batches, so that parts in order cost one pass.

    Parameters
    ----------
    path : Path
    columns : dict of str to FileColumn
    chunk_rows : sequence of int
        Rows of each chunk that reading can start with.
    """

    #: What the file is, in messages.
    kind: ClassVar[str]

    def __init__(self, path: Path, columns: dict[str, FileColumn], chunk_rows: Sequence[int]) -> None:
        self.path, self.columns = path, columns
        self._starts = np.concatenate([[0], np.cumsum(chunk_rows)]).astype(np.int64)
        self._batches: Generator[Any] | None = None
        self._batch: Any = None
        self._first = 0  # row that `_batch` starts with

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._starts[-1])

    @abstractmethod
    def stream(self, chunk: int, columns: dict[str, FileColumn]) -> Generator[Any]:
        """Yield record batches with these columns, starting with a chunk; the file is open as long."""

    def read(self, start: int, n: int, columns: dict[str, FileColumn]) -> Any:
        """Read `n` rows from `start` on, as a pyarrow table with these columns and types."""
        import pyarrow as pa

        with translated_errors(self.path, self.kind):
            table = pa.Table.from_batches(self._read_pieces(start, n, columns))
        if start + n >= self.n_rows:
            self.close()
        return table

    def close(self) -> None:
        """Close the file, which the next reading opens again."""
        if self._batches is not None:
            self._batches.close()
        self._batches, self._batch, self._first = None, None, 0

    def _read_pieces(self, start: int, n: int, columns: dict[str, FileColumn]) -> list[Any]:
        chunk = self._chunk(start)
        if self._batches is None or start < self._first or chunk > self._chunk(self._first) + 1:
            self._batches = self.stream(chunk, columns)
            self._batch, self._first = None, int(self._starts[chunk])
        pieces = []
        while n:
            if self._batch is None or start >= self._first + self._batch.num_rows:
                self._first += 0 if self._batch is None else self._batch.num_rows
                self._batch = next(self._batches, None)
                if self._batch is None:
                    raise DamagedFileError("it has fewer rows than it says")
                continue
            piece = self._batch.slice(start - self._first, n)
            pieces.append(_convert(piece, columns))
            start, n = start + piece.num_rows, n - piece.num_rows
        return pieces

    def _chunk(self, row: int) -> int:
        return int(np.searchsorted(self._starts, row, side="right")) - 1

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_batches": None, "_batch": None, "_first": 0}


class ArrowFile(TableFile):
    """An Arrow IPC (Feather) file; reading can start with any record batch."""

    kind = "an Arrow IPC or Feather file"

    def __init__(self, path: Path) -> None:
        columns: dict[str, FileColumn] = {}
        chunk_rows = []
        with translated_errors(path, self.kind):
            file = _open_arrow(path)
            refuse_twice(path, self.kind, file.schema.names)
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                batch.validate(full=True)  # nothing in such a file is checked when it is mapped
                chunk_rows.append(batch.num_rows)
                _add_batch(columns, batch)
        super().__init__(path, columns, chunk_rows)

    def stream(self, chunk: int, columns: dict[str, FileColumn]) -> Generator[Any]:  # noqa: ARG002, all are mapped
        """Yield record batches, starting with a chunk."""
        file = _open_arrow(self.path)
        return (file.get_batch(number) for number in range(chunk, file.num_record_batches))


class ParquetFile(TableFile):
    """A Parquet file; reading can start with any row group."""

    kind = "Parquet"

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        with translated_errors(path, self.kind), _open_parquet(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            refuse_twice(path, self.kind, schema.names)
            groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
            # columns that pandas wrote for the index of a frame
            index = (schema.pandas_metadata or {}).get("index_columns", [])
            names = [name for name in schema.names if name not in index]
            kinds, nulls = {name: schema.field(name).type for name in names}, _null_counts(groups)
            columns = {name: FileColumn(kinds[name], bool(nulls.get(name))) for name in names}
            unknown = [name for name in names if name not in nulls or pa.types.is_dictionary(kinds[name])]
            described: dict[str, FileColumn] = {}
            for batch in file.iter_batches(batch_size=65536, columns=unknown, use_threads=False) if unknown else ():
                _add_batch(described, batch)
        columns |= described
        super().__init__(path, columns, [group.num_rows for group in groups])

    def stream(self, chunk: int, columns: dict[str, FileColumn]) -> Generator[Any]:
        """Yield record batches with these columns, starting with a chunk."""
        groups = list(range(chunk, len(self._starts) - 1))
        with _open_parquet(self.path) as file:
            yield from file.iter_batches(
                batch_size=BATCH_ROWS, row_groups=groups, columns=list(columns), use_threads=False
            )


def find_files(source: str) -> list[Path]:
    """The files of a path, folder or glob, in the order of their names."""
    path = Path(source)
    if path.is_file():
        return [path]
    if path.is_dir():
        # hidden files, and those that begin with an underscore, are left by other programs beside their parts
        files = [p for p in path.iterdir() if p.is_file() and p.suffix.lower() in SUFFIXES and p.name[0] not in "._"]
        what = "folder"
    elif any(c in source for c in "*?["):
        files = [Path(p) for p in glob.glob(source, recursive=True) if Path(p).is_file()]
        what = "pattern"
    else:
        raise InvalidArgumentError(f"`source`: there is no file or folder {source!r}. Check the path.")
    if not files:
        raise InvalidArgumentError(
            f"`source`: the {what} {source!r} holds no file that ends in {', '.join(SUFFIXES)}. Check the path."
        )
    return sorted(files)


def kind_of(path: Path) -> str:
    """How a file is read, by its suffix."""
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise InvalidArgumentError(
            f"`source`: {path.name!r} does not end in {', '.join(SUFFIXES)}. Convert it to one of these (and unpack "
            "compressed CSV files)."
        )
    return kind


def stamp_file(path: Path) -> tuple[int, int]:
    """Size and time of a file, to notice that it was written to."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def import_pyarrow(what: str) -> Any:
    """Import pyarrow, or raise an error that says how to install it."""
    require("pyarrow.compute", extra="parquet", feature=what)
    return require("pyarrow", extra="parquet", feature=what)


def unreadable(path: Path, kind: str, reason: object, way_out: str = "") -> InvalidArgumentError:
    """The error for a file whose contents do not fit its name."""
    text = str(reason).replace("\n", " ").rstrip(". ")
    return InvalidArgumentError(f"`source`: {path.name!r} cannot be read as {kind}: {text}.{way_out}")


@contextmanager
def translated_errors(path: Path, kind: str) -> Iterator[None]:
    """Say that a file cannot be read, whatever its reader raised: on damaged files that can be anything."""
    import pyarrow as pa

    try:
        yield
    except InvalidArgumentError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError, DamagedFileError) as error:
        raise unreadable(path, kind, error, " It is damaged, or of another kind.") from error


def refuse_twice(path: Path, kind: str, names: Sequence[str]) -> None:
    """Refuse columns of one name."""
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        reason = f"column names must be unique, but {twice[:8]} stand for several columns; rename them"
        raise unreadable(path, kind, reason)


def unify_columns(files: Sequence[TableFile]) -> dict[str, FileColumn]:
    """Columns in the order of the first file, with types that fit all files."""
    first = files[0]
    if not first.columns:
        raise InvalidArgumentError(f"`source`: {first.path.name!r} has no columns. Give a table with columns.")
    columns = dict(first.columns)
    for file in files[1:]:
        differing = sorted(set(file.columns) ^ set(columns))
        if differing:
            raise InvalidArgumentError(
                f"`source`: {file.path.name!r} and {first.path.name!r} must have the same columns; these differ: "
                f"{differing[:8]}."
            )
        columns = {name: column.merge(file.columns[name]) for name, column in columns.items()}
    return columns


def unify_types(left: Any, right: Any) -> Any:
    """The type that holds values of both: numbers stay numbers, anything else becomes text."""
    import pyarrow as pa

    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return pa.int64()
    is_number = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (left, right)]
    return pa.float64() if all(is_number) else pa.string()


def to_pandas(table: Any, columns: dict[str, FileColumn]) -> Any:
    """A frame whose types do not depend on which values this part happens to hold."""
    import pyarrow as pa

    pandas = require("pandas", extra="frames", feature="`source`: reading files")
    series = {}
    for name, column in columns.items():
        values = table.column(name)
        if column.categories is not None:
            kind = pandas.CategoricalDtype(list(column.categories), ordered=column.ordered)
            series[name] = pandas.Categorical(values.to_pylist(), dtype=kind)
        elif pa.types.is_boolean(column.type) and column.has_nulls:
            series[name] = pandas.Series(values.to_pylist(), dtype=object)
        else:
            with_gaps = pa.types.is_integer(column.type) and column.has_nulls
            as_float = with_gaps or pa.types.is_null(column.type)
            series[name] = (values.cast(pa.float64()) if as_float else values).to_pandas()
    return pandas.DataFrame(series, copy=False)


def _open_arrow(path: Path) -> Any:
    import pyarrow as pa

    return pa.ipc.open_file(pa.memory_map(str(path)))


def _open_parquet(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**20, page_checksum_verification=True)


def _add_batch(columns: dict[str, FileColumn], batch: Any) -> None:
    """Merge what the columns of a record batch hold into `columns`."""
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        column = FileColumn.of(array)
        columns[name] = columns[name].merge(column) if name in columns else column


def _null_counts(groups: Iterable[Any]) -> dict[str, int]:
    """Missing values of the columns for which all row groups of a Parquet file have statistics."""
    statistics: dict[str, list[Any]] = {}
    for group in groups:
        for chunk in map(group.column, range(group.num_columns)):
            statistics.setdefault(chunk.path_in_schema, []).append(chunk.statistics)
    return {
        name: sum(chunk.null_count for chunk in chunks)
        for name, chunks in statistics.items()
        if all(chunk is not None and chunk.has_null_count for chunk in chunks)
    }


def _convert(batch: Any, columns: dict[str, FileColumn]) -> Any:
    """The record batch with these columns in their types; categories as their values."""
    import pyarrow as pa

    arrays = []
    for name, column in columns.items():
        array = batch.column(batch.schema.get_field_index(name))
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        arrays.append(array if array.type == column.type else array.cast(column.type))
    return pa.record_batch(arrays, names=list(columns))
