"""Rows as users have them: arrays, lists, pandas or polars frames. Frames go through narwhals, imported only then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError, MissingExtraError
from controlshap._types import FloatArray


@dataclass(frozen=True)
class Table:
    """Rows as numbers, with what is needed to turn numbers back into the user's form.

    Attributes
    ----------
    rows : ndarray of shape (n, columns)
    names : tuple of str or None
        Column names, when the data had any.
    restore : callable or None
        Turns rows back into a frame of the same kind; None for plain arrays.
    """

    rows: FloatArray
    names: tuple[str, ...] | None
    restore: Callable[[FloatArray], Any] | None


def read_table(data: Any, argument: str, *, one_row: bool = False) -> Table:
    """Convert and check; `one_row` also takes a single row `(columns,)`."""
    if data is None:
        raise InvalidArgumentError(f"`{argument}` is None; pass rows as an array or a frame.")
    if hasattr(data, "columns") and not isinstance(data, np.ndarray):
        return _read_frame(data, argument)
    try:
        rows = np.array(data, dtype=float, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"`{argument}` must hold numbers; it could not be read as an array of floats ({error}). "
            "Encode categorical columns first."
        ) from error
    if one_row and rows.ndim == 1:
        rows = rows[None]
    return Table(_checked(rows, argument), None, None)


def _read_frame(frame: Any, argument: str) -> Table:
    try:
        import narwhals as nw
    except ImportError as error:
        raise MissingExtraError(
            f"`{argument}` is a frame, which needs narwhals: pip install 'controlshap[frames]', or pass an array."
        ) from error
    names = tuple(str(name) for name in frame.columns)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgumentError(
            f"`{argument}`: column names must be unique, but {twice[:8]} stand for several columns. Rename them."
        )
    native = nw.from_native(frame, eager_only=True)
    textual = [n for n, t in zip(names, native.schema.values(), strict=True) if not (t.is_numeric() or t == nw.Boolean)]
    if textual:
        raise InvalidArgumentError(
            f"`{argument}`: the columns {textual[:8]} are not numeric. Encode them first (one-hot columns can be "
            "named together in `groups`)."
        )
    rows = np.column_stack([native.get_column(name).to_numpy().astype(float) for name in native.columns])
    return Table(_checked(rows, argument), names, FrameMaker(native.implementation.name.lower(), tuple(native.columns)))


class FrameMaker:
    """Builds frames of one kind; a class, so that it can be sent to workers."""

    def __init__(self, kind: str, columns: tuple[Any, ...]) -> None:
        self.kind = kind
        self.columns = columns

    def __call__(self, rows: FloatArray) -> Any:
        """Rows as a frame."""
        if self.kind == "polars":
            import polars

            return polars.DataFrame(rows, schema=list(self.columns), orient="row")
        import pandas

        return pandas.DataFrame(rows, columns=list(self.columns), copy=False)


def _checked(rows: FloatArray, argument: str) -> FloatArray:
    if rows.ndim != 2:
        raise InvalidArgumentError(
            f"`{argument}` must be two-dimensional, (rows, columns); got {rows.ndim} dimension(s). "
            "Reshape one row with row[None]."
        )
    if rows.shape[0] == 0:
        raise InvalidArgumentError(f"`{argument}` is empty (shape {rows.shape}); it needs at least one row.")
    if rows.shape[1] == 0:
        raise InvalidArgumentError(f"`{argument}` has no columns (shape {rows.shape}).")
    if np.isinf(rows).any():
        row, column = np.argwhere(np.isinf(rows))[0]
        raise InvalidArgumentError(
            f"`{argument}` must not hold infinite values; first at row {row}, column {column}. "
            "Replace or drop them (NaN is allowed with independent features if the model accepts it)."
        )
    return rows
