"""Which models are of a known form. Anything not understood is sampled: a guess would be a bias in silence."""

from __future__ import annotations

from typing import Any

import numpy as np

from controlshap._types import FloatArray
from controlshap.functions.forms import ExactForm, LinearForm, LogisticForm, TreeForm
from controlshap.functions.tree_readers.read import probe_count, tree_boxes, tree_margin_boxes
from controlshap.models.derivatives.closed_form import closed_form

#: Largest difference between a form and the model itself, relative to the size of the predictions: in double precision,
#: and for libraries that predict in single precision.
AGREEMENT, SINGLE_AGREEMENT = 1e-6, 1e-5
#: Leaves times background rows beyond which a row would take tens of seconds: sampling is then the better bargain.
MOST_LEAF_ROWS = 2e9


def recognise(source: Any, n_background: int = 1) -> ExactForm | None:
    """The form of a fitted model, or None; also where it would take too long over so many background rows."""
    closed = closed_form(source)
    if closed is not None and closed.link == "identity":
        return LinearForm(closed.coef, closed.intercept)
    if closed is not None and closed.link == "logistic":
        return LogisticForm(closed.coef[0], float(closed.intercept[0]))
    owner = getattr(source, "__self__", None)
    if owner is not None and getattr(source, "__name__", "") == "decision_function":
        boxes = tree_margin_boxes(owner)  # the margin of a boosted classifier; its probability is no sum of trees
    else:
        boxes = tree_boxes(source)
    if boxes is None or boxes.n_leaves * n_background > MOST_LEAF_ROWS:
        return None
    return TreeForm(boxes)


def evaluations_to_recognise(source: Any) -> int:
    """Most model evaluations that `recognise` takes, once for an explainer."""
    owner = getattr(source, "__self__", None)
    return probe_count(source if owner is None else owner)


def agrees(form: ExactForm, rows: FloatArray, predictions: FloatArray) -> bool:
    """Whether the form says what the model said on rows `(n, columns)`, predictions `(n, outputs)`."""
    expected = form.predict(rows)
    if expected.shape != predictions.shape:
        return False
    scale = max(float(np.abs(predictions).max()), 1e-12)
    limit = SINGLE_AGREEMENT if isinstance(form, TreeForm) else AGREEMENT
    return bool(np.abs(expected - predictions).max() <= limit * scale)
