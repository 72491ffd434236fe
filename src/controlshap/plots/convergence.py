"""Values of a row as evaluations were spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import check_level
from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.plots.canvas import (
    AROUND,
    PLAIN,
    SMALL,
    dress,
    not_shown,
    open_axes,
    plot_height,
    pyplot,
    sentence,
    text_width,
    which,
)
from controlshap.plots.certainty_marks import told
from controlshap.plots.palette import INK, LINE, SEVERAL
from controlshap.plots.selection import check_max_players, check_output, check_row, narrowed
from controlshap.plots.ticks import use_logarithm
from controlshap.results.naming import escaped, short_names
from controlshap.statistics.certainty import magnitude_order, quantile

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: Inches between names at the ends of the lines.
NAME_HEIGHT = 0.17
STYLES = ("-", "--", ":", "-.")


def draw_convergence(
    explanation: Explanation, *, row: int, output: int | str | None, max_players: int | None, level: float, ax: Any
) -> Any:
    """See `Plots.convergence`."""
    level = check_level(level)
    number = check_output(explanation, output)
    row = check_row(explanation, row)
    n_players = len(explanation.feature_names)
    n = check_max_players(max_players, n_players)
    if explanation.history is None:
        raise InvalidArgumentError(
            "`explanation.history` was not recorded, and `plot.convergence()` draws it. "
            "Explain with `explainer(X, history=True)`."
        )
    past = explanation.history[row]
    one = narrowed(explanation, row=row, output=number)
    looks, values, errors = past.n_evaluations, past.values, past.standard_errors
    if number is not None:
        values, errors = values[..., number], errors[..., number]
    if len(looks) == 0:  # what is exact from the start has no past
        looks, values, errors = one.n_evaluations, one.values, one.standard_errors
    order = magnitude_order(one.values[0])[:n]
    critical = quantile(one.degrees_of_freedom[0], (1.0 - level) / 2.0)
    pyplot("convergence")
    names = [escaped(short_names(explanation.feature_names)[player]) for player in order]
    height = max(2.6, n * NAME_HEIGHT) + AROUND
    made = ax is None
    ax = open_axes(ax, "convergence", 5.2 + text_width(names, SMALL), height)
    for place, player in enumerate(order):
        colour, style = SEVERAL[place % len(SEVERAL)], STYLES[place // len(SEVERAL) % len(STYLES)]
        _one(ax, looks, values[:, player], critical[player] * errors[:, player], colour, style)
    ax.axhline(0.0, color=LINE, linewidth=0.9, zorder=0.9)
    if looks.min() > 0 and looks.max() > 5 * looks.min():
        reach = (looks.max() / looks.min()) ** 0.03
        use_logarithm(ax.xaxis, looks.min() / reach, looks.max() * reach)
    else:
        ax.margins(x=0.03)
        ax.locator_params(axis="x", nbins=6)
    ax.set_ylim(*limits(values[:, order], (critical * errors)[:, order]))
    _names(ax, names, values[-1, order], height - AROUND if made else plot_height(ax))
    dress(
        ax,
        title=which(explanation, row=row, output=number),
        x_label="model evaluations",
        y_label="Shapley value",
        caption=sentence(told(one, level), not_shown(n_players - n)),
        grid="y",
    )
    ax.tick_params(axis="y", labelsize=SMALL, color=LINE, labelcolor=INK)
    return ax


def _one(ax: Any, looks: Any, values: FloatArray, reaches: FloatArray, colour: str, style: str) -> None:
    """A line with its band; a first look may have no error yet."""
    known = np.isfinite(reaches)
    low, high = np.where(known, values - reaches, np.nan), np.where(known, values + reaches, np.nan)
    if len(looks) == 1:
        ax.errorbar(looks, values, yerr=np.where(known, reaches, 0.0), fmt="o", color=colour, markersize=4, capsize=2.2)
        return
    ax.fill_between(looks, low, high, where=known, color=colour, alpha=0.16, linewidth=0)
    ax.plot(looks, values, color=colour, linestyle=style, linewidth=1.4, marker="o", markersize=2.2)


def limits(values: FloatArray, reaches: FloatArray) -> tuple[float, float]:
    """What the vertical axis shows: the later half of the looks with their bands, and 0.

    Of what came before, half as much again on either side at most: first looks may be wild.
    """
    half = len(values) // 2
    known = np.where(np.isfinite(reaches[half:]), reaches[half:], 0.0)
    low, high = min((values[half:] - known).min(), 0.0), max((values[half:] + known).max(), 0.0)
    span = high - low or 1.0
    low, high = min(low, max(values.min(), low - 0.5 * span)), max(high, min(values.max(), high + 0.5 * span))
    return float(low - 0.05 * span), float(high + 0.05 * span)


def _names(ax: Any, names: list[str], ends: FloatArray, height: float) -> None:
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
    found = np.empty(n)
    found[order] = smooth + gap * np.arange(n)
    return found
