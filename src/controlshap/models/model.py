"""The model as a function of rows `(n, columns) -> (n, outputs)` whose outputs are checked at every call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from controlshap._errors import ModelOutputError
from controlshap._types import FloatArray

#: Part of a range by which an output may leave it: rounding of single precision.
RANGE_ROUNDING = 1e-6


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
