"""The only Monte Carlo loop: units in chunks, each with its own random stream, evaluated under the memory limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.data.players import differs_from_x
from controlshap.estimators.base import Estimator
from controlshap.sampling.game import COPIES, Game
from controlshap.sampling.kept import BatchedUnits, KeptUnits
from controlshap.sampling.units import Units, UnitStream, Visiting, chunk_stop
from controlshap.statistics import two_stage
from controlshap.statistics.base_sample import BaseSample
from controlshap.statistics.batches import FEWEST_PLACES
from controlshap.statistics.size_strata import SizeStrata
from controlshap.statistics.terms import Terms
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import UnitIds

#: Where rows are known, most units for each that the budget would otherwise pay for.
MOST_REPEATS = 8

Keeping = Literal["units", "batches", "coalition means"]
"""How many units are stored: one by one, in batches, or one by one with means over draws of their coalitions."""


@dataclass
class UnitSampler:
    """Evaluates the units of one row, as many as asked for, and keeps their terms.

    Attributes
    ----------
    independent_units, with_replacement : bool
        Whether blocks of background rows, or single rows, are drawn at random rather than in cycles.
    keeps : {"units", "batches", "coalition means"}
    planned : int
        Number of evaluations that the visits are planned for.
    early : bool
        Whether the run may end before these are spent.
    """

    game: Game
    estimator: Estimator
    base: BaseSample
    entropy: int
    row: int
    independent_units: bool = False
    with_replacement: bool = False
    keeps: Keeping = "units"
    planned: int = 0
    early: bool = True
    kept: KeptUnits | BatchedUnits = field(init=False)

    def __post_init__(self) -> None:
        visiting: Visiting = "in cycles"
        if not self.base.finite:
            visiting = "no rows"
        elif self.with_replacement:
            visiting = "with replacement"
        elif self.estimator.exact_per_draw:
            visiting = "once"
        elif self.independent_units:
            visiting = "at random"
        self.stream = UnitStream(self.estimator, self.game.imputer, self.base, self.entropy, self.row, visiting)
        n_by_draw = two_stage.MANY_UNITS if self.keeps == "coalition means" else math.inf
        self.kept = KeptUnits(self.stream, n_by_draw)
        if self.base.finite:
            self._know_background()
        log = self.game.log
        if log.keeps_units and self.estimator.without_replacement:
            log.n_first = n_by_draw
            log.limit()  # a unit has the whole background, and so many evaluations

    def _know_background(self) -> None:
        """Plan the visits to background rows, and take these as known where a coalition may be one of them."""
        game, base, estimator = self.game, self.base, self.estimator
        differs = differs_from_x(game.x, base.rows, game.imputer.players)
        if self.planned:
            changes = game.at_x[:, 0] - base.values[:, :, 0]
            self.stream.plan_visits(
                changes, differs, self._count_planned(float(differs.sum(axis=1).mean())), early=self.early
            )
        # where x differs from every row in every player, all coalitions of a row are different from each other and new
        all_new = estimator.has_distinct_coalitions and differs.all()
        if game.imputer.mixes_columns and not all_new:
            game.remember(base.rows, base.values[:, :, 0])

    def _count_planned(self, n_differing: float) -> int:
        """Units that the planned evaluations pay for; steps of players in which x and a row agree are free."""
        p, steps = self.game.imputer.players.n_players, max(1.0, n_differing - 1.0)
        share = 1.0 if self.estimator.is_least_squares or p < 2 else steps / (p - 1.0)
        return int((self.planned - self.game.n_evaluations) / (self.unit_cost * share))

    @property
    def n_units(self) -> int:
        """Number of units so far."""
        return self.stream.n_units

    @property
    def n_blocks(self) -> int:
        """Number of blocks of a finite background."""
        return self.stream.n_blocks

    @property
    def is_batched(self) -> bool:
        """Whether units are so many that batches of them are kept."""
        return isinstance(self.kept, BatchedUnits)

    @property
    def most_units(self) -> int:
        """Most units whose terms are kept one by one; by then every block of a background was visited several times."""
        fewest = self.estimator.fewest_units(self.game.imputer.players.n_players)
        return max(two_stage.MANY_UNITS, FEWEST_PLACES * self.stream.n_labels, fewest)

    @property
    def unit_cost(self) -> int:
        """Most evaluations of a unit, at least 1."""
        return max(1, self.estimator.unit_cost(self.game.imputer.players.n_players, finite=self.base.finite))

    @property
    def units_at_once(self) -> int:
        """Number of units that are evaluated at once, under the memory limit."""
        return max(1, int(self.game.memory_limit // (2 * 8 * self.unit_cost * len(self.game.x) * COPIES)))

    def extend(self, n_units: int) -> None:
        """Evaluate units until there are `n_units`."""
        if self.keeps == "batches" and n_units > self.most_units and isinstance(self.kept, KeptUnits):
            self.kept = BatchedUnits.adopt(self.kept, self.most_units)
            self.game.log.limit()
        while self.n_units < n_units:
            stop = chunk_stop(self.n_units, n_units, self.units_at_once)
            units = self.stream.make(*self.stream.visit(stop - self.n_units))
            self.kept.add(units, self.estimator.terms(self.game, units.design, units.draws))
            self.game.log.file(units.ids, units.design)

    def affordable(self, n_evaluations: int) -> int:
        """Most further units that so many evaluations pay for."""
        paid, start = n_evaluations // self.unit_cost, self.n_units
        left = self.estimator.n_distinct(self.game.imputer.players.n_players) - start
        if self.game.known is None or not self.estimator.takes_fitted_controls:
            return int(min(paid, left))
        ahead = self.stream.restart()
        if start:
            ahead.visit(start)
        stop = start + int(min(MOST_REPEATS * max(1, paid), left))
        while (here := ahead.n_units) < stop:
            units = ahead.make(*ahead.visit(chunk_stop(here, stop, self.units_at_once) - here))
            costs = self._costs(units).cumsum()
            if costs[-1] > n_evaluations:
                return here - start + int(np.searchsorted(costs, n_evaluations, side="right"))
            n_evaluations -= int(costs[-1])
        return stop - start

    def _costs(self, units: Units) -> IntArray:
        """Number of rows of each unit that the model evaluates."""
        known: Any = self.game.known  # in place of the value function: marks new rows instead of making rows
        new = self.estimator.unit_rows(known, self.game.x, units.design, units.draws.rows)
        return np.asarray(new.reshape(len(new), -1).sum(axis=1))

    def terms(self) -> Terms:
        """All terms so far: of units, or of batches of them."""
        return self.kept.terms()

    def size_strata(self) -> SizeStrata | None:
        """Distinct pairs of coalitions as a sample of each size; None where units are drawn with replacement."""
        if not self.estimator.without_replacement:
            return None
        return SizeStrata.of(self.stream.design(0, self.n_units))

    @property
    def is_whole(self) -> bool:
        """Whether there are no further units."""
        return self.n_units >= self.estimator.n_distinct(self.game.imputer.players.n_players)

    def strata(self) -> TwoStageDesign:
        """The design behind the terms so far."""
        return self.kept.strata()

    def strata_of_rows(self) -> TwoStageDesign:
        """The design by the blocks of background rows, even if these were drawn at random."""
        return self.kept.strata_of_rows()

    def draw_index(self) -> IntArray:
        """Background rows `(n, draws)` behind the terms."""
        return self.kept.rows()

    def kept_evaluations(self) -> tuple[UnitIds, Any, FloatArray]:
        """Units whose evaluations are kept, their designs, and outputs `(units, k, draws, outputs)`."""
        if not self.game.log.keeps_units:
            raise RuntimeError("the evaluations of units are not kept")
        return self.game.log.by_unit()

    def draws_of(self, units: IntArray) -> FloatArray:
        """The draws `(units, draws, columns)` of units in increasing order, made again."""
        if not self.base.finite:
            return self.stream.draws_of(units)
        rows: FloatArray = self.base.rows[self.kept.rows_of(units)]
        return rows

    def collect(self, at_once: int, make: Callable[[Units], FloatArray]) -> FloatArray:
        """Call `make` with all units again; its results, or means of batches of them (see `BatchedUnits.collect`)."""
        return self.kept.collect(min(at_once, self.units_at_once) if self.is_batched else at_once, make)
