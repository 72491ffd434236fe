"""Values of a row as evaluations were spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.plots.canvas import (
    AROUND,
    INK,
    LINE,
    PLAIN,
    SEVERAL,
    SMALL,
    open_axes,
    plot_height,
    style_axes,
    text_width,
    use_logarithm,
)
from controlshap.plots.selection import select
from controlshap.results.wording import escape
from controlshap.statistics.certainty import magnitude_order, quantile

if TYPE_CHECKING:
    from controlshap.plots.accessor import Plots

#: Inches between names at the ends of the lines.
NAME_HEIGHT = 0.17
STYLES = ("-", "--", ":", "-.")


def draw_convergence(
    plots: Plots,
    row: int = 0,
    *,
    output: int | str | None = None,
    max_players: int | None = 8,
    level: float = 0.95,
    ax: Any = None,
) -> Any:
    """Values of a row with their intervals as evaluations were spent; needs `explainer(X, history=True)`.

    The bands use the degrees of freedom at the end, so that the first ones are a little too narrow.

    Parameters
    ----------
    row : int
    output, max_players, level, ax
        See the class.
    """
    explanation = plots.explanation
    chosen = select(explanation, row=row, output=output, max_players=max_players, level=level)
    part, n = chosen.part, chosen.n_shown
    if part.history is None:
        raise InvalidArgumentError(
            "`explanation.history` was not recorded, and `plot.convergence()` draws it. "
            "Explain with `explainer(X, history=True)`."
        )
    past = part.history[0]
    looks, values, errors = past.n_evaluations, past.values, past.standard_errors
    if len(looks) == 0:  # what is exact from the start has no past
        looks, values, errors = part.n_evaluations, part.values, part.standard_errors
    order = magnitude_order(part.values[0])[:n]
    reaches = quantile(part.degrees_of_freedom[0], (1.0 - chosen.level) / 2.0) * errors
    names = [escape(chosen.names[player]) for player in order]
    height = max(2.6, n * NAME_HEIGHT) + AROUND
    is_new = ax is None
    ax = open_axes(ax, 5.2 + text_width(names, SMALL), height)
    for place, player in enumerate(order):
        colour, style = SEVERAL[place % len(SEVERAL)], STYLES[place // len(SEVERAL) % len(STYLES)]
        _draw_line(ax, looks, values[:, player], reaches[:, player], colour, style)
    ax.axhline(0.0, color=LINE, linewidth=0.9, zorder=0.9)
    _scale_evaluations(ax, looks)
    ax.set_ylim(*limits(values[:, order], reaches[:, order]))
    _draw_names(ax, names, values[-1, order], height - AROUND if is_new else plot_height(ax))
    notes = [chosen.errors, chosen.not_shown]
    style_axes(ax, title=chosen.title, x_label="model evaluations", y_label="Shapley value", notes=notes, grid="y")
    return ax


def _scale_evaluations(ax: Any, looks: Any) -> None:
    if looks.min() > 0 and looks.max() > 5 * looks.min():
        reach = (looks.max() / looks.min()) ** 0.03
        use_logarithm(ax.xaxis, looks.min() / reach, looks.max() * reach)
    else:
        ax.margins(x=0.03)
        ax.locator_params(axis="x", nbins=6)


def _draw_line(ax: Any, looks: Any, values: FloatArray, reaches: FloatArray, colour: str, style: str) -> None:
    """A line with its band; the first stage may have no error yet."""
    known = np.isfinite(reaches)
    low, high = np.where(known, values - reaches, np.nan), np.where(known, values + reaches, np.nan)
    if len(looks) == 1:
        ax.errorbar(looks, values, yerr=np.where(known, reaches, 0.0), fmt="o", color=colour, markersize=4, capsize=2.2)
        return
    ax.fill_between(looks, low, high, where=known, color=colour, alpha=0.16, linewidth=0)
    ax.plot(looks, values, color=colour, linestyle=style, linewidth=1.4, marker="o", markersize=2.2)


def limits(values: FloatArray, reaches: FloatArray) -> tuple[float, float]:
    """Limits of the vertical axis: the later half of the stages with their bands, and 0.

    Earlier stages may be wild; they extend the axis by at most half as much again on either side.
    """
    half = len(values) // 2
    known = np.where(np.isfinite(reaches[half:]), reaches[half:], 0.0)
    low, high = min((values[half:] - known).min(), 0.0), max((values[half:] + known).max(), 0.0)
    span = high - low or 1.0
    low, high = min(low, max(values.min(), low - 0.5 * span)), max(high, min(values.max(), high + 0.5 * span))
    return float(low - 0.05 * span), float(high + 0.05 * span)


def _draw_names(ax: Any, names: list[str], ends: FloatArray, height: float) -> None:
    """Names right of the lines' ends, moved apart where they would touch."""
    low, high = ax.get_ylim()
    wanted = (ends - low) / (high - low)
    for place, (name, at, moved) in enumerate(
        zip(names, wanted, spread_out(wanted, NAME_HEIGHT / height), strict=True)
    ):
        colour = SEVERAL[place % len(SEVERAL)]
        ax.annotate(
            name, xy=(1.0, at), xytext=(1.035, moved), xycoords="axes fraction", textcoords="axes fraction", ha="left",
            va="center", fontsize=SMALL, color=INK, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 1.0, "shrinkA": 1.0, "shrinkB": 0.0,
                        "relpos": (0.0, 0.5), "linestyle": STYLES[place // len(SEVERAL) % len(STYLES)]},
            **PLAIN,
        )  # fmt: skip


def spread_out(wanted: FloatArray, gap: float) -> FloatArray:
    """Positions from 0 to 1 close to those wanted, at least `gap` apart, in the same order."""
    n = len(wanted)
    gap = min(gap, 1.0 / max(1, n - 1))
    order = np.argsort(wanted, kind="stable")
    rising = wanted[order] - gap * np.arange(n)
    # least squares under an order: pool neighbours that are the wrong way round
    blocks: list[tuple[float, int]] = []
    for value in rising:
        mean, count = float(value), 1
        while blocks and blocks[-1][0] > mean:
            before, size = blocks.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        blocks.append((mean, count))
    smooth = np.repeat([mean for mean, _ in blocks], [count for _, count in blocks])
    smooth = np.clip(smooth, 0.0, 1.0 - gap * (n - 1))
    positions = np.empty(n)
    positions[order] = smooth + gap * np.arange(n)
    return positions
