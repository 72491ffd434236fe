"""Records whose fields declare their axes, and what follows from that: rows or an output taken, rows joined.

Rows are found by their numbers, or by their names: the index of the frame that they came in.

A record is a dataclass; the metadata of a field name the axes of its value. "rows" is the first axis of whatever has
it: an array, or a tuple with one item for each row. "outputs" is left out when the model has one output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import is_whole, show
from controlshap._errors import InvalidArgumentError
from controlshap._types import AnyArray, FloatArray, IntArray
from controlshap.data.table import RowName, as_row_name

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


def axes(*names: str) -> dict[str, tuple[str, ...]]:
    """Metadata of a field whose value has these axes."""
    return {"axes": names}


def field_names(record: Any, *, axis: str) -> tuple[str, ...]:
    """Names of the fields of a record (or its class) that have an axis."""
    return tuple(f.name for f in fields(record) if axis in f.metadata["axes"])


def select_rows(record: Any, index: IntArray) -> dict[str, Any]:
    """The fields of a record that have rows, with some of the rows."""
    values = {name: getattr(record, name) for name in field_names(record, axis="rows")}
    return {name: _take(value, index) for name, value in values.items()}


def _take(value: Any, index: IntArray) -> Any:
    if value is None or isinstance(value, np.ndarray):
        return None if value is None else value[index]
    return tuple(value[row] for row in index)


def join_rows(records: Sequence[Any]) -> dict[str, Any]:
    """The fields that have rows, with the rows of all records; None where one of them has None."""
    names = field_names(records[0], axis="rows")
    return {name: join_values([getattr(record, name) for record in records]) for name in names}


def join_values(values: Sequence[Any]) -> Any:
    """One after the other, what some parts have of a field with rows; None where one of them has None."""
    if any(value is None for value in values):
        return None
    return np.concatenate(values) if isinstance(values[0], np.ndarray) else tuple(chain.from_iterable(values))


def join_factors(parts: Sequence[FloatArray | None], n_rows: Sequence[int]) -> FloatArray | None:
    """Factors `(rows, n, ...)` of several parts, one after the other; 0 where a part has fewer than others, or None."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    joined = np.zeros((sum(n_rows), max(part.shape[1] for part in known), *known[0].shape[2:]))
    start = 0
    for part, n in zip(parts, n_rows, strict=True):
        if part is not None:
            joined[start : start + n, : part.shape[1]] = part
        start += n
    return joined


def take_output(record: Any, number: int) -> dict[str, Any]:
    """The arrays of a record that have outputs, for one output and without that axis."""
    arrays = {f.name: (getattr(record, f.name), f.metadata["axes"]) for f in fields(record)}
    return {
        name: _drop_axis(array, number, names.index("outputs"))
        for name, (array, names) in arrays.items()
        if isinstance(array, np.ndarray) and "outputs" in names
    }


def _drop_axis(array: AnyArray, number: int, axis: int) -> AnyArray:
    """One slice along an axis: a copy, which does not hold the others, unless there are none."""
    return array.squeeze(axis) if array.shape[axis] == 1 else array.take(number, axis=axis)


def with_outputs(record: Any, name: str) -> AnyArray:
    """An array of a record with its axis of outputs, also where there is only one."""
    array: AnyArray = getattr(record, name)
    names = next(field.metadata["axes"] for field in fields(record) if field.name == name)
    return array if array.ndim == len(names) else np.expand_dims(array, names.index("outputs"))


def row_index(rows: Any, n: int, read_names: Callable[[], Sequence[RowName] | None]) -> IntArray:
    """Numbers of the rows that a number, a slice, a mask, an array of numbers or names ask for, of `n` rows.

    `read_names` is called for text and for errors alone, since the names of a stored result are read from its files.
    """
    numbers: IntArray = np.arange(n)
    if isinstance(rows, slice):
        return numbers[rows]
    wanted = np.asarray(rows)
    is_text = wanted.dtype.kind == "U" and wanted.ndim < 2 and not isinstance(rows, tuple)
    names = read_names() if is_text else None
    if names is not None:
        return np.array([find_row(str(name), names) for name in np.atleast_1d(wanted)], dtype=np.int64)
    kinds = "biu" if wanted.size else "biuf"  # an empty list has no type of its own
    if isinstance(rows, tuple) or wanted.ndim > 1 or wanted.dtype.kind not in kinds:
        raise InvalidArgumentError(
            f"`explanation[rows]` takes a row number, a slice, a mask or an array of row numbers; got {rows!r}. Use "
            "`explanation.output(...)` for an output, and arrays such as `explanation.values` for players."
        )
    if wanted.dtype.kind == "b":
        if wanted.shape != (n,):
            raise InvalidArgumentError(
                f"`explanation[mask]` needs one truth value for each of the {n} rows; got shape {wanted.shape}."
            )
        return np.flatnonzero(wanted)
    outside = wanted[(wanted < -n) | (wanted >= n)]
    if outside.size:
        wrong = int(outside.flat[0])
        way_out = f" The row of that name is explanation.loc[{wrong}]." if wrong in (read_names() or ()) else ""
        raise InvalidArgumentError(
            f"`explanation[rows]` has {n} rows, numbered from 0, or backwards from -1; got {wrong}.{way_out}"
        )
    return numbers[np.atleast_1d(wanted.astype(np.int64))]


