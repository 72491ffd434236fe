"""Models called as shap's KernelExplainer calls them: functions get arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from controlshap._types import AnyArray
from controlshap.models.model import as_model, fitted_names, without_conversion


class ShapModel:
    """A user's model, and the number of dimensions that the outputs of a function have.

    A function gets arrays, as in shap. A model, or a method of a model that was fitted on named columns, gets frames
    if the columns have names; with `frames` functions do, too. With `sparse` functions get sparse matrices.

    Attributes
    ----------
    arrays : bool
        Whether the model gets arrays.
    n_dimensions : int or None
        Dimensions of what a function returned last.
    """

    def __init__(self, model: Any, *, frames: bool, sparse: bool = False) -> None:
        adapted = as_model(model)
        self.sparse = sparse
        self.function = adapted.predict
        self.n_dimensions: int | None = None
        is_function = without_conversion(adapted.predict) is model
        self.arrays = is_function and not frames and fitted_names(model) is None
        source = _owner(model) if is_function else adapted.source
        self.model = replace(adapted, predict=self if is_function else adapted.predict, source=source)

    def __call__(self, rows: Any) -> Any:
        """Predict, and note the number of dimensions."""
        inputs = rows.to_numpy() if self.arrays and hasattr(rows, "columns") else rows
        if self.sparse:
            from scipy.sparse import csr_matrix

            inputs = csr_matrix(inputs)
        outputs = self.function(inputs)
        self.n_dimensions = np.ndim(outputs)
        return outputs


class InputMaker:
    """Turns mixed rows into what the model takes, arrays or frames; a class, so that it can be pickled."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def __call__(self, rows: AnyArray, index: AnyArray | None) -> Any:
        """Return rows as the model takes them, with an index if the model is to see one."""
        if self.frame is None:
            return rows
        import pandas

        mixed = pandas.DataFrame(rows, columns=self.frame.columns, index=index)
        if index is not None:
            mixed.index.name = self.frame.index.name
        for name, kind in self.frame.dtypes.items():
            if mixed[name].dtype != kind:
                # the type of the background must not change a value of the explained row (1.5 among integers)
                mixed[name] = mixed[name].astype(kind) if _fits(mixed[name], kind) else mixed[name].infer_objects()
        return mixed


def _fits(column: Any, kind: Any) -> bool:
    """Return whether all values of a column have this type."""
    if hasattr(kind, "categories"):
        return bool((column.isin(kind.categories) | column.isna()).all())
    try:
        return bool(((column.astype(kind) == column) | column.isna()).all())
    except (TypeError, ValueError):
        return False


def _owner(function: Any) -> Any:
    """Return the model whose prediction method this is, for exact values; else the function itself."""
    owner = getattr(function, "__self__", None)
    if not hasattr(owner, "predict") or (hasattr(owner, "classes_") and not hasattr(owner, "predict_proba")):
        return function
    own = as_model(owner)
    return own.source if without_conversion(own.predict) == function else function
