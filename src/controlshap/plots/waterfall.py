"""From the base value to the prediction, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import check_level
from controlshap._types import AnyArray, BoolArray, FloatArray, IntArray
from controlshap.plots.canvas import dress, sentence, table_axes, which
from controlshap.plots.certainty_marks import interval_marks
from controlshap.plots.palette import INK, LINE, SOFT, sign_colours
from controlshap.plots.selection import check_max_players, check_output, check_row, narrowed
from controlshap.results.naming import escaped, short_names
from controlshap.results.numerals import percent, with_reaches
from controlshap.results.shown import shown_text
from controlshap.statistics.certainty import magnitude_order, quantile

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps from top to bottom, largest first; what is left together comes last."""

    labels: list[str]
    values: FloatArray
    reaches: FloatArray
    uncertain: BoolArray


def draw_waterfall(
    explanation: Explanation, *, row: int, output: int | str | None, max_players: int | None, level: float, ax: Any
) -> Any:
    """See `Plots.waterfall`."""
    level = check_level(level)
    number = check_output(explanation, output)
    row = check_row(explanation, row)
    n_players = len(explanation.feature_names)
    n_shown = check_max_players(max_players, n_players)
    one = narrowed(explanation, row=row, output=number)
    told = interval_marks(one, level).told
    steps = _steps(one, explanation.player_data()[row], level, n_players if n_shown == n_players - 1 else n_shown)
    n = len(steps.values)
    base = float(one.base_values[0])
    base_reach = float(quantile(np.array(np.inf), (1.0 - level) / 2.0) * one.base_standard_errors[0])
    ends = base + np.cumsum(steps.values[::-1])[::-1]
    starts = ends - steps.values
    column = with_reaches(
        np.array([ends[0], *steps.values, base]),
        np.array([0.0, *steps.reaches, base_reach]),
        [False, *[True] * n, False],
    )
    ax = table_axes(
        ax,
        "waterfall",
        ["prediction", *steps.labels, "base value"],
        column=column,
    )
    places = np.arange(1, n + 1)
    ax.barh(places, steps.values, left=starts, height=0.62, color=sign_colours(steps.values, steps.uncertain))
    # each step starts where the one below it ended
    for x, below, above in zip([*starts, ends[0]], [*(places + 1), 1], [*places, 0], strict=True):
        ax.plot([x, x], [below, above], color=LINE, linewidth=0.8, zorder=0.9)
    known = steps.reaches > 0
    if known.any():
        ax.errorbar(
            ends[known], places[known], xerr=steps.reaches[known], fmt="none", ecolor=INK, elinewidth=1.1, capsize=2.2,
            capthick=1.1,
        )  # fmt: skip
    if base_reach > 0:
        ax.errorbar([base], [n + 1], xerr=[base_reach], fmt="none", ecolor=INK, elinewidth=1.1, capsize=2.2)
    ax.plot([ends[0]], [0], marker="D", color=INK, markersize=5, linestyle="none", clip_on=False)
    ax.plot(
        [base], [n + 1], marker="o", markerfacecolor="white", markeredgecolor=SOFT, markersize=5, linestyle="none",
        clip_on=False,
    )  # fmt: skip
    for label in (ax.get_yticklabels()[0], ax.get_yticklabels()[-1]):
        label.set_color(SOFT)
        label.set_style("italic")
    low, high = (
        min(base - base_reach, (ends - steps.reaches).min()),
        max(base + base_reach, (ends + steps.reaches).max()),
    )
    margin = 0.05 * (high - low) or 1.0
    ax.set_xlim(low - margin, high + margin)
    dress(
        ax,
        title=which(explanation, row=row, output=number),
        x_label="model output",
        caption=sentence(
            f"each step with its own {percent(level)} interval" if known.any() else told,
            "pale: sign not certain" if steps.uncertain.any() else "",
        ),
    )
    return ax


def _steps(one: Explanation, data: AnyArray, level: float, n_shown: int) -> Steps:
    marks = interval_marks(one, level)
    order = magnitude_order(one.values[0])
    first, left = order[:n_shown], order[n_shown:]
    names = short_names(one.feature_names)
    labels = [escaped(f"{names[player]} = {shown_text(data[player])}") for player in first]
    values, reaches, uncertain = one.values[0][first], marks.reaches[0][first], marks.uncertain[0][first]
    if len(left) == 0:
        return Steps(labels, values, reaches, uncertain)
    total, reach = sum_with_reach(one, left, level)
    doubtful = abs(total) <= reach if reach > 0 else bool(marks.uncertain[0][left].any()) and not one.complete[0]
    return Steps(
        [*labels, f"{len(left)} other features"],
        np.append(values, total),
        np.append(reaches, reach),
        np.append(uncertain, doubtful),
    )


def sum_with_reach(one: Explanation, players: IntArray, level: float) -> tuple[float, float]:
    """Sum of some players' values in the only row, and half its interval; errors of a row are correlated."""
    block = one.covariance[0][np.ix_(players, players)]
    variance = float(block.sum())
    # a sum of covariances is known to rounding of the variances
    error = np.sqrt(variance) if variance > 1e-14 * float(np.trace(block)) else 0.0
    dof = one.degrees_of_freedom[0][players].min()
    return float(one.values[0][players].sum()), float(quantile(np.array(dof), (1.0 - level) / 2.0) * error)
