"""The game of shap's KernelExplainer: a link of the weighted mean over the background, for each coalition as a whole.

The game of `Explainer` is a mean of games, one for each background row, and may be sampled row by row. A link of the
mean is not: every coalition needs the whole background, as in shap. So the game itself is the model here, a function of
which players are revealed (0 or 1 each), explained at all ones over a background of one row of zeros.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from controlshap._errors import BudgetTooSmallError, ControlShapWarning, InvalidArgumentError, ModelOutputError
from controlshap._random import resolve_entropy
from controlshap._types import AnyArray, FloatArray
from controlshap.data.players import Players, resolve_players
from controlshap.engine.parallel import check_jobs, ordered_map
from controlshap.explainer import DEFAULTS, Explainer
from controlshap.limits import LimitOptions
from controlshap.models.model import Model
from controlshap.results.explanation import Explanation
from controlshap.shap_compat.arguments import Link, WeightedBackground, logit
from controlshap.shap_compat.log_odds import LogOdds, find_log_odds
from controlshap.shap_compat.model import InputMaker, ShapModel


@dataclass(frozen=True, eq=False)
class LinkedProblem:
    """The parts of a linked game that are the same for all rows.

    Attributes
    ----------
    background : ndarray of shape (n, columns)
    weights : ndarray of shape (n,)
        They sum to 1.
    index : ndarray of shape (n,) or None
        Index of the background rows, for models that use it.
    link : callable
        Function of means, element by element.
    to_inputs : InputMaker
        Turns mixed rows and their index into what the model takes.
    mean, base : ndarray of shape (outputs,)
        The mean over the background (with link "logit" also those of the complements), and its link.
    odds : LogOdds or None
        How log-odds are computed, where the link is "logit".
    settings : dict
        Arguments of the `Explainer` of the game.
    memory_limit : int
        Bytes for rows under construction.
    """

    model: Model
    background: AnyArray
    weights: FloatArray
    index: AnyArray | None
    link: Link
    to_inputs: InputMaker
    players: Players
    mean: FloatArray
    base: FloatArray
    settings: dict[str, Any]
    memory_limit: int
    odds: LogOdds | None = None

    def predict(self, rows: AnyArray, index: AnyArray | None, n_outputs: int | None, where: str) -> FloatArray:
        """Return checked outputs, shape (n, outputs), or with complements (n, 2 outputs)."""
        margin = None if self.odds is None else self.odds.predict
        model = Model(margin or self.model.predict, self.model.source, partial(self.to_inputs, index=index))
        outputs = model(rows, n_outputs=None if margin else n_outputs, where=where)
        return outputs if self.odds is None else self.odds.expand(outputs)

    def apply_link(self, means: FloatArray, where: str) -> FloatArray:
        """Return the link of means `(n, outputs)`, which must be finite."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            values = self.link(means) if self.odds is None else self.odds.link(means)
        finite = np.isfinite(values)
        if not finite.all():
            raise ModelOutputError(
                f"`link` must give finite values; on {where} it gave {values[~finite][0]} for a mean prediction of "
                f"{means[~finite][0]:.6g}. Use a link that is finite there, or 'logit', which is finite at 0 and 1."
            )
        return values

    def is_cut(self, means: FloatArray) -> bool:
        """Whether log-odds of these means are cut, because they are too close to 0 or 1."""
        return self.odds is not None and bool(self.odds.is_cut(means).any())


def make_linked_problem(
    data: WeightedBackground, model: ShapModel, link: Link, settings: dict[str, Any], *, keep_index: bool
) -> LinkedProblem:
    """Check that `settings` (arguments of `Explainer`) fit a link, and evaluate the model on the background."""
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
    if data.frame is not None and not hasattr(data.frame, "iloc") and not model.arrays:
        raise InvalidArgumentError(
            "`link` needs a pandas frame or an array as `data`, for a model that takes frames. Pass data.to_pandas()."
        )
    problem = LinkedProblem(
        model=model.model,
        background=data.data,
        weights=data.weights,
        index=np.asarray(data.frame.index) if keep_index else None,
        link=link,
        to_inputs=InputMaker(None if model.arrays else data.frame),
        players=resolve_players(settings.get("groups"), data.names),
        mean=np.empty(0),
        base=np.empty(0),
        settings={name: value for name, value in settings.items() if name not in ("groups", "features")},
        memory_limit=int(settings.get("memory_limit", DEFAULTS["memory_limit"])),
    )
    outputs = problem.predict(data.data, problem.index, None, "the background")
    if link is logit:
        odds, outputs = find_log_odds(model.model.source, problem.to_inputs(data.data.copy(), problem.index), outputs)
        problem = replace(problem, odds=odds)
    mean = data.weights @ outputs
    return replace(problem, mean=mean, base=problem.apply_link(mean[None], "the background")[0])


