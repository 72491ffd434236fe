"""A surrogate fitted once, on hybrid rows of many x, and shared by all rows to explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._types import FloatArray
from controlshap.exact_forms.functions import KnownFunction
from controlshap.fits.rows import FoldedRows
from controlshap.surrogates.learners import Learner
from controlshap.values.protocol import Imputer


@final
@dataclass(frozen=True, eq=False)
class SharedSurrogate:
    """Functions for each output; nothing of an explained row was used to fit them, so they need no folds.

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

    @classmethod
    def fit(cls, rows: FloatArray, outputs: FloatArray, learner: Learner) -> SharedSurrogate:
        """Fit to evaluated rows `(n, columns)`, outputs `(n, outputs)`."""
        nowhere = np.full(len(rows), -1)
        data = [FoldedRows(rows, outputs[:, o], nowhere, o) for o in range(outputs.shape[1])]
        return cls(tuple(learner.learn(of_output, None) for of_output in data), len(rows))


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
