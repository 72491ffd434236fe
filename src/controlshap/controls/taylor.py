"""The paper's control: a Taylor polynomial at x.

Second order for independent features (Theorem 1), first order for correlated ones (Theorem 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from controlshap._checks import is_whole, show
from controlshap._errors import InvalidArgumentError, NoClosedFormError
from controlshap._types import FloatArray
from controlshap.controls.base import Context, Control, PreparedControl
from controlshap.controls.d_matrices import DMatrices, d_matrices
from controlshap.data.players import Players
from controlshap.models.derivatives.base import Autograd, Derivatives, DerivativeSource, Point, UserDerivatives
from controlshap.models.derivatives.closed_form import closed_form
from controlshap.models.derivatives.finite_differences import FiniteDifferences
from controlshap.models.model import is_torch_module
from controlshap.statistics.control_variate import KnownValues
from controlshap.values.base import Imputer


@final
@dataclass(frozen=True)
class Taylor(Control):
    """Taylor polynomial of the model at the explained row.

    Parameters
    ----------
    derivatives : DerivativeSource, optional
        Where derivatives come from; chosen by the kind of model when not given (torch: automatic; linear and
        logistic models of scikit-learn: closed form; anything else: `FiniteDifferences()`).
    gradient, hessian : callable, optional
        Your own, as functions of one row.
    n_permutations : int
        Permutations behind the D matrices of correlated features with more than ten players.
    seed : int
        Seed of these permutations. Their error is part of the standard errors, and is the same in all runs with one
        seed.
    """

    derivatives: DerivativeSource | None = None
    gradient: Callable[[FloatArray], Any] | None = None
    hessian: Callable[[FloatArray], Any] | None = None
    n_permutations: int = 2000
    seed: int = 0

    @property
    def has_device_form(self) -> bool:  # type: ignore[override]
        """Whether all settings are the default: derivatives are then the module's own."""
        return self == Taylor()

    def __post_init__(self) -> None:
        if self.derivatives is not None and self.gradient is not None:
            raise InvalidArgumentError("Give `derivatives` or `gradient`, not both.")
        if self.hessian is not None and self.gradient is None:
            raise InvalidArgumentError("`hessian` needs `gradient` beside it.")
        for name, value in (("gradient", self.gradient), ("hessian", self.hessian)):
            if value is not None and not callable(value):
                raise InvalidArgumentError(f"`{name}` must be a function of one row; got {type(value).__name__}.")
        if isinstance(self.derivatives, type) or not (self.derivatives is None or hasattr(self.derivatives, "at")):
            raise InvalidArgumentError(
                f"`derivatives` must be an object such as FiniteDifferences(); got {self.derivatives!r}."
            )
        if not is_whole(self.n_permutations) or not 8 <= self.n_permutations <= 10**9:
            raise InvalidArgumentError(
                f"`n_permutations` must be a whole number of at least 8; got {show(self.n_permutations)}. "
                "The default is 2000."
            )
        if not is_whole(self.seed) or self.seed < 0:
            raise InvalidArgumentError(f"`seed` must be a whole number that is not negative; got {self.seed!r}.")
        object.__setattr__(self, "seed", int(self.seed))  # as it is saved and compared

    def source(self, model: Any) -> DerivativeSource:
        """The source of derivatives for this model."""
        if self.gradient is not None:
            return UserDerivatives(self.gradient, self.hessian)
        return self.derivatives or choose_derivatives(model)

    def cost(self, players: Players, background: FloatArray, budget: int, *, source: Any, correlated: bool) -> int:
        """Most evaluations that the derivatives take."""
        return self.source(source).cost(background, players, budget, second=not correlated)

    def refuse(self, imputer: Imputer, x: FloatArray, background: FloatArray) -> None:
        """Refuse value functions without the theorems, arranged players with the first of them, and missing values."""
        mixes = _mixes(imputer)
        if not (mixes or imputer.linear_in_x):
            raise NoClosedFormError(
                f"The Taylor control has known values for independent features (Marginal) and correlated ones "
                f"(GaussianConditional), not for {type(imputer).__name__}. Use control='none' or your own control."
            )
        if mixes and imputer.players.arrangement is not None:
            raise NoClosedFormError(
                "The Taylor control of independent features has known values for all permutations alike, not with "
                "`order` or `hierarchy`. Use control='auto' or 'ridge'."
            )
        if not np.isfinite(x).all() or not np.isfinite(background).all():
            raise InvalidArgumentError(
                "`control='taylor'` needs finite rows and a finite background, but there are missing values. "
                "Use control='none', or impute them."
            )

    def prepare(self, context: Context) -> PreparedControl:
        """The polynomial at x, with its known values by Theorem 1 or 2."""
        self.refuse(context.imputer, context.x, context.background)
        mixes = _mixes(context.imputer)
        point = Point(context.x, context.at_x, context.background, context.players, context.evaluate, context.budget)
        derivatives = self.source(context.model.source).at(point, second=mixes)
        if mixes:
            known = _known_independent(context, derivatives)
        else:
            known = self._known_correlated(context, derivatives.gradient)
        return PreparedControl(TaylorPolynomial(context.x, context.at_x, derivatives), known)

    def _known_correlated(self, context: Context, gradient: FloatArray) -> KnownValues:
        imputer, matrices = context.imputer, context.cache.get("d_matrices")
        if not isinstance(matrices, DMatrices):
            matrices = context.cache["d_matrices"] = d_matrices(imputer, self.n_permutations, self.seed)
        scale = imputer.scale
        return matrices.known_values(gradient * scale, (context.x - imputer.center) / scale, context.at_x)


