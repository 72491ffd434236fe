"""Checks of arguments at the edge: what is wrong, by which rule, and the way out."""

from __future__ import annotations

from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.stopping import Stopping, parse_rules

DEFAULT_BUDGET = 10_000
#: Largest number of evaluations a row may take when it is told what to stop for.
EARLY_BUDGET = 1_000_000


def check_stopping(
    n_players: int,
    budget: int | None,
    tolerance: float | None,
    absolute_tolerance: float | None,
    stop: Any,
    level: float,
    time_limit: float | None,
) -> Stopping:
    """The limits and goals of a call."""
    rules = parse_rules(stop, n_players)
    goals = tolerance is not None or absolute_tolerance is not None or bool(rules) or time_limit is not None
    if budget is None:
        budget = EARLY_BUDGET if goals else DEFAULT_BUDGET
    budget = at_least("budget", budget, 1, "model evaluations a row")
    positive("tolerance", tolerance, "a share of the spread of the values", "Use for example 0.01.")
    positive(
        "absolute_tolerance", absolute_tolerance, "a standard error in the units of the output", "Or use `tolerance`."
    )
    positive("time_limit", time_limit, "seconds for each row", "Leave it out for none.")
    alpha = 1.0 - check_level(level)
    return Stopping(
        budget,
        None if tolerance is None else float(tolerance),
        None if absolute_tolerance is None else float(absolute_tolerance),
        rules,
        alpha,
        None if time_limit is None else float(time_limit),
    )


def check_level(level: Any) -> float:
    """A probability between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, (int, float, np.number)) or not 0 < level < 1:
        raise InvalidArgumentError(f"`level` must lie between 0 and 1; got {level!r}. Use for example 0.95.")
    return float(level)


def positive(name: str, value: Any, what: str, way_out: str) -> None:
    """Refuse what is not a positive number."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
        raise InvalidArgumentError(f"`{name}` must be positive, {what}; got {value!r}. {way_out}")


def check_seconds(seconds: float | None) -> float | None:
    """Seconds an evaluation takes, as told."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float, np.number)) or not 0 <= seconds < np.inf:
        raise InvalidArgumentError(
            f"`seconds_per_evaluation` must be a number of seconds, or None to have it measured; got {seconds!r}."
        )
    return float(seconds)


def at_least(name: str, value: Any, least: int, unit: str) -> int:
    """A whole number."""
    number = isinstance(value, (int, np.integer, float)) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value != int(value) or value < least:
        raise InvalidArgumentError(f"`{name}` must be a whole number of at least {least} ({unit}); got {value!r}.")
    return int(value)


def refuse_missing(rows: FloatArray, argument: str, names: tuple[str, ...]) -> None:
    """Refuse NaN."""
    missing = np.flatnonzero(np.isnan(rows).any(axis=0))
    if len(missing):
        raise InvalidArgumentError(
            f"`{argument}` holds NaN in the columns {[names[c] for c in missing[:8]]}; correlated features are "
            "conditioned on each other and need finite values. Impute them, or use features='independent'."
        )
