"""Bootstrap over units (the paper, section 4.2, first method)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._checks import is_whole, show
from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.terms import Terms
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.variances.base import Variance

#: Resamples solved together.
AT_ONCE = 20


@final
@dataclass(frozen=True)
class Bootstrap(Variance):
    """Resample units, solve again, take the covariance of the solutions.

    Parameters
    ----------
    n_resamples : int
        Number of resamples; the paper uses 200.
    """

    n_resamples: int = 200

    takes_batches = True
    by_units = False
    resamples = True

    def __post_init__(self) -> None:
        if not is_whole(self.n_resamples) or not 10 <= self.n_resamples <= 10**9:
            raise InvalidArgumentError(
                f"`n_resamples` must be a whole number of at least 10; got {show(self.n_resamples)}. The paper "
                "uses 200."
            )

    def roots(self, terms: Terms, strata: TwoStageDesign, rng: np.random.Generator) -> CovarianceRoot:
        """Covariance of the resampled estimates."""
        if strata.sizes is not None:
            return self._multiply_roots(strata.covariance_root(terms.pseudo_values(strata.weights)), rng)
        # A few resamples at a time: their weights are as long as the units are many.
        counts = [min(AT_ONCE, self.n_resamples - done) for done in range(0, self.n_resamples, AT_ONCE)]
        estimates = np.concatenate([terms.solve(strata.resample(count, rng)) for count in counts])
        rows = (estimates - estimates.mean(axis=0)) / np.sqrt(self.n_resamples - 1)
        if strata.is_independent:
            # The ordinary bootstrap variance has divisor n, and no more degrees of freedom than the units.
            rows *= np.sqrt(terms.n_units / (terms.n_units - 1))
            unit_dof = terms.n_units - 1.0
        else:
            reference = strata.covariance_root(terms.pseudo_values(strata.weights))
            unit_dof = float(np.median(reference.degrees_of_freedom()))
        return self._as_roots(rows, unit_dof)

    def _multiply_roots(self, roots: CovarianceRoot, rng: np.random.Generator) -> CovarianceRoot:
        """Resample batches: sums of roots times normal numbers have the covariance of the estimate."""
        rows = np.tensordot(rng.standard_normal((self.n_resamples, len(roots.factors))), roots.factors, axes=1)
        rows = (rows - rows.mean(axis=0)) / np.sqrt(self.n_resamples - 1)
        return self._as_roots(rows, float(np.median(roots.degrees_of_freedom())))

    def _as_roots(self, rows: FloatArray, unit_dof: float) -> CovarianceRoot:
        dof = 1.0 / (1.0 / (self.n_resamples - 1) + 1.0 / unit_dof)
        return CovarianceRoot(rows, np.zeros(len(rows), dtype=np.int64), np.array([dof]))
