"""The evaluations of a row in order, so that a later run need not ask the model again.

A run is a function of its seed: units, their rows and the order in which these are evaluated come again. A longer run
with the same stages therefore begins with exactly the evaluations of the shorter one, and reads them from here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray


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
