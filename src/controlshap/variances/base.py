"""The base class of variance methods, and the one for means: the covariance of the units (the paper, section 4.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.terms import Terms
from controlshap.statistics.two_stage import TwoStageDesign


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
        """Units below which there is no variance."""
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
