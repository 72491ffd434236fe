"""Fill in the template of the page, with style and script inside."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._imports import require
from controlshap._types import FloatArray
from controlshap.report import charts, sentences, settings
from controlshap.report.payload import common_block, output_block, row_names
from controlshap.results.ranking import is_exact
from controlshap.results.wording import count_noun, describe_zero_errors, format_factor, format_number

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: The script's parts, in the order in which they build on each other.
_SCRIPTS = (
    "numbers.js", "data.js", "tooltip.js", "chart.js", "ranking.js", "chooser.js", "dots.js", "swarm.js", "feature.js",
    "pairs.js", "main.js",
)  # fmt: skip


#: Most rows drawn as dots, and the number above which they are pale rather than hollow, as in dots.js.
MOST_DOTS, MANY_DOTS = 2_000, 300


def _n_drawn(n_rows: int) -> int:
    """Rows that are drawn as dots: all, or evenly spaced ones."""
    return -(-n_rows // -(-n_rows // MOST_DOTS))


def _asset(name: str) -> str:
    return (files("controlshap.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The hash by which a content security policy admits an element: no other runs, whatever the data hold."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _mark_code(text: str) -> Any:
    """A sentence with what stands between backticks as code."""
    from markupsafe import Markup, escape  # comes with jinja2

    # safe: the sentence is escaped, and the tags stand around parts of it
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    """The four numbers at the top."""
    gains = explanation.gain[sentences.controlled_rows(explanation)]
    n_rows, n_players = explanation.values.shape[:2]
    spent = float(np.median(explanation.n_evaluations))
    alike = bool((explanation.n_evaluations == spent).all())
    if len(gains):
        last = ("less variance by the control", _format_gain(gains))
    elif not explanation.standard_errors.any():
        exact = describe_zero_errors(explanation) == "exact"
        last = ("sampling error", "none: exact" if exact else "none seen")
    else:
        last = ("largest standard error", format_number(float(explanation.standard_errors.max()), 2))
    return [
        ("rows" if n_rows > 1 else "row", f"{n_rows:,}"),
        ("players" if n_players > 1 else "player", f"{n_players:,}"),
        (f"{'evaluation' if spent == 1 else 'evaluations'} for a row" + ("" if alike else ", median"), f"{spent:,.0f}"),
        last,
    ]


def _format_gain(gains: FloatArray) -> str:
    middle = float(np.median(gains))
    return "no error left" if np.isinf(middle) else f"{format_factor(middle)} times"


def _methods(explanation: Explanation) -> list[tuple[str, str, str]]:
    """Estimator and controls, rows that used them, and their median gain."""
    lines, controlled = [], sentences.controlled_rows(explanation)
    for method in np.unique(explanation.method):
        chosen = explanation.method == method
        gains = explanation.gain[chosen & controlled]
        bought = _format_gain(gains) if len(gains) else "no control, or exact"
        lines.append((str(method), count_noun(int(chosen.sum()), "row"), bought))
    return lines


def _output(explanation: Explanation, name: str, level: float, markup: Any) -> dict[str, Any]:
    """Contents of the template for one output."""
    ranking, summary = explanation.ranking(level), explanation.summary()
    return {
        "name": name,
        "sentences": [sentences.about_importance(explanation, summary, level), sentences.about_order(ranking)],
        "importance": charts.importance(explanation, summary, level),
        "certified": charts.share_certified(ranking) if len(explanation) > 1 and not is_exact(ranking) else None,
        "order": ranking.describe(0),
        "bias": format_number(float(summary.bias_bound.max()), 2),
        "exact": not explanation.standard_errors.any(),
        # safe: escaped for a script element by `payload.as_json`
        "block": markup(output_block(explanation, ranking, summary.order)),
        "pairs": charts.interactions(explanation, level) if explanation.interaction_indices is not None else None,
    }


def render(explanation: Explanation, title: str, level: float) -> str:
    """The whole file as text."""
    jinja2 = require("jinja2", extra="report", feature="`report`")
    from markupsafe import Markup  # comes with jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["code"] = _mark_code
    style = _asset("report.css")
    script = "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in _SCRIPTS) + "})();\n"
    names, several = explanation.output_labels, explanation.values.ndim == 3
    gains = explanation.gain[sentences.controlled_rows(explanation)]
    statuses = {str(status): int((explanation.status == status).sum()) for status in np.unique(explanation.status)}
    exact = describe_zero_errors(explanation) == "exact"
    page: str = environment.from_string(_asset("report.html")).render(
        title=title,
        level=format_number(100.0 * level),
        n_rows=len(explanation),
        named=row_names(explanation) is not None,
        all_exact=exact,
        n_players=explanation.values.shape[1],
        n_bars=charts.N_BARS,
        n_drawn=_n_drawn(len(explanation)),
        dots="Pale" if _n_drawn(len(explanation)) > MANY_DOTS else "Hollow",
        facts=_facts(explanation),
        sentences=[sentences.about_run(explanation, len(names)), sentences.about_errors(explanation)],
        question=sentences.about_question(explanation),
        subtitle=sentences.subtitle(explanation),
        trust=sentences.about_trust(explanation),
        check=sentences.about_check(explanation),
        control=sentences.about_control(explanation),
        controlled=len(gains) > 0,
        gains=charts.gains(gains),
        methods=_methods(explanation),
        warnings=sentences.warnings_of(explanation),
        statuses=[(status, count_noun(n, "row")) for status, n in statuses.items()],
        outputs=[
            _output(explanation.output(number if several else None), name, level, Markup)
            for number, name in enumerate(names)
        ],
        without_error="The values are exact: there is no sampling error." if exact else "No sampling error was seen.",
        settings=settings.tables(explanation),
        code=settings.code(explanation),
        notes=settings.notes(explanation),
        version=explanation.settings.get("version", "unknown"),
        common=Markup(common_block(explanation, names, level)),
        # safe: files of this package
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    return page
