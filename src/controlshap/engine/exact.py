"""Rows of models with a known form: exact values from one evaluation."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from controlshap._random import EXPLAINER_ENTROPY, Purpose, stream
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.crossfitting.known_gaussian import enumerate_networks
from controlshap.functions.base import KnownFunction, RowGames, warn_not_exact
from controlshap.functions.recognise import agrees
from controlshap.problem import Problem
from controlshap.results.collect import PairResult, RowResult
from controlshap.statistics.analysis import Analysis, variances_of_draws, variances_of_exact
from controlshap.statistics.control_variate import Estimate, enforce_efficiency
from controlshap.values.normal_parts import NormalParts

#: Background rows whose own exact values show the error due to the choice of rows: their standard deviation is then
#: known to 13 %, in about half of the time that a row of a tree ensemble takes.
SPREAD_ROWS = 32
#: Key of an explainer's cache, for games that are made ready once.
_GAMES = "games"


def explain_exactly(problem: Problem, form: KnownFunction, x: FloatArray, at_x: FloatArray) -> RowResult | None:
    """Values, and interactions where they are asked for, without sampling error.

    None where the form has no interactions, and, with a warning, where it fails on this row.
    """
    games = games_of_form(problem, form)
    if games is not None:
        return explain_together(problem, form, games, x[None], at_x[None])[0]
    explain = _explain_conditioned if problem.correlated else _explain_alone
    found = explain(problem, form, x, at_x)
    if found is None or not problem.interactions:
        return found
    from controlshap.interactions import known_interactions

    pairs = known_interactions(problem, form, x)
    return None if pairs is None else replace(found, pairs=pairs)


def _explain_alone(problem: Problem, form: KnownFunction, x: FloatArray, at_x: FloatArray) -> RowResult | None:
    """Values of a form that explains rows one by one."""
    if not _agrees(problem, form, x[None], at_x[None]).all():
        return None
    rows = problem.base.rows
    values = form.mean_values(x, rows, problem.players)
    of_draws = form.draw_values(x, rows[_some_rows(problem)], problem.players)
    if values is None or of_draws is None:
        warn_not_exact(form.name, "that form has no values within reach on some row")
        return None
    variances = variances_of_draws(of_draws.reshape(*of_draws.shape[:2], -1))
    return _result(problem, form, values.reshape(len(values), -1), variances, at_x)


def _explain_conditioned(problem: Problem, form: KnownFunction, x: FloatArray, at_x: FloatArray) -> RowResult | None:
    """Values of a function of normal scores, from the conditional means of all coalitions."""
    if not _agrees(problem, form, x[None], at_x[None]).all():
        return None
    imputer = cast("NormalParts", problem.imputer)
    components = enumerate_networks(imputer, x, list(form.score_functions)).T
    found = _as_result(form, components, at_x, None)
    if problem.refits is None:
        return found
    from controlshap.crossfitting.distribution import distribution_variances

    shares = np.ones(len(at_x))
    variances = distribution_variances(problem.refits, imputer, x, form.score_functions, shares, problem.memory_limit)
    return replace(found, distribution_variances=variances)


def games_of_form(problem: Problem, form: KnownFunction) -> RowGames | None:
    """The games of a form that explains many rows at once, made ready once for an explainer; None for others."""
    if problem.correlated:
        return None
    made_for, prepared = problem.cache.get(_GAMES, (None, None))
    if made_for is not form:
        prepared = form.games(problem.base.rows, problem.players, _some_rows(problem))
        problem.cache[_GAMES] = (form, prepared)
    games: RowGames | None = prepared
    return games


def explain_together(
    problem: Problem, form: KnownFunction, games: RowGames, rows: FloatArray, predictions: FloatArray
) -> list[RowResult | None]:
    """Exact values of many rows `(n, columns)`, of which the model's predictions `(n, outputs)` are known."""
    values, variances = games.explain(rows)
    agreed = _agrees(problem, form, rows, predictions)
    found = [
        _result(problem, form, *of_row) if fits else None
        for fits, *of_row in zip(agreed, values, variances, predictions, strict=True)
    ]
    if not problem.interactions:
        return found
    first, second = np.triu_indices(problem.players.n_players, 1)
    pairs = games.interactions(rows)[:, first, second]
    return [
        None if one is None else replace(one, pairs=PairResult.exact(of_row))
        for one, of_row in zip(found, pairs, strict=True)
    ]


def _agrees(problem: Problem, form: KnownFunction, rows: FloatArray, predictions: FloatArray) -> BoolArray:
    agreed = agrees(form, rows, predictions, problem.base.values[:, :, 0])
    if not agreed.all():
        warn_not_exact(form.name, "that form does not predict what the model predicts on some row")
    return agreed


def _some_rows(problem: Problem) -> IntArray:
    """Numbers of the background rows that show how values vary between them."""
    return stream(EXPLAINER_ENTROPY, Purpose.BACKGROUND, 1).permutation(len(problem.base.rows))[:SPREAD_ROWS]


def _result(
    problem: Problem, form: KnownFunction, values: FloatArray, variances: FloatArray, at_x: FloatArray
) -> RowResult | None:
    """Values `(players, outputs)` of a row, and their variances between draws, as its result."""
    of_background = problem.base.values[:, :, 0]
    components = np.concatenate([values, problem.base.mean[:, 0][None]])
    if not _sums_to(components, at_x, of_background, form.tolerance):
        warn_not_exact(form.name, "the values of that form do not sum to the prediction on some row")
        return None
    return _as_result(form, components, at_x, variances_of_exact(variances, of_background))


def _as_result(
    form: KnownFunction, components: FloatArray, at_x: FloatArray, background_variances: FloatArray | None
) -> RowResult:
    no_roots = np.zeros((0, *components.shape))
    estimate = enforce_efficiency(Estimate(components, no_roots, np.full(components.shape, np.inf)), at_x)
    return RowResult(
        analysis=Analysis(estimate, estimate, np.zeros(components.shape), np.zeros((*components.shape, 0))),
        n_evaluations=1,
        status="exact",
        method=form.name,
        complete=True,
        background_variances=background_variances,
    )


def _sums_to(components: FloatArray, at_x: FloatArray, of_background: FloatArray, tolerance: float) -> bool:
    """Whether components `(players + 1, outputs)` sum to f(x), up to rounding of the largest number."""
    scale = max(float(np.abs(numbers).max()) for numbers in (components, at_x, of_background))
    # the form and the model differ by `tolerance` at x, and by as much on the background
    return bool(np.abs(components.sum(axis=0) - at_x).max() <= 2.0 * tolerance * max(scale, 1e-12))
