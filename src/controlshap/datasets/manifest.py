"""What a folder of results is of: written before the first part, compared by every later run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._files import read_folder
from controlshap._types import FloatArray
from controlshap.controls.d_matrices import DMatrices

KIND = "controlshap data set"
SCHEMA = 1
#: Of a saved explainer: what was measured or computed once and decides nothing about which run this is.
_MEASURED = ("seconds", "d_permutations", "d_matrices", "kind", "schema")
#: Predictions may differ by this share of their spread: a model on a GPU need not give the same bits twice.
SAME = 1e-6


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, or an error that says what is wrong with it."""
    try:
        told = json.loads((folder / "manifest.json").read_text())
    except FileNotFoundError as error:
        raise InvalidArgumentError(
            f"`path`: {str(folder)!r} has no manifest.json. Give the folder of a run."
        ) from error
    except (ValueError, OSError) as error:
        raise InvalidArgumentError(f"`path`: the manifest in {str(folder)!r} is damaged ({error}).") from error
    if not isinstance(told, dict) or told.get("kind") != KIND or told.get("schema") != SCHEMA:
        schema = told.get("schema") if isinstance(told, dict) else None
        raise InvalidArgumentError(
            f"`path`: manifest.json in {str(folder)!r} is not one of a run that this version reads (schema {SCHEMA}; "
            f"it has {schema}). Use another folder, or the version that wrote it."
        )
    return told


def identity_of_explainer(folder: Path) -> dict[str, Any]:
    """Background, settings, players and shared surrogate of a saved explainer: small things as they are, or hashes."""
    header, arrays = read_folder(folder, "explainer")
    settings = header.pop("settings")
    found = {f"settings: {name}": _short(value) for name, value in settings.items()}
    found |= {name: _short(value) for name, value in header.items() if name not in _MEASURED}
    found |= {f"array {name}": hash_array(array) for name, array in arrays.items() if name not in _MEASURED}
    return found


def hash_array(array: Any) -> str:
    """SHA-256 of type, shape and contents."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def run_hash(identity: dict[str, Any]) -> str:
    """One hash of all that a run depends on."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def refuse_other_run(before: dict[str, Any], now: dict[str, Any], folder: Path) -> None:
    """Refuse to mix two runs in one folder, and say in what they differ."""
    differ = list(_differences(before, now, ""))
    if differ:
        more = f" and {len(differ) - 4} more" if len(differ) > 4 else ""
        raise InvalidArgumentError(
            f"`out`: {str(folder)!r} holds another run; these differ: {'; '.join(differ[:4])}{more}. Use another "
            "folder, or the same model, background, rows and settings (a surrogate that was fitted: "
            "Explainer.load(out / 'explainer', model))."
        )


def refuse_other_model(before: FloatArray, now: FloatArray, folder: Path) -> None:
    """Refuse a model that says something else about the background."""
    if before.shape == now.shape:
        gap = float(np.abs(before - now).max())
        if gap <= SAME * max(float(np.ptp(before)), 1e-12 * float(np.abs(before).max())):
            return
        told = f"differ by up to {gap:.3g}"
    else:
        told = f"have shape {now.shape}, not {before.shape}"
    raise InvalidArgumentError(
        f"`out`: {str(folder)!r} holds the run of another model: predictions on the background {told}. Use another "
        "folder, or the same model."
    )


def read_predictions(folder: Path) -> FloatArray:
    """What the model of the first run said about the background."""
    try:
        predictions: FloatArray = np.load(folder / "predictions.npy", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InvalidArgumentError(
            f"`out`: predictions.npy in {str(folder)!r} is missing or damaged ({error}). Use another folder."
        ) from error
    return predictions


def measured(folder: Path) -> dict[str, Any]:
    """What was computed once for all rows, from a saved explainer."""
    header, arrays = read_folder(folder, "explainer")
    if "d_matrices" not in arrays:
        return {}
    return {"d_matrices": DMatrices(arrays["d_matrices"], int(header["d_permutations"]))}


def _short(value: Any) -> Any:
    text = json.dumps(value, sort_keys=True)
    return value if len(text) <= 200 else hashlib.sha256(text.encode()).hexdigest()


def _differences(before: Any, now: Any, where: str) -> Any:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in dict.fromkeys([*before, *now]):
            yield from _differences(before.get(name), now.get(name), f"{where}, {name}" if where else name)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, pair in enumerate(zip(before, now, strict=True)):
            yield from _differences(*pair, f"{where} {number}")
    elif json.dumps(before) != json.dumps(now):
        yield f"{where} ({_brief(before)} there, {_brief(now)} here)"


def _brief(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 40 else text[:16] + "..."
