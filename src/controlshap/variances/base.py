"""The base class of variance methods, and the two that "auto" takes: for means, and for the KernelSHAP regression.

Of means it is the covariance of the units (the paper, section 4.1). Of a regression (section 4.2, second method) the
default linearises the solution in both the values and the choice of coalitions (the delta method). The paper's own
formula, `A(Z) Var(v) A(Z)^T`, sees only the noise of the draws within a coalition and is kept for comparison:
`LeastSquares(paper=True)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import cast, final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.terms import LeastSquaresTerms, Terms
from controlshap.statistics.two_stage import MANY_UNITS, TwoStageDesign


class Variance(ABC):
    """A square root of the covariance of the estimate, over components and functions; subclass it to write your own."""

    #: Whether background rows must be drawn at random rather than in cycles.
    needs_independent_units: bool = False
    #: Whether the method is for regressions alone.
    is_least_squares: bool = False
    #: Whether the covariance is that of resampled estimates.
    resamples: bool = False
    #: Whether `engine.device` has the same variance for many rows of a torch module at once.
    has_device_form: bool = False

    @property
    def takes_batches(self) -> bool:
        """Whether means of batches of units can stand in for units (`TwoStageDesign.sizes`)."""
        return False

    @property
    def by_units(self) -> bool:
        """Whether the roots come from units, so that some can be left out."""
        return True

    @property
    def fewest_units(self) -> int:
        """Fewest units that give a variance."""
        return 2

    def check(self, *, least_squares: bool, n_draws: int) -> None:  # noqa: B027 (most methods fit every estimator)
        """Refuse an estimator that this method does not fit."""

    @abstractmethod
    def roots(self, terms: Terms, strata: TwoStageDesign, rng: np.random.Generator) -> CovarianceRoot:
        """A root of the covariance, with its degrees of freedom."""


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
    def has_device_form(self) -> bool:  # type: ignore[override]
        """By the delta method."""
        return not self.paper

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
