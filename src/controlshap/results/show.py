"""Results as they show themselves: short texts at a prompt, tables and a picture in notebooks.

After ± stands half the width of a 95 % interval, here as everywhere.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from controlshap._errors import MissingExtraError
from controlshap._types import FloatArray
from controlshap.data.table import RowName
from controlshap.results.axes import label_rows
from controlshap.results.wording import (
    ROUNDED,
    SENTENCE_WIDTH,
    clean,
    count_noun,
    describe_outputs,
    describe_unreliable,
    format_level,
    format_number,
    format_signed,
    shorten,
    without_rounding,
)

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation
    from controlshap.results.interactions import Interactions
    from controlshap.results.ranking import Ranking
    from controlshap.results.summary import Summary

#: Rows, players and outputs that a text has; rows and players that a table in a notebook has.
TEXT_ROWS, TEXT_PLAYERS, TEXT_OUTPUTS = 3, 5, 3
#: Outputs of a row whose order a text has.
TEXT_ORDERS = 10
#: Pairs of a row that a text has.
TEXT_PAIRS = 3
TABLE_ROWS, TABLE_PLAYERS = 10, 20
#: Characters of the order of a row in a text.
LINE = 90
#: Level of the intervals, of which ± is half.
LEVEL = 0.95
#: What ± means.
REACH = f"± is half a {format_level(LEVEL)} interval"


def show_explanation(explanation: Explanation) -> str:
    """An explanation as text: what is explained, the largest values of the first rows, how the rows ended."""
    n, p = explanation.values.shape[:2]
    labels = describe_outputs(explanation)
    what = labels[0] if len(labels) == 1 else f"{len(labels)} outputs, {', '.join(labels[:TEXT_OUTPUTS])}"
    what += ", ..." if len(labels) > TEXT_OUTPUTS else ""
    rows = label_rows(explanation)
    lines = [f"Explanation of {count_noun(n, 'row')} by {count_noun(p, 'player')}: {what}{_of_model(explanation)}"]
    for row in range(min(n, TEXT_ROWS)):
        for number, label in enumerate(labels[:TEXT_OUTPUTS]):
            name = f"row {rows[row]}" if len(labels) == 1 else f"row {rows[row]}, {label}"
            lines.append(f"  {name}: {_row_as_text(explanation, row, number)}")
    if n > TEXT_ROWS:
        lines.append(f"  and {count_noun(n - TEXT_ROWS, 'row')} more")
    return "\n".join([*lines, _ending(explanation)])


def _of_model(explanation: Explanation) -> str:
    name = explanation.settings.get("model", "")
    return f" ({shorten(clean(name), SENTENCE_WIDTH)})" if name else ""


def _ending(explanation: Explanation) -> str:
    counts = {str(s): int((explanation.status == s).sum()) for s in np.unique(explanation.status)}
    kinds = ", ".join(f"{count_noun(count, 'row')} {status}" for status, count in counts.items()) or "no rows"
    spent = int(np.median(explanation.n_evaluations)) if len(explanation) else 0
    text = f"{kinds}; {count_noun(spent, 'model evaluation')} for a row"
    if explanation.standard_errors.any():
        largest = format_number(float(explanation.standard_errors.max()), 2)
        text += f"; {REACH}; largest standard error {largest}"
    doubts = describe_unreliable(explanation)
    return f"{text}\n{doubts}" if doubts else text


def _row_as_text(explanation: Explanation, row: int, number: int) -> str:
    """`0.63 + worst area +0.123 ± 0.004, ... = 0.91`."""
    part = explanation[row].output(number if explanation.values.ndim == 3 else None)
    values, reaches = without_rounding(part)[0], _reaches(part)[0]
    order = np.argsort(-np.abs(values), kind="stable")
    named = [
        f"{part.feature_names[player]} {_plain_signed(values[player], reaches[player])}"
        for player in order[:TEXT_PLAYERS]
    ]
    more = f", {len(order) - TEXT_PLAYERS} more" if len(order) > TEXT_PLAYERS else ""
    base, total = _base_and_prediction(part, 0)
    return f"{format_number(total)} = base {format_number(base)}, {', '.join(named)}{more}"


def _base_and_prediction(part: Explanation, row: int) -> tuple[float, float]:
    """Base value and prediction; a prediction that is nothing but rounding is 0."""
    base, values = float(part.base_values[row]), part.values[row]
    total = base + float(values.sum())
    return base, 0.0 if abs(total) < ROUNDED * (abs(base) + float(np.abs(values).sum())) else total


def _reaches(explanation: Explanation) -> FloatArray:
    low, high = explanation.confidence_interval(LEVEL)
    return (high - low) / 2.0


def _plain_signed(value: float, reach: float) -> str:
    return format_signed(float(value), float(reach)).replace("\N{NO-BREAK SPACE}", " ")


def show_interactions(interactions: Interactions) -> str:
    """Interactions as text: the largest pairs of the first rows."""
    explanation = interactions.explanation
    n, p = explanation.values.shape[:2]
    labels = describe_outputs(explanation)
    lines = [
        f"Interactions of {count_noun(p * (p - 1) // 2, 'pair')} of players in {count_noun(n, 'row')}: {labels[0]}"
    ]
    for row in range(min(n, TEXT_ROWS)):
        part = explanation[row].output(0 if explanation.values.ndim == 3 else None).interactions
        pairs = part.tidy_columns()
        values, reaches = pairs["interaction"], (pairs["high"] - pairs["low"]) / 2.0
        named = [
            f"{pairs['feature'][pair]} × {pairs['partner'][pair]} {_plain_signed(values[pair], reaches[pair])}"
            for pair in np.argsort(-np.abs(values), kind="stable")[:TEXT_PAIRS]
        ]
        more = f", {len(values) - TEXT_PAIRS} more" if len(values) > TEXT_PAIRS else ""
        lines.append(f"  row {label_rows(explanation)[row]}: {', '.join(named)}{more}")
    if n > TEXT_ROWS:
        lines.append(f"  and {count_noun(n - TEXT_ROWS, 'row')} more")
    return "\n".join([*lines, REACH] if explanation.standard_errors.any() else lines)


def show_summary(summary: Summary) -> str:
    """A summary as text: the largest means with their errors."""
    means, errors = summary.mean_absolute, summary.standard_errors
    if means.ndim == 2:
        means, errors = means.sum(axis=1), np.sqrt((errors**2).sum(axis=1))
    order = np.argsort(-means, kind="stable")
    named = []
    for j in order[:TEXT_PLAYERS]:
        error = f" (standard error {format_number(float(errors[j]), 2)})" if errors[j] > 0 else ""
        named.append(f"{summary.feature_names[j]} {format_number(float(means[j]), 3)}{error}")
    more = f", {len(order) - TEXT_PLAYERS} more" if len(order) > TEXT_PLAYERS else ""
    return f"Mean absolute values over {count_noun(summary.n_rows, 'row')}: {', '.join(named)}{more}"


def show_ranking(ranking: Ranking) -> str:
    """A ranking as text: the first rows in words; braces hold what is not certified."""
    rows, p = ranking.order.shape[:2]
    whole = float((ranking.n_ordered == p).mean()) if rows else 0.0
    counted = "rows" if ranking.order.ndim == 2 else "rows and outputs"
    lines = [
        f"Ranking of {count_noun(p, 'player')} in {count_noun(rows, 'row')}, certified at "
        f"{format_level(ranking.level)} (whole order in {whole:.0%} of {counted})"
    ]
    outputs = _outputs(ranking)
    for row in range(min(rows, TEXT_ROWS)):
        for output, label in outputs[:TEXT_ORDERS]:
            text = ranking.describe(row, output)
            lines.append(f"  row {_label(ranking, row)}{label}: {text if len(text) <= LINE else text[:LINE] + ' ...'}")
        if len(outputs) > TEXT_ORDERS:
            lines.append(f"  row {_label(ranking, row)}: {count_noun(len(outputs) - TEXT_ORDERS, 'output')} more")
    return "\n".join([*lines, *([f"  and {count_noun(rows - TEXT_ROWS, 'row')} more"] if rows > TEXT_ROWS else [])])


def explanation_as_html(explanation: Explanation) -> str:
    """An explanation in a notebook: the waterfall of one row, or a table of values."""
    if len(explanation) == 1 and explanation.values.ndim == 2:
        picture = _waterfall(explanation)
        if picture:
            return f"{picture}<p>{escape(_ending(explanation))}</p>"
    labels = describe_outputs(explanation)
    part = explanation[:TABLE_ROWS].output(0 if explanation.values.ndim == 3 else None)
    shown = np.argsort(-np.abs(part.values).sum(axis=0), kind="stable")[:TABLE_PLAYERS]
    values, reaches = without_rounding(part), _reaches(part)
    rows = label_rows(part)
    head = ["row", "prediction", "base value", *(part.feature_names[player] for player in shown)]
    body = [
        [
            str(rows[row]),
            *(format_number(number) for number in _base_and_prediction(part, row)[::-1]),
            *(_plain_signed(values[row, player], reaches[row, player]) for player in shown),
        ]
        for row in range(len(part))
    ]
    left = [
        f"{count_noun(len(explanation) - len(part), 'row')} more" if len(explanation) > len(part) else "",
        f"{count_noun(len(part.feature_names) - len(shown), 'smaller player')}"
        if len(shown) < len(part.feature_names)
        else "",
        f"other outputs: {', '.join(labels[1:])}" if len(labels) > 1 else "",
    ]
    title = f"{count_noun(len(explanation), 'row')}: {labels[0]}{_of_model(explanation)}"
    return make_table(title, head, body, [*left, _ending(explanation)])


def _waterfall(explanation: Explanation) -> str:
    """The waterfall as SVG inside a page; empty where there is no matplotlib."""
    try:
        ax = explanation.plot.waterfall(0)
    except MissingExtraError:
        return ""
    import matplotlib.pyplot as plt

    text = io.StringIO()
    ax.figure.savefig(text, format="svg", bbox_inches="tight", facecolor=ax.figure.get_facecolor())
    plt.close(ax.figure)
    drawing = text.getvalue()
    return drawing[drawing.index("<svg") :]


def summary_as_html(summary: Summary) -> str:
    """A summary in a notebook."""
    means, errors = summary.mean_absolute, summary.standard_errors
    if means.ndim == 2:
        means, errors = means.sum(axis=1), np.sqrt((errors**2).sum(axis=1))
    order = np.argsort(-means, kind="stable")[:TABLE_PLAYERS]
    head = ["feature", "mean |value|", "standard error"]
    body = [
        [summary.feature_names[j], format_number(float(means[j]), 4), format_number(float(errors[j]), 2)] for j in order
    ]
    more = len(means) - len(order)
    left = [f"{count_noun(more, 'smaller player')}" if more else ""]
    return make_table(f"Mean absolute values over {count_noun(summary.n_rows, 'row')}", head, body, left)


def _outputs(ranking: Ranking) -> list[tuple[int | None, str]]:
    """The outputs of a ranking, each with what follows the number of a row: nothing if there is only one."""
    if ranking.order.ndim == 2:
        return [(None, "")]
    n = ranking.order.shape[2]
    labels = ranking.output_labels or tuple(f"output {number}" for number in range(n))
    return [(number, f", {labels[number]}") for number in range(n)]


def _label(ranking: Ranking, row: int) -> RowName:
    return ranking.row_labels[row] if ranking.row_labels else row


def ranking_as_html(ranking: Ranking) -> str:
    """A ranking in a notebook."""
    rows = range(min(len(ranking.order), TABLE_ROWS))
    body = [
        [f"{_label(ranking, row)}{label}", ranking.describe(row, output)]
        for row in rows
        for output, label in _outputs(ranking)
    ]
    more = len(ranking.order) - len(rows)
    left = ["braces hold what is not certified, or tied", f"{count_noun(more, 'row')} more" if more else ""]
    return make_table(f"Order by magnitude, certified at {format_level(ranking.level)}", ["row", "order"], body, left)


def make_table(title: str, head: Sequence[str], body: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """A table for a notebook; every text is escaped, and notes that are empty are left out."""
    cells = "".join(f"<th>{escape(clean(text))}</th>" for text in head)
    # a value and its error stay on one line
    rows = [
        [escape(clean(text)).replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}") for text in line] for line in body
    ]
    lines = "".join("<tr>" + "".join(f"<td>{text}</td>" for text in line) + "</tr>" for line in rows)
    below = escape("; ".join(note for note in notes if note))
    return (
        f'<div style="overflow-x:auto"><p><b>{escape(clean(title))}</b></p><table><thead><tr>{cells}</tr></thead>'
        f"<tbody>{lines}</tbody></table><p>{below}</p></div>"
    )
