"""The difference between the mean values of two explanations, and of which players its sign is certain.

The mean of player j over the n rows of an explanation has the variance `sum_i s_ij^2 / n^2`, since every row has random
numbers of its own; where the rows are a sample, `var_i(values_ij) / n`, which holds the noise of the values, too. The
variances of the two means add up, and Satterthwaite's formula gives their degrees of freedom. A sign is certified where
the interval at `1 - (1 - level) / players` (Bonferroni) leaves out 0, so that all certified signs hold together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import check_level
from controlshap._errors import InvalidArgumentError
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.results.summary import by_player, pooled_dof
from controlshap.results.wording import count_noun, format_level, format_with_error
from controlshap.statistics.certainty import MOST_DOF, quantile

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


@dataclass(frozen=True, eq=False)
class Difference:
    """Mean values of one explanation minus those of another, by player.

    Attributes
    ----------
    values : ndarray of shape (players,) or (players, outputs)
        Difference of the means over rows.
    standard_errors, degrees_of_freedom : ndarray of the same shape
    certified : ndarray of bool, same shape
        Whether the sign is certain; with probability `level` all that are certified (of an output) are right.
    level : float
    n_rows : tuple of int
        Rows of either explanation.
    feature_names : tuple of str
    """

    values: FloatArray
    standard_errors: FloatArray
    degrees_of_freedom: FloatArray
    certified: BoolArray
    level: float
    n_rows: tuple[int, int]
    feature_names: tuple[str, ...]

    @property
    def order(self) -> IntArray:
        """Players by decreasing size of the difference, for each output."""
        return np.argsort(-np.abs(self.values), axis=0, kind="stable")

    def confidence_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Bounds that hold each difference with probability `level`, one at a time."""
        reach = _reach(self.standard_errors, self.degrees_of_freedom, 1.0 - check_level(level))
        return self.values - reach, self.values + reach

    def __repr__(self) -> str:
        a, b = self.n_rows
        lines = [f"Difference of means over {count_noun(a, 'row')} and {count_noun(b, 'row')}"]
        if self.values.ndim == 1:
            high = self.confidence_interval(self.level)[1]
            for player in self.order[:5]:
                text = format_with_error(float(self.values[player]), float(high[player] - self.values[player]))
                certain = "sign certain" if self.certified[player] else "sign not certain"
                lines.append(f"  {self.feature_names[player]} {text} ({certain})")
        n_certain = f"{int(self.certified.sum())} of {self.certified.size} signs"
        return "\n".join([*lines, f"{n_certain} certified at {format_level(self.level)}, all of them together"])

    def to_frame(self) -> Any:
        """A pandas frame: one line for each player and output."""
        low, high = self.confidence_interval(self.level)
        arrays = {
            "difference": self.values, "standard_error": self.standard_errors, "low": low, "high": high,
            "sign_certified": self.certified,
        }  # fmt: skip
        return by_player(self.feature_names, arrays)


def difference(a: Explanation, b: Explanation, *, level: float = 0.95, sampled_rows: bool = False) -> Difference:
    """Mean values of `a` minus those of `b`: two groups of rows, two models, or two runs.

    Parameters
    ----------
    a, b : Explanation
        Of the same players and outputs. Groups of rows of one run (`explanation[mask]`) have random numbers of their
        own; the same rows of two models need runs with different `rng`.
    level : float
        Probability that all signs that are certified are right.
    sampled_rows : bool
        Whether the rows are samples, whose choice is then part of the standard errors.

    Examples
    --------
    >>> import numpy as np
    >>> import controlshap as cs
    >>> rows = np.random.default_rng(0).normal(size=(60, 3))
    >>> explanation = cs.Explainer(lambda x: x[:, 0] * x[:, 1] + x[:, 2], rows)(rows, rng=0)
    >>> print(cs.difference(explanation[rows[:, 2] > 0], explanation[rows[:, 2] <= 0]).certified)
    [ True  True  True]
    """
    level = check_level(level)
    _check_pair(a, b, least=2 if sampled_rows else 1)
    parts = [_variance(one, sampled_rows=sampled_rows) for one in (a, b)]
    values = a.values.mean(axis=0) - b.values.mean(axis=0)
    variance = parts[0][0] + parts[1][0]
    safe = np.where(variance > 0, variance, 1.0)
    spread = sum((part / safe) ** 2 / dof for part, dof in parts)
    dof = np.where(variance > 0, 1.0 / np.where(spread > 0, spread, 1.0 / MOST_DOF), np.inf)
    errors = np.sqrt(variance)
    reach = _reach(errors, dof, (1.0 - level) / len(a.feature_names))
    # an error of 0 proves nothing before every background row was used
    known = bool(a.complete.all() and b.complete.all())
    certified = (np.abs(values) > reach) & ((errors > 0) | known)
    return Difference(values, errors, dof, certified, level, (len(a), len(b)), a.feature_names)


def _variance(explanation: Explanation, *, sampled_rows: bool) -> tuple[FloatArray, FloatArray]:
    """Variance of the mean over rows, with its degrees of freedom."""
    n = len(explanation)
    if sampled_rows:
        of_rows = explanation.values.var(axis=0, ddof=1) / n
        return of_rows, np.full(of_rows.shape, n - 1.0)
    own = explanation.standard_errors**2
    return own.sum(axis=0) / n**2, pooled_dof(own, explanation.degrees_of_freedom)


def _reach(errors: FloatArray, dof: FloatArray, alpha: float) -> FloatArray:
    return np.where(errors > 0, quantile(dof, alpha / 2.0) * errors, 0.0)


def _check_pair(a: Explanation, b: Explanation, *, least: int) -> None:
    if a.feature_names != b.feature_names or a.values.shape[2:] != b.values.shape[2:]:
        raise InvalidArgumentError(
            "`a` and `b` must be explanations of the same players and outputs; these have "
            f"{list(a.feature_names)[:5]} and {list(b.feature_names)[:5]}. `explanation.output(...)` chooses an output."
        )
    if min(len(a), len(b)) < least:
        raise InvalidArgumentError(f"`a` and `b` must have at least {count_noun(least, 'row')} each.")
    shared = a.entropy == b.entropy and bool(np.intersect1d(a.row_numbers, b.row_numbers).size)
    if shared and a.standard_errors.any() and b.standard_errors.any():
        raise InvalidArgumentError(
            "`a` and `b` were sampled with the same random numbers (equal `rng`, equal row numbers), so their errors "
            "do not add up. Explain one of them with another `rng`."
        )
