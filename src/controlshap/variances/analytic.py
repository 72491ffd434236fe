"""Sample (co)variance of the units, for estimates that are means (the paper, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.statistics.terms import Terms
from controlshap.statistics.two_stage import Roots, Strata


@final
@dataclass(frozen=True)
class Analytic:
    """Variance of the terms over the number of units; two-stage where blocks are revisited."""

    @property
    def needs_independent_units(self) -> bool:
        """Cycles are accounted for."""
        return False

    @property
    def takes_batches(self) -> bool:
        """Yes."""
        return True

    @property
    def by_units(self) -> bool:
        """Yes."""
        return True

    @property
    def fewest_units(self) -> int:
        """Two."""
        return 2

    def check(self, *, least_squares: bool, n_draws: int) -> None:  # noqa: ARG002
        """Only means have an analytic variance."""
        if least_squares:
            raise InvalidArgumentError(
                "`variance='analytic'` fits estimates that are means of their units (permutation walks, "
                "per-feature sampling); KernelSHAP solves a least-squares problem. Use "
                "variance='least_squares', 'bootstrap' or 'auto'."
            )

    def roots(self, terms: Terms, strata: Strata, rng: np.random.Generator) -> Roots:  # noqa: ARG002
        """Two-stage covariance of the terms."""
        return strata.roots(terms.pseudo_values(strata.weights))
