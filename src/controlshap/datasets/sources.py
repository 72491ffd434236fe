"""Where rows come from: files too large for memory, or what is in memory, cut into numbered parts."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from controlshap._checks import at_least
from controlshap._errors import InvalidArgumentError
from controlshap.datasets.files import FileSource
from controlshap.datasets.memory_source import MemorySource
from controlshap.datasets.parts import IntegerArray

#: What a file may be called, and how it is read.
SUFFIXES = {
    ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip


class Source(Protocol):
    """Rows in numbered parts."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def n_rows(self) -> int:
        """Rows there are."""

    @property
    def n_parts(self) -> int:
        """Parts there are."""

    @property
    def n_files(self) -> int:
        """Files there are; 1 for rows in memory."""

    @property
    def part_rows(self) -> int:
        """Most rows of a part."""

    @property
    def bounds(self) -> IntegerArray:
        """Part `i` has the rows from `bounds[i]` up to `bounds[i + 1]`."""

    @property
    def travels(self) -> bool:
        """Whether rows have to be sent to workers; files are read by each worker itself."""

    def read_part(self, part: int) -> Any:
        """Rows of one part: a frame with the same types in every part, or an array."""

    def recut(self, part_rows: int) -> Source:
        """The same rows in parts of another size."""

    def between(self, first: int, end: int) -> Source:
        """Some of the rows, with the numbers that they have here."""

    def sample(self, n: int, seed: int = 0) -> Any:
        """Rows chosen at random without replacement, in the order of the source; all where there are no more."""

    def describe(self) -> dict[str, Any]:
        """What the rows are, for a manifest: names, sizes and hashes of contents."""

    def changed(self) -> list[str]:
        """Names of files that were written to since they were opened."""


def open_source(
    source: Any,
    part_rows: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    texts: Sequence[str] = (),
) -> Source:
    """Open rows to be read in parts.

    Parameters
    ----------
    source : str, Path, frame or ndarray
        A CSV, Parquet or Arrow (IPC, Feather) file, a folder or glob of such files, or rows in memory.
    part_rows : int, optional
        Most rows of a part; a part never crosses files. By default 50, or one part for each of several files (up to
        10,000 rows).
    columns : sequence of str, optional
        Those to read, in this order; all by default.
    texts : sequence of str
        Columns of a CSV file that hold text, even where it reads like numbers.
    """
    if part_rows is not None:
        part_rows = at_least("part_rows", part_rows, 1, "rows of a part")
    if not isinstance(source, (str, Path)):
        return MemorySource.open(source, part_rows, columns)
    paths = [path.resolve() for path in _paths(str(source))]  # workers may stand elsewhere
    kinds = sorted({_kind(path) for path in paths})
    if len(kinds) > 1:
        raise InvalidArgumentError(
            f"`source`: {str(source)!r} has files of several kinds ({', '.join(kinds)}). Give a glob that names one "
            "kind, such as '*.parquet'."
        )
    return FileSource.open(paths, kinds[0], part_rows, columns, texts)


def _paths(source: str) -> list[Path]:
    """The files that are meant, in the order of their names."""
    path = Path(source)
    if path.is_file():
        return [path]
    if path.is_dir():
        # files that other programs leave beside their parts are hidden, or begin with an underscore
        found = sorted(
            p for p in path.iterdir() if p.is_file() and p.suffix.lower() in SUFFIXES and p.name[0] not in "._"
        )
        what = "The folder"
    elif any(c in source for c in "*?["):
        found = sorted(Path(p) for p in glob.glob(source, recursive=True) if Path(p).is_file())
        what = "The pattern"
    else:
        raise InvalidArgumentError(f"`source`: there is no file or folder {source!r}. Check the path.")
    if not found:
        raise InvalidArgumentError(
            f"`source`: {what.lower()} {source!r} holds no file that ends in {', '.join(SUFFIXES)}. Check the path."
        )
    return found


def _kind(path: Path) -> str:
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise InvalidArgumentError(
            f"`source`: {path.name!r} does not end in {', '.join(SUFFIXES)}. Convert it to one of these (and unpack "
            "compressed CSV files)."
        )
    return kind
