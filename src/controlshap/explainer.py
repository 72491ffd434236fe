"""`Explainer`, the front door: explain rows, refine, explain data sets, save and load."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Never, Unpack

from controlshap._checks import as_folder, as_path, check_flag, check_whole, refuse_missing
from controlshap._errors import InvalidArgumentError
from controlshap._other_names import ATTRIBUTES, read_budget, refuse_arguments, refuse_attribute
from controlshap._random import Purpose, RngLike, resolve_entropy, stream
from controlshap.controls import Control
from controlshap.controls.base import EvaluatedRows
from controlshap.data.players import Groups, Players
from controlshap.engine.parallel import check_jobs
from controlshap.engine.plan import Plan
from controlshap.engine.progress import ProgressLike, check_progress
from controlshap.engine.rows import describe_call, explain_rows, plan_rows
from controlshap.limits import LimitOptions, Limits, read_limits
from controlshap.models.model import is_torch_module
from controlshap.problem import Assembly
from controlshap.results.explanation import Explanation

if TYPE_CHECKING:
    from controlshap.data.orders import Hierarchy, Order
    from controlshap.datasets.result import DatasetResult


class Explainer:
    """Shapley values of a model's predictions, with standard errors and control variates.

    Parameters
    ----------
    model : callable or fitted model
        A function of rows returning (n,) or (n, outputs); or a fitted scikit-learn, torch, xgboost or lightgbm
        model (`predict_proba` when it has one; two classes give the probability of class 1).
    background : ndarray or frame of shape (n, columns)
        Ordinary rows, whose values replace absent features.
    features : {"independent", "correlated", "copula", "mixture", "empirical"} or value function
        How absent features depend on the revealed ones: "independent", not at all; "correlated", as jointly Gaussian;
        "copula", the same with each column's own distribution in the background; "mixture", as a mixture of Gaussians;
        "empirical", as in background rows that are near in the revealed ones. Objects: `Mixture`, `Causal`, `Sampler`.
    estimator : {"auto", "permutation", "kernel", "per_feature"} or estimator
        "auto" chooses by budget and players, and is exact where the budget covers all coalitions.
    control : {"auto", "thorough", "none", "taylor"}, the name of a surrogate, object, or list of them
        The control variate. Surrogates are "ridge", "network", "wide_network", "polynomial", "trees" and "coalitions".
        "auto" fits a logistic ridge to the evaluations, and trees if the model is stated to be slow; "thorough" fits
        everything, however long it takes; several controls are combined by regression.
    variance : {"auto", "analytic", "bootstrap", "least_squares", "grouped"} or variance method
        The method that standard errors come from.
    groups : dict or list, optional
        Columns that form one player: `{"Job": ["Job_admin", "Job_student"]}`, or lists of names or positions.
    coefficient : {"auto", "units", "folds"}
        Take the control's coefficient from other folds of units (no bias), or from the same units, as the paper does
        (a bias of order 1/n). "auto" uses folds wherever the variance method works unit by unit.
    memory_limit : int
        Bytes for rows under construction and evaluation.
    max_background : int
        From a larger background this many rows are sampled (without replacement, with a fixed seed) and take its
        place; `base_standard_errors` gives the error of the base value relative to the whole.
    seconds_per_evaluation : float, optional
        Time that the model takes for a row. control="auto" then adds boosted trees to slow models, and leaves out
        controls on trial with fast ones, where that saves time at equal errors. Nothing is ever timed.
    output : {"auto", "margin", "probability"}
        The explained output of a classifier: "margin" is the score before its logistic or softmax link, which shap's
        `TreeExplainer` explains by default and which is exact for boosted trees; "probability" refuses models without
        `predict_proba`; "auto" takes probabilities if there are any.
    of_class : str or label, optional
        The class of a classifier whose output is explained, by its label: `of_class="benign"`. By default the second of
        two classes, and all of several.
    order : list of lists, optional
        Columns or groups in causal order, `[["age", "sex"], ["education"], ["income"]]`: players of a component are
        revealed after those of all earlier components (asymmetric Shapley values).
    hierarchy : dict or nested lists, optional
        Groups whose players stay together, `{"person": ["age", "sex"], "money": ["income", "wealth"]}`, and groups of
        groups: every player keeps a value of its own (Owen's, Winter's), and the values in a group sum to that of the
        group as one player (`explanation.by_group()`).
    distribution_errors : bool
        Whether to compute the error that arises because the distribution of absent features was estimated from the
        background (`explanation.distribution_standard_errors`), for features that are not independent. This takes
        time but no evaluations.
    **other
        Nothing; an argument of shap raises an error that names its counterpart here.

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
        output: Literal["auto", "margin", "probability"] = "auto",
        of_class: Any = None,
        order: Order = None,
        hierarchy: Hierarchy = None,
        distribution_errors: bool = False,
        **other: Never,
    ) -> None:
        if other:
            refuse_arguments("Explainer", other, DEFAULTS)
        settings = {
            "features": features, "estimator": estimator, "control": control, "variance": variance,
            "coefficient": coefficient, "memory_limit": memory_limit, "max_background": max_background,
            "seconds_per_evaluation": seconds_per_evaluation, "output": output,
            "of_class": None if of_class is None else str(of_class), "order": order, "hierarchy": hierarchy,
            "distribution_errors": check_flag("distribution_errors", distribution_errors),
        }  # fmt: skip
        self._assembly = Assembly(model, background, groups, settings)

    def __repr__(self) -> str:
        from controlshap.engine.describe import describe_assembly

        return "\n".join(describe_assembly(self._assembly, DEFAULTS))

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            return refuse_attribute(self, name, ATTRIBUTES)

    @property
    def assembly(self) -> Assembly:
        """The arguments, checked and bound to each other; for other parts of the library."""
        return self._assembly

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns of the data."""
        return self._assembly.column_names

    @property
    def players(self) -> Players:
        """The players: columns or groups of columns."""
        return self._assembly.players

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the players."""
        return self.players.names

    @property
    def n_background_evaluations(self) -> int:
        """Model evaluations spent once: on the background (one, with random draws), on 16 rows again, to read trees."""
        return self._assembly.n_background_evaluations

    @property
    def n_surrogate_evaluations(self) -> int:
        """Model evaluations spent once on a shared surrogate."""
        return self._assembly.n_surrogate_evaluations

    def fit_surrogate(
        self,
        X: Any,
        *,
        budget: int = 20_000,
        learner: Control | None = None,
        device: str | None = None,
        rng: RngLike = None,
    ) -> Explainer:
        """Fit one surrogate to the model, for all rows to explain from now on.

        It is fitted to rows that mix rows of X and of the background, costs nothing when a row is explained, and is
        saved with the explainer. control="auto" then uses it beside what it fits for each row.

        Parameters
        ----------
        X : ndarray or frame
            Rows like those to be explained, or these themselves.
        budget : int
            Model evaluations to spend, once.
        learner : Trees, WideNetwork, RidgeNetwork, LogisticRidge or Polynomial, optional
            The function to fit. By default a wide network, trees on top of a logistic ridge, or trees on top of a wide
            network, whichever leaves least of rows that were held out (no trees without a library for them); with
            correlated features, for which known values are simulated, a logistic ridge or a small network.
        device : str, optional
            Where to fit cosines to a torch module, which control many rows at once there: "cuda", or "cpu" for a trial.
            By default that is done where the module is on a GPU and no learner is named.
        rng : int, Generator, SeedSequence or None

        Returns
        -------
        Explainer
            Itself.
        """
        from controlshap.controls.shared import best_learner, default_learners, fit_shared, hybrid_rows

        assembly = self._assembly
        rows = assembly.read_rows(X)
        budget = check_whole("budget", budget, 100, "model evaluations")
        if learner is not None and not (isinstance(learner, Control) and learner.is_fitted):
            raise InvalidArgumentError(f"`learner` must be Trees() or another fitted surrogate; got {learner!r}.")
        for name, array in (("X", rows), ("background", assembly.background)):
            refuse_missing(array, name, assembly.encoding.labels)
        if device is not None or (learner is None and is_torch_module(assembly.model.source)):
            from controlshap.engine.device.support import learns_on_device

            if learns_on_device(device, assembly.problem(), learner):
                from controlshap.engine.device.learning import fit_on_device  # imports torch

                assembly.share(fit_on_device(assembly.problem(), rows, budget, resolve_entropy(rng), device))
                return self
        mixed = hybrid_rows(rows, assembly.imputer, budget, stream(resolve_entropy(rng), Purpose.SURROGATE))
        known = EvaluatedRows(mixed, assembly.evaluate(mixed, "surrogate"))
        simulated = not assembly.imputer.mixes_columns or assembly.players.arrangement is not None
        candidates = default_learners(correlated=simulated)
        assembly.share(fit_shared(known, learner or best_learner(known, candidates)))
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
        interactions: int | None = None,
        surrogate: str | None = None,
        guarantee: Literal["finite"] | None = None,
        output_range: tuple[float, float] | None = None,
        device: str | None = None,
        progress: ProgressLike = None,
        **other: Never,
    ) -> Explanation:
        """Explain rows. The run of each row ends when all of its goals are reached, or at a limit.

        Parameters
        ----------
        X : ndarray or frame of shape (rows, columns), or one row
        budget : int, optional
            Most model evaluations for each row; 10,000 by default (1,000,000 with a rule to stop by).
        tolerance : float, optional
            Stop when the largest standard error is below this share of the spread of the values.
        stop : {"signs", "top 5", "ranking", "ranking 5"} or list of them, optional
            Stop when this is certain: the sign of every value; which five values are the largest by magnitude; the
            order of all values, or of the five largest.
        level : float
            Probability that everything that `stop` certifies for a row (and output) is right.
        absolute_tolerance : float, optional
            Stop when the largest standard error is below this.
        time_limit : float, optional
            Most seconds for each row, roughly. Results then depend on the machine, not on `rng` alone.
        rng : int, Generator, SeedSequence or None
            The same value gives the same numbers for any number of workers; None draws fresh entropy and records it.
        n_jobs : int
            Processes to spread the rows over.
        keep : bool, optional
            Whether to keep the model's answers, so that `refine` can continue; by default up to 64 MB of them.
        history : bool
            Whether to run in stages and keep the estimates after each, for `explanation.plot.convergence()`. Controls
            are fitted after every stage, which takes time but no evaluations.
        interactions : {None, 2}
            2 for pairwise interactions with errors in `explanation.interactions`, from the same evaluations; for
            features="independent".
        surrogate : {None, "online"}
            "online" to learn from row to row: rows are explained in generations of 1, 2, 4, 8, ... rows, each
            controlled by a function that is fitted to evaluations of all earlier ones, which costs none. The result
            for a row then depends on the rows before it in the call, but not on those after it.
        guarantee : {None, "finite"}
            "finite" for intervals at `level` that hold for any number of units and whatever the sample has missed
            (`explanation.confidence_interval(guarantee="finite")`); `stop` then rests on them. Rows are drawn at random
            and nothing is fitted, so errors are larger.
        output_range : (float, float), optional
            Range of the model's outputs, for the guarantee: (0, 1) for probabilities. An output outside raises an
            error.
        device : str, optional
            For torch modules: where all rows are explained at once, built, evaluated and reduced there ("cuda", "cpu";
            the module must be on it). By default where a module is on a GPU and the settings allow it: estimator
            "auto", "permutation" or "kernel", control "auto", "none", "taylor" or "ridge" (`plan()` says whether they
            do, and `settings["device_unused"]` of a result why not). Random numbers then come from a counter and differ
            from those of the usual way for the same `rng`.
        progress : {None, True, False, "json"} or callable
            None shows a bar on a terminal and in notebooks after two seconds; "json" writes a line on stderr after
            every row; a function gets a `Progress`.
        **other
            Nothing, or shap's `max_evals` in place of `budget`; another argument of shap raises an error that names
            its counterpart here.
        """
        check_progress(progress)
        if other:
            budget = read_budget(other, budget, self._assembly.n_background, CALL_DEFAULTS)
        entropy = resolve_entropy(rng)
        if keep not in (True, False, None):
            raise InvalidArgumentError(f"`keep` must be True, False or None; got {keep!r}.")
        if history not in (True, False):
            raise InvalidArgumentError(f"`history` must be True or False; got {history!r}.")
        limits = Limits(
            budget=budget, tolerance=tolerance, absolute_tolerance=absolute_tolerance, stop=stop, level=level,
            time_limit=time_limit, interactions=interactions, surrogate=surrogate, guarantee=guarantee,
            output_range=output_range,
        )  # fmt: skip
        stopping = limits.stopping(self.players.n_players, staged=bool(history))
        settings = describe_call(self._assembly, limits, stopping)
        return explain_rows(
            self._assembly, X, 0, stopping, entropy, settings, n_jobs=check_jobs(n_jobs), keep=keep, device=device,
            progress=progress,
        )  # fmt: skip

    def plan(self, X: Any = None, **limits: Unpack[LimitOptions]) -> Plan:
        """Plan a call: what it would do and cost, and why. The model is called on the background only.

        Parameters
        ----------
        X : ndarray or frame, optional
            Rows to explain. Rows that would be treated differently (missing values, out of reach of a shared
            surrogate) are counted in the plan's notes.
        **limits
            `budget`, `tolerance`, `stop`, `level`, `absolute_tolerance`, `time_limit`, `interactions` as for a call.

        Returns
        -------
        Plan
            Prints as a short text; `estimator`, `controls`, `variance` and `costs` are its attributes.

        Examples
        --------
        >>> import numpy as np
        >>> import controlshap as cs
        >>> background = np.random.default_rng(0).normal(size=(50, 12))
        >>> print(cs.Explainer(lambda rows: np.tanh(rows.sum(axis=1)), background).plan(budget=2_000))
        estimator   Permutation(): paired walks over the background in cycles
        control     LogisticRidge(): fitted to the evaluations themselves, at no extra cost
        variance    Analytic(): fits the estimator
        on trial    Polynomial and ShallowTrees: used where folds show a gain; fitted to at most 2,000 evaluations
        pilot       the first walks decide whether Kernel() gets the remaining evaluations
        evaluations at most 2,000 a row: 1 for the row, 90 units of 22
        """
        stopping = read_limits("plan", limits).stopping(self.players.n_players)
        rows = None if X is None else self._assembly.read_rows(X)
        return plan_rows(self._assembly, stopping, rows)

    def refine(self, explanation: Explanation, *, n_jobs: int = 1, **limits: Unpack[LimitOptions]) -> Explanation:
        """Go on from an earlier result: the same run, longer, without evaluating anything again.

        With more budget it is what one run of `n_evaluations + budget` would have given. Estimator and control stay as
        they were chosen for the first budget (with correlated features, KernelSHAP and per-feature sampling keep their
        draws for v(0), too); rows that are exact stay as they are. A refinement follows a look at the result, so each
        refinement halves the share of `1 - level` that rankings and simultaneous intervals use, so that over a result
        and all its refinements together the chance that any of them is wrong is at most twice `1 - level`.

        Parameters
        ----------
        explanation : Explanation
            Made by this explainer, or one with the same settings and background.
        n_jobs : int
            As for a call.
        **limits
            `budget`, `tolerance`, `stop`, `level`, `absolute_tolerance`, `time_limit` as for a call; `budget` is what
            to add for each row.
        """
        from controlshap.engine.resume import refine_rows

        stopping = read_limits("refine", limits).stopping(self.players.n_players)
        level = limits.get("level")
        return refine_rows(self._assembly, explanation, stopping, n_jobs=check_jobs(n_jobs), level=level)

    def explain_dataset(
        self,
        source: Any,
        out: str | Path,
        *,
        rng: RngLike = None,
        n_jobs: int = 1,
        scheduler: Any = None,
        part_rows: int | None = None,
        rows: tuple[int, int] | None = None,
        model_hash: str | None = None,
        keep: str | Sequence[str] | None = None,
        progress: ProgressLike = None,
        **limits: Unpack[LimitOptions],
    ) -> DatasetResult:
        """Explain a data set of any size, part by part, into a folder; the same call again finishes what is missing.

        A process, worker or scheduler that is killed, a full disk or an interrupt loses the parts under way and
        nothing else, and the result has the same bits as that of an undisturbed run. The folder refuses another model,
        background, source, seed or setting. Row k of the source uses random stream k, as in one call on all rows.

        Parameters
        ----------
        source : str, Path, frame or ndarray
            A CSV, Parquet or Arrow file, a folder or glob of such files, or rows in memory. Columns that the
            background does not have (an identifier, the outcome) are left out.
        out : str or Path
            The folder; `controlshap.load(out)` reads it. Workers of a cluster must see it, and the files of `source`,
            under the same path.
        rng : int, Generator, SeedSequence or None
            As for a call; None draws fresh entropy in the first run and uses it again in later ones.
        n_jobs : int
            Local processes; -1 for one a core. With 1, rows are explained in this process, which ends if the model
            kills it; with 2 or more, a part that kills its process is found and reported.
        scheduler : str or dask.distributed.Client, optional
            A cluster instead. Start its workers with one thread each and a death timeout:
            `dask worker ADDRESS --nworkers 16 --nthreads 1 --death-timeout 60`.
        part_rows : int, optional
            Most rows of a part. By default 50, or more where rows are cheap; one part for each of several files.
        rows : tuple of int, optional
            Explain only the rows from the first of these numbers up to the second. They keep their numbers, and so
            have the values that they have in a run over all rows.
        keep : str or list of str, optional
            Columns of the source to keep beside the values, which the model does not see: an identifier, the outcome.
            They come back in `explanation.kept` and `to_frame()`, and the first names the rows. By default the index
            of a pandas frame, unless it counts from 0.
        model_hash : str, optional
            A fingerprint of the model (of its file, say), compared beside its predictions on the background.
        progress : {None, True, False, "json"} or callable
            None shows a bar on a terminal and in notebooks; "json" writes a line on stderr after every part; a
            function gets a `Progress`.
        **limits
            `budget`, `tolerance`, `stop`, `level`, `absolute_tolerance`, `time_limit`, `interactions` as for a call.

        Returns
        -------
        DatasetResult
            How many parts are done, and which failed.
        """
        from controlshap.datasets.run import explain_dataset

        return explain_dataset(
            self._assembly, source, out, read_limits("explain_dataset", limits), rng=rng, n_jobs=n_jobs,
            scheduler=scheduler, part_rows=part_rows, rows=rows, model_hash=model_hash, keep=keep, progress=progress,
        )  # fmt: skip

    def save(self, path: str | Path) -> Path:
        """Write background, settings and results computed once (D matrices) to a folder; never the model."""
        from controlshap.storage.explainers import save_assembly

        return save_assembly(self._assembly, as_folder(path, "path"), describe_own=False)

    @classmethod
    def load(cls, path: str | Path, model: Any) -> Explainer:
        """Read what `save` wrote; the model is given again."""
        from controlshap.storage.explainers import load_assembly

        explainer = cls.__new__(cls)
        explainer._assembly = load_assembly(as_path(path, "path"), model)  # noqa: SLF001 (an instance of this very class)
        return explainer


def _defaults(function: Any) -> dict[str, Any]:
    """Arguments of a function by name, each with its default."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind != p.VAR_KEYWORD]
    return {parameter.name: parameter.default for parameter in parameters if parameter.name != "self"}


#: Arguments of `Explainer` and of its call, each with its default.
DEFAULTS, CALL_DEFAULTS = _defaults(Explainer), _defaults(Explainer.__call__)
#: Arguments of `Explainer` beside the model and its data.
SETTINGS = frozenset(DEFAULTS) - {"model", "background"}


def explain(model: Any, X: Any, background: Any, **settings: Any) -> Explanation:
    """Explain rows of `X` in one call: `Explainer(model, background, ...)(X, ...)`.

    Parameters
    ----------
    model, X, background
        As for `Explainer` and its call.
    **settings
        Arguments of `Explainer` and of its call; an unknown one is an error.
    """
    call = {name: settings.pop(name) for name in list(settings) if name not in SETTINGS}
    return Explainer(model, background, **settings)(X, **call)
