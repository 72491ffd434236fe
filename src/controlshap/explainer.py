"""`Explainer`: validate, assemble, keep what does not depend on the row, explain rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from controlshap import strategies as assemble
from controlshap._checks import at_least, check_seconds, refuse_missing
from controlshap._errors import InvalidArgumentError, NoClosedFormError
from controlshap._parallel import check_jobs
from controlshap._progress import ProgressLike, Reporter, check_progress
from controlshap._random import Purpose, RngLike, resolve_entropy, stream
from controlshap._types import AnyArray, FloatArray
from controlshap._version import __version__
from controlshap.controls import Learner, SharedSurrogate
from controlshap.controls.shared import best_learner, default_learners, hybrid_rows
from controlshap.data.encoding import make_encoding, refuse_many_levels, refuse_unseen
from controlshap.data.players import Groups, Players, resolve_players
from controlshap.data.table import Table, read_table
from controlshap.engine.device import device_explanation, wants_device
from controlshap.engine.resume import check_same, continue_from
from controlshap.engine.row import refuse_budget
from controlshap.engine.rows import DELAY, continue_rows, explain_rows
from controlshap.functions import ExactForm, agrees, evaluations_to_recognise, recognise
from controlshap.limits import check_stopping
from controlshap.models.adapters import as_model
from controlshap.models.model import Model
from controlshap.preparing import (
    check_combination,
    evaluated,
    has_gaps,
    read_rows,
    sampled,
    sampling_error,
    with_inputs,
)
from controlshap.problem import BaseSample, Problem
from controlshap.results.collect import Names, RowResult, collect, merge, recorded
from controlshap.results.explanation import Explanation
from controlshap.statistics.stopping import Stopping
from controlshap.storage.explainers import load_explainer, save_explainer
from controlshap.values.gaussian import GaussianImputer
from controlshap.values.marginal import Marginal, MarginalImputer

if TYPE_CHECKING:
    from controlshap.datasets.result import DatasetResult


class Explainer:
    """Shapley values of a model's predictions, with standard errors and control variates.

    Parameters
    ----------
    model : callable or fitted model
        A function of rows returning (n,) or (n, outputs); or a fitted scikit-learn, torch, xgboost or lightgbm
        model (`predict_proba` when it has one; two classes give the probability of class 1).
    background : ndarray or frame of shape (n, columns)
        Ordinary data: what absent features are replaced by.
    features : {"independent", "correlated"} or value function
        Whether absent features ignore the revealed ones, or are conditioned on them as Gaussians.
    estimator : {"auto", "permutation", "kernel", "per_feature"} or estimator
        "auto" chooses by budget and players, and is exact where the budget covers all coalitions.
    control : {"auto", "thorough", "none", "taylor"}, the name of a surrogate, object, or list of them
        The control variate. Surrogates are "ridge", "network", "wide_network", "polynomial", "trees" and "coalitions".
        "auto" fits what takes less time than the model itself; "thorough" fits everything,
        however long it takes; a list is combined by regression.
    variance : {"auto", "analytic", "bootstrap", "least_squares", "grouped"} or variance method
        Where standard errors come from.
    groups : dict or list, optional
        Columns that are one player: `{"Job": ["Job_admin", "Job_student"]}`, or lists of names or positions.
    coefficient : {"auto", "units", "folds"}
        Take the control's coefficient from other folds of units (no bias), or from the same units as the paper does
        (a bias of order 1/n). "auto" uses folds wherever the variance method works unit by unit.
    memory_limit : int
        Bytes for rows under construction and evaluation.
    max_background : int
        A larger background is sampled (without replacement, with a fixed seed) to this many rows, which then are the
        background; `base_standard_errors` gives the error of the base value against the whole.
    seconds_per_evaluation : float, optional
        Time that the model takes for a row, against which control="auto" weighs the time of fitting trees; measured
        while the first row is explained when not given. Give it where two explainers must decide alike.

    Examples
    --------
    >>> import numpy as np
    >>> import controlshap as cs
    >>> background = np.random.default_rng(0).normal(size=(50, 3))
    >>> explainer = cs.Explainer(lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], background)
    >>> explanation = explainer(background[:2], budget=2000, rng=0)
    >>> explanation.status.tolist()
    ['exact', 'exact']
    """

    def __init__(
        self,
        model: Any,
        background: Any,
        features: Any = "independent",
        estimator: Any = "auto",
        control: Any = "auto",
        variance: Any = "auto",
        groups: Groups = None,
        *,
        coefficient: Literal["auto", "units", "folds"] = "auto",
        memory_limit: int = 256 * 2**20,
        max_background: int = 10_000,
        seconds_per_evaluation: float | None = None,
    ) -> None:
        self._settings = {
            "features": features, "estimator": estimator, "control": control, "variance": variance,
            "coefficient": coefficient, "memory_limit": memory_limit, "max_background": max_background,
            "seconds_per_evaluation": seconds_per_evaluation,
        }  # fmt: skip
        # Once: writing out the arrays of a value function takes longer than many an explanation.
        self._told = {n: v if isinstance(v, (str, int)) else repr(v) for n, v in self._settings.items()}
        table = read_table(background, "background")
        names = table.names or tuple(f"x{i}" for i in range(table.n_columns))
        self.column_names: tuple[str, ...] = names
        self._is_frame = table.names is not None
        self._raw_players = resolve_players(groups, names)
        value_function = assemble.resolve_value_function(features)
        self._estimator = assemble.resolve_estimator(estimator)
        self._controls = assemble.resolve_controls(control)
        self._variance = assemble.resolve_variance(variance)
        check_combination(self._variance, self._estimator, coefficient)
        self._coefficient: Literal["auto", "units", "folds"] = coefficient
        self._memory_limit = at_least("memory_limit", memory_limit, 2**20, "bytes; the default is 256 MB")
        self._max_background = at_least("max_background", max_background, 2, "rows")
        self._form: tuple[ExactForm | None] | None = None
        self._n_probes = 0
        adapted = as_model(model)
        self._n_background = table.n_rows
        draws_rows = isinstance(value_function, Marginal) or getattr(value_function, "draws", None) == "background"
        if draws_rows and table.n_rows > self._max_background:
            table = sampled(table, self._max_background)
        # gaps are told to surrogates by a flag, unless the model's own form understands NaN
        flags = has_gaps(table) and isinstance(value_function, Marginal)
        flags = flags and self._form_of(adapted, value_function, len(table.column(0))) is None
        self._encoding = make_encoding(table, names, flag_missing=flags)
        self.players: Players = self._encoding.expand(self._raw_players)
        self._background = self._encoding.encode(table, "background")
        if not isinstance(value_function, Marginal):
            refuse_missing(self._background, "background", self._encoding.labels)
            refuse_many_levels(self._encoding)
        self._imputer = value_function.bind(self._background, self.players, self._encoding.labels)
        self._model = with_inputs(adapted, self._encoding)
        self._problem: Problem | None = None
        self._seconds = check_seconds(seconds_per_evaluation)
        if isinstance(control, str) and control == "thorough":
            self._seconds = np.inf  # next to such a model, fitting takes no time
        self._shared: SharedSurrogate | None = None
        self._cache: dict[str, Any] = {}

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the players."""
        return self.players.names

    @property
    def n_background_evaluations(self) -> int:
        """Model evaluations spent once: on the background (one, with random draws), and to read trees."""
        return 0 if self._problem is None else len(self._problem.base.rows) + self._n_probes

    @property
    def n_surrogate_evaluations(self) -> int:
        """Model evaluations spent once on a shared surrogate."""
        return 0 if self._shared is None else self._shared.n_evaluations

    def fit_surrogate(
        self, X: Any, *, budget: int = 20_000, learner: Learner | None = None, rng: RngLike = None
    ) -> Explainer:
        """Fit one surrogate to the model, for all rows to explain from now on.

        It is fitted to rows that mix rows of X and of the background, costs nothing when a row is explained, and is
        saved with the explainer. control="auto" then uses it beside what it fits for each row.

        Parameters
        ----------
        X : ndarray or frame
            Rows like those to be explained; the rows themselves will do.
        budget : int
            Model evaluations to spend, once.
        learner : Trees, WideNetwork, RidgeNetwork, LogisticRidge or Polynomial, optional
            What is fitted. By default a wide network, trees on top of a logistic ridge, or trees on top of a wide
            network, whichever leaves least of rows that were held out (no trees where no library for them is there);
            with correlated features, where known values are simulated, a logistic ridge or a small network.
        rng : int, Generator, SeedSequence or None

        Returns
        -------
        Explainer
            Itself.
        """
        rows = self._check_rows(X)
        budget = at_least("budget", budget, 100, "model evaluations")
        if learner is not None and not hasattr(learner, "learn"):
            raise InvalidArgumentError(f"`learner` must be Trees() or another fitted surrogate; got {learner!r}.")
        if not isinstance(self._imputer, (MarginalImputer, GaussianImputer)):
            raise NoClosedFormError("`fit_surrogate` needs features='independent' or 'correlated'.")
        for name, array in (("X", rows), ("background", self._background)):
            refuse_missing(array, name, self._encoding.labels)
        mixed = hybrid_rows(rows, self._imputer, budget, stream(resolve_entropy(rng), Purpose.SURROGATE))
        outputs = evaluated(self._model, self._imputer, mixed, self._memory_limit, "surrogate")
        candidates = default_learners(correlated=isinstance(self._imputer, GaussianImputer))
        self._shared = SharedSurrogate.fit(mixed, outputs, learner or best_learner(mixed, outputs, candidates))
        self._problem = None if self._problem is None else replace(self._problem, shared=self._shared)
        return self

    def __call__(
        self,
        X: Any,
        *,
        budget: int | None = None,
        tolerance: float | None = None,
        stop: str | Sequence[str] | None = None,
        level: float = 0.95,
        absolute_tolerance: float | None = None,
        time_limit: float | None = None,
        rng: RngLike = None,
        n_jobs: int = 1,
        keep: bool | None = None,
        history: bool = False,
        device: str | None = None,
        progress: ProgressLike = None,
    ) -> Explanation:
        """Explain rows. Each stops on its own, when all it was told to reach is reached, or at a limit.

        Parameters
        ----------
        X : ndarray or frame of shape (rows, columns), or one row
        budget : int, optional
            Most model evaluations for each row; 10,000 by default (1,000,000 where there is something to stop for).
        tolerance : float, optional
            Stop when the largest standard error is below this share of the spread of the values.
        stop : {"signs", "top 5", "ranking", "ranking 5"} or list of them, optional
            Stop when this is certain: the sign of every value; which are the five largest by magnitude; the order of
            all, or of the five largest.
        level : float
            With this probability all that `stop` certifies for a row (and output) is right.
        absolute_tolerance : float, optional
            Stop when the largest standard error is below this.
        time_limit : float, optional
            Most seconds for each row, roughly. What is found then depends on the machine, not on `rng` alone.
        rng : int, Generator, SeedSequence or None
            Same value, same numbers, for any number of workers; None draws fresh entropy and records it.
        n_jobs : int
            Processes to spread the rows over.
        keep : bool, optional
            Whether to keep what the model said, so that `refine` can go on; by default up to 64 MB of it.
        history : bool
            Whether to go in stages and keep the estimates after each, for `explanation.plot.convergence()`. Fitted
            controls are fitted after each stage, which takes time but no evaluations.
        device : str, optional
            For torch modules: where all rows are explained at once, built, evaluated and reduced there ("cuda", "cpu";
            the module must be on it). By default where a module on a GPU and the settings allow it: a budget alone,
            estimator "auto" or "permutation", control "auto", "none" or "taylor". Random numbers then come from a
            counter and differ from those of the usual way for the same `rng`.
        progress : {None, True, False, "json"} or callable
            None shows a bar on a terminal and in notebooks after two seconds; "json" writes a line on stderr after
            every row; a function gets a `Progress`.
        """
        check_progress(progress)
        entropy = resolve_entropy(rng)
        if keep not in (True, False, None):
            raise InvalidArgumentError(f"`keep` must be True, False or None; got {keep!r}.")
        if history not in (True, False):
            raise InvalidArgumentError(f"`history` must be True or False; got {history!r}.")
        p = self.players.n_players
        stopping = check_stopping(p, budget, tolerance, absolute_tolerance, stop, level, time_limit)
        stopping = replace(stopping, staged=bool(history))
        settings = self._describe(stopping, stop, level)
        return self._explain_rows(
            X, 0, stopping, entropy, settings, n_jobs=check_jobs(n_jobs), keep=keep, device=device, progress=progress
        )

    def _explain_rows(
        self,
        X: Any,
        first: int,
        stopping: Stopping,
        entropy: int,
        settings: dict[str, Any],
        *,
        n_jobs: int = 1,
        keep: bool | None = None,
        device: str | None = None,
        progress: ProgressLike = False,
    ) -> Explanation:
        """Explain rows whose numbers, and so their random streams, start at `first`."""
        rows = self._check_rows(X)
        problem = self._assemble(stopping.budget)
        if device is not None and n_jobs != 1:
            raise InvalidArgumentError(f"`n_jobs={n_jobs}` and `device` exclude each other. Leave one of them out.")
        if n_jobs == 1 and wants_device(device, problem, stopping, keep):
            reporter = Reporter(progress, len(rows), 0, DELAY)
            found = self._explain_on_device(problem, rows, first, stopping, entropy, settings, device)
            reporter.add(len(rows), int(found.n_evaluations.sum()))
            reporter.close()
            return found
        results = explain_rows(problem, rows, first, stopping, entropy, n_jobs=n_jobs, keep=keep, progress=progress)
        settings = settings | {
            "n_background_evaluations": self.n_background_evaluations,
            "n_surrogate_evaluations": self.n_surrogate_evaluations,
        }
        explanation = self._collect(results, self._encoding.data(rows), entropy, settings, problem)
        return replace(explanation, history=tuple(recorded(results)) if stopping.staged else None)

    def _explain_on_device(
        self,
        problem: Problem,
        rows: FloatArray,
        first: int,
        stopping: Stopping,
        entropy: int,
        settings: dict[str, Any],
        device: str | None,
    ) -> Explanation:
        """All rows of a torch module at once."""
        from controlshap.engine.device.explain import explain_problem  # imports torch

        result = explain_problem(problem, rows, budget=stopping.budget, entropy=entropy, device=device, first_row=first)
        settings = settings | {"n_background_evaluations": self.n_background_evaluations}
        names = Names(self._raw_players, self.column_names, self._model.output_names)
        error = sampling_error(problem.base, self._n_background)
        return device_explanation(result, rows, names, error, entropy=entropy, settings=settings)

    def refine(
        self,
        explanation: Explanation,
        *,
        budget: int | None = None,
        tolerance: float | None = None,
        stop: str | Sequence[str] | None = None,
        level: float = 0.95,
        absolute_tolerance: float | None = None,
        time_limit: float | None = None,
        n_jobs: int = 1,
    ) -> Explanation:
        """Go on from an earlier result: the same run, longer, without evaluating anything again.

        With more budget it is what one run of `n_evaluations + budget` would have given. Estimator and control stay as
        they were chosen for the first budget (with correlated features, KernelSHAP and per-feature sampling keep their
        draws for v(0), too); rows that are exact stay as they are. Whoever refines has seen the result: each
        refinement halves the share of `1 - level` that rankings and simultaneous intervals use, so that over a result
        and all its refinements together the chance that any of them is wrong is at most twice `1 - level`.

        Parameters
        ----------
        explanation : Explanation
            Made by this explainer, or one with the same settings and background.
        budget : int, optional
            Most model evaluations to add for each row; as for a call.
        tolerance, stop, level, absolute_tolerance, time_limit, n_jobs
            As for a call.
        """
        p = self.players.n_players
        stopping = check_stopping(p, budget, tolerance, absolute_tolerance, stop, level, time_limit)
        continuations = continue_from(explanation, self.players.names, stopping)
        rows, n_jobs = self._check_rows(explanation.data), check_jobs(n_jobs)
        problem = self._assemble(int(explanation.settings["budget"]))
        check_same(explanation, problem, self._told)
        items = [(number, rows[number], limits, tape) for number, limits, tape in continuations]
        found = continue_rows(problem, items, explanation.entropy, n_jobs=n_jobs)
        settings = explanation.settings | {"refinements": explanation.settings["refinements"] + 1}
        refined = dict(zip([number for number, *_ in continuations], found, strict=True))
        return merge(explanation, refined, partial(self._collect, problem=problem), settings)

    def explain_dataset(
        self,
        source: Any,
        out: str | Path,
        *,
        budget: int | None = None,
        tolerance: float | None = None,
        stop: str | Sequence[str] | None = None,
        level: float = 0.95,
        absolute_tolerance: float | None = None,
        time_limit: float | None = None,
        rng: RngLike = None,
        n_jobs: int = 1,
        scheduler: Any = None,
        part_rows: int | None = None,
        rows: tuple[int, int] | None = None,
        model_hash: str | None = None,
        progress: ProgressLike = None,
    ) -> DatasetResult:
        """Explain a data set of any size, part by part, into a folder; the same call again finishes what is missing.

        Parameters
        ----------
        source : str, Path, frame or ndarray
            A CSV, Parquet or Arrow file, a folder or glob of such files, or rows in memory.
        out : str or Path
            The folder; `controlshap.load(out)` reads it.
        budget, tolerance, stop, level, absolute_tolerance, time_limit, rng, n_jobs
            As for a call.
        scheduler : str or dask.distributed.Client, optional
            A cluster in place of local processes.
        part_rows : int, optional
            Most rows of a part.
        rows : tuple of int, optional
            First row to explain, and the one after the last; they keep their numbers, and so their random streams.
        model_hash : str, optional
            Told beside what the model says on the background, to know it again.
        progress : bool, "json", callable or None
            See `controlshap.datasets.run.explain_dataset`, which has the details of all of these.
        """
        from controlshap.datasets.run import explain_dataset

        return explain_dataset(
            self, source, out, budget=budget, tolerance=tolerance, stop=stop, level=level,
            absolute_tolerance=absolute_tolerance, time_limit=time_limit, rng=rng, n_jobs=n_jobs, scheduler=scheduler,
            part_rows=part_rows, rows=rows, model_hash=model_hash, progress=progress,
        )  # fmt: skip

    def _form_of(self, model: Model, value_function: Any, n_rows: int) -> ExactForm | None:
        """What the model is recognised as, where that is asked for; looked for once, since it may ask the model."""
        if not isinstance(value_function, (Marginal, MarginalImputer)):
            return None
        if self._estimator is not None or self._controls is not None:
            return None
        if self._form is None:
            self._form = (recognise(model.source, n_rows),)
            self._n_probes = evaluations_to_recognise(model.source)
        return self._form[0]

    def _check_rows(self, X: Any) -> FloatArray:
        """Rows to explain as doubles."""
        table = read_rows(X, self.column_names, named=self._is_frame)
        if not isinstance(self._imputer, MarginalImputer):
            refuse_unseen(self._encoding, table)
        self._extend(table)
        rows = self._encoding.encode(table, "X")
        if not isinstance(self._imputer, MarginalImputer):
            refuse_missing(rows, "X", self._encoding.labels)
        self._imputer.check(rows, self._encoding.labels)
        return rows

    def _extend(self, table: Table) -> None:
        """Take in levels of categories that are met for the first time."""
        encoding = self._encoding.extended(table, "X")
        if encoding is not self._encoding:
            self._encoding = encoding
            self._model = replace(self._model, to_inputs=encoding)
            self._problem = None if self._problem is None else replace(self._problem, model=self._model)

    def _assemble(self, budget: int) -> Problem:
        """Put the parts together, refuse a budget that is too small for them, and evaluate the background once."""
        if self._problem is not None:
            return self._problem
        imputer, background = self._imputer, self._background
        finite = imputer.finite_draws is not None
        # One evaluation tells the outputs when draws are random; v(0) is then estimated with each row.
        rows = background if finite else imputer.center[None]
        population = len(background) if finite else np.inf
        problem = Problem(
            self._model, background, BaseSample(rows, np.empty((len(rows), 0, 1)), population), imputer, self.players,
            self._encoding.labels, self._estimator, self._controls, self._variance, self._coefficient,
            self._memory_limit, self._cache,
        )  # fmt: skip
        form = self._form_of(self._model, imputer, len(rows)) if self._encoding.is_plain else None
        if form is None:
            refuse_budget(problem, budget)
        predictions = evaluated(self._model, imputer, rows, self._memory_limit, "background")
        base = BaseSample(rows, predictions[:, :, None], population)
        if form is not None and not agrees(form, rows, base.values[:, :, 0]):
            form = None  # a subclass or a wrapped model that says something else
        self._problem = replace(problem, base=base, form=form, shared=self._shared, seconds=self._seconds)
        return self._problem

    def _collect(
        self,
        results: list[RowResult],
        data: AnyArray,
        entropy: int,
        settings: dict[str, Any],
        problem: Problem,
    ) -> Explanation:
        names = Names(self._raw_players, self.column_names, self._model.output_names)
        return collect(
            results, data, names, sampling_error(problem.base, self._n_background), entropy=entropy, settings=settings
        )

    def _describe(self, stopping: Stopping, stop: Any, level: float) -> dict[str, Any]:
        return self._told | {
            "budget": stopping.budget,
            "tolerance": stopping.tolerance,
            "absolute_tolerance": stopping.absolute,
            "stop": [stop] if isinstance(stop, str) else list(stop or []),
            "level": level,
            "time_limit": stopping.time_limit,
            "refinements": 0,
            "n_background": self._n_background,
            "version": __version__,
        }

    def save(self, path: str | Path) -> Path:
        """Write background, settings and what was computed once (D matrices) to a folder; never the model."""
        return save_explainer(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, model: Any) -> Explainer:
        """Read what `save` wrote; the model is given again."""
        return load_explainer(cls, Path(path), model)


def explain(
    model: Any,
    X: Any,
    background: Any,
    *,
    budget: int | None = None,
    tolerance: float | None = None,
    stop: str | Sequence[str] | None = None,
    level: float = 0.95,
    absolute_tolerance: float | None = None,
    time_limit: float | None = None,
    rng: RngLike = None,
    n_jobs: int = 1,
    keep: bool | None = None,
    history: bool = False,
    device: str | None = None,
    progress: ProgressLike = None,
    **settings: Any,
) -> Explanation:
    """Explain rows of `X` in one call: `Explainer(model, background, **settings)(X, ...)`.

    Parameters
    ----------
    model, X, background
        As for `Explainer` and its call.
    budget, tolerance, stop, level, absolute_tolerance, time_limit, rng, n_jobs, keep, history, device, progress
        As for the call of an `Explainer`.
    **settings
        Arguments of `Explainer`; an unknown one is an error.
    """
    explainer = Explainer(model, background, **settings)
    return explainer(
        X, budget=budget, tolerance=tolerance, stop=stop, level=level, absolute_tolerance=absolute_tolerance,
        time_limit=time_limit, rng=rng, n_jobs=n_jobs, keep=keep, history=history, device=device, progress=progress,
    )  # fmt: skip
