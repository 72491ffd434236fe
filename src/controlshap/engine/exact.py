"""Rows of models with a known form: exact values from one evaluation."""

from __future__ import annotations

import numpy as np

from controlshap._random import EXPLAINER_ENTROPY, Purpose, stream
from controlshap._types import FloatArray
from controlshap.functions import KnownFunction, agrees, warn_not_exact
from controlshap.problem import Problem
from controlshap.results.collect import RowResult
from controlshap.statistics.analysis import Analysis
from controlshap.statistics.background_error import variances_of_draws
from controlshap.statistics.control_variate import Estimate, enforce_efficiency

#: Background rows whose own exact values show how much the mean owes to the choice of rows.
SPREAD_ROWS = 50


def explain_exactly(problem: Problem, form: KnownFunction, x: FloatArray, at_x: FloatArray) -> RowResult | None:
    """Values without sampling error; None, with a warning, where the form fails on this row.

    Values and base value are added up before they are made to sum to f(x): a form that predicts rightly, and has wrong
    values, is noticed here.
    """
    if not agrees(form, x[None], at_x[None], problem.base.values[:, :, 0]):
        warn_not_exact(form.name, "that form does not predict what the model predicts on some row")
        return None
    rows, of_background = problem.base.rows, problem.base.values[:, :, 0]
    values = form.mean_values(x, rows, problem.players)
    some = stream(EXPLAINER_ENTROPY, Purpose.BACKGROUND, 1).permutation(len(rows))[:SPREAD_ROWS]
    of_draws = form.draw_values(x, rows[some], problem.players)
    if values is None or of_draws is None:
        warn_not_exact(form.name, "that form has no values within reach on some row")
        return None
    components = np.concatenate([values.reshape(len(values), -1), problem.base.mean[:, 0][None]])
    if not _sums_to(components, at_x, of_background, form.tolerance):
        warn_not_exact(form.name, "the values of that form do not sum to the prediction on some row")
        return None
    no_roots = np.zeros((0, *components.shape))
    estimate = enforce_efficiency(Estimate(components, no_roots, np.full(components.shape, np.inf)), at_x)
    return RowResult(
        analysis=Analysis(estimate, estimate, np.zeros(components.shape), np.zeros((*components.shape, 0))),
        n_evaluations=1,
        status="exact",
        method=form.name,
        complete=True,
        background_variances=variances_of_draws(of_draws.reshape(*of_draws.shape[:2], -1), of_background),
    )


def _sums_to(components: FloatArray, at_x: FloatArray, of_background: FloatArray, tolerance: float) -> bool:
    """Whether components `(players + 1, outputs)` sum to f(x), but for rounding of the largest of all numbers."""
    scale = max(float(np.abs(numbers).max()) for numbers in (components, at_x, of_background))
    # the form and the model differ by `tolerance` at x, and by as much on the background
    return bool(np.abs(components.sum(axis=0) - at_x).max() <= 2.0 * tolerance * max(scale, 1e-12))
