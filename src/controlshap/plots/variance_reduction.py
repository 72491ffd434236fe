"""Standard errors without and with control, player by player."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._types import FloatArray
from controlshap.plots.canvas import FONT_SIZE, NEGATIVE, POSITIVE, SOFT, open_table, style_axes, use_logarithm
from controlshap.plots.selection import select
from controlshap.results.wording import escape, format_factor

if TYPE_CHECKING:
    from controlshap.plots.accessor import Plots
    from controlshap.results.explanation import Explanation


def draw_variance_reduction(
    plots: Plots, *, output: int | str | None = None, max_players: int | None = 20, ax: Any = None
) -> Any:
    """Standard errors without and with the control, and the ratio of their squares.

    Medians over the rows that were sampled; players by importance.

    Parameters
    ----------
    output, max_players, ax
        See the class.
    """
    chosen = select(plots.explanation, output=output, max_players=max_players)
    part, n = chosen.part, chosen.n_shown
    order = part.summary().order[:n]
    sampled = (part.uncontrolled_standard_errors > 0).any(axis=1) | (part.standard_errors > 0).any(axis=1)
    n_exact = int((~sampled).sum())
    plain: FloatArray = np.zeros(n)
    controlled: FloatArray = np.zeros(n)
    if sampled.any():
        plain, controlled = (
            np.median(errors[sampled][:, order], axis=0)
            for errors in (part.uncontrolled_standard_errors, part.standard_errors)
        )
    ratios = variance_ratios(plain, controlled)
    column = [_ratio_text(ratio, before) for ratio, before in zip(ratios, plain, strict=True)]
    labels = [escape(chosen.names[player]) for player in order]
    ax = open_table(ax, labels, column=column, header="variance ratio")
    _draw(ax, plain, controlled)
    notes = [
        "without control (hollow) and with it (filled)" if sampled.any() else "",
        f"{n_exact} exact row{'s' if n_exact > 1 else ''} left out" if n_exact and sampled.any() else "",
        "arrow: no error left" if bool(((controlled == 0) & (plain > 0)).any()) else "",
        chosen.not_shown,
    ]
    x_label = "standard error, median over rows" if len(part) > 1 else "standard error"
    style_axes(ax, title=_title(part, sampled, chosen.title), x_label=x_label, notes=notes)
    return ax


def variance_ratios(plain: FloatArray, controlled: FloatArray) -> FloatArray:
    """Variance without control over variance with it: infinite where it left no error, 1 where there was none."""
    ratio = (plain / np.where(controlled > 0, controlled, 1.0)) ** 2
    return np.where(controlled > 0, ratio, np.where(plain > 0, np.inf, 1.0))


def _ratio_text(ratio: float, before: float) -> str:
    if before == 0 and ratio == 1:
        return "no error"
    return f"× {_factor(ratio)}"


def _factor(value: float) -> str:
    return "∞" if np.isinf(value) else format_factor(value)


def _title(part: Explanation, sampled: Any, where: str) -> str:
    if not sampled.any():
        note = (
            "exact: nothing was sampled"
            if (part.status == "exact").all()
            else "no sampling error with or without control"
        )
    elif not any(part.controls[sampled]):
        note = "no control was used"
    else:
        gain = float(np.median(part.gain[sampled]))
        note = f"gain of the control: {_factor(gain)}{' (median)' if sampled.sum() > 1 else ''}"
    return f"{where}: {note}" if where else note[0].upper() + note[1:]


def _draw(ax: Any, plain: FloatArray, controlled: FloatArray) -> None:
    positive = np.concatenate([plain[plain > 0], controlled[controlled > 0]])
    if len(positive) == 0:
        ax.set_xlim(0.0, 1.0)
        ax.set_xticks([])
        ax.text(
            0.5,
            0.5,
            "no error to reduce",
            transform=ax.transAxes,
            ha="center",
            va="center",
            fontsize=FONT_SIZE,
            color=SOFT,
        )
        return
    least, most = float(positive.min()), float(positive.max())
    # room on the left for what is 0, which a logarithm cannot show
    margin = max(1.15, (most / least) ** 0.05)
    none_left = bool((controlled == 0).any() or (plain == 0).any())
    edge = least / (margin**2 if none_left else 1.0)
    use_logarithm(ax.xaxis, edge / margin, most * margin)
    for place, (before, after) in enumerate(zip(plain, controlled, strict=True)):
        if before == 0 and after == 0:
            continue
        worse = after > before
        colour = POSITIVE if worse else NEGATIVE
        ax.plot([max(before, edge), max(after, edge)], [place] * 2, color=colour, linewidth=1.4, alpha=0.55, zorder=2)
        ax.plot(
            [max(before, edge)], [place], marker="o", markersize=5, markerfacecolor="white", markeredgecolor=SOFT,
            linestyle="none", label="_without", clip_on=False, zorder=3,
        )  # fmt: skip
        ax.plot(
            [max(after, edge)], [place], marker="o" if after > 0 else "<", markersize=5, color=colour, linestyle="none",
            label="_with", clip_on=False, zorder=4,
        )  # fmt: skip
