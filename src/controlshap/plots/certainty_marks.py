"""Intervals as they are drawn, and how they are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from controlshap._types import BoolArray, FloatArray
from controlshap.results.numerals import percent

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


@dataclass(frozen=True, eq=False)
class Marks:
    """Of an explanation with one output.

    Attributes
    ----------
    low, high : ndarray of shape (rows, players)
        Intervals, each for one value.
    uncertain : ndarray of bool, same shape
        Values that may have the other sign.
    told : str
        What the intervals are; "exact" where there are none.
    """

    low: FloatArray
    high: FloatArray
    uncertain: BoolArray
    told: str

    @property
    def reaches(self) -> FloatArray:
        """Half widths."""
        return (self.high - self.low) / 2.0


def interval_marks(explanation: Explanation, level: float) -> Marks:
    """Intervals, signs and caption of an explanation that was narrowed to one output."""
    low, high = explanation.confidence_interval(level)
    errors = explanation.standard_errors
    # an error of 0 says nothing until every background row had a part
    unseen = (errors == 0) & ~explanation.complete[:, None] & (explanation.values != 0)
    uncertain = ((errors > 0) & (low <= 0) & (high >= 0)) | unseen
    return Marks(low, high, uncertain, told(explanation, level))


def told(explanation: Explanation, level: float) -> str:
    """What to say of the errors."""
    if bool((explanation.status == "exact").all()):
        return "exact"
    if bool(np.any(explanation.standard_errors > 0)):
        return f"{percent(level)} intervals"
    return "no sampling error" if bool(explanation.complete.all()) else "no error seen yet"
