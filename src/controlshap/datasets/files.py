"""Rows in files: one set of column types over all of them, and parts read without the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._optional import require
from controlshap.datasets.parts import DEFAULT_ROWS, MOST_ROWS, IntegerArray, check_columns, chosen_rows, cut


@dataclass(frozen=True)
class Column:
    """What is known of a column after all rows were seen.

    Attributes
    ----------
    type : pyarrow.DataType
        Of the values; of the categories where there are any.
    has_nulls : bool
        Whether a value is missing anywhere: integers are then floats in every part.
    categories : tuple or None
        Levels of a dictionary column, over all rows.
    ordered : bool
    """

    type: Any
    has_nulls: bool
    categories: tuple[Any, ...] | None = None
    ordered: bool = False


class TableFile(Protocol):
    """One file that can be read from any row on."""

    path: Path
    columns: dict[str, Column]
    n_rows: int

    def read(self, start: int, n: int, columns: dict[str, Column]) -> Any:
        """Rows from `start` on, as a pyarrow table with these columns, in the types given."""

    def sha256(self) -> str:
        """Hash of the contents."""


def import_pyarrow(what: str) -> Any:
    """The package pyarrow, or an error that says how to get it."""
    require("pyarrow.compute", extra="parquet", feature=what)
    return require("pyarrow", extra="parquet", feature=what)


@dataclass(frozen=True, eq=False)
class FileSource:
    """Rows of one or several files, in the order of the files."""

    kind: str
    files: tuple[TableFile, ...]
    types: dict[str, Column]
    bounds: IntegerArray
    part_rows: int
    stamps: tuple[tuple[int, int], ...]
    travels = False

    @classmethod
    def open(
        cls,
        paths: Sequence[Path],
        kind: str,
        part_rows: int | None,
        wanted: Sequence[str] | None,
        texts: Sequence[str] = (),
    ) -> FileSource:
        """Look at all files once."""
        pa = import_pyarrow("`source`: reading files")
        step = part_rows or (DEFAULT_ROWS if len(paths) == 1 else MOST_ROWS)
        stamps = {path: _stamp(path) for path in paths}  # before anything is read
        files = [_open_file(path, kind, step) for path in paths]
        filled = tuple(file for file in files if file.n_rows)
        if not filled:
            raise InvalidArgumentError(f"`source`: {paths[0].name!r} holds no rows. Give a file with rows to explain.")
        types = _unified(pa, filled)
        types = {name: types[name] for name in check_columns(tuple(types), wanted)}
        if kind == "csv":  # whose columns have no types of their own: "02" may be a name
            types |= {n: replace(types[n], type=pa.string()) for n in texts if n in types}
        bounds = cut([file.n_rows for file in filled], step)
        return cls(kind, filled, types, bounds, step, tuple(stamps[file.path] for file in filled))

    def recut(self, part_rows: int) -> FileSource:
        """The same rows in parts of another size."""
        rows = int(self.bounds[0]), int(self.bounds[-1])
        return replace(self, bounds=cut([file.n_rows for file in self.files], part_rows, rows), part_rows=part_rows)

    def between(self, first: int, end: int) -> FileSource:
        """Some of the rows, with the numbers that they have here."""
        return replace(self, bounds=cut([file.n_rows for file in self.files], self.part_rows, (first, end)))

    @property
    def n_files(self) -> int:
        """Files with rows."""
        return len(self.files)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, as in the first file."""
        return tuple(self.types)

    @property
    def n_rows(self) -> int:
        """Rows there are."""
        return int(self.bounds[-1] - self.bounds[0])

    @property
    def n_parts(self) -> int:
        """Parts there are."""
        return len(self.bounds) - 1

    def read_part(self, part: int) -> Any:
        """Rows of one part as a pandas frame."""
        first, last = int(self.bounds[part]), int(self.bounds[part + 1])
        before = 0
        for file in self.files:
            if first < before + file.n_rows:
                return _to_pandas(file.read(first - before, last - first, self.types), self.types)
            before += file.n_rows
        raise IndexError(part)

    def sample(self, n: int, seed: int = 0) -> Any:
        """Rows chosen at random, in order; only the parts that hold them are kept, one at a time."""
        import pandas

        chosen = self.bounds[0] + chosen_rows(self.n_rows, n, seed)
        owner = np.searchsorted(self.bounds, chosen, side="right") - 1
        found = [self.read_part(int(part)).iloc[chosen[owner == part] - self.bounds[part]] for part in np.unique(owner)]
        return pandas.concat(found, ignore_index=True)

    def describe(self) -> dict[str, Any]:
        """Names, sizes and hashes of the files."""
        return {
            "kind": self.kind,
            "columns": list(self.columns),
            "rows": [int(self.bounds[0]), int(self.bounds[-1])],
            "files": [
                {"name": f.path.name, "bytes": f.path.stat().st_size, "n_rows": f.n_rows, "sha256": f.sha256()}
                for f in self.files
            ],
        }

    def changed(self) -> list[str]:
        """Names of files whose size or time is not what it was when they were opened, or that are gone."""
        return [
            file.path.name
            for file, stamp in zip(self.files, self.stamps, strict=True)
            if not file.path.is_file() or _stamp(file.path) != stamp
        ]


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _open_file(path: Path, kind: str, step: int) -> TableFile:
    from controlshap.datasets.arrow_file import ArrowFile
    from controlshap.datasets.csv_files import CsvFile
    from controlshap.datasets.parquet_file import ParquetFile

    if path.stat().st_size == 0:
        raise InvalidArgumentError(f"`source`: {path.name!r} is empty (0 bytes). Write it again, or leave it out.")
    if kind == "csv":
        return CsvFile(path, step)
    return ParquetFile(path) if kind == "parquet" else ArrowFile(path)


