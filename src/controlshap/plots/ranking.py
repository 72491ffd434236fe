"""The order of the players of a row, with what of it is certified."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._types import BoolArray, FloatArray
from controlshap.plots.canvas import INK, LINE, NEGATIVE, POSITIVE, SMALL, SOFT, font_size, open_table, style_axes
from controlshap.plots.selection import select
from controlshap.results.wording import escape, format_chance, format_level

if TYPE_CHECKING:
    from controlshap.plots.accessor import Plots


def draw_ranking(
    plots: Plots,
    row: int = 0,
    *,
    output: int | str | None = None,
    max_players: int | None = 20,
    level: float = 0.95,
    ax: Any = None,
) -> Any:
    """Players of a row by magnitude, and how much of their order is certain.

    A line runs between neighbours that `explanation.ranking(level)` separates: those above it are certified to be
    the largest. Between other neighbours stands the chance that a rerun of the same size swaps them.

    Parameters
    ----------
    row : int
    output, max_players, level, ax
        See the class.
    """
    chosen = select(plots.explanation, row=row, output=output, max_players=max_players, level=level)
    n, ranking = chosen.n_shown, chosen.part.ranking(chosen.level)
    order = ranking.order[0][:n]
    values = chosen.part.values[0][order]
    low, high = magnitude_interval(chosen.low[0][order], chosen.high[0][order])
    # of the players that are shown; the last is compared with the first that is not
    separated = ranking.separated[0][:n]
    header = "" if separated[: n - 1].all() else "swap on a rerun"
    ax = open_table(ax, [escape(chosen.names[player]) for player in order], header=header, extra=0.1)
    _draw_sizes(ax, values, low, high)
    _draw_order(ax, separated, ranking.swap_probability[0][: n - 1], min(SMALL, font_size(ax, n)) - 0.5)
    ax.margins(x=0.05)
    ax.set_xlim(left=0.0)
    handles, labels = ax.get_legend_handles_labels()
    # above the plot and below the title: inside it a legend would hide some interval or other
    ax.legend(
        handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, fontsize=SMALL, frameon=False,
        handletextpad=0.3, columnspacing=1.0, borderpad=0.0, borderaxespad=0.1,
    )  # fmt: skip
    notes = [_describe_order(separated, level, exact=chosen.errors == "exact"), chosen.not_shown]
    style_axes(ax, title=chosen.title, x_label=f"|Shapley value|, {chosen.errors}", notes=notes, pad=18.0)
    return ax


def _draw_sizes(ax: Any, values: FloatArray, low: FloatArray, high: FloatArray) -> None:
    """Dots at the absolute values, coloured by sign, with intervals."""
    sizes = np.abs(values)
    for sign, colour, label in ((values >= 0, POSITIVE, "positive"), (values < 0, NEGATIVE, "negative")):
        if sign.any():
            ends = np.stack([sizes - low, high - sizes])[:, sign]
            places = np.flatnonzero(sign)
            drawn = {"fmt": "o", "color": colour, "markersize": 4.5, "label": label, "clip_on": False, "zorder": 3}
            if (high > low).any():
                drawn |= {"xerr": np.maximum(ends, 0.0), "elinewidth": 1.3, "capsize": 2.2, "capthick": 1.1}
            ax.errorbar(sizes[sign], places, **drawn)


def magnitude_interval(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds of absolute values from bounds of the values."""
    ends = np.stack([np.abs(low), np.abs(high)])
    return np.where((low <= 0) & (high >= 0), 0.0, ends.min(axis=0)), ends.max(axis=0)


def _describe_order(separated: BoolArray, level: float, *, exact: bool) -> str:
    if len(separated) == 0:
        return ""
    if not separated.any():
        return "all are tied" if exact else f"no place of the order is certified at {format_level(level)}"
    return "line: those above are " + ("the largest" if exact else f"certified the largest, at {format_level(level)}")


def _draw_order(ax: Any, separated: BoolArray, swaps: FloatArray, size: float) -> None:
    """Lines between certified neighbours; brackets and chances of a swap between the others."""
    beside = ax.get_yaxis_transform()
    for cut in np.flatnonzero(separated):
        ax.plot(
            [0.0, 1.0], [cut + 0.5] * 2, transform=beside, color=SOFT, linewidth=0.9, clip_on=False,
            label="_certified", zorder=0.95,
        )  # fmt: skip
    for place, swap in enumerate(swaps):
        if not separated[place]:
            ax.text(
                1.035, place + 0.5, format_chance(float(swap)), transform=beside, ha="left", va="center", fontsize=size,
                color=INK if swap >= 0.1 else SOFT,
            )  # fmt: skip
    for first, last in open_groups(separated[: len(swaps)]):
        ax.plot(
            [1.012, 1.02, 1.02, 1.012], [first - 0.15, first - 0.15, last + 0.15, last + 0.15], transform=beside,
            color=LINE, linewidth=1.0, clip_on=False, label="_open", solid_capstyle="butt",
        )  # fmt: skip


def open_groups(separated: BoolArray) -> list[tuple[int, int]]:
    """First and last places of the runs of players whose order is not certified."""
    edges = [-1, *np.flatnonzero(separated), len(separated)]
    return [(a + 1, b) for a, b in pairwise(edges) if b > a + 1]
