"""Encode the user's data as the doubles that estimators work on, and decode them for the model.

Estimators see a column as a block of doubles; the model sees what it was fitted on. A column is one player (or part of
one), so that a block is always revealed as a whole. Categories have a file of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import AnyArray, FloatArray
from controlshap.data.categories import Category, make_category
from controlshap.data.players import Players
from controlshap.data.table import LARGEST_WHOLE, Table, as_numbers, is_missing, is_number

if TYPE_CHECKING:
    from controlshap.data.frames import FrameMaker, Kind


class Column(Protocol):
    """Encoding of one column of the data."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the encoded columns."""

    def encode(self, values: Any, argument: str) -> FloatArray:
        """Encode values `(n,)` as doubles `(n, len(labels))`."""

    def decode(self, block: FloatArray) -> Any:
        """Decode doubles `(n, len(labels))` to values `(n,)`."""


@final
@dataclass(frozen=True)
class Number:
    """A number as a double; a column of integers is decoded to integers if its values are whole."""

    name: str
    whole: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of the column."""
        return (self.name,)

    def encode(self, values: Any, argument: str) -> FloatArray:
        """Convert to doubles, missing values to NaN."""
        return as_numbers(values, self.name, argument)[:, None]

    def decode(self, block: FloatArray) -> Any:
        """Return the numbers."""
        column = block[:, 0]
        if self.whole and np.array_equal(column, np.rint(column)) and (np.abs(column) <= LARGEST_WHOLE).all():
            return column.astype(np.int64)
        return column


@final
@dataclass(frozen=True)
class Flagged:
    """A number that is missing in some rows: its value (`fill` if missing) and a flag for missing ones.

    Fitted surrogates need finite numbers; the flag shows them which numbers the model sees as missing.
    """

    name: str
    fill: float

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of value and flag."""
        return (self.name, f"{self.name} missing")

    def encode(self, values: Any, argument: str) -> FloatArray:
        """Return values and flags."""
        numbers = as_numbers(values, self.name, argument)
        missing = np.isnan(numbers)
        return np.column_stack([np.where(missing, self.fill, numbers), missing.astype(float)])

    def decode(self, block: FloatArray) -> Any:
        """Return the numbers, NaN where the flag is set."""
        return np.where(block[:, 1] > 0.5, np.nan, block[:, 0])


@dataclass(frozen=True)
class Encoding:
    """Encodings of all columns; called on doubles, it makes the model's inputs.

    Attributes
    ----------
    maker : FrameMaker or None
        Makes the frames that the model takes; None if it takes arrays.
    """

    columns: tuple[Column, ...]
    maker: FrameMaker | None = None

    @cached_property
    def is_plain(self) -> bool:
        """Whether every column is one number."""
        return all(isinstance(column, Number) for column in self.columns)

    @property
    def n_columns(self) -> int:
        """Number of columns of the data."""
        return len(self.columns)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(label for column in self.columns for label in column.labels)

    @cached_property
    def _widths(self) -> tuple[int, ...]:
        return tuple(len(column.labels) for column in self.columns)

    @cached_property
    def _blocks(self) -> tuple[slice, ...]:
        ends = np.cumsum(self._widths)
        return tuple(slice(int(end - width), int(end)) for end, width in zip(ends, self._widths, strict=True))

    def expand(self, players: Players) -> Players:
        """Turn players of the data's columns into players of the encoded columns."""
        return players if self.is_plain else replace(players, owner=np.repeat(players.owner, self._widths))

    def extend(self, table: Table, argument: str) -> Encoding:
        """Return an encoding that has the new levels of a table as well; this one if there are none."""
        columns = [
            column.extend(self.raw_values(table, number, argument), argument)
            if isinstance(column, Category)
            else column
            for number, column in enumerate(self.columns)
        ]
        extended = self
        if any(new is not old for new, old in zip(columns, self.columns, strict=True)):
            extended = replace(self, columns=tuple(columns))
        extended.check_types(table.maker, argument)
        return extended

    def encode(self, table: Table, argument: str) -> FloatArray:
        """Encode a table as doubles `(n, len(labels))`."""
        if self.is_plain and table.rows is not None:
            return table.rows
        parts = [
            column.encode(self.raw_values(table, number, argument), argument)
            for number, column in enumerate(self.columns)
        ]
        return np.ascontiguousarray(np.concatenate(parts, axis=1))

    def raw_values(self, table: Table, number: int, argument: str) -> Any:
        """Return a column of a table, levels written as in the background."""
        column = self.columns[number]
        if not isinstance(column, Category):
            return table.column(number)
        if not column.apart:
            return table.raw(number)
        typed = table.maker is not None and table.maker.kinds[number].holds_objects
        return column.match(table.raw(number), argument, typed=typed)

    def check_types(self, maker: FrameMaker | None, argument: str) -> None:
        """Raise if rows from frames of `maker` do not fit the types of the columns that the model takes."""
        if self.maker is None:
            return
        for number, (kind, column) in enumerate(zip(self.maker.kinds, self.columns, strict=True)):
            if isinstance(column, Category):
                _refuse_other_levels(column, kind, argument)
            elif maker is not None and maker.package == self.maker.package == "polars":
                _refuse_other_gaps(column, kind, maker.kinds[number], argument)

    def __call__(self, rows: FloatArray) -> Any:
        """Make the model's inputs from doubles `(n, len(labels))`."""
        if self.is_plain and (self.maker is None or self.maker.is_plain):
            return rows if self.maker is None else self.maker.from_rows(rows)
        decoded = self._decode(rows)
        if self.maker is not None:
            return self.maker.from_columns(decoded)
        return self._stack(decoded)

    def data(self, rows: FloatArray) -> AnyArray:
        """Decode rows to an array of doubles, or of objects if there are categories."""
        return rows if self.is_plain else self._stack(self._decode(rows))

    def _decode(self, rows: FloatArray) -> list[Any]:
        return [column.decode(rows[:, block]) for column, block in zip(self.columns, self._blocks, strict=True)]

    def _stack(self, decoded: list[Any]) -> AnyArray:
        categories = any(isinstance(column, Category) for column in self.columns)
        stacked = np.empty((len(decoded[0]), len(decoded)), dtype=object if categories else float)
        for number, values in enumerate(decoded):
            stacked[:, number] = values
        return stacked


