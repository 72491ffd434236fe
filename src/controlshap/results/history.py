"""How the values of a row settled while its evaluations came in."""

from __future__ import annotations

from dataclasses import dataclass

from controlshap._types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class History:
    """Estimates of one row after each stage of its run.

    Attributes
    ----------
    n_evaluations : ndarray of shape (stages,)
        Model evaluations spent by then.
    values : ndarray of shape (stages, players) or (stages, players, outputs)
    standard_errors : ndarray of the same shape
    """

    n_evaluations: IntArray
    values: FloatArray
    standard_errors: FloatArray

    def __len__(self) -> int:
        return len(self.n_evaluations)
