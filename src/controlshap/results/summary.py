"""Mean absolute values over rows, with errors, corrected for the bias that noise adds.

The absolute value of a noisy number is too large on average: for `w ~ N(v, s^2)`, `E|w| = F(v, s)` with

    F(v, s) = s sqrt(2/pi) exp(-v^2 / 2s^2) + v (1 - 2 Phi(-v/s)).

The excess `F(v, s) - |v|` is estimated by `F(w, s) - |w|` and subtracted (a parametric bootstrap). What is left is
largest where v = 0: `s sqrt(2/pi) (2 - sqrt(2))` of the `s sqrt(2/pi)` there were (between -0.1 s and 0.1 s from
half a standard error on); no function of w has no bias at all (|v| has a corner). That largest value is
`bias_bound`. Squares have no corner: the mean square is unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from controlshap._errors import InvalidArgumentError
from controlshap._imports import require
from controlshap._types import AnyArray, FloatArray, IntArray
from controlshap.results.intervals import background_errors
from controlshap.statistics.certainty import MOST_DOF, quantile

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: Largest bias left, in standard errors of a value.
LEFT = float(np.sqrt(2.0 / np.pi) * (2.0 - np.sqrt(2.0)))
#: Largest variance of `2|w| - F(w, s)` over s^2 (at v = 1.9 s), and how far from 0 it has come down to 1.
WIDEST, FAR = 1.18, 4.0


def folded_mean(center: FloatArray, error: FloatArray) -> FloatArray:
    """`E|w|` of a normal w."""
    size = np.abs(center)
    safe = np.where(error > 0, error, 1.0)
    ratio = size / safe
    spread = safe * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * ratio**2) + size * (1.0 - 2.0 * ndtr(-ratio))
    return np.where(error > 0, spread, size)


@dataclass(frozen=True, eq=False)
class Summary:
    """Importance of the players over the explained rows.

    Attributes
    ----------
    mean_absolute : ndarray of shape (players,) or (players, outputs)
        Mean over rows of the absolute Shapley value, corrected for noise.
    standard_errors : ndarray of the same shape
        Its error due to sampling and, where the rows are taken as a sample, due to the choice of rows.
    bias_bound : ndarray of the same shape
        The largest bias that noise may still add.
    uncorrected : ndarray of the same shape
        The plain mean of absolute estimates.
    mean_square : ndarray of the same shape
        Mean over rows of the squared Shapley value, unbiased.
    n_rows : int
    feature_names : tuple of str
        Names of the players.
    """

    mean_absolute: FloatArray
    standard_errors: FloatArray
    bias_bound: FloatArray
    uncorrected: FloatArray
    mean_square: FloatArray
    n_rows: int
    feature_names: tuple[str, ...]

    @property
    def order(self) -> IntArray:
        """Players by decreasing importance, for each output."""
        return np.argsort(-self.mean_absolute, axis=0, kind="stable")

    def __repr__(self) -> str:
        from controlshap.results.show import show_summary

        return show_summary(self)

    def _repr_html_(self) -> str:
        from controlshap.results.show import summary_as_html

        return summary_as_html(self)

    def to_frame(self) -> Any:
        """A pandas frame: one line for each player and output."""
        names = ("mean_absolute", "standard_errors", "bias_bound", "uncorrected", "mean_square")
        return by_player(self.feature_names, {name: getattr(self, name) for name in names})


def pooled_dof(variances: FloatArray, dof: FloatArray) -> FloatArray:
    """Degrees of freedom of a sum over rows, the first axis, by Satterthwaite's formula; infinite without error."""
    total = variances.sum(axis=0)
    shares = variances / np.where(total > 0, total, 1.0)  # squares of variances overflow early
    spread = (shares**2 / np.minimum(dof, MOST_DOF)).sum(axis=0)
    return np.where(spread > 0, 1.0 / np.where(spread > 0, spread, 1.0), np.inf)


def by_player(feature_names: tuple[str, ...], arrays: dict[str, AnyArray]) -> Any:
    """A pandas frame with one line for each player and output, of arrays `(players,)` or `(players, outputs)`."""
    pandas = require("pandas", extra="frames", feature="`to_frame()`")
    first = next(iter(arrays.values()))
    n_outputs = first.size // len(feature_names)
    frame: dict[str, Any] = {"feature": np.repeat(np.array(feature_names, dtype=object), n_outputs)}
    if first.ndim == 2:
        frame["output"] = np.tile(np.arange(n_outputs), len(feature_names))
    return pandas.DataFrame(frame | {name: array.reshape(-1) for name, array in arrays.items()})


def summarise(explanation: Explanation, *, sampled_rows: bool, background: bool = False) -> Summary:
    """Summarise the values over rows."""
    values, errors = explanation.values, explanation.standard_errors
    n = len(values)
    if n == 0:
        raise InvalidArgumentError("`explanation` has no rows, and there is nothing to summarise.")
    corrected = 2.0 * np.abs(values) - folded_mean(values, errors)
    of_row, of_mean = _shared_variances(explanation)
    if sampled_rows:
        variance = corrected.var(axis=0, ddof=1) / n  # holds the noise of the values, too
    else:
        near = np.abs(values) < FAR * errors
        variance = (np.where(near, WIDEST, 1.0) * np.maximum(errors**2 - of_row, 0.0)).sum(axis=0) / n**2
    variance = variance + of_mean
    if background:
        # one background serves all rows, so their errors may all go the same way: the mean has at most their mean
        variance = variance + background_errors(explanation).mean(axis=0) ** 2
    return Summary(
        corrected.mean(axis=0),
        np.sqrt(variance),
        LEFT * errors.mean(axis=0),
        np.abs(values).mean(axis=0),
        (values**2 - errors**2).mean(axis=0),
        n,
        explanation.feature_names,
    )


def _shared_variances(explanation: Explanation) -> tuple[FloatArray, FloatArray]:
    """Variances of errors that rows have in common: in each row's values, and in the mean of absolute values.

    One simulation serves all rows, so that in the mean its errors are added up before they are squared.
    """
    factors, values = explanation.shared_factors, explanation.values
    if factors is None:
        return np.zeros(values.shape), np.zeros(values.shape[1:])
    of_mean = (np.sign(values)[:, None] * factors).mean(axis=0)
    return (factors**2).sum(axis=1), (of_mean**2).sum(axis=0)


def importance_interval(explanation: Explanation, summary: Summary, level: float) -> tuple[FloatArray, FloatArray]:
    """Bounds of `summary.mean_absolute`, of its shape.

    The lower one allows for the bias that noise may still add; none is below 0, since absolute values are not.
    """
    variances = explanation.standard_errors**2
    dof = pooled_dof(variances, explanation.degrees_of_freedom)
    reach = np.where(variances.any(axis=0), quantile(dof, (1.0 - level) / 2.0) * summary.standard_errors, 0.0)
    low, high = summary.mean_absolute - summary.bias_bound - reach, summary.mean_absolute + reach
    return np.maximum(low, 0.0), np.maximum(high, 0.0)
