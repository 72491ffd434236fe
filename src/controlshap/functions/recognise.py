"""Which models are functions with known values. Anything not understood is sampled: a guess would be a silent bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from controlshap._types import FloatArray
from controlshap.functions.base import KnownFunction, warn_not_exact
from controlshap.functions.logistic import PRECISION
from controlshap.functions.network import Network
from controlshap.functions.polynomial import Quadratic
from controlshap.functions.tree_readers.read import count_probes, read_trees
from controlshap.models.derivatives.closed_form import closed_form

#: Leaves times background rows beyond which a row would take tens of seconds: sampling is then the better bargain.
MOST_LEAF_ROWS = 2e9


def recognise(source: Any, n_background: int = 1) -> KnownFunction | None:
    """The function that a fitted model is, or None; also where it would take too long over so many background rows."""
    closed = closed_form(source)
    if closed is not None and closed.link == "identity":
        single = len(closed.coef) == 1
        return Quadratic(closed.intercept[0], closed.coef[0]) if single else Quadratic(closed.intercept, closed.coef)
    if closed is not None and closed.link == "logistic":
        no_slope = np.zeros(closed.coef.shape[1])
        return Network(0.0, no_slope, closed.coef, closed.intercept, np.ones(1), PRECISION)
    owner = getattr(source, "__self__", None)
    # the margin of a boosted classifier; its probability is no sum of trees
    margin = owner is not None and getattr(source, "__name__", "") == "decision_function"
    trees = read_trees(owner if margin else source, margin=margin)
    if trees is not None and trees.n_leaves * n_background > MOST_LEAF_ROWS:
        many = f"{trees.n_leaves:,} leaves and {n_background:,} background rows would take very long"
        warn_not_exact(trees.name, f"{many}; `max_background=` makes these fewer")
        return None
    return trees


def evaluations_to_recognise(source: Any) -> int:
    """Most model evaluations that `recognise` takes, once for an explainer."""
    owner = getattr(source, "__self__", None)
    return count_probes(source if owner is None else owner)


def agrees(function: KnownFunction, rows: FloatArray, predictions: FloatArray, others: FloatArray) -> bool:
    """Whether the function predicts what the model predicted `(n, outputs)` on rows `(n, columns)`.

    Rounding is as large as the terms that were added, not as their sum: a prediction near 0 is judged by the largest of
    these and `others`, predictions on other rows.
    """
    expected = function.predict(rows).reshape(len(rows), -1)
    if expected.shape != predictions.shape:
        return False
    scale = max(float(np.abs(predictions).max()), float(np.abs(others).max()), 1e-12)
    return bool(np.abs(expected - predictions).max() <= function.tolerance * scale)
