"""Covariance of the KernelSHAP regression (the paper, section 4.2, second method).

The default linearises the solution in both the values and the choice of coalitions (the delta
method). The paper's own formula, `A(Z) Var(v) A(Z)^T`, sees only the noise of the draws within a
coalition and is kept for comparison: `LeastSquares(paper=True)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.statistics.terms import LeastSquaresTerms, Terms
from controlshap.statistics.two_stage import MANY_UNITS, Roots, Strata


@final
@dataclass(frozen=True)
class LeastSquares:
    """Delta-method covariance of constrained least squares.

    Parameters
    ----------
    paper : bool
        Use the paper's formula, which needs two draws or more for each coalition and leaves out the
        variance due to the choice of coalitions.
    """

    paper: bool = False

    @property
    def needs_independent_units(self) -> bool:
        """Cycles are accounted for."""
        return False

    @property
    def takes_batches(self) -> bool:
        """For the delta form."""
        return not self.paper

    @property
    def by_units(self) -> bool:
        """For the delta form."""
        return not self.paper

    @property
    def fewest_units(self) -> int:
        """Two."""
        return 2

    def check(self, *, least_squares: bool, n_draws: int) -> None:
        """Only for the kernel estimator; the paper's form for two draws or more."""
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

    def roots(self, terms: Terms, strata: Strata, rng: np.random.Generator) -> Roots:  # noqa: ARG002
        """Covariance of the influence values, or the paper's formula."""
        weights = strata.weights
        if not self.paper:
            if isinstance(terms, LeastSquaresTerms) and terms.n_units > MANY_UNITS:
                batch, design = strata.coarsen(MANY_UNITS // 2)
                means = terms.batch_means(weights, batch, design.n_units)
                return design.roots(design.even_out(means, np.bincount(batch)))
            roots = strata.roots(terms.residual_pseudo_values(weights))
            if strata.is_independent and isinstance(terms, LeastSquaresTerms):
                # p - 1 coefficients were fitted to the same units
                dof = np.maximum(roots.dof - (terms.n_players - 1), 1.0)
                return replace(roots, dof=dof)
            return roots
        if not isinstance(terms, LeastSquaresTerms):  # pragma: no cover - `check` has refused it
            raise InvalidArgumentError("`variance=LeastSquares(paper=True)` fits estimator='kernel' only.")
        influence, _ = terms.influence(weights)
        n, n_draws, o, f = terms.draw_targets.shape
        deviations = terms.draw_targets - terms.targets[:, None]
        scale = weights / np.sqrt(n_draws * (n_draws - 1))
        p = terms.n_players
        rows = np.zeros((n, n_draws, p + 1, o, f))
        scaled = influence * scale[:, None]
        rows[:, :, :p] = scaled[:, None, :, None, None] * deviations[:, :, None]
        return Roots(
            rows.reshape(n * n_draws, p + 1, o, f),
            np.zeros(n * n_draws, dtype=np.int64),
            np.array([float(n * (n_draws - 1))]),
        )
