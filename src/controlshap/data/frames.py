"""Read frames of pandas and polars into arrays, and make frames of the same types from arrays.

The types of columns (integers, booleans, categories with their levels) are kept, so that the model gets what it was
fitted on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._imports import require
from controlshap.data.table import Table


@dataclass(frozen=True)
class Kind:
    """Type of a column of a frame.

    Attributes
    ----------
    values : {"number", "whole", "category"}
        Whether the column is encoded as numbers, as integers, or by its levels (names, or True and False).
    dtype : str
        The frame's own name of the type; for a categorical column of pandas with the type of its categories.
    levels : tuple or None
        All categories of a categorical column, in their order.
    ordered : bool
        Whether the categories are ordered.
    null : bool or None
        Whether a missing number is a null of polars rather than NaN; None if no number is missing.
    """

    values: Literal["number", "whole", "category"]
    dtype: str
    levels: tuple[Any, ...] | None = None
    ordered: bool = False
    null: bool | None = None

    @property
    def holds_objects(self) -> bool:
        """Whether this is a column of Python objects."""
        return self.dtype.lower() == "object"

    def admits(self, level: Any) -> bool:
        """Return whether a column of categories can hold this level."""
        if self.levels is not None:
            return level in self.levels
        name = self.dtype.lower()
        if name.startswith("bool"):
            return bool(level in (True, False))
        return self.holds_objects or isinstance(level, str)


@dataclass(frozen=True)
class FrameMaker:
    """Makes frames with given columns.

    Attributes
    ----------
    columns : tuple
        Names of the columns, which may be integers.
    """

    package: str
    columns: tuple[Any, ...]
    kinds: tuple[Kind, ...]

    @property
    def is_plain(self) -> bool:
        """Whether all columns are doubles."""
        return all(kind.values == "number" and kind.dtype in ("float64", "Float64") for kind in self.kinds)

    def reorder(self, position: list[int]) -> FrameMaker:
        """Return a maker of the same columns in another order."""
        columns, kinds = (tuple(part[number] for number in position) for part in (self.columns, self.kinds))
        return FrameMaker(self.package, columns, kinds)

    def from_rows(self, rows: Any) -> Any:
        """Make a frame of doubles from rows `(n, columns)`."""
        if self.package == "polars":
            import polars

            if np.isnan(rows).any():
                return self.from_columns(list(rows.T))  # null or NaN, column by column
            return polars.DataFrame(rows, schema=list(self.columns), orient="row")
        import pandas

        return pandas.DataFrame(rows, columns=list(self.columns), copy=False)

    def from_columns(self, columns: list[Any]) -> Any:
        """Make a frame from one array for each column."""
        make = _polars_column if self.package == "polars" else _pandas_column
        made = {name: make(column, kind) for name, column, kind in zip(self.columns, columns, self.kinds, strict=True)}
        if self.package == "polars":
            import polars

            return polars.DataFrame(made)
        import pandas

        return pandas.DataFrame(made, copy=False)


def _pandas_column(values: Any, kind: Kind) -> Any:
    import pandas

    if kind.levels is not None:
        levels = pandas.Index(list(kind.levels), dtype=kind.dtype.removeprefix("category[").removesuffix("]"))
        return pandas.Categorical(values, categories=levels, ordered=kind.ordered)
    if kind.values == "number" and kind.dtype == "float64":
        return values
    if kind.values == "whole":
        takes_gaps = kind.dtype[0].isupper() or kind.dtype.endswith("[pyarrow]")
        if not _fits(values, kind.dtype) or (values.dtype.kind == "f" and not takes_gaps):
            return values  # the type cannot hold fractions (of conditioned columns), gaps or numbers this large
        if values.dtype.kind == "f":
            values = pandas.array(values, dtype="Int64")
    if kind.dtype == "object" or (kind.dtype == "bool" and any(not isinstance(value, bool) for value in values)):
        return pandas.Series(values, dtype=object)  # an array of text would become text
    return pandas.array(values, dtype=_pandas_type(kind.dtype))


def _pandas_type(name: str) -> Any:
    """Return the type of this name; pandas itself takes "string[pyarrow]" for another type than pyarrow's own."""
    import pandas

    if name != "string[pyarrow]":
        return name
    import pyarrow

    return pandas.ArrowDtype(pyarrow.string())


def _fits(values: Any, dtype: str) -> bool:
    """Return whether a type ("Int8", "uint8", "int8[pyarrow]") can hold these numbers, but for missing ones."""
    known = values[~np.isnan(values)]
    limits = np.iinfo(dtype.lower().removesuffix("[pyarrow]"))
    whole = np.array_equal(known, np.rint(known))
    return whole and (len(known) == 0 or bool(known.min() >= limits.min and known.max() <= limits.max))


