"""Checks of arguments at the edge: what is wrong, by which rule, and the way out."""

from __future__ import annotations

from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray


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
