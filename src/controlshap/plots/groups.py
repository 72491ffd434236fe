"""Several explanations side by side: cohorts of rows, models, runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.plots.canvas import LINE, SEVERAL, SMALL, open_table, style_axes
from controlshap.plots.selection import Selection, select
from controlshap.results.explanation import Explanation
from controlshap.results.wording import clean, count_noun, escape, shorten

if TYPE_CHECKING:
    from controlshap.plots.accessor import Plots

#: Most groups: as many as there are colours that stay apart.
MOST = len(SEVERAL)
#: Characters of a group's name.
NAME_WIDTH = 28
#: Characters that fit above a plot of the usual width, and the width of an entry's marker in characters.
LEGEND_WIDTH, MARKER_WIDTH = 72, 4


def draw_cohorts(
    plots: Plots,
    labels: Any,
    *,
    output: int | str | None = None,
    max_players: int | None = 12,
    level: float = 0.95,
    ax: Any = None,
) -> Any:
    """Importance in groups of rows, with intervals; `controlshap.difference` certifies how they differ.

    Parameters
    ----------
    labels : array of shape (rows,)
        The group of each row.
    output, max_players, level, ax
        See the class.
    """
    found, explanation = np.asarray(labels), plots.explanation
    if found.shape != (len(explanation),):
        raise InvalidArgumentError(
            f"`labels` must have one label for each of the {len(explanation)} rows; got the shape {found.shape}."
        )
    groups = {str(label): explanation[found == label] for label in np.unique(found)}
    return _draw_groups(groups, None, output=output, max_players=max_players, level=level, ax=ax)


def draw_compare(
    plots: Plots,
    others: Any,
    row: int | None = None,
    *,
    name: str = "this one",
    output: int | str | None = None,
    max_players: int | None = 12,
    level: float = 0.95,
    ax: Any = None,
) -> Any:
    """The explanation beside others of the same players: another model, another run, other rows.

    Parameters
    ----------
    others : Explanation or dict
        One, or several by name.
    row : int, optional
        The row whose values are drawn; without it, mean absolute values over all rows.
    name : str
        What this explanation is called.
    output, max_players, level, ax
        See the class.
    """
    groups = {name: plots.explanation} | (others if isinstance(others, dict) else {"the other": others})
    return _draw_groups(groups, row, output=output, max_players=max_players, level=level, ax=ax)


def _draw_groups(
    groups: Mapping[str, Explanation],
    row: int | str | None,
    *,
    output: int | str | None,
    max_players: int | None,
    level: float,
    ax: Any,
) -> Any:
    """Importance (or the values of a row) of each group with intervals, players by their mean over groups."""
    _check_groups(groups)
    parts = [select(one, row=row, output=output, max_players=max_players, level=level) for one in groups.values()]
    numbers = [part.importance if row is None else (part.part.values[0], part.low[0], part.high[0]) for part in parts]
    first = parts[0]
    sizes = np.mean([np.abs(values) for values, _, _ in numbers], axis=0)
    order = np.argsort(-sizes, kind="stable")[: first.n_shown]
    labels = [escape(first.names[player]) for player in order]
    ax = open_table(ax, labels)
    step = 0.7 / len(parts)
    for place, (name, (values, low, high)) in enumerate(zip(groups, numbers, strict=True)):
        heights = np.arange(len(order)) + (place - (len(parts) - 1) / 2) * step
        ends = np.maximum(np.stack([values - low, high - values])[:, order], 0.0)
        shown = escape(shorten(clean(name), NAME_WIDTH))
        label = shown if row is not None else f"{shown} ({count_noun(len(parts[place].part), 'row')})"
        ax.errorbar(
            values[order], heights, xerr=ends, fmt="o", color=SEVERAL[place], markersize=4, elinewidth=1.4, capsize=2.2,
            label=label,
        )  # fmt: skip
    ax.axvline(0.0, color=LINE, linewidth=0.9, zorder=0.9)
    # above the plot, where it hides nothing, in as many columns as fit beside each other
    longest = max(len(label) for label in ax.get_legend_handles_labels()[1])
    n_columns = min(max(1, LEGEND_WIDTH // (longest + MARKER_WIDTH)), 3)
    ax.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=n_columns, fontsize=SMALL, frameon=False, handletextpad=0.3,
        columnspacing=1.2, borderpad=0.0, borderaxespad=0.2,
    )  # fmt: skip
    what = "mean |Shapley value|" if row is None else "Shapley value"
    pad = 6.0 + 13.0 * -(-len(parts) // n_columns)
    style_axes(ax, title=first.title, x_label=f"{what}, {_describe(parts)}", notes=[first.not_shown], pad=pad)
    return ax


def _describe(parts: list[Selection]) -> str:
    return next((part.errors for part in parts if "interval" in part.errors), parts[0].errors)


def _check_groups(groups: Mapping[str, Explanation]) -> None:
    if not 1 <= len(groups) <= MOST:
        raise InvalidArgumentError(f"There must be 1 to {MOST} groups; got {len(groups)}. Join some of them.")
    for name, one in groups.items():
        if not isinstance(one, Explanation):
            raise InvalidArgumentError(f"`others` must be explanations; {name!r} is a {type(one).__name__}.")
        if one.feature_names != next(iter(groups.values())).feature_names:
            raise InvalidArgumentError(f"All groups must have the same players; {name!r} has others.")
        if len(one) == 0:
            raise InvalidArgumentError(f"Every group needs a row; {name!r} has none.")
