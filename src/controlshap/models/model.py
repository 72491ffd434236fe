"""Any model as a function of rows `(n, columns) -> (n, outputs)` whose outputs are checked at every call.

Fitted models of known libraries are recognised without importing these: a model can only exist if its package is loaded
already.

Its inputs are of the kind that it was fitted on, frames with its names or arrays without any: scikit-learn takes both
and warns at every call where the kind differs. Numbers are the same either way.
"""

from __future__ import annotations

import platform
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from numbers import Real
from pathlib import PurePath
from typing import Any

import numpy as np

from controlshap._errors import ControlShapWarning, InvalidArgumentError, ModelOutputError
from controlshap._types import FloatArray
from controlshap.models.predictions import MarginOf, SecondColumn, XgboostBooster

#: Part of a range by which an output may leave it: rounding of single precision.
RANGE_ROUNDING = 1e-6
#: What the methods of fitted models return.
QUANTITIES = {
    "predict_proba": "probability",
    "predict_log_proba": "log-probability",
    "decision_function": "decision function",
    "predict": "prediction",
}
#: Names that lightgbm makes up for the columns of arrays.
_INVENTED = re.compile(r"Column_\d+")


def _as_they_are(rows: FloatArray) -> FloatArray:
    """Rows for a model that takes arrays of doubles; a named function, so that a model can be pickled."""
    return rows


@dataclass(frozen=True)
class Model:
    """A prediction function with facts about it.

    Attributes
    ----------
    predict : callable
        Takes the model's own inputs, which `to_inputs` makes.
    to_inputs : callable
        Turns rows `(n, columns)` into inputs of the kind that the model was fitted on, for example a frame.
    source : object
        The user's model, from which derivatives and exact forms are read.
    output_names : tuple of str, or None
        Names of the outputs, if the model has any: classes, of two the second alone.
    quantity : str
        What an output is: "probability", "decision function", "prediction"; empty where nobody knows.
    name : str
        What people call the model: its class, or the name of the function.
    output_range : tuple of float, or None
        Range of the outputs, if the user has stated one: an output outside is an error.
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
            f"real numbers ({error}). {_way_to_numbers(raw)}"
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


def _way_to_numbers(raw: Any) -> str:
    """The way from labels of classes, or from anything else, to numbers."""
    listed = isinstance(raw, Iterable) and not isinstance(raw, Mapping) and getattr(raw, "ndim", 1) > 0
    if listed and all(isinstance(label, str) for label in islice(raw, 8)):
        return "These look like labels of classes: pass the fitted classifier itself, or its `predict_proba`."
    return "Pass a function that returns a probability, a score or a prediction."


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
    from decimal import Decimal

    # numpy counts time spans among the integers
    return isinstance(value, (Real, np.bool_, Decimal)) and not isinstance(value, np.timedelta64)


class AsFitted:
    """A prediction function whose inputs become what the model was fitted on; a class, so that it can be pickled.

    Attributes
    ----------
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


def as_model(model: Any, output: str = "auto", of_class: Any = None) -> Model:
    """Wrap the prediction function of a model: that of `output`, if it has several, and for the class `of_class`.

    Torch modules and boosters of xgboost are looked for first, because their `predict` takes no rows; then come
    objects with `predict_proba`, `predict` or, for classifiers without probabilities, `decision_function`; then any
    callable.
    """
    if output not in ("auto", "margin", "probability"):
        known: Any = getattr(model, "classes_", None)
        labels = [] if known is None else [str(one) for one in known]
        way_out = f" For that class, write of_class={output!r}." if str(output) in labels else ""
        raise InvalidArgumentError(f"`output` must be 'auto', 'margin' or 'probability'; got {output!r}.{way_out}")
    if of_class is not None:
        from controlshap.models.one_class import choose_class

        return choose_class(as_model(model, output), model, of_class)
    if output == "probability" and not hasattr(model, "predict_proba"):
        raise InvalidArgumentError(
            f"`output='probability'` needs a classifier with `predict_proba`; {type(model).__name__} has none. Pass a "
            "function that returns what you want explained."
        )
    if output == "margin":
        names = score_names(tuple(map(str, getattr(model, "classes_", ()))))
        margin = MarginOf(model)
        return Model(as_fitted(margin, model), margin, output_names=names, quantity="margin", name=name_of(model))
    if isinstance(model, Model):
        return model
    adapted = _adapt(model)
    return replace(adapted, predict=as_fitted(adapted.predict, getattr(model, "__self__", model)), name=name_of(model))


def name_of(model: Any) -> str:
    """A name for a model: its class (of a pipeline, that of the last step), or the name of the function."""
    steps = getattr(model, "steps", None)
    if isinstance(steps, list) and steps:
        return f"{type(model).__name__} ending in {type(steps[-1][1]).__name__}"
    owner, own = getattr(model, "__self__", None), getattr(model, "__name__", None)
    if isinstance(own, str):
        of_owner = f"{name_of(owner)}.{own}" if hasattr(owner, "predict") else own
        return "a function" if own == "<lambda>" else of_owner
    return type(model).__name__


