"""The identity of a run, kept in its folder: written before the first part, compared by every later run."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import ControlShapWarning, InvalidArgumentError
from controlshap._files import (
    DamagedFileError,
    hash_file,
    hash_json,
    is_unfinished,
    read_folder,
    read_sealed,
    replacing,
)
from controlshap._types import FloatArray, IntArray
from controlshap.controls.d_matrices import DMatrices
from controlshap.datasets.layout import PartLayout
from controlshap.datasets.sources import cut_parts
from controlshap.problem import Assembly
from controlshap.storage.explainers import save_assembly

KIND = "controlshap data set"
SCHEMA = 1
#: Entries of a saved explainer that do not distinguish runs.
_COMPUTED = ("d_permutations", "d_matrices", "kind", "schema", "arrays", "arrays_sha256")
#: Predictions may differ by this share of their spread: a model on a GPU need not give the same bits twice.
SAME = 1e-6


@contextmanager
def lock_folder(folder: Path, manifest: dict[str, Any] | None) -> Iterator[None]:
    """Make the folder and keep other runs out; refuse it if its manifest is no longer the given one.

    Two runs would overwrite each other's manifest and remove each other's unfinished parts. The system releases the
    lock when this process ends, even by a kill. Where the system or the disk has no such locks, a warning says so.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if not _lock(folder, stack):
            warnings.warn(
                f"`out`: {str(folder)!r} cannot be locked on this system or disk. Make sure that no other run "
                "writes to it at the same time.",
                ControlShapWarning,
                stacklevel=5,
            )
        if find_manifest(folder) != manifest:
            raise InvalidArgumentError(
                f"`out`: another process has begun a run in {str(folder)!r}. Run again to go on."
            )
        yield


