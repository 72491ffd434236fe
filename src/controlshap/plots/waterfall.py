"""From the base value down to the prediction, step by step, as the report shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._types import AnyArray, BoolArray, FloatArray, IntArray
from controlshap.plots.canvas import ERROR_BARS, INK, LINE, SOFT, open_table, sign_colours, style_axes
from controlshap.plots.selection import Selection, select
from controlshap.results.wording import escape, format_column, format_entry, format_level
from controlshap.statistics.certainty import magnitude_order, quantile

if TYPE_CHECKING:
    from controlshap.plots.accessor import Plots
    from controlshap.results.explanation import Explanation


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps from top to bottom, largest first; players that share a step come last."""

    labels: list[str]
    values: FloatArray
    reaches: FloatArray
    uncertain: BoolArray


def draw_waterfall(
    plots: Plots,
    row: int = 0,
    *,
    output: int | str | None = None,
    max_players: int | None = 12,
    level: float = 0.95,
    ax: Any = None,
) -> Any:
    """The steps from the base value to the prediction of a row, each with its interval.

    Players beyond `max_players` are one step together, with the error of their sum.

    Parameters
    ----------
    row : int
    output, max_players, level, ax
        See the class.
    """
    explanation = plots.explanation
    chosen = select(explanation, row=row, output=output, max_players=max_players, level=level)
    steps = _steps(chosen, explanation.player_data()[chosen.row])
    n = len(steps.values)
    base = float(chosen.part.base_values[0])
    base_reach = float(quantile(np.array(np.inf), (1.0 - chosen.level) / 2.0) * chosen.part.base_standard_errors[0])
    ends = base + np.cumsum(steps.values)
    column = format_column(
        np.array([base, *steps.values, ends[-1]]),
        np.array([base_reach, *steps.reaches, 0.0]),
        [False, *[True] * n, False],
    )
    ax = open_table(ax, ["base value", *steps.labels, "prediction"], column=column)
    _draw_steps(ax, steps, ends)
    if base_reach > 0:
        ax.errorbar([base], [0], xerr=[base_reach], **ERROR_BARS | {"capthick": None})
    ax.plot([ends[-1]], [n + 1], marker="D", color=INK, markersize=5, linestyle="none", clip_on=False)
    ax.plot(
        [base], [0], marker="o", markerfacecolor="white", markeredgecolor=SOFT, markersize=5, linestyle="none",
        clip_on=False,
    )  # fmt: skip
    for label in (ax.get_yticklabels()[0], ax.get_yticklabels()[-1]):
        label.set_color(SOFT)
        label.set_style("italic")
    low = min(base - base_reach, (ends - steps.reaches).min())
    high = max(base + base_reach, (ends + steps.reaches).max())
    margin = 0.05 * (high - low) or 1.0
    ax.set_xlim(low - margin, high + margin)
    notes = [
        f"lines and ±: {format_level(chosen.level)} interval of each step"
        if (steps.reaches > 0).any()
        else chosen.errors,
        "pale: sign not certain" if steps.uncertain.any() else "",
    ]
    style_axes(ax, title=chosen.title, x_label=escape(chosen.output_label), notes=notes)
    return ax


def _draw_steps(ax: Any, steps: Steps, ends: FloatArray) -> None:
    places, starts = np.arange(1, len(ends) + 1), ends - steps.values
    ax.barh(places, steps.values, left=starts, height=0.62, color=sign_colours(steps.values, steps.uncertain))
    # each step starts where the one above it ended
    for x, above, below in zip(
        [*starts, ends[-1]], [*(places - 1), places[-1]], [*places, places[-1] + 1], strict=True
    ):
        ax.plot([x, x], [above, below], color=LINE, linewidth=0.8, zorder=0.9)
    known = steps.reaches > 0
    if known.any():
        ax.errorbar(ends[known], places[known], xerr=steps.reaches[known], **ERROR_BARS)


def _steps(chosen: Selection, data: AnyArray) -> Steps:
    part, names = chosen.part, chosen.names
    order = magnitude_order(part.values[0])
    # a single player left over takes no more room than a line for "others"
    n_shown = len(order) if chosen.n_shown == len(order) - 1 else chosen.n_shown
    first, rest = order[:n_shown], order[n_shown:]
    labels = [escape(f"{names[player]} = {format_entry(data[player])}") for player in first]
    steps = Steps(labels, part.values[0][first], chosen.reaches[0][first], chosen.uncertain[0][first])
    if len(rest) == 0:
        return steps
    total, reach = sum_with_reach(part, rest, chosen.level)
    doubtful = abs(total) <= reach if reach > 0 else bool(chosen.uncertain[0][rest].any()) and not part.complete[0]
    return Steps(
        [*labels, f"{len(rest)} other features"],
        np.append(steps.values, total),
        np.append(steps.reaches, reach),
        np.append(steps.uncertain, doubtful),
    )


def sum_with_reach(explanation: Explanation, players: IntArray, level: float) -> tuple[float, float]:
    """Sum of some players' values in the only row, and half its interval; errors of a row are correlated."""
    block = explanation.covariance[0][np.ix_(players, players)]
    variance = float(block.sum())
    # a sum of covariances is known to rounding of the variances
    error = np.sqrt(variance) if variance > 1e-14 * float(np.trace(block)) else 0.0
    dof = explanation.degrees_of_freedom[0][players].min()
    return float(explanation.values[0][players].sum()), float(quantile(np.array(dof), (1.0 - level) / 2.0) * error)
