"""What "auto" means: estimator and control by budget, players and background.

`docs/design.md` gives the measurements behind the rules.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from controlshap._types import FloatArray
from controlshap.derivatives import FiniteDifferences
from controlshap.estimators import Enumeration, Estimator, Kernel, PerFeature, Permutation
from controlshap.exact import MOST_PLAYERS
from controlshap.problem import Problem
from controlshap.surrogates import Control, LogisticRidge, Taylor
from controlshap.variance import Analytic, LeastSquares, Variance

#: Largest share of the budget that the derivatives of an automatic control may take.
CONTROL_SHARE = 0.2
#: With draws from a distribution, enumerate only where it costs at most this many times a pair of walks.
ENUMERATION_FACTOR = 1.0


def choose_estimator(problem: Problem, budget: int) -> Estimator:
    """The estimator asked for, or for "auto": enumeration where it is exact or cheap, else paired walks."""
    p = problem.players.n_players
    if p == 1:
        return Enumeration()
    estimator = problem.estimator
    if isinstance(estimator, (Kernel, Permutation, PerFeature)):
        # A finite background has no more draws than rows.
        most = len(problem.base.rows) if problem.base.finite else estimator.n_draws
        return replace(estimator, n_draws=min(estimator.n_draws, most))
    if estimator is not None:
        return estimator
    base = problem.base
    if p <= MOST_PLAYERS:
        cost = Enumeration().unit_cost(p, finite=base.finite)
        if base.is_exact:
            if cost * len(base.rows) <= budget - 1 - control_cost(problem, problem.controls or (), budget):
                return Enumeration()
        elif cost <= ENUMERATION_FACTOR * Permutation().unit_cost(p, finite=base.finite):
            return Enumeration()
    return Permutation()


def control_cost(problem: Problem, controls: tuple[Control, ...], budget: int) -> int:
    """Most evaluations that the controls may spend on a row."""
    kind = {"source": problem.model.source, "correlated": problem.correlated}
    return sum(
        control.cost(problem.players, problem.background, budget, **kind)
        for control in controls
        if not isinstance(control, LogisticRidge)
    )


def choose_controls(problem: Problem, estimator: Estimator, budget: int, x: FloatArray) -> tuple[Control, ...]:
    """The controls asked for, or for "auto": a fitted ridge for walks, else the Taylor control where it is cheap."""
    if problem.controls is not None:
        return problem.controls
    if not np.isfinite(problem.background).all() or not np.isfinite(x).all():
        return ()
    if isinstance(estimator, Enumeration):
        return ()
    if not problem.correlated and isinstance(estimator, Permutation) and estimator.n_draws == 1:
        # Costs no evaluations, and knows interactions of all orders; pairs alone integrate a quadratic.
        return (LogisticRidge(),)
    options = [Taylor()]
    if isinstance(Taylor().source(problem.model.source), FiniteDifferences):
        options = [Taylor(derivatives=FiniteDifferences(cross=cross)) for cross in (True, False)]
    affordable = [o for o in options if control_cost(problem, (o,), budget) <= CONTROL_SHARE * budget]
    return tuple(affordable[:1])


def choose_variance(problem: Problem, estimator: Estimator) -> Variance:
    """The variance asked for, or the one that fits the estimator."""
    if estimator.settles_draws and (problem.base.finite or isinstance(problem.variance, LeastSquares)):
        return Analytic()  # chosen in place of the estimator asked for; over a whole background there is no error
    if problem.variance is not None:
        return problem.variance
    return LeastSquares() if estimator.is_least_squares else Analytic()
