"""Controls from processes over coalitions, fitted to the values of the coalitions themselves, fold by fold."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from controlshap._types import BoolArray, FloatArray
from controlshap.controls import Control
from controlshap.controls.fits.rows import FoldedRows
from controlshap.crossfitting.folds import Folds
from controlshap.estimators.base import UnitDraws
from controlshap.estimators.kernel import Kernel, canonical_pairs
from controlshap.functions.base import KnownFunction
from controlshap.sampling.game import FunctionGame
from controlshap.sampling.sampler import UnitSampler
from controlshap.statistics.terms import LeastSquaresTerms

#: Coalitions of which a function is evaluated at once on the whole background.
AT_ONCE = 256


def process_controls(
    sampler: UnitSampler, terms: LeastSquaresTerms, folds: Folds, process: Control, data: list[FoldedRows]
) -> FloatArray:
    """Controls `(n, 1, outputs, 2)` of a process over coalitions, the same for all draws; the second is 0."""
    fold = folds.of_kept
    assert fold is not None
    signs = 2.0 * terms.regressors  # of pairs: +-1/2
    controls = np.zeros((terms.n_units, len(data), 2))
    for output, of_output in enumerate(data):
        for k in range(int(fold.max()) + 1):
            inside, others = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
            first: FloatArray = np.zeros(terms.n_units)
            known: FloatArray = np.zeros(signs.shape[1])
            if process.start is not None:
                function = process.start.fit(of_output, k)
                values = function.draw_values(sampler.game.x, sampler.base.rows, sampler.game.imputer.players)
                if values is not None:
                    known, first = values.mean(axis=0), _targets_of(function, sampler, signs > 0)
            fitted = process.fit_coalitions(signs, terms.targets[:, output, 0] - first, others)
            control = first[inside] + fitted.predict(signs[inside])
            control -= terms.regressors[inside] @ (known + fitted.values())
            controls[inside, output, 0] = control
    return controls[:, None]


def _targets_of(function: KnownFunction, sampler: UnitSampler, coalitions: BoolArray) -> FloatArray:
    """Targets `(n,)` of a function, from each distinct coalition once and a few of them at a time."""
    game = FunctionGame.of(((function,),), sampler.game.x, sampler.game.imputer, sampler.game.memory_limit)
    distinct, which = np.unique(coalitions, axis=0, return_inverse=True)
    draws, estimator = sampler.draws_of(np.arange(1)), sampler.estimator
    if estimator.reuses_evaluations:  # each is evaluated once as it is, and need not be remembered
        estimator = replace(cast("Kernel", estimator), reuse=False)
    targets = []
    for start in range(0, len(distinct), AT_ONCE):
        some = distinct[start : start + AT_ONCE]
        every = UnitDraws(np.broadcast_to(draws, (len(some), *draws.shape[1:])), None, None, game.at_x * 0)
        targets.append(estimator.terms(game, some, every).unit_values().mean(axis=1)[:, 0, 0])
    return np.asarray(np.concatenate(targets)[which.reshape(-1)])


def unseen_inflation(coalitions: BoolArray, n_folds: int) -> float:
    """Variance of values controlled by a process, over what units show of it.

    A process knows a pair of coalitions once one unit has it, so only pairs that occur once leave a residual. With a
    residual h of mean 0 on pairs that were not met, the error is `sum (1/n - pi_c / folds) h` over pairs met once less
    `sum pi_c h` over pairs not met at all. Units show `sum e^-l l` with l = n pi_c; the rest is
    `(1 - 2 / folds) sum e^-l l^2`, and `sum e^-l l^2` is twice the number of pairs that occur twice (Good and Turing).
    """
    counts = np.unique(np.packbits(canonical_pairs(coalitions), axis=1), axis=0, return_counts=True)[1]
    return float(1.0 + (1.0 - 2.0 / n_folds) * 2.0 * (counts == 2).sum() / max(1, (counts == 1).sum()))
