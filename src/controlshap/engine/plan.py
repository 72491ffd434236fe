"""What "auto" means: every decision about a call, taken once and carried out by `engine.row`.

`docs/design.md` gives the measurements behind the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal

import numpy as np

from controlshap._errors import BudgetTooSmallError, InvalidArgumentError, NoClosedFormError
from controlshap._types import FloatArray
from controlshap.controls import (
    CoalitionProcess,
    Control,
    LogisticRidge,
    RidgeNetwork,
    Taylor,
    Trees,
)
from controlshap.controls.fits.boosting import boosting_available
from controlshap.data.players import differs_from_x
from controlshap.estimators import Enumeration, Estimator, Kernel, Permutation
from controlshap.estimators.enumeration import MOST_PLAYERS
from controlshap.functions import KnownFunction
from controlshap.models.derivatives import FiniteDifferences
from controlshap.problem import Problem
from controlshap.sampling.base_value import base_draws
from controlshap.statistics.stopping import Stopping
from controlshap.variances import Analytic, LeastSquares, Variance

#: Largest share of the budget that the derivatives of an automatic control may take.
CONTROL_SHARE = 0.2
#: Columns up to which D matrices, cubic in them in time and memory, are made unasked (benchmarks/results/scaling.md).
MOST_TAYLOR_COLUMNS = 160
#: With draws from a distribution, enumerate only where it costs at most this many times a pair of walks.
ENUMERATION_FACTOR = 1.0
#: Most evaluations of an enumeration where a run may end early.
MOST_ENUMERATED_EARLY = 10_000
#: How many times the default budget, which nobody asked for, is spent where the values are then exact.
EXACT_FACTOR = 4
#: Up to how many times a budget that was set the plan says what would be exact.
NEARLY_EXACT_FACTOR = 2
#: Pairs of coalitions from which on each is worth the whole background of M rows: `1.2 sqrt(M)` for each player, 12
#: with 100 rows (as many with fewer than 20 rows as with 20). Or, with up to 100 rows, a quarter of all pairs there
#: are, and six for each player (benchmarks/results/whole_background.md).
WHOLE_FACTOR, WHOLE_ROWS = 1.2, (20, 100)
WHOLE_SHARE, WHOLE_LEAST = 0.25, 6
#: For each player, where interactions are asked for, which single background rows drown; a regression needs three
#: (benchmarks/results/interactions.md).
WHOLE_FOR_PAIRS = 4
#: Passes of single walks over the background up to which they are taken in place of pairs (docs/design.md).
SINGLE_PASSES = 1.1
#: Fewest background rows with which labels are left to KernelSHAP.
FEWEST_LABELS = 10
#: Seconds that fitting trees takes, for each fold and for each row.
TREE_SECONDS = (0.03, 1.5e-5)


@dataclass(frozen=True)
class Costs:
    """Model evaluations of a row: for derivatives, for v(0), and for units, of which there must be some."""

    derivatives: int
    base: int
    fewest_units: int
    unit: int

    @property
    def least(self) -> int:
        """Fewest evaluations with which values and errors come out, f(x) included."""
        return 1 + self.derivatives + self.base + self.fewest_units * self.unit


@dataclass(frozen=True)
class RowFacts:
    """What is known of a row before anything is sampled.

    Attributes
    ----------
    n_differing : float
        Players in which x differs from a background row, on average; all of them where x is not known yet.
    has_labels : bool
        Whether f(x) and all f(b) are whole numbers.
    """

    n_differing: float
    has_labels: bool

    @classmethod
    def of(cls, problem: Problem, x: FloatArray | None = None, at_x: FloatArray | None = None) -> RowFacts:
        """Of a row, as far as it is known."""
        said = problem.base.values[:, :, 0]
        if at_x is not None and said.size:
            said = np.concatenate([said, at_x[None]])
        n_differing = float(problem.players.n_players)
        if x is not None and not problem.correlated and problem.base.finite:
            n_differing = float(differs_from_x(x, problem.base.rows, problem.players).sum(axis=1).mean())
        return cls(n_differing, bool(said.size) and bool((said == np.rint(said)).all()))


@dataclass(frozen=True)
class Plan:
    """What is done for the rows of a call, and what it costs.

    Attributes
    ----------
    estimator : Estimator
    variance : Variance
    controls : tuple of Control
    other_controls : tuple of Control or None
        Used for rows that a shared surrogate does not reach; None where there is nothing to choose.
    budget : int
        Evaluations of a row that all of this was chosen for.
    early : bool
        Whether the run may end before.
    costs : Costs
    n_base_draws : int
        Evaluations for v(0), where units do not draw it themselves.
    with_replacement : bool
        Whether background rows are drawn at random, not visited in cycles.
    keeps : {"units", "batches", "coalition means"}
        What is kept of many units.
    is_exact : bool
        Whether all coalitions of all background rows are evaluated.
    form : KnownFunction or None
        The known form of the model, which is tried first.
    reasons : dict
        Why the estimator, the controls and the variance are what they are.
    notes : tuple of str
        Exceptions among the rows, where these were given.
    """

    estimator: Estimator
    variance: Variance
    controls: tuple[Control, ...]
    other_controls: tuple[Control, ...] | None
    budget: int
    early: bool
    costs: Costs
    n_base_draws: int
    with_replacement: bool
    keeps: Literal["units", "batches", "coalition means"]
    is_exact: bool
    form: KnownFunction | None = None
    reasons: dict[str, str] = field(default_factory=dict, compare=False)
    notes: tuple[str, ...] = ()

    @property
    def prepared_controls(self) -> tuple[Control, ...]:
        """Controls that are made before sampling."""
        return tuple(control for control in self.controls if not control.is_fitted)

    @property
    def fitted_controls(self) -> tuple[Control, ...]:
        """Controls that are fitted to what was sampled."""
        return tuple(control for control in self.controls if control.is_fitted)

    def for_row(self, problem: Problem, x: FloatArray, at_x: FloatArray | None = None) -> Plan:
        """The plan of one row; f(x) `(outputs,)`, where it is known, may have a say.

        Rows that differ from the background in few players, have missing values, or are out of a shared surrogate's
        reach are treated differently.
        """
        if problem.estimator is not None:
            return _with_controls_of_row(self, problem, x)
        plan, facts, reasons = self, RowFacts.of(problem, x, at_x), dict[str, str]()
        estimator = choose_estimator(problem, self.budget, reasons, early=self.early, facts=facts)
        if estimator != self.estimator:
            plan = replace(_assemble(problem, self.budget, estimator, reasons, early=self.early), notes=self.notes)
        return _with_controls_of_row(plan, problem, x)

    @property
    def n_units(self) -> int:
        """Units that the budget pays for if x and the background agree nowhere; with rows that are known, more."""
        spent = 1 + self.costs.derivatives + self.n_base_draws
        return max(0, self.budget - spent) // max(1, self.costs.unit)

    def __str__(self) -> str:
        return "\n".join(_describe(self))


def _with_controls_of_row(plan: Plan, problem: Problem, x: FloatArray) -> Plan:
    """Without controls that a row cannot have: it has missing values, or a shared surrogate does not reach it."""
    if problem.controls is not None or not plan.controls:
        return plan
    if not np.isfinite(x).all():
        return replace(plan, controls=(), keeps=_what_is_kept(problem, plan.estimator, plan.variance, ()))
    if plan.other_controls is None or problem.shared is None:
        return plan
    if problem.shared.reaches(x, problem.background, problem.players):
        return plan
    return replace(plan, controls=plan.other_controls)


def _describe(plan: Plan) -> Iterable[str]:
    """Lines that say what is done, what it costs and why."""
    if plan.form is not None:
        yield f"exact       {plan.form.name}: closed-form values, 1 evaluation a row; where it fails:"
    controls = " + ".join(_short(control) for control in plan.controls) or "none"
    parts = {"estimator": _short(plan.estimator), "control": controls, "variance": _short(plan.variance)}
    for name, what in parts.items():
        yield f"{name:<11} {what}: {plan.reasons.get(name, 'as asked for')}"
    yield from plan.notes
    if plan.is_exact:
        yield f"evaluations {1 + plan.costs.fewest_units * plan.costs.unit:,} a row, all coalitions: no sampling error"
        return
    costs = plan.costs
    spent = ["1 for the row"]
    spent += [f"{costs.derivatives:,} for derivatives"] if costs.derivatives else []
    spent += [f"{plan.n_base_draws:,} for the base value"] if plan.n_base_draws else []
    spent += [f"{plan.n_units:,} units of {costs.unit:,}"]
    yield f"evaluations at most {plan.budget:,} a row: {', '.join(spent)}"


def _short(strategy: Any) -> str:
    """A strategy with those of its settings that are not the default: "Kernel(n_draws=50, reuse=True)"."""
    if not is_dataclass(strategy):
        return f"{type(strategy).__name__}()"
    changed = [f for f in fields(strategy) if f.init and not _is_default(strategy, f)]
    settings = ", ".join(f"{f.name}={getattr(strategy, f.name)!r}" for f in changed)
    return f"{type(strategy).__name__}({settings if len(settings) <= 60 else '...'})"


def _is_default(strategy: Any, declared: Field[Any]) -> bool:
    default = declared.default if declared.default_factory is MISSING else declared.default_factory()
    return bool(getattr(strategy, declared.name) is default or getattr(strategy, declared.name) == default)


def raise_default(problem: Problem, stopping: Stopping) -> Stopping:
    """A budget that nobody set is raised to what all coalitions take, where that is not much more."""
    needed = _exact_budget(problem, stopping.budget)
    if not stopping.is_default or needed is None or not stopping.budget < needed <= EXACT_FACTOR * stopping.budget:
        return stopping
    return replace(stopping, budget=needed)


def _exact_budget(problem: Problem, budget: int) -> int | None:
    """Evaluations of a row with which "auto" enumerates a finite background; None where it never does."""
    p, base = problem.players.n_players, problem.base
    if problem.estimator is not None or not base.finite or not 1 < p <= MOST_PLAYERS:
        return None
    cost = Enumeration().unit_cost(p, finite=True) * len(base.rows)
    return 1 + cost + control_cost(problem, problem.controls or (), budget)


def make_plan(problem: Problem, stopping: Stopping) -> Plan:
    """Decide everything, as far as it does not depend on the row."""
    budget, early, reasons = stopping.design_budget, stopping.early, dict[str, str]()
    estimator = choose_estimator(problem, budget, reasons, early=early)
    plan = _assemble(problem, budget, estimator, reasons, early=early)
    needed = _exact_budget(problem, budget)
    if needed is None or plan.is_exact or early or needed > NEARLY_EXACT_FACTOR * budget:
        return plan
    return replace(plan, notes=(f"nearly exact: budget={needed} covers all coalitions, without sampling error",))


def _assemble(problem: Problem, budget: int, estimator: Estimator, reasons: dict[str, str], *, early: bool) -> Plan:
    """The plan of an estimator: controls, variance, costs."""
    controls, others = _choose_controls(problem, estimator, budget, reasons)
    variance = _choose_variance(problem, estimator, reasons)
    if problem.controls is None and controls and least_budget(problem, estimator, controls, variance, budget) > budget:
        controls, others = (), None
        reasons["control"] = "no automatic control fits the budget"
    own = problem.imputer.with_replacement or estimator.draws_own_rows
    # whole backgrounds, enumerated or used again with every coalition, have nothing to replace
    replaced = own and problem.base.finite and not estimator.exact_per_draw and not estimator.reuses_evaluations
    return Plan(
        estimator=estimator,
        variance=variance,
        controls=controls,
        other_controls=others,
        budget=budget,
        early=early,
        costs=_costs(problem, estimator, controls, variance, budget),
        n_base_draws=base_draws(problem, estimator, budget, early=early),
        with_replacement=bool(replaced),
        keeps=_what_is_kept(problem, estimator, variance, controls),
        is_exact=estimator.exact_per_draw and problem.base.finite,
        form=problem.form,
        reasons=reasons,
    )


def _what_is_kept(
    problem: Problem, estimator: Estimator, variance: Variance, controls: tuple[Control, ...]
) -> Literal["units", "batches", "coalition means"]:
    """What is kept of many units: each, batches of them, or the means of coalitions over the background."""
    fitted = [control for control in controls if control.is_fitted]
    processes = [control for control in fitted if control.models_coalitions]
    if not variance.takes_batches:
        return "units"
    if estimator.reuses_evaluations:
        return "coalition means" if len(processes) == len(fitted) else "units"
    if processes or (estimator.exact_per_draw and problem.base.finite):
        return "units"
    return "batches"


def choose_estimator(
    problem: Problem,
    budget: int,
    reasons: dict[str, str] | None = None,
    *,
    early: bool = False,
    facts: RowFacts | None = None,
) -> Estimator:
    """The estimator asked for, or for "auto" the one that the rules of `docs/design.md` give."""
    reasons = {} if reasons is None else reasons
    p = problem.players.n_players
    if p == 1:
        reasons["estimator"] = "there is one player"
        return Enumeration()
    estimator = problem.estimator
    if estimator is not None:
        return estimator.with_draws(len(problem.base.rows)) if problem.base.finite else estimator
    base = problem.base
    if _can_enumerate(problem, budget, early=early):
        reasons["estimator"] = "all coalitions fit the budget" if base.finite else "all coalitions cost less than walks"
        return Enumeration()
    if not early and _pays_whole_background(problem, budget):
        n_pairs = (budget - 1) // (2 * len(base.rows))
        reasons["estimator"] = f"{n_pairs} pairs of coalitions, enough for each to have the whole background"
        return Kernel(n_draws=len(base.rows), reuse=True)
    if problem.shared is not None and problem.controls is None and not problem.correlated and p >= 4 and early:
        # What a good surrogate leaves is small, and needs few units of few evaluations each (benchmarks/amortise.py).
        reasons["estimator"] = "a shared surrogate leaves little, and the run may end early"
        return Kernel()
    return _choose_units(problem, budget, reasons, facts or RowFacts.of(problem), early=early)


def _choose_units(problem: Problem, budget: int, reasons: dict[str, str], facts: RowFacts, *, early: bool) -> Estimator:
    """Units of one background row each: pairs of walks, single walks, or pairs of coalitions."""
    p, n_rows = problem.players.n_players, len(problem.base.rows)
    free = problem.base.finite and not problem.correlated and problem.controls is None
    kernel = Kernel()
    affordable = budget > kernel.fewest_units(p) * kernel.unit_cost(p, finite=True)
    if free and facts.has_labels and problem.variance is None and n_rows >= FEWEST_LABELS and affordable and p >= 4:
        reasons["estimator"] = "outputs are whole numbers, which jump: every pair of coalitions tells of every player"
        return kernel
    pass_cost = (facts.n_differing - 1.0) * n_rows
    fewest = Permutation().fewest_units(p) * Permutation().unit_cost(p, finite=True)
    if free and not early and budget - 1 < max(SINGLE_PASSES * pass_cost, fewest):
        reasons["estimator"] = "single walks, which meet most background rows where there is no more than one pass"
        return Permutation(paired=False)
    reasons["estimator"] = "paired walks over the background in cycles" if problem.base.finite else "paired walks"
    return Permutation()


def _can_enumerate(problem: Problem, budget: int, *, early: bool) -> bool:
    """Whether all coalitions are affordable; with draws from a distribution, whether they cost less than walks."""
    p, base = problem.players.n_players, problem.base
    if p > MOST_PLAYERS:
        return False
    if not base.finite:
        cost = Enumeration().unit_cost(p, finite=False)
        return cost <= ENUMERATION_FACTOR * Permutation().unit_cost(p, finite=False)
    # what may end early is not sent through all coalitions because a generous limit would cover them
    most = min(budget, MOST_ENUMERATED_EARLY) if early else budget
    needed = _exact_budget(problem, budget)
    return needed is not None and needed <= most


def _pays_whole_background(problem: Problem, budget: int) -> bool:
    """Whether there are so many coalitions that each is worth the whole background."""
    free = problem.controls is None and (problem.variance is None or isinstance(problem.variance, LeastSquares))
    if not free or problem.correlated or not problem.base.finite or not np.isfinite(problem.background).all():
        return False
    p, n_rows = problem.players.n_players, len(problem.base.rows)
    n_pairs = (budget - 1) // (2 * n_rows)
    # the noise of walks falls with their number, and with it with that of the rows; the noise of coalitions does not
    many = n_pairs >= WHOLE_FACTOR * math.sqrt(max(n_rows, WHOLE_ROWS[0])) * p
    share = n_rows <= WHOLE_ROWS[1] and n_pairs >= max(WHOLE_SHARE * 2.0 ** (p - 1), WHOLE_LEAST * p)
    for_pairs = problem.interactions and n_pairs >= WHOLE_FOR_PAIRS * p
    return p >= 4 and (many or share or for_pairs)


def _choose_variance(problem: Problem, estimator: Estimator, reasons: dict[str, str]) -> Variance:
    """The variance asked for, or the one that fits the estimator."""
    regression = problem.variance is not None and problem.variance.is_least_squares
    if estimator.exact_per_draw and (problem.base.finite or regression):
        reasons["variance"] = "coalitions are enumerated"
        return Analytic()
    if problem.variance is not None:
        return problem.variance
    reasons["variance"] = "fits the estimator"
    return LeastSquares() if estimator.is_least_squares else Analytic()


def control_cost(problem: Problem, controls: tuple[Control, ...], budget: int) -> int:
    """Most evaluations that the controls may spend on a row."""
    kind: dict[str, Any] = {"source": problem.model.source, "correlated": problem.correlated}
    return sum(control.cost(problem.players, problem.background, budget, **kind) for control in controls)


def _choose_controls(
    problem: Problem, estimator: Estimator, budget: int, reasons: dict[str, str]
) -> tuple[tuple[Control, ...], tuple[Control, ...] | None]:
    """The controls asked for, or for "auto" those that the evaluations pay for; and those of rows out of reach."""
    if problem.players.n_players == 1:
        return (), None
    if problem.controls is not None:
        return problem.controls, None
    if estimator.exact_per_draw:
        reasons["control"] = "nothing is left to sampling of coalitions"
        return (), None
    if not np.isfinite(problem.background).all():
        reasons["control"] = "the background has missing values"
        return (), None
    if estimator.reuses_evaluations:
        reasons["control"] = "interpolates the coalitions evaluated, with and without a ridge"
        return (CoalitionProcess(), CoalitionProcess(start=None)), None
    if estimator.takes_fitted_controls:
        reasons["control"] = "fitted to the evaluations themselves, which costs none"
        return _fitted_to_evaluations(problem, budget)
    if not (problem.imputer.mixes_columns or problem.imputer.linear_in_x):
        reasons["control"] = "nothing is fitted to these units, and Taylor has no known values"
        return (), None
    return _cheap_taylor(problem, budget, reasons), None


def _fitted_to_evaluations(problem: Problem, budget: int) -> tuple[tuple[Control, ...], tuple[Control, ...] | None]:
    """Functions fitted to the evaluations, and Taylor where it is free.

    They know interactions of all orders, where pairs alone integrate a quadratic.
    """
    shared: tuple[Control, ...] = () if problem.shared is None else (problem.shared,)
    few = problem.players.n_columns <= MOST_TAYLOR_COLUMNS
    if problem.imputer.linear_in_x and few and control_cost(problem, (Taylor(),), budget) == 0:
        return (Taylor(), *shared, LogisticRidge()), None
    slow = _slow_learners(problem, budget)
    if not shared:
        margin: tuple[Control, ...] = () if problem.margin is None else (problem.margin,)
        return (LogisticRidge(), *margin, *slow), None
    # one that was fitted before saves the time of fitting, unless there is time to spare
    reached: tuple[Control, ...] = (*shared, LogisticRidge(), *slow) if slow else shared
    return reached, None if problem.correlated else (LogisticRidge(), *slow)


def _cheap_taylor(problem: Problem, budget: int, reasons: dict[str, str]) -> tuple[Control, ...]:
    """The Taylor control, where its derivatives are a small part of the budget."""
    options = [Taylor()]
    if control_cost(problem, (Taylor(),), budget) > 0:
        options = [Taylor(derivatives=FiniteDifferences(cross=cross)) for cross in (True, False)]
    affordable = [o for o in options if control_cost(problem, (o,), budget) <= CONTROL_SHARE * budget]
    part = f"{CONTROL_SHARE:.0%} of the budget"
    reasons["control"] = f"derivatives within {part}" if affordable else f"derivatives take more than {part}"
    return tuple(affordable[:1])


def _slow_learners(problem: Problem, budget: int) -> tuple[Control, ...]:
    """Trees, where fitting them takes no longer than the model is said to take; networks where time does not matter."""
    if problem.correlated or problem.seconds is None:
        return ()
    trees = (Trees(),) if boosting_available() else ()
    if problem.seconds == math.inf:  # "thorough"
        return (RidgeNetwork(), *trees)
    each = TREE_SECONDS[0] + TREE_SECONDS[1] * min(budget, Trees().max_rows)
    seconds = Trees().n_folds * problem.base.n_outputs * each
    return trees if seconds <= problem.seconds * budget else ()


def check_plan(problem: Problem, plan: Plan, x: FloatArray) -> None:
    """Refuse settings that do not fit the estimator, a budget that is too small, and controls without known values."""
    estimator = plan.estimator
    plan.variance.check(least_squares=estimator.is_least_squares, n_draws=estimator.n_draws)
    check_budget(problem, estimator, plan.controls, plan.variance, plan.budget)
    if plan.fitted_controls:
        _check_fitted_controls(problem, plan, x)


def _check_fitted_controls(problem: Problem, plan: Plan, x: FloatArray) -> None:
    learners, estimator = plan.fitted_controls, plan.estimator
    names = ", ".join(f"{type(learner).__name__}()" for learner in learners)
    if not (estimator.exact_per_draw or estimator.takes_fitted_controls):
        raise NoClosedFormError(
            f"{names} controls permutation walks and KernelSHAP, not {type(estimator).__name__}. Use "
            "estimator='permutation', 'kernel' or 'auto', or control='taylor'."
        )
    whole = estimator.is_least_squares and estimator.paired and estimator.n_draws == len(problem.base.rows)
    whole = whole and problem.imputer.mixes_columns
    if any(learner.models_coalitions for learner in learners) and not whole:
        raise NoClosedFormError(
            "CoalitionProcess() needs the value of every coalition without noise: features='independent' and "
            "estimator=Kernel(n_draws=<rows of the background>, reuse=True). Use control='ridge'."
        )
    if not np.isfinite(x).all() or not np.isfinite(problem.background).all():
        raise InvalidArgumentError(
            f"`control`: {names} needs finite rows and a finite background, but there are missing values. "
            "Use control='none', or impute them."
        )


def refuse_interactions(problem: Problem, stopping: Stopping) -> None:
    """Refuse interactions where units do not have them, before any model call."""
    if not stopping.interactions:
        return
    if problem.correlated or not problem.base.finite:
        raise InvalidArgumentError(
            "`interactions=2` needs features='independent': with other value functions there are no interactions yet. "
            "Leave `interactions` out."
        )
    estimator = choose_estimator(problem, stopping.design_budget, early=stopping.early)
    if not estimator.gives_interactions:
        raise InvalidArgumentError(
            f"`interactions=2` needs walks, KernelSHAP or all coalitions; got estimator={estimator!r}. Use "
            "estimator='auto', 'permutation' or 'kernel'."
        )


def refuse_budget(problem: Problem, stopping: Stopping) -> None:
    """Refuse a budget that no row could be explained with, before any model call."""
    budget = stopping.design_budget
    estimator = choose_estimator(problem, budget, early=stopping.early)
    controls = problem.controls or () if problem.players.n_players > 1 else ()
    check_budget(problem, estimator, controls, _choose_variance(problem, estimator, {}), budget)


def check_budget(
    problem: Problem, estimator: Estimator, controls: tuple[Control, ...], variance: Variance, budget: int
) -> None:
    """Refuse a budget that cannot give values with errors."""
    needed = least_budget(problem, estimator, controls, variance, budget)
    if needed > budget:
        costs = _costs(problem, estimator, controls, variance, needed)
        spent = ["1 for the row"]
        spent += [f"{costs.derivatives} for derivatives"] if costs.derivatives else []
        spent += [f"{costs.base} for the base value"] if costs.base else []
        raise BudgetTooSmallError(
            f"`budget` must be at least {needed} evaluations a row for {problem.players.n_players} players with "
            f"{type(estimator).__name__} ({', '.join(spent)}, {costs.fewest_units} units of {costs.unit}); "
            f"got {budget}.",
            needed,
        )


def least_budget(
    problem: Problem, estimator: Estimator, controls: tuple[Control, ...], variance: Variance, budget: int
) -> int:
    """`budget`, or the next larger one that covers what is bought with it."""
    while (least := _costs(problem, estimator, controls, variance, budget).least) > budget:
        budget = least
    return budget


def _costs(
    problem: Problem, estimator: Estimator, controls: tuple[Control, ...], variance: Variance, budget: int
) -> Costs:
    p, finite = problem.players.n_players, problem.base.finite
    units = max(estimator.fewest_units(p), variance.fewest_units)
    if estimator.exact_per_draw:
        units = len(problem.base.rows) if finite else 2
    derivatives = control_cost(problem, controls, budget)
    return Costs(derivatives, base_draws(problem, estimator, budget), units, estimator.unit_cost(p, finite=finite))
