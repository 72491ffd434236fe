"""Files and folders that are either whole or absent, and whose damage is noticed.

A file is written under a temporary name and then renamed, so that a reader never meets half of one, and a symbolic link
of its name is replaced, never followed. A folder holds arrays (npz, without pickle) and a JSON header with a schema
number and the digest of the arrays. Such a header is sealed: it holds the digest of everything else in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError

#: Version of the folders that `write_folder` writes.
SCHEMA = 1
#: Key of the digest that a sealed JSON file holds of itself.
SEAL = "sha256"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; what was written there takes its place unless the block raises.

    Folders above `path` are made. The file and its new name are on the disk when the block is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        yield temporary
        _sync_file(temporary)
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what `replacing` left in a folder because its process was killed; nobody else may be at work there."""
    for path in folder.glob(".*"):
        if is_unfinished(path.name):
            path.unlink(missing_ok=True)


def is_unfinished(name: str) -> bool:
    """Whether a file has a temporary name that `replacing` gives."""
    return re.fullmatch(r"\..+\.\d+\.[0-9a-f]{8}", name) is not None


def _sync_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


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


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file that holds its own digest, which `read_sealed` compares."""
    write_json(path, content | {SEAL: hash_json(content)})


def read_sealed(path: Path, check: Callable[[Any], None] = lambda _: None) -> dict[str, Any]:
    """Read what `write_sealed` wrote; `DamagedFileError` where it is something else now.

    `check` refuses what another program or version wrote, before its digest is looked at.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise DamagedFileError(str(error)) from error
    check(content)
    if not isinstance(content, dict):
        raise DamagedFileError("it holds no JSON object")
    seal = content.pop(SEAL, None)
    if seal != hash_json(content):
        raise DamagedFileError("its contents do not match their digest")
    return content


class DamagedFileError(Exception):
    """A file is not what was written; turned into an error that names the argument where that is known."""


def hash_json(content: Any) -> str:
    """SHA-256 of a JSON value, whatever its layout as text."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def hash_file(path: Path) -> str:
    """SHA-256 of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_folder(folder: Path, kind: str, header: dict[str, Any], arrays: dict[str, Any]) -> Path:
    """Write `kind.npz`, then `kind.json`."""
    with replacing(folder / f"{kind}.npz") as temporary:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)
        digest = hash_file(temporary)
    about = {"kind": kind, "schema": SCHEMA, "arrays": sorted(arrays), "arrays_sha256": digest}
    write_sealed(folder / f"{kind}.json", about | header)
    return folder


def read_folder(folder: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays, or an error that says what is wrong with the folder."""
    header_file, array_file = folder / f"{kind}.json", folder / f"{kind}.npz"
    if not header_file.is_file() or not array_file.is_file():
        raise InvalidArgumentError(
            f"`path`: {str(folder)!r} holds no saved {kind} ({kind}.json and {kind}.npz). Give the folder that "
            "`save` wrote."
        )

    def check_schema(content: Any) -> None:
        schema = content.get("schema") if isinstance(content, dict) else None
        if schema != SCHEMA:
            raise InvalidArgumentError(
                f"`path`: the {kind} in {str(folder)!r} has schema {schema}; this version reads {SCHEMA}. "
                "Load it with the version that wrote it."
            )

    try:
        header = read_sealed(header_file, check_schema)
        arrays = _read_arrays(array_file, header)
    except DamagedFileError as error:
        raise InvalidArgumentError(
            f"`path`: the {kind} in {str(folder)!r} is damaged ({error}). Take it from a copy, or make it again."
        ) from error
    return header, arrays


def _read_arrays(path: Path, header: dict[str, Any]) -> dict[str, Any]:
    """The arrays that the header names; nothing is unpacked before the digest of the file is right."""
    try:
        if hash_file(path) != header["arrays_sha256"]:
            raise DamagedFileError(f"{path.name} does not match its digest")
        with np.load(path, allow_pickle=False) as file:
            if sorted(file.files) != header["arrays"]:
                raise DamagedFileError(f"{path.name} holds other arrays than its header says")
            return {name: file[name] for name in header["arrays"]}
    except (ValueError, OSError, zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError) as error:
        raise DamagedFileError(str(error)) from error
