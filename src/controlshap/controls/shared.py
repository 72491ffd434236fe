"""A surrogate fitted once, on hybrid rows of many x, and shared by all rows to explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._types import FloatArray
from controlshap.controls.base import Control, EvaluatedRows, FoldedRows
from controlshap.controls.network import RidgeNetwork
from controlshap.controls.ridge import LogisticRidge
from controlshap.controls.trees import Trees, boosting_available
from controlshap.controls.wide_network import WideNetwork
from controlshap.data.players import Players
from controlshap.functions.base import KnownFunction
from controlshap.functions.composed import Blend
from controlshap.values.base import Imputer


@final
@dataclass(frozen=True, eq=False)
class SharedSurrogate(Control):
    """Functions of all outputs, fitted before any explanation; no unit was used to fit them, so they need no folds.

    Attributes
    ----------
    functions : tuple of KnownFunction
    n_evaluations : int
        Model evaluations that were fitted to.
    beside : bool
        Whether each row has what it has alone, too; else the surrogate saves the time of fitting.
    """

    functions: tuple[KnownFunction, ...]
    n_evaluations: int
    beside: bool = False
    n_folds: int = 5
    max_rows: int = 100

    is_fitted = True

    def fit(self, data: FoldedRows, fold: int | None) -> KnownFunction:  # noqa: ARG002
        """The function of this output."""
        return self.functions[data.output]

    def errors(self, held: EvaluatedRows) -> float:
        """Mean squared errors on other rows over the outputs' variances, all outputs together."""
        spread = np.maximum(held.outputs.var(axis=0), 1e-300)
        residuals = [function.predict(held.rows) - held.outputs[:, o] for o, function in enumerate(self.functions)]
        return float(sum((part**2).mean() / spread[o] for o, part in enumerate(residuals)))

    def reaches(self, x: FloatArray, background: FloatArray, players: Players) -> bool:
        """Whether the exact values for independent features can be computed, for all outputs."""
        return all(function.reaches(x, background, players) for function in self.functions)


@final
@dataclass(frozen=True, eq=False)
class Margin(Control):
    """The known margin of a classifier, brought to the scale of its probabilities.

    Attributes
    ----------
    functions : tuple of KnownFunction
        One for each output of the model.
    """

    functions: tuple[KnownFunction, ...]
    n_folds: int = 5
    max_rows: int = 100

    is_fitted = True

    def fit(self, data: FoldedRows, fold: int | None) -> KnownFunction:  # noqa: ARG002
        """The function of this output."""
        return self.functions[data.output]


def calibrate_margin(margin: KnownFunction, rows: FloatArray, outputs: FloatArray) -> Margin:
    """Lines through outputs `(n, outputs)` over margins, by least squares on the background.

    No unit was used, so nothing needs folds. How steep the link is near x is left to the coefficient.
    """
    scores = margin.predict(rows).reshape(len(rows), -1)
    lines = np.linalg.lstsq(np.column_stack([np.ones(len(rows)), scores]), outputs, rcond=None)[0]
    return Margin(tuple(Blend(margin, line[1:], float(line[0])) for line in lines.T))


def fit_shared(known: EvaluatedRows, learner: Control, *, beside: bool = False) -> SharedSurrogate:
    """Fit to all rows."""
    return _fit_outputs(_split_outputs(known), learner, beside=beside)


def _split_outputs(known: EvaluatedRows) -> list[FoldedRows]:
    no_fold = np.full(len(known), -1)
    return FoldedRows.of_outputs(known.rows, known.outputs, no_fold)


def _fit_outputs(data: list[FoldedRows], learner: Control, *, beside: bool = False) -> SharedSurrogate:
    return SharedSurrogate(tuple(learner.fit(of_output, None) for of_output in data), len(data[0].rows), beside)


def default_learners(*, correlated: bool) -> tuple[Control, ...]:
    """Candidates for a shared surrogate where the user names none.

    With correlated features known values are simulated for each explained row, in time that grows with the units of a
    network, and with trees.
    """
    if correlated:
        return (LogisticRidge(), RidgeNetwork())
    return (WideNetwork(), Trees(), Trees(start=WideNetwork())) if boosting_available() else (WideNetwork(),)


#: One evaluated row in so many is held out to choose between learners.
HELD_OUT = 5


def best_learner(known: EvaluatedRows, candidates: tuple[Control, ...]) -> Control:
    """The candidate with the smallest error on held-out rows, all outputs together."""
    if len(candidates) == 1:
        return candidates[0]
    held = np.arange(len(known)) % HELD_OUT == 0
    return candidates[int(np.argmin(compare_learners(known[~held], known[held], candidates)))]


def compare_learners(known: EvaluatedRows, held: EvaluatedRows, candidates: tuple[Control, ...]) -> list[float]:
    """Errors on held-out rows of each candidate, fitted to the others."""
    data = _split_outputs(known)  # candidates that start alike are fitted to the same rows once
    return [_fit_outputs(data, candidate).errors(held) for candidate in candidates]


def hybrid_rows(X: FloatArray, imputer: Imputer, n_rows: int, rng: np.random.Generator) -> FloatArray:
    """Rows that mix rows of X with draws, by random coalitions of uniform size, as along walks."""
    p = imputer.players.n_players
    owners = rng.permutation(len(X))[np.arange(n_rows) % len(X)]
    rows = []
    for number, count in zip(*np.unique(owners, return_counts=True), strict=True):
        sizes = rng.integers(0, p + 1, count)
        order = rng.permuted(np.tile(np.arange(p), (count, 1)), axis=1)
        coalitions = order < sizes[:, None]
        draws = imputer.sample(int(count), rng)
        own, x = imputer.for_row(X[number])
        rows.append(own.coalition_rows(x, coalitions[:, None], draws[:, None])[:, 0, 0])
    return np.concatenate(rows)