def _lock(folder: Path, stack: ExitStack) -> bool:
    """Lock a folder until the stack is left; False where there are no locks (Windows, some network disks)."""
    try:
        import fcntl
    except ImportError:
        return False
    handle = os.open(folder, os.O_RDONLY)
    stack.callback(os.close, handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InvalidArgumentError(
            f"`out`: another process is at work in {str(folder)!r}. Wait for it, or use another folder."
        ) from error
    except OSError:
        return False
    return True


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest, or raise an error that says what is wrong with it."""
    path = folder / "manifest.json"
    if not path.is_file():
        raise InvalidArgumentError(f"`path`: {str(folder)!r} has no manifest.json. Give the folder of a run.")

    def check_kind(content: Any) -> None:
        known = isinstance(content, dict)
        if not known or content.get("kind") != KIND or content.get("schema") != SCHEMA:
            schema = content.get("schema") if known else None
            raise InvalidArgumentError(
                f"`path`: manifest.json in {str(folder)!r} is not one of a run that this version reads (schema "
                f"{SCHEMA}; it has {schema}). Use another folder, or the version that wrote it."
            )

    try:
        manifest = read_sealed(path, check_kind)
        _check_contents(manifest)
    except DamagedFileError as error:
        raise InvalidArgumentError(
            f"`path`: the manifest in {str(folder)!r} is damaged ({error}). Take it from a copy, or run again in "
            "another folder."
        ) from error
    if "unusable" in manifest:
        raise InvalidArgumentError(manifest["unusable"])
    return manifest


def _check_contents(manifest: dict[str, Any]) -> None:
    """Refuse contents that no run writes, whoever sealed them."""
    try:
        layout, columns = PartLayout.from_json(manifest["layout"]), manifest["player_columns"]
        bounds, used = part_bounds(manifest), {number for player in columns for number in player}
        layout.schema(manifest["hash"])
        fits = (
            len(bounds) == manifest["n_parts"] + 1
            and int(bounds[-1] - bounds[0]) == manifest["n_rows"]
            and len(columns) == len(layout.players)
            and used <= set(range(len(layout.columns)))
            and int(manifest["entropy"]) >= 0
            and all(isinstance(manifest[name], dict) for name in ("identity", "settings"))
        )
    except (ValueError, TypeError, LookupError, AttributeError, MemoryError, OverflowError) as error:
        raise DamagedFileError(f"{type(error).__name__}: {error}") from error
    if not fits:
        raise DamagedFileError("its parts, players and columns do not fit together")


def part_bounds(manifest: dict[str, Any]) -> IntArray:
    """First rows of all parts and, last, the row after the last, as the run cut them."""
    first, end = manifest["rows"]
    return cut_parts(manifest["file_rows"], manifest["part_rows"], (first, end))


def write_files(folder: Path, assembly: Assembly, predictions: FloatArray) -> dict[str, str]:
    """Write the state that later runs continue from; return digests of the contents meant, not of those on disk."""
    save_assembly(assembly, folder / "explainer")
    contents = io.BytesIO()
    np.save(contents, predictions)
    with replacing(folder / "predictions.npy") as temporary:
        temporary.write_bytes(contents.getvalue())
    header, _ = read_folder(folder / "explainer", "explainer")
    return {"predictions": hashlib.sha256(contents.getvalue()).hexdigest(), "explainer": hash_json(header)}


def read_files(folder: Path, manifest: dict[str, Any]) -> tuple[dict[str, Any], FloatArray]:
    """Results computed once for all rows, and predictions on the background; refused unless they are as written."""
    header, arrays = read_folder(folder / "explainer", "explainer")
    path = folder / "predictions.npy"
    for name, is_there, digest in (
        ("explainer", True, hash_json(header)),
        ("predictions", path.is_file(), hash_file(path) if path.is_file() else ""),
    ):
        if digest != manifest["files"][name]:
            raise InvalidArgumentError(
                f"`out`: {path.name if name == 'predictions' else name} in {str(folder)!r} is "
                f"{'damaged' if is_there else 'missing'}. Take it from a copy, or use another folder."
            )
    cache = {}
    if "d_matrices" in arrays:
        cache["d_matrices"] = DMatrices(arrays["d_matrices"], int(header["d_permutations"]))
    return cache, np.load(path, allow_pickle=False)


def find_manifest(folder: Path) -> dict[str, Any] | None:
    """Read the manifest of an earlier run, if there is one; refuse a folder that holds something else."""
    if (folder / "manifest.json").is_file():
        return read_manifest(folder)
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError(f"`out`: {str(folder)!r} is a file; give a folder.")
    # a run that was stopped before its manifest was written leaves these
    ours = ("explainer", "predictions.npy", "parts")
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    others = sorted(name for name in names if name not in ours and not is_unfinished(name))
    if others or any((folder / "parts").glob("part-*")):
        raise InvalidArgumentError(
            f"`out`: {str(folder)!r} is not empty and holds no run ({', '.join(others[:3]) or 'parts'}). Use another "
            "folder."
        )
    return None


def identify_explainer(assembly: Assembly) -> dict[str, Any]:
    """Background, settings, players and shared surrogate: small things as they are, others as hashes."""
    with tempfile.TemporaryDirectory(prefix="controlshap-") as temporary:
        header, arrays = read_folder(save_assembly(assembly, Path(temporary)), "explainer")
    settings = header.pop("settings")
    identity = {f"settings: {name}": _shorten(value) for name, value in settings.items()}
    identity |= {name: _shorten(value) for name, value in header.items() if name not in _COMPUTED}
    return identity | {f"array {name}": hash_exactly(array) for name, array in arrays.items() if name not in _COMPUTED}


def hash_exactly(array: Any) -> str:
    """SHA-256 of type, shape and contents."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def refuse_other_run(before: dict[str, Any], now: dict[str, Any], folder: Path) -> None:
    """Refuse to mix two runs in one folder, and list their differences."""
    differences = list(_differences(before, now, ""))
    if differences:
        more = f" and {len(differences) - 4} more" if len(differences) > 4 else ""
        raise InvalidArgumentError(
            f"`out`: {str(folder)!r} holds another run; these differ: {'; '.join(differences[:4])}{more}. Use another "
            "folder, or the same model, background, rows and settings (a surrogate that was fitted: "
            "Explainer.load(out / 'explainer', model))."
        )


def refuse_other_model(folder: Path, before: FloatArray, now: FloatArray) -> None:
    """Refuse a model whose predictions on the background are not those of the first run."""
    if before.shape == now.shape:
        gap = float(np.abs(before - now).max())
        if gap <= SAME * max(float(np.ptp(before)), 1e-12 * float(np.abs(before).max())):
            return
        difference = f"differ by up to {gap:.3g}"
    else:
        difference = f"have shape {now.shape}, not {before.shape}"
    raise InvalidArgumentError(
        f"`out`: {str(folder)!r} holds the run of another model: predictions on the background {difference}. Use "
        "another folder, or the same model."
    )


def _shorten(value: Any) -> Any:
    return value if len(json.dumps(value)) <= 200 else hash_json(value)


def _differences(before: Any, now: Any, where: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in dict.fromkeys([*before, *now]):
            yield from _differences(before.get(name), now.get(name), f"{where}, {name}" if where else name)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, pair in enumerate(zip(before, now, strict=True)):
            yield from _differences(*pair, f"{where} {number}")
    elif json.dumps(before) != json.dumps(now):
        yield f"{where} ({_quote(before)} there, {_quote(now)} here)"


def _quote(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 40 else text[:16] + "..."
