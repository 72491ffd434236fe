"""Figures and axes: sizes that follow the content, a quiet look, room for every label, few colours.

The colours stay apart for colour-blind readers and on paper, and are the same in every plot. A plot is drawn in those
of a light page. Where matplotlib's style has dark axes (`dark_background`, say), the finished plot is repainted in
lighter ones of the same meaning, so that no plot needs a second set of colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.results.wording import format_label

#: Signs of values, and a paler tone of each where the sign is not certain.
POSITIVE, NEGATIVE = "#C8602B", "#2E6CA4"
PALE_POSITIVE, PALE_NEGATIVE = "#EBC8B5", "#B5CCE1"
#: Sizes without a sign.
UNSIGNED = "#5B7083"
#: Text and intervals, second-rank text, lines, crowded intervals, grid.
INK, SOFT, LINE, FAINT, GRID = "#2B2B2B", "#6A6A6A", "#A8A8A8", "#C9C9C9", "#E6E6E6"
#: Data without a size: categories, missing.
NO_SIZE = "#9B9B9B"
#: Okabe and Ito's colours, for lines and categories; the yellow is left out, which is too light for lines.
SEVERAL = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#6B4C9A")
#: Each colour of a light page, and what stands for it on a dark one.
ON_DARK = {
    POSITIVE: "#EE8B56",
    NEGATIVE: "#63A9E6",
    PALE_POSITIVE: "#7A4A31",
    PALE_NEGATIVE: "#35597A",
    UNSIGNED: "#93A9BC",
    INK: "#EDEDED",
    SOFT: "#B4B4B4",
    LINE: "#7A7A7A",
    FAINT: "#5E5E5E",
    GRID: "#3A3A3A",
    NO_SIZE: "#9B9B9B",
    "#0072B2": "#56A8E8",
    "#6B4C9A": "#A88BD8",
}
#: Properties of artists that hold a colour.
PROPERTIES = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")
#: Below this luminance a background is dark.
DARK = 0.4
#: Inches: height of a player's line, what stands above and below all lines, width of the plot itself.
LINE_HEIGHT, AROUND, PLOT_WIDTH = 0.27, 1.15, 4.6
FONT_SIZE, SMALL = 9.0, 8.0
#: Characters of a line below the plot.
NOTE_WIDTH = 76
#: Users' strings stay text even where TeX sets the rest.
PLAIN: dict[str, Any] = {"usetex": False}
#: Lines and ends of error bars.
ERROR_BARS: dict[str, Any] = {"fmt": "none", "ecolor": INK, "elinewidth": 1.1, "capsize": 2.2, "capthick": 1.1}
#: Most ticks of a logarithmic axis.
MOST_TICKS = 6
#: Leading digits of the ticks of a logarithmic axis, fewest first.
TICK_DIGITS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0))


def open_axes(ax: Any, width: float, height: float) -> Any:
    """The user's axes, or those of a new figure (inches)."""
    import matplotlib.pyplot as plt

    if ax is None:
        return plt.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, plt.Axes):
        raise InvalidArgumentError(
            f"`ax` must be one matplotlib Axes; got {type(ax).__name__}. Leave it out for a new figure."
        )
    return ax


def open_table(
    ax: Any, labels: Sequence[str], *, column: Sequence[str] = (), header: str = "", extra: float = 0.0
) -> Any:
    """Axes with one line for each label, the first on top, and perhaps a column of text on the right.

    Labels and column must be escaped; `extra` is width for what else stands beside the plot.
    """
    n = len(labels)
    width = text_width(labels, FONT_SIZE) + text_width([*column, header], SMALL) + 0.5
    ax = open_axes(ax, width + PLOT_WIDTH + extra, n * LINE_HEIGHT + AROUND)
    size = font_size(ax, n)
    ax.set_ylim(n - 0.4, -0.6)
    ax.set_yticks(range(n), labels, fontsize=size, color=INK, **PLAIN)
    ax.tick_params(axis="y", length=0)
    style = {"ha": "left", "fontsize": min(SMALL, size), "color": SOFT, **PLAIN}
    for place, text in enumerate(column):
        ax.text(1.015, place, text, transform=ax.get_yaxis_transform(), va="center", **style)
    if header:
        ax.text(1.015, 1.0, header, transform=ax.transAxes, va="bottom", **style)
    return ax


