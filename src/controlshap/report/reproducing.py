"""Settings of a result, and the code that gives it again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from controlshap.report.numbers import count

if TYPE_CHECKING:
    from controlshap.explanation import Explanation

#: Arguments of `Explainer` and of a call, in their order, with their defaults.
_MAKING: dict[str, Any] = {
    "features": "independent", "estimator": "auto", "control": "auto", "variance": "auto", "coefficient": "auto",
    "memory_limit": 256 * 2**20, "max_background": 10_000, "seconds_per_evaluation": None,
}  # fmt: skip
_CALLING: dict[str, Any] = {
    "budget": None, "tolerance": None, "stop": [], "level": 0.95, "absolute_tolerance": None, "time_limit": None,
}  # fmt: skip
#: Longer settings (arrays written out) are cut in the table.
LONGEST = 300


def _argument(name: str, value: Any) -> str:
    """As one writes it: names of strategies in quotes; objects are in the settings by their own text already."""
    if name == "stop" and len(value) == 1:
        return repr(value[0])
    if name in _MAKING and isinstance(value, str) and not re.fullmatch(r"[a-z_]+", value):
        return value
    return repr(value)


def _chosen(settings: dict[str, Any], table: dict[str, Any]) -> list[str]:
    """The arguments that differ from their defaults."""
    found = []
    for name, default in table.items():
        value = settings.get(name, default)
        if value in (default, "None"):
            continue
        found.append(f"{name}={_argument(name, value)}")
    return found


def _groups(explanation: Explanation) -> list[str]:
    """`groups=` where players are not just the columns."""
    names, columns = explanation.column_names, explanation.player_columns
    grouped = {
        player: [names[c] for c in members]
        for player, members in zip(explanation.feature_names, columns, strict=True)
        if len(members) > 1 or player != names[members[0]]
    }
    return [f"groups={grouped!r}"] if grouped else []


def code(explanation: Explanation) -> str:
    """Python that gives the same numbers, from the same model, background and rows."""
    settings = explanation.settings
    making = ["model", "background", *_chosen(settings, _MAKING), *_groups(explanation)]
    calling = ["X", *_chosen(settings, _CALLING), f"rng={explanation.entropy}"]
    lines = ["import controlshap", "", f"explainer = controlshap.Explainer({', '.join(making)})"]
    return "\n".join([*lines, f"explanation = explainer({', '.join(calling)})"])


def notes(explanation: Explanation) -> list[str]:
    """What the code leaves out."""
    settings = explanation.settings
    found = []
    if settings.get("refinements"):
        times = count(settings["refinements"], "time")
        found.append(f"The result was refined {times} with `explainer.refine(...)`; the code gives the first run.")
    if settings.get("n_surrogate_evaluations"):
        found.append(
            "A shared surrogate was fitted before, with `explainer.fit_surrogate(...)`, from "
            f"{settings['n_surrogate_evaluations']:,} model evaluations."
        )
    if settings.get("time_limit"):
        found.append("`time_limit` was set: where it ended a row, the numbers depend on the speed of the machine.")
    return found


def table(explanation: Explanation) -> list[tuple[str, str]]:
    """Every setting, and the seed."""
    found = [("seed (rng)", str(explanation.entropy))]
    for name, value in explanation.settings.items():
        text = "none" if value in (None, "None", []) else f"{value:,}" if type(value) is int else str(value)
        found.append((name.replace("_", " "), text if len(text) <= LONGEST else text[:LONGEST] + " ..."))
    return found
