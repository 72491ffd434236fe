"""Files and folders that are either whole or absent.

A file is written under a temporary name and then renamed, so that a reader never meets half of one. A folder holds
arrays (npz, without pickle) and a JSON header with a schema number.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError

#: Version of the folders that `write_folder` writes.
SCHEMA = 1


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; what was written there takes its place unless the block raises.

    Folders above `path` are made. The file and its new name are on the disk when the block is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an indented JSON file."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def hash_file(path: Path) -> str:
    """SHA-256 of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_folder(folder: Path, kind: str, header: dict[str, Any], arrays: dict[str, Any]) -> Path:
    """Write `kind.npz`, then `kind.json`."""
    with replacing(folder / f"{kind}.npz") as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    write_json(folder / f"{kind}.json", {"kind": kind, "schema": SCHEMA, **header})
    return folder


def read_folder(folder: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays, or an error that says what is wrong with the folder."""
    header_file, array_file = folder / f"{kind}.json", folder / f"{kind}.npz"
    if not header_file.is_file() or not array_file.is_file():
        raise InvalidArgumentError(
            f"`path`: {str(folder)!r} holds no saved {kind} ({kind}.json and {kind}.npz). Give the folder that "
            "`save` wrote."
        )
    try:
        header = json.loads(header_file.read_text(encoding="utf-8"))
        with np.load(array_file, allow_pickle=False) as file:
            arrays = dict(file)
    except (ValueError, OSError, zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError) as error:
        raise InvalidArgumentError(f"`path`: the {kind} in {str(folder)!r} is damaged ({error}).") from error
    schema = header.get("schema") if isinstance(header, dict) else None
    if schema != SCHEMA:
        raise InvalidArgumentError(
            f"`path`: the {kind} in {str(folder)!r} has schema {schema}; this version reads {SCHEMA}. "
            "Load it with the version that wrote it."
        )
    return header, arrays