class LinkedGame:
    """The game of one row as a function of coalitions `(m, players)`; counts its evaluations of the model."""

    def __init__(self, problem: LinkedProblem, row: AnyArray, label: Any, number: int) -> None:
        self.problem = problem
        self.row = row
        self.where = f"row {number}"
        self.is_cut = problem.is_cut(problem.mean)
        index = None if problem.index is None else np.array([label])
        outputs = problem.predict(row[None], index, len(problem.base), self.where)
        self.at_row = problem.apply_link(outputs, self.where)[0]
        self.is_cut |= problem.is_cut(outputs)
        self.n_evaluations = 1

    def __call__(self, coalitions: FloatArray) -> FloatArray:
        """Return the values of coalitions, shape (m, outputs)."""
        problem = self.problem
        n_rows, n_columns = problem.background.shape
        values = np.empty((len(coalitions), len(problem.base)))
        sizes = coalitions.sum(axis=1)
        values[sizes == 0] = problem.base
        values[sizes == coalitions.shape[1]] = self.at_row
        others = np.flatnonzero((sizes > 0) & (sizes < coalitions.shape[1]))
        step = max(1, problem.memory_limit // (48 * n_rows * n_columns))
        for start in range(0, len(others), step):
            part = others[start : start + step]
            revealed = problem.players.expand(coalitions[part] > 0.5)
            mixed = np.where(revealed[:, None], self.row, problem.background).reshape(-1, n_columns)
            index = None if problem.index is None else np.tile(problem.index, len(part))
            outputs = problem.predict(mixed, index, len(problem.base), self.where)
            self.n_evaluations += len(mixed)
            means = np.einsum("n,mno->mo", problem.weights, outputs.reshape(len(part), n_rows, -1))
            values[part] = problem.apply_link(means, self.where)
            self.is_cut |= problem.is_cut(means)
        return values


def explain_linked(
    problem: LinkedProblem,
    rows: AnyArray,
    labels: Sequence[Any],
    budget: int,
    goals: LimitOptions,
    *,
    entropy: int,
    n_jobs: int,
) -> Explanation:
    """Explain the linked game of each row; `budget` counts evaluations of the model for a row.

    The caller adds `data` and the names of columns and outputs.
    """
    n_coalitions = (budget - 1) // len(problem.background)
    task = partial(_explain_row, problem, n_coalitions, entropy, goals)
    results = list(ordered_map(task, list(zip(range(len(rows)), rows, labels, strict=True)), check_jobs(n_jobs)))
    parts = [explanation for explanation, _, _ in results]
    if any(is_cut for _, _, is_cut in results):
        warnings.warn(
            "`link='logit'`: mean probabilities were so close to 0 or 1 that nothing is known of their log-odds; these "
            "were cut at 34.5, as in shap. Explain the margin instead (decision_function), or leave the link out.",
            ControlShapWarning,
            stacklevel=4,
        )
    settings = parts[0].settings | {
        "budget": budget,
        "n_background": len(problem.background),
        "n_background_evaluations": len(problem.background) * (1 if problem.odds is None else problem.odds.n_asked),
    }
    return replace(
        Explanation.concat(parts),
        n_evaluations=np.array([count for _, count, _ in results], dtype=np.int64),
        entropy=entropy,
        settings=settings,
        background_standard_errors=None,
        evaluations=None,
        row_numbers=np.arange(len(parts)),
    )


def _explain_row(
    problem: LinkedProblem, n_coalitions: int, entropy: int, goals: LimitOptions, item: tuple[int, AnyArray, Any]
) -> tuple[Explanation, int, bool]:
    number, row, label = item
    game = LinkedGame(problem, row, label, number)
    p = problem.players.n_players
    explainer = Explainer(game, np.zeros((1, p)), **problem.settings)
    # each row is the first row of its own explainer, and must not share its random numbers with the others
    own_entropy = resolve_entropy(np.random.SeedSequence(entropy, spawn_key=(number,)))
    try:
        explanation = explainer(np.ones((1, p)), rng=own_entropy, keep=False, **goals | {"budget": n_coalitions + 1})
    except BudgetTooSmallError as error:
        n_rows = len(problem.background)
        needed = (error.needed - 1) * n_rows + 1
        raise BudgetTooSmallError(
            f"`budget` must be at least {needed} model evaluations here, `nsamples` at least {error.needed - 1}: each "
            f"coalition takes the {n_rows} rows of the background, and the budget covers {n_coalitions}.",
            needed,
        ) from error
    return explanation, game.n_evaluations, game.is_cut
