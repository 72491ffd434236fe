"""Covariance of the KernelSHAP regression (the paper, section 4.2, second method).

The default linearises the solution in both the values and the choice of coalitions (the delta
method). The paper's own formula, `A(Z) Var(v) A(Z)^T`, sees only the noise of the draws within a
coalition and is kept for comparison: `LeastSquares(paper=True)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast, final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.terms import LeastSquaresTerms, Terms
from controlshap.statistics.two_stage import MANY_UNITS, TwoStageDesign
from controlshap.variances.base import Variance


@final
@dataclass(frozen=True)
class LeastSquares(Variance):
    """Delta-method covariance of constrained least squares.

    Parameters
    ----------
    paper : bool
        Use the paper's formula, which needs two draws or more for each coalition and leaves out the
        variance due to the choice of coalitions.
    """

    paper: bool = False

    is_least_squares = True

    @property
    def takes_batches(self) -> bool:
        """Whether the delta method is used."""
        return not self.paper

    @property
    def by_units(self) -> bool:
        """Whether the delta method is used."""
        return not self.paper

    def check(self, *, least_squares: bool, n_draws: int) -> None:
        """Refuse estimates that are means and, for the paper's formula, single draws."""
        if not least_squares:
            raise InvalidArgumentError(
                "`variance='least_squares'` fits estimator='kernel' only; walks are means of their units. "
                "Use variance='analytic', 'bootstrap' or 'auto'."
            )
        if self.paper and n_draws < 2:
            raise InvalidArgumentError(
                "`variance=LeastSquares(paper=True)` takes the variance over the draws of each coalition and "
                f"needs two or more; got n_draws={n_draws}. Use Kernel(n_draws=10), or LeastSquares()."
            )

    def roots(self, terms: Terms, strata: TwoStageDesign, rng: np.random.Generator) -> CovarianceRoot:  # noqa: ARG002
        """Covariance of the influence values, or the paper's formula."""
        if self.paper:
            return _draw_roots(cast("LeastSquaresTerms", terms), strata.weights)
        if terms.n_fitted and terms.n_units > MANY_UNITS:
            batch, design = strata.coarsen(MANY_UNITS // 2)
            means = cast("LeastSquaresTerms", terms).batch_means(strata.weights, batch, design.n_units)
            return design.covariance_root(design.even_out(means, np.bincount(batch)))
        return strata.covariance_root(terms.residual_pseudo_values(strata.weights))


def _draw_roots(terms: LeastSquaresTerms, weights: FloatArray) -> CovarianceRoot:
    """`A(Z) Var(v) A(Z)^T`, with the variance over the draws of each coalition."""
    influence, _ = terms.influence(weights)
    n, n_draws, o, f = terms.draw_targets.shape
    deviations = terms.draw_targets - terms.targets[:, None]
    scale = weights / np.sqrt(n_draws * (n_draws - 1))
    p = terms.n_players
    rows = np.zeros((n, n_draws, p + 1, o, f))
    scaled = influence * scale[:, None]
    rows[:, :, :p] = scaled[:, None, :, None, None] * deviations[:, :, None]
    return CovarianceRoot(
        rows.reshape(n * n_draws, p + 1, o, f),
        np.zeros(n * n_draws, dtype=np.int64),
        np.array([float(n * (n_draws - 1))]),
    )
