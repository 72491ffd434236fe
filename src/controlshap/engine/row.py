"""The loop over one row: sample a stage, fit controls, estimate, judge, go on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from controlshap._random import Purpose, stream
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.controls.base import Control, EvaluatedRows
from controlshap.crossfitting.fit import ControlledTerms, fit_controls, sample_evaluations
from controlshap.crossfitting.known_marginal import Functions
from controlshap.data.players import differs_from_x
from controlshap.engine.pilot import begin_run, combine_analyses
from controlshap.engine.plan import Plan, check_plan
from controlshap.problem import Problem
from controlshap.results.collect import PairResult, RowResult
from controlshap.sampling.game import Game, sample_base, start_game
from controlshap.sampling.kept import Recording
from controlshap.sampling.sampler import UnitSampler
from controlshap.statistics.analysis import Analysis, Sample, analyse, background_variances
from controlshap.statistics.base_sample import BaseSample, add_noise
from controlshap.statistics.control_variate import KnownValues
from controlshap.statistics.stopping import Snapshot, Stopping
from controlshap.statistics.terms import MeanTerms


def explain_row(
    problem: Problem,
    plan: Plan,
    x: FloatArray,
    row: int,
    entropy: int,
    stopping: Stopping,
    recording: Recording,
    n_shared: int,
) -> RowResult:
    """Shapley values of one row, from scratch or from a recording of an earlier run.

    `n_shared` evaluations, or as many as there are, are handed back for later rows to learn from.
    """
    began = time.perf_counter()
    problem, x = problem.for_row(x)
    at_x = None
    if plan.form is not None:
        from controlshap.engine.exact import explain_exactly

        at_x = _evaluate_row(problem, x, row, recording)
        exact = explain_exactly(problem, plan.form, x, at_x)
        if exact is not None:
            return exact
    check_plan(problem, plan.for_row(problem, x), x)
    if at_x is None:
        at_x = _evaluate_row(problem, x, row, recording)
    plan = plan.for_row(problem, x, at_x)
    run = begin_run(Run.start(problem, plan, x, at_x, row, entropy, stopping, recording, began))
    while run.status is None:
        run.sample_stage()
        run.estimate()
        run.judge()
        if run.enumerates:
            run = run.enumerate()
    return replace(run.finish(), evaluated=run.share(n_shared))


@dataclass
class Run:
    """The state of the loop.

    Attributes
    ----------
    prepared : KnownValues or None
        Known values of the controls that were made before sampling.
    most_units : int
        Units that the budget pays for.
    n_before : int
        Units of an earlier run that are continued.
    pilot : Run or None
        The walks before these units, which are part of the estimate.
    gain : float
        What an evaluation of these units is worth in evaluations of the pilot.
    next_units : int
        Units of the stage under way.
    alpha_fraction : float
        Part of `1 - level` that each look may be wrong with.
    n_telling : ndarray of int, shape (players,), or None
        Background rows that differ from x in each player; players of none are 0.
    status : str or None
        Why the run has ended; None while it goes on.
    enumerates : bool
        Whether it goes on with all coalitions.
    """

    problem: Problem
    plan: Plan
    x: FloatArray
    row: int
    entropy: int
    stopping: Stopping
    recording: Recording
    game: Game
    base: BaseSample
    sampler: UnitSampler
    prepared: KnownValues | None
    began: float
    most_units: int
    n_before: int
    next_units: int
    n_looks: int
    n_telling: IntArray | None
    stages: list[int]
    status: str | None = None
    enumerates: bool = False
    pilot: Run | None = None
    gain: float = 1.0
    n_looked: int = 0
    history: list[tuple[int, FloatArray, FloatArray]] = field(default_factory=list)
    guaranteed: FloatArray | None = None
    analysis: Analysis = field(init=False)
    functions: tuple[Functions, ...] = field(init=False)
    learners: tuple[Control, ...] = field(init=False)
    snapshot: Snapshot = field(init=False)
    _pairs: tuple[int, PairResult] | None = None

    @classmethod
    def start(
        cls,
        problem: Problem,
        plan: Plan,
        x: FloatArray,
        at_x: FloatArray,
        row: int,
        entropy: int,
        stopping: Stopping,
        recording: Recording,
        began: float,
        n_evaluations: int = 1,
    ) -> Run:
        """Prepare controls, the base value and the sampler, after so many evaluations."""
        estimator, p = plan.estimator, problem.players.n_players
        game, prepared = start_game(
            problem, plan.prepared_controls, plan.budget, x, at_x, row, recording, n_evaluations
        )
        game.log.keeps_units = bool(plan.fitted_controls) and not estimator.exact_per_draw
        game.log.means = [] if stopping.interactions else None
        rng = stream(entropy, Purpose.BASE, row)
        base = sample_base(problem, game, estimator, plan.n_base_draws, plan.budget, rng)
        sampler = UnitSampler(
            game, estimator, base, entropy, row, independent_units=plan.variance.needs_independent_units,
            with_replacement=plan.with_replacement, keeps=plan.keeps, planned=plan.budget, early=plan.early,
        )  # fmt: skip
        most = sampler.n_blocks if plan.is_exact else sampler.affordable(stopping.budget - game.n_evaluations)
        first = stopping.first_stage(estimator.fewest_units(p), most)
        mixes = problem.imputer.mixes_columns
        return cls(
            problem=problem, plan=plan, x=x, row=row, entropy=entropy, stopping=stopping, recording=recording,
            game=game, base=base, sampler=sampler, prepared=prepared, began=began, most_units=most,
            n_before=0, next_units=first, n_looks=stopping.n_looks(first, most),
            n_telling=differs_from_x(x, base.rows, problem.players).sum(axis=0) if mixes else None, stages=[],
        )  # fmt: skip

    def replay(self, stages: Sequence[int]) -> None:
        """Take over the stages of an earlier run, and set the next one."""
        for n_units in stages:
            self.sampler.extend(n_units)
        self.recording.check_used()
        self.stages += stages
        self.n_before = self.sampler.n_units
        if stages:
            self.began = time.perf_counter()
            if not self.plan.is_exact:
                left = self.stopping.budget - self.game.n_evaluations
                self.most_units = self.n_before + self.sampler.affordable(left)
        self.most_units = max(self.most_units, self.n_before)
        fewest = max(self.plan.estimator.fewest_units(self.problem.players.n_players), self.n_before)
        self.next_units = self.stopping.first_stage(fewest, self.most_units)
        self.n_looks = self.stopping.n_looks(self.next_units, self.most_units)

    def leave(self, gain: float) -> Run:
        """A run of the alternative, with this one as its pilot."""
        entropy = int(stream(self.entropy, Purpose.AFTER_PILOT, self.row).integers(2**62))
        run = self._follow(self.plan.leave(self.problem), entropy)
        run.pilot, run.gain = self, gain
        return run

    def enumerate(self) -> Run:
        """A run of all coalitions in place of this one."""
        return self._follow(self.plan.enumerate(self.problem), self.entropy)

    def _follow(self, plan: Plan, entropy: int) -> Run:
        """A run of another plan after this one, whose evaluations it counts."""
        run = Run.start(
            self.problem, plan, self.x, self.game.at_x[:, 0], self.row, entropy, self.stopping, self.recording,
            self.began, self.game.n_evaluations,
        )  # fmt: skip
        run.history = [*self.history]
        return run

    @property
    def alpha_fraction(self) -> float:
        """Part of `1 - level` for each look."""
        return self.stopping.alpha_fraction / self.n_looks

    def sample_stage(self) -> None:
        """Evaluate the units of the stage."""
        if self.next_units > self.sampler.n_units:
            self.sampler.extend(self.next_units)
            self.stages.append(self.next_units)

    def estimate(self) -> None:
        """Fit the controls to what was sampled, and estimate values and errors."""
        sampler, estimator = self.sampler, self.plan.estimator
        terms, learners = sampler.terms(), self.plan.fitted_controls
        if self.game.log.keeps_units:
            rng = stream(self.entropy, Purpose.FOLDS, self.row)
            fitted = fit_controls(self.problem, sampler, terms, self.prepared, learners, rng)
        else:
            fitted = ControlledTerms(terms, self.game.at_x, self.prepared, learners=learners)
        varies = estimator.evaluates_base(finite=self.base.finite)
        shared_base = np.zeros((0, *self.game.at_x.shape)) if varies else self.base.root_rows()
        # fitted functions do not share the error of v(0)
        shared_base = np.pad(shared_base, ((0, 0), (0, 0), (0, fitted.sizes.shape[1] - shared_base.shape[2])))
        sample = Sample(
            fitted.terms, sampler.strata(), shared_base, fitted.sizes, estimator.efficient, varies, self.live,
            self._at_rows(fitted), self.n_telling,
        )  # fmt: skip
        rng = stream(self.entropy, Purpose.RESAMPLING, self.row)
        by_folds = self.problem.coefficient != "units"
        analysis = analyse(sample, self.plan.variance.roots, fitted.known, rng, by_folds=by_folds)
        self.analysis = self._add_noise(analysis, shared_base=not varies)
        if self.pilot is not None:
            before = self.pilot.game.n_evaluations
            counts = before - 1, self.game.n_evaluations - before
            self.analysis = combine_analyses(self.pilot.analysis, self.analysis, self.gain, counts)
        self.functions, self.learners = fitted.functions, fitted.learners
        if self.base.finite:  # the same for all rows to the last bit, whatever the weights of their units
            for exact in (self.analysis.controlled, self.analysis.uncontrolled):
                exact.values[-1] = self.base.mean[:, 0]
        estimate = self.analysis.controlled
        self.snapshot = Snapshot(estimate.values[:-1], estimate.covariances[:, :-1, :-1], estimate.dof[:-1])
        self.history.append((self.game.n_evaluations, self.snapshot.values, self.snapshot.errors))

    @property
    def live(self) -> BoolArray | None:
        """Players that are not known to be 0; None for all."""
        return None if self.n_telling is None else self.n_telling > 0

    def _at_rows(self, fitted: ControlledTerms) -> FloatArray | None:
        """The model and all controls at the rows of a finite background."""
        if not self.base.finite:
            return None
        known = self.base.values
        return known if fitted.at_rows is None else np.concatenate([known, fitted.at_rows], axis=2)

    def _add_noise(self, analysis: Analysis, *, shared_base: bool) -> Analysis:
        """The analysis with the noise of f(x) and f(background), where the model adds some."""
        noise = self.problem.noise
        if noise is None:
            return analysis
        controlled, uncontrolled = (
            add_noise(one, noise, len(self.base.rows), shared_base=shared_base, enumerated=self.plan.is_exact)
            for one in (analysis.controlled, analysis.uncontrolled)
        )
        return replace(analysis, controlled=controlled, uncontrolled=uncontrolled)

    def judge(self) -> None:
        """End the run if its goals or a limit are reached; else set the next stage."""
        stopping, n_units, is_last = self.stopping, self.next_units, self.next_units >= self.most_units
        whole = self.plan.is_exact or self.sampler.is_whole
        # where the clock cuts stages short, there may be more of them than shares of alpha
        may_look = stopping.looks and not whole and self.n_looked < self.n_looks
        if may_look and (n_units >= stopping.first_look or is_last):
            self.n_looked += 1
            if stopping.needs_pairs:
                self.snapshot = replace(self.snapshot, pairs=self._certain_pairs())
            if self._is_reached():
                self.status = "converged"
                return
        if is_last:
            self.status = "exact" if whole and self.problem.noise is None else "budget reached"
            return
        seconds = time.perf_counter() - self.began
        self.next_units = stopping.next_stage(n_units, self.most_units, seconds, self.n_before)
        if self.next_units == n_units:
            self.status = "time reached"
        # as with skis that may be hired or bought: no more than twice what would have been best with hindsight
        then = self.game.n_evaluations * self.next_units / n_units
        self.enumerates = self.plan.exact_cost is not None and then > self.plan.exact_cost

    def _is_reached(self) -> bool:
        """Whether all goals are reached."""
        stopping = self.stopping
        if stopping.output_range is None:
            return bool(stopping.error_ratio(self.snapshot, self.alpha_fraction) <= 1.0)
        self.guaranteed = self._guarantee()
        certain = all(rule.certain_by(self.snapshot.values, *self.guaranteed[2:]) for rule in stopping.rules)
        return certain and bool(replace(stopping, rules=()).error_ratio(self.snapshot, self.alpha_fraction) <= 1.0)

    def _guarantee(self) -> FloatArray:
        """Bounds `(4, players, outputs)` that hold for any number of units, on each value and on all together."""
        from controlshap.statistics.betting import bound_values

        assert self.stopping.output_range is not None
        terms = cast("MeanTerms", self.sampler.terms()).values[:, :-1, :, 0]  # (n, p, o)
        alpha, reach = self.alpha_fraction * self.stopping.alpha, float(np.ptp(self.stopping.output_range))
        return bound_values(terms, reach, alpha, self.live, self.guaranteed)

    def finish(self) -> RowResult:
        """The result of the run."""
        status, plan = self.status or "", self.plan
        plan.warn_few_to_resample(self.sampler.n_units)
        if self.stopping.output_range is not None and status != "exact" and self.guaranteed is None:
            self.guaranteed = self._guarantee()
        applied = (*plan.prepared_controls, *self.learners)
        before = () if self.pilot is None else (self.pilot.plan.estimator,)
        return RowResult(
            analysis=self.analysis,
            n_evaluations=self.game.n_evaluations,
            status=status,
            method=" + ".join(type(part).__name__ for part in (*before, plan.estimator, *applied)),
            controls=describe_controls(applied, self.analysis.alpha),
            alpha_fraction=self.alpha_fraction,
            complete=self._is_complete,
            background_variances=self._background_variances(),
            distribution_variances=self._distribution_variances(),
            evaluations=None if status == "exact" else self.recording.all_outputs(),
            stages=tuple(self.stages) if self.pilot is None else (*self.pilot.stages, *self.stages),
            history=tuple(self.history),
            pairs=self._interactions() if self.stopping.interactions else None,
            guaranteed=self.guaranteed,
        )

    @property
    def _is_complete(self) -> bool:
        """Whether every background row was visited."""
        return self.base.finite and self.sampler.strata().sampling_fraction >= 1.0

    def share(self, n_evaluations: int) -> EvaluatedRows | None:
        """Some of the evaluations; None where they were not kept."""
        if n_evaluations == 0 or not self.game.log.parts:
            return None
        return sample_evaluations(self.sampler, n_evaluations, stream(self.entropy, Purpose.LEARNING, self.row))

    def _interactions(self) -> PairResult:
        """Interactions from the same units, controlled by the same functions as the values."""
        if self._pairs is not None and self._pairs[0] == self.sampler.n_units:
            return self._pairs[1]
        from controlshap.interactions import estimate_interactions

        folds, analysis = (stream(self.entropy, purpose, self.row) for purpose in (Purpose.FOLDS, Purpose.INTERACTIONS))
        pairs = estimate_interactions(
            self.problem, self.sampler, self.plan.fitted_controls, self.functions, (folds, analysis)
        )
        self._pairs = self.sampler.n_units, pairs
        return pairs

    def _certain_pairs(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Interactions, errors and degrees of freedom; an error of 0 is certain only if every row was visited."""
        pairs = self._interactions()
        unsure = (pairs.standard_errors == 0) & (not self._is_complete)
        return pairs.indices, np.where(unsure, np.inf, pairs.standard_errors), pairs.dof

    def _background_variances(self) -> FloatArray | None:
        """Variances that the choice of the background rows adds; None where units do not show it."""
        if not self.base.finite or self.plan.estimator.redraws_when_joined or self.plan.with_replacement:
            return None
        # blocked by the rows that units used, even where these were drawn at random
        sampler, of_background = self.sampler, self.problem.base.values[:, :, 0]
        return background_variances(
            sampler.terms(), sampler.strata_of_rows(), sampler.draw_index(), of_background, self.game.at_x
        )

    def _distribution_variances(self) -> FloatArray | None:
        """Variances because the distribution of the features was estimated; None without a function in place of f."""
        refits = self.problem.refits
        if refits is None:
            return None
        from controlshap.crossfitting.distribution import distribution_variances, stand_ins

        rng = stream(self.entropy, Purpose.FOLDS, self.row)
        found = stand_ins(self.sampler, self.plan.fitted_controls, self.functions, rng)
        if found is None:
            return None
        return distribution_variances(refits, self.problem.imputer, self.x, *found, self.problem.memory_limit)


def describe_controls(controls: Sequence[Control], alpha: FloatArray) -> str:
    """The controls with their mean coefficients: "LogisticRidge 0.98, Trees 0.02"."""
    if alpha.shape[-1] == 0:
        return ""
    mean = alpha[:-1].mean(axis=(0, 1))
    n_prepared = sum(not control.is_fitted for control in controls)
    # a prepared control has one coefficient, a fitted one two (the first within draws)
    firsts = [*range(n_prepared), *range(n_prepared, len(mean), 2)]
    names = [type(control).__name__ for control in controls]
    # with too few units, or all coalitions, nothing is fitted
    return ", ".join(f"{name} {mean[at]:.2f}" for name, at in zip(names, firsts, strict=False))


def _evaluate_row(problem: Problem, x: FloatArray, row: int, recording: Recording) -> FloatArray:
    """f(x), shape (outputs,): the one evaluation that every explanation starts with."""

    def ask(rows: FloatArray) -> FloatArray:
        inputs = problem.imputer.to_inputs(rows)
        return problem.model(inputs, n_outputs=problem.base.n_outputs, where=f"row {row} itself")

    outputs: FloatArray = recording.evaluate(x[None], ask)[0]
    return outputs
