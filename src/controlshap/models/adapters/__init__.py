"""From a fitted model of a known library to a function of rows.

Optional packages are never imported here: a model of theirs can only exist when the package is loaded
already, so its type is looked up.
"""

from __future__ import annotations

from typing import Any

from controlshap._errors import InvalidArgumentError
from controlshap.models.adapters.boosting import boosting_predict
from controlshap.models.adapters.estimator import estimator_predict
from controlshap.models.model import Model
from controlshap.models.torch_module import is_torch_module, torch_predict

__all__ = ["as_model"]


def as_model(model: Any) -> Model:
    """Choose the prediction function.

    torch modules and native boosters first (some are callable themselves), then anything with
    `predict_proba`, `predict` or, for classifiers without probabilities, `decision_function`; then any
    callable.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, type):
        raise InvalidArgumentError(f"`model` is the class {model.__name__}, not a fitted model. Pass an instance.")
    if is_torch_module(model):
        return Model(torch_predict(model), model)
    booster = boosting_predict(model)
    if booster is not None:
        return Model(booster, model)
    if hasattr(model, "predict_proba") or hasattr(model, "predict"):
        return estimator_predict(model)
    if callable(model):
        return Model(model, model)
    raise InvalidArgumentError(
        f"`model` must be callable or a fitted model with `predict_proba` or `predict`; got "
        f"{type(model).__name__}. Pass for example `model.predict_proba`."
    )
