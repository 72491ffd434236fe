"""Confidence intervals of the values of an explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import check_guarantee, check_range, show
from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.results.axes import with_outputs
from controlshap.statistics.certainty import quantile, simultaneous_tail, tail_dof

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: Degrees of freedom of a jackknife over 20 blocks (`crossfitting.distribution`).
JACKKNIFE_DOF = 19.0


def half_widths(explanation: Explanation, level: float, *, simultaneous: bool, background: bool) -> FloatArray:
    """Half the width of each interval, of the shape of `values`; 0 where there is no error.

    `simultaneous` intervals hold all values of a row and output together; `background` adds the error due to the
    choice of the background rows.
    """
    errors, dof = explanation.standard_errors, explanation.degrees_of_freedom
    if background:
        errors, dof = _add_background(explanation)
    critical = _simultaneous(explanation, level, errors, dof) if simultaneous else quantile(dof, (1.0 - level) / 2.0)
    return np.where(errors > 0, critical * errors, 0.0)


def guaranteed_interval(
    explanation: Explanation, level: float, guarantee: Any, output_range: Any, *, simultaneous: bool, background: bool
) -> tuple[FloatArray, FloatArray]:
    """Bounds that hold for any number of units, which were computed where the units were."""
    settings, stated = explanation.settings, explanation.settings.get("output_range")
    check_guarantee(guarantee, stated if output_range is None else output_range)
    if stated is None or explanation.guaranteed_low is None:
        raise InvalidArgumentError(
            "`guarantee='finite'`: the units of this explanation are not independent with bounded terms (background "
            "rows in cycles, or controls that were fitted to the same units), so that there is no such interval. "
            f"Explain with guarantee='finite', output_range={show(output_range or (0, 1))}."
        )
    if output_range is not None and check_range(output_range) != tuple(stated):
        raise InvalidArgumentError(
            f"`output_range={show(output_range)}`: the rows were explained with {tuple(stated)}. Leave it out, or "
            "explain again."
        )
    if abs(level - settings["level"]) > 1e-12:
        raise InvalidArgumentError(
            f"`level={level:g}`: the bounds are those of level={settings['level']:g}, which the rows were explained "
            f"with. Explain with level={level:g}."
        )
    if background:
        raise InvalidArgumentError("`background=True`: the guarantee is for the background as given. Leave it out.")
    together = (explanation.guaranteed_low_together, explanation.guaranteed_high_together)
    low, high = together if simultaneous else (explanation.guaranteed_low, explanation.guaranteed_high)
    assert low is not None
    assert high is not None
    return low, high


def background_errors(explanation: Explanation) -> FloatArray:
    """Errors due to the choice of background rows, or to a distribution fitted to them; raises where unknown."""
    of_background, settings = explanation.background_standard_errors, explanation.settings
    if explanation.distribution_standard_errors is not None:
        return explanation.distribution_standard_errors
    if of_background is None or not {"n_background", "max_background"} <= set(settings):
        raise InvalidArgumentError(
            "`background=True`: the error of the background is not known here. It needs features='independent' and "
            "units that share their draws and do not all use the whole background (KernelSHAP may), or features that "
            "are fitted, `Explainer(..., distribution_errors=True)` and a control that explains the model. Leave it "
            "out."
        )
    return of_background


def _add_background(explanation: Explanation) -> tuple[FloatArray, FloatArray]:
    """Errors of sampling and background together, with their degrees of freedom."""
    settings = explanation.settings
    own, other = explanation.standard_errors**2, background_errors(explanation) ** 2
    if explanation.distribution_standard_errors is not None:
        return _add_distribution(explanation, explanation.distribution_standard_errors)
    n_rows = min(int(settings["n_background"]), int(settings["max_background"]))
    # both terms are read off the same spread between rows: one sum, known no better than by so many rows
    dof = np.minimum(explanation.degrees_of_freedom, max(n_rows - 1, 1))
    return np.sqrt(own + other), np.where(other > 0, dof, explanation.degrees_of_freedom)


def covariance_with_background(explanation: Explanation) -> tuple[FloatArray, FloatArray]:
    """Covariance `(rows, outputs, players, players)` and degrees of freedom `(rows, players, outputs)` of both errors.

    Those of the background are taken as independent between players, as in simultaneous intervals: how they correlate
    is not known.
    """
    errors, dof = _add_background(explanation)
    covariance, shape = with_outputs(explanation, "covariance").copy(), with_outputs(explanation, "values").shape
    more = np.maximum(errors**2 - explanation.standard_errors**2, 0.0).reshape(shape)
    players = np.arange(shape[1])
    covariance[:, :, players, players] += np.moveaxis(more, 1, 2)
    return covariance, dof.reshape(shape)


def _add_distribution(explanation: Explanation, of_distribution: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Errors of sampling and of the estimated distribution, with Satterthwaite's degrees of freedom.

    Both are independent: one is read off random numbers, the other off the background.
    """
    own, other = explanation.standard_errors**2, of_distribution**2
    with np.errstate(divide="ignore", invalid="ignore"):
        dof = (own + other) ** 2 / (own**2 / explanation.degrees_of_freedom + other**2 / JACKKNIFE_DOF)
    return np.sqrt(own + other), np.where(other > 0, dof, explanation.degrees_of_freedom)


def _simultaneous(explanation: Explanation, level: float, errors: FloatArray, dof: FloatArray) -> FloatArray:
    """Critical values of simultaneous intervals, of the shape of `values`."""
    covariance, shape = with_outputs(explanation, "covariance"), with_outputs(explanation, "values").shape
    errors, dof, critical = errors.reshape(shape), dof.reshape(shape), np.empty(shape)
    for row in range(shape[0]):
        alpha = (1.0 - level) * explanation.look_shares[row]
        for output in range(shape[2]):
            spread = covariance[row, output]
            # an error that was added (of the background) has no known correlation: it is taken as independent
            more = errors[row, :, output] ** 2 - np.diag(spread)
            tail = simultaneous_tail(spread + np.diag(np.maximum(more, 0.0)), dof[row, :, output], alpha)
            critical[row, :, output] = quantile(tail_dof(dof[row, :, output]), tail)
    return critical.reshape(explanation.values.shape)
