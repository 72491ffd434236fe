"""The model as a function of rows `(n, columns) -> (n, outputs)` whose outputs are checked at every call.

Its inputs are of the kind that it was fitted on, frames with its names or arrays without any: scikit-learn takes both
and warns at every call where the kind differs. Numbers are the same either way.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from importlib.util import find_spec
from numbers import Real
from typing import Any

import numpy as np

from controlshap._errors import ModelOutputError
from controlshap._types import FloatArray

#: Part of a range by which an output may leave it: rounding of single precision.
RANGE_ROUNDING = 1e-6
#: Names that lightgbm makes up for the columns of arrays.
_INVENTED = re.compile(r"Column_\d+")


def _as_they_are(rows: FloatArray) -> FloatArray:
    """Rows for a model that takes arrays of doubles; a named function, so that a model can be pickled."""
    return rows


@dataclass(frozen=True)
class Model:
    """A prediction function and what is known about it.

    Attributes
    ----------
    predict : callable
        Takes the model's own inputs, which `to_inputs` makes.
    to_inputs : callable
        Turns rows `(n, columns)` into what the model was fitted on, for example a frame.
    source : object
        The user's model, from which derivatives and exact forms are read.
    output_names : tuple of str, or None
        Names of the outputs, if the model has any: classes, of two the second alone.
    quantity : str
        What an output is: "probability", "decision function", "prediction"; empty where nobody knows.
    name : str
        What people call the model: its class, or the name of the function.
    output_range : tuple of float, or None
        What no output leaves, where that was promised: one that does is an error.
    """

    predict: Callable[[Any], Any]
    source: Any
    to_inputs: Callable[[FloatArray], Any] = _as_they_are
    output_names: tuple[str, ...] | None = None
    quantity: str = ""
    name: str = "a function"
    output_range: tuple[float, float] | None = None

    def __call__(self, rows: FloatArray, *, n_outputs: int | None, where: str) -> FloatArray:
        """Predict rows, shape (n, outputs); `where` names the rows in error messages."""
        try:
            # A copy: the model may write to its input, and these rows are used again.
            raw = self.predict(self.to_inputs(rows.copy()))
        except Exception as error:
            error.add_note(f"controlshap: the model raised this on {where} ({len(rows)} rows).")
            raise
        outputs = check_outputs(raw, len(rows), n_outputs, where)
        if self.output_range is not None:
            refuse_outside(outputs, self.output_range, where)
        return outputs


def check_outputs(raw: Any, n_rows: int, n_outputs: int | None, where: str) -> FloatArray:
    """Return outputs as an array of shape (n, outputs), or raise if they are not finite numbers of that shape."""
    try:
        outputs = _read_outputs(raw)
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise ModelOutputError(
            f"The model must return numbers; on {where} it returned {type(raw).__name__} that cannot be read as "
            f"real numbers ({error}). Pass a function that returns a probability, a score or a prediction."
        ) from error
    if outputs.ndim == 0 or outputs.ndim > 2 or len(outputs) != n_rows:
        raise ModelOutputError(
            f"The model must return one value per row, shape ({n_rows},) or ({n_rows}, outputs); on {where} it "
            f"returned shape {outputs.shape}. Make it work on a batch of rows."
        )
    outputs = outputs.reshape(n_rows, -1)
    if outputs.shape[1] == 0:
        raise ModelOutputError(f"The model returned no outputs (shape {outputs.shape}) on {where}.")
    if n_outputs is not None and outputs.shape[1] != n_outputs:
        raise ModelOutputError(
            f"The model returned {n_outputs} outputs a row before and {outputs.shape[1]} on {where}. "
            "It must return the same shape at every call."
        )
    bad = ~np.isfinite(outputs).all(axis=1)
    if bad.any():
        raise ModelOutputError(
            f"The model must return finite values; on {where} it returned NaN or infinite values for "
            f"{int(bad.sum())} of {n_rows} rows (first at row {int(bad.argmax())} of the batch). Explained and "
            "background rows are mixed column by column: can the model handle such rows?"
        )
    return outputs


def refuse_outside(outputs: FloatArray, output_range: tuple[float, float], where: str) -> None:
    """Refuse outputs that leave a range by more than rounding."""
    low, high = output_range
    least, most = float(outputs.min(initial=high)), float(outputs.max(initial=low))
    slack = RANGE_ROUNDING * (high - low)
    if least < low - slack or most > high + slack:
        worst = least if low - least > most - high else most
        raise ModelOutputError(
            f"`output_range=({low:g}, {high:g})` is what no output of the model leaves, but on {where} it returned "
            f"{worst:.6g}. The guarantee rests on the range: give one that holds for every row, or leave it out."
        )


def _read_outputs(raw: Any) -> FloatArray:
    """A copy in doubles: the model may write to what it returned, and return it again at its next call."""
    array = np.asarray(raw)
    if array.dtype.kind == "O" and not all(map(_is_real, array.ravel())):
        raise TypeError("objects of other kinds")
    if array.dtype.kind not in "fiubO":  # labels, even where they read like numbers; dates; complex numbers; records
        raise TypeError(f"an array of {array.dtype}")
    outputs = np.array(array, dtype=float, order="C")
    if isinstance(raw, np.ma.MaskedArray):
        outputs[np.ma.getmaskarray(raw)] = np.nan  # which is refused
    return outputs


def _is_real(value: Any) -> bool:
    # numpy counts time spans among the integers
    return isinstance(value, (Real, np.bool_, Decimal)) and not isinstance(value, np.timedelta64)


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


def is_torch_module(model: Any) -> bool:
    """Return whether this is a torch module, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)
