"""`KernelExplainer`, which takes the calls of shap's KernelExplainer."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from controlshap._checks import check_whole, suggest
from controlshap._errors import BudgetTooSmallError, InvalidArgumentError
from controlshap._imports import require
from controlshap._random import RngLike, resolve_entropy
from controlshap._types import FloatArray
from controlshap.data.table import read_row_names
from controlshap.explainer import SETTINGS, Explainer
from controlshap.limits import LimitOptions, Limits
from controlshap.results.explanation import Explanation
from controlshap.shap_compat.arguments import (
    check_l1_reg,
    identity,
    is_sparse,
    logit,
    read_background,
    read_rows,
    resolve_link,
    resolve_seed,
    to_dense,
    warn_misplaced,
)
from controlshap.shap_compat.export import to_shap
from controlshap.shap_compat.linked_game import LinkedProblem, explain_linked, make_linked_problem
from controlshap.shap_compat.model import ShapModel

#: Exact values this small beside the largest of their row are sums that rounded; shap sets them to 0, too.
ROUNDED = 1e-12


class KernelExplainer:
    """Takes the calls of `shap.KernelExplainer`, and returns controlled estimates with their errors.

    `docs/coming_from_shap.md` lists the differences. New code should use `Explainer`.

    Parameters
    ----------
    model : callable or fitted model
        A function gets arrays, as in shap. A fitted model, or a method of one that was fitted on named columns, gets
        frames if `data` has names.
    data : ndarray, frame, one row of a frame, sparse matrix, or the result of shap.kmeans or shap.sample
        The background; weights of its rows are respected. A sparse matrix is converted to an array, with a warning
        that says how large it is; functions still get sparse matrices.
    feature_names : list of str, optional
        Names of the columns of an array.
    link : {"identity", "logit"}, link object of shap, or callable
        Link of the mean over the background, as in shap: with "logit" the values are log-odds.
    rng : int, Generator or SeedSequence, optional
        0 unless given. Same value, same numbers, at every call. The global state of numpy has no part in it.
    seed, random_state : int or RandomState, optional
        Other names for `rng`.
    keep_index : bool
        Whether the model gets frames with the index of the background rows.
    keep_index_ordered : bool
        Not supported: shap sorts the rows before the model sees them and does not sort the outputs back.
    **settings
        Arguments of `Explainer` (`features`, `control`, `groups` and others); an unknown one is an error. Arguments
        of `shap_values`, such as `nsamples`, have no effect here, as in shap, and give a warning.

    Attributes
    ----------
    expected_value : float or ndarray of shape (outputs,)
        The link of the mean prediction over the background. Scripts may set it, for example to the entry of one class;
        values and explanations do not depend on it.
    fnull : ndarray of shape (outputs,)
        The mean prediction over the background, without the link.
    explanation : Explanation or None
        The last result, with its standard errors.
    data : WeightedBackground
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
        rng: RngLike = None,
        seed: Any = None,
        random_state: Any = None,
        keep_index: bool = False,
        keep_index_ordered: bool = False,
        **settings: Any,
    ) -> None:
        settings = warn_misplaced(settings)
        _check_settings(settings)
        if keep_index_ordered:
            raise InvalidArgumentError(
                "`keep_index_ordered` is not supported: sorted rows would mix up the outputs of different coalitions. "
                "Sort inside the model function, and put the outputs back."
            )
        self.model = model
        self.link = link
        self.explanation: Explanation | None = None
        self.data = read_background(data, feature_names)
        if keep_index and not hasattr(self.data.frame, "index"):
            raise InvalidArgumentError("`keep_index=True` needs a pandas frame as `data`; it has no index otherwise.")
        self._entropy = resolve_entropy(resolve_seed(rng=rng, seed=seed, random_state=random_state))
        self._link = resolve_link(link)
        self._keep_index = keep_index
        self._shap_model = ShapModel(model, frames=keep_index, sparse=self.data.sparse)
        self._explainer: Explainer | None = None
        self._linked: LinkedProblem | None = None
        self._expected: Any = None
        self._mean: FloatArray | None = None
        self._prepare({"groups": self.data.groups} | settings)

    def __repr__(self) -> str:
        model = self._shap_model.model
        link = "" if self._link is identity else f", link {self.link if isinstance(self.link, str) else 'given'}"
        rows, p = len(self.data.data), self._n_players
        weighted = "weighted " if self.data.is_weighted else ""
        return f"KernelExplainer of {model.name}: {rows:,} {weighted}background rows, {p:,} players{link}"

    def _prepare(self, settings: dict[str, Any]) -> None:
        """Make an explainer, or the game of whole coalitions that links, weights and an index need."""
        if self._link is identity and not self.data.is_weighted and not self._keep_index:
            background = self.data.data if self.data.frame is None else self.data.frame
            self._explainer = Explainer(self._shap_model.model, background, **settings)
            self._n_players = self._explainer.players.n_players
            base = self._explainer.assembly.problem().base
            if base.finite:
                self._mean = base.values[:, :, 0].mean(axis=0)
                self._expected = self._shape_outputs(self._mean)
        else:
            self._linked = make_linked_problem(
                self.data, self._shap_model, self._link, settings, keep_index=self._keep_index
            )
            self._n_players = self._linked.players.n_players
            self._mean = self._linked.mean[: len(self._linked.base)]  # without complements
            self._expected = self._shape_outputs(self._linked.base)

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
        return self._shape_outputs(self.explanation.base_values.reshape(len(self.explanation), -1).mean(axis=0))

    @expected_value.setter
    def expected_value(self, value: Any) -> None:
        self._expected = value

    @property
    def fnull(self) -> FloatArray:
        """The mean prediction over the background, one entry for each output; the link is not applied."""
        return np.atleast_1d(self.expected_value) if self._mean is None else np.array(self._mean)

    def explain(self, row: Any, **arguments: Any) -> FloatArray:
        """Return the values of one row, given as (columns,) or (1, columns); takes the arguments of `shap_values`."""
        values = self.shap_values(row, **arguments)
        return values if _is_one_row(row) else values[0]

    def __call__(self, X: Any, l1_reg: Any = False, silent: bool = False, **limits: Any) -> Any:
        """Return a `shap.Explanation`; takes the arguments of `shap_values`."""
        feature = "`KernelExplainer(...)(X)`, which returns what shap's plots take,"
        require("shap", extra="shap", feature=feature, otherwise="or use `shap_values(X)`")
        check_l1_reg(l1_reg)
        values = self.shap_values(X, silent=silent, **limits)
        assert self.explanation is not None
        explanation, one_row = self.explanation, _is_one_row(X)
        if values.ndim + one_row > explanation.values.ndim:  # outputs of shape (n, 1)
            explanation = _with_one_output(explanation)
        return to_shap(explanation)[0] if one_row else to_shap(explanation)

    def shap_values(
        self,
        X: Any,
        *,
        nsamples: int | str = "auto",
        l1_reg: Any = False,
        silent: bool = False,
        gc_collect: bool = False,
        check_additivity: bool = True,  # noqa: ARG002
        n_jobs: int = 1,
        **limits: Unpack[LimitOptions],
    ) -> FloatArray:
        """Return the Shapley values of rows; `explanation` has their errors.

        Parameters
        ----------
        X : ndarray or frame of shape (rows, columns), or one row
        nsamples : "auto" or int
            Coalitions, as in shap, each of which costs one evaluation for each background row: the budget for a row is
            `nsamples * background rows + 1` evaluations of the model. "auto" is 2 * players + 2048.
        l1_reg
            Accepted and checked; nothing is ever selected, and a value that asks for it gives a warning.
        silent : bool
            Whether to leave out the progress bar, which only long runs show.
        gc_collect : bool
            Whether to collect garbage afterwards.
        check_additivity : bool
            Accepted; the values always add up.
        n_jobs : int
            As for a call of `Explainer`.
        **limits
            `budget`, `tolerance`, `stop`, `level`, `absolute_tolerance`, `time_limit` as for a call of `Explainer`;
            `budget` takes the place of `nsamples`.

        Returns
        -------
        ndarray of shape (rows, players) or (rows, players, outputs)
            Without the first axis if X is one row.
        """
        check_l1_reg(l1_reg)
        _check_limits(limits)
        if is_sparse(X):
            X = to_dense(X, "X")
        budget = self._choose_budget(nsamples, Limits(**limits).budget)
        limits.pop("budget", None)
        explanation = _clear_rounding(self._explain(X, budget, limits, n_jobs, progress=False if silent else None))
        self.explanation = self._rename_columns(explanation, X)
        if gc_collect:
            gc.collect()
        values = explanation.values
        if self._shap_model.n_dimensions == 2 and values.ndim == 2:
            values = values[..., None]
        return values[0] if _is_one_row(X) else values

    def _explain(self, X: Any, budget: int, goals: LimitOptions, n_jobs: int, *, progress: bool | None) -> Explanation:
        if self._explainer is not None:
            explanation = self._explain_mean(X, budget, goals, n_jobs=n_jobs, progress=progress)
        else:
            assert self._linked is not None
            problem = self._linked
            rows, labels = read_rows(X, self.data)
            explanation = replace(
                explain_linked(problem, rows, labels, budget, goals, entropy=self._entropy, n_jobs=n_jobs),
                data=rows.astype(float) if rows.dtype.kind in "biuf" else rows,
                feature_names=problem.players.names,
                column_names=self.data.names,
                output_names=problem.model.output_names,
                player_columns=tuple(tuple(int(c) for c in columns) for columns in problem.players.columns),
                row_names=read_row_names(X),
            )
        known = {identity: "identity", logit: "logit"}
        own = {
            "link": known.get(self._link, str(self.link)),
            "keep_index": self._keep_index,
            "weighted_background": self.data.is_weighted,
            "model": self._shap_model.model.name,
            "quantity": self._describe_quantity(),
        }
        return replace(explanation, settings=explanation.settings | own)

    def _describe_quantity(self) -> str:
        """The quantity that is explained: the model's output, or the link of its mean."""
        quantity, known = self._shap_model.model.quantity, {identity: "", logit: "log-odds of the mean "}
        return (known.get(self._link, "link of the mean ") + (quantity or "output")) if self._linked else quantity

    def _explain_mean(self, X: Any, budget: int, goals: LimitOptions, **how: Any) -> Explanation:
        assert self._explainer is not None
        try:
            return self._explainer(X, rng=self._entropy, **how, **goals | {"budget": budget})
        except BudgetTooSmallError as error:
            n_rows = len(self.data.data)
            least = -(-(error.needed - 1) // n_rows)
            raise BudgetTooSmallError(
                f"`nsamples` must be at least {least} here, where a coalition stands for "
                f"the {n_rows} rows of the background: {error}",
                error.needed,
            ) from error

    def _choose_budget(self, nsamples: int | str, budget: int | None) -> int:
        if budget is not None:
            if nsamples != "auto":
                raise InvalidArgumentError(
                    f"`nsamples` and `budget` both limit the evaluations; got {nsamples!r} and {budget!r}. Give one."
                )
            return budget
        if isinstance(nsamples, str):
            if nsamples != "auto":
                raise InvalidArgumentError(f"`nsamples` must be 'auto' or a number of coalitions; got {nsamples!r}.")
            n_coalitions = 2 * self._n_players + 2048
        else:
            n_coalitions = check_whole("nsamples", nsamples, 1, "coalitions; or 'auto'")
        return n_coalitions * len(self.data.data) + 1

    def _rename_columns(self, explanation: Explanation, X: Any) -> Explanation:
        """Use the names of the columns of X, as in shap, if the background has none and there are no groups."""
        single = all(len(columns) == 1 for columns in explanation.player_columns)
        if self.data.column_names is not None or not single or not hasattr(X, "columns"):
            return explanation
        names = tuple(str(name) for name in X.columns)
        return replace(explanation, feature_names=names, column_names=names)

    def _shape_outputs(self, outputs: FloatArray) -> Any:
        several = len(outputs) > 1 or self._shap_model.n_dimensions == 2
        return np.array(outputs) if several else float(outputs[0])


def _is_one_row(X: Any) -> bool:
    return not hasattr(X, "columns") and np.ndim(X) == 1


def _with_one_output(explanation: Explanation) -> Explanation:
    """Add an axis for the only output."""
    names = ("values", "standard_errors", "base_values")
    arrays = {name: getattr(explanation, name)[..., None] for name in names}
    return replace(explanation, output_names=None, **arrays)


def _clear_rounding(explanation: Explanation) -> Explanation:
    """Set exact values to 0 that are nothing but rounding, as shap does."""
    size = np.abs(explanation.values)
    exact = (explanation.status == "exact").reshape(-1, *[1] * (size.ndim - 1))
    nothing = exact & (size <= ROUNDED * size.max(axis=1, keepdims=True, initial=0.0))
    return replace(explanation, values=np.where(nothing, 0.0, explanation.values))


def _check_limits(limits: Any) -> None:
    unknown = sorted(set(limits) - set(LimitOptions.__annotations__))
    if unknown:
        raise InvalidArgumentError(
            f"`shap_values` has no arguments {unknown}{suggest(unknown[0], _ARGUMENTS)} Leave them out; shap ignores "
            f"what it does not know. Limits are {sorted(LimitOptions.__annotations__)}."
        )


def _check_settings(settings: dict[str, Any]) -> None:
    unknown = sorted(set(settings) - SETTINGS)
    if unknown:
        misplaced = sorted(set(LimitOptions.__annotations__) & set(unknown))
        way_out = f"Pass {misplaced} to `shap_values`." if misplaced else f"The settings are {sorted(SETTINGS)}."
        near = suggest(unknown[0], SETTINGS)
        raise InvalidArgumentError(f"`KernelExplainer` has no settings {unknown}{near} {way_out}")


#: Arguments of `shap_values`.
_ARGUMENTS = {*inspect.signature(KernelExplainer.shap_values).parameters, *LimitOptions.__annotations__} - {
    "self", "limits",
}  # fmt: skip
