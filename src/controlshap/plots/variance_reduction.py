"""Standard errors without and with control, player by player."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._types import FloatArray
from controlshap.plots.canvas import FONT_SIZE, dress, not_shown, sentence, table_axes, which
from controlshap.plots.palette import NEGATIVE, POSITIVE, SOFT
from controlshap.plots.selection import check_max_players, check_output, narrowed
from controlshap.plots.ticks import use_logarithm
from controlshap.results.naming import escaped, short_names
from controlshap.results.numerals import numeral

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


def draw_variance_reduction(
    explanation: Explanation, *, output: int | str | None, max_players: int | None, ax: Any
) -> Any:
    """See `Plots.variance_reduction`."""
    number = check_output(explanation, output)
    n_players = len(explanation.feature_names)
    n = check_max_players(max_players, n_players)
    one = narrowed(explanation, output=number)
    order = one.summary().order[:n]
    sampled = (one.uncontrolled_standard_errors > 0).any(axis=1) | (one.standard_errors > 0).any(axis=1)
    n_exact = int((~sampled).sum())
    plain, controlled = (
        (np.zeros(n), np.zeros(n))
        if not sampled.any()
        else (
            np.median(errors[sampled][:, order], axis=0)
            for errors in (one.uncontrolled_standard_errors, one.standard_errors)
        )
    )
    ratios = variance_ratios(plain, controlled)
    names = short_names(explanation.feature_names)
    ax = table_axes(
        ax,
        "variance_reduction",
        [escaped(names[player]) for player in order],
        column=[_ratio_text(ratio, before) for ratio, before in zip(ratios, plain, strict=True)],
        header="variance ratio",
    )
    _draw(ax, plain, controlled)
    dress(
        ax,
        title=_title(one, sampled, which(explanation, output=number)),
        x_label="standard error, median over rows" if len(one) > 1 else "standard error",
        caption=sentence(
            "without control (hollow) and with it (filled)" if sampled.any() else "",
            f"{n_exact} exact row{'s' if n_exact > 1 else ''} left out" if n_exact and sampled.any() else "",
            "arrow: no error left" if bool(((controlled == 0) & (plain > 0)).any()) else "",
            not_shown(n_players - n),
        ),
    )
    return ax


def variance_ratios(plain: FloatArray, controlled: FloatArray) -> FloatArray:
    """Variance without control over variance with it: infinite where it left no error, 1 where there was none."""
    ratio = (plain / np.where(controlled > 0, controlled, 1.0)) ** 2
    return np.where(controlled > 0, ratio, np.where(plain > 0, np.inf, 1.0))


def _ratio_text(ratio: float, before: float) -> str:
    if before == 0 and ratio == 1:
        return "no error"
    return f"× {numeral(ratio, 3)}"


def _title(one: Explanation, sampled: Any, where: str) -> str:
    if not sampled.any():
        note = (
            "exact: nothing was sampled"
            if (one.status == "exact").all()
            else "no sampling error with or without control"
        )
    elif not any(one.controls[sampled]):
        note = "no control was used"
    else:
        gain = float(np.median(one.gain[sampled]))
        note = f"gain of the control: {numeral(gain, 3)}{' (median)' if sampled.sum() > 1 else ''}"
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
