"""`Explainer`: validate, assemble, keep what does not depend on the row, explain rows."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from controlshap import assemble
from controlshap._errors import ControlShapWarning, InvalidArgumentError, NoClosedFormError
from controlshap._random import EXPLAINER_ENTROPY, Purpose, RngLike, resolve_entropy, stream
from controlshap._types import FloatArray
from controlshap._version import __version__
from controlshap.adapters import as_model
from controlshap.engine import RowResult, explain_row, refuse_budget
from controlshap.estimators import Enumeration
from controlshap.exact_forms import agrees, evaluations_to_recognise, recognise
from controlshap.execution import check_jobs, ordered_map
from controlshap.explanation import Explanation
from controlshap.fits.boosting import boosting_available
from controlshap.inputs import FrameMaker, Table, read_table
from controlshap.model import Model
from controlshap.players import Groups, Players, resolve_players
from controlshap.problem import BaseSample, Problem
from controlshap.stopping import Stopping
from controlshap.storage import decode, encode, read_folder, write_folder
from controlshap.surrogates import Learner, LogisticRidge, SharedSurrogate, Trees
from controlshap.surrogates.d_matrices import DMatrices
from controlshap.surrogates.shared import hybrid_rows
from controlshap.values.gaussian import GaussianImputer
from controlshap.values.marginal import Marginal, MarginalImputer

DEFAULT_BUDGET = 10_000
#: Largest number of evaluations a row may take when only a tolerance is given.
TOLERANCE_BUDGET = 1_000_000


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
    control : {"auto", "thorough", "none", "ridge", "network", "polynomial", "trees", "taylor"}, object, or list of them
        The control variate. "auto" fits what takes less time than the model itself; "thorough" fits everything,
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
        self._table = table
        names = table.names or tuple(f"x{i}" for i in range(table.rows.shape[1]))
        self.column_names: tuple[str, ...] = names
        self.players: Players = resolve_players(groups, names)
        value_function = assemble.resolve_value_function(features)
        self._estimator = assemble.resolve_estimator(estimator)
        self._controls = assemble.resolve_controls(control)
        self._variance = assemble.resolve_variance(variance)
        if coefficient not in ("auto", "units", "folds"):
            raise InvalidArgumentError(f"`coefficient` must be 'auto', 'units' or 'folds'; got {coefficient!r}.")
        self._coefficient: Literal["auto", "units", "folds"] = coefficient
        self._memory_limit = _at_least("memory_limit", memory_limit, 2**20, "bytes; the default is 256 MB")
        self._max_background = _at_least("max_background", max_background, 2, "rows")
        self._check_variance()
        if not isinstance(value_function, Marginal):
            _refuse_missing(table.rows, "background", names)
        self._n_background = len(table.rows)
        self._imputer = value_function.bind(table.rows, self.players, names)
        if self._imputer.finite_draws is not None and len(table.rows) > self._max_background:
            table = self._table = self._sampled(table)
            self._imputer = value_function.bind(table.rows, self.players, names)
        self._model = _with_inputs(as_model(model), table)
        self._problem: Problem | None = None
        self._n_probes = 0
        self._seconds = _check_seconds(seconds_per_evaluation)
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
        learner : Trees, RidgeNetwork, LogisticRidge or Polynomial, optional
            What is fitted; trees on top of a logistic ridge where a library for trees is installed.
        rng : int, Generator, SeedSequence or None

        Returns
        -------
        Explainer
            Itself.
        """
        rows = self._check_rows(X)
        budget = _at_least("budget", budget, 100, "model evaluations")
        if learner is None:
            learner = Trees() if boosting_available() else LogisticRidge()
        if not hasattr(learner, "learn"):
            raise InvalidArgumentError(f"`learner` must be Trees() or another fitted surrogate; got {learner!r}.")
        if not isinstance(self._imputer, (MarginalImputer, GaussianImputer)):
            raise NoClosedFormError("`fit_surrogate` needs features='independent' or 'correlated'.")
        for name, array in (("X", rows), ("background", self._table.rows)):
            _refuse_missing(array, name, self.column_names)
        mixed = hybrid_rows(rows, self._imputer, budget, stream(resolve_entropy(rng), Purpose.SURROGATE))
        parts: list[FloatArray] = []
        step = max(1, self._memory_limit // (8 * 6 * mixed.shape[1]))
        for start in range(0, len(mixed), step):
            n_outputs = parts[0].shape[1] if parts else None
            inputs = self._imputer.to_inputs(mixed[start : start + step])
            parts.append(self._model(inputs, n_outputs=n_outputs, where=f"surrogate rows from {start}"))
        self._shared = SharedSurrogate.fit(mixed, np.concatenate(parts), learner)
        self._problem = None if self._problem is None else replace(self._problem, shared=self._shared)
        return self

    def __call__(
        self,
        X: Any,
        *,
        budget: int | None = None,
        tolerance: float | None = None,
        rng: RngLike = None,
        n_jobs: int = 1,
    ) -> Explanation:
        """Explain rows.

        Parameters
        ----------
        X : ndarray or frame of shape (rows, columns), or one row
        budget : int, optional
            Most model evaluations for each row; 10,000 by default (1,000,000 when a tolerance is given).
        tolerance : float, optional
            Stop a row when its largest standard error is below this share of the spread of its values.
        rng : int, Generator, SeedSequence or None
            Same value, same numbers, for any number of workers; None draws fresh entropy and records it.
        n_jobs : int
            Processes to spread the rows over.
        """
        entropy = resolve_entropy(rng)
        rows = self._check_rows(X)
        stopping = _check_stopping(budget, tolerance)
        n_jobs = check_jobs(n_jobs)
        problem = self._assemble(stopping.budget)
        task = partial(_explain_numbered, problem, entropy, stopping)
        numbered = list(enumerate(rows))
        # The first row here: what is computed once (D matrices) is then kept, and sent along to the workers.
        results = list(ordered_map(task, numbered[:1], 1)) + list(ordered_map(task, numbered[1:], n_jobs))
        return self._collect(results, rows, entropy, stopping, self._base_error(problem))

    def _sampled(self, table: Table) -> Table:
        """A fixed random part of a background that is too large."""
        rng = stream(EXPLAINER_ENTROPY, Purpose.BACKGROUND)
        chosen = np.sort(rng.permutation(len(table.rows))[: self._max_background])
        warnings.warn(
            f"`background` has {len(table.rows)} rows; {self._max_background} of them (a fixed random sample) are used "
            "as the background, and base values carry that error. Set `max_background` to change it.",
            ControlShapWarning,
            stacklevel=3,
        )
        return replace(table, rows=table.rows[chosen])

    def _base_error(self, problem: Problem) -> FloatArray:
        """Error of the base value `(outputs,)` because the background was sampled."""
        n = len(self._table.rows)
        if not problem.base.finite or n == self._n_background:
            return np.zeros(problem.base.n_outputs)
        spread: FloatArray = problem.base.values[:, :, 0].std(axis=0, ddof=1)
        error: FloatArray = spread * np.sqrt((1.0 - n / self._n_background) / n)
        return error

    def _check_rows(self, X: Any) -> FloatArray:
        if hasattr(X, "to_frame") and hasattr(X, "index") and self._table.names is not None:
            X = X.to_frame().T  # one row of a frame: its index names the columns
        table = read_table(X, "X", one_row=True)
        n_columns = len(self.column_names)
        if table.rows.shape[1] != n_columns:
            raise InvalidArgumentError(
                f"`X` has {table.rows.shape[1]} columns but `background` has {n_columns}; both need one value per "
                "model input."
            )
        if table.names is not None and self._table.names is not None and table.names != self._table.names:
            if sorted(table.names) != sorted(self._table.names):
                odd = sorted(set(table.names) ^ set(self._table.names))
                raise InvalidArgumentError(f"`X` and `background` must have the same columns; these differ: {odd[:8]}.")
            position = [table.names.index(name) for name in self._table.names]
            table = Table(table.rows[:, position], self._table.names, None)
        if not isinstance(self._imputer, MarginalImputer):
            _refuse_missing(table.rows, "X", self.column_names)
        self._imputer.check(table.rows, self.column_names)
        return table.rows

    def _check_variance(self) -> None:
        if self._variance is not None and self._estimator is not None:
            self._variance.check(least_squares=self._estimator.is_least_squares, n_draws=self._estimator.n_draws)
        elif self._variance is not None:
            self._variance.check(least_squares=False, n_draws=1)
        if self._coefficient == "folds" and self._variance is not None and not self._variance.by_units:
            raise InvalidArgumentError(
                f"`coefficient='folds'` works unit by unit and fits variance='auto', 'analytic' or 'least_squares', "
                f"not {self._variance}. Use coefficient='units'."
            )
        if self._estimator is not None and isinstance(self._estimator, Enumeration):
            raise InvalidArgumentError("`estimator`: enumeration is chosen by estimator='auto' where it fits.")

    def _assemble(self, budget: int) -> Problem:
        """Put the parts together, refuse a budget that is too small for them, and evaluate the background once."""
        if self._problem is not None:
            return self._problem
        imputer, background = self._imputer, self._table.rows
        finite = imputer.finite_draws is not None
        # One evaluation tells the outputs when draws are random; v(0) is then estimated with each row.
        rows = background if finite else imputer.center[None]
        population = len(background) if finite else np.inf
        problem = Problem(
            self._model, background, BaseSample(rows, np.empty((len(rows), 0, 1)), population), imputer, self.players,
            self.column_names, self._estimator, self._controls, self._variance, self._coefficient, self._memory_limit,
            self._cache,
        )  # fmt: skip
        form = None
        if isinstance(imputer, MarginalImputer) and self._estimator is None and self._controls is None:
            form = recognise(self._model.source)
            self._n_probes = evaluations_to_recognise(self._model.source)
        if form is None:
            refuse_budget(problem, budget)
        predictions: list[FloatArray] = []
        step = max(1, self._memory_limit // (8 * 6 * rows.shape[1]))
        for start in range(0, len(rows), step):
            inputs = imputer.to_inputs(rows[start : start + step])
            n_outputs = predictions[0].shape[1] if predictions else None
            where = f"background rows {start} to {start + len(inputs) - 1}"
            predictions.append(self._model(inputs, n_outputs=n_outputs, where=where))
        base = BaseSample(rows, np.concatenate(predictions)[:, :, None], population)
        if form is not None and not agrees(form, rows, base.values[:, :, 0]):
            form = None  # a subclass or a wrapped model that says something else
        self._problem = replace(problem, base=base, form=form, shared=self._shared, seconds=self._seconds)
        return self._problem

    def _collect(
        self, results: list[RowResult], rows: FloatArray, entropy: int, stopping: Stopping, base_error: FloatArray
    ) -> Explanation:
        single = results[0].analysis.controlled.values.shape[1] == 1

        def stack(parts: list[FloatArray]) -> FloatArray:
            array = np.stack(parts)
            return array[..., 0] if single else array

        covariance = np.stack([r.analysis.controlled.covariances[:, :-1, :-1] for r in results])
        return Explanation(
            values=stack([r.analysis.controlled.values[:-1] for r in results]),
            standard_errors=stack([np.sqrt(r.analysis.controlled.variances[:-1]) for r in results]),
            base_values=stack([r.analysis.controlled.values[-1] for r in results]),
            base_standard_errors=stack([np.sqrt(r.analysis.controlled.variances[-1] + base_error**2) for r in results]),
            uncontrolled_values=stack([r.analysis.uncontrolled.values[:-1] for r in results]),
            uncontrolled_standard_errors=stack([np.sqrt(r.analysis.uncontrolled.variances[:-1]) for r in results]),
            variance_reduction=stack([r.analysis.variance_reduction[:-1] for r in results]),
            degrees_of_freedom=stack([r.analysis.controlled.dof[:-1] for r in results]),
            covariance=covariance[:, 0] if single else covariance,
            n_evaluations=np.array([r.n_evaluations for r in results], dtype=np.int64),
            status=np.array([r.status for r in results]),
            method=np.array([r.method for r in results]),
            controls=np.array([r.controls for r in results]),
            data=rows,
            feature_names=self.players.names,
            column_names=self.column_names,
            output_names=self._model.output_names,
            player_columns=tuple(tuple(int(c) for c in columns) for columns in self.players.columns),
            entropy=entropy,
            settings=self._describe(stopping),
        )

    def _describe(self, stopping: Stopping) -> dict[str, Any]:
        return self._told | {
            "budget": stopping.budget,
            "tolerance": stopping.tolerance,
            "n_background": self._n_background,
            "n_background_evaluations": self.n_background_evaluations,
            "n_surrogate_evaluations": self.n_surrogate_evaluations,
            "version": __version__,
        }

    def save(self, path: str | Path) -> Path:
        """Write background, settings and what was computed once (D matrices) to a folder; never the model."""
        maker = self._table.restore if isinstance(self._table.restore, FrameMaker) else None
        arrays: dict[str, Any] = {"background": self._table.rows, "owner": self.players.owner}
        header: dict[str, Any] = {
            "column_names": list(maker.columns) if maker else None,  # as the frame had them, integers too
            "frame": maker.kind if maker else None,
            "player_names": list(self.players.names),
            "n_background": self._n_background,
            "settings": {name: encode(value, arrays, name) for name, value in self._settings.items()},
        }
        header["seconds"] = self._cache.get("seconds")
        header["shared"] = encode(self._shared, arrays, "shared")
        matrices = self._cache.get("d_matrices")
        if isinstance(matrices, DMatrices):
            arrays["d_matrices"] = matrices.matrices
            header["d_permutations"] = matrices.n_permutations
        return write_folder(Path(path), "explainer", header, arrays)

    @classmethod
    def load(cls, path: str | Path, model: Any) -> Explainer:
        """Read what `save` wrote; the model is given again."""
        header, arrays = read_folder(Path(path), "explainer")
        try:
            settings = {name: decode(value, arrays) for name, value in header["settings"].items()}
            rows, owner = arrays["background"], arrays["owner"]
            groups = {name: np.flatnonzero(owner == j).tolist() for j, name in enumerate(header["player_names"])}
            names, kind = header["column_names"], header["frame"]
            n_background = int(header["n_background"])
            matrices = arrays.get("d_matrices")
            seconds, shared = header["seconds"], decode(header["shared"], arrays)
            cache = {} if matrices is None else {"d_matrices": DMatrices(matrices, int(header["d_permutations"]))}
        except KeyError as error:
            raise InvalidArgumentError(
                f"`path`: the explainer in {str(path)!r} lacks {error}; it is damaged."
            ) from error
        explainer = cls(model, FrameMaker(kind, tuple(names))(rows) if kind else rows, groups=groups, **settings)
        explainer._cache.update(cache)
        explainer._n_background = n_background
        if seconds is not None:
            explainer._cache["seconds"] = seconds
        explainer._shared = shared
        return explainer


def _explain_numbered(problem: Problem, entropy: int, stopping: Stopping, item: tuple[int, FloatArray]) -> RowResult:
    number, row = item
    return explain_row(problem, row, number, entropy, stopping)


def _with_inputs(model: Model, table: Table) -> Model:
    if table.restore is None:
        return model
    return Model(model.predict, model.source, table.restore, model.output_names)


def _check_stopping(budget: int | None, tolerance: float | None) -> Stopping:
    if budget is None:
        budget = DEFAULT_BUDGET if tolerance is None else TOLERANCE_BUDGET
    budget = _at_least("budget", budget, 1, "model evaluations a row")
    if tolerance is not None and (not isinstance(tolerance, (int, float, np.number)) or not tolerance > 0):
        raise InvalidArgumentError(
            f"`tolerance` must be positive, a share of the spread of the values; got {tolerance!r}. "
            "Use for example 0.01."
        )
    return Stopping(budget, None if tolerance is None else float(tolerance))


def _check_seconds(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float, np.number)) or not 0 <= seconds < np.inf:
        raise InvalidArgumentError(
            f"`seconds_per_evaluation` must be a number of seconds, or None to have it measured; got {seconds!r}."
        )
    return float(seconds)


def _at_least(name: str, value: Any, least: int, unit: str) -> int:
    number = isinstance(value, (int, np.integer, float)) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value != int(value) or value < least:
        raise InvalidArgumentError(f"`{name}` must be a whole number of at least {least} ({unit}); got {value!r}.")
    return int(value)


def _refuse_missing(rows: FloatArray, argument: str, names: tuple[str, ...]) -> None:
    missing = np.flatnonzero(np.isnan(rows).any(axis=0))
    if len(missing):
        raise InvalidArgumentError(
            f"`{argument}` holds NaN in the columns {[names[c] for c in missing[:8]]}; correlated features are "
            "conditioned on each other and need finite values. Impute them, or use features='independent'."
        )
