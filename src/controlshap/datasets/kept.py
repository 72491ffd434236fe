"""Columns that are kept beside the values and that the model does not see: an identifier, the outcome, a date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlshap._checks import show
from controlshap._errors import InvalidArgumentError
from controlshap.data.table import is_missing


def kept_kinds(frame: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Types that columns of a frame are written with: "double", "bool", "int64", or "string" for dates and all else."""
    keys = _keys(frame)
    return tuple(_kind(frame[keys[name]].dtype) for name in names)


def read_kept(frame: Any, names: Sequence[str], kinds: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
    """The entries of each row in columns of these names and types; None where one is missing."""
    keys = _keys(frame)
    columns = [
        [_entry(value, kind) for value in frame[keys[name]].to_list()] for name, kind in zip(names, kinds, strict=True)
    ]
    return tuple(zip(*columns, strict=True))


def check_keep(keep: Any) -> tuple[str, ...]:
    """Names of columns to keep: one, or a list of them."""
    names = (keep,) if isinstance(keep, str) else tuple(keep or ()) if isinstance(keep, (list, tuple)) else None
    if keep is not None and (names is None or not all(isinstance(name, str) for name in names)):
        raise InvalidArgumentError(f"`keep` must be a column of `source`, or a list of columns; got {show(keep)}.")
    names = names or ()
    if len(set(names)) < len(names):
        raise InvalidArgumentError(f"`keep` must name each column once; got {list(names)}.")
    return names


def take_columns(frame: Any, names: Sequence[str]) -> Any:
    """A frame with the columns of these names, in this order."""
    keys = _keys(frame)
    return frame[[keys[name] for name in names]]


def _keys(frame: Any) -> dict[str, Any]:
    """Columns of a frame by their names as text."""
    return {str(column): column for column in frame.columns}


def _kind(dtype: Any) -> str:
    name = str(dtype).lower()
    if name.startswith("bool"):
        return "bool"
    if name.startswith(("int", "uint")) and not name.startswith("uint64"):
        return "int64"
    return "double" if name.startswith(("float", "double")) else "string"


def _entry(value: Any, kind: str) -> Any:
    if is_missing(value):
        return None
    return str(value) if kind == "string" else {"bool": bool, "int64": int, "double": float}[kind](value)
