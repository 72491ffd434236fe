"""Frames of pandas and polars: their columns as arrays, and frames like the user's from such arrays.

Frames are read through narwhals, imported only then. What a column was (whole, yes and no, a category with its levels)
is kept, so that the model gets what it was fitted on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from controlshap._errors import InvalidArgumentError, MissingExtraError


@dataclass(frozen=True)
class Kind:
    """What a column of a frame was.

    Attributes
    ----------
    values : {"number", "whole", "category"}
        How it is encoded: as a number, a whole one, or by its levels (names, and True and False).
    dtype : str
        The frame's own word for it.
    levels : tuple or None
        All categories of a categorical column, in their order.
    ordered : bool
    null : bool
        Whether a missing number is a null of polars rather than NaN.
    """

    values: Literal["number", "whole", "category"]
    dtype: str
    levels: tuple[Any, ...] | None = None
    ordered: bool = False
    null: bool = False


@dataclass(frozen=True)
class FrameMaker:
    """Builds frames of one kind.

    Attributes
    ----------
    library : {"pandas", "polars"}
    columns : tuple
        As the frame had them, integers too.
    kinds : tuple of Kind
    """

    library: str
    columns: tuple[Any, ...]
    kinds: tuple[Kind, ...]

    @property
    def is_plain(self) -> bool:
        """Whether all columns are doubles."""
        return all(kind.values == "number" and kind.dtype in ("float64", "Float64") for kind in self.kinds)

    def from_rows(self, rows: Any) -> Any:
        """A frame of doubles from rows `(n, columns)`."""
        if self.library == "polars":
            import polars

            return polars.DataFrame(rows, schema=list(self.columns), orient="row")
        import pandas

        return pandas.DataFrame(rows, columns=list(self.columns), copy=False)

    def from_columns(self, columns: list[Any]) -> Any:
        """A frame from one array for each column."""
        make = _polars_column if self.library == "polars" else _pandas_column
        made = {name: make(column, kind) for name, column, kind in zip(self.columns, columns, self.kinds, strict=True)}
        if self.library == "polars":
            import polars

            return polars.DataFrame(made)
        import pandas

        return pandas.DataFrame(made, copy=False)


def _pandas_column(values: Any, kind: Kind) -> Any:
    import pandas

    if kind.levels is not None:
        return pandas.Categorical(values, categories=list(kind.levels), ordered=kind.ordered)
    if kind.values == "number" and kind.dtype == "float64":
        return values
    if kind.values == "whole" and values.dtype.kind == "f" and not (kind.dtype[0].isupper() and _is_whole(values)):
        return values  # conditioned or missing: no whole numbers, and no such type in the frame for them
    if kind.dtype == "object" or (kind.dtype == "bool" and any(not isinstance(value, bool) for value in values)):
        return pandas.Series(values, dtype=object)  # an array of text would become text
    return pandas.array(values, dtype=kind.dtype)


def _is_whole(values: Any) -> bool:
    return bool(np.array_equal(values, np.rint(values), equal_nan=True))


def _polars_column(values: Any, kind: Kind) -> Any:
    import polars

    if kind.values == "category":
        dtype = getattr(polars, kind.dtype) if kind.levels is None else polars.Enum(kind.levels)
        return polars.Series(values.tolist(), dtype=dtype)
    series = polars.Series(values, nan_to_null=kind.null)
    fits = kind.values == "number" or _is_whole(values)
    return series.cast(getattr(polars, kind.dtype)) if fits else series


@dataclass(frozen=True)
class FrameColumns:
    """A frame taken apart: names, one array for each column, and how to put such columns together again."""

    names: tuple[str, ...]
    arrays: tuple[Any, ...]
    maker: FrameMaker


def is_frame(data: Any) -> bool:
    """Whether this has named columns."""
    return hasattr(data, "columns") and not isinstance(data, np.ndarray)


def read_frame(frame: Any, argument: str) -> FrameColumns:
    """Take a frame apart."""
    try:
        import narwhals as nw
    except ImportError as error:
        raise MissingExtraError(
            f"`{argument}` is a frame, which needs narwhals: pip install 'controlshap[frames]', or pass an array."
        ) from error
    _check_names(frame, argument)
    wrapped = nw.from_native(frame, eager_only=True)
    if wrapped.implementation.name not in ("PANDAS", "POLARS"):
        wrapped = nw.from_native(wrapped.to_pandas(), eager_only=True)
    columns = tuple(wrapped.columns)
    names = tuple(str(name) for name in columns)
    arrays, kinds, odd = [], [], []
    for name in columns:
        series = wrapped.get_column(name)
        found = _read_column(series, nw)
        if found is None:
            odd.append(f"{name} ({series.dtype})")
            continue
        arrays.append(found[0])
        kinds.append(found[1])
    if odd:
        raise InvalidArgumentError(
            f"`{argument}`: the columns {odd[:8]} hold neither numbers nor categories. Turn them into numbers (days "
            "since a date, say) before the model, or leave them out."
        )
    maker = FrameMaker(wrapped.implementation.name.lower(), columns, tuple(kinds))
    return FrameColumns(names, tuple(arrays), maker)


def _check_names(frame: Any, argument: str) -> None:
    names = list(getattr(frame, "column_names", frame.columns))  # a table of pyarrow has its arrays as `columns`
    as_text = [str(name) for name in names]
    twice = sorted({name for name in as_text if as_text.count(name) > 1})
    if twice:
        raise InvalidArgumentError(
            f"`{argument}`: column names must be unique, but {twice[:8]} stand for several columns. Rename them."
        )


def _read_column(series: Any, nw: Any) -> tuple[Any, Kind] | None:
    """The column as an array (None for a type without Shapley values), and what it was."""
    dtype, native = series.dtype, series.to_native()
    own = str(native.dtype) if hasattr(native, "array") else type(native.dtype).__name__
    if dtype.is_integer():
        gaps = series.null_count() > 0
        array = series.cast(nw.Float64).to_numpy() if gaps else series.to_numpy()
        return np.asarray(array), Kind("whole", own, null=True)
    if dtype.is_numeric():
        array = series.cast(nw.Float64).to_numpy().astype(float)
        return array, Kind("number", own, null=bool(np.isnan(array).sum() == series.null_count()))
    if dtype in (nw.Categorical, nw.Enum) or isinstance(dtype, (nw.Categorical, nw.Enum)):
        return _objects(series), _categorical_kind(native, own)
    if dtype in (nw.String, nw.Boolean, nw.Object):
        return _objects(series), Kind("category", own)
    return None


def _objects(series: Any) -> Any:
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    return values


def _categorical_kind(native: Any, own: str) -> Kind:
    """With the levels that belong to the column's type, in their order."""
    if hasattr(native, "array"):
        return Kind("category", own, tuple(native.cat.categories.tolist()), bool(native.cat.ordered))
    return Kind("category", own, tuple(native.dtype.categories) if own == "Enum" else None)
