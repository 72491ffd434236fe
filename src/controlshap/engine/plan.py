"""What "auto" means: estimator and control by budget, players and background.

`docs/design.md` gives the measurements behind the rules.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from controlshap._types import FloatArray
from controlshap.controls import (
    CoalitionProcess,
    Control,
    Learner,
    LogisticRidge,
    RidgeNetwork,
    Surrogate,
    Taylor,
    Trees,
)
from controlshap.controls.fits.boosting import boosting_available
from controlshap.estimators import Enumeration, Estimator, Kernel, PerFeature, Permutation
from controlshap.estimators.exact import MOST_PLAYERS
from controlshap.models.derivatives import FiniteDifferences
from controlshap.problem import Problem
from controlshap.sampling.game import Game
from controlshap.values.gaussian import GaussianImputer
from controlshap.values.marginal import MarginalImputer
from controlshap.variances import Analytic, LeastSquares, Variance

#: Largest share of the budget that the derivatives of an automatic control may take.
CONTROL_SHARE = 0.2
#: Columns up to which D matrices, cubic in them in time and memory, are made unasked (benchmarks/results/scaling.md).
MOST_TAYLOR_COLUMNS = 160
#: With draws from a distribution, enumerate only where it costs at most this many times a pair of walks.
ENUMERATION_FACTOR = 1.0
#: Most evaluations of an enumeration where a run may end early.
MOST_ENUMERATED_EARLY = 10_000
#: Pairs of coalitions, in multiples of the players, from which on each is worth the whole background.
WHOLE_FACTOR = 12
#: Seconds that fitting trees takes, for each fold and for each row.
TREE_SECONDS = (0.03, 1.5e-5)


def choose_estimator(problem: Problem, budget: int, *, early: bool = False) -> Estimator:
    """The estimator asked for, or for "auto".

    Enumeration where it is exact or cheap; KernelSHAP over the whole background where the budget pays for so many
    coalitions that their values can be interpolated (not where a run may end early); KernelSHAP with single draws where
    a run may end early and a surrogate is shared; else paired walks.
    """
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
            # what may end early is not sent through all coalitions because a generous limit would cover them
            most = min(budget, MOST_ENUMERATED_EARLY) if early else budget
            if cost * len(base.rows) <= most - 1 - control_cost(problem, problem.controls or (), budget):
                return Enumeration()
        elif cost <= ENUMERATION_FACTOR * Permutation().unit_cost(p, finite=base.finite):
            return Enumeration()
    if not early and _is_whole(problem, budget):
        return Kernel(n_draws=len(base.rows), reuse=True)
    if problem.shared is not None and problem.controls is None and not problem.correlated and p >= 4 and early:
        # What a good surrogate leaves is small, and needs few units of few evaluations each (benchmarks/amortise.py).
        return Kernel()
    return Permutation()


def _is_whole(problem: Problem, budget: int) -> bool:
    """Whether there are so many coalitions that each is worth the whole background."""
    free = problem.controls is None and (problem.variance is None or isinstance(problem.variance, LeastSquares))
    if not free or problem.correlated or not problem.base.finite or not np.isfinite(problem.background).all():
        return False
    p, n_rows = problem.players.n_players, len(problem.base.rows)
    return p >= 4 and (budget - 1) // (2 * n_rows) >= WHOLE_FACTOR * p


def control_cost(problem: Problem, controls: tuple[Control, ...], budget: int) -> int:
    """Most evaluations that the controls may spend on a row."""
    kind: dict[str, Any] = {"source": problem.model.source, "correlated": problem.correlated}
    return sum(control.cost(problem.players, problem.background, budget, **kind) for control in made(controls))


def made(controls: tuple[Control, ...]) -> tuple[Surrogate, ...]:
    """Those that are made before sampling."""
    return tuple(cast("Surrogate", control) for control in controls if not _is_learned(control))


def learned(controls: tuple[Control, ...]) -> tuple[Learner | CoalitionProcess, ...]:
    """Those that are fitted to what was sampled."""
    return tuple(cast("Learner | CoalitionProcess", control) for control in controls if _is_learned(control))


def _is_learned(control: Control) -> bool:
    return hasattr(control, "learn") or hasattr(control, "learn_game")


def choose_controls(problem: Problem, estimator: Estimator, budget: int, x: FloatArray) -> tuple[Control, ...]:
    """The controls asked for, or for "auto": what can be fitted to the evaluations, and Taylor where that is free.

    Estimators that nothing is fitted for get the Taylor control where its derivatives are cheap.
    """
    if problem.controls is not None:
        return problem.controls
    if not np.isfinite(problem.background).all() or not np.isfinite(x).all():
        return ()
    if isinstance(estimator, Enumeration):
        return ()
    known = isinstance(problem.imputer, (MarginalImputer, GaussianImputer))
    if isinstance(estimator, Kernel) and estimator.reuse:
        return (CoalitionProcess(), CoalitionProcess(start=None))
    if known and isinstance(estimator, (Permutation, Kernel)):
        # They cost no evaluations, and know interactions of all orders; pairs alone integrate a quadratic.
        few = problem.players.n_columns <= MOST_TAYLOR_COLUMNS
        if problem.correlated and few and not isinstance(Taylor().source(problem.model.source), FiniteDifferences):
            return (Taylor(), *(() if problem.shared is None else (problem.shared,)), LogisticRidge())
        slow = _affordable(problem, budget)
        if problem.shared is None or not (
            problem.correlated or problem.shared.reaches(x, problem.background, problem.players)
        ):
            return (LogisticRidge(), *slow)
        # one that was fitted before saves the time of fitting, unless there is time to spare
        return (problem.shared, LogisticRidge(), *slow) if slow else (problem.shared,)
    options = [Taylor()]
    if isinstance(Taylor().source(problem.model.source), FiniteDifferences):
        options = [Taylor(derivatives=FiniteDifferences(cross=cross)) for cross in (True, False)]
    affordable = [o for o in options if control_cost(problem, (o,), budget) <= CONTROL_SHARE * budget]
    return tuple(affordable[:1])


def _affordable(problem: Problem, budget: int) -> tuple[Learner, ...]:
    """Trees, where fitting them takes no longer than the model itself; networks where time does not matter."""
    if problem.correlated:
        return ()
    seconds = known_seconds(problem)
    trees = (Trees(),) if boosting_available() else ()
    if seconds == np.inf:  # "thorough"
        return (RidgeNetwork(), *trees)
    # until the model has been timed they are candidates, see `timely`
    return trees if seconds is None or _tree_seconds(problem, budget) <= seconds * budget else ()


def known_seconds(problem: Problem) -> float | None:
    """What an evaluation takes: as told, infinite for "thorough", or as measured while the first row was explained."""
    return problem.cache.get("seconds") if problem.seconds is None else problem.seconds


def _tree_seconds(problem: Problem, n_evaluations: float) -> float:
    trees = Trees()
    each = TREE_SECONDS[0] + TREE_SECONDS[1] * min(n_evaluations, trees.max_rows)
    return trees.n_folds * problem.base.n_outputs * each


def timely(
    problem: Problem, learners: tuple[Learner | CoalitionProcess, ...], game: Game, still_needed: float
) -> tuple[Learner | CoalitionProcess, ...]:
    """Those of automatic learners whose fit takes no longer than the model has taken, or would take without it.

    `still_needed` is how many more evaluations the accuracy asked for is expected to take.
    """
    if problem.controls is not None or not any(isinstance(learner, Trees) for learner in learners):
        return learners
    seconds = known_seconds(problem)
    if seconds is None:
        seconds = game.seconds_each
    if seconds is None or _tree_seconds(problem, game.n_evaluations) <= seconds * max(game.n_evaluations, still_needed):
        return learners
    if any(learner is problem.shared for learner in learners):
        return tuple(learner for learner in learners if learner is problem.shared)
    return tuple(learner for learner in learners if not isinstance(learner, Trees))


def choose_variance(problem: Problem, estimator: Estimator) -> Variance:
    """The variance asked for, or the one that fits the estimator."""
    if estimator.settles_draws and (problem.base.finite or isinstance(problem.variance, LeastSquares)):
        return Analytic()  # chosen in place of the estimator asked for; over a whole background there is no error
    if problem.variance is not None:
        return problem.variance
    return LeastSquares() if estimator.is_least_squares else Analytic()
