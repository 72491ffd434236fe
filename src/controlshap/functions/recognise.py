"""Which models are functions with known values. Anything not understood is sampled: a guess would be a silent bias."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._types import BoolArray, FloatArray
from controlshap.functions.base import KnownFunction, warn_not_exact
from controlshap.functions.kernel_machine import read_kernel_machine
from controlshap.functions.logistic import PRECISION
from controlshap.functions.network import Network
from controlshap.functions.tree_readers.read import count_probes, read_trees
from controlshap.models.derivatives.closed_form import ClosedForm, closed_form, is_one_of
from controlshap.models.one_class import OneClass
from controlshap.models.predictions import MarginOf

if TYPE_CHECKING:
    from controlshap.functions.composed import Combination

#: Steps times background rows beyond which a row would take ten seconds and more: sampling is then the better bargain.
MOST_STEPS = 2e9
#: The same for a margin that is a mere control: about a tenth of a second.
MOST_CONTROL_STEPS = 2e7

#: Transformers of scikit-learn that make each column of the same column alone.
_BY_COLUMN = (
    "StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "PowerTransformer", "QuantileTransformer",
)  # fmt: skip
_AVERAGES = (
    "VotingRegressor", "VotingClassifier", "StackingRegressor", "StackingClassifier", "BaggingRegressor",
    "BaggingClassifier",
)  # fmt: skip


def recognise(source: Any, n_background: int = 1) -> KnownFunction | None:
    """The function that a fitted model is, or None; also where it would take too long over so many background rows."""
    if isinstance(source, OneClass):
        from controlshap.functions.composed import Blend

        whole = recognise(source.source, n_background)
        return None if whole is None else Blend(whole, source.weights, source.constant)
    model, margin = _split_source(source)
    function = read_form(model, margin=margin)
    if function is not None and function.steps_a_draw * n_background > MOST_STEPS:
        warn_not_exact(
            function.name,
            f"with {n_background:,} background rows a row would take very long; `max_background=` makes them fewer",
        )
        return None
    return function


def recognise_margin(source: Any, n_background: int) -> KnownFunction | None:
    """The margin of a classifier whose probability is explained, or None; as a control, it must not take long."""
    model, margin = _split_source(source)
    if margin or closed_form(model) is not None:
        return None  # walks in pairs leave nothing of a linear function
    function = read_form(model, margin=True)
    return None if function is None or function.steps_a_draw * n_background > MOST_CONTROL_STEPS else function


def read_form(model: Any, *, margin: bool) -> KnownFunction | None:
    """The function that a fitted model predicts: a value, a probability, or with `margin` what is before its link."""
    closed = closed_form(model)
    if closed is not None:
        return _of_closed_form(closed, margin=margin)
    for reader in (read_kernel_machine, _read_pipeline, _read_average, _read_calibrated, _read_powers, read_trees):
        function = reader(model, margin=margin)
        if function is not None:
            return function
    return None


def _of_closed_form(closed: ClosedForm, *, margin: bool) -> KnownFunction | None:
    """A linear model, behind its link or, with `margin`, before it."""
    if closed.link == "identity" or (margin and closed.link != "exponential"):
        from controlshap.functions.polynomial import Quadratic

        single = len(closed.coef) == 1
        return Quadratic(closed.intercept[0], closed.coef[0]) if single else Quadratic(closed.intercept, closed.coef)
    no_slope = np.zeros(closed.coef.shape[1])
    if closed.link == "exponential":
        from controlshap.functions.exponential import Exponentials

        return Exponentials(0.0, no_slope, closed.coef, closed.intercept, np.ones(1))
    if closed.link == "logistic":
        return Network(0.0, no_slope, closed.coef, closed.intercept, np.ones(1), PRECISION)
    return None  # a softmax is no product


def evaluations_to_recognise(source: Any) -> int:
    """Most model evaluations that `recognise` takes, once for an explainer."""
    model, _ = _split_source(source)
    inner = [step for _, step in model.steps[-1:]] if is_one_of(model, "sklearn.pipeline", ("Pipeline",)) else []
    inner += [part for part in getattr(model, "estimators_", ()) if _is_average(model)]
    return sum(evaluations_to_recognise(part) for part in inner) if inner else count_probes(model)


def agrees(function: KnownFunction, rows: FloatArray, predictions: FloatArray, others: FloatArray) -> BoolArray:
    """Whether the function predicts what the model predicted `(n, outputs)` on each of the rows `(n, columns)`.

    Rounding is as large as the terms that were added, not as their sum: a prediction near 0 is judged by the largest of
    its row and of `others`, predictions on other rows.
    """
    expected = function.predict(rows).reshape(len(rows), -1)
    if expected.shape != predictions.shape:
        return np.zeros(len(rows), dtype=bool)
    scales = np.maximum(np.abs(predictions).max(axis=1), max(float(np.abs(others).max()), 1e-12))
    agreed: BoolArray = np.abs(expected - predictions).max(axis=1) <= function.tolerance * scales
    return agreed


def _split_source(source: Any) -> tuple[Any, bool]:
    """The fitted model, and whether its margin is explained rather than a value or a probability."""
    if isinstance(source, OneClass):
        return _split_source(source.source)
    if isinstance(source, MarginOf):
        return source.model, True
    owner = getattr(source, "__self__", None)
    if owner is not None and getattr(source, "__name__", "") == "decision_function":
        return owner, True
    return source, hasattr(source, "classes_") and not hasattr(source, "predict_proba")


def _read_pipeline(model: Any, *, margin: bool) -> KnownFunction | None:
    """A known model behind transformers of single columns."""
    if not is_one_of(model, "sklearn.pipeline", ("Pipeline",)):
        return None
    before = [step for _, step in model.steps[:-1] if step is not None and step != "passthrough"]
    if not all(is_one_of(step, "sklearn.preprocessing", _BY_COLUMN) for step in before):
        return None
    from controlshap.functions.composed import Transformed

    inner = read_form(model.steps[-1][1], margin=margin)
    return None if inner is None else Transformed(inner, tuple(step.transform for step in before))


def _is_average(model: Any) -> bool:
    return is_one_of(model, "sklearn.ensemble", _AVERAGES)


def _read_average(model: Any, *, margin: bool) -> KnownFunction | None:
    """A mean of known models, or a linear model on top of them."""
    if not _is_average(model) or not hasattr(model, "estimators_"):
        return None
    if hasattr(model, "estimators_features_"):
        return _read_bagging(model, margin=margin)
    if hasattr(model, "final_estimator_"):
        return _read_stacking(model, margin=margin)
    if margin or getattr(model, "voting", "soft") != "soft":
        return None  # votes are no sums
    given = [1.0] * len(model.estimators_) if model.weights is None else _used_weights(model)
    parts = [read_form(part, margin=False) for part in model.estimators_]
    return _combine(parts, np.asarray(given, dtype=float) / np.sum(given), 0.0)


def _read_bagging(model: Any, *, margin: bool) -> KnownFunction | None:
    """The mean of models that were fitted on all columns; of classifiers where all know all classes."""
    everything = np.arange(model.n_features_in_)
    if margin or any(not np.array_equal(columns, everything) for columns in model.estimators_features_):
        return None
    if hasattr(model, "classes_") and any(len(part.classes_) != len(model.classes_) for part in model.estimators_):
        return None
    parts = [read_form(part, margin=False) for part in model.estimators_]
    return _combine(parts, np.full(len(parts), 1.0 / len(parts)), 0.0)


def _read_calibrated(model: Any, *, margin: bool) -> KnownFunction | None:
    """The mean probability of linear classifiers of two classes, each behind a logistic function of its score."""
    if margin or not is_one_of(model, "sklearn.calibration", ("CalibratedClassifierCV",)):
        return None
    if not hasattr(model, "classes_") or len(model.classes_) != 2 or model.method != "sigmoid":
        return None
    scores = [closed_form(part.estimator) for part in model.calibrated_classifiers_]
    known = [score for score in scores if score is not None]
    if len(known) < len(scores):
        return None
    curves = [part.calibrators[0] for part in model.calibrated_classifiers_]
    slopes, shifts = (np.array([getattr(curve, name) for curve in curves]) for name in ("a_", "b_"))
    weights = -slopes[:, None] * np.concatenate([score.coef for score in known])
    intercepts = -(slopes * np.concatenate([score.intercept for score in known]) + shifts)
    shares = np.full(len(known), 1.0 / len(known))
    return Network(0.0, np.zeros(weights.shape[1]), weights, intercepts, shares, PRECISION)


def _read_powers(model: Any, *, margin: bool) -> KnownFunction | None:
    """A linear regression of the logarithm of a target, which is predicted by the exponential."""
    if margin or not is_one_of(model, "sklearn.compose", ("TransformedTargetRegressor",)):
        return None
    if model.transformer is not None or model.inverse_func not in (np.exp, np.expm1):
        return None
    closed = closed_form(getattr(model, "regressor_", None))
    if closed is None or closed.link != "identity" or len(closed.coef) != 1:
        return None
    from controlshap.functions.exponential import Exponentials

    shift = -1.0 if model.inverse_func is np.expm1 else 0.0
    return Exponentials(shift, np.zeros(closed.coef.shape[1]), closed.coef, closed.intercept, np.ones(1))


def _used_weights(model: Any) -> list[float]:
    """Weights of the estimators that were not dropped."""
    pairs = zip(model.estimators, model.weights, strict=True)
    return [float(weight) for (_, part), weight in pairs if isinstance(part, str) is False]


def _read_stacking(model: Any, *, margin: bool) -> KnownFunction | None:
    """A linear regression on predictions, or the margin of a logistic regression on probabilities or margins."""
    final = closed_form(model.final_estimator_)
    if final is None or model.passthrough or len(final.coef) != 1 or (final.link == "identity") == margin:
        return None
    methods = [method for method in model.stack_method_ if method is not None]
    if len(final.coef[0]) != len(methods):
        return None  # several columns of an estimator: more than two classes
    parts = [
        read_form(part, margin=method == "decision_function")
        for part, method in zip(model.estimators_, methods, strict=True)
    ]
    return _combine(parts, final.coef[0], float(final.intercept[0]))


def _combine(parts: list[KnownFunction | None], weights: FloatArray, constant: float) -> Combination | None:
    from controlshap.functions.composed import Combination

    known = tuple(part for part in parts if part is not None)
    return Combination(known, weights, constant) if known and len(known) == len(parts) else None
