"""Values of a player against its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._types import FloatArray
from controlshap.plots.beeswarm import spread_dots
from controlshap.plots.canvas import (
    FAINT,
    INK,
    LINE,
    NEGATIVE,
    NO_SIZE,
    PLAIN,
    SEVERAL,
    SMALL,
    SOFT,
    data_colours,
    open_axes,
    style_axes,
    text_width,
)
from controlshap.plots.selection import check_player, select
from controlshap.results.player_data import PlayerData, classify
from controlshap.results.wording import escape, format_label
from controlshap.statistics.certainty import rounding_floor

if TYPE_CHECKING:
    from controlshap.plots.accessor import Plots
    from controlshap.results.explanation import Explanation

#: Share of the axis between the largest number and what is missing.
GAP = 0.16


def draw_dependence(
    plots: Plots,
    player: int | str,
    *,
    by: int | str | None = None,
    output: int | str | None = None,
    level: float = 0.95,
    ax: Any = None,
) -> Any:
    """Values of one player against its data, with intervals; one dot for each row.

    Parameters
    ----------
    player : int or str
        Number or name.
    by : int or str, optional
        The player whose data colour the dots; "partner" for the one whose interactions with this player are
        certainly the strongest, of an explanation with `interactions=2`.
    output, level, ax
        See the class.
    """
    explanation = plots.explanation
    number = check_player(explanation, player, "player")
    chosen = select(explanation, output=output, level=level)
    by_strength = by == "partner" and "partner" not in explanation.feature_names
    if by_strength:
        other = _find_partner(chosen.part, number, level)
    else:
        other = None if by is None else check_player(explanation, by, "by")
    data = chosen.part.player_data()
    names = [escape(name) for name in chosen.names]
    by_name = "" if other is None else names[other]
    values, reaches = chosen.part.values[:, number], chosen.reaches[:, number]
    shown = classify(data[:, number])
    n_places = len(shown.categories) + 1
    key = None if other is None else classify(data[:, other])
    ax = open_axes(ax, max(5.6, 1.6 + 0.62 * n_places) + _key_width(key, by_name), 4.0)
    positions = _positions(ax, shown, values)
    colours = None if key is None else _colours(ax, key, by_name)
    n_rows = len(values)
    if (reaches > 0).any():
        width = 0.8 if n_rows < 150 else 0.5
        bars = ax.errorbar(positions, values, yerr=reaches, fmt="none", elinewidth=width, zorder=2, ecolor=FAINT)
        bars.set_label("_intervals")
    size = float(np.clip(40.0 / n_rows**0.33, 2.8, 5.5))
    ax.scatter(positions, values, s=size**2, color=NEGATIVE if colours is None else colours, linewidths=0, zorder=3)
    ax.axhline(0.0, color=LINE, linewidth=0.9, zorder=0.9)
    grey = key is not None and key.numbers is not None and bool(key.apart.any())
    notes = [chosen.errors, "grey: no data for the colour" if grey else ""]
    if by_strength:
        notes.append(
            "no interaction is certain" if other is None else "colour: the partner of the strongest interaction"
        )
    style_axes(ax, title=chosen.title, x_label=names[number], y_label="Shapley value", notes=notes, grid="y")
    return ax


def _find_partner(explanation: Explanation, number: int, level: float) -> int | None:
    """The player whose interactions with this one are certainly largest, on average over rows; None where none is.

    What is certain of a row is how far its simultaneous interval stays away from 0.
    """
    low, high = explanation.interactions.confidence_interval(level, simultaneous=True)
    certain = np.maximum(0.0, np.maximum(low, -high))[:, number].mean(axis=0)
    return int(certain.argmax()) if certain.max() > rounding_floor(explanation.interactions.index.ravel()) else None


def _apart_label(shown: PlayerData) -> str:
    if shown.numbers is None or not np.isinf(shown.numbers).any():
        return "missing"
    return "missing or\ninfinite" if np.isnan(shown.numbers).any() else "infinite"


def _positions(ax: Any, shown: PlayerData, values: FloatArray) -> FloatArray:
    """Places on the horizontal axis, which gets its ticks; what has no number or category stands apart."""
    apart = shown.apart
    step = (float(np.ptp(values)) or 1.0) / 45.0
    if shown.numbers is None:
        places, labels = list(range(len(shown.categories))), [escape(label) for label in shown.categories]
        positions = shown.codes.astype(float)
        if apart.any():
            places, labels = [*places, len(places)], [*labels, "missing"]
            positions[apart] = len(places) - 1
            _fence(ax, len(places) - 1.5)
        for place in places:
            members = positions == place
            positions[members] += spread_dots(values[members], step, 0.05, 0.32)
        turned = max((len(label) for label in labels), default=0) * len(labels) > 60
        ax.set_xticks(
            places, labels, fontsize=SMALL, rotation=35 if turned else 0, ha="right" if turned else "center",
            rotation_mode="anchor" if turned else "default", **PLAIN,
        )  # fmt: skip
        ax.set_xlim(-0.6, len(places) - 0.4)
        return positions
    positions = shown.numbers.copy()
    usable = positions[~apart]
    low, high = (float(usable.min()), float(usable.max())) if len(usable) else (0.0, 0.0)
    span = high - low or max(abs(low), 1.0)
    if not apart.any():
        ax.locator_params(axis="x", nbins=7)
        ax.set_xlim(low - 0.04 * span, high + 0.04 * span)
        return positions
    from matplotlib.ticker import MaxNLocator

    at = high + GAP * span if len(usable) else 0.0
    ticks = [tick for tick in MaxNLocator(5).tick_values(low, high) if low <= tick <= high] if len(usable) else []
    ax.set_xticks([*ticks, at], [*(format_label(float(tick)) for tick in ticks), _apart_label(shown)])
    ax.set_xlim(low - 0.04 * span, at + 0.07 * span)
    if len(usable):
        _fence(ax, high + 0.5 * GAP * span)
    positions[apart] = at + spread_dots(values[apart], step, 0.008 * span, 0.05 * span)
    return positions


def _fence(ax: Any, at: float) -> None:
    ax.axvline(at, color=LINE, linewidth=0.8, linestyle=(0, (2, 3)), zorder=0.9)


def _key_width(key: PlayerData | None, name: str) -> float:
    """Inches that the key of the colours takes."""
    if key is None or key.numbers is not None:
        return 0.0 if key is None else 0.9
    return text_width([name, *(escape(label) for label in key.categories)], SMALL) + 0.4


def _colours(ax: Any, shown: PlayerData, name: str) -> Any:
    """Colours of the rows `(rows, 4)` by another player's data, and their key."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_rgba
    from matplotlib.lines import Line2D

    colours = np.empty((len(shown.codes), 4))
    colours[:] = to_rgba(NO_SIZE)
    if shown.numbers is not None and not shown.apart.all():
        usable = shown.numbers[~shown.apart]
        mappable = ScalarMappable(Normalize(float(usable.min()), float(usable.max())), data_colours(ax))
        colours[~shown.apart] = mappable.to_rgba(usable)
        bar = ax.figure.colorbar(mappable, ax=ax, aspect=28, pad=0.02)
        bar.ax.tick_params(labelsize=SMALL, length=0, labelcolor=INK)
        bar.outline.set_visible(False)
        bar.set_label(name, fontsize=SMALL, color=SOFT, **PLAIN)
        return colours
    keys: list[tuple[str, Any]] = []
    for code, label in enumerate(shown.categories):
        # more categories than colours: the last colours are shared, and the key says so
        colour = to_rgba(SEVERAL[code]) if code < len(SEVERAL) else to_rgba(INK)
        colours[shown.codes == code] = colour
        keys.append((escape(label), colour))
    if shown.apart.any():
        keys.append(("missing", to_rgba(NO_SIZE)))
    if len(shown.categories) > len(SEVERAL) + 1:
        n_more = len(keys) - len(SEVERAL) - bool(shown.apart.any())
        keys[len(SEVERAL) : len(SEVERAL) + n_more] = [(f"{n_more} others", to_rgba(INK))]
    handles = [Line2D([], [], marker="o", linestyle="none", color=colour, markersize=4.5) for _, colour in keys]
    key = ax.legend(
        handles, [label for label, _ in keys], title=name, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False,
        fontsize=SMALL, title_fontsize=SMALL, handletextpad=0.2, alignment="left",
    )  # fmt: skip
    for text in [*key.get_texts(), key.get_title()]:
        text.set_usetex(False)
        text.set_color(INK)
    return colours
