"""The only Monte Carlo loop: chunks of units, each with its own stream, evaluated under the memory limit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from controlshap._random import Purpose, stream
from controlshap._types import FloatArray, IntArray
from controlshap.estimators import Kernel
from controlshap.estimators.base import Estimator, UnitDraws
from controlshap.problem import BaseSample
from controlshap.sampling.batching import Merging, Order, Traced
from controlshap.sampling.game import COPIES, Game
from controlshap.sampling.visits import Replaced, Visits
from controlshap.statistics import two_stage as strata
from controlshap.statistics.batches import FEWEST_PLACES, Numbers
from controlshap.statistics.terms import BATCH, LeastSquaresTerms, Terms
from controlshap.statistics.two_stage import Strata, block_rows, visit_sequence

#: Units that share a random stream.
CHUNK = 256
#: Where evaluations are used again, most units for each that is paid for.
MOST_REPEATS = 8


@dataclass
class Sampler:
    """Evaluates the units of one row, as many as asked for, and keeps their terms.

    Unit n is the same whatever number of units is asked for and however they are batched. Of many units, `merges` puts
    terms together, and `means` keeps those of single draws of the first units only.
    """

    game: Game
    estimator: Estimator
    base: BaseSample
    entropy: int
    row: int
    independent_units: bool
    n_players: int
    replace: bool = False
    merges: bool = False
    means: bool = False
    parts: list[Terms] = field(default_factory=list)
    n_units: int = 0
    merging: Merging | None = None
    traced: list[tuple[Any, FloatArray]] = field(default_factory=list)
    thinned: Traced | None = None

    def __post_init__(self) -> None:
        rng = stream(self.entropy, Purpose.VISITS, self.row)
        n_rows = len(self.base.rows) if self.base.finite else 1
        circle = rng.permutation(n_rows)
        if self.means:
            self.game.most_by_draw = strata.MANY_UNITS
        unit_draws = getattr(self.estimator, "unit_draws", None)
        self._n_draws = self.estimator.n_draws if unit_draws is None else unit_draws(self.n_players)
        self._blocks = circle[block_rows(n_rows, self._n_draws)]
        self._visit_entropy = int(rng.integers(0, 2**62))
        self._solved: tuple[int, Terms] | None = None

    @property
    def n_blocks(self) -> int:
        """Blocks of a finite background."""
        return len(self._blocks)

    def visits(self, n_units: int) -> IntArray:
        """Block of each unit."""
        if self.n_blocks == 1:
            return np.zeros(n_units, dtype=np.int64)
        rng = np.random.default_rng(self._visit_entropy)
        if self.estimator.settles_draws:
            return rng.permutation(self.n_blocks)[:n_units]
        if self.independent_units:
            return rng.integers(0, self.n_blocks, n_units)
        return visit_sequence(self.n_blocks, n_units, rng)

    def extend(self, n_units: int) -> None:
        """Evaluate units up to the `n_units`-th."""
        if self.merging is None and self.merges and n_units > self.most_units:
            self.merging = Merging(self.order(), self.estimator, self.most_units)
            self.merging.take_over(self.parts, self.traced, self.n_units)
            self.parts, self.traced = [], []
        visits = self.visits(n_units) if self.base.finite and self.merging is None else np.arange(0)
        while self.n_units < n_units:
            first, last, inside = self._span(self.n_units, n_units, self.units_at_once)
            stop = first * CHUNK + inside.stop
            design = self._design(first, last, inside)
            numbers = index = None
            if self.merging is not None:
                numbers, index = self.merging.order.take(stop - self.n_units)
            elif self.base.finite:
                part = slice(self.n_units, stop)
                index = self._replaced(stop)[part] if self.replace else self._blocks[visits[part]]
            terms = self.estimator.terms(self.game, design, self._draws(index, first, last, inside))
            said = None
            if self.game.trace is not None:
                said = (design, np.concatenate(self.game.trace, axis=1))
                self.game.trace.clear()
            if self.merging is not None and numbers is not None:
                self.merging.add(numbers, terms, said)
            else:
                self.parts.append(self._without_draws(terms) if self.means else terms)
                self._trace(stop, said)
            self.n_units = stop

    def _without_draws(self, terms: Terms) -> Terms:
        """Targets of single draws of the first units only; copies, as views would keep all of them."""
        if not isinstance(terms, LeastSquaresTerms):
            return terms
        n_left = max(0, strata.MANY_UNITS - self.n_units)
        return replace(terms, draw_targets=terms.draw_targets[:n_left].copy())

    def _trace(self, stop: int, said: tuple[Any, FloatArray] | None) -> None:
        """Keep what the model said of units up to a number."""
        if said is None or (self.means and self.n_units >= strata.MANY_UNITS):
            return
        if getattr(self.estimator, "reuse", False):  # units of the whole background, that is of many evaluations each
            self.thinned = self.thinned or Traced()
            self.thinned.add(self._numbers(self.n_units, stop), *said)
        else:
            self.traced.append(said)

    @property
    def units_at_once(self) -> int:
        """Units that are evaluated at once, under the memory limit."""
        cost = self.estimator.unit_cost(self.n_players, finite=self.base.finite)
        doubles = max(1, cost) * len(self.game.x) * COPIES
        return max(1, int(self.game.memory_limit // (2 * 8 * doubles)))

    @property
    def most_units(self) -> int:
        """Units up to which the terms of each are kept; every block of a background has had several visits by then."""
        n_places = 0 if self.replace or not self.base.finite else FEWEST_PLACES * self.n_blocks
        return max(strata.MANY_UNITS, n_places, self.estimator.fewest_units(self.n_players))

    def order(self) -> Order:
        """All units from the first, in order."""
        blocks = self._blocks if self.base.finite and not self.replace else None
        replaced = Replaced(len(self.base.rows), self._n_draws, self._visit_entropy) if self.replace else None
        return Order(Visits(1 if blocks is None else len(blocks), self._visit_entropy), blocks, replaced)

    def replay(self, at_once: int) -> Iterator[tuple[Numbers, IntArray | None, Any, FloatArray]]:
        """All units again: numbers, background rows `(u, draws)` where it is finite, designs and draws."""
        if self.merging is None:
            design, every = self.designs(), self.draw_index() if self.base.finite else None
            for start in range(0, self.n_units, at_once):
                part = slice(start, min(self.n_units, start + at_once))
                drawn = None if every is None else every[part]
                draws = self.draw_rows(part.start, part.stop) if drawn is None else self.base.rows[drawn]
                yield self._numbers(part.start, part.stop), drawn, design[part], draws
            return
        order, done = self.order(), 0
        while done < self.n_units:
            first, last, inside = self._span(done, self.n_units, at_once)
            stop = first * CHUNK + inside.stop
            numbers, index = order.take(stop - done)
            yield numbers, index, self._design(first, last, inside), self._draws(index, first, last, inside).rows
            done = stop

    @staticmethod
    def _span(start: int, n_units: int, at_once: int) -> tuple[int, int, slice]:
        """Chunks of the next units, first and last (excluded), and the part of them: whole chunks where they fit."""
        first = start // CHUNK
        whole = (first + max(1, at_once // CHUNK)) * CHUNK
        stop = min(n_units, whole, start + at_once)
        return first, -(-stop // CHUNK), slice(start - first * CHUNK, stop - first * CHUNK)

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

    def _draws(self, index: IntArray | None, first: int, last: int, inside: slice) -> UnitDraws:
        at_mean = self.base.mean
        needs_spare = self.estimator.needs_spare_draws
        if index is not None:
            spare = self._fresh(1, first, last)[0, inside] if needs_spare else None
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

    def designs(self) -> Any:
        """Those of all units, which are not merged."""
        if self.thinned is None:
            return self.evaluated()[1]
        return np.concatenate([cast(LeastSquaresTerms, part).regressors > 0 for part in self.parts])

    def evaluated(self) -> tuple[Numbers, Any, FloatArray]:
        """Units, their designs, and what the model said, `(units, k, draws, outputs)` (where it was kept)."""
        if self.merging is not None:
            return self.merging.traced.kept
        if self.thinned is not None:
            return self.thinned.kept
        if len(self.traced) > 1:
            self.traced = [(np.concatenate([d for d, _ in self.traced]), np.concatenate([v for _, v in self.traced]))]
        return self._numbers(0, self.n_units), *self.traced[0]

    @staticmethod
    def _numbers(start: int, stop: int) -> Numbers:
        """Of units that are not merged, which need no more than their numbers."""
        units = np.arange(start, stop)
        return Numbers(units, np.zeros_like(units), units)

    def rows_of_blocks(self, blocks: IntArray) -> IntArray:
        """Background rows `(n, draws)` of blocks."""
        return self._blocks[blocks]

    def draw_index(self) -> IntArray:
        """Background rows `(units, draws)` of all units so far, or of the batches that they were merged into."""
        if self.merging is not None:
            return self._blocks[self.strata().labels]
        if len(self._blocks) == 1 and not self.replace:  # all units have the same rows
            return np.broadcast_to(self._blocks, (self.n_units, self._blocks.shape[1]))
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
            rows: FloatArray = self.base.rows[self._rows_of(units)]
            return rows
        chunks = [units[units // CHUNK == k] for k in np.unique(units // CHUNK)]
        parts = [self.draw_rows(int(some[0]), int(some[-1]) + 1)[some - some[0]] for some in chunks]
        return np.concatenate(parts)

    def _rows_of(self, units: IntArray) -> IntArray:
        if self.merging is None:
            return self.draw_index()[units]
        order, found = self.order(), []
        for start in range(0, self.n_units, BATCH):
            numbers, index = order.take(min(BATCH, self.n_units - start))
            if index is not None:
                found.append(index[np.isin(numbers.unit, units)])
        return np.concatenate(found)

    def terms(self) -> Terms:
        """All terms so far: of units, or of the batches that they were merged into."""
        if self.merging is not None:
            if self._solved is None or self._solved[0] != self.n_units:
                batches = self.merging.merged.batches
                weights = batches.unit_weights(self.strata())
                self._solved = (self.n_units, self.merging.merged.terms(self._regressors(), weights))
            return self._solved[1]
        gathered = self.estimator.gather(self.parts)
        self.parts = [gathered]
        return gathered

    def _regressors(self) -> Iterator[tuple[Numbers, FloatArray]]:
        """Of all units again, where they are rows of a regression."""
        order = self.order()
        for start in range(0, self.n_units if isinstance(self.estimator, Kernel) else 0, BATCH):
            design = self._design(*self._span(start, self.n_units, BATCH))
            yield order.take(len(design))[0], cast("Kernel", self.estimator).regressors(design)

    def strata(self) -> Strata:
        """The blocks behind the terms so far."""
        by_block = self.base.finite and (not self.independent_units or self.estimator.settles_draws)
        if self.merging is not None:
            return self.merging.merged.batches.strata(self.n_blocks if by_block else math.inf)
        return self.strata_of_rows() if by_block else Strata.independent(self.n_units)

    def strata_of_rows(self) -> Strata:
        """The blocks that units used, also where these were drawn at random."""
        if self.merging is not None:
            return self.merging.merged.batches.strata(self.n_blocks)
        return Strata(self.visits(self.n_units), self.n_blocks, settled=self.estimator.settles_draws)
