"""Sample (co)variance of the units, for estimates that are means (the paper, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.terms import Terms
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.variances.base import Variance


@final
@dataclass(frozen=True)
class Analytic(Variance):
    """Variance of the terms over the number of units; two-stage where blocks are revisited."""

    takes_batches = True
    has_device_form = True

    def check(self, *, least_squares: bool, n_draws: int) -> None:  # noqa: ARG002
        """Refuse least squares: only means have an analytic variance."""
        if least_squares:
            raise InvalidArgumentError(
                "`variance='analytic'` fits estimates that are means of their units (permutation walks, "
                "per-feature sampling); KernelSHAP solves a least-squares problem. Use "
                "variance='least_squares', 'bootstrap' or 'auto'."
            )

    def roots(self, terms: Terms, strata: TwoStageDesign, rng: np.random.Generator) -> CovarianceRoot:  # noqa: ARG002
        """Two-stage covariance of the terms."""
        return strata.covariance_root(terms.pseudo_values(strata.weights))