def text_width(texts: Sequence[str], size: float) -> float:
    """Inches that the widest text takes."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(size=size)
    # a few of the longest are enough: letters differ in width by less than that
    longest = sorted(set(texts), key=len)[-25:]
    widths = (float(TextPath((0, 0), text, prop=font).get_extents().width) for text in longest if text)
    return max(widths, default=0.0) / 72


def font_size(ax: Any, n_lines: int) -> float:
    """A font size with which so many lines do not touch in these axes."""
    return min(FONT_SIZE, max(3.0, 0.72 * plot_height(ax) * 72.0 / (n_lines + 0.2)))


def plot_height(ax: Any) -> float:
    """Inches of the axes, before a layout has moved them."""
    return float(ax.get_position().height * ax.figure.get_figheight())


def style_axes(
    ax: Any,
    *,
    title: str,
    x_label: str,
    notes: Sequence[str],
    y_label: str = "",
    grid: str = "x",
    pad: float = 6.0,
) -> None:
    """Add title, labels, notes below and a light grid; texts must be escaped, and empty notes are left out.

    `grid` is empty for none; `pad` is the distance of the title in points, more where a legend stands below it.
    """
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(LINE)
    ax.tick_params(axis="x", labelsize=SMALL, color=LINE, labelcolor=INK)
    if grid:
        ax.grid(axis=grid, color=GRID, linewidth=0.7)
    ax.set_axisbelow(True)
    if title:
        ax.set_title(fill(title, 54), loc="left", fontsize=FONT_SIZE + 1, color=INK, pad=pad, **PLAIN)
    written = [note for note in notes if note]
    caption = "; ".join(written)
    below = [x_label, caption if len(caption) <= NOTE_WIDTH else "\n".join(written)] if caption else [x_label]
    ax.set_xlabel("\n".join(below), fontsize=SMALL, color=INK, linespacing=1.35, **PLAIN)
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_offset_text().set_fontsize(SMALL)
    if y_label:
        ax.set_ylabel(y_label, fontsize=SMALL, color=INK, **PLAIN)
        ax.tick_params(axis="y", labelsize=SMALL, color=LINE, labelcolor=INK)


def draw_bars(ax: Any, lengths: FloatArray, low: FloatArray, high: FloatArray, colours: Any) -> None:
    """A bar with its interval on each line, from 0."""
    places = range(len(lengths))
    ax.barh(places, lengths, height=0.62, color=colours)
    if bool((high > low).any()):
        ends = np.maximum(np.stack([lengths - low, high - lengths]), 0.0)
        ax.errorbar(lengths, places, xerr=ends, **ERROR_BARS)
    ax.axvline(0.0, color=LINE, linewidth=0.9, zorder=0.9)


def data_colours(ax: Any) -> Any:
    """Colour map of data, low to high; viridis without the end that is too close to the background of the axes."""
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    low, high = (0.25, 1.0) if is_dark(ax) else (0.0, 0.87)
    shades = colormaps["viridis"](np.linspace(low, high, 256))
    return LinearSegmentedColormap.from_list("controlshap", shades)


def is_dark(ax: Any) -> bool:
    """Whether the axes, or the figure behind transparent ones, have a dark background."""
    from matplotlib.colors import to_rgba

    colour = to_rgba(ax.get_facecolor())
    red, green, blue, _ = colour if colour[3] > 0 else to_rgba(ax.figure.get_facecolor())
    return bool(0.2126 * red + 0.7152 * green + 0.0722 * blue < DARK)


def sign_colours(values: Any, uncertain: Any) -> list[str]:
    """One colour for each value."""
    return [
        (PALE_NEGATIVE if pale else NEGATIVE) if value < 0 else (PALE_POSITIVE if pale else POSITIVE)
        for value, pale in zip(values, uncertain, strict=True)
    ]


def logarithmic_ticks(low: float, high: float) -> FloatArray:
    """Round numbers between two positive ones: three or more where there are such, else the two themselves."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for digits in TICK_DIGITS:
        ticks = np.array([digit * 10.0**power for power in powers for digit in digits])
        ticks = ticks[(ticks >= low) & (ticks <= high)]
        if len(ticks) >= 3:
            return ticks[:: int(np.ceil(len(ticks) / MOST_TICKS))]
    return ticks if len(ticks) == 2 else np.array([low, high])


def use_logarithm(axis: Any, low: float, high: float) -> None:
    """Make `ax.xaxis` logarithmic from `low` to `high`, with few ticks in plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.axes.set_xscale("log")
    axis.axes.set_xlim(low, high)
    axis.set_major_locator(FixedLocator(logarithmic_ticks(low, high).tolist()))
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_label(float(value), 2)))
    axis.set_minor_locator(NullLocator())


def follow_style(ax: Any) -> Any:
    """Repaint a finished plot where its axes are dark; returns the axes."""
    if not is_dark(ax):
        return ax
    from matplotlib.colors import to_hex

    exchange = {to_hex(light): dark for light, dark in ON_DARK.items()}
    own = [ax, *(other for other in ax.figure.axes if other.get_label() == "<colorbar>")]
    for part in own:
        for artist in part.findobj():
            if artist is not part.patch:
                _repaint(artist, exchange)
                if getattr(artist, "get_markerfacecolor", lambda: None)() == "white":  # a hollow mark
                    artist.set_markerfacecolor(ax.get_facecolor())
        for axis in ("x", "y"):
            # ticks that a later draw makes
            part.tick_params(axis=axis, color=ON_DARK[LINE], grid_color=ON_DARK[GRID])
        part.tick_params(axis="x", labelcolor=ON_DARK[INK])
    return ax


def _repaint(artist: Any, exchange: dict[str, str]) -> None:
    from matplotlib.colors import to_hex, to_rgba, to_rgba_array

    for name in PROPERTIES:
        read, write = getattr(artist, f"get_{name}", None), getattr(artist, f"set_{name}", None)
        if read is None or write is None:
            continue
        found = read()
        if isinstance(found, np.ndarray) and found.ndim == 2:  # a collection has one for each of its parts
            hexes = [to_hex(colour) for colour in found]
            if any(colour in exchange for colour in hexes):
                repainted = to_rgba_array([exchange.get(colour, colour) for colour in hexes])
                repainted[:, 3] = found[:, 3]
                write(repainted)
        elif not isinstance(found, str) or found not in ("none", "auto"):
            colour = to_hex(found)
            if colour in exchange:
                write((*to_rgba(exchange[colour])[:3], to_rgba(found)[3]))
