"""Encode a column of categories as doubles, and decode it."""

from __future__ import annotations

import datetime
import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from scipy.special import ndtri

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray, IntArray
from controlshap.data.table import is_missing

#: Most levels of a category that get a column each; with more, a level is encoded by its number.
ONE_HOT_LEVELS = 32
#: Kinds of quantities that are no numbers of this library, and would be as many categories as there are rows.
NO_LEVELS = (
    complex, np.complexfloating, datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64,
    np.void,
)  # fmt: skip


@final
@dataclass(frozen=True)
class Category:
    """A category with several levels (names, True and False, missing).

    Up to `ONE_HOT_LEVELS` levels are encoded as one indicator for each level but the first, and a column that marks a
    level that is not in the background. More levels are encoded by their number.

    With correlated features indicators become Gaussian scores with the indicators' means and covariances. They are
    decoded to the level whose score exceeds its cut by most standard deviations, where the cut of a level with
    frequency p is the quantile 1 - p of the score's own distribution; for two levels this keeps the frequencies.

    Attributes
    ----------
    levels : tuple
        Levels of the background, the most frequent first, then new ones in the order of their appearance; None for a
        missing value.
    shares : tuple of float
        Frequencies of the background's levels.
    missing : object
        A missing value as the data write it: None, NaN or the frame's own.
    apart : bool
        Whether 1, 1.0 and True are different levels, and None and NaN as well, as in columns of objects. Columns with
        a type have one way to write each.
    """

    name: str
    levels: tuple[Any, ...]
    shares: tuple[float, ...]
    missing: Any = None
    apart: bool = False

    @property
    def n_seen(self) -> int:
        """Number of levels of the background."""
        return len(self.shares)

    @property
    def unseen(self) -> tuple[Any, ...]:
        """Levels that are not in the background."""
        return self.levels[self.n_seen :]

    @property
    def one_hot(self) -> bool:
        """Whether levels are encoded as indicators."""
        return self.n_seen <= ONE_HOT_LEVELS

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the indicators and of the mark of unseen levels; or the name of the column."""
        if not self.one_hot:
            return (self.name,)
        return (*(f"{self.name} = {level}" for level in self.levels[1 : self.n_seen]), f"{self.name} = other")

    @cached_property
    def _number(self) -> dict[Any, int]:
        return {_key(level, self.apart): number for number, level in enumerate(self.levels)}

    @cached_property
    def _cuts(self) -> tuple[FloatArray, FloatArray]:
        """Cut and standard deviation of each indicator's score; any will do for a level that all rows have."""
        shares = np.array(self.shares)
        spread = np.sqrt(shares * (1.0 - shares))
        inside = spread > 0
        cut = np.where(inside, shares + spread * ndtri(np.where(inside, 1.0 - shares, 0.5)), 0.5)
        return cut, np.where(inside, spread, 1.0)

    def extend(self, values: Any, argument: str) -> Category:
        """Return a category that has the new levels among `values` as well."""
        levels = as_levels(values, self.name, argument, apart=self.apart)
        new = {_key(level, self.apart): level for level in levels if _key(level, self.apart) not in self._number}
        return replace(self, levels=(*self.levels, *new.values())) if new else self

    def match(self, values: Any, argument: str, *, typed: bool) -> list[Any]:
        """Return values of a column of objects as the background writes them: NaN if it has NaN and no None.

        Values from arrays or from columns of another type (`typed=False`) are also replaced by equal values of the
        background, such as 1 by True.
        """
        levels = as_levels(values, self.name, argument, apart=True)
        same = {_key(level, False): level for level in reversed(self.levels[: self.n_seen])}
        return [
            level
            if _key(level, True) in self._number or (typed and not is_missing(level))
            else same.get(_key(level, False), level)
            for level in levels
        ]

    @cached_property
    def _marks(self) -> FloatArray:
        """Numbers from 1 to 2 that encode unseen levels, independent of the order in which they appear."""
        texts = [repr((type(level).__name__, level)) for level in self.unseen]
        marks = np.array([1.0 + zlib.crc32(text.encode()) / 2**32 for text in texts])
        if len(np.unique(marks)) < len(marks):
            raise InvalidArgumentError(
                f"`X`: the column {self.name!r} holds two of {len(marks)} unseen levels that cannot be told apart by "
                "their marks. Put one of them into the background, or explain them in separate calls."
            )
        return marks

    def encode(self, values: Any, argument: str) -> FloatArray:
        """Encode levels as indicators, or by their numbers if there are many."""
        levels = as_levels(values, self.name, argument, apart=self.apart)
        numbers = np.array([self._number[_key(level, self.apart)] for level in levels], dtype=np.int64)
        marks = np.concatenate([np.zeros(self.n_seen), self._marks])[numbers]
        if not self.one_hot:
            return np.where(marks > 0, self.n_seen - 1 + marks, numbers)[:, None]
        return np.column_stack([numbers[:, None] == np.arange(1, self.n_seen), marks]).astype(float)

    def numbers(self, block: FloatArray) -> IntArray:
        """Decode a block to numbers of levels, shape (n,)."""
        if self.one_hot:
            scores, marks = block[:, :-1], block[:, -1]
            cut, spread = self._cuts
            first = 1.0 - scores.sum(axis=1, keepdims=True)
            seen = ((np.concatenate([first, scores], axis=1) - cut) / spread).argmax(axis=1)
        else:
            seen, marks = np.rint(block[:, 0]).astype(np.int64), block[:, 0] - (self.n_seen - 1)
        if len(self._marks) == 0:
            return np.asarray(seen, dtype=np.int64)
        nearest = np.abs(marks[:, None] - self._marks).argmin(axis=1)
        return np.asarray(np.where(marks > 0.5, self.n_seen + nearest, seen), dtype=np.int64)

    def decode(self, block: FloatArray) -> Any:
        """Decode a block to an array of levels."""
        table = np.empty(len(self.levels), dtype=object)
        table[:] = [self.missing if level is None else level for level in self.levels]
        return table[self.numbers(block)]


