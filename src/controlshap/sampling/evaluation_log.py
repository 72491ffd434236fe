"""The one memory of what the model said about a row, with two views of it.

In the order of evaluation (`recording`), to go on with a run; and by unit (`units`), for what is fitted to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from controlshap._types import FloatArray
from controlshap.sampling.recording import Recording
from controlshap.statistics.batches import UnitIds

#: Evaluations that are kept for fits where units are many: twice what any fit sees.
MOST_EVALUATIONS = 100_000
#: Units of which evaluations are kept, at least.
FEWEST_UNITS = 64


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
    """

    recording: Recording = field(default_factory=Recording)
    units: EvaluationSample | None = None
    means: list[FloatArray] | None = None
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
