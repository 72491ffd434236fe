"""`refine`: go on where an earlier run left off."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.engine.rows import collect_rows, continue_rows, ready_problem, warn_unfinished
from controlshap.problem import Assembly, Problem
from controlshap.results.axes import label_rows
from controlshap.results.collect import merge
from controlshap.results.explanation import Explanation
from controlshap.sampling.kept import Recording
from controlshap.statistics.stopping import Stopping, parse_rules


def refine_rows(
    assembly: Assembly, explanation: Explanation, stopping: Stopping, *, n_jobs: int, level: float | None
) -> Explanation:
    """The earlier explanation with its inexact rows continued up to the new limits; `level` where it was given."""
    _refuse_other_level(explanation, level)
    continuations = continue_from(explanation, assembly.players.names, stopping)
    rows = assembly.read_rows(explanation.data)
    earlier = explanation.settings
    planned = Stopping(
        int(earlier["budget"]), interactions=has_interactions(explanation), output_range=_stated_range(explanation),
        planned=int(earlier["budget"]), was_by_pairs=was_by_pairs(explanation),
    )  # fmt: skip
    problem = ready_problem(assembly, planned)
    check_same(explanation, problem, assembly.description)
    items = [
        (int(explanation.row_numbers[row]), rows[row], limits, recording) for row, limits, recording in continuations
    ]
    online = _learned_online(explanation)
    results = continue_rows(problem, items, explanation.entropy, n_jobs=n_jobs, online=online)
    labels, numbers = label_rows(explanation), [row for row, *_ in continuations]
    settings = explanation.settings | {"refinements": explanation.settings["refinements"] + 1}
    refined = {row: one for row, one in zip(numbers, results, strict=True) if explanation.status[row] != "exact"}
    warn_unfinished(list(refined.values()), stopping, [labels[row] for row in refined])
    return merge(explanation, refined, partial(collect_rows, assembly, problem), settings)


def continue_from(
    explanation: Explanation, players: tuple[str, ...], stopping: Stopping
) -> list[tuple[int, Stopping, Recording]]:
    """Number, limits and recording of every row that is not exact; of all rows where later ones learn from them."""
    if not isinstance(explanation, Explanation):
        raise InvalidArgumentError(
            f"`explanation` must be an Explanation that this explainer made; got {type(explanation).__name__}."
        )
    if explanation.feature_names != players:
        raise InvalidArgumentError(
            f"`explanation` is about the players {list(explanation.feature_names[:8])}, this explainer about "
            f"{list(players[:8])}. Refine it with the explainer that made it."
        )
    if explanation.evaluations is None:
        raise InvalidArgumentError(
            "`explanation` does not hold its evaluations, so that a refinement would have to pay for them again: it "
            "was made with keep=False or by explain_dataset, or they took more than 64 MB. Explain the rows again with "
            "a larger `budget`, and with keep=True if they are to be refined later."
        )
    earlier = explanation.settings
    if _learned_online(explanation) and (explanation.row_numbers != np.arange(len(explanation))).any():
        raise InvalidArgumentError(
            "`explanation` was made with surrogate='online', so that its rows were controlled by functions that were "
            "fitted to all rows before them, and not all of these are here. Refine the whole explanation, or its first "
            "rows (`explanation[:n]`)."
        )
    _refuse_other_units(explanation, stopping)
    early = any(earlier[name] is not None for name in ("tolerance", "absolute_tolerance", "time_limit"))
    early = early or bool(earlier["stop"])
    stated, continuations = _stated_range(explanation), []
    for row, (outputs, stages) in enumerate(zip(explanation.evaluations, explanation.stages, strict=True)):
        if explanation.status[row] == "exact" and not _learned_online(explanation):
            continue
        limits = replace(
            stopping,
            budget=int(explanation.n_evaluations[row]) + stopping.budget,
            planned=int(earlier["budget"]),
            alpha_fraction=0.5 ** (earlier["refinements"] + 1),
            was_early=early,
            was_by_pairs=was_by_pairs(explanation),
            interactions=has_interactions(explanation),
            output_range=stated,
            alpha=stopping.alpha if stated is None else 1.0 - float(earlier["level"]),
        )
        continuations.append((row, limits, Recording(outputs, stages, records=True)))
    return continuations


def _learned_online(explanation: Explanation) -> bool:
    """Whether rows were controlled by what was fitted to the rows before them."""
    return explanation.settings.get("surrogate") == "online"


def _stated_range(explanation: Explanation) -> tuple[float, float] | None:
    """The range of outputs that the run was given for its guarantee, if any."""
    stated = explanation.settings.get("output_range")
    return None if stated is None else (float(stated[0]), float(stated[1]))


def _refuse_other_level(explanation: Explanation, level: float | None) -> None:
    """Refuse a level other than the one for which bets were placed from the first unit on."""
    if level is None or not isinstance(explanation, Explanation) or _stated_range(explanation) is None:
        return
    earlier = float(explanation.settings["level"])
    if abs(level - earlier) > 1e-12:
        raise InvalidArgumentError(
            f"`level={level:g}`: the guarantee of this explanation was made for level={earlier:g}, and `refine` goes "
            f"on with it. Leave `level` out, or explain again with level={level:g}."
        )


def _refuse_other_units(explanation: Explanation, stopping: Stopping) -> None:
    """Refuse settings that can only be chosen when a run starts."""
    if stopping.interactions and not has_interactions(explanation):
        raise InvalidArgumentError(
            "`interactions=2`: the explanation was made without. Rows that are exact are not gone through again, so "
            "explain with interactions=2 from the first; refinements then keep them."
        )
    if stopping.online:
        raise InvalidArgumentError(
            "`surrogate='online'`: the explanation was made without, and `refine` goes on with every row as it was "
            "explained. Leave it out, or explain again with it."
        )
    stated = _stated_range(explanation)
    if stopping.output_range is not None and stopping.output_range != stated:
        made = "without a guarantee" if stated is None else f"with output_range={stated}"
        raise InvalidArgumentError(
            f"`guarantee='finite'` with output_range={stopping.output_range}: the explanation was made {made}, and "
            "`refine` goes on with units of the same kind. Leave both out, or explain again with them."
        )


def has_interactions(explanation: Explanation) -> bool:
    """Whether the run that is continued was asked for interactions."""
    return explanation.settings.get("interactions") is not None


def was_by_pairs(explanation: Explanation) -> bool:
    """Whether the run that is continued could end by interactions."""
    rules = parse_rules(explanation.settings["stop"] or None, len(explanation.feature_names))
    return any(rule.of_pairs for rule in rules)


def check_same(explanation: Explanation, problem: Problem, settings: dict[str, Any]) -> None:
    """Refuse an explanation that an explainer with other settings or another background made."""
    earlier = explanation.settings
    other = [
        name for name, value in settings.items() if name != "seconds_per_evaluation" and earlier.get(name) != value
    ]
    if other:
        raise InvalidArgumentError(
            f"`explanation` was made with {other[0]}={earlier.get(other[0])!r}, but this explainer has "
            f"{settings[other[0]]!r}. Refine it with the explainer that made it."
        )
    if problem.base.finite:
        mean = problem.base.mean[:, 0]
        made = explanation.base_values.reshape(len(explanation), -1)
        if made.shape[1] != len(mean) or not np.allclose(made, mean, rtol=1e-9, atol=1e-12):
            raise InvalidArgumentError(
                "`explanation` has other base values than this explainer: it was made with another background or "
                "model. Refine it with the explainer that made it."
            )