def make_category(name: str, values: Any, argument: str, *, apart: bool = False) -> Category:
    """Return the category with the levels of a column, the most frequent first."""
    levels = as_levels(values, name, argument, apart=apart)
    counts: dict[Any, int] = {}
    first: dict[Any, Any] = {}
    for level in levels:
        key = _key(level, apart)
        counts[key] = counts.get(key, 0) + 1
        first.setdefault(key, level)
    ordered = sorted(counts, key=lambda key: -counts[key])  # stable: equal ones as they appear
    shares = tuple(counts[key] / len(levels) for key in ordered)
    gaps = (value for value, level in zip(values, levels, strict=True) if level is None)
    missing = None if apart else next(gaps, None)
    return Category(name, tuple(first[key] for key in ordered), shares, missing, apart)


def _key(level: Any, apart: bool) -> Any:
    """Return a key that is equal for equal levels; with `apart` their types must be equal, too."""
    if is_missing(level):
        return (type(level) if apart else None, None)  # NaN is not equal to itself
    return (type(level), level) if apart else level


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def as_levels(values: Any, name: str, argument: str, *, apart: bool) -> list[Any]:
    """Return values as hashable levels; missing ones as None unless their types are kept `apart`."""
    levels = [None if not apart and is_missing(value) else value for value in values]
    for value in levels:
        if (isinstance(value, NO_LEVELS) and not is_missing(value)) or not _is_hashable(value):
            raise InvalidArgumentError(
                f"`{argument}`: the column {name!r} holds {type(value).__name__}s, which are neither numbers nor "
                "categories. Turn it into columns of numbers or names."
            )
    return [value.item() if isinstance(value, np.generic) else value for value in levels]
