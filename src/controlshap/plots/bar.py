"""Bars: importance over all rows, or the values of one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap.plots.canvas import UNSIGNED, draw_bars, open_table, sign_colours, style_axes
from controlshap.plots.selection import select
from controlshap.results.wording import escape, format_column, format_entry
from controlshap.statistics.certainty import magnitude_order

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


def draw_bar(
    explanation: Explanation,
    *,
    row: int | str | None,
    output: int | str | None,
    max_players: int | None,
    level: float,
    ax: Any,
) -> Any:
    """See `Plots.bar`."""
    chosen = select(explanation, row=row, output=output, max_players=max_players, level=level)
    n = chosen.n_shown
    lengths, low, high = (
        chosen.importance if chosen.row is None else (chosen.part.values[0], chosen.low[0], chosen.high[0])
    )
    order = magnitude_order(lengths)[:n]
    lengths, low, high = lengths[order], low[order], high[order]
    names = chosen.names
    if chosen.row is not None:
        data = explanation.player_data()[chosen.row]  # a row alone would not show which groups are one-hot
        names = [f"{name} = {format_entry(entry)}" for name, entry in zip(names, data, strict=True)]
    labels = [escape(names[player]) for player in order]
    ax = open_table(ax, "bar", labels, column=format_column(lengths, np.zeros(n), [row is not None] * n))
    pale = None if row is None else chosen.uncertain[0][order]
    draw_bars(ax, lengths, low, high, UNSIGNED if pale is None else sign_colours(lengths, pale))
    what = "Shapley value"
    if row is None:
        ax.set_xlim(left=0.0)
        what = f"mean |Shapley value| over {len(explanation)} rows" if len(explanation) > 1 else "|Shapley value|"
    uncertain = "pale: sign not certain" if pale is not None and pale.any() else ""
    style_axes(ax, title=chosen.title, x_label=f"{what}, {chosen.errors}", notes=[uncertain, chosen.not_shown])
    return ax
