"""The only Monte Carlo loop: chunks of units, each with its own stream, evaluated under the memory limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from controlshap._random import Purpose, stream
from controlshap._types import FloatArray, IntArray
from controlshap.estimators.protocol import Estimator, UnitDraws
from controlshap.estimators.terms import Terms
from controlshap.game import COPIES, Game
from controlshap.problem import BaseSample
from controlshap.strata import Strata, block_rows, visit_sequence

#: Units that share a random stream.
CHUNK = 256
#: Where evaluations are used again, most units for each that is paid for.
MOST_REPEATS = 8


@dataclass
class Sampler:
    """Evaluates the units of one row, as many as asked for, and keeps their terms.

    Unit n is the same whatever number of units is asked for and however they are batched.
    """

    game: Game
    estimator: Estimator
    base: BaseSample
    entropy: int
    row: int
    independent_units: bool
    n_players: int
    replace: bool = False
    parts: list[Terms] = field(default_factory=list)
    n_units: int = 0
    traced: list[tuple[Any, FloatArray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = stream(self.entropy, Purpose.VISITS, self.row)
        n_rows = len(self.base.rows) if self.base.finite else 1
        circle = rng.permutation(n_rows)
        unit_draws = getattr(self.estimator, "unit_draws", None)
        self._n_draws = self.estimator.n_draws if unit_draws is None else unit_draws(self.n_players)
        self._blocks = circle[block_rows(n_rows, self._n_draws)]
        self._visit_entropy = int(rng.integers(0, 2**62))

    @property
    def n_blocks(self) -> int:
        """Blocks of a finite background."""
        return len(self._blocks)

    def visits(self, n_units: int) -> IntArray:
        """Block of each unit."""
        rng = np.random.default_rng(self._visit_entropy)
        if self.estimator.settles_draws:
            return rng.permutation(self.n_blocks)[:n_units]
        if self.independent_units:
            return rng.integers(0, self.n_blocks, n_units)
        return visit_sequence(self.n_blocks, n_units, rng)

    def extend(self, n_units: int) -> None:
        """Evaluate units up to the `n_units`-th."""
        cost = self.estimator.unit_cost(self.n_players, finite=self.base.finite)
        doubles = max(1, cost) * len(self.game.x) * COPIES
        units_at_once = max(1, int(self.game.memory_limit // (2 * 8 * doubles)))
        visits = self.visits(n_units) if self.base.finite else np.arange(n_units)
        while self.n_units < n_units:
            first = self.n_units // CHUNK
            # Whole chunks where they fit; otherwise a part of one.
            whole = (first + max(1, units_at_once // CHUNK)) * CHUNK
            stop = min(n_units, whole, self.n_units + units_at_once)
            last = -(-stop // CHUNK)
            inside = slice(self.n_units - first * CHUNK, stop - first * CHUNK)
            design = self._design(first, last, inside)
            draws = self._draws(visits, first, last, inside)
            self.parts.append(self.estimator.terms(self.game, design, draws))
            if self.game.trace is not None:
                self.traced.append((design, np.concatenate(self.game.trace, axis=1)))
                self.game.trace.clear()
            self.n_units = stop

    def affordable(self, n_evaluations: int) -> int:
        """Most units that so many evaluations pay for."""
        cost = max(1, self.estimator.unit_cost(self.n_players, finite=self.base.finite))
        if not getattr(self.estimator, "reuse", False):
            return n_evaluations // cost
        distinct: dict[bytes, int] = {}
        for chunk in range(MOST_REPEATS * max(1, n_evaluations // cost) // CHUNK + 1):
            design = self._design(chunk, chunk + 1, slice(0, CHUNK))
            pairs = np.where(design[:, :1], design, ~design)
            for number, pair in enumerate(np.packbits(pairs, axis=1), start=chunk * CHUNK):
                distinct.setdefault(pair.tobytes(), number)
                if len(distinct) * cost > n_evaluations:
                    return number
        return MOST_REPEATS * max(1, n_evaluations // cost)

    def _design(self, first: int, last: int, inside: slice) -> Any:
        if self.estimator.settles_draws:  # nothing random, and large: the same coalitions for every unit
            rng = stream(self.entropy, Purpose.COALITIONS, self.row)
            return self.estimator.sample(self.n_players, inside.stop - inside.start, rng)
        streams = (stream(self.entropy, Purpose.COALITIONS, self.row, k) for k in range(first, last))
        return np.concatenate([self.estimator.sample(self.n_players, CHUNK, rng) for rng in streams])[inside]

    def _draws(self, visits: IntArray, first: int, last: int, inside: slice) -> UnitDraws:
        at_mean = self.base.mean
        needs_spare = self.estimator.needs_spare_draws
        if self.base.finite:
            spare = self._fresh(1, first, last)[0, inside] if needs_spare else None
            part = slice(first * CHUNK + inside.start, first * CHUNK + inside.stop)
            index = self._replaced(part.stop)[part] if self.replace else self._blocks[visits[part]]
            return UnitDraws(self.base.rows[index], self.base.values[index], spare, at_mean)
        rows = self._fresh(2 if needs_spare else 1, first, last)[:, inside]
        return UnitDraws(rows[0], None, rows[1] if needs_spare else None, at_mean)

    def _fresh(self, n_sets: int, first: int, last: int) -> FloatArray:
        """Independent draws `(n_sets, units, n_draws, columns)` for the units of some chunks."""
        n_draws = self._n_draws
        sets = []
        for k in range(first, last):
            rng = stream(self.entropy, Purpose.DRAWS, self.row, k)
            sets.append(self.game.imputer.sample(n_sets * CHUNK * n_draws, rng).reshape(n_sets, CHUNK, n_draws, -1))
        return np.concatenate(sets, axis=1)

    def evaluated(self) -> tuple[Any, FloatArray]:
        """Designs of all units so far and what the model said, `(units, k, draws, outputs)` (where it was kept)."""
        if len(self.traced) > 1:
            self.traced = [(np.concatenate([d for d, _ in self.traced]), np.concatenate([v for _, v in self.traced]))]
        return self.traced[0]

    def draw_index(self) -> IntArray:
        """Background rows `(units, draws)` of all units so far."""
        index: IntArray = self._replaced(self.n_units) if self.replace else self._blocks[self.visits(self.n_units)]
        return index

    def _replaced(self, n_units: int) -> IntArray:
        """Background rows `(units, draws)` drawn with replacement; of fewer units they are the first of these."""
        rng = np.random.default_rng(self._visit_entropy)
        return rng.integers(0, len(self.base.rows), (n_units, self._n_draws))

    def draw_rows(self, start: int, stop: int) -> FloatArray:
        """The draws `(units, draws, columns)` of some units, again."""
        if self.base.finite:
            rows: FloatArray = self.base.rows[self.draw_index()[start:stop]]
            return rows
        first, last = start // CHUNK, -(-stop // CHUNK)
        n_sets = 2 if self.estimator.needs_spare_draws else 1
        return self._fresh(n_sets, first, last)[0, start - first * CHUNK : stop - first * CHUNK]

    def draws_of(self, units: IntArray) -> FloatArray:
        """The draws `(units, draws, columns)` of units in increasing order, again."""
        if self.base.finite:
            rows: FloatArray = self.base.rows[self.draw_index()[units]]
            return rows
        chunks = [units[units // CHUNK == k] for k in np.unique(units // CHUNK)]
        parts = [self.draw_rows(int(some[0]), int(some[-1]) + 1)[some - some[0]] for some in chunks]
        return np.concatenate(parts)

    def terms(self) -> Terms:
        """All terms so far."""
        gathered = self.estimator.gather(self.parts)
        self.parts = [gathered]
        return gathered

    def strata(self) -> Strata:
        """The blocks behind the terms so far."""
        if not self.base.finite or (self.independent_units and not self.estimator.settles_draws):
            return Strata.independent(self.n_units)
        return Strata(self.visits(self.n_units), self.n_blocks, settled=self.estimator.settles_draws)
