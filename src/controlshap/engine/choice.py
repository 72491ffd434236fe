"""The rules of "auto": which estimator, controls and variance serve a problem and its budget.

`docs/design.md` gives the measurements behind the rules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from controlshap._types import FloatArray
from controlshap.controls import Control, LogisticRidge, Polynomial, ShallowTrees
from controlshap.data.players import differs_from_x
from controlshap.estimators import Enumeration, Estimator, Kernel, Permutation
from controlshap.estimators.enumeration import MOST_PLAYERS
from controlshap.problem import Problem
from controlshap.statistics.stopping import Stopping
from controlshap.variances import Analytic, LeastSquares, Variance

#: Largest share of the budget that derivatives may take for a control that nobody asked for.
CONTROL_SHARE = 0.2
#: Columns up to which D matrices, cubic in them in time and memory, are made unasked (benchmarks/results/scaling.md).
MOST_TAYLOR_COLUMNS = 160
#: With draws from a distribution, coalitions are enumerated only if that costs at most this many pairs of walks.
ENUMERATION_FACTOR = 1.0
#: Most evaluations of an enumeration where a run may end early.
MOST_ENUMERATED_EARLY = 10_000
#: How many times the default budget may be spent where the values are then exact.
EXACT_FACTOR = 4
#: Fewest pairs of coalitions with which each is evaluated on the whole background of M rows: `1.2 sqrt(M)` for each
#: player, 12 with 100 rows (with fewer than 20 rows as many as with 20). Or, with up to 100 rows, a quarter of all
#: pairs, and `0.85 sqrt(M)` for each player, at least six (benchmarks/results/whole_background.md).
WHOLE_FACTOR, WHOLE_ROWS = 1.2, (20, 100)
WHOLE_SHARE, WHOLE_LEAST, LEAST_ROWS = 0.25, 0.85, 50
#: Or, from six players on, half of all pairs, and all but a share of `3.3 / sqrt(M)`: the rest can be interpolated,
#: while the noise of walks falls with the number of rows (benchmarks/results/whole_background.md).
NEARLY_ALL, NEARLY_ROOT, NEARLY_PLAYERS = 0.5, 3.3, 6
#: Pairs for each player where interactions are asked for, which the noise of single background rows would drown; a
#: regression needs three (benchmarks/results/interactions.md).
WHOLE_FOR_PAIRS = 4
#: Fewest rows with which learning across them pays (benchmarks/results/generations.md).
ROWS_TO_LEARN = 16
#: Most values of an output that is taken for labels; a pilot of walks decides about others, such as counts and ratings
#: (`benchmarks/whole_numbers.py`).
MOST_LABELS = 3
#: Fewest background rows with which KernelSHAP may take one row for each pair.
FEWEST_LABELS = 10
#: Fewest players with which walks may be abandoned for KernelSHAP: with three, walks meet all coalitions.
FEWEST_TO_LEAVE = 4
#: Passes of single walks up to which they are taken in place of pairs (benchmarks/results/near_a_pass.md).
SINGLE_PASSES = 1.1
#: Where a model's time is stated: seconds that trials and that boosted trees take of a row, in any case and for each
#: evaluation, and by what they divide squared errors in the geometric mean; our own seconds for each evaluation without
#: them (`benchmarks/fitted_controls.py` over 32 kinds of models; `benchmarks/fitting.py --budget`).
TRIALS, TREES = (0.022, 2.6e-6, 1.40), (0.7, 4e-5, 1.34)
OWN_SECONDS = 2.7e-6


@dataclass(frozen=True)
class RowFacts:
    """Facts about a row that are known before anything is sampled.

    Attributes
    ----------
    n_differing : float
        Players in which x differs from a background row, on average; all of them where x is not known yet.
    has_labels : bool
        Whether f(x) and all f(b) are whole numbers, and few.
    """

    n_differing: float
    has_labels: bool

    @classmethod
    def of(cls, problem: Problem, x: FloatArray | None = None, at_x: FloatArray | None = None) -> RowFacts:
        """The facts of a row, as far as it is known."""
        outputs = problem.base.values[:, :, 0]
        if at_x is not None and outputs.size:
            outputs = np.concatenate([outputs, at_x[None]])
        has_labels = bool(outputs.size) and bool((outputs == np.rint(outputs)).all())
        has_labels = has_labels and all(len(np.unique(of_output)) <= MOST_LABELS for of_output in outputs.T)
        if x is None or problem.correlated or not problem.base.finite:
            return cls(float(problem.players.n_players), has_labels)
        differs = differs_from_x(x, problem.base.rows, problem.players)
        return cls(float(differs.sum(axis=1).mean()), has_labels)


def raise_default(problem: Problem, stopping: Stopping) -> Stopping:
    """Raise a default budget to the cost of all coalitions, where that is not much more."""
    needed = exact_budget(problem, stopping.budget)
    if not stopping.is_default or needed is None or not stopping.budget < needed <= EXACT_FACTOR * stopping.budget:
        return stopping
    return replace(stopping, budget=needed)


def exact_budget(problem: Problem, budget: int) -> int | None:
    """Evaluations of a row with which "auto" enumerates a finite background; None where it never does."""
    p, base, estimator = problem.players.n_players, problem.base, _enumeration(problem)
    if problem.estimator is not None or not base.finite or p < 2 or estimator is None:
        return None
    cost = estimator.unit_cost(p, finite=True) * len(base.rows)
    return 1 + cost + control_cost(problem, problem.controls or (), budget)


def _enumeration(problem: Problem) -> Enumeration | None:
    """The enumeration of all coalitions, where these can be listed."""
    arrangement = problem.players.arrangement
    listed = problem.players.n_players <= MOST_PLAYERS if arrangement is None else arrangement.is_listed
    return Enumeration(arrangement) if listed else None


def choose_estimator(
    problem: Problem,
    budget: int,
    reasons: dict[str, str] | None = None,
    *,
    early: bool = False,
    facts: RowFacts | None = None,
) -> Estimator:
    """The estimator that was asked for; for "auto" the one that the rules of `docs/design.md` give."""
    reasons = {} if reasons is None else reasons
    return _choose_freely(problem, budget, reasons, early=early, facts=facts).for_players(problem.players)


def _choose_freely(
    problem: Problem, budget: int, reasons: dict[str, str], *, early: bool, facts: RowFacts | None
) -> Estimator:
    """The estimator, before it takes an order or hierarchy of the players into account."""
    p = problem.players.n_players
    if p == 1:
        reasons["estimator"] = "there is one player"
        return Enumeration()
    estimator = problem.estimator
    if estimator is not None:
        return estimator.with_draws(len(problem.base.rows)) if problem.base.finite else estimator
    base = problem.base
    if problem.output_range is not None and not (base.finite and _can_enumerate(problem, budget, early=early)):
        reasons["estimator"] = "paired walks with rows drawn at random, whose terms are independent and bounded"
        return Permutation()
    if _can_enumerate(problem, budget, early=early):
        reasons["estimator"] = "all coalitions fit the budget" if base.finite else "all coalitions cost less than walks"
        return Enumeration()
    if (not early or problem.by_pairs) and _pays_whole_background(problem, budget):
        n_pairs = (budget - 1) // (2 * len(base.rows))
        reasons["estimator"] = f"{n_pairs} pairs of coalitions, enough for each to have the whole background"
        return Kernel(n_draws=len(base.rows), reuse=True)
    shared = problem.shared is not None and problem.controls is None and not problem.correlated
    shared = shared and (problem.variance is None or problem.variance.is_least_squares)
    if shared and p >= 4 and early and _affords_kernel(problem, budget):
        # A good surrogate leaves little, for which few units of few evaluations suffice (benchmarks/amortise.py).
        reasons["estimator"] = "a shared surrogate leaves little, and the run may end early"
        return Kernel()
    return _choose_units(problem, budget, reasons, facts or RowFacts.of(problem), early=early)


def _affords_kernel(problem: Problem, budget: int) -> bool:
    """Whether KernelSHAP may be chosen: the budget covers its fewest units, and players may stand in any order."""
    p, kernel = problem.players.n_players, Kernel()
    affordable = budget > kernel.fewest_units(p) * kernel.unit_cost(p, finite=True)
    return affordable and problem.players.arrangement is None


def _choose_units(problem: Problem, budget: int, reasons: dict[str, str], facts: RowFacts, *, early: bool) -> Estimator:
    """Units of one background row each: pairs of walks, single walks, or pairs of coalitions."""
    p, n_rows = problem.players.n_players, len(problem.base.rows)
    free = problem.base.finite and not problem.correlated and problem.controls is None
    affordable = _affords_kernel(problem, budget)
    if free and facts.has_labels and problem.variance is None and n_rows >= FEWEST_LABELS and affordable and p >= 4:
        reasons["estimator"] = (
            "outputs are few whole numbers, which jump: every pair of coalitions informs about every player"
        )
        return Kernel()
    steps = max(1.0, facts.n_differing - 1.0)
    fewest = Permutation().fewest_units(p) * Permutation().unit_cost(p, finite=True)
    if free and not early and budget - 1 < max(SINGLE_PASSES * steps * n_rows, fewest):
        reasons["estimator"] = "single walks, which meet the most background rows as long as there is at most one pass"
        return Permutation(paired=False)
    reasons["estimator"] = "paired walks over the background in cycles" if problem.base.finite else "paired walks"
    return Permutation()


def choose_alternative(problem: Problem, estimator: Estimator, budget: int, *, early: bool) -> Estimator | None:
    """The estimator that may take the place of walks after a pilot of them; None where none may."""
    p, kernel = problem.players.n_players, Kernel()
    whole = problem.base.finite and not problem.correlated and not problem.imputer.with_replacement
    whole = whole and bool(np.isfinite(problem.background).all())
    if early or not problem.is_plain or not whole or p < FEWEST_TO_LEAVE:
        return None
    walks = estimator.takes_fitted_controls and not estimator.is_least_squares
    affordable = 0.5 * budget > kernel.fewest_units(p) * kernel.unit_cost(p, finite=True)
    return kernel if walks and affordable and len(problem.base.rows) >= FEWEST_LABELS else None


def _can_enumerate(problem: Problem, budget: int, *, early: bool) -> bool:
    """Whether all coalitions are affordable; with draws from a distribution, whether they cost less than walks."""
    p, base, estimator = problem.players.n_players, problem.base, _enumeration(problem)
    if estimator is None:
        return False
    if not base.finite:
        cost = estimator.unit_cost(p, finite=False)
        return cost <= ENUMERATION_FACTOR * Permutation().unit_cost(p, finite=False)
    # a run that may end early does not enumerate all coalitions only because a generous budget covers them
    most = min(budget, MOST_ENUMERATED_EARLY) if early else budget
    needed = exact_budget(problem, budget)
    return needed is not None and needed <= most


def _pays_whole_background(problem: Problem, budget: int) -> bool:
    """Whether there are so many coalitions that each is evaluated on the whole background."""
    free = problem.controls is None and (problem.variance is None or problem.variance.is_least_squares)
    free = free and problem.players.arrangement is None
    if not free or problem.correlated or not problem.base.finite or not np.isfinite(problem.background).all():
        return False
    p, n_rows = problem.players.n_players, len(problem.base.rows)
    n_pairs = (budget - 1) // (2 * n_rows)
    # the noise of walks falls with their number and so with that of the rows; the noise of coalitions does not
    many = n_pairs >= WHOLE_FACTOR * math.sqrt(max(n_rows, WHOLE_ROWS[0])) * p
    least = WHOLE_LEAST * math.sqrt(max(n_rows, LEAST_ROWS)) * p
    share = n_rows <= WHOLE_ROWS[1] and n_pairs >= max(WHOLE_SHARE * 2.0 ** (p - 1), least)
    nearly = p >= NEARLY_PLAYERS and n_pairs >= max(NEARLY_ALL, 1.0 - NEARLY_ROOT / math.sqrt(n_rows)) * 2.0 ** (p - 1)
    for_pairs = problem.interactions and n_pairs >= WHOLE_FOR_PAIRS * p
    return p >= 4 and (many or share or nearly or for_pairs)


def choose_variance(problem: Problem, estimator: Estimator, reasons: dict[str, str]) -> Variance:
    """The variance that was asked for; for "auto" the one that fits the estimator."""
    regression = problem.variance is not None and problem.variance.is_least_squares
    if estimator.exact_per_draw and (problem.base.finite or regression):
        reasons["variance"] = "coalitions are enumerated"
        return Analytic()
    if problem.variance is not None:
        return problem.variance
    reasons["variance"] = "fits the estimator"
    return LeastSquares() if estimator.is_least_squares else Analytic()


def choose_controls(
    problem: Problem, estimator: Estimator, budget: int, reasons: dict[str, str]
) -> tuple[tuple[Control, ...], tuple[Control, ...] | None]:
    """The controls asked for, or those of "auto"; and those of rows that a shared surrogate does not reach."""
    if problem.players.n_players == 1:
        return (), None
    if problem.output_range is not None:
        reasons["control"] = "the guarantee is for bounded terms of independent units"
        return (), None
    if problem.controls is not None:
        return problem.controls, None
    if estimator.exact_per_draw:
        reasons["control"] = "nothing is left to sampling of coalitions"
        return (), None
    if problem.imputer.simulated_rows == 0:
        reasons["control"] = "known values would take draws, and known_draws=0"
        return (), None
    if not np.isfinite(problem.background).all():
        reasons["control"] = "the background has missing values"
        return (), None
    if estimator.without_replacement:
        from controlshap.controls import CoalitionProcess

        reasons["control"] = "interpolates the coalitions evaluated, with and without a ridge"
        return (CoalitionProcess(), CoalitionProcess(start=None)), None
    if estimator.takes_fitted_controls:
        reasons["control"] = "fitted to the evaluations themselves, at no extra cost"
        if problem.shared is not None:
            reasons["control"] = "fitted once, with explainer.fit_surrogate(...), for all rows"
        return _choose_fitted_controls(problem, budget, reasons)
    if not (problem.imputer.mixes_columns or problem.imputer.linear_in_x):
        reasons["control"] = "nothing is fitted to these units, and Taylor has no known values"
        return (), None
    return _choose_taylor(problem, budget, reasons), None


def _choose_fitted_controls(
    problem: Problem, budget: int, reasons: dict[str, str]
) -> tuple[tuple[Control, ...], tuple[Control, ...] | None]:
    """Functions fitted to the evaluations, and Taylor where it is free.

    They know interactions of all orders, where pairs alone integrate a quadratic.
    """
    shared = () if problem.shared is None else (problem.shared,)
    few = problem.players.n_columns <= MOST_TAYLOR_COLUMNS
    if problem.imputer.linear_in_x and few:
        from controlshap.controls import Taylor

        if control_cost(problem, (Taylor(),), budget) == 0:
            return (Taylor(), *shared, LogisticRidge()), None
    slow = _choose_slow_learners(problem, budget)
    margin: tuple[Control, ...] = () if problem.margin is None else (problem.margin,)
    tried = choose_on_trial(problem, slow)
    least = pays_from(TRIALS, budget, problem.base.n_outputs)
    if tried and problem.seconds is not None and problem.seconds < least:
        reasons["control"] += f"; trials of others pay from {least:.1g} s an evaluation"
        tried = ()
    own: tuple[Control, ...] = (LogisticRidge(), *margin, *tried, *slow)
    if not shared:
        return own, None
    # a shared surrogate saves the time of fitting, unless there is time to spare or rows learn from each other
    reached = (*shared, *own) if slow or shared[0].beside else shared
    return reached, None if problem.correlated else own


def choose_on_trial(problem: Problem, beside: tuple[Control, ...]) -> tuple[Control, ...]:
    """Controls that are kept where they leave much less of the evaluations than the ridge (`crossfitting.fit`)."""
    if problem.imputer.known_values == "simulated":
        return ()  # known values are simulated, which takes a time that a trial does not show
    quadratic = Polynomial(start=LogisticRidge(), on_trial=True)
    # trees have no known values for players with an order or hierarchy, and are no functions of scores
    fits = problem.players.arrangement is None and not beside and problem.imputer.known_values == "of draws"
    return (quadratic, ShallowTrees(on_trial=True)) if fits else (quadratic,)


def pays_from(costs: tuple[float, float, float], budget: int, n_outputs: int) -> float:
    """Seconds of an evaluation from which further controls save more time than they take.

    They divide squared errors by g, as g times the budget B would without them: `(g - 1) B` further evaluations, of s
    seconds and our own each. Controls that take t seconds pay where `t < (g - 1) B (s + own)`.
    """
    fixed, each, gain = costs
    return max(0.0, n_outputs * (fixed / budget + each) / (gain - 1.0) - OWN_SECONDS)


def _choose_taylor(problem: Problem, budget: int, reasons: dict[str, str]) -> tuple[Control, ...]:
    """The Taylor control, where its derivatives are a small part of the budget."""
    from controlshap.controls import Taylor
    from controlshap.models.derivatives.finite_differences import FiniteDifferences

    options = [Taylor()]
    if control_cost(problem, (Taylor(),), budget) > 0:
        options = [Taylor(derivatives=FiniteDifferences(cross=cross)) for cross in (True, False)]
    affordable = [o for o in options if control_cost(problem, (o,), budget) <= CONTROL_SHARE * budget]
    part = f"{CONTROL_SHARE:.0%} of the budget"
    reasons["control"] = f"derivatives within {part}" if affordable else f"derivatives take more than {part}"
    return tuple(affordable[:1])


def _choose_slow_learners(problem: Problem, budget: int) -> tuple[Control, ...]:
    """Trees, where they save more time than they take; networks where time does not matter."""
    if problem.correlated or problem.seconds is None or problem.players.arrangement is not None:
        return ()
    from controlshap.controls.network import RidgeNetwork
    from controlshap.controls.trees import Trees, boosting_available

    trees = (Trees(),) if boosting_available() else ()
    if problem.seconds == math.inf:  # "thorough"
        return (RidgeNetwork(), *trees)
    return trees if problem.seconds >= pays_from(TREES, budget, problem.base.n_outputs) else ()


def choose_keeping(
    problem: Problem, estimator: Estimator, variance: Variance, controls: tuple[Control, ...]
) -> Literal["units", "batches", "coalition means"]:
    """How many units are stored: one by one, in batches, or as means of coalitions over the background."""
    fitted = [control for control in controls if control.is_fitted]
    processes = [control for control in fitted if control.models_coalitions]
    if not variance.takes_batches or problem.output_range is not None:
        return "units"
    if estimator.without_replacement:
        return "coalition means" if len(processes) == len(fitted) else "units"
    if processes or (estimator.exact_per_draw and problem.base.finite):
        return "units"
    return "batches"


def learns_across_rows(problem: Problem, controls: tuple[Control, ...]) -> bool:
    """Whether functions that are fitted to earlier rows would control later ones, which have units to control."""
    return problem.controls is None and any(c.is_fitted and not c.models_coalitions for c in controls)


def describe_learning(problem: Problem, controls: tuple[Control, ...], n_rows: int, *, online: bool) -> tuple[str, ...]:
    """Describe for a plan what rows learn from each other, across so many rows."""
    if not learns_across_rows(problem, controls):
        return ("learning    none: nothing is sampled that a fitted function could control",) if online else ()
    if online:
        return ("learning    generations of 1, 2, 4, ... rows, each controlled by what is fitted to all earlier ones",)
    if n_rows < ROWS_TO_LEARN:
        return ()
    return ("learning    surrogate='online' makes errors of later rows smaller, for about twice our own time",)


def control_cost(problem: Problem, controls: tuple[Control, ...], budget: int) -> int:
    """Most evaluations that the controls may spend on a row."""
    kind: dict[str, Any] = {"source": problem.model.source, "correlated": problem.correlated}
    return sum(control.cost(problem.players, problem.background, budget, **kind) for control in controls)
