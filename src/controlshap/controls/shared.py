"""A surrogate fitted once, on hybrid rows of many x, and shared by all rows to explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._types import FloatArray
from controlshap.controls.fits.boosting import boosting_available
from controlshap.controls.fits.rows import FoldedRows
from controlshap.controls.learners import Learner, LogisticRidge, RidgeNetwork, Trees, WideNetwork
from controlshap.data.players import Players
from controlshap.functions.base import KnownFunction, Sum
from controlshap.functions.logistic import WIDEST, score_bound
from controlshap.functions.network import Network
from controlshap.values.base import Imputer


@final
@dataclass(frozen=True, eq=False)
class SharedSurrogate:
    """Functions for each output; no unit of an explanation was used to fit them, so they need no folds.

    Attributes
    ----------
    functions : tuple of KnownFunction
    n_evaluations : int
        What fitting cost.
    """

    functions: tuple[KnownFunction, ...]
    n_evaluations: int
    n_folds: int = 5
    max_rows: int = 100

    def learn(self, data: FoldedRows, fold: int | None) -> KnownFunction:  # noqa: ARG002
        """What was fitted before."""
        return self.functions[data.output]

    def reaches(self, x: FloatArray, background: FloatArray, players: Players) -> bool:
        """Whether the exact values for independent features are within the quadrature's reach, for all outputs."""
        return all(_reaches(function, x, background, players) for function in self.functions)

    @classmethod
    def fit(cls, rows: FloatArray, outputs: FloatArray, learner: Learner) -> SharedSurrogate:
        """Fit to evaluated rows `(n, columns)`, outputs `(n, outputs)`."""
        nowhere = np.full(len(rows), -1)
        data = [FoldedRows(rows, outputs[:, o], nowhere, o) for o in range(outputs.shape[1])]
        return cls(tuple(learner.learn(of_output, None) for of_output in data), len(rows))


def _reaches(function: KnownFunction, x: FloatArray, background: FloatArray, players: Players) -> bool:
    if isinstance(function, Sum):
        return _reaches(function.first, x, background, players) and _reaches(function.second, x, background, players)
    if not isinstance(function, Network):
        return True
    for weights, intercept in zip(function.weights, function.intercepts, strict=True):
        at_draws = players.sum_columns((weights * background).T).T
        if not score_bound(float(intercept), players.sum_columns(weights * x), at_draws) <= WIDEST:
            return False
    return True


def default_learners(*, correlated: bool) -> tuple[Learner, ...]:
    """What may be shared, where nothing is said about it.

    With correlated features known values are simulated for each explained row, in time that grows with the units of a
    network, and with trees.
    """
    if correlated:
        return (LogisticRidge(), RidgeNetwork())
    return (WideNetwork(), Trees(), Trees(start=WideNetwork())) if boosting_available() else (WideNetwork(),)


#: One evaluated row in so many is held out to choose between learners.
HELD_OUT = 5


def best_learner(rows: FloatArray, outputs: FloatArray, candidates: tuple[Learner, ...]) -> Learner:
    """The learner that leaves least of held-out rows, all outputs together."""
    if len(candidates) == 1:
        return candidates[0]
    held = np.arange(len(rows)) % HELD_OUT == 0
    spread = np.maximum(outputs.var(axis=0), 1e-300)
    left = []
    for candidate in candidates:
        fitted = SharedSurrogate.fit(rows[~held], outputs[~held], candidate)
        wrong = [f.predict(rows[held]) - outputs[held, o] for o, f in enumerate(fitted.functions)]
        left.append(float(sum((part**2).mean() / spread[o] for o, part in enumerate(wrong))))
    return candidates[int(np.argmin(left))]


def hybrid_rows(X: FloatArray, imputer: Imputer, n_rows: int, rng: np.random.Generator) -> FloatArray:
    """Rows of random x, draws and coalitions, coalition sizes uniform as along walks."""
    p = imputer.players.n_players
    owners = rng.permutation(len(X))[np.arange(n_rows) % len(X)]
    rows = []
    for number, count in zip(*np.unique(owners, return_counts=True), strict=True):
        sizes = rng.integers(0, p + 1, count)
        order = rng.permuted(np.tile(np.arange(p), (count, 1)), axis=1)
        coalitions = order < sizes[:, None]
        draws = imputer.sample(int(count), rng)
        rows.append(imputer.coalition_rows(X[number], coalitions[:, None], draws[:, None])[:, 0, 0])
    return np.concatenate(rows)
