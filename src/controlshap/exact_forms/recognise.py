"""Which models are of a known form. Anything not understood is sampled: a guess would be a bias in silence."""

from __future__ import annotations

from typing import Any

import numpy as np

from controlshap._types import FloatArray
from controlshap.derivatives.closed import closed_form
from controlshap.exact_forms.forms import ExactForm, LinearForm, LogisticForm

#: Largest difference between a form and the model itself, relative to the size of the predictions.
AGREEMENT = 1e-6


def recognise(source: Any) -> ExactForm | None:
    """The form of a fitted model, or None."""
    closed = closed_form(source)
    if closed is not None and closed.link == "identity":
        return LinearForm(closed.coef, closed.intercept)
    if closed is not None and closed.link == "logistic":
        return LogisticForm(closed.coef[0], float(closed.intercept[0]))
    return None


def agrees(form: ExactForm, rows: FloatArray, predictions: FloatArray) -> bool:
    """Whether the form says what the model said on rows `(n, columns)`, predictions `(n, outputs)`."""
    expected = form.predict(rows)
    if expected.shape != predictions.shape:
        return False
    scale = max(float(np.abs(predictions).max()), 1e-12)
    return bool(np.abs(expected - predictions).max() <= AGREEMENT * scale)
