"""Read rows, and their names, from arrays, lists and frames."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import is_whole
from controlshap._errors import ControlShapWarning, InvalidArgumentError
from controlshap._random import EXPLAINER_ENTROPY, Purpose, stream
from controlshap._types import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from controlshap.data.frames import FrameMaker


#: Doubles represent integers exactly up to this one.
LARGEST_WHOLE = 2**53

RowName = str | int
"""A row's name: text, or a whole number."""


@dataclass(frozen=True)
class Table:
    """Rows of the user's data.

    Attributes
    ----------
    names : tuple of str or None
        Column names; None if the data had none.
    rows : ndarray of shape (n, columns), or None
        The data as doubles, if it is an array of numbers.
    columns : tuple of ndarray
        One array for each column in its own type; empty for an array of doubles.
    maker : FrameMaker or None
        Turns columns back into a frame of the same types; None for arrays.
    """

    names: tuple[str, ...] | None
    rows: FloatArray | None = None
    columns: tuple[AnyArray, ...] = ()
    maker: FrameMaker | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.columns) if self.rows is None else self.rows.shape[1]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0]) if self.rows is None else len(self.rows)

    def take(self, chosen: IntArray) -> Table:
        """Return some of the rows."""
        rows = None if self.rows is None else self.rows[chosen]
        return Table(self.names, rows, tuple(column[chosen] for column in self.columns), self.maker)

    def column(self, number: int) -> AnyArray:
        """Return one column, shape (n,), as doubles if it holds numbers alone."""
        return self.columns[number] if self.rows is None else self.rows[:, number]

    def raw(self, number: int) -> AnyArray:
        """Return one column in its own type, which may be that of objects such as True and None."""
        return self.columns[number] if self.columns else self.column(number)

    def reorder(self, names: tuple[str, ...]) -> Table:
        """Return the same columns in another order."""
        position = [(self.names or ()).index(name) for name in names]
        maker = None if self.maker is None else self.maker.reorder(position)
        return Table(names, None, tuple(self.column(number) for number in position), maker)


def read_table(data: Any, argument: str, *, one_row: bool = False) -> Table:
    """Read and check data; with `one_row` also a single row `(columns,)`."""
    if data is None:
        raise InvalidArgumentError(f"`{argument}` is None; pass rows as an array or a frame.")
    if is_frame(data):
        from controlshap.data.frames import read_frame

        table = read_frame(data, argument)
        if not table.names:
            raise InvalidArgumentError(f"`{argument}` has no columns.")
        _check_size(table.n_rows, table.n_columns, argument)
        for name, array in zip(table.names, table.columns, strict=True):
            if array.dtype.kind == "f":
                _refuse_infinite(array[:, None], argument, name)
        return table
    if not hasattr(data, "__array__") and hasattr(data, "weights") and hasattr(data, "data"):
        raise InvalidArgumentError(
            f"`{argument}` is a summary with weights (shap.kmeans); Explainer takes rows: pass a sample of them, or "
            "use KernelExplainer, which respects the weights."
        )
    array = read_array(data, argument)
    if array.dtype.kind == "O":
        return _read_objects(_two_dimensional(array, argument, data, one_row=one_row), argument)
    refuse_beyond_doubles(array, argument)
    rows = _two_dimensional(np.array(array, dtype=float, order="C"), argument, data, one_row=one_row)
    _refuse_infinite(rows, argument)
    return Table(None, rows)


def is_frame(data: Any) -> bool:
    """Return whether this has named columns."""
    # the type is asked, because the columns of a lazy frame are found by running it
    has_columns = hasattr(type(data), "columns") or "columns" in getattr(data, "__dict__", ())
    return has_columns and not isinstance(data, np.ndarray)


def _read_objects(rows: AnyArray, argument: str) -> Table:
    """Read an array of objects; columns of numbers become doubles, but text stays text even if it looks like one."""
    columns = list(rows.T)
    if all(is_number(value, truth=True) for value in rows.ravel().tolist()):
        numbers = np.column_stack([as_numbers(values, f"x{c}", argument) for c, values in enumerate(columns)])
        return Table(None, np.ascontiguousarray(numbers), tuple(columns))
    for c, values in enumerate(columns):
        if all(is_number(value) for value in values.tolist()):
            columns[c] = as_numbers(values, f"x{c}", argument)
    return Table(None, None, tuple(columns))


