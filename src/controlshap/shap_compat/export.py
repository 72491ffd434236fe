"""`Explanation.to_shap()`: explanations for shap's plots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._imports import require
from controlshap._types import FloatArray
from controlshap.data.table import is_missing, is_number

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: Label of a missing value; shap's plots cannot show None.
MISSING_LABEL = "missing"


def to_shap(explanation: Explanation, level: float | None = None) -> Any:
    """Return a `shap.Explanation` of the same values.

    `data` holds numbers only, because shap's colours and trees need them; if a player shows a label (a category, the
    active column of a group), the number is its position among the labels, and `display_data` has the label itself.
    `error_std` holds the standard errors. No plot of shap draws it, and shap's own means over rows do not average it.

    Parameters
    ----------
    explanation : Explanation
    level : float, optional
        Level of confidence intervals, which are included as `lower_bounds` and `upper_bounds` and drawn by shap's
        waterfall. None leaves them out: shap keeps the bounds of the first row when it averages rows, and its waterfall
        then refuses to draw them.
    """
    shap = require("shap", extra="shap", feature="`to_shap()`")
    low, high = (None, None) if level is None else explanation.confidence_interval(level)
    data, shown = _numbers_and_labels(explanation)
    several = explanation.values.ndim == 3
    return shap.Explanation(
        values=explanation.values,
        base_values=explanation.base_values,
        data=data,
        display_data=shown,
        feature_names=list(explanation.feature_names),
        # the name of an only output would make shap take the players for outputs
        output_names=list(explanation.output_names) if several and explanation.output_names else None,
        lower_bounds=low,
        upper_bounds=high,
        error_std=explanation.standard_errors,
    )


def _numbers_and_labels(explanation: Explanation) -> tuple[FloatArray, np.ndarray[Any, np.dtype[Any]] | None]:
    """Return the values of players as numbers and, unless all of them are numbers, as text."""
    single = all(len(columns) == 1 for columns in explanation.player_columns)
    if single and explanation.data.dtype.kind in "fiu":
        return explanation.data[:, [columns[0] for columns in explanation.player_columns]], None
    shown = explanation.player_data()
    numbers = np.empty(shown.shape)
    readable = np.empty(shown.shape, dtype=object)
    labelled = False
    for player in range(shown.shape[1]):
        column = shown[:, player]
        if all(is_number(value) for value in column):
            numbers[:, player] = [np.nan if is_missing(value) else float(value) for value in column]
            readable[:, player] = numbers[:, player]
            continue
        labelled = True
        labels = [MISSING_LABEL if is_missing(value) else str(value) for value in column]
        place = {label: float(i) for i, label in enumerate(sorted(set(labels) - {MISSING_LABEL}))}
        place.setdefault(MISSING_LABEL, float(len(place)))
        numbers[:, player] = [place[label] for label in labels]
        readable[:, player] = labels
    return numbers, readable if labelled else None
