"""`KernelExplainer`: the calls of shap's KernelExplainer, answered by this library."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from controlshap._checks import at_least
from controlshap._errors import BudgetTooSmallError, InvalidArgumentError
from controlshap._optional import require
from controlshap._random import RngLike, resolve_entropy
from controlshap._types import FloatArray
from controlshap.data.players import resolve_players
from controlshap.explainer import Explainer
from controlshap.results.explanation import Explanation
from controlshap.shap_compat.arguments import check_l1_reg, identity, logit, resolve_link
from controlshap.shap_compat.background import Background, read_background, read_rows, refuse_sparse
from controlshap.shap_compat.export import to_shap
from controlshap.shap_compat.linked_game import LinkedProblem, explain_linked
from controlshap.shap_compat.model import Inputs, Predict


class KernelExplainer:
    """Takes the calls that `shap.KernelExplainer` takes, and gives controlled estimates with their errors.

    `docs/coming_from_shap.md` says what differs. `Explainer` is the interface to write new code for.

    Parameters
    ----------
    model : callable or fitted model
        A function gets arrays, as in shap. A fitted model, or a method of one that was fitted on named columns, gets
        frames where `data` has names.
    data : ndarray, frame, one row of a frame, or what shap.kmeans and shap.sample return
        The background; weights of its rows are respected.
    feature_names : list of str, optional
        Names of the columns of an array.
    link : {"identity", "logit"}, link object of shap, or callable
        Of the mean over the background, as in shap: with "logit" the values are log-odds.
    rng : int, Generator, SeedSequence or None
        Same value, same numbers, at every call. The global state of numpy has no part in it.
    seed : int, optional
        Another name for `rng`.
    keep_index : bool
        Whether the model gets frames with the index of the background rows.
    keep_index_ordered : bool
        Not supported: shap sorts the rows before the model sees them and does not sort the outputs back.
    **settings
        Arguments of `Explainer` (`features`, `control`, `groups` and others); an unknown one is an error. So that the
        same call gives the same numbers, `seconds_per_evaluation` is 0 unless given.

    Attributes
    ----------
    expected_value : float or ndarray of shape (outputs,)
        The link of the mean prediction over the background.
    explanation : Explanation or None
        The last result, with its standard errors.
    data : Background
        `data.data` are the rows, `data.weights` their weights.
    model, link
        As given.

    Examples
    --------
    >>> import numpy as np
    >>> import controlshap as cs
    >>> background = np.random.default_rng(0).normal(size=(50, 3))
    >>> explainer = cs.KernelExplainer(lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], background)
    >>> explainer.shap_values(background[:2], nsamples=100).shape
    (2, 3)
    >>> explainer.explanation.status.tolist()
    ['exact', 'exact']
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        feature_names: Sequence[str] | None = None,
        link: Any = "identity",
        *,
        rng: RngLike = 0,
        seed: int | None = None,
        keep_index: bool = False,
        keep_index_ordered: bool = False,
        **settings: Any,
    ) -> None:
        _check_settings(settings)
        if seed is not None and not (isinstance(rng, int) and rng == 0):
            raise InvalidArgumentError("`rng` and `seed` are two names for the same thing. Give one of them.")
        if keep_index_ordered:
            raise InvalidArgumentError(
                "`keep_index_ordered` is not supported: sorted rows would mix up the outputs of different coalitions. "
                "Sort inside the model function, and put the outputs back."
            )
        self.model = model
        self.link = link
        self.explanation: Explanation | None = None
        self.data: Background = read_background(data, feature_names)
        self._entropy = resolve_entropy(rng if seed is None else seed)
        self._link = resolve_link(link)
        if keep_index and not hasattr(self.data.frame, "index"):
            raise InvalidArgumentError("`keep_index=True` needs a pandas frame as `data`; it has no index otherwise.")
        self._keep_index = keep_index
        settings = {"seconds_per_evaluation": 0.0, "groups": self.data.groups} | settings
        self._predict = Predict(model, frames=keep_index)
        self._explainer: Explainer | None = None
        self._linked: LinkedProblem | None = None
        if self._link is identity and not self.data.is_weighted and not keep_index:
            background = self.data.data if self.data.frame is None else self.data.frame
            self._explainer = Explainer(self._predict.model, background, **settings)
            base = self._explainer._assembly.problem().base
            mean = base.values[:, :, 0].mean(axis=0) if base.finite else None
        else:
            self._linked = self._link_problem(settings)
            mean = self._linked.base
        self._expected = None if mean is None else self._shaped(mean)

    @property
    def expected_value(self) -> Any:
        """The link of the mean prediction over the background: a float, or an array with one entry for each output."""
        if self._expected is not None:
            return self._expected
        if self.explanation is None:
            raise InvalidArgumentError(
                "`expected_value` is estimated with each row where features are correlated, and no row was explained "
                "yet. Call `shap_values` first, or use `explanation.base_values`."
            )
        return self._shaped(self.explanation.base_values.reshape(len(self.explanation), -1).mean(axis=0))

    def __call__(self, X: Any, l1_reg: Any = False, silent: bool = False, **limits: Any) -> Any:
        """A `shap.Explanation`; takes what `shap_values` takes."""
        feature = "`KernelExplainer(...)(X)`, which returns what shap's plots take,"
        require("shap", extra="shap", feature=feature, otherwise="or use `shap_values(X)`")
        check_l1_reg(l1_reg)
        values = self.shap_values(X, silent=silent, **limits)
        assert self.explanation is not None
        found = to_shap(self.explanation)
        one_row = _is_one_row(X)
        if values.ndim + one_row > self.explanation.values.ndim:  # outputs of shape (n, 1)
            found = to_shap(_with_one_output(self.explanation))
        return found[0] if one_row else found

    def shap_values(
        self,
        X: Any,
        *,
        nsamples: int | str = "auto",
        l1_reg: Any = False,
        silent: bool = False,  # noqa: ARG002
        gc_collect: bool = False,
        budget: int | None = None,
        tolerance: float | None = None,
        stop: str | Sequence[str] | None = None,
        level: float = 0.95,
        absolute_tolerance: float | None = None,
        time_limit: float | None = None,
        n_jobs: int = 1,
    ) -> FloatArray:
        """Shapley values of rows; their errors are in `explanation`.

        Parameters
        ----------
        X : ndarray or frame of shape (rows, columns), or one row
        nsamples : "auto" or int
            Coalitions, as in shap, each of which costs one evaluation for each background row: the budget for a row is
            `nsamples * background rows + 1` evaluations of the model. "auto" is 2 * players + 2048.
        l1_reg
            Accepted and checked; nothing is ever selected, and a value that asks for it gives a warning.
        silent : bool
            Accepted; there is no progress bar.
        gc_collect : bool
            Whether to collect garbage afterwards.
        budget : int, optional
            Model evaluations for each row, in place of `nsamples`.
        tolerance, stop, level, absolute_tolerance, time_limit, n_jobs
            As for a call of `Explainer`: end earlier, when this is reached.

        Returns
        -------
        ndarray of shape (rows, players) or (rows, players, outputs)
            Without the first axis where X is one row.
        """
        check_l1_reg(l1_reg)
        refuse_sparse(X, "X")
        limits = {
            "budget": self._budget(nsamples, budget), "tolerance": tolerance, "stop": stop, "level": level,
            "absolute_tolerance": absolute_tolerance, "time_limit": time_limit, "n_jobs": n_jobs,
        }  # fmt: skip
        explanation = self._explain(X, limits)
        self.explanation = self._renamed(explanation, X)
        if gc_collect:
            gc.collect()
        values = explanation.values
        if self._predict.n_dimensions == 2 and values.ndim == 2:
            values = values[..., None]
        return values[0] if _is_one_row(X) else values

    def _explain(self, X: Any, limits: dict[str, Any]) -> Explanation:
        if self._explainer is not None:
            try:
                found = self._explainer(X, rng=self._entropy, **limits)
            except BudgetTooSmallError as error:
                n_rows = len(self.data.data)
                least = -(-(error.needed - 1) // n_rows)
                raise BudgetTooSmallError(
                    f"`nsamples` must be at least {least} here, where a coalition stands for "
                    f"the {n_rows} rows of the background: {error}",
                    error.needed,
                ) from error
            return replace(found, settings=found.settings | self._own_settings)
        assert self._linked is not None
        problem = self._linked
        rows, labels = read_rows(X, self.data)
        found = explain_linked(problem, rows, labels, entropy=self._entropy, **limits)
        return replace(
            found,
            data=rows.astype(float) if rows.dtype.kind in "biuf" else rows,
            feature_names=problem.players.names,
            column_names=self._column_names,
            output_names=problem.model.output_names,
            player_columns=tuple(tuple(int(c) for c in columns) for columns in problem.players.columns),
            settings=found.settings | self._own_settings,
        )

    def _budget(self, nsamples: int | str, budget: int | None) -> int:
        if budget is not None:
            if nsamples != "auto":
                raise InvalidArgumentError(
                    f"`nsamples` and `budget` both limit the evaluations; got {nsamples!r} and {budget!r}. Give one."
                )
            return at_least("budget", budget, 1, "model evaluations a row")
        if isinstance(nsamples, str):
            if nsamples != "auto":
                raise InvalidArgumentError(f"`nsamples` must be 'auto' or a number of coalitions; got {nsamples!r}.")
            n_coalitions = 2 * self._n_players + 2048
        else:
            n_coalitions = at_least("nsamples", nsamples, 1, "coalitions; or 'auto'")
        return n_coalitions * len(self.data.data) + 1

    @property
    def _n_players(self) -> int:
        if self._explainer is not None:
            return self._explainer.players.n_players
        assert self._linked is not None
        return self._linked.players.n_players

    @property
    def _own_settings(self) -> dict[str, Any]:
        """What `Explainer` has no argument for."""
        known = {identity: "identity", logit: "logit"}
        found = {"link": known.get(self._link, str(self.link)), "keep_index": self._keep_index}
        return found | {"weighted_background": self.data.is_weighted}

    @property
    def _column_names(self) -> tuple[str, ...]:
        return self.data.column_names or tuple(f"x{i}" for i in range(self.data.data.shape[1]))

    def _link_problem(self, settings: dict[str, Any]) -> LinkedProblem:
        """The game of whole coalitions, for links, weights and indices."""
        data = self.data
        if settings.get("features", "independent") != "independent":
            raise InvalidArgumentError(
                f"`link`, weights of the background and `keep_index` need features='independent'; got "
                f"{settings['features']!r}. Leave them out, or explain a function that returns log-odds."
            )
        if "max_background" in settings:
            raise InvalidArgumentError(
                "`max_background` has no effect with a link, weights or `keep_index`, which need the whole background. "
                "Pass a smaller `data`, for example shap.sample(data, 100)."
            )
        if data.frame is not None and not hasattr(data.frame, "iloc") and not self._predict.arrays:
            raise InvalidArgumentError(
                "`link` needs a pandas frame or an array as `data`, for a model that takes frames. "
                "Pass data.to_pandas()."
            )
        to_inputs = Inputs(None if self._predict.arrays else data.frame)
        shared = {name: value for name, value in settings.items() if name not in ("groups", "features")}
        problem = LinkedProblem(
            self._predict.model, data.data, data.weights,
            np.asarray(data.frame.index) if self._keep_index else None,
            self._link, to_inputs,
            resolve_players(settings.get("groups"), self._column_names), np.empty(0), shared,
            int(settings.get("memory_limit", inspect.signature(Explainer).parameters["memory_limit"].default)),
        )  # fmt: skip
        outputs = problem.predict(data.data, problem.index, None, "the background")
        return replace(problem, base=problem.linked((data.weights @ outputs)[None], "the background")[0])

    def _renamed(self, explanation: Explanation, X: Any) -> Explanation:
        """With the names of the columns of X, where the background has none (and there are no groups), as in shap."""
        single = all(len(columns) == 1 for columns in explanation.player_columns)
        if self.data.column_names is not None or not single or not hasattr(X, "columns"):
            return explanation
        names = tuple(str(name) for name in X.columns)
        return replace(explanation, feature_names=names, column_names=names)

    def _shaped(self, outputs: FloatArray) -> Any:
        several = len(outputs) > 1 or self._predict.n_dimensions == 2
        return np.array(outputs) if several else float(outputs[0])


def _is_one_row(X: Any) -> bool:
    return not hasattr(X, "columns") and np.ndim(X) == 1


def _with_one_output(explanation: Explanation) -> Explanation:
    """The same, with an axis for the only output."""
    names = ("values", "standard_errors", "base_values")
    found = replace(explanation, **{name: getattr(explanation, name)[..., None] for name in names})
    return replace(found, output_names=None)


def _check_settings(settings: dict[str, Any]) -> None:
    known = set(inspect.signature(Explainer).parameters) - {"model", "background"}
    unknown = sorted(set(settings) - known)
    if unknown:
        limits = set(inspect.signature(KernelExplainer.shap_values).parameters) & set(unknown)
        way_out = f"Pass {sorted(limits)} to `shap_values`." if limits else f"The settings are {sorted(known)}."
        raise InvalidArgumentError(f"`KernelExplainer` has no settings {unknown}. {way_out}")