def read_array(data: Any, argument: str) -> AnyArray:
    """Data as an array of numbers, or of objects if there are others, so that numbers beside names stay numbers.

    The one entrance for what has no columns of its own: masked entries become NaN, or None among objects; complex
    numbers, dates, time spans, records and raw bytes are refused, also where numpy would convert them.
    """
    if hasattr(data, "tocsr"):
        raise InvalidArgumentError(f"`{argument}` is a sparse matrix; pass rows as a dense array (`.toarray()`).")
    try:
        array = _to_array(data)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InvalidArgumentError(
            f"`{argument}` ({type(data).__name__}) could not be read as an array ({error}). Pass a numpy array or a "
            "frame."
        ) from error
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.dtype.kind not in "fiubO":
        raise InvalidArgumentError(
            f"`{argument}` must hold numbers or categories; got an array of {array.dtype}. Turn it into numbers (days "
            "since a date, say; real numbers), or pass a frame."
        )
    if not isinstance(data, np.ma.MaskedArray) or not np.ma.is_masked(data):
        return array
    refuse_beyond_doubles(array, argument)
    filled = array.astype(object if array.dtype.kind == "O" else float)
    filled[np.ma.getmaskarray(data)] = None if array.dtype.kind == "O" else np.nan
    return filled


def _to_array(data: Any) -> AnyArray:
    if not isinstance(data, (list, tuple)):
        return np.asarray(data)
    try:
        array = np.array(data)
    except ValueError:  # rows of several lengths, which are refused later
        array = np.array(data, dtype=object)
    return array if array.dtype.kind in "fiubMmcV" else np.array(data, dtype=object)


def _two_dimensional(rows: Any, argument: str, data: Any, *, one_row: bool) -> Any:
    if one_row and rows.ndim == 1:
        rows = rows[None]
    if rows.ndim != 2:
        raise InvalidArgumentError(
            f"`{argument}` must be two-dimensional, (rows, columns); got {rows.ndim} dimension(s) "
            f"({type(data).__name__}). {_way_to_rows(data)}"
        )
    _check_size(rows.shape[0], rows.shape[1], argument)
    return rows


def _way_to_rows(data: Any) -> str:
    """The way from a single row, or from what holds rows, to rows."""
    if isinstance(data, Mapping):
        return "Pass a row that is a dict as pandas.DataFrame([row])."
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], Mapping):
        return "Pass rows that are dicts as pandas.DataFrame(rows)."
    if hasattr(data, "to_frame") and hasattr(data, "index"):
        return "Pass a single row of a frame as frame.iloc[[0]], or series.to_frame().T."
    if hasattr(data, "data") and not isinstance(data, np.ndarray):
        return "Pass its rows: a masker of shap has them in `.data`."
    return "Reshape one row with row[None]."


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


def read_rows(X: Any, column_names: tuple[str, ...], *, named: bool) -> Table:
    """Read rows to explain, with columns in the order of the background; `named` if the background was a frame."""
    if hasattr(X, "to_frame") and hasattr(X, "index") and named:
        X = X.to_frame().T  # one row of a frame: its index names the columns
    table = read_table(X, "X", one_row=True)
    if named and table.names is not None and set(table.names) != set(column_names):
        missing = [name for name in column_names if name not in set(table.names)]
        extra = [name for name in table.names if name not in set(column_names)]
        parts = [
            f"`X` lacks {missing[:8]}" if missing else "",
            f"`background` does not have {extra[:8]}, which `X` has" if extra else "",
        ]
        differences = "; ".join(part for part in parts if part)
        raise InvalidArgumentError(
            f"`X` and `background` must have the same columns: {differences}. Pass X[background.columns]."
        )
    if table.n_columns != len(column_names):
        raise InvalidArgumentError(
            f"`X` has {table.n_columns} columns but `background` has {len(column_names)}; both need one value per "
            "model input."
        )
    if table.names is None or table.names == column_names or set(table.names) != set(column_names):
        return table
    return table.reorder(column_names)


