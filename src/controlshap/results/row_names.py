"""Rows of explanations by their names: the index of the frame that they came in, or their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import show
from controlshap._errors import InvalidArgumentError
from controlshap.data.table import RowName, as_row_name

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


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
