"""Settings of a result, and the code that gives it again."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from controlshap.explainer import CALL_DEFAULTS, DEFAULTS, SETTINGS
from controlshap.limits import LimitOptions
from controlshap.results.wording import count_noun

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


#: Arguments of `Explainer` and limits of a call with their defaults; `groups` come from the players.
_MAKING = {name: default for name, default in DEFAULTS.items() if name in SETTINGS - {"groups"}}
_CALLING = {name: default for name, default in CALL_DEFAULTS.items() if name in LimitOptions.__annotations__}
#: Where the text of an object names a class.
_CLASS = re.compile(r"\b([A-Z]\w*)\(")
#: Longer settings (arrays written out) are cut in the table.
LONGEST = 300


def _argument(name: str, value: Any) -> str:
    """An argument in Python: names of strategies in quotes, objects by their repr, or by the argument's name."""
    if name == "stop" and len(value) == 1:
        return repr(value[0])
    if not (name in _MAKING and isinstance(value, str)) or re.fullmatch(r"[a-z_]+", value):
        return repr(value)
    return name if _is_opaque(value) else _CLASS.sub(r"controlshap.\1(", value)


def _is_opaque(text: str) -> bool:
    """Whether the repr of an object is not Python that makes it: arrays, addresses, classes of the user's."""
    package = importlib.import_module("controlshap")
    return bool(re.search(r"array\(|<|tensor\(", text)) or not all(
        hasattr(package, name) for name in _CLASS.findall(text)
    )


def _changed_arguments(settings: dict[str, Any], defaults: dict[str, Any]) -> list[str]:
    """The arguments that differ from their defaults."""
    values = {name: settings.get(name, default) for name, default in defaults.items()}
    return [
        f"{name}={_argument(name, value)}"
        for name, value in values.items()
        if value not in (defaults[name], "None", [])
    ]


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
    calling = ["X", *_changed_arguments(settings, _CALLING)]
    rng = f"rng={explanation.entropy}"
    if "link" in settings:
        table = _MAKING | {"seconds_per_evaluation": "0.0"}
        making = [
            "model",
            "background",
            *_link(settings),
            *_changed_arguments(settings, table),
            *_groups(explanation),
            rng,
        ]
        construction = f"explainer = controlshap.KernelExplainer({', '.join(making)})"
        call = f"explainer.shap_values({', '.join(calling)})\nexplanation = explainer.explanation"
    else:
        making = ["model", "background", *_changed_arguments(settings, _MAKING), *_groups(explanation)]
        construction = f"explainer = controlshap.Explainer({', '.join(making)})"
        call = f"explanation = explainer({', '.join([*calling, rng])})"
    return f"import controlshap\n\n{construction}\n{call}"


def _link(settings: dict[str, Any]) -> list[str]:
    """Arguments that only `KernelExplainer` has."""
    link = settings["link"]
    arguments = [] if link == "identity" else [f"link={link!r}" if link == "logit" else "link=link"]
    return [*arguments, "keep_index=True"] if settings.get("keep_index") else arguments


def notes(explanation: Explanation) -> list[str]:
    """Notes on what the code leaves out."""
    settings, text = explanation.settings, code(explanation)
    names = [name for name in _MAKING if re.search(rf"\b{name}={name}\b", text)]
    lines = [f"`{name}` is the object that was passed; its text is in the settings below." for name in names]
    if settings.get("link", "identity") not in ("identity", "logit"):
        lines.append("`link` is the function that was passed.")
    if settings.get("weighted_background"):
        lines.append("The rows of the background have weights, as those of shap.kmeans; pass them as well.")
    if settings.get("runs"):
        lines.append(
            f"The rows come from {settings['runs']} runs; the code gives the first, with the settings that all share."
        )
    if settings.get("refinements"):
        times = count_noun(settings["refinements"], "time")
        lines.append(f"The result was refined {times} with `explainer.refine(...)`; the code gives the first run.")
    if settings.get("n_surrogate_evaluations"):
        lines.append(
            "A shared surrogate was fitted before, with `explainer.fit_surrogate(...)`, from "
            f"{settings['n_surrogate_evaluations']:,} model evaluations."
        )
    if settings.get("time_limit"):
        lines.append("`time_limit` was set: where it ended a row, the numbers depend on the speed of the machine.")
    return lines


#: What tells one result from another, in the words of the first table.
_IDENTITY = {
    "model": "model",
    "quantity": "explained",
    "version": "controlshap",
    "libraries": "libraries",
    "n_background": "background rows",
    "background_digest": "digest of the background",
    "answers_digest": "digest of the model's answers on it",
    "n_background_evaluations": "evaluations of the background",
}


def tables(explanation: Explanation) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The lines that tell this result from another, the seed included; and every other setting."""
    settings = explanation.settings
    first = [("seed (rng)", str(explanation.entropy))]
    known = settings | {"quantity": ", ".join(explanation.output_labels)}
    first += [(words, _as_text(known[name])) for name, words in _IDENTITY.items() if name in known]
    rest = [(name.replace("_", " "), _as_text(v)) for name, v in settings.items() if name not in _IDENTITY]
    return first, rest


def _as_text(value: Any) -> str:
    text = "none" if value in (None, "None", "", []) else f"{value:,}" if type(value) is int else str(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + " ..."
