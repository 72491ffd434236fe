"""Columns of the user's data as numbers, and back: numbers, numbers with gaps, yes and no, categories.

What the estimators see of a column is a block of doubles; what the model sees is what it was fitted on. A column is one
player (or part of one), so that a block is always revealed as a whole.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, final

import numpy as np
from scipy.special import ndtri

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray, IntArray

#: Most levels of a category that get a column each; more are told by their number alone.
ONE_HOT_LEVELS = 32
#: Up to here doubles tell whole numbers apart.
LARGEST_WHOLE = 2**53


class Column(Protocol):
    """One column of the data."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the doubles that stand for it."""

    def encode(self, values: Any, argument: str) -> FloatArray:
        """Doubles `(n, len(labels))` for raw values `(n,)`."""

    def decode(self, block: FloatArray) -> Any:
        """Raw values `(n,)` for doubles `(n, len(labels))`."""


@final
@dataclass(frozen=True)
class Number:
    """A number as it is; whole numbers go back to the model as such where they are whole."""

    name: str
    whole: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The column itself."""
        return (self.name,)

    def encode(self, values: Any, argument: str) -> FloatArray:
        """As doubles; what is missing is NaN."""
        return as_numbers(values, self.name, argument)[:, None]

    def decode(self, block: FloatArray) -> Any:
        """Itself."""
        column = block[:, 0]
        if self.whole and np.array_equal(column, np.rint(column)) and (np.abs(column) <= LARGEST_WHOLE).all():
            return column.astype(np.int64)
        return column


@final
@dataclass(frozen=True)
class Flagged:
    """A number that is missing in some rows: its value (`fill` where missing) and a flag that says so.

    Fitted surrogates need finite numbers; the flag lets them know what the model sees.
    """

    name: str
    fill: float

    @property
    def labels(self) -> tuple[str, ...]:
        """Value and flag."""
        return (self.name, f"{self.name} missing")

    def encode(self, values: Any, argument: str) -> FloatArray:
        """Value and flag."""
        numbers = as_numbers(values, self.name, argument)
        missing = np.isnan(numbers)
        return np.column_stack([np.where(missing, self.fill, numbers), missing.astype(float)])

    def decode(self, block: FloatArray) -> Any:
        """NaN where the flag is up."""
        return np.where(block[:, 1] > 0.5, np.nan, block[:, 0])


@final
@dataclass(frozen=True)
class Category:
    """One of several levels (names, True and False, nothing at all).

    Up to `ONE_HOT_LEVELS` levels: one indicator for each level but the first, and a column with the mark of a level
    that the background does not hold. More levels: their number alone.

    With correlated features indicators become Gaussian scores with the indicators' means and covariances; the model
    sees the level whose score exceeds by most standard deviations the cut that its frequency sets (the p-quantile from
    the top of the score's own distribution), which for two levels keeps the frequencies exactly.

    Attributes
    ----------
    levels : tuple
        Those of the background, the most frequent first, then others that were met later; None for a missing value.
    shares : tuple of float
        Frequencies of the background's levels.
    missing : object
        What a missing value is in the data: None, NaN or the frame's own.
    apart : bool
        Whether 1, 1.0 and True are different levels, and so are None and NaN, as in columns of objects. Columns of a
        type of their own have one way to write each.
    """

    name: str
    levels: tuple[Any, ...]
    shares: tuple[float, ...]
    missing: Any = None
    apart: bool = False

    @property
    def n_seen(self) -> int:
        """Levels of the background."""
        return len(self.shares)

    @property
    def unseen(self) -> tuple[Any, ...]:
        """Levels that the background does not hold."""
        return self.levels[self.n_seen :]

    @property
    def one_hot(self) -> bool:
        """Whether levels have indicators."""
        return self.n_seen <= ONE_HOT_LEVELS

    @property
    def labels(self) -> tuple[str, ...]:
        """Indicators and the number of an unseen level; or the number of the level."""
        if not self.one_hot:
            return (self.name,)
        return (*(f"{self.name} = {level}" for level in self.levels[1 : self.n_seen]), f"{self.name} = other")

    @cached_property
    def _number(self) -> dict[Any, int]:
        return {_key(level, self.apart): number for number, level in enumerate(self.levels)}

    @cached_property
    def _cuts(self) -> tuple[FloatArray, FloatArray]:
        """Cut and spread of each indicator's score; both of a level that is everywhere are harmless."""
        shares = np.array(self.shares)
        spread = np.sqrt(shares * (1.0 - shares))
        inside = spread > 0
        cut = np.where(inside, shares + spread * ndtri(np.where(inside, 1.0 - shares, 0.5)), 0.5)
        return cut, np.where(inside, spread, 1.0)

    def extended(self, values: Any, argument: str) -> Category:
        """With levels that the background does not hold."""
        levels = as_levels(values, self.name, argument, apart=self.apart)
        new = {_key(level, self.apart): level for level in levels if _key(level, self.apart) not in self._number}
        return replace(self, levels=(*self.levels, *new.values())) if new else self

    def matched(self, values: Any, argument: str, *, typed: bool) -> list[Any]:
        """Values of a column of objects as the background writes them: NaN where it holds NaN and no None.

        Values whose types say little (`typed=False`: from arrays, or columns of another type) become equal ones of the
        background too, such as True for 1.
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
        """Numbers from 1 to 2 that stand for unseen levels: the same whenever and in whichever order they are met."""
        texts = [repr((type(level).__name__, level)) for level in self.unseen]
        marks = np.array([1.0 + zlib.crc32(text.encode()) / 2**32 for text in texts])
        if len(np.unique(marks)) < len(marks):
            raise InvalidArgumentError(
                f"`X`: the column {self.name!r} holds two of {len(marks)} unseen levels that cannot be told apart by "
                "their marks. Put one of them into the background, or explain them in separate calls."
            )
        return marks

    def encode(self, values: Any, argument: str) -> FloatArray:
        """Numbers of levels, as indicators where there are few."""
        levels = as_levels(values, self.name, argument, apart=self.apart)
        numbers = np.array([self._number[_key(level, self.apart)] for level in levels], dtype=np.int64)
        marks = np.concatenate([np.zeros(self.n_seen), self._marks])[numbers]
        if not self.one_hot:
            return np.where(marks > 0, self.n_seen - 1 + marks, numbers)[:, None]
        return np.column_stack([numbers[:, None] == np.arange(1, self.n_seen), marks]).astype(float)

    def numbers(self, block: FloatArray) -> IntArray:
        """Numbers of levels `(n,)`."""
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
        """Levels, as an array of objects."""
        table = np.empty(len(self.levels), dtype=object)
        table[:] = [self.missing if level is None else level for level in self.levels]
        return table[self.numbers(block)]


def category(name: str, values: Any, argument: str, *, apart: bool = False) -> Category:
    """The category whose levels are these, the most frequent first."""
    levels = as_levels(values, name, argument, apart=apart)
    counts: dict[Any, int] = {}
    first: dict[Any, Any] = {}
    for level in levels:
        key = _key(level, apart)
        counts[key] = counts.get(key, 0) + 1
        first.setdefault(key, level)
    ordered = sorted(counts, key=lambda key: -counts[key])  # stable: as met among equals
    shares = tuple(counts[key] / len(levels) for key in ordered)
    gaps = (value for value, level in zip(values, levels, strict=True) if level is None)
    missing = None if apart else next(gaps, None)
    return Category(name, tuple(first[key] for key in ordered), shares, missing, apart)


def _key(level: Any, apart: bool) -> Any:
    """By what levels are told apart: equality, and the type as well where kinds are told `apart`."""
    if is_missing(level):
        return (type(level) if apart else None, None)  # NaN is not equal to itself
    return (type(level), level) if apart else level


def as_levels(values: Any, name: str, argument: str, *, apart: bool) -> list[Any]:
    """Values that can be told apart; None for what is missing, whatever its kind, unless kinds are told `apart`."""
    levels = [None if not apart and is_missing(value) else value for value in values]
    for value in levels:
        try:
            hash(value)
        except TypeError:
            raise InvalidArgumentError(
                f"`{argument}`: the column {name!r} holds {type(value).__name__}s, which are neither numbers nor "
                "categories. Turn it into columns of numbers or names."
            ) from None
    return [value.item() if isinstance(value, np.generic) else value for value in levels]


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
    return is_missing(value) or isinstance(value, (int, float, np.integer, np.floating))


def as_numbers(values: Any, name: str, argument: str) -> FloatArray:
    """Doubles, NaN where something is missing."""
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
                f"{_shown(value)}. Replace it (NaN is allowed with independent features if the model accepts it)."
            ) from None
        except (TypeError, ValueError):
            raise InvalidArgumentError(
                f"`{argument}`: the column {name!r} holds numbers in the background, but {_shown(value)} here. Convert "
                "the column."
            ) from None
    return numbers


def _as_double(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError("text is no number, even where it reads like one")
    number = float(value)
    if np.isinf(number) or (isinstance(value, int) and abs(value) > LARGEST_WHOLE):
        raise OverflowError
    return number


def _shown(value: Any) -> str:
    text = f"{type(value).__name__} {value!r}" if not isinstance(value, (str, int, float)) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def refuse_beyond_doubles(array: Any, argument: str, name: str | None = None) -> None:
    """Whole numbers that would be rounded, and so confused."""
    if array.dtype.kind in "iu" and array.size and (array.max() > LARGEST_WHOLE or array.min() < -LARGEST_WHOLE):
        where = "" if name is None else f": the column {name!r}"
        raise InvalidArgumentError(
            f"`{argument}`{where} holds whole numbers beyond 2**53, which doubles cannot tell apart. Turn identifiers "
            "into text or categories, and quantities into floats."
        )