def take_one(
    array: AnyArray, row: Any, output: Any, names: Sequence[str] | None, row_names: Sequence[RowName] | None = None
) -> AnyArray:
    """One row and output of an array `(rows, ...)` or `(rows, ..., outputs)`, after checking both."""
    row = check_row(row, len(array), row_names)
    number = output_number(output, array.shape[2] if array.ndim == 3 else None, names)
    chosen: AnyArray = array[row] if number is None else array[row, :, number]
    return chosen


def output_number(output: Any, n: int | None, names: Sequence[str] | None) -> int | None:
    """An output's number from its number or name; None for a model with one output, which has no axis (`n` None)."""
    names = tuple(names or ())
    if n is None:
        if output is not None and output not in names:
            raise InvalidArgumentError(f"`output` must be left out: the model has one output; got {output!r}.")
        return None
    if isinstance(output, str) and output in names:
        return names.index(output)
    if not is_whole(output) or not 0 <= output < n:
        known = f"a number from 0 to {n - 1}" + (f" or one of {list(names[:8])}" if names else "")
        if output is None:
            raise InvalidArgumentError(
                f"`output` is needed: the model has {n} outputs. Give output={names[-1] if names else n - 1!r}: it "
                f"may be {known}."
            )
        raise InvalidArgumentError(f"`output` must be {known}: the model has {n} outputs; got {output!r}.")
    return int(output)


def check_row(row: Any, n: int, names: Sequence[RowName] | None) -> int:
    """The number of one of `n` rows, which may count backwards from -1, or be a name as text."""
    if isinstance(row, str) and names is not None:
        return find_row(row, names)
    if n == 0:
        raise InvalidArgumentError(f"`row` must be a row number, and there are no rows; got {row!r}.")
    if not is_whole(row) or not -n <= row < n:
        place = list(names).index(row) if names is not None and row in names else None
        way_out = "" if place is None else f" The row of that name is number {place}."
        raise InvalidArgumentError(f"`row` must be a row number, 0 to {n - 1}; got {row!r}.{way_out}")
    return int(row)


def label_rows(explanation: Explanation) -> Sequence[RowName]:
    """A label for each row: its name, else its number in the run, else (rows of several runs) its place."""
    if explanation.row_names is not None:
        return explanation.row_names
    numbers = explanation.row_numbers
    labels: list[int] = (numbers if len(np.unique(numbers)) == len(numbers) else np.arange(len(numbers))).tolist()
    return labels


def join_row_names(parts: Sequence[Explanation]) -> tuple[RowName, ...] | None:
    """Names of the rows of several explanations, one after the other; numbers stand in where some have none."""
    if all(part.row_names is None for part in parts):
        return None
    return tuple(name for part in parts for name in label_rows(part))


def find_row(name: RowName, names: Sequence[RowName] | None) -> int:
    """The place of the row with a name."""
    places = [] if names is None else [place for place, known in enumerate(names) if known == name]
    if len(places) == 1:
        return places[0]
    if places:
        raise InvalidArgumentError(
            f"`row`: {len(places)} rows have the name {show(name)}, at {places[:5]}. Use one of these numbers."
        )
    known = "have no names but their numbers" if names is None else f"are {show(list(names[:5]))[1:-1]}"
    more = ", ..." if names is not None and len(names) > 5 else ""
    number = isinstance(name, str) and name in {str(other) for other in names or ()}
    way_out = f" Names that are numbers are found by explanation.loc[{name}]." if number else ""
    raise InvalidArgumentError(f"`row`: no row has the name {show(name)}; the rows {known}{more}.{way_out}")


@dataclass(frozen=True, eq=False)
class RowsByName:
    """`explanation.loc[name]` and `explanation.loc[[name, name]]`."""

    explanation: Explanation

    def __getitem__(self, names: Any) -> Explanation:
        """The explanation of the rows with these names, in this order."""
        labels = label_rows(self.explanation)
        wanted = names if isinstance(names, (list, tuple, np.ndarray)) else [names]
        plain = (name.item() if isinstance(name, np.generic) else name for name in wanted)
        return self.explanation[[find_row(as_row_name(name), labels) for name in plain]]
