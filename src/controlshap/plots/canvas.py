"""Figures and axes: sizes that follow the content, a quiet look, and room for every label."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from controlshap._errors import InvalidArgumentError
from controlshap._optional import require
from controlshap.plots.palette import GRID, INK, LINE, SOFT
from controlshap.results.naming import CATEGORY_WIDTH, cleaned, escaped, shortened

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: Inches: height of a player's line, what stands above and below all lines, width of the plot itself.
LINE_HEIGHT, AROUND, PLOT_WIDTH = 0.27, 1.15, 4.6
FONT_SIZE, SMALL = 9.0, 8.0
#: Characters of a line below the plot.
NOTE_WIDTH = 76
#: Users' strings stay text even where TeX sets the rest.
PLAIN: dict[str, Any] = {"usetex": False}


def pyplot(method: str) -> Any:
    """`matplotlib.pyplot`, or the way to get it."""
    return require("matplotlib.pyplot", extra="plots", feature=f"`explanation.plot.{method}()`")


def open_axes(ax: Any, method: str, width: float, height: float) -> Any:
    """The user's axes, or those of a new figure (inches)."""
    plt = pyplot(method)
    if ax is None:
        return plt.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, plt.Axes):
        raise InvalidArgumentError(
            f"`ax` must be one matplotlib Axes; got {type(ax).__name__}. Leave it out for a new figure."
        )
    return ax


def text_width(texts: Sequence[str], size: float) -> float:
    """Inches that the widest text takes."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(size=size)
    # a few of the longest are enough: letters differ in width by less than that
    longest = sorted(set(texts), key=len)[-25:]
    return (
        max((float(TextPath((0, 0), text, prop=font).get_extents().width) for text in longest if text), default=0.0)
        / 72
    )


def table_axes(
    ax: Any, method: str, labels: Sequence[str], *, column: Sequence[str] = (), header: str = "", extra: float = 0.0
) -> Any:
    """Axes with one line for each label, the first on top, and perhaps a column of text on the right.

    Labels and column must be escaped; `extra` is width for what else stands beside the plot.
    """
    pyplot(method)
    n = len(labels)
    width = text_width(labels, FONT_SIZE) + text_width([*column, header], SMALL) + 0.5
    ax = open_axes(ax, method, width + PLOT_WIDTH + extra, n * LINE_HEIGHT + AROUND)
    size = line_font(ax, n)
    ax.set_ylim(n - 0.4, -0.6)
    ax.set_yticks(range(n), labels, fontsize=size, color=INK, **PLAIN)
    ax.tick_params(axis="y", length=0)
    right_column(ax, column, size=min(SMALL, size), header=header)
    return ax


def line_font(ax: Any, n_lines: int) -> float:
    """A font size with which so many lines do not touch in these axes."""
    return min(FONT_SIZE, max(3.0, 0.72 * plot_height(ax) * 72.0 / (n_lines + 0.2)))


def plot_height(ax: Any) -> float:
    """Inches of the axes, before a layout has moved them."""
    return float(ax.get_position().height * ax.figure.get_figheight())


def right_column(ax: Any, column: Sequence[str], *, size: float, header: str = "") -> None:
    """Texts right of the plot, one for each line."""
    for place, text in enumerate(column):
        ax.text(
            1.015, place, text, transform=ax.get_yaxis_transform(), ha="left", va="center", fontsize=size, color=SOFT,
            **PLAIN,
        )  # fmt: skip
    if header:
        ax.text(1.015, 1.0, header, transform=ax.transAxes, ha="left", va="bottom", fontsize=size, color=SOFT, **PLAIN)


def dress(
    ax: Any, *, title: str = "", x_label: str = "", y_label: str = "", caption: str = "", grid: str = "x"
) -> None:
    """Title, labels, a note below, a light grid. All texts are escaped already."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(LINE)
    ax.tick_params(axis="x", labelsize=SMALL, color=LINE, labelcolor=INK)
    ax.grid(axis=grid, color=GRID, linewidth=0.7)
    ax.set_axisbelow(True)
    if title:
        ax.set_title(fill(title, 54), loc="left", fontsize=FONT_SIZE + 1, color=INK, **PLAIN)
    notes = caption if len(caption) <= NOTE_WIDTH else caption.replace("; ", "\n")
    below = [x_label, notes] if notes else [x_label]
    ax.set_xlabel("\n".join(below), fontsize=SMALL, color=INK, linespacing=1.35, **PLAIN)
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_offset_text().set_fontsize(SMALL)
    if y_label:
        ax.set_ylabel(y_label, fontsize=SMALL, color=INK, **PLAIN)


def which(explanation: Explanation, *, row: int | None = None, output: int | None = None) -> str:
    """The row and output in words, escaped; empty when there is nothing to tell apart."""
    parts = [] if row is None else [f"row {row}"]
    if output is not None:
        names = explanation.output_names
        name = shortened(cleaned(names[output]), CATEGORY_WIDTH) if names else str(output)
        parts.append(f"output {name}")
    text = ", ".join(parts)
    return escaped(text[:1].upper() + text[1:])


def sentence(*parts: str) -> str:
    """Notes that are not empty, with semicolons between."""
    return "; ".join(part for part in parts if part)


def not_shown(n_left: int) -> str:
    """How many players were left out."""
    return "" if n_left == 0 else f"{n_left} smaller {'one is' if n_left == 1 else 'ones are'} not shown"