def has_gaps(table: Table) -> bool:
    """Return whether a number is missing."""
    columns = map(table.column, range(table.n_columns))
    return any(array.dtype.kind == "f" and bool(np.isnan(array).any()) for array in columns)


def sample_table(table: Table, most: int) -> Table:
    """Return a fixed random sample of the rows of a large background."""
    chosen = np.sort(stream(EXPLAINER_ENTROPY, Purpose.BACKGROUND).permutation(table.n_rows)[:most])
    warnings.warn(
        f"`background` has {table.n_rows} rows; {most} of them (a fixed random sample) are used as the background, and "
        "base values carry that error. Set `max_background` to change it.",
        ControlShapWarning,
        stacklevel=4,
    )
    return table.take(chosen)


def read_row_names(X: Any) -> tuple[RowName, ...] | None:
    """Names of the rows of a pandas frame, or of one row of it; None where rows are numbered from 0, or have no names.

    Whole numbers and text are kept, other labels become text.
    """
    if hasattr(X, "to_frame") and hasattr(X, "index") and not hasattr(X, "columns"):  # one row of a frame
        return None if X.name is None else (as_row_name(X.name),)
    index = getattr(X, "index", None) if hasattr(X, "iloc") else None
    if index is None or (index.dtype.kind in "iu" and np.array_equal(index, np.arange(len(index)))):
        return None
    return tuple(map(as_row_name, index.tolist()))


def as_row_name(label: Any) -> RowName:
    """A label of an index as the name of a row."""
    if isinstance(label, tuple):
        return ", ".join(map(str, label))
    return label if isinstance(label, int) and not isinstance(label, bool) else str(label)


def is_missing(value: Any) -> bool:
    """None, NaN, NaT, and what pandas puts in their place."""
    if value is None:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


def is_number(value: Any, *, truth: bool = False) -> bool:
    """Whether this is a real number, or missing; True and False only with `truth`."""
    if isinstance(value, (bool, np.bool_)):
        return truth
    return is_missing(value) or is_whole(value) or isinstance(value, (float, np.floating))


def as_numbers(values: Any, name: str, argument: str) -> FloatArray:
    """Convert values to doubles, missing ones to NaN."""
    array = np.asarray(values)
    if array.dtype.kind in "fiub":
        refuse_beyond_doubles(array, argument, name)
        return array.astype(float)
    numbers = np.empty(len(array))
    for row, value in enumerate(array.tolist()):
        try:
            numbers[row] = np.nan if is_missing(value) else _as_double(value)
        except OverflowError:
            raise InvalidArgumentError(
                f"`{argument}`: the column {name!r} must hold finite numbers, whole ones up to 2**53; got "
                f"{_show(value)}. Replace it (NaN is allowed with independent features if the model accepts it)."
            ) from None
        except (TypeError, ValueError):
            raise InvalidArgumentError(
                f"`{argument}`: the column {name!r} holds numbers in the background, but {_show(value)} here. Convert "
                "the column."
            ) from None
    return numbers


def _as_double(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError("text is not a number, even if it looks like one")
    number = float(value)
    if np.isinf(number) or (isinstance(value, int) and abs(value) > LARGEST_WHOLE):
        raise OverflowError
    return number


def _show(value: Any) -> str:
    text = f"{type(value).__name__} {value!r}" if not isinstance(value, (str, int, float)) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def refuse_beyond_doubles(array: Any, argument: str, name: str | None = None) -> None:
    """Raise for integers that doubles would round."""
    if array.dtype.kind in "iu" and array.size and (array.max() > LARGEST_WHOLE or array.min() < -LARGEST_WHOLE):
        where = "" if name is None else f": the column {name!r}"
        raise InvalidArgumentError(
            f"`{argument}`{where} holds whole numbers beyond 2**53, which doubles cannot tell apart. Turn identifiers "
            "into text or categories, and quantities into floats."
        )
