"""A dot for each row and player."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import check_level
from controlshap._types import FloatArray
from controlshap.plots.canvas import LINE_HEIGHT, SMALL, dress, not_shown, plot_height, sentence, table_axes, which
from controlshap.plots.certainty_marks import interval_marks
from controlshap.plots.palette import INK, LINE, NO_SIZE, SOFT, data_colours
from controlshap.plots.selection import check_max_players, check_output, narrowed
from controlshap.plots.swarm import offsets
from controlshap.results.naming import escaped, short_names
from controlshap.results.numerals import percent
from controlshap.results.shown import shades

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: Share of a line's height that a swarm may take on either side.
REACH = 0.4
#: Lines below which the colour bar is too short for words.
FEW = 5
#: Dots from which vector formats hold a bitmap of them.
MANY = 5_000


def draw_beeswarm(
    explanation: Explanation, *, output: int | str | None, max_players: int | None, level: float, ax: Any
) -> Any:
    """See `Plots.beeswarm`."""
    level = check_level(level)
    number = check_output(explanation, output)
    n_players = len(explanation.feature_names)
    n_shown = check_max_players(max_players, n_players)
    one = narrowed(explanation, output=number)
    order = one.summary().order[:n_shown]
    marks = interval_marks(one, level)
    data = one.player_data()
    n_rows = len(one)
    values, uncertain = one.values[:, order], marks.uncertain[:, order]
    scaled = np.column_stack([shades(data[:, player]) for player in order])
    # one row has nothing to be compared with: its colours would say nothing
    coloured = n_rows > 1 and bool(np.isfinite(scaled).any())
    names = short_names(explanation.feature_names)
    ax = table_axes(ax, "beeswarm", [escaped(names[player]) for player in order], extra=0.7 if coloured else 0.0)
    line = 72.0 * min(LINE_HEIGHT, plot_height(ax) / (n_shown + 0.2))
    diameter = min(float(np.clip(26.0 / n_rows**0.33, 2.4, 5.5)), 0.5 * line)
    places = np.arange(n_shown) + _sideways(values, diameter, line)
    _dots(ax, values, places, scaled if coloured else None, uncertain, diameter)
    ax.axvline(0.0, color=LINE, linewidth=0.9, zorder=0.9)
    ax.margins(x=0.04)
    grey = coloured and not bool(np.isfinite(scaled).all())
    dress(
        ax,
        title=which(explanation, output=number),
        x_label=f"Shapley value, {n_rows} row{'s' if n_rows > 1 else ''}{', exact' if marks.told == 'exact' else ''}",
        caption=sentence(
            "colour: the feature's data" if coloured and n_shown < FEW else "",
            f"hollow: sign not certain at {percent(level)}" if uncertain.any() else "",
            "grey: category or missing" if grey else "",
            not_shown(n_players - n_shown),
        ),
    )
    if coloured:
        _scale(ax, n_shown)
    return ax


def _sideways(values: FloatArray, diameter: float, line: float) -> FloatArray:
    """Offsets `(rows, players)` in lines, for dots and lines of some points in a plot of the usual width."""
    span = float(np.ptp(values)) or 1.0
    step = span * diameter / 330.0
    spacing = 0.8 * diameter / line
    return np.column_stack([offsets(column, step, spacing, REACH) for column in values.T])


def _dots(ax: Any, values: Any, places: Any, scaled: Any, uncertain: Any, diameter: float) -> None:
    from matplotlib.colors import to_rgba

    colours = np.empty((*values.shape, 4))
    if scaled is None:
        colours[:] = to_rgba(INK)
    else:
        colours[:] = to_rgba(NO_SIZE)
        sized = np.isfinite(scaled)
        colours[sized] = data_colours()(scaled[sized])
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


def _scale(ax: Any, n_lines: int) -> None:
    """A colour bar that says low and high only: every player has a scale of its own."""
    from matplotlib.cm import ScalarMappable

    height = max(n_lines * LINE_HEIGHT, 0.5)
    length = min(height, 2.6)
    bar = ax.figure.colorbar(
        ScalarMappable(cmap=data_colours()), ax=ax, ticks=[0.0, 1.0], shrink=length / height, aspect=length / 0.11,
        anchor=(0.0, 1.0) if height > 6.0 else (0.0, 0.5), pad=0.02,
    )  # fmt: skip
    bar.ax.set_yticklabels(["low", "high"], fontsize=SMALL, color=SOFT)
    bar.ax.tick_params(length=0)
    if n_lines >= FEW:
        bar.set_label("the feature's data", fontsize=SMALL, color=SOFT, labelpad=1)
    bar.outline.set_visible(False)
