"""Split the units into groups and compare the groups' estimates (the paper, section 4.2, third method).

The paper finds it erratic, and so do we: with few groups the variance has few degrees of freedom,
with many a group's least-squares system is close to singular.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._checks import is_whole, show
from controlshap._errors import ErraticVarianceWarning, InvalidArgumentError
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.terms import Terms
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.variances.base import Variance

#: Units per group and player below which least squares in a group is erratic.
COMFORTABLE = 10


@final
@dataclass(frozen=True)
class Grouped(Variance):
    """Covariance between groups of units, with groups - 1 degrees of freedom.

    Parameters
    ----------
    n_groups : int
        Number of groups; the paper uses 20.
    """

    n_groups: int = 20

    needs_independent_units = True  # groups must be alike
    by_units = False

    def __post_init__(self) -> None:
        if not is_whole(self.n_groups) or not 3 <= self.n_groups <= 10**9:
            raise InvalidArgumentError(
                f"`n_groups` must be a whole number of at least 3; got {show(self.n_groups)}. The paper uses 20."
            )

    @property
    def fewest_units(self) -> int:
        """Two in each group, to have a spread."""
        return 2 * self.n_groups

    def roots(self, terms: Terms, strata: TwoStageDesign, rng: np.random.Generator) -> CovarianceRoot:  # noqa: ARG002
        """Covariance of the group estimates, over the number of groups."""
        n = terms.n_units
        if not strata.is_independent:
            raise InvalidArgumentError(
                "`variance=Grouped()` needs independent units, but these visit the background in cycles. "
                "Use variance='auto' or 'bootstrap'."
            )
        if n < 2 * self.n_groups:
            raise InvalidArgumentError(
                f"`variance=Grouped({self.n_groups})` needs at least {2 * self.n_groups} units; this run has "
                f"{n}. Raise `budget` or lower `n_groups`."
            )
        size = n // self.n_groups
        n_players = terms.n_fitted + 1
        if terms.n_fitted and size < COMFORTABLE * n_players:
            warnings.warn(
                f"Grouped({self.n_groups}) leaves {size} units a group for {n_players} players; below "
                f"{COMFORTABLE} times as many units as players its errors are erratic. Use "
                "variance='least_squares' or 'bootstrap'.",
                ErraticVarianceWarning,
                stacklevel=2,
            )
        group = np.arange(n) % self.n_groups
        weights = (group == np.arange(self.n_groups)[:, None]).astype(float)
        weights /= weights.sum(axis=1, keepdims=True)
        estimates = terms.solve(weights)
        rows = (estimates - estimates.mean(axis=0)) / np.sqrt(self.n_groups * (self.n_groups - 1))
        return CovarianceRoot(rows, np.zeros(self.n_groups, dtype=np.int64), np.array([self.n_groups - 1.0]))
