"""Bars: importance over all rows, or the values of one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import check_level
from controlshap._types import BoolArray, FloatArray
from controlshap.plots.canvas import dress, not_shown, sentence, table_axes, which
from controlshap.plots.certainty_marks import interval_marks, told
from controlshap.plots.palette import INK, LINE, NEGATIVE, sign_colours
from controlshap.plots.selection import check_max_players, check_output, check_row, narrowed
from controlshap.results.importance import importance_interval
from controlshap.results.naming import escaped, short_names
from controlshap.results.numerals import with_reaches
from controlshap.results.shown import shown_text
from controlshap.statistics.certainty import magnitude_order

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


@dataclass(frozen=True, eq=False)
class Bars:
    """Lengths of the bars with intervals, for all players; `uncertain` is None without signs."""

    lengths: FloatArray
    low: FloatArray
    high: FloatArray
    uncertain: BoolArray | None
    told: str


def draw_bar(
    explanation: Explanation,
    *,
    row: int | None,
    output: int | str | None,
    max_players: int | None,
    level: float,
    ax: Any,
) -> Any:
    """See `Plots.bar`."""
    level = check_level(level)
    number = check_output(explanation, output)
    n_players = len(explanation.feature_names)
    n_shown = check_max_players(max_players, n_players)
    row = None if row is None else check_row(explanation, row)
    one = narrowed(explanation, row=row, output=number)
    bars = _importance(one, level) if row is None else _values(one, level)
    order = magnitude_order(bars.lengths)[:n_shown]
    lengths, low, high = bars.lengths[order], bars.low[order], bars.high[order]
    names = short_names(explanation.feature_names)
    if row is not None:
        data = explanation.player_data()[row]  # a row alone would not show which groups are one-hot
        names = [f"{name} = {shown_text(entry)}" for name, entry in zip(names, data, strict=True)]
    ax = table_axes(
        ax,
        "bar",
        [escaped(names[player]) for player in order],
        column=with_reaches(lengths, np.zeros(n_shown), [row is not None] * n_shown),
    )
    pale = bars.uncertain[order] if bars.uncertain is not None else None
    colours = NEGATIVE if pale is None else sign_colours(lengths, pale)
    ax.barh(range(n_shown), lengths, height=0.62, color=colours)
    if bool((high > low).any()):
        ends = np.maximum(np.stack([lengths - low, high - lengths]), 0.0)
        ax.errorbar(
            lengths, range(n_shown), xerr=ends, fmt="none", ecolor=INK, elinewidth=1.1, capsize=2.2, capthick=1.1
        )
    ax.axvline(0.0, color=LINE, linewidth=0.9, zorder=0.9)
    if row is None:
        ax.set_xlim(left=0.0)
        what = f"mean |Shapley value| over {len(one)} rows" if len(one) > 1 else "|Shapley value|"
    else:
        what = "Shapley value"
    dress(
        ax,
        title=which(explanation, row=row, output=number),
        x_label=f"{what}, {bars.told}",
        caption=sentence(
            "pale: sign not certain" if pale is not None and pale.any() else "", not_shown(n_players - n_shown)
        ),
    )
    return ax


def _values(one: Explanation, level: float) -> Bars:
    marks = interval_marks(one, level)
    return Bars(one.values[0], marks.low[0], marks.high[0], marks.uncertain[0], marks.told)


def _importance(one: Explanation, level: float) -> Bars:
    """Mean absolute values; nothing below 0, which no mean of absolute values can be."""
    summary = one.summary()
    low, high = importance_interval(one, summary, level)
    lengths = np.maximum(summary.mean_absolute, 0.0)
    return Bars(lengths, np.minimum(low, lengths), np.maximum(high, lengths), None, told(one, level))
