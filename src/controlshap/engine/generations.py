"""Learning across rows: later rows are controlled by functions that were fitted to the evaluations of earlier ones.

Rows are explained in generations of 1, 2, 4, 8, ... rows. When one is complete, a function is fitted to evaluations of
all rows so far, and controls the next one. It is known before any unit of that generation is drawn, so that it needs
no folds (docs/mathematics.md, section 12). The generation of a row depends on its number alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from controlshap._types import FloatArray
from controlshap.controls import Control, LogisticRidge, SharedSurrogate, Trees, WaveNetwork
from controlshap.controls.base import EvaluatedRows
from controlshap.controls.shared import compare_learners, fit_shared
from controlshap.controls.trees import boosting_available
from controlshap.engine.parallel import one_blas_thread
from controlshap.problem import Problem
from controlshap.results.collect import RowResult

NumberedRow: TypeAlias = tuple[int, FloatArray]
"""A row with its number, on which its random streams depend."""

#: Most evaluations that a function is fitted to, drawn from all rows so far in equal parts, and most numbers in them.
#: Up to 200 rows of 1,000 evaluations all are used: a fit then takes hardly longer, and is better.
MOST_EVALUATIONS, MOST_NUMBERS = 200_000, 6_000_000
#: Rows before the last generation, which has no end: each of them has given about a hundred evaluations.
MOST_BEFORE = 2**11 - 1
#: Rows that a generation must have before slower learners are candidates: networks, and trees. A fit takes some tenths
#: of a second, as the fits to about ten rows do.
ROWS_FOR_NETWORKS, ROWS_FOR_TREES = 8, 16
#: Cosines for independent features, and for correlated ones, where known values are simulated. Chosen, like the
#: candidates, on the tuned problems of `benchmarks/generations.py`: 64 cosines, or 32 logistic units, left more noise.
N_WAVES = (128, 16)
#: Gradient steps of the cosines for each row that it will serve, and the most: a tenth of a row's own time.
STEPS_A_ROW, MOST_STEPS = 60, 8000


@dataclass(frozen=True)
class Generation:
    """Consecutive rows that share a function, from `first` up to before `end`; the last generation has no end."""

    number: int
    first: int
    end: int | None

    @property
    def n_rows(self) -> int:
        """Number of its rows: one more than there are before it; at least that many in the last one."""
        return self.first + 1

    def share(self, n_numbers: int) -> int:
        """Number of evaluations, of so many numbers each, that each of its rows gives to later generations."""
        return 0 if self.end is None else -(-min(MOST_EVALUATIONS, MOST_NUMBERS // n_numbers) // self.end)

    @classmethod
    def of(cls, row: int) -> Generation:
        """The generation that a row is in."""
        number = (min(row, MOST_BEFORE) + 1).bit_length() - 1
        first = 2**number - 1
        return cls(number, first, None if first >= MOST_BEFORE else 2 * first + 1)


@dataclass
class Learner:
    """A function learned from the rows so far, or from parts of so many rows each.

    Attributes
    ----------
    problem : Problem
        Of the next generation: its `shared` is the function that controls it.
    n_rows_each : int
        Rows of a part.
    parts : list of EvaluatedRows or None
        Evaluations of each row or part so far, in random order.
    given : SharedSurrogate or None
        One that was fitted before the first row, which is kept as long as nothing predicts better.
    """

    problem: Problem
    n_rows_each: int = 1
    parts: list[EvaluatedRows | None] = field(default_factory=list)
    given: SharedSurrogate | None = field(init=False)

    def __post_init__(self) -> None:
        self.given = self.problem.shared

    def add(self, result: RowResult) -> RowResult:
        """Keep the evaluations of a row, and return its result without them."""
        self.parts.append(result.evaluated)
        return replace(result, evaluated=None)

    def fit(self, generation: Generation) -> None:
        """After all rows of a generation were added, fit the candidate that predicts them best from earlier ones."""
        assert generation.end is not None
        share = generation.share(count_numbers(self.problem))
        self.parts = [part[:share] if part else None for part in self.parts]
        old = [part for part in self.parts[: generation.first] if part]
        new = [part for part in self.parts[generation.first :] if part]
        if not old and not new:
            return
        n_rows = (generation.end + 1) * self.n_rows_each
        with one_blas_thread():  # sums over several threads differ in their last bits
            self.problem = replace(self.problem, shared=self._choose(old, new, n_rows))

    def _choose(self, old: list[EvaluatedRows], new: list[EvaluatedRows], n_rows: int) -> SharedSurrogate:
        """The function of a generation of so many rows: fitted to all, or the one that was given."""
        candidates = candidate_learners(n_rows, correlated=self.problem.correlated)
        best = 0
        if old and new and (len(candidates) > 1 or self.given is not None):
            held = EvaluatedRows.concatenate(new)
            errors = compare_learners(EvaluatedRows.concatenate(old), held, candidates)
            best = errors.index(min(errors))
            if self.given is not None and self.given.errors(held) < errors[best]:
                return replace(self.given, beside=True)
        elif self.given is not None:
            return replace(self.given, beside=True)
        return fit_shared(EvaluatedRows.concatenate([*old, *new]), candidates[best], beside=True)


@dataclass
class Lesson:
    """Evaluations that rows of a run in parts are given by earlier ones, and hand back for later ones.

    Attributes
    ----------
    function : SharedSurrogate or None
        What controls them.
    n_shared : int
        Evaluations that each row hands back.
    parts : list of EvaluatedRows
    """

    function: SharedSurrogate | None
    n_shared: int
    parts: list[EvaluatedRows] = field(default_factory=list)

    def add(self, result: RowResult) -> RowResult:
        """Keep the evaluations of a row, and return its result without them."""
        if result.evaluated:
            self.parts.append(result.evaluated)
        return replace(result, evaluated=None)


def count_numbers(problem: Problem) -> int:
    """Numbers of an evaluation: columns and outputs."""
    return len(problem.background[0]) + problem.base.n_outputs


def candidate_learners(n_rows: int, *, correlated: bool) -> tuple[Control, ...]:
    """Candidates that may be fitted for a generation of so many rows, the safest first.

    With correlated features, or players that are arranged, known values are simulated for each row: of trees that takes
    too long.
    """
    if n_rows < ROWS_FOR_NETWORKS:
        return (LogisticRidge(),)
    n_steps = min(MOST_STEPS, STEPS_A_ROW * n_rows)
    waves = WaveNetwork(n_waves=N_WAVES[correlated], n_steps=n_steps)
    if correlated or n_rows < ROWS_FOR_TREES or not boosting_available():
        return (LogisticRidge(), waves)
    after, alone = (Trees(start=start, max_rows=MOST_EVALUATIONS) for start in (waves, None))
    return (LogisticRidge(), waves, after, alone)


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
        share = generation.share(count_numbers(problem))
        yield from map(learner.add, explain(learner.problem, share, rows))
        start += len(rows)
        if start < len(items):
            learner.fit(generation)
