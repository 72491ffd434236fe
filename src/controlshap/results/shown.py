"""What players show for the rows: numbers, categories, or nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from controlshap._types import AnyArray, BoolArray, FloatArray, IntArray
from controlshap.results.naming import CATEGORY_WIDTH, cleaned, short_names, shortened
from controlshap.results.numerals import is_number, numeral

#: More categories than this are shown as one, the rarest together.
MOST_CATEGORIES = 12


def is_missing(value: Any) -> bool:
    """None, NaN, and what pandas has for them; `pandas.NA` refuses to be compared."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def shown_text(value: Any) -> str:
    """One entry, for a label; not yet escaped."""
    if is_missing(value):
        return "missing"
    return numeral(float(value)) if is_number(value) else shortened(cleaned(str(value)), CATEGORY_WIDTH)


@dataclass(frozen=True, eq=False)
class Shown:
    """A player's data.

    Attributes
    ----------
    numbers : ndarray of shape (rows,) or None
        Its numbers, NaN where there is none; None when it has categories.
    codes : ndarray of shape (rows,)
        Numbers of its categories, -1 where there is none.
    categories : tuple of str
        Short labels, not yet escaped.
    """

    numbers: FloatArray | None
    codes: IntArray
    categories: tuple[str, ...]

    @property
    def apart(self) -> BoolArray:
        """Rows that have no place on the axis: missing, or infinite."""
        return self.codes < 0 if self.numbers is None else ~np.isfinite(self.numbers)


def classify(entries: AnyArray) -> Shown:
    """Numbers if all that is there are numbers, otherwise categories in alphabetical order."""
    missing = np.array([is_missing(entry) for entry in entries], dtype=bool)
    there = [entry for entry, gone in zip(entries, missing, strict=True) if not gone]
    none = np.full(len(entries), -1, dtype=np.int64)
    if all(is_number(entry) for entry in there):
        numbers = np.full(len(entries), np.nan)
        numbers[~missing] = [float(entry) for entry in there]
        return Shown(numbers, none, ())
    counts = Counter(str(entry) for entry in there)
    kept = sorted(counts)
    if len(kept) > MOST_CATEGORIES:
        kept = sorted(sorted(counts, key=lambda label: (-counts[label], label))[: MOST_CATEGORIES - 1])
    place = {label: number for number, label in enumerate(kept)}
    codes = none.copy()
    codes[~missing] = [place.get(str(entry), len(kept)) for entry in there]
    labels = short_names(kept, CATEGORY_WIDTH)
    if len(kept) < len(counts):
        labels.append(f"{len(counts) - len(kept)} others")
    return Shown(None, codes, tuple(labels))


def shades(entries: AnyArray) -> FloatArray:
    """Data from 0 (low) to 1 (high) for a colour; NaN where they have no size. Truth values have one."""
    found = classify(entries)
    if found.numbers is None:
        if set(found.categories) <= {"False", "True"}:
            return np.where(found.codes < 0, np.nan, [float(str(entry) == "True") for entry in entries])
        return np.full(len(entries), np.nan)
    numbers = found.numbers
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
