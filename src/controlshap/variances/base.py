"""What a variance method is."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from controlshap.statistics.terms import Terms
from controlshap.statistics.two_stage import Roots, Strata


class Variance(Protocol):
    """A square root of the covariance of the estimate, over components and functions."""

    @property
    def needs_independent_units(self) -> bool:
        """Whether background rows must be drawn at random rather than in cycles."""

    @property
    def takes_batches(self) -> bool:
        """Whether means of batches of units do in place of units (`Strata.sizes`)."""

    @property
    def by_units(self) -> bool:
        """Whether the roots come from units, so that some can be left out."""

    @property
    def fewest_units(self) -> int:
        """Units below which there is no variance."""

    def check(self, *, least_squares: bool, n_draws: int) -> None:
        """Refuse an estimator that this method does not fit."""

    def roots(self, terms: Terms, strata: Strata, rng: np.random.Generator) -> Roots:
        """The covariance, with its degrees of freedom."""
