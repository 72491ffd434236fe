"""Which of the controls on trial are worth their time: those that predict some folds better than the ones before them.

A control on trial is fitted for the first folds alone, and the others follow where it leaves less of the evaluations
there. What a control leaves of rows orders controls as what it leaves of units does, but for few of these
(docs/design.md, "Choices"). The coefficients settle the rest: they take the control that leaves least of the units of
the other folds, so that a useless one costs time but no precision.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controlshap._types import FloatArray
from controlshap.controls import Control
from controlshap.controls.rows import FoldedRows

#: A control stays where it leaves less than this share of the mean square that the best one before it leaves.
LEAVES = 0.7
#: Share of an output's variance below which nothing is tried: the controls before it are all but exact.
NEGLIGIBLE = 1e-4
#: Folds are tried until they have so many rows.
TRIAL_ROWS = 400


def keep_useful(learners: Sequence[Control], data: list[FoldedRows], n_folds: int) -> tuple[Control, ...]:
    """The learners without those on trial that do not stand it."""
    kept: list[Control] = []
    for learner in learners:
        if not learner.on_trial or _stands_trial(learner, kept, data, n_folds):
            kept.append(learner)
    return tuple(kept)


def _stands_trial(learner: Control, kept: Sequence[Control], data: list[FoldedRows], n_folds: int) -> bool:
    """Whether a learner leaves so much less of the outputs, each in units of its variance, than the best of others."""
    counts = np.cumsum([(data[0].fold == k).sum() for k in range(n_folds)])
    tried = range(min(n_folds, 1 + int(np.searchsorted(counts, TRIAL_ROWS))))
    best: FloatArray = np.ones(len(data))
    for other in kept:
        best = np.minimum(best, [_leaves(other, of_output, tried) for of_output in data])
    if best.max() <= NEGLIGIBLE:
        return False
    return float(sum(_leaves(learner, of_output, tried) for of_output in data)) < LEAVES * float(best.sum())


def _leaves(learner: Control, data: FoldedRows, tried: range) -> float:
    """Share of an output's variance that a learner leaves of folds that it was not fitted to."""

    def measure() -> float:
        squares = 0.0
        for k in tried:
            inside = np.flatnonzero(data.fold == k)
            squares += float(((data.outputs[inside] - learner.fit(data, k).predict(data.rows[inside])) ** 2).sum())
        return squares / max(1e-300, float(data.outputs.var()) * int(np.isin(data.fold, tried).sum()))

    return data.remember(("leaves", learner, tried), measure)
