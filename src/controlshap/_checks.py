"""Checks of arguments at the edge: what is wrong, by which rule, and the way out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray

#: The largest double, as an integer.
LARGEST = int(np.finfo(float).max)
#: Endings of files, which a folder's name does not have on purpose.
FILE_ENDINGS = {
    ".arrow", ".csv", ".feather", ".gz", ".htm", ".html", ".joblib", ".json", ".npy", ".npz", ".parquet", ".pdf",
    ".pickle", ".pkl", ".tsv", ".txt", ".xls", ".xlsx", ".zip",
}  # fmt: skip


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether this is an integer; truth values and time spans, which Python and numpy count among them, are not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def is_real(value: Any) -> bool:
    """Whether this is a real number that doubles can hold, be it infinite or NaN."""
    if is_whole(value):
        return abs(int(value)) <= LARGEST
    return isinstance(value, (float, np.floating))


def show(value: Any) -> str:
    """A short description of a value for messages; Python itself refuses to print integers of many digits."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001, a class of the user's own
        text = f"an object of {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:40]}... ({type(value).__name__})"


def check_level(level: Any) -> float:
    """A probability between 0 and 1."""
    if not is_real(level) or not 0 < level < 1:
        raise InvalidArgumentError(f"`level` must lie between 0 and 1; got {show(level)}. Use for example 0.95.")
    return float(level)


def check_range(output_range: Any) -> tuple[float, float]:
    """Two finite numbers, the smaller one first."""
    try:
        low, high = output_range
    except (TypeError, ValueError):
        low = high = None
    if not (is_real(low) and is_real(high) and -np.inf < float(low) < float(high) < np.inf):
        raise InvalidArgumentError(
            f"`output_range` must be two finite numbers, the smaller one first, that no output of the model leaves; "
            f"got {show(output_range)}. Use (0, 1) for probabilities."
        )
    return float(low), float(high)


def check_guarantee(guarantee: Any, output_range: Any) -> None:
    """Refuse guarantees other than "finite", one without a range, and a range without one."""
    if guarantee not in (None, "finite"):
        raise InvalidArgumentError(f"`guarantee` must be 'finite' or None; got {show(guarantee)}.")
    if guarantee is None and output_range is not None:
        raise InvalidArgumentError("`output_range` is for guarantee='finite'. Add that, or leave the range out.")
    if guarantee is not None and output_range is None:
        raise InvalidArgumentError(
            "`guarantee='finite'` needs `output_range=(low, high)`, which no output of the model leaves: (0, 1) for "
            "probabilities."
        )
    if output_range is not None:
        check_range(output_range)


def check_positive(name: str, value: Any, what: str, way_out: str) -> None:
    """Refuse what is not a positive number."""
    if value is not None and (not is_real(value) or not 0 < value < np.inf):
        raise InvalidArgumentError(f"`{name}` must be positive, {what}; got {show(value)}. {way_out}")


def check_flag(name: str, value: Any) -> bool:
    """True or False, and nothing that merely counts as one of them."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidArgumentError(f"`{name}` must be True or False; got {show(value)}.")
    return bool(value)


def check_seconds(seconds: float | None) -> float | None:
    """Seconds an evaluation takes, as told."""
    if seconds is None:
        return None
    if not is_real(seconds) or not 0 <= seconds < np.inf:
        raise InvalidArgumentError(
            f"`seconds_per_evaluation` must be a number of seconds, or None where it is not known; got {show(seconds)}."
        )
    return float(seconds)


def check_whole(name: str, value: Any, least: int, unit: str) -> int:
    """A whole number, which may be written as a float."""
    if not is_real(value) or not np.isfinite(float(value)) or value != int(value) or value < least:
        raise InvalidArgumentError(f"`{name}` must be a whole number of at least {least} ({unit}); got {show(value)}.")
    return int(value)


def refuse_missing(rows: FloatArray, argument: str, names: tuple[str, ...]) -> None:
    """Refuse NaN in numbers."""
    missing = np.flatnonzero(np.isnan(rows).any(axis=0))
    if len(missing):
        raise InvalidArgumentError(
            f"`{argument}` holds NaN in the columns {[names[c] for c in missing[:8]]}; correlated features are "
            "conditioned on each other and need finite values. Impute them, or use features='independent'."
        )


def as_path(path: Any, argument: str) -> Path:
    """The path that an argument names."""
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes) or "\0" in os.fspath(path):
        raise InvalidArgumentError(f"`{argument}` must be a path, a string or a pathlib.Path; got {show(path)}.")
    return Path(path)


def as_folder(path: Any, argument: str, way_out: str = "") -> Path:
    """The path of a folder to be made; names like "v1.2" may be one, names of known kinds of files are a mistake."""
    folder = as_path(path, argument)
    if folder.suffix.lower() in FILE_ENDINGS and not folder.is_dir():
        raise InvalidArgumentError(
            f"`{argument}` names a folder that `load` reads back, without the ending {folder.suffix} of a file; got "
            f"{folder.name!r}. Leave the ending out{way_out}."
        )
    return folder


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that refuses a name: a question about the nearest known one, or a full stop."""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else "."
