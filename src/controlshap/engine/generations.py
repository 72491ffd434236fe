"""Learning across rows: later rows are controlled by functions that were fitted to the evaluations of earlier ones.

Rows are explained in generations of 1, 2, 4, 8, ... rows. When one is complete, a function is fitted to evaluations of
all rows so far, and controls the next one. It is known before any unit of that generation is drawn, so that it needs no
folds (docs/mathematics.md, section 12), and who is in which generation depends on the numbers of the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from controlshap._types import FloatArray
from controlshap.controls import Control, LogisticRidge, Trees, WaveNetwork, WideNetwork
from controlshap.controls.fits.boosting import boosting_available
from controlshap.controls.fits.rows import EvaluatedRows
from controlshap.controls.shared import choose_learner, fit_shared
from controlshap.problem import Problem
from controlshap.results.collect import RowResult

NumberedRow: TypeAlias = tuple[int, FloatArray]
"""A row with its number, on which its random streams depend."""

#: Most evaluations that a function is fitted to, drawn from all rows so far in equal parts.
MOST_EVALUATIONS = 20_000
#: The last generation has no end: with so many rows before it, each has given a dozen evaluations.
MOST_BEFORE = 2**11 - 1
#: Rows that a generation must have before slower learners are candidates: networks, and trees. A fit takes some tenths
#: of a second, as the fits to about ten rows do.
ROWS_FOR_NETWORKS, ROWS_FOR_TREES = 8, 16
#: Gradient steps of a wide network for each row that it will serve, and the most: a tenth of a row's own time.
STEPS_A_ROW, MOST_STEPS = 60, 8000


@dataclass(frozen=True)
class Generation:
    """Consecutive rows that share a function, from `first` up to before `end`; the last generation has no end."""

    number: int
    first: int
    end: int | None

    @property
    def n_rows(self) -> int:
        """Rows that it will have, as many as were before it and one; of the last, at least so many."""
        return self.first + 1

    @property
    def share(self) -> int:
        """Evaluations that each of its rows gives to the fits of later generations."""
        return 0 if self.end is None else -(-MOST_EVALUATIONS // self.end)

    @classmethod
    def of(cls, row: int) -> Generation:
        """The generation that a row is in."""
        number = (min(row, MOST_BEFORE) + 1).bit_length() - 1
        first = 2**number - 1
        return cls(number, first, None if first >= MOST_BEFORE else 2 * first + 1)


@dataclass
class Learner:
    """A surrogate and the rows that it is learned from.

    Attributes
    ----------
    problem : Problem
        Of the next generation: its `shared` is the function that controls it.
    parts : list of EvaluatedRows
        Evaluations of each row so far, in random order.
    """

    problem: Problem
    parts: list[EvaluatedRows] = field(default_factory=list)

    def add(self, result: RowResult) -> RowResult:
        """Keep what a row brought, and return the rest."""
        self.parts.append(result.evaluated or self._nothing())
        return replace(result, evaluated=None)

    def fit(self, generation: Generation) -> None:
        """Fit after a generation of which all rows were added: what predicts its rows best from earlier ones."""
        assert generation.end is not None
        self.parts = [part[: generation.share] for part in self.parts]
        every = EvaluatedRows.concatenate(self.parts)
        if not len(every):
            return
        candidates = candidate_learners(generation.end + 1, correlated=self.problem.correlated)
        learner, n_old = candidates[0], sum(len(part) for part in self.parts[: generation.first])
        if len(candidates) > 1 and 0 < n_old < len(every):
            learner = choose_learner(every[:n_old], every[n_old:], candidates)
        self.problem = replace(self.problem, shared=fit_shared(every, learner, beside=(LogisticRidge(),)))

    def _nothing(self) -> EvaluatedRows:
        """The part of a row that is exact, or could not be controlled."""
        return EvaluatedRows(np.empty((0, self.problem.players.n_columns)), np.empty((0, self.problem.base.n_outputs)))


def candidate_learners(n_rows: int, *, correlated: bool) -> tuple[Control, ...]:
    """Candidates that may be fitted for a generation of so many rows, the safest first.

    With correlated features known values are simulated for each row: of trees that takes too long.
    """
    if n_rows < ROWS_FOR_NETWORKS:
        return (LogisticRidge(),)
    n_steps = min(MOST_STEPS, STEPS_A_ROW * n_rows)
    if correlated:
        return (LogisticRidge(), WaveNetwork(n_waves=16, n_steps=n_steps))
    waves, network = WaveNetwork(n_steps=n_steps), WideNetwork(n_hidden=32, n_steps=n_steps)
    if n_rows < ROWS_FOR_TREES or not boosting_available():
        return (LogisticRidge(), waves, network)
    return (LogisticRidge(), waves, network, Trees(start=network))


def explain_in_generations(
    problem: Problem,
    items: list[NumberedRow],
    explain: Callable[[Problem, int, list[NumberedRow]], Iterator[RowResult]],
) -> Iterator[RowResult]:
    """Explain numbered rows from the first of a run on, generation by generation."""
    learner, start = Learner(problem), 0
    while start < len(items):
        generation = Generation.of(start)
        rows = items[start : generation.end]
        yield from map(learner.add, explain(learner.problem, generation.share, rows))
        start += len(rows)
        if start < len(items):
            learner.fit(generation)
