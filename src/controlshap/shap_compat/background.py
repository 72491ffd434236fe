"""The backgrounds that shap's KernelExplainer takes: arrays, frames, one row, and rows with weights (shap.kmeans)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._optional import require
from controlshap._types import AnyArray, FloatArray


@dataclass(frozen=True, eq=False)
class Background:
    """Rows with weights, under the names that shap's own object has.

    Attributes
    ----------
    data : ndarray of shape (n, columns)
    weights : ndarray of shape (n,)
        They sum to 1.
    column_names : tuple of str or None
        Where the data had any.
    groups : dict or None
        Columns that are one player, where shap's object says so.
    frame : frame or None
        The same rows as a frame, where the columns have names.
    """

    data: AnyArray
    weights: FloatArray
    column_names: tuple[str, ...] | None
    groups: dict[str, list[int]] | None
    frame: Any

    @property
    def is_weighted(self) -> bool:
        """Whether some rows count more than others."""
        return not np.allclose(self.weights, self.weights[0], rtol=1e-12, atol=0.0)


def read_background(data: Any, feature_names: Sequence[str] | None) -> Background:
    """Rows, weights and names of what was passed as `data`."""
    refuse_sparse(data, "data")
    if _is_dense_data(data):
        return _from_dense_data(data, feature_names)
    if hasattr(data, "columns"):
        names = tuple(str(name) for name in data.columns)
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise InvalidArgumentError(
                f"`data`: column names must be unique, but {repeated[:8]} stand for several columns. Rename them."
            )
        if feature_names is not None and tuple(str(name) for name in feature_names) != names:
            raise InvalidArgumentError(
                f"`feature_names` must be those of the frame `data`, {list(names)[:8]}; got {list(feature_names)[:8]}. "
                "Leave it out, or rename the columns of the frame."
            )
        return Background(data.to_numpy(), _equal(len(data)), names, None, data)
    if hasattr(data, "to_frame") and hasattr(data, "index"):  # one row of a frame
        return read_background(data.to_frame().T.infer_objects(), feature_names)
    rows = np.asarray(data)
    if rows.ndim != 2 or len(rows) == 0:
        raise InvalidArgumentError(
            f"`data` must be two-dimensional, (rows, columns), with at least one row; got the shape {rows.shape}. "
            "Reshape one row with row[None]."
        )
    return _named(rows, _equal(len(rows)), _checked_names(feature_names, rows.shape[1]), None)


def read_rows(X: Any, background: Background) -> tuple[AnyArray, list[Any]]:
    """Rows to explain as an array, in the order of the background's columns, and their index."""
    if hasattr(X, "to_frame") and hasattr(X, "index") and background.column_names is not None:
        X = X.to_frame().T.infer_objects()
    names, n_columns = background.column_names, background.data.shape[1]
    labels = list(X.index) if hasattr(X, "iloc") and hasattr(X, "columns") else []
    if hasattr(X, "columns") and names is not None:
        there = [str(name) for name in X.columns]
        if sorted(there) != sorted(names):
            odd = sorted(set(there) ^ set(names))
            raise InvalidArgumentError(f"`X` and `data` must have the same columns; these differ: {odd[:8]}.")
        X = X[[X.columns[there.index(name)] for name in names]]
    rows = X.to_numpy() if hasattr(X, "columns") else np.asarray(X)
    rows = rows[None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or rows.shape[1] != n_columns or len(rows) == 0:
        raise InvalidArgumentError(f"`X` must have the {n_columns} columns of `data`; got the shape {rows.shape}.")
    return rows, labels or list(range(len(rows)))


def refuse_sparse(data: Any, argument: str) -> None:
    """Sparse matrices would be filled in without a word about the memory."""
    if type(data).__module__.startswith("scipy.sparse") or type(data).__name__ == "SparseData":
        raise InvalidArgumentError(
            f"`{argument}` is sparse; rows are mixed column by column and need an array. Pass {argument}.toarray()."
        )


def _is_dense_data(data: Any) -> bool:
    return all(hasattr(data, name) for name in ("data", "weights", "groups", "group_names", "transposed"))


def _from_dense_data(data: Any, feature_names: Sequence[str] | None) -> Background:
    if data.transposed:
        raise InvalidArgumentError("`data` is transposed; it needs one row for each observation.")
    rows, weights = np.asarray(data.data), np.asarray(data.weights, dtype=float)
    names = tuple(str(name) for name in data.group_names)
    groups = [[int(column) for column in group] for group in data.groups]
    if any(len(group) != 1 for group in groups):
        shared = {name: group for name, group in zip(names, groups, strict=True) if len(group) > 1}
        return _named(rows, weights, _checked_names(feature_names, rows.shape[1]), shared)
    if feature_names is not None:
        return _named(rows, weights, _checked_names(feature_names, rows.shape[1]), None)
    # shap numbers the columns of an array, which are no names
    numbered = names == tuple(str(i) for i in range(len(names)))
    return _named(rows, weights, None if numbered else names, None)


def _checked_names(feature_names: Sequence[str] | None, n_columns: int) -> tuple[str, ...] | None:
    if feature_names is None:
        return None
    if len(feature_names) != n_columns:
        raise InvalidArgumentError(
            f"`feature_names` must have one name for each of the {n_columns} columns; got {len(feature_names)}."
        )
    return tuple(str(name) for name in feature_names)


def _named(
    rows: AnyArray, weights: FloatArray, names: tuple[str, ...] | None, groups: dict[str, list[int]] | None
) -> Background:
    frame = None
    if names is not None:
        pandas = require("pandas", extra="frames", feature="`feature_names`", otherwise="or leave it out")
        frame = pandas.DataFrame(rows, columns=list(names))
    return Background(rows, weights / weights.sum(), names, groups, frame)


def _equal(n_rows: int) -> FloatArray:
    return np.full(n_rows, 1.0 / max(n_rows, 1))