def _refuse_other_levels(column: Category, kind: Kind, argument: str) -> None:
    odd = [level for level in column.unseen if not is_missing(level) and not kind.admits(level)]
    if odd:
        raise InvalidArgumentError(
            f"`{argument}`: the column {column.name!r} holds {odd[:3]}, which a column of the background's "
            f"type ({kind.dtype}) cannot. Use one type for both, with all levels in it."
        )


def _refuse_other_gaps(column: Column, kind: Kind, given: Kind, argument: str) -> None:
    if given.null is not None and given.null != (kind.null is not False):
        raise InvalidArgumentError(
            f"`{argument}`: the column {column.labels[0]!r} writes missing numbers as "
            f"{'null' if given.null else 'NaN'}, and the background does not. Use one of them in both: "
            "fill_nan(None), or fill_null(nan)."
        )


def make_encoding(table: Table, names: Sequence[str], *, flag_missing: bool) -> Encoding:
    """Choose the encoding of a background.

    With `flag_missing`, columns of numbers with gaps get a flag, so that surrogates can be fitted; otherwise gaps stay
    NaN, which the exact forms of trees can handle.
    """
    columns: list[Column] = []
    for number, name in enumerate(names):
        kind = table.maker.kinds[number] if table.maker is not None else None
        values = table.column(number)
        as_category = kind.values == "category" if kind is not None else not _holds_numbers(values)
        if as_category:
            apart = kind is None or kind.holds_objects
            columns.append(make_category(name, table.raw(number), "background", apart=apart))
            continue
        numbers = Number(name).encode(values, "background")[:, 0]
        missing = np.isnan(numbers)
        if flag_missing and missing.any() and not missing.all():
            columns.append(Flagged(name, float(numbers[~missing].mean())))
        else:
            columns.append(Number(name, whole=kind is not None and kind.values == "whole"))
    return Encoding(tuple(columns), table.maker)


def _holds_numbers(values: AnyArray) -> bool:
    """Return whether every entry of a column is a number, or missing."""
    if values.dtype.kind != "O":
        return values.dtype.kind in "fiub"
    return all(is_number(value) for value in values.tolist())


def refuse_unseen(encoding: Encoding, table: Table) -> None:
    """Raise if rows have new levels: correlated features are conditioned on them, which needs background rows."""
    for number, column in enumerate(encoding.columns):
        if not isinstance(column, Category):
            continue
        new = column.extend(encoding.raw_values(table, number, "X"), "X").unseen
        if new:
            raise InvalidArgumentError(
                f"`X`: the column {column.name!r} holds {list(new[:3])}, which the background does not; correlated "
                "features are conditioned on such a level and need background rows that have it. Add some, or use "
                "features='independent'."
            )


def refuse_many_levels(encoding: Encoding) -> None:
    """Raise if a category has too many levels for correlated features, which need a score for each."""
    for column in encoding.columns:
        if isinstance(column, Category) and not column.one_hot:
            raise InvalidArgumentError(
                f"`background`: the column {column.name!r} has {column.n_seen} levels; correlated features take a "
                "Gaussian score for each level, and at most 32 of them. Merge rare levels, or use "
                "features='independent'."
            )


def refuse_categories(encoding: Encoding) -> None:
    """Raise if a column holds categories, for a value function that takes numbers alone."""
    for column in encoding.columns:
        if isinstance(column, Category):
            raise InvalidArgumentError(
                f"`background`: the column {column.name!r} holds categories, and this value function takes numbers. "
                "Code them as numbers and decode them in the model, or use features='correlated' or 'independent'."
            )
