"""Prediction functions that are more than a method of a fitted model; classes, so that they can be pickled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from controlshap._errors import InvalidArgumentError

#: The classifiers of a package, and the argument of `predict` that asks for their margin.
_ARGUMENTS = (("lightgbm", "LGBMClassifier", "raw_score"), ("xgboost", "XGBClassifier", "output_margin"))


class MarginOf:
    """The margin of a fitted classifier: what stands before the logistic or softmax link.

    Attributes
    ----------
    model : object
        The classifier itself, from which exact forms are read.
    """

    def __init__(self, model: Any) -> None:
        if _find_margin(model) is None:
            raise InvalidArgumentError(
                f"`output='margin'` needs a classifier with a `decision_function`, or one of lightgbm or xgboost; "
                f"{type(model).__name__} has none. Pass a function that returns what you want explained."
            )
        self.model = model

    def __call__(self, rows: Any) -> Any:
        """Margins of the model."""
        predict = _find_margin(self.model)
        assert predict is not None
        return predict(rows)


def _find_margin(model: Any) -> Callable[[Any], Any] | None:
    """How the margin is asked for; libraries do not agree."""
    if hasattr(model, "decision_function"):
        found: Callable[[Any], Any] = model.decision_function
        return found
    steps = getattr(model, "steps", None)
    last = steps[-1][1] if steps else model  # a pipeline hands further arguments on to its last step
    for package, name, argument in _ARGUMENTS:
        module = sys.modules.get(package)
        if module is not None and isinstance(last, (module.Booster, getattr(module, name))):
            return lambda rows: model.predict(_as_input(model, rows, package), **{argument: True})
    return None


def _as_input(model: Any, rows: Any, package: str) -> Any:
    """Rows as the model takes them: a booster of xgboost wants a matrix of its own."""
    if package != "xgboost" or hasattr(model, "get_booster") or hasattr(model, "steps"):
        return rows
    return _as_matrix(model, rows)


def _as_matrix(booster: Any, rows: Any) -> Any:
    """Rows as `xgboost.Booster` takes them, with its own feature names."""
    import xgboost

    return xgboost.DMatrix(rows, feature_names=booster.feature_names, enable_categorical=True)


class SecondColumn:
    """Probability of the second class."""

    def __init__(self, predict_proba: Callable[[Any], Any]) -> None:
        self.predict_proba = predict_proba

    def __call__(self, rows: Any) -> Any:
        """Predictions of the wrapped model."""
        return self.predict_proba(rows)[:, 1]


class XgboostBooster:
    """Predictions of an `xgboost.Booster`: probabilities or values, depending on its objective."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def __call__(self, rows: Any) -> Any:
        """Predictions of the booster."""
        return self.booster.predict(_as_matrix(self.booster, rows))
