"""Models that follow scikit-learn's conventions (scikit-learn, and the wrappers of xgboost and lightgbm)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlshap._errors import InvalidArgumentError
from controlshap.models.model import Model


def estimator_predict(model: Any) -> Model:
    """Probabilities where there are any (class 1 alone for two classes), else predictions."""
    if hasattr(model, "predict_proba"):
        classes = getattr(model, "classes_", None)
        if classes is not None and len(classes) == 2 and not isinstance(classes, list):
            return Model(_second_column(model.predict_proba), model)
        names = tuple(str(c) for c in classes) if classes is not None else None
        return Model(model.predict_proba, model, output_names=names)
    if hasattr(model, "classes_"):
        if hasattr(model, "decision_function"):
            classes = model.classes_
            names = tuple(str(c) for c in classes) if len(classes) > 2 else None
            return Model(model.decision_function, model, output_names=names)
        raise InvalidArgumentError(
            f"`model` ({type(model).__name__}) is a classifier without `predict_proba` or `decision_function`; "
            "class labels have no Shapley values. Calibrate it (CalibratedClassifierCV), or pass a function."
        )
    return Model(model.predict, model)


def _second_column(predict_proba: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return SecondColumn(predict_proba)


class SecondColumn:
    """Probability of class 1: a class rather than a closure, so that it can be sent to workers."""

    def __init__(self, predict_proba: Callable[[Any], Any]) -> None:
        self.predict_proba = predict_proba

    def __call__(self, rows: Any) -> Any:
        """Second column of the probabilities."""
        return self.predict_proba(rows)[:, 1]
