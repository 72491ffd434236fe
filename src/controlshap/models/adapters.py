"""Fitted models of known libraries as functions of rows.

Optional packages are never imported to recognise a model: a model can only exist if its package is loaded already.
"""

from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np

from controlshap._errors import ControlShapWarning, InvalidArgumentError
from controlshap.models.margins import MarginOf
from controlshap.models.model import Model, as_fitted, fitted_names, is_torch_module
from controlshap.models.one_class import choose_class

#: What the methods of fitted models return.
QUANTITIES = {
    "predict_proba": "probability",
    "predict_log_proba": "log-probability",
    "decision_function": "decision function",
    "predict": "prediction",
}


def as_model(model: Any, output: str = "auto", of_class: Any = None) -> Model:
    """Wrap the prediction function of a model; `output` says which, where it has several, and `of_class` of what class.

    Torch modules and native boosters are looked for first, because some of them are callable themselves; then come
    objects with `predict_proba`, `predict` or, for classifiers without probabilities, `decision_function`; then any
    callable.
    """
    if output not in ("auto", "margin", "probability"):
        known: Any = getattr(model, "classes_", None)
        labels = [] if known is None else [str(one) for one in known]
        way_out = f" For that class, write of_class={output!r}." if str(output) in labels else ""
        raise InvalidArgumentError(f"`output` must be 'auto', 'margin' or 'probability'; got {output!r}.{way_out}")
    if of_class is not None:
        return choose_class(as_model(model, output), model, of_class)
    if output == "probability" and not hasattr(model, "predict_proba"):
        raise InvalidArgumentError(
            f"`output='probability'` needs a classifier with `predict_proba`; {type(model).__name__} has none. Pass a "
            "function that returns what you want explained."
        )
    if output == "margin":
        classes = getattr(model, "classes_", ())
        names = tuple(str(c) for c in classes)
        margin = MarginOf(model)
        known = names if len(names) > 2 else names[1:] or None
        return Model(as_fitted(margin, model), margin, output_names=known, quantity="margin", name=name_of(model))
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
    booster = _wrap_booster(model)
    if booster is not None:
        return Model(booster, model, quantity="prediction")
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
    if classes is not None and quantity == "decision function" and len(classes) == 2:
        classes = classes[1:]
    return Model(function, function, output_names=None if quantity == "prediction" else classes, quantity=quantity)


def _names_of(classes: Any) -> tuple[str, ...] | None:
    """Names of classes; None where there are none, or several lists of them."""
    if classes is None or len(classes) == 0 or np.ndim(classes[0]) > 0:
        return None
    return tuple(str(one) for one in classes)


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
        known = names if len(names) > 2 else names[1:]
        return Model(model.decision_function, model, output_names=known, quantity="decision function")
    raise InvalidArgumentError(
        f"`model` ({type(model).__name__}) is a classifier without `predict_proba` or `decision_function`; "
        "class labels have no Shapley values. Calibrate it (CalibratedClassifierCV), or pass a function."
    )


class SecondColumn:
    """Probability of the second class; a class rather than a closure, so that it can be pickled."""

    def __init__(self, predict_proba: Callable[[Any], Any]) -> None:
        self.predict_proba = predict_proba

    def __call__(self, rows: Any) -> Any:
        """Predictions of the wrapped model."""
        return self.predict_proba(rows)[:, 1]


def _wrap_booster(model: Any) -> Callable[[Any], Any] | None:
    """Return the prediction function of a native booster, or None for any other model."""
    for package, adapter in (("xgboost", XgboostBooster), ("lightgbm", LightgbmBooster)):
        module = sys.modules.get(package)
        if module is not None and isinstance(model, module.Booster):
            return adapter(model)
    return None


class XgboostBooster:
    """Predictions of an `xgboost.Booster`: probabilities or values, depending on its objective."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def __call__(self, rows: Any) -> Any:
        """Predict through a DMatrix with the booster's own feature names."""
        import xgboost

        matrix = xgboost.DMatrix(rows, feature_names=self.booster.feature_names, enable_categorical=True)
        return self.booster.predict(matrix)


class LightgbmBooster:
    """Predictions of a `lightgbm.Booster`: probabilities or values, depending on its objective."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def __call__(self, rows: Any) -> Any:
        """Predictions of the wrapped model."""
        return self.booster.predict(rows)
