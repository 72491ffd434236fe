"""All values at once: players by rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap.plots.canvas import INK, NEGATIVE, POSITIVE, SMALL, is_dark, open_table, style_axes
from controlshap.plots.selection import select
from controlshap.results.wording import escape, format_level

if TYPE_CHECKING:
    from controlshap.plots.accessor import Plots

#: Share of the colour that a value keeps whose sign is not certain.
PALE = 0.35


def draw_heatmap(
    plots: Plots, *, output: int | str | None = None, max_players: int | None = 20, level: float = 0.95, ax: Any = None
) -> Any:
    """All values at once, players by rows; rows run from the smallest prediction to the largest.

    Pale cells are values whose sign is not certain. Colours end at the 99 % quantile of the magnitudes.

    Parameters
    ----------
    output, max_players, level, ax
        See the class.
    """
    chosen = select(plots.explanation, output=output, max_players=max_players, level=level)
    part = chosen.part
    players = part.summary().order[: chosen.n_shown]
    predictions = part.base_values + part.values.sum(axis=1)
    rows = np.argsort(predictions, kind="stable")
    values, uncertain = part.values[np.ix_(rows, players)].T, chosen.uncertain[np.ix_(rows, players)].T
    ax = open_table(ax, [escape(chosen.names[player]) for player in players], extra=0.7)
    from matplotlib.colors import LinearSegmentedColormap, Normalize, to_hex, to_rgb

    middle = to_rgb(ax.get_facecolor()) if is_dark(ax) else (1.0, 1.0, 1.0)
    colours = LinearSegmentedColormap.from_list("signs", [NEGATIVE, to_hex(middle), POSITIVE])
    # the largest few values would leave all others white
    most = float(np.quantile(np.abs(values), 0.99)) or float(np.abs(values).max()) or 1.0
    norm = Normalize(-most, most, clip=True)
    painted = colours(norm(values))
    painted[uncertain, :3] = (1.0 - PALE) * np.array(middle) + PALE * painted[uncertain, :3]
    ax.imshow(painted, aspect="auto", interpolation="nearest", extent=(-0.5, len(rows) - 0.5, len(players) - 0.5, -0.5))
    ax.set_ylim(len(players) - 0.5, -0.5)
    from matplotlib.cm import ScalarMappable

    bar = ax.figure.colorbar(ScalarMappable(norm, colours), ax=ax, fraction=0.03, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL - 1, labelcolor=INK, length=2)
    bar.set_label("Shapley value", fontsize=SMALL, color=INK)
    notes = [
        chosen.errors if not uncertain.any() else f"pale: sign not certain at {format_level(chosen.level)}",
        chosen.not_shown,
    ]
    style_axes(ax, title=chosen.title, x_label="rows, by prediction from smallest to largest", notes=notes, grid="")
    return ax
