"""When to stop: pure functions of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from controlshap._types import FloatArray

#: How much longer each stage is than the one before.
GROWTH = 1.4


@dataclass(frozen=True)
class Stopping:
    """Largest number of evaluations of a row, and the accuracy at which to stop before.

    Attributes
    ----------
    budget : int
    tolerance : float or None
        Largest standard error divided by the spread (largest minus smallest) of the values, as in Covert and Lee.
    """

    budget: int
    tolerance: float | None

    def error_ratio(self, values: FloatArray, standard_errors: FloatArray) -> float:
        """Largest standard error over what is tolerated, of values `(players, outputs)`; 1 or less is accurate enough.

        Without a tolerance it is 1.
        """
        if self.tolerance is None:
            return 1.0
        spread = np.ptp(values, axis=0) if len(values) > 1 else np.abs(values[0])
        limit, largest = self.tolerance * spread, standard_errors.max(axis=0)
        ratio = np.where(limit > 0, largest / np.where(limit > 0, limit, 1.0), np.where(largest > 0, np.inf, 0.0))
        return float(ratio.max())

    def stages(self, fewest: int, most: int) -> Iterator[int]:
        """Unit counts at which to look; the last is `most`."""
        n = min(most, max(fewest, 16))
        while self.tolerance is not None and n < most:
            yield n
            n = min(most, int(np.ceil(n * GROWTH)))
        yield most
