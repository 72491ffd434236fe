"""Finished parts read back: all at once, or column by column where all of them together are large."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._types import IntArray
from controlshap.datasets.files import import_pyarrow
from controlshap.datasets.layout import PartLayout
from controlshap.datasets.part_file import read_part
from controlshap.results.axes import field_names, join_factors, join_values, row_index
from controlshap.results.explanation import Explanation, check_output

#: Attributes of an explanation that have rows.
ROWS = field_names(Explanation, axis="rows")


@dataclass(frozen=True, eq=False)
class StoredParts:
    """Files of finished parts of a run, which stay closed between two readings.

    Attributes
    ----------
    rows : tuple of tuples of int
        First row of each part, and the one after its last.
    run : str
        Hash of all that the run depends on.
    about : dict
        The attributes of the explanation that are the same for all rows.
    """

    paths: tuple[Path, ...]
    rows: tuple[tuple[int, int], ...]
    layout: PartLayout
    run: str
    about: dict[str, Any]

    @property
    def n_bytes(self) -> int:
        """Size of the files."""
        return sum(path.stat().st_size for path in self.paths)

    @cached_property
    def starts(self) -> IntArray:
        """Where the rows of each part begin among those of all parts; last, the number of rows."""
        starts: IntArray = np.cumsum([0, *(end - first for first, end in self.rows)])
        return starts

    def check(self) -> None:
        """Refuse parts that are damaged where the rest is not read, of another run, or in another order."""
        for number in range(len(self.paths)):
            self._table(number, ())

    def read(self, name: str) -> Any:
        """An attribute of all rows."""
        columns = self.layout.columns_of(name)
        tables = (self._table(number, columns) for number in range(len(self.paths)))
        parts = [(self.layout.decode(table, name), table.num_rows) for table in tables]
        if name == "shared_factors":
            return join_factors(*zip(*parts, strict=True))
        return join_values([part for part, _ in parts])

    def explain(self, number: int) -> Explanation:
        """The explanation of the rows of one part."""
        table = self._table(number, None)
        return Explanation(**{name: self.layout.decode(table, name) for name in ROWS}, **self.about)

    def _table(self, number: int, names: tuple[str, ...] | None) -> Any:
        import_pyarrow("`load`")
        schema = self.layout.schema(self.run)
        return read_part(self.paths[number], self.run, self.rows[number], "path", schema, names)


class StoredExplanation(Explanation):
    """An explanation in files: an array is read when it is first asked for, and kept.

    `explanation[rows]` reads the parts that hold these rows, and iteration one part at a time; what they return is an
    ordinary explanation. The folder must stay as it is.
    """

    def __new__(cls, parts: StoredParts | None = None, **attributes: Any) -> Explanation:  # type: ignore[misc]
        """The class of copies by `dataclasses.replace`: an ordinary explanation, with everything in memory."""
        return object.__new__(cls) if parts is not None else Explanation(**attributes)

    def __init__(self, parts: StoredParts) -> None:
        object.__setattr__(self, "parts", parts)
        for name, value in parts.about.items():
            object.__setattr__(self, name, value)

    parts: StoredParts

    def __reduce__(self) -> tuple[Callable[..., Explanation], tuple[()]]:
        """A copy for another process holds everything: the folder may not be there."""
        return partial(Explanation, **{field.name: getattr(self, field.name) for field in fields(self)}), ()

    def __len__(self) -> int:
        return int(self.parts.starts[-1])

    def __getitem__(self, rows: Any) -> Explanation:
        index = row_index(rows, len(self), lambda: self.row_names)
        owners, number = np.unique(np.searchsorted(self.parts.starts, index, side="right") - 1, return_inverse=True)
        found = [self.parts.explain(int(owner)) for owner in owners] or [self.parts.explain(0)]
        firsts = np.cumsum([0, *map(len, found)])
        return Explanation.concat(found)[firsts[number] + index - self.parts.starts[owners[number]]]

    def __iter__(self) -> Iterator[Explanation]:
        for number in range(len(self.parts.paths)):
            yield from self.parts.explain(number)

    def output(self, output: int | str | None = None) -> Explanation:
        """The explanation of one output, read part by part."""
        if check_output(self.parts.explain(0), output) is None:
            return self
        return Explanation.concat(self.parts.explain(number).output(output) for number in range(len(self.parts.paths)))


def _read_attribute(explanation: StoredExplanation, name: str) -> Any:
    return explanation.parts.read(name)


for _name in ROWS:
    _attribute = cached_property(partial(_read_attribute, name=_name))
    _attribute.__set_name__(StoredExplanation, _name)
    setattr(StoredExplanation, _name, _attribute)
