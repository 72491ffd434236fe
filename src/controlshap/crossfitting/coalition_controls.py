"""Controls from processes over coalitions, fitted to the values of the coalitions themselves, fold by fold."""

from __future__ import annotations

import numpy as np

from controlshap._types import BoolArray, FloatArray
from controlshap.controls import Control
from controlshap.controls.fits.rows import FoldedRows
from controlshap.crossfitting.folds import Folds
from controlshap.estimators.base import UnitDraws
from controlshap.functions.base import KnownFunction
from controlshap.sampling.game import FunctionGame
from controlshap.sampling.sampler import UnitSampler
from controlshap.statistics.size_strata import count_by_size, count_pairs
from controlshap.statistics.terms import LeastSquaresTerms

#: Coalitions of which a function is evaluated at once on the whole background.
AT_ONCE = 256


def process_controls(
    sampler: UnitSampler, terms: LeastSquaresTerms, folds: Folds, process: Control, data: list[FoldedRows]
) -> tuple[FloatArray, FloatArray]:
    """Controls `(n, 1, outputs, 2)` of a process over coalitions, the same for all draws; the second is 0.

    The first are for values, the second for variances. A process g interpolates the pairs that it was fitted to, so a
    fold is a sample of those pairs alone that g does not know: of N pairs of a size, a share rho. What g leaves of the
    fold's targets t therefore counts rho times in the values, which is the control `g + (1 - rho) (t - g)`; the
    error is the one of residuals t - g in a sample without replacement (docs/mathematics.md, section 12). Pairs of no
    fold are known to every process, and nothing of them is left to chance.
    """
    fold = folds.of_kept
    assert fold is not None
    signs = 2.0 * terms.regressors  # of pairs: +-1/2
    p = signs.shape[1]
    there, members = np.array(count_pairs(p), dtype=float), (signs > 0).sum(axis=1)
    size = np.minimum(members, p - members) - 1
    of_values, of_errors = np.zeros((2, terms.n_units, len(data), 2))
    whole = np.flatnonzero(fold < 0)
    for output, of_output in enumerate(data):
        # in both: a coefficient from residuals that only one of them leaves on these pairs would be far from 1
        for controls in (of_values, of_errors):
            controls[whole, output, 0] = terms.targets[whole, output, 0]
        for k in range(folds.n_folds):
            inside, others = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
            first: FloatArray = np.zeros(terms.n_units)
            known: FloatArray = np.zeros(p)
            if process.start is not None:
                function = process.start.fit(of_output, k)
                values = function.draw_values(sampler.game.x, sampler.base.rows, sampler.game.imputer.players)
                if values is not None:
                    known, first = values.mean(axis=0), _targets_of(function, sampler, signs > 0)
            fitted = process.fit_coalitions(signs, terms.targets[:, output, 0] - first, others)
            additive = terms.regressors @ (known + fitted.values())
            predicted = first[inside] + fitted.predict(signs[inside])
            unknown = (1.0 - count_by_size(fitted.signs > 0) / there)[size[inside]]
            left = terms.targets[inside, output, 0] - predicted
            of_errors[inside, output, 0] = predicted - additive[inside]
            of_values[inside, output, 0] = of_errors[inside, output, 0] + (1.0 - unknown) * left
            for controls in (of_values, of_errors):
                controls[whole, output, 0] -= additive[whole] / folds.n_folds
    return of_values[:, None], of_errors[:, None]


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
