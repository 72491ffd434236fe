"""Everything about an explanation that does not depend on the explained row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from controlshap._types import FloatArray
from controlshap.estimators.protocol import Estimator
from controlshap.model import Model
from controlshap.players import Players
from controlshap.surrogates.protocol import Surrogate
from controlshap.values.protocol import Imputer
from controlshap.variance.protocol import Variance


@dataclass(frozen=True)
class BaseSample:
    """Rows on which v(0) is known or estimated, shared by all explained rows.

    Attributes
    ----------
    rows : ndarray of shape (n, columns)
        A finite background, the part of it that was afforded, or draws from the distribution.
    predictions : ndarray of shape (n, outputs)
        The model there.
    population : float
        Number of rows there are; infinite for a distribution.
    finite : bool
        Whether units draw from these rows.
    """

    rows: FloatArray
    predictions: FloatArray
    population: float
    finite: bool

    @property
    def is_exact(self) -> bool:
        """Whether the mean over these rows is v(0) itself."""
        return self.finite and len(self.rows) >= self.population

    @property
    def n_outputs(self) -> int:
        """Outputs of the model."""
        return int(self.predictions.shape[1])

    def base_rows(self, values: FloatArray) -> FloatArray:
        """Root `(n, outputs, functions)` of the covariance of the mean of `values` on these rows."""
        n = len(values)
        if self.is_exact or n < 2:
            return np.zeros((0, *values.shape[1:]))
        share = n / self.population if self.finite else 0.0
        result: FloatArray = (values - values.mean(axis=0)) * np.sqrt((1.0 - share) / (n * (n - 1)))
        return result


@dataclass(frozen=True)
class Problem:
    """The assembled parts. `estimator` and `controls` are None where they are chosen by budget ("auto")."""

    model: Model
    background: FloatArray
    base: BaseSample
    imputer: Imputer
    players: Players
    feature_names: tuple[str, ...]
    estimator: Estimator | None
    controls: tuple[Surrogate, ...] | None
    variance: Variance | None
    coefficient: Literal["units", "folds"]
    memory_limit: int
    cache: dict[str, Any] = field(default_factory=dict)

    @property
    def correlated(self) -> bool:
        """Whether rows are conditioned rather than mixed."""
        from controlshap.values.marginal import MarginalImputer

        return not isinstance(self.imputer, MarginalImputer)
