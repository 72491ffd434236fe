"""How far a row goes: the limits and goals of a call."""

from __future__ import annotations

from typing import Any

from controlshap._checks import at_least, check_level, positive
from controlshap.statistics.stopping import Stopping, parse_rules

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
