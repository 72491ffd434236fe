"""One class of a classifier, where another than the usual outputs is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from controlshap._checks import show
from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.models.model import Model, as_fitted


class OneClass:
    """The output for one class as a function of rows; a class, so that it can be pickled.

    Attributes
    ----------
    source : object
        The classifier, from which exact forms are read.
    weights : ndarray of shape (outputs,)
        The output is `constant` plus these times the known outputs of the classifier.
    """

    def __init__(
        self, predict: Callable[[Any], Any], column: int | None, source: Any, weights: FloatArray, constant: float
    ) -> None:
        self.predict, self.column = predict, column
        self.source, self.weights, self.constant = source, weights, constant

    def __call__(self, rows: Any) -> Any:
        """Predictions: a column of what the classifier returns, or its only score for the first of two classes."""
        outputs = np.asarray(self.predict(rows))
        return -outputs.reshape(len(outputs)) if self.column is None else outputs[:, self.column]


def choose_class(adapted: Model, model: Any, of_class: Any) -> Model:
    """The output of one class of an adapted classifier."""
    owner = getattr(model, "__self__", model)
    number, classes = _find_class(owner, of_class), [str(label) for label in owner.classes_]
    names = adapted.output_names or ()
    if names == (classes[number],):
        return adapted
    if len(names) == len(classes):
        weights = np.eye(len(classes))[number]
        chosen = OneClass(adapted.predict, number, adapted.source, weights, 0.0)
    elif adapted.quantity == "probability":
        chosen = OneClass(as_fitted(owner.predict_proba, owner), number, adapted.source, np.array([-1.0]), 1.0)
    elif len(names) == 1:
        chosen = OneClass(adapted.predict, None, adapted.source, np.array([-1.0]), 0.0)
    else:
        raise InvalidArgumentError(
            f"`of_class={show(of_class)}` needs a model with an output for each class; {adapted.name} returns "
            f"{adapted.quantity or 'something else'}. Pass the classifier itself, or its `predict_proba`."
        )
    return replace(adapted, predict=chosen, source=chosen, output_names=(classes[number],))


def _find_class(model: Any, of_class: Any) -> int:
    classes = getattr(model, "classes_", None)
    if classes is None or len(classes) == 0 or np.ndim(classes[0]) > 0:
        raise InvalidArgumentError(
            f"`of_class={show(of_class)}` needs a classifier that knows its classes (`classes_`); "
            f"{type(model).__name__} does not. Pass a function that returns the output to explain."
        )
    for number, label in enumerate(classes):
        if str(label) == str(of_class):
            return number
    raise InvalidArgumentError(f"`of_class` must be one of {show([str(c) for c in classes])}; got {show(of_class)}.")
