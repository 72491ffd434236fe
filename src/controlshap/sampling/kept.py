"""The storage of one row: the terms of its units or, if they are many, of batches of them, and all evaluations.

Units are kept together with their stream, which makes them again. Evaluations are kept by unit, for functions that are
fitted to them (`EvaluationLog`), and in their order, to continue a run (`Recording`): a run is a function of its
seed, so that a longer run with the same stages begins with exactly the evaluations of the shorter one, and reads them
from its recording.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray, IntArray
from controlshap.sampling.units import Units, UnitStream, chunk_stop
from controlshap.statistics.batched_terms import Merged, start_batches
from controlshap.statistics.batches import Batches
from controlshap.statistics.terms import BATCH, Terms, UnitTerms
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import UnitIds

#: Evaluations that are kept for fits if units are many: twice as many as any fit uses.
MOST_EVALUATIONS = 100_000
#: Fewest units whose evaluations are kept.
FEWEST_UNITS = 64


@dataclass
class KeptUnits:
    """Units one by one.

    Attributes
    ----------
    stream : UnitStream
        Where the next units come from.
    n_by_draw : float
        Units whose single draws are kept.
    """

    stream: UnitStream
    n_by_draw: float = math.inf
    _ids: list[UnitIds] = field(default_factory=list)
    _rows: list[IntArray] = field(default_factory=list)
    _terms: list[UnitTerms] = field(default_factory=list)
    _design: TwoStageDesign | None = None

    def add(self, units: Units, terms: UnitTerms) -> None:
        """Keep the next units."""
        if math.isfinite(self.n_by_draw):
            terms = terms.keep_draws(max(0, int(self.n_by_draw) - int(units.ids.unit[0])))
        self._ids.append(units.ids)
        self._terms.append(terms)
        if self.stream.visiting == "with replacement" and units.rows is not None:
            self._rows.append(units.rows)

    @property
    def ids(self) -> UnitIds:
        """All units kept so far."""
        if len(self._ids) > 1:
            self._ids = [UnitIds.concatenate(self._ids)]
        return self._ids[0]

    def rows(self) -> IntArray:
        """Background rows `(units, draws)` of all units."""
        if not self._rows:
            return self.stream.block_rows(self.ids.block)
        self._rows = [np.concatenate(self._rows)]
        return self._rows[0]

    def visited_rows(self) -> IntArray:
        """Background rows `(n, draws)` that were used, unit by unit."""
        return self.rows()

    def rows_of(self, units: IntArray) -> IntArray:
        """Background rows of some units."""
        return self.rows()[units]

    def strata(self) -> TwoStageDesign:
        """The design of the units."""
        return self.strata_of_rows() if self.stream.in_blocks else TwoStageDesign.independent(len(self.ids))

    def strata_of_rows(self) -> TwoStageDesign:
        """The design by the blocks that units used, even if these were drawn at random."""
        stream, blocks = self.stream, self.ids.block
        # a design caches what it computes of its blocks
        if self._design is None or self._design.labels is not blocks:
            exact = stream.estimator.exact_per_draw
            self._design = TwoStageDesign(blocks, stream.n_blocks, exact_within=exact, taken=stream.taken)
        return self._design

    def terms(self) -> UnitTerms:
        """The terms of all units."""
        self._terms = [self.stream.estimator.gather(self._terms)]
        return self._terms[0]

    def replay(self, at_once: int) -> Iterator[Units]:
        """All units again."""
        ids, rows = self.ids, self.rows() if self.stream.base.finite else None
        for start in range(0, len(ids), at_once):
            part = slice(start, start + at_once)
            yield self.stream.make(ids[part], None if rows is None else rows[part])

    def collect(self, at_once: int, make: Callable[[Units], FloatArray]) -> FloatArray:
        """Call `make` with all units again; its results, `(units, ...)`."""
        return np.concatenate([make(units) for units in self.replay(at_once)])


@dataclass
class BatchedUnits:
    """Terms of many units in batches.

    Attributes
    ----------
    stream : UnitStream
        Where the next units come from.
    fewest : int
        Units that are collected before any are merged: a regression is linearised at their solution.
    """

    stream: UnitStream
    fewest: int
    _waiting: list[tuple[UnitIds, UnitTerms]] = field(default_factory=list)
    _merged: Merged | None = None
    _solved: Terms | None = None

    @classmethod
    def adopt(cls, kept: KeptUnits, fewest: int) -> BatchedUnits:
        """Go on from units that were kept one by one."""
        batched = cls(kept.stream, fewest)
        if kept.stream.n_units:
            batched._add(kept.ids, kept.terms())
        return batched

    def add(self, units: Units, terms: UnitTerms) -> None:
        """Merge the next units."""
        self._add(units.ids, terms)

    def _add(self, ids: UnitIds, terms: UnitTerms) -> None:
        self._waiting.append((ids, terms))
        if self._merged is None:
            if sum(len(waiting) for waiting, _ in self._waiting) < self.fewest:
                return
            first = self.stream.estimator.gather([terms for _, terms in self._waiting])
            self._merged = start_batches(Batches(self.stream.n_labels), first, self.fewest)
        for waiting, of_waiting in self._waiting:
            self._merged.add(waiting, of_waiting)
        self._waiting, self._solved = [], None

    @property
    def merged(self) -> Merged:
        """The batches of all units."""
        if self._merged is None:  # pragma: no cover - there is an estimate after `fewest` units only
            raise RuntimeError("no units were merged yet")
        return self._merged

    def rows(self) -> IntArray:
        """Background rows `(batches, draws)` of all batches."""
        return self.stream.block_rows(self.strata().labels)

    def visited_rows(self) -> IntArray:
        """Background rows `(n, draws)` that were used: all, since units are many."""
        if self.stream.in_blocks:
            return self.stream.block_rows(np.arange(self.stream.n_blocks))
        return np.arange(len(self.stream.base.rows))[:, None]

    def rows_of(self, units: IntArray) -> IntArray:
        """Background rows of some units, in increasing order."""
        stream, parts = self.stream.restart(), []
        for start in range(0, self.stream.n_units, BATCH):
            ids, rows = stream.visit(min(BATCH, self.stream.n_units - start))
            if rows is not None:
                parts.append(rows[np.isin(ids.unit, units)])
        return np.concatenate(parts)

    def strata(self) -> TwoStageDesign:
        """The design of the batches."""
        return self.merged.batches.design(self.stream.n_blocks if self.stream.in_blocks else math.inf)

    def strata_of_rows(self) -> TwoStageDesign:
        """The design by the blocks that batches used, even if these were drawn at random."""
        return self.merged.batches.design(self.stream.n_blocks)

    def terms(self) -> Terms:
        """One term for each batch."""
        if self._solved is None:
            self._solved = self.merged.terms(self._regressors, self.merged.batches.unit_weights(self.strata()))
        return self._solved

    def _regressors(self) -> Iterator[tuple[UnitIds, FloatArray]]:
        """The regressors of all units again, where these are rows of a regression."""
        stream, estimator, n_units = self.stream.restart(), self.stream.estimator, self.stream.n_units
        while estimator.is_least_squares and stream.n_units < n_units:
            start = stream.n_units
            ids, _ = stream.visit(chunk_stop(start, n_units, BATCH) - start)
            yield ids, estimator.regressors(stream.design(start, stream.n_units))

    def replay(self, at_once: int) -> Iterator[Units]:
        """All units again."""
        stream, n_units = self.stream.restart(), self.stream.n_units
        while stream.n_units < n_units:
            yield stream.make(*stream.visit(chunk_stop(stream.n_units, n_units, at_once) - stream.n_units))

    def collect(self, at_once: int, make: Callable[[Units], FloatArray]) -> FloatArray:
        """Means over batches of the results of `make` for all units; regression targets are times their regressors."""
        batches, estimator = self.merged.batches.empty_like(), self.stream.estimator
        for units in self.replay(min(at_once, BATCH)):
            values = make(units)
            if estimator.is_least_squares:
                values = estimator.regressors(units.design)[:, :, None, None] * values.mean(axis=1)[:, None]
            batches.add(units.ids, values)
        return batches.means()


@dataclass
class Recording:
    """Evaluations of one row.

    Attributes
    ----------
    outputs : ndarray of shape (n, outputs) or None
        Outputs of an earlier run.
    stages : tuple of int
        Units after which the earlier run looked at its results.
    records : bool
        Whether new evaluations are kept.
    most_bytes : float
        When new evaluations take more than this, all of them are dropped.
    """

    outputs: FloatArray | None = None
    stages: tuple[int, ...] = ()
    records: bool = False
    most_bytes: float = math.inf
    position: int = 0
    added: list[FloatArray] = field(default_factory=list)
    n_bytes: int = 0

    @property
    def n_kept(self) -> int:
        """Number of evaluations of the earlier run."""
        return 0 if self.outputs is None else len(self.outputs)

    def evaluate(self, rows: FloatArray, model: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Outputs `(n, outputs)` of rows: recorded ones first, the model's for the rest."""
        known = self.outputs[self.position : self.position + len(rows)] if self.outputs is not None else None
        if known is None or len(known) == 0:
            return self._record(model(rows))
        self.position += len(known)
        if len(known) == len(rows):
            return known
        return np.concatenate([known, self._record(model(rows[len(known) :]))])

    def _record(self, outputs: FloatArray) -> FloatArray:
        if self.records:
            self.added.append(outputs)
            self.n_bytes += outputs.nbytes
            if self.n_bytes > self.most_bytes:
                self.records, self.added = False, []
        return outputs

    def check_used(self) -> None:
        """Refuse to go on from the recording of another run."""
        if self.position != self.n_kept or (self.n_kept and self.added):
            raise InvalidArgumentError(
                f"`explanation`: its {self.n_kept} evaluations are not those of a run of this explainer. Refine it "
                "with the explainer that made it, or one with the same settings and background."
            )

    def all_outputs(self) -> FloatArray | None:
        """Everything evaluated so far, `(n, outputs)`; None where it was not kept."""
        if not self.records:
            return None
        return np.concatenate(([] if self.outputs is None else [self.outputs]) + self.added)


