"""The paper's measures of stability, as functions of repeated runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.results.explanation import Explanation


def _runs(name: str, runs: Any) -> FloatArray:
    array = np.asarray(runs, dtype=np.float64)
    if array.ndim < 2 or len(array) < 2:
        raise InvalidArgumentError(
            f"`{name}` must hold two runs or more on its first axis and players on its last; got shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise InvalidArgumentError(f"`{name}` must be finite; {(~np.isfinite(array)).sum()} of its values are not.")
    return array


def variance_reduction(uncontrolled: Any, controlled: Any) -> FloatArray:
    """VarReduc of the paper: `(Var(plain) - Var(controlled)) / Var(plain)` over runs, for each value.

    Parameters
    ----------
    uncontrolled, controlled : array of shape (runs, ..., players)
        Estimates of the same rows without and with control.

    Returns
    -------
    ndarray of shape (..., players)
        1 is all, 0 nothing, below 0 worse; 0 where there was no variance to begin with.
    """
    plain, other = _runs("uncontrolled", uncontrolled), _runs("controlled", controlled)
    if plain.shape[1:] != other.shape[1:]:
        raise InvalidArgumentError(
            f"`uncontrolled` and `controlled` must be of the same values; got shapes {plain.shape} and {other.shape}."
        )
    before, after = plain.var(axis=0, ddof=1), other.var(axis=0, ddof=1)
    varied = before > 0
    return np.where(varied, (before - after) / np.where(varied, before, 1.0), np.where(after > 0, -np.inf, 0.0))


def rank_changes(runs: Any, *, by: str = "value") -> FloatArray:
    """RankChgs of the paper: mean over pairs of runs of the sum over players of `|rank in one - rank in the other|`.

    The paper ranks signed values, sums over ordered pairs and divides by the number of unordered ones, which counts
    each change twice; so does this, and its numbers compare with the paper's.

    Parameters
    ----------
    runs : array of shape (runs, ..., players)
    by : {"value", "magnitude"}
        What players are ranked by; ties share the mean of their ranks.

    Returns
    -------
    ndarray of shape (...)
    """
    if by not in ("value", "magnitude"):
        raise InvalidArgumentError(f"`by` must be 'value' or 'magnitude'; got {by!r}.")
    array = _runs("runs", runs)
    from scipy.stats import rankdata  # most of the time that importing the library would take

    place = np.sort(rankdata(np.abs(array) if by == "magnitude" else array, axis=-1), axis=0)
    n = len(place)
    # the sum of |a - b| over unordered pairs, from sorted ranks
    weights = (2.0 * np.arange(n) - n + 1.0).reshape(-1, *[1] * (place.ndim - 1))
    pairs = (weights * place).sum(axis=0)
    total: FloatArray = 2.0 * pairs.sum(axis=-1) / (n * (n - 1) / 2.0)
    return np.asarray(total)


def efficiency_gap(explanation: Explanation, predictions: Any) -> FloatArray:
    """Distance of values and base value from summing to the prediction, shape (rows,) or (rows, outputs).

    Parameters
    ----------
    explanation : Explanation
    predictions : array of shape (rows,) or (rows, outputs)
        The model at the explained rows.
    """
    total = explanation.values.sum(axis=1) + explanation.base_values
    given = np.asarray(predictions, dtype=np.float64)
    if given.shape != total.shape:
        raise InvalidArgumentError(f"`predictions` must have shape {total.shape}; got {given.shape}.")
    gap: FloatArray = np.abs(total - given)
    return gap