def _polars_column(values: Any, kind: Kind) -> Any:
    import polars

    if kind.values == "category":
        dtype = getattr(polars, kind.dtype) if kind.levels is None else polars.Enum(kind.levels)
        return polars.Series(values.tolist(), dtype=dtype)
    series = polars.Series(values, nan_to_null=kind.null is not False)
    fits = kind.values == "number" or _fits(values, kind.dtype)
    return series.cast(getattr(polars, kind.dtype)) if fits else series


def native_frame(frame: Any, argument: str) -> Any:
    """A frame of pandas or polars as it is, others as pandas; names of columns must be unique."""
    feature = f"`{argument}` is a frame, which"
    nw = require("narwhals", extra="frames", feature=feature, otherwise="or pass an array")
    return _wrap_frame(frame, argument, nw).to_native()


def read_frame(frame: Any, argument: str) -> Table:
    """Read a frame column by column."""
    feature = f"`{argument}` is a frame, which"
    nw = require("narwhals", extra="frames", feature=feature, otherwise="or pass an array")
    wrapped = _wrap_frame(frame, argument, nw)
    arrays, kinds, odd = [], [], []
    for name in wrapped.columns:
        series = wrapped.get_column(name)
        column = _read_column(series, nw)
        if column is None:
            odd.append(f"{name} ({series.to_native().dtype})")
            continue
        array, kind = column
        if array.dtype.kind == "f" and 0 < series.null_count() < np.isnan(array).sum():
            raise InvalidArgumentError(
                f"`{argument}`: the column {str(name)!r} holds both null and NaN. Use one of them: "
                "fill_nan(None), or fill_null(nan)."
            )
        arrays.append(array)
        kinds.append(kind)
    if odd:
        raise InvalidArgumentError(
            f"`{argument}`: the columns {odd[:8]} hold neither numbers nor categories. Turn them into numbers (days "
            "since a date, floats for decimals) or categories before the model, or leave them out."
        )
    maker = FrameMaker(wrapped.implementation.name.lower(), tuple(wrapped.columns), tuple(kinds))
    return Table(tuple(str(name) for name in wrapped.columns), None, tuple(arrays), maker)


def _wrap_frame(frame: Any, argument: str, nw: Any) -> Any:
    """Return a narwhals frame of pandas or polars; others are converted to pandas."""
    if not hasattr(type(frame), "collect"):
        _check_names(frame, argument)
    try:
        wrapped = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InvalidArgumentError(
            f"`{argument}` ({type(frame).__module__}.{type(frame).__name__}) is not an in-memory frame of pandas, "
            "polars or pyarrow. Collect it (`.collect()`, `.compute()`, `.to_pandas()`), or pass an array."
        ) from error
    if wrapped.implementation.name in ("PANDAS", "POLARS"):
        return wrapped
    feature = f"`{argument}` is a frame of {type(frame).__module__}, which"
    require("pandas", extra="frames", feature=feature, otherwise="or pass an array")
    return nw.from_native(wrapped.to_pandas(), eager_only=True)


def _check_names(frame: Any, argument: str) -> None:
    columns = getattr(frame, "column_names", frame.columns)  # `columns` of a pyarrow table are its arrays
    names = [str(name) for name in columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidArgumentError(
            f"`{argument}`: column names must be unique, but {repeated[:8]} stand for several columns. Rename them."
        )


def _read_column(series: Any, nw: Any) -> tuple[Any, Kind] | None:
    """Return the column as an array and its type, or None if it holds neither numbers nor categories."""
    dtype, native = series.dtype, series.to_native()
    own = _type_name(native)
    if dtype in (nw.Int128, nw.UInt128, nw.Decimal):
        return None  # doubles cannot represent them
    if dtype.is_integer():
        gaps = series.null_count() > 0
        array = np.asarray(series.cast(nw.Float64).to_numpy() if gaps else series.to_numpy())
        return array, Kind("whole", own, null=True if gaps else None)
    if dtype.is_numeric():
        array = series.cast(nw.Float64).to_numpy().astype(float)
        return array, Kind("number", own, null=bool(series.null_count() > 0) if np.isnan(array).any() else None)
    if dtype in (nw.Categorical, nw.Enum) or isinstance(dtype, (nw.Categorical, nw.Enum)):
        return None if "[pyarrow]" in own else (_objects(series), _categorical_kind(native, own))
    if dtype in (nw.String, nw.Boolean, nw.Object):
        return _objects(series), Kind("category", own)
    return None


def _type_name(native: Any) -> str:
    """Return a name of a column's type from which the type can be made again."""
    if not hasattr(native, "array"):
        return type(native.dtype).__name__
    if str(native.dtype) == "category":
        return f"category[{native.cat.categories.dtype}]"
    return "string[python]" if getattr(native.dtype, "storage", "") == "python" else str(native.dtype)


def _objects(series: Any) -> Any:
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    return values


def _categorical_kind(native: Any, own: str) -> Kind:
    """Return the type of a categorical column, with its levels in their order."""
    if hasattr(native, "array"):
        return Kind("category", own, tuple(native.cat.categories.tolist()), bool(native.cat.ordered))
    return Kind("category", own, tuple(native.dtype.categories) if own == "Enum" else None)
