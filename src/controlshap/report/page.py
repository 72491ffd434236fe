"""The page: everything the template shows, put together, with style and script inside."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._optional import require
from controlshap.report import charts
from controlshap.report import sentences as wording
from controlshap.report import settings as reproducing
from controlshap.report.payload import common_block, output_block
from controlshap.results.numbers import count, factor, number

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: The script's parts, in the order in which they build on each other.
_SCRIPTS = ("numbers.js", "data.js", "tooltip.js", "chart.js", "ranking.js", "chooser.js", "main.js")


def _asset(name: str) -> str:
    return (files("controlshap.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As a content security policy names an element: nothing else runs, whatever a name in the data holds."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def output_names(explanation: Explanation) -> list[str]:
    """Names of the outputs; numbers where the model gives none."""
    n_outputs = explanation.values.shape[2] if explanation.values.ndim == 3 else 1
    if explanation.output_names is not None and len(explanation.output_names) == n_outputs:
        return list(explanation.output_names)
    return [f"output {number}" for number in range(n_outputs)]


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    """The four numbers at the top."""
    gains = explanation.gain[wording.controlled_rows(explanation)]
    spent = float(np.median(explanation.n_evaluations))
    found = [
        ("rows" if len(explanation) > 1 else "row", f"{len(explanation):,}"),
        ("players" if explanation.values.shape[1] > 1 else "player", f"{explanation.values.shape[1]:,}"),
        ("evaluations for a row" + (", median" if len(explanation) > 1 else ""), f"{spent:,.0f}"),
    ]
    if len(gains):
        middle = float(np.median(gains))
        shown = "no error left" if np.isinf(middle) else f"{factor(middle)} times"
        found.append(("less variance by the control", shown))
    elif not explanation.standard_errors.any():
        told = wording.without_error(explanation)
        found.append(("sampling error", "none: exact" if told == "exact" else "none seen"))
    else:
        found.append(("largest standard error", number(float(explanation.standard_errors.max()), 2)))
    return found


def _methods(explanation: Explanation) -> list[tuple[str, str, str]]:
    """Estimator and controls, rows that used them, and their median gain."""
    found, controlled = [], wording.controlled_rows(explanation)
    for method in np.unique(explanation.method):
        chosen = explanation.method == method
        bought = "no control, or exact"
        if (chosen & controlled).any():
            gain = float(np.median(explanation.gain[chosen & controlled]))
            bought = "no error left" if np.isinf(gain) else f"{factor(gain)} times"
        found.append((str(method), count(int(chosen.sum()), "row"), bought))
    return found


def render(explanation: Explanation, title: str, level: float) -> str:
    """The whole file as text."""
    jinja2 = require("jinja2", extra="report", feature="`report`")
    from markupsafe import Markup  # comes with jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = _asset("report.css")
    script = "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in _SCRIPTS) + "})();\n"
    names, ranking, summary = output_names(explanation), explanation.ranking(level), explanation.summary()
    gains = explanation.gain[wording.controlled_rows(explanation)]
    outputs: list[dict[str, Any]] = []
    for output, name in enumerate(names):
        outputs.append(
            {
                "name": name,
                "sentences": [
                    wording.about_importance(explanation, summary, output),
                    wording.about_order(explanation, ranking, output),
                ],
                "importance": charts.importance(explanation, summary, output, level),
                "certified": charts.certified(ranking, output) if len(explanation) > 1 else None,
                "order": ranking.describe(0, output if explanation.values.ndim == 3 else None),
                "bias": number(float(np.max(summary.bias_bound.reshape(len(summary.feature_names), -1)[:, output])), 2),
                "exact": not explanation.standard_errors.reshape(*explanation.values.shape[:2], -1)[..., output].any(),
                # safe: escaped for a script element by `payload.as_json`
                "block": Markup(output_block(explanation, ranking, output)),
            }
        )
    statuses = [(str(one), int((explanation.status == one).sum())) for one in np.unique(explanation.status)]
    page: str = environment.from_string(_asset("report.html")).render(
        title=title,
        level=number(100.0 * level),
        n_rows=len(explanation),
        n_players=explanation.values.shape[1],
        n_bars=charts.N_BARS,
        facts=_facts(explanation),
        sentences=[wording.about_run(explanation, len(names)), wording.about_errors(explanation)],
        control=wording.about_control(explanation),
        controlled=len(gains) > 0,
        gains=charts.gains(gains),
        methods=_methods(explanation),
        warnings=wording.warnings_of(explanation),
        statuses=[(name, count(n, "row")) for name, n in statuses],
        outputs=outputs,
        without_error="The values are exact: there is no sampling error."
        if wording.without_error(explanation) == "exact"
        else "No sampling error was seen.",
        settings=reproducing.table(explanation),
        code=reproducing.code(explanation),
        notes=reproducing.notes(explanation),
        version=explanation.settings.get("version", "unknown"),
        common=Markup(common_block(explanation, names, level)),
        # safe: files of this package
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    return page
