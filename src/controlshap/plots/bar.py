"""Bars: importance over all rows, the values of one row, or its largest interactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import check_whole
from controlshap.plots.canvas import UNSIGNED, draw_bars, open_table, sign_colours, style_axes
from controlshap.plots.selection import describe_left, select
from controlshap.results.wording import describe_zero_errors, escape, format_column, format_entry, format_level
from controlshap.statistics.certainty import magnitude_order

if TYPE_CHECKING:
    from controlshap.plots.accessor import Plots


def draw_bar(
    plots: Plots,
    row: int | None = None,
    *,
    output: int | str | None = None,
    max_players: int | None = 20,
    level: float = 0.95,
    ax: Any = None,
) -> Any:
    """Importance of the players over all rows, or the values of one row, with intervals.

    Parameters
    ----------
    row : int, optional
        The row whose values are drawn; without it, the mean absolute values of `explanation.summary()`. The lower
        end of their intervals then allows for the bias that noise may still add (`Summary.bias_bound`).
    output, max_players, level, ax
        See the class.
    """
    explanation = plots.explanation
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
    ax = open_table(ax, labels, column=format_column(lengths, np.zeros(n), [row is not None] * n))
    pale = None if row is None else chosen.uncertain[0][order]
    draw_bars(ax, lengths, low, high, UNSIGNED if pale is None else sign_colours(lengths, pale))
    what = "Shapley value"
    if row is None:
        ax.set_xlim(left=0.0)
        what = f"mean |Shapley value| over {len(explanation)} rows" if len(explanation) > 1 else "|Shapley value|"
    uncertain = "pale: sign not certain" if pale is not None and pale.any() else ""
    style_axes(ax, title=chosen.title, x_label=f"{what}, {chosen.errors}", notes=[uncertain, chosen.not_shown])
    return ax


def draw_interactions(
    plots: Plots,
    row: int = 0,
    *,
    output: int | str | None = None,
    max_pairs: int | None = 15,
    level: float = 0.95,
    ax: Any = None,
) -> Any:
    """The largest pairwise interactions of a row; needs `explainer(X, interactions=2)`.

    Intervals hold all pairs of the row together; pale bars may have the other sign.

    Parameters
    ----------
    row : int
    max_pairs : int or None
        The most pairs to show, largest first; None for all of them.
    output, level, ax
        See the class.
    """
    chosen = select(plots.explanation, row=row, output=output, level=level)
    found = chosen.part.interactions
    ranking, first, second = found.ranking(level), *np.triu_indices(len(chosen.names), 1)
    n = len(first) if max_pairs is None else min(len(first), check_whole("max_pairs", max_pairs, 1, "pairs, or None"))
    order = ranking.order[0][:n]
    first, second = first[order], second[order]
    low, high = (bound[0, first, second] for bound in found.confidence_interval(level, simultaneous=True))
    lengths, pale = found.index[0, first, second], ~ranking.signs[0][:n]
    labels = [escape(f"{chosen.names[i]} × {chosen.names[j]}") for i, j in zip(first, second, strict=True)]
    ax = open_table(ax, labels, column=format_column(lengths, np.zeros(n), [True] * n))
    draw_bars(ax, lengths, low, high, sign_colours(lengths, pale))
    sampled = bool((high > low).any())
    errors = f"{format_level(level)} intervals of all pairs together" if sampled else describe_zero_errors(chosen.part)
    notes = ["pale: sign not certain" if pale.any() else "", describe_left(ranking.order.shape[1] - n)]
    style_axes(ax, title=chosen.title, x_label=f"interaction, {errors}", notes=notes)
    return ax
