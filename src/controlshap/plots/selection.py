"""Which row, output and players are drawn; checks of what was asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import at_least
from controlshap._errors import InvalidArgumentError

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


def check_row(explanation: Explanation, row: Any) -> int:
    """A row's number."""
    n = len(explanation)
    if isinstance(row, bool) or not isinstance(row, (int, np.integer)) or not 0 <= row < n:
        raise InvalidArgumentError(f"`row` must be the number of an explained row, 0 to {n - 1}; got {row!r}.")
    return int(row)


def check_output(explanation: Explanation, output: Any) -> int | None:
    """An output's number, or None for a model with one output."""
    if explanation.values.ndim == 2:
        if output is not None:
            raise InvalidArgumentError(f"`output` must be left out: the model has one output; got {output!r}.")
        return None
    n = explanation.values.shape[2]
    names = explanation.output_names or ()
    known = f"a number from 0 to {n - 1}" + (f" or one of {list(names[:8])}" if names else "")
    if isinstance(output, str) and output in names:
        return names.index(output)
    if isinstance(output, bool) or not isinstance(output, (int, np.integer)) or not 0 <= output < n:
        got = "nothing" if output is None else repr(output)
        raise InvalidArgumentError(f"`output` must be {known}: the model has {n} outputs; got {got}.")
    return int(output)


def check_player(explanation: Explanation, player: Any, argument: str) -> int:
    """A player's number from its number or name."""
    names = explanation.feature_names
    if isinstance(player, str) and player in names:
        return names.index(player)
    if isinstance(player, bool) or not isinstance(player, (int, np.integer)) or not 0 <= player < len(names):
        raise InvalidArgumentError(
            f"`{argument}` must be a number from 0 to {len(names) - 1} or a name in `explanation.feature_names`; "
            f"got {player!r}."
        )
    return int(player)


def check_max_players(max_players: Any, n_players: int) -> int:
    """How many players to show."""
    if max_players is None:
        return n_players
    return min(n_players, at_least("max_players", max_players, 1, "players to show, or None for all"))


def narrowed(explanation: Explanation, *, row: int | None = None, output: int | None = None) -> Explanation:
    """The same explanation with one row, or one output, or both; arrays then have no axis of outputs."""
    rows: Any = slice(None) if row is None else slice(row, row + 1)
    after_players: Any = (rows,) if output is None else (rows, slice(None), output)
    after_rows: Any = (rows,) if output is None else (rows, output)
    whole = (
        "values", "standard_errors", "uncontrolled_values", "uncontrolled_standard_errors", "variance_reduction",
        "degrees_of_freedom", "background_standard_errors",
    )  # fmt: skip
    by_output = ("base_values", "base_standard_errors", "covariance")
    by_row = ("n_evaluations", "status", "method", "controls", "data", "look_shares", "complete")
    changes: dict[str, Any] = {}
    for names, index in ((whole, after_players), (by_output, after_rows), (by_row, (rows,))):
        for name in names:
            array = getattr(explanation, name)
            changes[name] = None if array is None else array[index]
    if output is not None:
        changes["output_names"] = None
    # what was evaluated, and when, belongs to all rows and outputs
    return replace(explanation, evaluations=None, stages=(), history=None, **changes)
