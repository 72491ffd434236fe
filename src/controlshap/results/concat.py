"""Explanations of different rows, put together."""

from __future__ import annotations

from dataclasses import replace

from controlshap._errors import InvalidArgumentError
from controlshap.results.axes import join_rows
from controlshap.results.explanation import Explanation
from controlshap.results.row_names import join_row_names


def join_explanations(parts: list[Explanation]) -> Explanation:
    """The rows of all parts, one after the other; see `Explanation.concat`."""
    _check_parts(parts)
    first = parts[0]
    joined = join_rows(parts) | {"row_names": join_row_names(parts)}
    if any(part.entropy != first.entropy or part.settings != first.settings for part in parts):
        nothing = object()
        shared = {n: v for n, v in first.settings.items() if all(p.settings.get(n, nothing) == v for p in parts)}
        joined["settings"] = shared | {"runs": sum(part.settings.get("runs", 1) for part in parts)}
        joined["evaluations"] = None
    return replace(first, **joined)


def _check_parts(parts: list[Explanation]) -> None:
    """Refuse parts that are not explanations of the same players, columns and outputs."""
    if not parts or not all(isinstance(part, Explanation) for part in parts):
        kinds = sorted({type(part).__name__ for part in parts})
        raise InvalidArgumentError(f"`parts` must be explanations, one or more; got {', '.join(kinds) or 'none'}.")
    for name in ("feature_names", "column_names", "player_columns", "output_names"):
        first = getattr(parts[0], name)
        for number, part in enumerate(parts):
            if getattr(part, name) != first:
                raise InvalidArgumentError(
                    f"`parts` must agree in `{name}`: part 0 has {first!r}, part {number} {getattr(part, name)!r}. "
                    "Explain all rows with the same explainer."
                )
    shapes = sorted({part.values.shape[2:] for part in parts})
    if len(shapes) > 1:
        raise InvalidArgumentError(f"`parts` must have the same outputs; for each player they have shapes {shapes}.")
