"""Rows as users have them: arrays, lists, pandas or polars frames, numbers and categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import AnyArray, FloatArray
from controlshap.frames import FrameMaker, is_frame, read_frame


@dataclass(frozen=True)
class Table:
    """Data as it came.

    Attributes
    ----------
    names : tuple of str or None
        Column names, when the data had any.
    rows : ndarray of shape (n, columns), or None
        The data, where all of it is numbers in an array.
    columns : tuple of ndarray
        One array for each column, where it is not.
    maker : FrameMaker or None
        Turns columns back into a frame of the same kind; None for arrays.
    """

    names: tuple[str, ...] | None
    rows: FloatArray | None = None
    columns: tuple[AnyArray, ...] = ()
    maker: FrameMaker | None = None

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        return len(self.columns) if self.rows is None else self.rows.shape[1]

    def column(self, number: int) -> AnyArray:
        """One column, shape (n,)."""
        return self.columns[number] if self.rows is None else self.rows[:, number]

    def ordered(self, names: tuple[str, ...]) -> Table:
        """The same columns in another order."""
        position = [(self.names or ()).index(name) for name in names]
        return Table(names, None, tuple(self.column(number) for number in position), self.maker)


def read_table(data: Any, argument: str, *, one_row: bool = False) -> Table:
    """Convert and check; `one_row` also takes a single row `(columns,)`."""
    if data is None:
        raise InvalidArgumentError(f"`{argument}` is None; pass rows as an array or a frame.")
    if is_frame(data):
        found = read_frame(data, argument)
        if not found.names:
            raise InvalidArgumentError(f"`{argument}` has no columns.")
        _check_size(len(found.arrays[0]), len(found.names), argument)
        for number, array in enumerate(found.arrays):
            if array.dtype.kind == "f":
                _refuse_infinite(array[:, None], argument, found.names[number])
        return Table(found.names, None, found.arrays, found.maker)
    array = np.asarray(data) if not isinstance(data, (list, tuple)) else np.array(data, dtype=_wanted_type(data))
    if array.dtype.kind in "OUS":
        return _read_objects(array, argument, one_row=one_row)
    try:
        rows = np.array(array, dtype=float, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"`{argument}` must hold numbers or categories; it could not be read ({error}). Pass a frame."
        ) from error
    rows = _two_dimensional(rows, argument, one_row=one_row)
    _refuse_infinite(rows, argument)
    return Table(None, rows)


def _wanted_type(data: Any) -> Any:
    """Doubles where lists hold nothing but numbers; else objects, so that numbers beside names stay numbers."""
    try:
        np.array(data, dtype=float)
    except (TypeError, ValueError):
        return object
    return float


def _read_objects(array: AnyArray, argument: str, *, one_row: bool) -> Table:
    """An array of objects: columns whose entries are all numbers, and others."""
    rows = _two_dimensional(array.astype(object), argument, one_row=one_row)
    if not all(value is None or isinstance(value, (int, float, np.number)) for value in rows.ravel().tolist()):
        return Table(None, None, tuple(rows.T))  # text that reads like numbers is text
    numbers = rows.astype(float)
    _refuse_infinite(numbers, argument)
    return Table(None, np.ascontiguousarray(numbers))


def _two_dimensional(rows: Any, argument: str, *, one_row: bool) -> Any:
    if one_row and rows.ndim == 1:
        rows = rows[None]
    if rows.ndim != 2:
        raise InvalidArgumentError(
            f"`{argument}` must be two-dimensional, (rows, columns); got {rows.ndim} dimension(s). "
            "Reshape one row with row[None]."
        )
    _check_size(rows.shape[0], rows.shape[1], argument)
    return rows


def _check_size(n_rows: int, n_columns: int, argument: str) -> None:
    if n_rows == 0:
        raise InvalidArgumentError(f"`{argument}` is empty (shape {(n_rows, n_columns)}); it needs at least one row.")
    if n_columns == 0:
        raise InvalidArgumentError(f"`{argument}` has no columns (shape {(n_rows, n_columns)}).")


def _refuse_infinite(rows: FloatArray, argument: str, name: str | None = None) -> None:
    if np.isinf(rows).any():
        row, column = np.argwhere(np.isinf(rows))[0]
        raise InvalidArgumentError(
            f"`{argument}` must not hold infinite values; first at row {row}, column {column if name is None else name}"
            ". Replace or drop them (NaN is allowed with independent features if the model accepts it)."
        )
