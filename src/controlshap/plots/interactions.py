"""The largest interactions of a row, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import check_whole
from controlshap.plots.canvas import draw_bars, open_table, sign_colours, style_axes
from controlshap.plots.selection import describe_left, select
from controlshap.results.wording import describe_zero_errors, escape, format_column, format_level

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


def draw_interactions(
    explanation: Explanation, *, row: int, output: int | str | None, max_pairs: int | None, level: float, ax: Any
) -> Any:
    """See `Plots.interactions`."""
    chosen = select(explanation, row=row, output=output, level=level)
    found = chosen.part.interactions
    ranking, first, second = found.ranking(level), *np.triu_indices(len(chosen.names), 1)
    n = len(first) if max_pairs is None else min(len(first), check_whole("max_pairs", max_pairs, 1, "pairs, or None"))
    order = ranking.order[0][:n]
    first, second = first[order], second[order]
    low, high = (bound[0, first, second] for bound in found.confidence_interval(level, simultaneous=True))
    lengths, pale = found.index[0, first, second], ~ranking.signs[0][:n]
    labels = [escape(f"{chosen.names[i]} × {chosen.names[j]}") for i, j in zip(first, second, strict=True)]
    ax = open_table(ax, "interactions", labels, column=format_column(lengths, np.zeros(n), [True] * n))
    draw_bars(ax, lengths, low, high, sign_colours(lengths, pale))
    sampled = bool((high > low).any())
    errors = f"{format_level(level)} intervals of all pairs together" if sampled else describe_zero_errors(chosen.part)
    notes = ["pale: sign not certain" if pale.any() else "", describe_left(ranking.order.shape[1] - n)]
    style_axes(ax, title=chosen.title, x_label=f"interaction, {errors}", notes=notes)
    return ax