def _unified(pa: Any, files: Sequence[TableFile]) -> dict[str, Column]:
    """Columns as in the first file, with types that fit all files."""
    first = files[0]
    if not first.columns:
        raise InvalidArgumentError(f"`source`: {first.path.name!r} has no columns. Give a table with columns.")
    for file in files[1:]:
        odd = sorted(set(file.columns) ^ set(first.columns))
        if odd:
            raise InvalidArgumentError(
                f"`source`: {file.path.name!r} and {first.path.name!r} must have the same columns; these differ: "
                f"{odd[:8]}."
            )
    return {name: _merged(pa, [file.columns[name] for file in files]) for name in first.columns}


def _merged(pa: Any, found: Sequence[Column]) -> Column:
    merged = found[0]
    for other in found[1:]:
        categories = None  # also where one file has plain values, which may be none of the categories
        if merged.categories is not None and other.categories is not None:
            categories = tuple(dict.fromkeys([*merged.categories, *other.categories]))
        kind = unify_types(pa, merged.type, other.type)
        merged = Column(kind, merged.has_nulls or other.has_nulls, categories, merged.ordered and other.ordered)
    return merged


def unify_types(pa: Any, one: Any, other: Any) -> Any:
    """The type that holds values of both: numbers stay numbers, anything else becomes text."""
    kinds = pa.types
    if one == other or kinds.is_null(other):
        return one
    if kinds.is_null(one):
        return other
    numbers = [kinds.is_integer(t) or kinds.is_floating(t) for t in (one, other)]
    if all(numbers):
        both_integers = kinds.is_integer(one) and kinds.is_integer(other)
        return pa.int64() if both_integers else pa.float64()
    return pa.string()


def _to_pandas(table: Any, types: dict[str, Column]) -> Any:
    """A frame whose types do not depend on which values this part happens to hold."""
    pandas = require("pandas", extra="frames", feature="`source`: reading files")
    pa = import_pyarrow("`source`: reading files")
    arrays = {}
    for name, column in types.items():
        values = table.column(name)
        if column.categories is not None:
            kind = pandas.CategoricalDtype(list(column.categories), ordered=column.ordered)
            arrays[name] = pandas.Categorical(values.to_pylist(), dtype=kind)
        elif pa.types.is_boolean(column.type) and column.has_nulls:
            arrays[name] = pandas.Series(values.to_pylist(), dtype=object)
        else:
            numeric = pa.types.is_integer(column.type) and column.has_nulls
            missing = numeric or pa.types.is_null(column.type)
            arrays[name] = (values.cast(pa.float64()) if missing else values).to_pandas()
    return pandas.DataFrame(arrays, copy=False)
