"""Controls from processes over coalitions, fitted to the values of the coalitions themselves, fold by fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.controls import Control
from controlshap.controls.base import FoldedRows
from controlshap.crossfitting.folds import Folds
from controlshap.estimators.base import UnitDraws
from controlshap.functions.base import KnownFunction
from controlshap.sampling.game import FunctionGame
from controlshap.sampling.sampler import UnitSampler
from controlshap.statistics.size_strata import count_pairs
from controlshap.statistics.terms import LeastSquaresTerms

#: Coalitions of which a function is evaluated at once on the whole background.
AT_ONCE = 256


def add_processes(
    sampler: UnitSampler,
    terms: LeastSquaresTerms,
    folds: Folds,
    processes: Sequence[Control],
    data: list[FoldedRows],
    of_rows: Sequence[FloatArray],
    *,
    by_means: bool,
) -> tuple[LeastSquaresTerms, list[FloatArray], list[FloatArray]]:
    """Controls of processes after those that were fitted to rows: the terms, the controls, and those for errors.

    All units have the same draws. With `by_means` the variance is taken between means over draws.
    """
    pairs = [(part, part) for part in of_rows]
    pairs += [process_controls(sampler, terms, folds, process, data) for process in processes]
    if by_means:
        terms = replace(terms, draw_targets=terms.targets[:, None])
        pairs = [(one.mean(axis=1, keepdims=True), other.mean(axis=1, keepdims=True)) for one, other in pairs]
    n_draws = terms.draw_targets.shape[1]
    controls, for_errors = (
        [np.broadcast_to(part, (len(part), n_draws, *part.shape[2:])) for part in parts]
        for parts in zip(*pairs, strict=True)
    )
    return terms, controls, for_errors


def process_controls(
    sampler: UnitSampler, terms: LeastSquaresTerms, folds: Folds, process: Control, data: list[FoldedRows]
) -> tuple[FloatArray, FloatArray]:
    """Controls `(n, 1, outputs, 2)` of a process over coalitions, the same for all draws; the second is 0.

    The first are for values, the second for variances: targets less the residuals of `count_residuals`
    (docs/mathematics.md, section 12). Pairs of no fold are known to every process that has room for them.
    """
    fold = folds.of_kept
    assert fold is not None
    signs = 2.0 * terms.regressors  # of pairs: +-1/2
    p = signs.shape[1]
    there, members = np.array(count_pairs(p), dtype=float), (signs > 0).sum(axis=1)
    size = np.minimum(members, p - members) - 1
    of_values, of_errors = np.zeros((2, terms.n_units, len(data), 2))
    for output, of_output in enumerate(data):
        targets = terms.targets[:, output, 0]
        left: FloatArray = np.zeros((folds.n_folds, terms.n_units))
        known = np.zeros(left.shape, dtype=bool)
        additive: FloatArray = np.zeros(terms.n_units)
        for k in range(folds.n_folds):
            first: FloatArray = np.zeros(terms.n_units)
            start: FloatArray = np.zeros(p)
            if process.start is not None:
                function = process.start.fit(of_output, k)
                values = function.draw_values(sampler.game.x, sampler.base.rows, sampler.game.imputer.players)
                if values is not None:
                    start, first = values.mean(axis=0), _targets_of(function, sampler, signs > 0)
            fitted, chosen = process.fit_coalitions(signs, targets - first, np.flatnonzero(fold != k))
            known[k, chosen] = True
            left[k] = targets - first - fitted.predict(signs)
            additive += terms.regressors @ (start + fitted.values()) / folds.n_folds
        for_values, for_errors = count_residuals(left, known, size, there)
        of_values[:, output, 0] = targets - for_values - additive
        of_errors[:, output, 0] = targets - for_errors - additive
    return of_values[:, None], of_errors[:, None]


def count_residuals(
    left: FloatArray, known: BoolArray, size: IntArray, there: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Residuals of pairs `(n,)` as they count in the estimate, and in its variance.

    Of the N pairs of a size n are here. Process k of K knows c_k of them, whose residuals count whole; of the other
    `N - c_k` pairs those here are a sample without replacement. With I the number of (process, pair here) in which the
    process does not know the pair, a residual counts `w = sum_k (N - c_k) / (K I)` there, and 1/K where it is known.

    If the residual of a pair, of variance 1, is the same for all processes that do not know it, and m_u of them do not
    know pair u, the error of the sum over all pairs has the variance `(w - 1/K)^2 sum_u m_u^2 + N - n`. The regression
    counts `N (N - n) / n` (`size_strata`).

    Parameters
    ----------
    left : ndarray of shape (processes, n)
        Targets less what each process predicts.
    known : ndarray of shape (processes, n)
        Pairs that each process was fitted to.
    size : ndarray of shape (n,)
        Place of each pair's size in `there`.
    there : ndarray of shape (sizes,)
        Pairs of each size.
    """
    n_processes = len(left)
    lacking = (~known).sum(axis=0)
    here = np.bincount(size, minlength=len(there)).astype(float)
    seen = np.bincount(size, weights=lacking, minlength=len(there))
    squares = np.bincount(size, weights=lacking**2.0, minlength=len(there))
    # a size that every process knows whole leaves nothing to weigh
    weight = np.where(
        seen > 0, (n_processes * there - (n_processes * here - seen)) / (n_processes * np.maximum(seen, 1.0)), 0.0
    )
    share = (here / there)[size]
    unknown = (left * ~known).sum(axis=0)
    for_values = share * ((left * known).sum(axis=0) / n_processes + weight[size] * unknown)
    variance = (weight - 1.0 / n_processes) ** 2 * squares + there - here
    counted = there * (there - here) / np.maximum(here, 1.0)
    ratio = np.sqrt(variance / np.where(counted > 0, counted, 1.0)) * (counted > 0)
    return for_values, ratio[size] * unknown / np.maximum(lacking, 1)


def _targets_of(function: KnownFunction, sampler: UnitSampler, coalitions: BoolArray) -> FloatArray:
    """Targets `(n,)` of a function, a few coalitions at a time."""
    game = FunctionGame.of(((function,),), sampler.game.x, sampler.game.imputer, sampler.game.memory_limit)
    draws, estimator = sampler.draws_of(np.arange(1)), sampler.estimator
    targets = []
    for start in range(0, len(coalitions), AT_ONCE):
        some = coalitions[start : start + AT_ONCE]
        every = UnitDraws(np.broadcast_to(draws, (len(some), *draws.shape[1:])), None, None, game.at_x * 0)
        targets.append(estimator.terms(game, some, every).unit_values().mean(axis=1)[:, 0, 0])
    return np.concatenate(targets)


def unseen_inflation(n: int, there: float, n_folds: int) -> float:
    """Variance of values controlled by a process in `n` of `there` pairs, over what units show of it.

    With residuals h of variance 1 on pairs that a fold's process does not know, N pairs in all and K folds, the
    error of a mean is `sum (N/n - 1/K) h` over pairs that were met less `sum h` over the others, if these are the
    same for all processes: its variance is `(N - n/K)^2 / n + N - n`, and units show `N^2 / n`.
    """
    share = n / there
    return 1.0 + (1.0 - 2.0 / n_folds) * share - (1.0 - 1.0 / n_folds**2) * share**2
