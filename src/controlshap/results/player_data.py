"""The data of players: what plots, the report and tables show beside values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._types import AnyArray, BoolArray, FloatArray, IntArray
from controlshap.data.players import is_one_hot
from controlshap.data.table import is_missing, is_number
from controlshap.results.wording import CATEGORY_WIDTH, shorten_names

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: Categories beyond this number are shown as one, the rarest together.
MOST_CATEGORIES = 12


@dataclass(frozen=True, eq=False)
class PlayerData:
    """The data of one player in all rows.

    Attributes
    ----------
    numbers : ndarray of shape (rows,) or None
        Its numbers, NaN where there is none; None when it has categories.
    codes : ndarray of shape (rows,)
        Numbers of its categories, -1 where there is none.
    categories : tuple of str
        Short labels, not escaped.
    """

    numbers: FloatArray | None
    codes: IntArray
    categories: tuple[str, ...]

    @property
    def apart(self) -> BoolArray:
        """Rows that have no place on the axis: missing, or infinite."""
        return self.codes < 0 if self.numbers is None else ~np.isfinite(self.numbers)


def classify(entries: AnyArray) -> PlayerData:
    """Entries as numbers if all that are not missing are numbers, otherwise as categories in alphabetical order."""
    missing = np.array([is_missing(entry) for entry in entries], dtype=bool)
    present = [entry for entry, gone in zip(entries, missing, strict=True) if not gone]
    codes = np.full(len(entries), -1, dtype=np.int64)
    if all(is_number(entry) for entry in present):
        numbers = np.full(len(entries), np.nan)
        numbers[~missing] = [float(entry) for entry in present]
        return PlayerData(numbers, codes, ())
    counts = Counter(str(entry) for entry in present)
    kept = sorted(counts)
    if len(kept) > MOST_CATEGORIES:
        kept = sorted(sorted(counts, key=lambda label: (-counts[label], label))[: MOST_CATEGORIES - 1])
    place = {label: number for number, label in enumerate(kept)}
    codes[~missing] = [place.get(str(entry), len(kept)) for entry in present]
    labels = shorten_names(kept, CATEGORY_WIDTH)
    if len(kept) < len(counts):
        labels.append(f"{len(counts) - len(kept)} others")
    return PlayerData(None, codes, tuple(labels))


def scale_to_unit(entries: AnyArray) -> FloatArray:
    """Data from 0 (the 5 % quantile) to 1 (95 %) for a colour; NaN for what has no size. Truth values have one."""
    data = classify(entries)
    if data.numbers is None:
        if set(data.categories) <= {"False", "True"}:
            return np.where(data.codes < 0, np.nan, [float(str(entry) == "True") for entry in entries])
        return np.full(len(entries), np.nan)
    numbers = data.numbers
    usable = numbers[np.isfinite(numbers)]
    if len(usable) == 0:
        return np.full(len(numbers), np.nan)
    low, high = np.quantile(usable, [0.05, 0.95])
    if low == high:
        low, high = usable.min(), usable.max()
    scale = high - low
    with np.errstate(invalid="ignore", over="ignore"):
        shade = np.clip((numbers - low) / scale, 0.0, 1.0) if scale > 0 else np.where(np.isnan(numbers), np.nan, 0.5)
    return np.where(np.isnan(numbers), np.nan, shade)


def collect_player_data(explanation: Explanation) -> np.ndarray[Any, np.dtype[Any]]:
    """Data of the players `(rows, players)`; see `Explanation.player_data`."""
    shown = np.empty((len(explanation.data), len(explanation.player_columns)), dtype=object)
    for player, columns in enumerate(explanation.player_columns):
        block = explanation.data[:, list(columns)]
        if len(columns) == 1:
            shown[:, player] = block[:, 0]
        elif not is_one_hot(block):
            shown[:, player] = [", ".join(_short(value) for value in row) for row in block.tolist()]
        else:
            active = block.argmax(axis=1)
            shown[:, player] = [explanation.column_names[columns[a]] for a in active]
    return shown


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
