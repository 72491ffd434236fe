"""Settings of a result, and the code that gives it again."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from controlshap.results.numbers import count

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: Arguments of `Explainer` and of a call, in their order, with their defaults.
_MAKING: dict[str, Any] = {
    "features": "independent", "estimator": "auto", "control": "auto", "variance": "auto", "coefficient": "auto",
    "memory_limit": 256 * 2**20, "max_background": 10_000, "seconds_per_evaluation": None,
}  # fmt: skip
_CALLING: dict[str, Any] = {
    "budget": None, "tolerance": None, "stop": [], "level": 0.95, "absolute_tolerance": None, "time_limit": None,
}  # fmt: skip
#: Where the text of an object names a class.
_CLASS = re.compile(r"\b([A-Z]\w*)\(")
#: Longer settings (arrays written out) are cut in the table.
LONGEST = 300


def _argument(name: str, value: Any) -> str:
    """As one writes it: names of strategies in quotes, objects by their own text, or by the argument's name."""
    if name == "stop" and len(value) == 1:
        return repr(value[0])
    if not (name in _MAKING and isinstance(value, str)) or re.fullmatch(r"[a-z_]+", value):
        return repr(value)
    return name if _is_opaque(value) else _CLASS.sub(r"controlshap.\1(", value)


def _is_opaque(text: str) -> bool:
    """Whether the text of an object is no Python that gives it again: arrays, addresses, classes of the user's."""
    package = importlib.import_module("controlshap")
    return bool(re.search(r"array\(|<|tensor\(", text)) or not all(
        hasattr(package, name) for name in _CLASS.findall(text)
    )


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
    calling = ["X", *_chosen(settings, _CALLING)]
    rng = f"rng={explanation.entropy}"
    if "link" in settings:
        table = _MAKING | {"seconds_per_evaluation": "0.0"}
        making = ["model", "background", *_link(settings), *_chosen(settings, table), *_groups(explanation), rng]
        made = f"explainer = controlshap.KernelExplainer({', '.join(making)})"
        called = f"explainer.shap_values({', '.join(calling)})\nexplanation = explainer.explanation"
    else:
        making = ["model", "background", *_chosen(settings, _MAKING), *_groups(explanation)]
        made = f"explainer = controlshap.Explainer({', '.join(making)})"
        called = f"explanation = explainer({', '.join([*calling, rng])})"
    return f"import controlshap\n\n{made}\n{called}"


def _link(settings: dict[str, Any]) -> list[str]:
    """Arguments that only `KernelExplainer` has."""
    link = settings["link"]
    found = [] if link == "identity" else [f"link={link!r}" if link == "logit" else "link=link"]
    return [*found, "keep_index=True"] if settings.get("keep_index") else found


def notes(explanation: Explanation) -> list[str]:
    """What the code leaves out."""
    settings = explanation.settings
    found = [
        f"`{name}` is the object that was passed; its text is in the settings below."
        for name in _MAKING
        if re.search(rf"\b{name}={name}\b", code(explanation))
    ]
    if settings.get("link", "identity") not in ("identity", "logit"):
        found.append("`link` is the function that was passed.")
    if settings.get("weighted_background"):
        found.append("The rows of the background have weights, as those of shap.kmeans; they must go along.")
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
