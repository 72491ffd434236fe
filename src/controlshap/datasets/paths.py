"""The files that a path, a folder or a pattern names, and how they are read."""

from __future__ import annotations

import glob
from pathlib import Path

from controlshap._errors import InvalidArgumentError

#: Suffixes of files, and how these are read.
SUFFIXES = {
    ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip


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
