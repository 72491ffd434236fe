"""Inputs of the kind that a model was fitted on: frames with its names, or arrays without any.

scikit-learn takes both and warns at every call where the kind differs. Numbers are the same either way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

#: Names that lightgbm makes up for the columns of arrays.
_INVENTED = re.compile(r"Column_\d+")


class AsFitted:
    """A prediction function whose inputs become what the model was fitted on; a class, so that it can be pickled.

    Attributes
    ----------
    predict : callable
    names : tuple of str or None
        Columns of the frame that arrays become; None where frames of numbers become arrays.
    """

    def __init__(self, predict: Callable[[Any], Any], names: tuple[str, ...] | None) -> None:
        self.predict = predict
        self.names = names

    def __call__(self, rows: Any) -> Any:
        """Predictions for rows of either kind."""
        return self.predict(_to_array(rows) if self.names is None else _to_frame(rows, self.names))


def as_fitted(predict: Callable[[Any], Any], model: Any) -> Callable[[Any], Any]:
    """A prediction function of a fitted model, with inputs of the kind that it was fitted on where that is known."""
    names = _names_in(model)
    if names and find_spec("pandas") is not None:
        return AsFitted(predict, names)
    return AsFitted(predict, None) if _fitted_on_arrays(model) else predict


def without_conversion(predict: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The prediction function that `as_fitted` was given."""
    return predict.predict if isinstance(predict, AsFitted) else predict


def fitted_names(model: Any) -> tuple[str, ...] | None:
    """Names of the columns that a model, or the model that a method belongs to, was fitted on; None if it had none."""
    names = _names_in(getattr(model, "__self__", model))
    return None if not names or all(map(_INVENTED.fullmatch, names)) else names


def _names_in(model: Any) -> tuple[str, ...]:
    names = getattr(model, "feature_names_in_", None)
    return () if names is None else tuple(map(str, names))


def _fitted_on_arrays(model: Any) -> bool:
    """Whether a model of scikit-learn, made of parts of scikit-learn alone, has seen no names.

    Other classes may keep no record of the names that they were fitted on, and need them.
    """
    if _names_in(model) or not hasattr(model, "n_features_in_") or not _is_of_sklearn(model):
        return False
    parts = [part for part in model.get_params().values() if hasattr(part, "get_params")]
    return all(map(_is_of_sklearn, parts))


def _is_of_sklearn(model: Any) -> bool:
    return type(model).__module__.startswith("sklearn.")


def _to_frame(rows: Any, names: tuple[str, ...]) -> Any:
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.shape[1] != len(names):
        return rows
    import pandas

    frame = pandas.DataFrame(rows, columns=list(names), copy=False)
    return frame.infer_objects() if rows.dtype.kind == "O" else frame


def _to_array(rows: Any) -> Any:
    if not hasattr(rows, "columns"):
        return rows
    array = rows.to_numpy()
    return array if array.dtype.kind in "fiu" else rows
