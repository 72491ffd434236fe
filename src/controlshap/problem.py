"""Everything about an explanation that does not depend on the explained row."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.controls import Control, SharedSurrogate
from controlshap.data.players import Players
from controlshap.estimators.base import Estimator
from controlshap.functions.forms import ExactForm
from controlshap.models.model import Model
from controlshap.values.base import Imputer
from controlshap.variances.base import Variance


@dataclass(frozen=True)
class BaseSample:
    """Rows whose mean prediction is v(0), or estimates it.

    Attributes
    ----------
    rows : ndarray of shape (n, columns)
        A finite background, shared by all explained rows; or draws from the distribution, one set for each.
    values : ndarray of shape (n, outputs, functions)
        The model there, and the surrogates where there are any.
    population : float
        Number of rows there are; infinite for a distribution.
    sizes : ndarray of shape (n,) or None
        Where values are means over batches of draws (whose rows are not kept): how many of them.
    """

    rows: FloatArray
    values: FloatArray
    population: float
    sizes: IntArray | None = None

    @property
    def finite(self) -> bool:
        """Whether units draw from these rows."""
        return not math.isinf(self.population)

    @property
    def is_exact(self) -> bool:
        """Whether the mean over these rows is v(0) itself."""
        return self.finite

    @property
    def n_outputs(self) -> int:
        """Outputs of the model."""
        return int(self.values.shape[1])

    @property
    def mean(self) -> FloatArray:
        """The estimate of v(0), shape (outputs, functions)."""
        if self.sizes is not None:
            return np.tensordot(self.sizes / self.sizes.sum(), self.values, axes=1)
        mean: FloatArray = self.values.mean(axis=0)
        return mean

    def root_rows(self) -> FloatArray:
        """Root `(n, outputs, functions)` of the covariance of the mean."""
        n = len(self.values)
        if self.is_exact or n < 2:
            return np.zeros((0, *self.values.shape[1:]))
        if self.sizes is not None:
            scale = np.sqrt(self.sizes / (self.sizes.sum() * (n - 1.0)))
            return np.asarray(scale[:, None, None] * (self.values - self.mean))
        result: FloatArray = (self.values - self.mean) / np.sqrt(n * (n - 1))
        return result


@dataclass(frozen=True)
class Problem:
    """The assembled parts.

    `base` has the model alone; with draws from a distribution it holds one evaluation, which tells the outputs.
    `estimator` and `controls` are None where they are chosen by budget ("auto"). `form` is what the model was
    recognised as, where that is asked for ("auto" twice) and it agrees with the model on the background. `shared` is a
    surrogate that was fitted before; `seconds` is what an evaluation takes, where it was told.
    """

    model: Model
    background: FloatArray
    base: BaseSample
    imputer: Imputer
    players: Players
    feature_names: tuple[str, ...]
    estimator: Estimator | None
    controls: tuple[Control, ...] | None
    variance: Variance | None
    coefficient: Literal["auto", "units", "folds"]
    memory_limit: int
    cache: dict[str, Any] = field(default_factory=dict)
    form: ExactForm | None = None
    shared: SharedSurrogate | None = None
    seconds: float | None = None

    @property
    def correlated(self) -> bool:
        """Whether rows are conditioned rather than mixed."""
        from controlshap.values.marginal import MarginalImputer

        return not isinstance(self.imputer, MarginalImputer)
