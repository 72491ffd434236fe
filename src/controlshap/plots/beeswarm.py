"""A dot for each row and player."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.plots.canvas import (
    INK,
    LINE,
    LINE_HEIGHT,
    NO_SIZE,
    SMALL,
    SOFT,
    data_colours,
    open_table,
    plot_height,
    style_axes,
)
from controlshap.plots.selection import select
from controlshap.results.player_data import scale_to_unit
from controlshap.results.wording import escape, format_level

if TYPE_CHECKING:
    from controlshap.plots.accessor import Plots

#: Share of a line's height that a swarm may take on either side.
REACH = 0.4
#: Lines below which the colour bar is too short for words.
FEW = 5
#: Dots from which vector formats hold a bitmap of them.
MANY = 5_000
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def draw_beeswarm(
    plots: Plots, *, output: int | str | None = None, max_players: int | None = 20, level: float = 0.95, ax: Any = None
) -> Any:
    """One dot for each row and player, coloured by the player's data; hollow where the sign is not certain.

    Colours run from a player's 5 % to its 95 % quantile. Categories and missing data are grey.

    Parameters
    ----------
    output, max_players, level, ax
        See the class. Here `level` only decides which dots are hollow.
    """
    chosen = select(plots.explanation, output=output, max_players=max_players, level=level)
    part, n_shown = chosen.part, chosen.n_shown
    order = part.summary().order[:n_shown]
    data = part.player_data()
    n_rows = len(part)
    values, uncertain = part.values[:, order], chosen.uncertain[:, order]
    scaled = np.column_stack([scale_to_unit(data[:, player]) for player in order])
    # one row has nothing to be compared with: its colours would say nothing
    coloured = n_rows > 1 and bool(np.isfinite(scaled).any())
    labels = [escape(chosen.names[player]) for player in order]
    ax = open_table(ax, labels, extra=0.7 if coloured else 0.0)
    line = 72.0 * min(LINE_HEIGHT, plot_height(ax) / (n_shown + 0.2))
    diameter = min(float(np.clip(26.0 / n_rows**0.33, 2.4, 5.5)), 0.5 * line)
    places = np.arange(n_shown) + _sideways(values, diameter, line)
    _draw_dots(ax, values, places, scaled if coloured else None, uncertain, diameter)
    ax.axvline(0.0, color=LINE, linewidth=0.9, zorder=0.9)
    ax.margins(x=0.04)
    grey = coloured and not bool(np.isfinite(scaled).all())
    exact = ", exact" if chosen.errors == "exact" else ""
    notes = [
        "colour: the feature's data" if coloured and n_shown < FEW else "",
        f"hollow: sign not certain at {format_level(level)}" if uncertain.any() else "",
        "grey: category or missing" if grey else "",
        chosen.not_shown,
    ]
    x_label = f"Shapley value, {n_rows} row{'s' if n_rows > 1 else ''}{exact}"
    style_axes(ax, title=chosen.title, x_label=x_label, notes=notes)
    if coloured:
        _draw_scale(ax, n_shown)
    return ax


def spread_dots(positions: FloatArray, step: float, spacing: float, reach: float) -> FloatArray:
    """Sideways offsets of dots at some positions along a line, so that neighbours stand beside each other.

    Parameters
    ----------
    positions : ndarray of shape (n,)
    step : float
        Dots that are less than about this apart get different offsets.
    spacing : float
        Offset of neighbours.
    reach : float
        Largest offset; crowds are pressed together to keep it.
    """
    if len(positions) == 0:
        return np.zeros(0)
    cells: IntArray = (
        np.floor((positions - positions.min()) / step).astype(np.int64)
        if step > 0
        else np.zeros(len(positions), dtype=np.int64)
    )
    offsets = np.zeros(len(positions))
    order = np.lexsort((positions, cells))
    starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
    for members in np.split(order, starts[1:]):
        turn = np.arange(len(members))
        side = np.where(turn % 2 == 1, (turn + 1) // 2, -(turn // 2))
        # in their own order they would draw arrowheads: multiples of the golden ratio mix them evenly
        mixed = np.argsort(turn * GOLDEN % 1.0, kind="stable")
        offsets[members[mixed]] = side * spacing
    widest = np.abs(offsets).max()
    return offsets * (reach / widest) if widest > reach else offsets


def _sideways(values: FloatArray, diameter: float, line: float) -> FloatArray:
    """Offsets `(rows, players)` in lines, for dots and lines of some points in a plot of the usual width."""
    span = float(np.ptp(values)) or 1.0
    step = span * diameter / 330.0
    spacing = 0.8 * diameter / line
    return np.column_stack([spread_dots(column, step, spacing, REACH) for column in values.T])


def _draw_dots(ax: Any, values: Any, places: Any, scaled: Any, uncertain: Any, diameter: float) -> None:
    from matplotlib.colors import to_rgba

    colours = np.empty((*values.shape, 4))
    if scaled is None:
        colours[:] = to_rgba(INK)
    else:
        colours[:] = to_rgba(NO_SIZE)
        sized = np.isfinite(scaled)
        colours[sized] = data_colours(ax)(scaled[sized])
    for hollow in (True, False):
        chosen = uncertain == hollow
        if chosen.any():
            ax.scatter(
                values[chosen],
                places[chosen],
                s=(0.85 * diameter if hollow else diameter) ** 2,
                facecolors="none" if hollow else colours[chosen],
                edgecolors=colours[chosen] if hollow else "none",
                linewidths=0.7 if hollow else 0.0,
                alpha=0.75 if hollow else 0.9,
                rasterized=values.size > MANY,
                label="uncertain" if hollow else "certain",
                zorder=2.0 if hollow else 2.1,
            )


def _draw_scale(ax: Any, n_lines: int) -> None:
    """A colour bar that says low and high only: every player has a scale of its own."""
    from matplotlib.cm import ScalarMappable

    height = max(n_lines * LINE_HEIGHT, 0.5)
    length = min(height, 2.6)
    bar = ax.figure.colorbar(
        ScalarMappable(cmap=data_colours(ax)), ax=ax, ticks=[0.0, 1.0], shrink=length / height, aspect=length / 0.11,
        anchor=(0.0, 1.0) if height > 6.0 else (0.0, 0.5), pad=0.02,
    )  # fmt: skip
    bar.ax.set_yticklabels(["low", "high"], fontsize=SMALL, color=SOFT)
    bar.ax.tick_params(length=0)
    if n_lines >= FEW:
        bar.set_label("the feature's data", fontsize=SMALL, color=SOFT, labelpad=1)
    bar.outline.set_visible(False)