def _mixes(imputer: Imputer) -> bool:
    """Whether rows are mixed from x and draws, of which Theorem 1 is; conditioned ones have Theorem 2."""
    return imputer.mixes_columns and imputer.finite_draws is not None


def _known_independent(context: Context, derivatives: Derivatives) -> KnownValues:
    """Theorem 1, with the covariance (divisor n) of the whole rows that are drawn; columns of a group add up."""
    background = cast("FloatArray", context.imputer.finite_draws)
    if "background_moments" not in context.cache:
        covariance = np.cov(background.T, bias=True).reshape(background.shape[1], -1)
        context.cache["background_moments"] = (background.mean(axis=0), covariance)
    mean, covariance = context.cache["background_moments"]
    gap = context.x - mean
    linear = derivatives.gradient * gap  # (o, c)
    hessian = derivatives.hessian
    if hessian is None:
        raise NoClosedFormError("The Taylor control of independent features needs second derivatives.")
    if hessian.ndim == 2:
        quadratic = hessian * (gap**2 + np.diag(covariance))
    else:
        quadratic = np.einsum("ocd,d->oc", hessian, gap) * gap + np.einsum("ocd,cd->oc", hessian, covariance)
    by_column = linear - 0.5 * quadratic
    values = context.players.sum_columns(by_column.T)  # (p, o)
    base = context.at_x - by_column.sum(axis=1)
    return KnownValues.exact(np.concatenate([values, base[None]])[..., None])


@final
@dataclass(frozen=True)
class TaylorPolynomial:
    """`f(x) + J (r - x) + (r - x)' H (r - x) / 2`."""

    x: FloatArray
    at_x: FloatArray
    derivatives: Derivatives

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Values `(n, outputs)`."""
        gap = rows - self.x
        values: FloatArray = self.at_x + gap @ self.derivatives.gradient.T
        hessian = self.derivatives.hessian
        if hessian is None:
            return values
        if hessian.ndim == 2:
            values += 0.5 * (gap**2) @ hessian.T
            return values
        for output, matrix in enumerate(hessian):
            values[:, output] += 0.5 * np.einsum("nc,nc->n", gap @ matrix, gap)
        return values


def choose_derivatives(source: Any) -> DerivativeSource:
    """The best source of derivatives for a user's model; finite differences for a bare callable."""
    if is_torch_module(source):
        return Autograd(source)
    return closed_form(source) or FiniteDifferences()