def list_versions(source: Any) -> str:
    """Versions of Python, of numpy and scipy, and of the library that a model comes from."""
    owner = getattr(getattr(source, "source", source), "__self__", source)
    owner = owner.model if isinstance(owner, MarginOf) else owner
    packages = dict.fromkeys(["numpy", "scipy", type(owner).__module__.partition(".")[0]])
    found = [(name, getattr(sys.modules.get(name), "__version__", None)) for name in packages]
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {v}" for name, v in found if v is not None)])


def warn_of_columns(model: Any, column_names: tuple[str, ...]) -> None:
    """Warn of columns of the background that a model fitted on named columns has never seen: often the target."""
    known = set(fitted_names(model) or ())
    # lightgbm writes the spaces of names as underscores
    extra = [name for name in column_names if known and name not in known and name.replace(" ", "_") not in known]
    if extra:
        warnings.warn(
            f"`background` has columns that the model was not fitted on: {extra[:8]}. Is one of them the target? Pass "
            "background[model.feature_names_in_].",
            ControlShapWarning,
            stacklevel=4,
        )


def _adapt(model: Any) -> Model:
    if isinstance(model, type):
        raise InvalidArgumentError(f"`model` is the class {model.__name__}, not a fitted model. Pass an instance.")
    if is_torch_module(model):
        from controlshap.models.torch_module import TorchPredict

        return Model(TorchPredict(model), model)
    xgboost = sys.modules.get("xgboost")
    if xgboost is not None and isinstance(model, xgboost.Booster):
        return Model(XgboostBooster(model), model, quantity="prediction")
    if hasattr(model, "predict_proba") or hasattr(model, "predict"):
        return _wrap_estimator(model)
    if callable(model):
        return _wrap_callable(model)
    way_out = "Pass for example `model.predict_proba`."
    if isinstance(model, (str, PurePath)):
        way_out = "Load the file first; `controlshap explain MODEL ROWS` reads model files from the shell."
    elif hasattr(model, "columns") or isinstance(model, np.ndarray):
        way_out = "The arguments seem to be swapped: the model comes first, Explainer(model, background)."
    raise InvalidArgumentError(
        f"`model` must be callable or a fitted model with `predict_proba` or `predict`; got "
        f"{type(model).__name__}. {way_out}"
    )


def _wrap_callable(function: Any) -> Model:
    """A function; where it is a method of a fitted model, its outputs have names."""
    quantity = QUANTITIES.get(getattr(function, "__name__", ""), "")
    owner = getattr(function, "__self__", None)
    if not quantity or not hasattr(owner, "predict"):
        return Model(function, function)
    classes = _names_of(getattr(owner, "classes_", None))
    if classes is not None and quantity == "decision function":
        classes = score_names(classes)
    return Model(function, function, output_names=None if quantity == "prediction" else classes, quantity=quantity)


def _names_of(classes: Any) -> tuple[str, ...] | None:
    """Names of classes; None where there are none, or several lists of them."""
    if classes is None or len(classes) == 0 or np.ndim(classes[0]) > 0:
        return None
    return tuple(str(one) for one in classes)


def score_names(classes: tuple[str, ...]) -> tuple[str, ...] | None:
    """Names of the scores of classes: of two there is one, for the second."""
    return classes if len(classes) > 2 else classes[1:] or None


def _wrap_estimator(model: Any) -> Model:
    """Use the probabilities if there are any (of two classes, the second alone), else the predictions."""
    classes = getattr(model, "classes_", None)
    if classes is not None and len(classes) == 0:
        classes = None  # a regressor whose class is shared with classifiers, such as CatBoost's
    if classes is not None and np.ndim(classes[0]) > 0:
        raise InvalidArgumentError(
            f"`model` ({type(model).__name__}) is a classifier of {len(classes)} targets at once. Explain one at a "
            "time: pass for example `lambda rows: model.predict_proba(rows)[0][:, 1]` for the first."
        )
    names = _names_of(classes)
    if hasattr(model, "predict_proba"):
        if names is not None and len(names) == 2:
            return Model(SecondColumn(model.predict_proba), model, output_names=names[1:], quantity="probability")
        return Model(model.predict_proba, model, output_names=names, quantity="probability")
    if names is None:
        return Model(model.predict, model, quantity="prediction")
    if hasattr(model, "decision_function"):
        return Model(model.decision_function, model, output_names=score_names(names), quantity="decision function")
    raise InvalidArgumentError(
        f"`model` ({type(model).__name__}) is a classifier without `predict_proba` or `decision_function`; "
        "class labels have no Shapley values. Calibrate it (CalibratedClassifierCV), or pass a function."
    )
