"""The one memory of what the model said about a row, with two views of it.

In the order of evaluation (`Recording`), to go on with a run: it is a function of its seed, so that a longer run with
the same stages begins with exactly the evaluations of the shorter one, and reads them from there. And by unit
(`EvaluationSample`), for what is fitted to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.statistics.visits import UnitIds

#: Evaluations that are kept for fits where units are many: twice what any fit sees.
MOST_EVALUATIONS = 100_000
#: Units of which evaluations are kept, at least.
FEWEST_UNITS = 64


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
        """Evaluations of the earlier run."""
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
class EvaluationSample:
    """The evaluations of all units, or of units evenly spread.

    Attributes
    ----------
    most_evaluations : float
        Beyond this many, every second unit that was kept is dropped.
    n_first : float
        Units from this number on are not kept.
    stride : int
        Every so many-th unit is kept.
    parts : list
        Units, their designs, and outputs `(units, k, draws, outputs)`.
    """

    most_evaluations: float = math.inf
    n_first: float = math.inf
    stride: int = 1
    parts: list[tuple[UnitIds, Any, FloatArray]] = field(default_factory=list)

    def add(self, ids: UnitIds, design: Any, outputs: FloatArray) -> None:
        """Keep the next units, or some of them."""
        if ids.unit[0] < self.n_first:
            self.parts.append((ids, design, outputs) if self.stride == 1 else _every(self.stride, ids, design, outputs))
            self._thin()

    def limit(self) -> None:
        """Keep no more than a fixed number of evaluations from now on."""
        self.most_evaluations = MOST_EVALUATIONS
        self._thin()

    def _thin(self) -> None:
        if not self.parts or math.isinf(self.most_evaluations):
            return
        most = max(FEWEST_UNITS, self.most_evaluations // int(np.prod(self.parts[0][2].shape[1:3])))
        while sum(len(ids) for ids, _, _ in self.parts) > most:
            self.stride *= 2
            self.parts = [_every(self.stride, *part) for part in self.parts]

    def all(self) -> tuple[UnitIds, Any, FloatArray]:
        """Everything that is kept: units, their designs, and outputs `(units, k, draws, outputs)`."""
        if len(self.parts) > 1:
            ids = UnitIds.concatenate([part[0] for part in self.parts])
            design, outputs = (np.concatenate([part[k] for part in self.parts]) for k in (1, 2))
            self.parts = [(ids, design, outputs)]
        return self.parts[0]


def _every(stride: int, ids: UnitIds, design: Any, outputs: FloatArray) -> tuple[UnitIds, Any, FloatArray]:
    """Units whose number is a multiple of `stride`; copies, as views would keep all of them."""
    chosen = np.flatnonzero(ids.unit % stride == 0)
    return ids[chosen], design[chosen], outputs[chosen]


@dataclass
class EvaluationLog:
    """Evaluations of one row.

    Attributes
    ----------
    recording : Recording
    units : EvaluationSample or None
        None where nothing is fitted to the evaluations.
    means : list of ndarray of shape (units, k, outputs), or None
        Means over draws of all units in order, where interactions are asked for.
    starts : list of ndarray of shape (units, outputs)
        Beside them v_b(0), where units evaluate it.
    """

    recording: Recording = field(default_factory=Recording)
    units: EvaluationSample | None = None
    means: list[FloatArray] | None = None
    starts: list[FloatArray] = field(default_factory=list)
    _pending: list[FloatArray] = field(default_factory=list)

    def note(self, outputs: FloatArray) -> None:
        """Note outputs `(u, k, draws, outputs)` of the units that are being evaluated."""
        if self.units is not None or self.means is not None:
            self._pending.append(outputs)

    def file(self, ids: UnitIds, design: Any) -> None:
        """File what was noted under its units."""
        if not self._pending:
            return
        outputs = np.concatenate(self._pending, axis=1)
        self._pending.clear()
        if self.units is not None:
            self.units.add(ids, design, outputs)
        if self.means is not None:
            self.means.append(outputs.mean(axis=2))