@dataclass
class EvaluationLog:
    """Evaluations of one row.

    Attributes
    ----------
    recording : Recording
    keeps_units : bool
        Whether evaluations are kept by unit, because functions are fitted to them: of all units, or of units evenly
        spread.
    most_evaluations : float
        When there are more, every second unit is dropped.
    n_first : float
        Units from this number on are not kept.
    stride : int
        Every so many-th unit is kept.
    parts : list
        Units, their designs, and outputs `(units, k, draws, outputs)`.
    means : list of ndarray of shape (units, k, outputs), or None
        Means over draws of all units in order, where interactions are asked for.
    starts : list of ndarray of shape (units, outputs)
        v_b(0) of the same units, where they evaluate it.
    """

    recording: Recording = field(default_factory=Recording)
    keeps_units: bool = False
    most_evaluations: float = math.inf
    n_first: float = math.inf
    stride: int = 1
    parts: list[tuple[UnitIds, Any, FloatArray]] = field(default_factory=list)
    means: list[FloatArray] | None = None
    starts: list[FloatArray] = field(default_factory=list)
    _pending: list[FloatArray] = field(default_factory=list)

    def note(self, outputs: FloatArray) -> None:
        """Note outputs `(u, k, draws, outputs)` of the units that are being evaluated."""
        if self.keeps_units or self.means is not None:
            self._pending.append(outputs)

    def file(self, ids: UnitIds, design: Any) -> None:
        """Store the noted outputs with their units, or with some of them."""
        if not self._pending:
            return
        outputs = np.concatenate(self._pending, axis=1)
        self._pending.clear()
        if self.keeps_units and ids.unit[0] < self.n_first:
            self.parts.append((ids, design, outputs) if self.stride == 1 else _every(self.stride, ids, design, outputs))
            self._thin()
        if self.means is not None:
            self.means.append(outputs.mean(axis=2))

    def limit(self) -> None:
        """Keep no more than a fixed number of evaluations by unit from now on."""
        self.most_evaluations = MOST_EVALUATIONS
        self._thin()

    def _thin(self) -> None:
        if not self.parts or math.isinf(self.most_evaluations):
            return
        most = max(FEWEST_UNITS, self.most_evaluations // int(np.prod(self.parts[0][2].shape[1:3])))
        while sum(len(ids) for ids, _, _ in self.parts) > most:
            self.stride *= 2
            self.parts = [_every(self.stride, *part) for part in self.parts]

    def by_unit(self) -> tuple[UnitIds, Any, FloatArray]:
        """Everything that is kept by unit: units, their designs, and outputs `(units, k, draws, outputs)`."""
        if len(self.parts) > 1:
            ids = UnitIds.concatenate([part[0] for part in self.parts])
            design, outputs = (np.concatenate([part[k] for part in self.parts]) for k in (1, 2))
            self.parts = [(ids, design, outputs)]
        return self.parts[0]


def _every(stride: int, ids: UnitIds, design: Any, outputs: FloatArray) -> tuple[UnitIds, Any, FloatArray]:
    """Units whose number is a multiple of `stride`; copies, as views would keep all of them."""
    chosen = np.flatnonzero(ids.unit % stride == 0)
    return ids[chosen], design[chosen], outputs[chosen]
