"""From arguments to what an explainer keeps: checked rows, a bearable background, the model behind an encoding."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from controlshap._errors import ControlShapWarning, InvalidArgumentError
from controlshap._random import EXPLAINER_ENTROPY, Purpose, stream
from controlshap._types import FloatArray
from controlshap.data.encoding import Encoding
from controlshap.data.table import Table, read_table
from controlshap.estimators import Enumeration, Estimator
from controlshap.models.model import Model
from controlshap.problem import BaseSample
from controlshap.values.base import Imputer
from controlshap.variances import Variance


def check_combination(variance: Variance | None, estimator: Estimator | None, coefficient: Any) -> None:
    """Refuse settings that do not go together."""
    if coefficient not in ("auto", "units", "folds"):
        raise InvalidArgumentError(f"`coefficient` must be 'auto', 'units' or 'folds'; got {coefficient!r}.")
    if variance is not None and estimator is not None:
        variance.check(least_squares=estimator.is_least_squares, n_draws=estimator.n_draws)
    elif variance is not None:
        variance.check(least_squares=False, n_draws=1)
    if coefficient == "folds" and variance is not None and not variance.by_units:
        raise InvalidArgumentError(
            f"`coefficient='folds'` works unit by unit and fits variance='auto', 'analytic' or 'least_squares', "
            f"not {variance}. Use coefficient='units'."
        )
    if estimator is not None and isinstance(estimator, Enumeration):
        raise InvalidArgumentError("`estimator`: enumeration is chosen by estimator='auto' where it fits.")


def read_rows(X: Any, column_names: tuple[str, ...], *, named: bool) -> Table:
    """Rows to explain with the columns of the background, in its order; `named` where it was a frame."""
    if hasattr(X, "to_frame") and hasattr(X, "index") and named:
        X = X.to_frame().T  # one row of a frame: its index names the columns
    table = read_table(X, "X", one_row=True)
    if table.n_columns != len(column_names):
        raise InvalidArgumentError(
            f"`X` has {table.n_columns} columns but `background` has {len(column_names)}; both need one value per "
            "model input."
        )
    if table.names is None or not named or table.names == column_names:
        return table
    if sorted(table.names) != sorted(column_names):
        odd = sorted(set(table.names) ^ set(column_names))
        raise InvalidArgumentError(f"`X` and `background` must have the same columns; these differ: {odd[:8]}.")
    return table.ordered(column_names)


def has_gaps(table: Table) -> bool:
    """Whether a number is missing."""
    columns = map(table.column, range(table.n_columns))
    return any(array.dtype.kind == "f" and bool(np.isnan(array).any()) for array in columns)


def sampled(table: Table, most: int) -> Table:
    """A fixed random part of a background that is too large."""
    chosen = np.sort(stream(EXPLAINER_ENTROPY, Purpose.BACKGROUND).permutation(table.n_rows)[:most])
    warnings.warn(
        f"`background` has {table.n_rows} rows; {most} of them (a fixed random sample) are used as the background, and "
        "base values carry that error. Set `max_background` to change it.",
        ControlShapWarning,
        stacklevel=3,
    )
    return table.taken(chosen)


def sampling_error(base: BaseSample, population: int) -> FloatArray:
    """Error of the base value `(outputs,)` because the background was sampled from so many rows."""
    n = len(base.rows)
    if not base.finite or n == population:
        return np.zeros(base.n_outputs)
    spread: FloatArray = base.values[:, :, 0].std(axis=0, ddof=1)
    error: FloatArray = spread * np.sqrt((1.0 - n / population) / n)
    return error


def with_inputs(model: Model, encoding: Encoding) -> Model:
    """The model on doubles: behind what makes its own inputs of them."""
    if encoding.is_plain and encoding.maker is None:
        return model
    # derivatives and forms are read from a model whose inputs are the columns, not from one behind an encoding
    source = model.source if encoding.is_plain else encoding
    return Model(model.predict, source, encoding, model.output_names)


def evaluated(model: Model, imputer: Imputer, rows: FloatArray, memory_limit: int, what: str) -> FloatArray:
    """What the model says of rows `(n, columns)`, shape (n, outputs), in batches under the memory limit."""
    parts: list[FloatArray] = []
    step = max(1, memory_limit // (8 * 6 * rows.shape[1]))
    for start in range(0, len(rows), step):
        inputs = imputer.to_inputs(rows[start : start + step])
        n_outputs = parts[0].shape[1] if parts else None
        where = f"{what} rows {start} to {start + len(inputs) - 1}"
        parts.append(model(inputs, n_outputs=n_outputs, where=where))
    return np.concatenate(parts)
