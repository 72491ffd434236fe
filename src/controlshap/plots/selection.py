"""The row, output, players and intervals that a plot draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import check_level, check_whole, is_whole
from controlshap._errors import InvalidArgumentError
from controlshap._types import BoolArray, FloatArray
from controlshap.data.table import RowName
from controlshap.results.axes import check_row, label_rows
from controlshap.results.explanation import check_output
from controlshap.results.summary import importance_interval
from controlshap.results.wording import (
    SENTENCE_WIDTH,
    clean,
    describe_zero_errors,
    escape,
    format_level,
    shorten,
    shorten_names,
    without_rounding,
)

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


@dataclass(frozen=True, eq=False)
class Selection:
    """One output of an explanation, all rows or one, and how many players.

    Attributes
    ----------
    whole : Explanation
        All of it, as it was given.
    part : Explanation
        The output and rows to draw.
    row, output : int or None
        Their numbers, None where there is nothing to choose.
    n_shown : int
        Players to draw.
    level : float
        Confidence level of the intervals.
    low, high : ndarray of shape (rows, players)
        Intervals of the values of `part`, each for one value.
    uncertain : ndarray of bool, same shape
        Values that may have the other sign.
    """

    whole: Explanation
    part: Explanation
    row: int | None
    output: int | None
    n_shown: int
    level: float
    low: FloatArray
    high: FloatArray
    uncertain: BoolArray

    @property
    def reaches(self) -> FloatArray:
        """Half widths of the intervals."""
        return (self.high - self.low) / 2.0

    @property
    def errors(self) -> str:
        """Short description of the intervals; "exact" where there are none."""
        if (self.part.status != "exact").any() and (self.part.standard_errors > 0).any():
            return f"{format_level(self.level)} intervals"
        return describe_zero_errors(self.part)

    @property
    def names(self) -> list[str]:
        """Short names of all players; not escaped."""
        return shorten_names(self.whole.feature_names)

    @property
    def title(self) -> str:
        """Row and output in words, escaped; empty when there is nothing to say."""
        parts = [] if self.row is None else [f"row {shorten(clean(str(self.whole_label)), SENTENCE_WIDTH)}"]
        if self.output is not None or self.output_label != "model output":
            parts.append(self.output_label)
        text = ", ".join(parts)
        return escape(text[:1].upper() + text[1:])

    @property
    def whole_label(self) -> RowName:
        """Name or number of the row."""
        return label_rows(self.part)[0]

    @property
    def output_label(self) -> str:
        """The output in words; not escaped."""
        return shorten(clean(self.whole.output_labels[self.output or 0]), SENTENCE_WIDTH)

    @property
    def not_shown(self) -> str:
        """Note on the players that are left out."""
        return describe_left(len(self.whole.feature_names) - self.n_shown)

    @property
    def importance(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean absolute values with intervals; nothing below 0, which no mean of absolute values can be."""
        summary = self.part.summary()
        low, high = importance_interval(self.part, summary, self.level)
        lengths = np.maximum(summary.mean_absolute, 0.0)
        return lengths, np.minimum(low, lengths), np.maximum(high, lengths)


def describe_left(n_left: int) -> str:
    """Note on so many players, or pairs, that are left out."""
    return "" if n_left == 0 else f"{n_left} smaller {'one is' if n_left == 1 else 'ones are'} not shown"


def select(
    explanation: Explanation,
    *,
    row: int | str | None = None,
    output: int | str | None,
    max_players: int | None = None,
    level: float = 0.95,
) -> Selection:
    """Check what a plot was asked for."""
    level = check_level(level)
    if len(explanation) == 0:
        raise InvalidArgumentError("`explanation` has no rows, and there is nothing to draw.")
    row = None if row is None else check_row(row, len(explanation), explanation.row_names)
    number = check_output(explanation, output)
    n_shown = len(explanation.feature_names)
    if max_players is not None:
        n_shown = min(n_shown, check_whole("max_players", max_players, 1, "players to show, or None for all"))
    part = explanation.output(number)
    part = part if row is None else part[row]
    part = replace(part, values=without_rounding(part))
    low, high = part.confidence_interval(level)
    errors = part.standard_errors
    # an error of 0 says nothing until every background row was used
    unseen = (errors == 0) & ~part.complete[:, None] & (part.values != 0)
    uncertain = ((errors > 0) & (low <= 0) & (high >= 0)) | unseen
    return Selection(explanation, part, row, number, n_shown, level, low, high, uncertain)


def check_player(explanation: Explanation, player: Any, argument: str) -> int:
    """A player's number from its number or name."""
    names = explanation.feature_names
    if isinstance(player, str) and player in names:
        return names.index(player)
    if not is_whole(player) or not 0 <= player < len(names):
        raise InvalidArgumentError(
            f"`{argument}` must be a number from 0 to {len(names) - 1} or a name in `explanation.feature_names`; "
            f"got {player!r}."
        )
    return int(player)
