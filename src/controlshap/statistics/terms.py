"""Terms of units: every estimator is `solve(weighted mean of terms)`.

Shapes: `n` units, `c` components (the players, then the base value), `o` outputs, `f` functions
(the model first, then the surrogates). Model and surrogates go through the same code. The terms of a mean may have
leading axes for explained rows.

`pseudo_values` linearises `solve`: their weighted mean is the estimate, so that every variance formula for a mean
applies to walks, whose terms are the contributions themselves, and to least squares, whose terms are influence values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Protocol, Self

import numpy as np
import scipy.linalg

from controlshap._arrays import Array, at_least, empty, median, namespace, sum_by, to_like, weighted_sum, zeros
from controlshap._errors import SingularSystemError
from controlshap._types import FloatArray, IntArray
from controlshap.statistics.size_strata import SizeStrata

#: Units whose pseudo-values are formed at once: 8192 units of 100 components are 7 MB.
BATCH = 8192
#: One minus the leverage of a unit is taken to be at least this: the residual of a unit that alone determines a value
#: is rounding, from which no correction can make an error.
LEAST_FREE = 1e-3
#: Ratio of eigenvalues below which the least squares are singular: values would then be known to 1e-6 of their size.
SINGULAR = 1e-10


#: Differences below this share of the largest contribution are rounding.
ROUNDING = 1e-12


class Terms(Protocol):
    """The contributions of all units to one estimate."""

    #: Whether a constraint of the estimate makes its values sum to f(x).
    constrained: ClassVar[bool]

    @property
    def n_units(self) -> int:
        """Number of units."""

    @property
    def n_fitted(self) -> int:
        """Number of coefficients that the solution fits to these units; 0 where the estimate is a mean."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to sample, whatever the draws, so that the estimate has no error."""

    def solve(self, weights: FloatArray) -> Array:
        """Estimates `(batch, ..., c, o, f)` for weights `(batch, n)` that sum to 1."""

    def pseudo_values(self, weights: FloatArray) -> Array:
        """`(..., n, c, o, f)`, whose weighted mean is `solve(weights)`."""

    def residual_pseudo_values(self, weights: FloatArray) -> Array:
        """Pseudo-values with residuals corrected for leverage: for variances only."""

    def base_slope(self, weights: FloatArray) -> FloatArray:
        """Derivative of every component `(c,)` with respect to v(0), which the estimate takes as known."""

    def draw_solutions(self, weights: FloatArray, at_x: FloatArray, at_draws: FloatArray) -> FloatArray | None:
        """Solution of each draw alone, `(draws, c, o)`, for the first function; None for a mean.

        `at_x` (outputs,) is v(all), `at_draws` (draws, outputs) is v(0) of each draw.
        """

    def with_controls(self, controls: FloatArray, for_errors: FloatArray | None = None) -> Terms:
        """Terms with controls of known value 0 as further functions; `for_errors` takes their place in variances."""

    def jump_if_unseen(self, weights: FloatArray) -> Array:
        """Change `(..., o)` of a value if one unit that showed no effect had shown one as large as the model's."""

    def count_speaking(self) -> Array | None:
        """Effective number of units that show an effect of each player, `(..., p, o)`; None where every unit does."""


class UnitTerms(Terms, Protocol):
    """Terms of single units, as estimators make them."""

    def join(self, others: Sequence[Self]) -> Self:
        """These units and others after them."""

    def keep_draws(self, n_units: int) -> Self:
        """These terms, with single draws stored for the first units only."""

    def unit_values(self) -> FloatArray:
        """Contributions of units: terms `(n, c, o, f)` of a mean, or targets `(n, draws, o, f)` of a regression."""

    def expected_units(self, values: FloatArray) -> FloatArray:
        """Mean of `unit_values` over designs and draws if the estimate is `values` (c, o, f); broadcasts to them."""

    def split_noise(self, of_draws: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Errors against the values `(n, draws, p, o, f)` of draws, and differences of these from their mean.

        Both have the shape of `unit_values`, for a function whose `base` was given as 0.
        """


@dataclass(frozen=True)
class MeanTerms:
    """Terms whose weighted mean is the estimate: walks, per-feature sampling, enumeration."""

    constrained: ClassVar[bool] = False

    values: FloatArray  # (..., n, c, o, f), or a tensor
    n_walks: int = 1  # averaged in each unit

    n_fitted = 0
    is_whole = False

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.values.shape[-4])

    def solve(self, weights: FloatArray) -> Array:
        """Weighted means of the values."""
        return weighted_sum(weights, self.values, axis=-4)

    def pseudo_values(self, weights: FloatArray) -> Array:  # noqa: ARG002 (a mean is linear)
        """The terms themselves."""
        return self.values

    residual_pseudo_values = pseudo_values

    def with_controls(self, controls: FloatArray, for_errors: FloatArray | None = None) -> MeanTerms:  # noqa: ARG002
        """The terms with controls `(n, c, o, controls)`, which serve variances as well."""
        return replace(self, values=np.concatenate([self.values, controls], axis=3))

    def join(self, others: Sequence[MeanTerms]) -> MeanTerms:
        """These units and others after them."""
        return replace(self, values=np.concatenate([self.values, *(other.values for other in others)]))

    def keep_draws(self, n_units: int) -> MeanTerms:  # noqa: ARG002 (nothing is kept of single draws)
        """The terms themselves."""
        return self

    def unit_values(self) -> FloatArray:
        """The terms themselves."""
        return self.values

    def expected_units(self, values: FloatArray) -> FloatArray:
        """The estimate itself, for every unit."""
        return values[None]

    def split_noise(self, of_draws: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Errors against the values of draws, and differences of these from `mean`; 0 for the base value."""
        of_units = of_draws.mean(axis=1)
        nothing = np.zeros((len(of_units), 1, *mean.shape[1:]))
        within = np.concatenate([self.values[:, :-1] - of_units, nothing], axis=1)
        return within, np.concatenate([of_units - mean, nothing], axis=1)

    def base_slope(self, weights: FloatArray) -> FloatArray:  # noqa: ARG002
        """1 for the base value itself."""
        slope: FloatArray = np.eye(self.values.shape[-3])[-1]
        return slope

    def draw_solutions(self, weights: FloatArray, at_x: FloatArray, at_draws: FloatArray) -> None:
        """None: the terms of a mean do not keep their draws apart."""

    def jump_if_unseen(self, weights: FloatArray) -> Array:
        """The mean contribution by squares, times the weight of a walk."""
        players = self.values[..., :-1, :, 0]
        return float(weights.max()) / self.n_walks * mean_by_squares(players, (-3, -2))

    def count_speaking(self) -> Array:
        """`(sum d^2)^2 / sum d^4` over units, with d from the median: 0 for a player that is the same in all."""
        return self._speaking

    @cached_property
    def _speaking(self) -> Array:
        xp, players = namespace(self.values), self.values[..., :-1, :, 0]
        size = xp.amax(xp.amax(xp.abs(players), axis=-2, keepdims=True), axis=-3, keepdims=True)
        # in units of the largest contribution, with what is rounding of it set to 0
        distance = (players - median(players, axis=-3)) / xp.where(size > 0, size, 1.0)
        squares = xp.where(xp.abs(distance) > ROUNDING, distance, 0.0) ** 2
        fourth = (squares**2).sum(axis=-3)
        return squares.sum(axis=-3) ** 2 / xp.where(fourth > 0, fourth, 1.0)


@dataclass(frozen=True)
class LeastSquaresTerms:
    """Rows of the constrained regression of KernelSHAP (the paper's closed form).

    A unit is one coalition, `regressor = z`, `target = v(z) - v(0)`; or a coalition and its
    complement, for which the objective depends on `phi` only through `regressor = z - 1/2` and
    `target = (v(z) - v(1-z))/2`. The values are constrained to sum to `total`.

    All but numpy's own methods for merged units take leading axes for explained rows, and tensors.

    Attributes
    ----------
    regressors : array of shape (..., n, p)
    targets : array of shape (..., n, o, f)
    draw_targets : array of shape (..., m, n_draws, o, f)
        Targets of each draw, whose mean is the target; of the first m units, where only means are kept of the rest.
    total, base : array of shape (..., o, f)
        v(all) - v(0), and v(0).
    paired : bool
        Which of the two forms.
    distinct : bool
        Whether units are pairs drawn without replacement from those of each size, with the same draws (`size_strata`):
        they then have weights of their own, and sizes that were drawn whole have no error.
    error_targets : ndarray of shape (n, o, f) or None
        Targets whose residuals give the variances, where these are not `targets`.
    """

    constrained: ClassVar[bool] = True

    regressors: FloatArray
    targets: FloatArray
    draw_targets: FloatArray
    total: FloatArray
    base: FloatArray
    paired: bool
    distinct: bool = False
    error_targets: FloatArray | None = None

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.targets.shape[-3])

    @cached_property
    def sizes(self) -> SizeStrata | None:
        """Distinct pairs as a sample of each size; None where units are independent."""
        return SizeStrata.of(self.regressors > 0.0) if self.distinct else None

    @property
    def is_whole(self) -> bool:
        """Whether these are all the pairs there are."""
        return self.sizes is not None and self.sizes.is_whole

    @cached_property
    def _importance(self) -> FloatArray:
        """Weight of each unit in the regression beside that of the design."""
        return np.ones(self.n_units) if self.sizes is None else self.sizes.importance

    @property
    def n_players(self) -> int:
        """Number of players."""
        return int(self.regressors.shape[-1])

    @property
    def n_fitted(self) -> int:
        """One less than the players, whose sum is known."""
        return self.n_players - 1

    def first(self, n_units: int) -> LeastSquaresTerms:
        """The first units alone."""
        part = slice(0, n_units)
        return replace(
            self,
            regressors=self.regressors[part],
            targets=self.targets[part],
            draw_targets=self.draw_targets[part],
            error_targets=None if self.error_targets is None else self.error_targets[part],
        )

    def with_controls(self, controls: FloatArray, for_errors: FloatArray | None = None) -> LeastSquaresTerms:
        """The terms with controls as targets `(n, draws, o, controls)`; `for_errors` takes their place in variances."""
        nothing = np.zeros(controls.shape[2:])
        errors = None
        if for_errors is not None:
            errors = np.concatenate([self.targets, for_errors.mean(axis=1)], axis=2)
        return replace(
            self,
            error_targets=errors,
            targets=np.concatenate([self.targets, controls.mean(axis=1)], axis=2),
            draw_targets=np.concatenate([self.draw_targets, controls], axis=3),
            total=np.concatenate([self.total, nothing], axis=1),
            base=np.concatenate([self.base, nothing], axis=1),
        )

    def join(self, others: Sequence[LeastSquaresTerms]) -> LeastSquaresTerms:
        """These units and others after them."""
        parts = (self, *others)
        return replace(
            self,
            regressors=np.concatenate([part.regressors for part in parts]),
            targets=np.concatenate([part.targets for part in parts]),
            draw_targets=np.concatenate([part.draw_targets for part in parts]),
        )

    def keep_draws(self, n_units: int) -> LeastSquaresTerms:
        """These terms, with single draws of the first units only: copies, as views would keep all of them."""
        return replace(self, draw_targets=self.draw_targets[:n_units].copy())

    def unit_values(self) -> FloatArray:
        """Targets of each draw."""
        return self.draw_targets

    def expected_units(self, values: FloatArray) -> FloatArray:
        """`a' phi` for every unit, function by function, shape (n, 1, o, f)."""
        o, f = values.shape[1:]
        by_function = values[:-1].reshape(-1, o * f).T.copy()
        return np.stack([self.regressors @ phi for phi in by_function], axis=1).reshape(self.n_units, 1, o, f)

    def split_noise(self, of_draws: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Errors of targets against the values of draws, and differences of these from `mean`."""
        # the target of a single coalition is v(S), and a draw's v(0) is v(all) less the sum of its values
        at = self.regressors if self.paired else self.regressors - 1.0
        whole = 0.0 if self.paired else self.total
        within = self.draw_targets - whole - np.einsum("up,udpof->udof", at, of_draws)
        return within, np.einsum("up,udpof->udof", at, of_draws - mean)

    def solve(self, weights: FloatArray) -> Array:
        """Constrained least squares for each row of weights."""
        return self._solve(weights, self.targets, self.total, self.base)

    def _solve(self, weights: FloatArray, targets: Array, total: Array, base: Array) -> Array:
        p = self.n_players
        *lead, n, o, f = targets.shape
        basis = to_like(_sum_zero_basis(p), targets)
        reduced = self.regressors @ basis  # a' Q, (..., n, p-1)
        offset = self.regressors.sum(axis=-1) / p  # a' 1/p
        flat = total.reshape(*lead, 1, o * f)
        shifted = targets.reshape(*lead, n, o * f) - offset[..., None] * flat
        gram = empty((len(weights), *lead, p - 1, p - 1), targets)
        right = empty((len(weights), *lead, p - 1, o * f), targets)
        for k, w in enumerate(weights * self._importance):
            scaled = reduced * to_like(w[:, None], reduced)
            gram[k] = scaled.swapaxes(-1, -2) @ reduced
            right[k] = scaled.swapaxes(-1, -2) @ shifted
        _check_regular(gram, self.n_units, p, self.paired)
        free = namespace(gram).linalg.solve(gram, right)  # (batch, ..., p-1, o*f)
        values = basis @ free + flat / p
        solution = empty((len(weights), *lead, p + 1, o, f), targets)
        solution[..., :p, :, :] = values.reshape(*solution.shape[:-3], p, o, f)
        solution[..., p, :, :] = base
        return solution

    def draw_solutions(self, weights: FloatArray, at_x: FloatArray, at_draws: FloatArray) -> Array:
        """Solve with the targets of each draw."""
        n_draws, o = at_draws.shape
        n_known = len(self.draw_targets)
        if n_known < self.n_units:  # the first of many units suffice
            return self.first(n_known).draw_solutions(weights[:n_known], at_x, at_draws)
        targets = self.draw_targets[..., 0].reshape(n_known, n_draws * o, 1)
        total, base = (at_x - at_draws).reshape(-1, 1), at_draws.reshape(-1, 1)
        solution = self._solve(weights[None], targets, total, base)[0, :, :, 0]
        return solution.reshape(-1, n_draws, o).transpose(1, 0, 2)

    def pseudo_values(self, weights: FloatArray) -> Array:
        """`phi + G Q'a (target - a'phi)`, with G the inverse of the weighted Gram matrix."""
        return self._pseudo_values(weights, corrected=False)

    def residual_pseudo_values(self, weights: FloatArray) -> Array:
        """Residuals divided by sqrt(1 - leverage) (the HC2 form): unbiased for even noise.

        Those of distinct pairs are divided by 1 - leverage, times the root of the unseen share of their size.
        """
        return self._pseudo_values(weights, corrected=True)

    @property
    def _targets_of_errors(self) -> Array:
        return self.targets if self.error_targets is None else self.error_targets

    def _pseudo_values(self, weights: FloatArray, *, corrected: bool) -> Array:
        p, targets = self.n_players, self._targets_of_errors if corrected else self.targets
        estimate = self._solve(weights[None], targets, self.total, self.base)[0]
        influence, leverage = self.influence(weights)
        residuals = self._residuals(estimate, targets)
        if corrected:
            residuals *= self._correction(leverage)[..., None, None]
        pseudo = empty((*leverage.shape, p + 1, *self.total.shape[-2:]), targets)
        players = pseudo[..., :p, :, :]
        namespace(pseudo).multiply(influence[..., None, None], residuals[..., None, :, :], out=players)
        players += estimate[..., None, :p, :, :]
        pseudo[..., p, :, :] = self.base[..., None, :, :]
        return pseudo

    def _residuals(self, estimate: Array, targets: Array) -> Array:
        """Targets less what an estimate `(..., c, o, f)` says of them."""
        *lead, _, o, f = estimate.shape
        players = estimate[..., : self.n_players, :, :].reshape(*lead, self.n_players, o * f)
        return targets - (self.regressors @ players).reshape(targets.shape)

    def batch_means(self, weights: FloatArray, batch: IntArray, n_batches: int) -> Array:
        """Means of the corrected pseudo-values over batches of units, `(..., n_batches, c, o, f)`, in little memory."""
        p, targets = self.n_players, self._targets_of_errors
        estimate = self._solve(weights[None], targets, self.total, self.base)[0]
        influence, leverage = self.influence(weights)
        residuals = self._residuals(estimate, targets)
        residuals *= self._correction(leverage)[..., None, None]
        *lead, _, o, f = targets.shape
        sums = zeros((*lead, n_batches, p, o, f), targets)
        for start in range(0, self.n_units, BATCH):
            part = slice(start, start + BATCH)
            numbers, index = np.unique(batch[part], return_inverse=True)
            products = influence[..., part, :, None, None] * residuals[..., part, None, :, :]
            sums[..., numbers, :, :, :] += sum_by(index.reshape(-1), products, len(numbers), axis=-4)
        counts = np.bincount(batch, minlength=n_batches)
        means = empty((*lead, n_batches, p + 1, o, f), targets)
        means[..., :p, :, :] = estimate[..., None, :p, :, :] + sums / to_like(counts[:, None, None, None], sums)
        means[..., p, :, :] = self.base[..., None, :, :]
        return means

    def _correction(self, leverage: Array) -> Array:
        """Factors of residuals `(..., n)` for variances.

        Distinct pairs are few, of unequal weight and noise, for which 1 - leverage itself (the HC3 form) is safer.
        """
        free = at_least(1.0 - leverage, LEAST_FREE)
        return 1.0 / namespace(free).sqrt(free) if self.sizes is None else np.sqrt(self.sizes.unseen) / free

    def influence(self, weights: FloatArray) -> tuple[Array, Array]:
        """`Q (Q'MQ)^-1 Q'a` per unit `(..., n, p)`, times its importance, and the leverages `(..., n)`."""
        basis = to_like(_sum_zero_basis(self.n_players), self.regressors)
        reduced, xp = self.regressors @ basis, namespace(basis)
        scaled = reduced * to_like((weights * self._importance)[:, None], reduced)
        gram = scaled.swapaxes(-1, -2) @ reduced  # regular, or there is no solution to have an influence on
        solved = xp.linalg.solve(gram, reduced.swapaxes(-1, -2)).swapaxes(-1, -2)
        solved = solved * to_like(self._importance[:, None], solved)  # (..., n, p-1)
        leverage = xp.einsum("...ij,...ij->...i", solved, reduced) * to_like(weights, reduced)
        return solved @ basis.T, leverage

    def jump_if_unseen(self, weights: FloatArray) -> Array:
        """The mean value by squares, times the mean influence of a unit on a player; none of sizes that are whole."""
        values, (influence, _) = self.solve(weights[None])[0][..., :-1, :, 0], self.influence(weights)
        unseen = weights if self.sizes is None else weights * np.sqrt(self.sizes.unseen)
        moved = mean_by_squares(influence * to_like(unseen[:, None], influence), (-2, -1))
        return mean_by_squares(values, (-2,)) * moved[..., None]

    def count_speaking(self) -> None:
        """None: every coalition tells something about every player."""

    def base_slope(self, weights: FloatArray) -> Array:
        """Derivative of the solution, through the targets and their total."""
        ones = np.ones((1, 1))
        shift = np.zeros((self.n_units, 1, 1)) if self.paired else -np.ones((self.n_units, 1, 1))
        return self._solve(weights[None], shift, -ones, ones)[0, :, 0, 0]


def mean_by_squares(sizes: Array, axes: tuple[int, ...]) -> Array:
    """Root of the mean of squares that is weighted by the squares: of jumps of one size among zeros, that size."""
    xp = namespace(sizes)
    largest = xp.amax(xp.abs(sizes), axis=axes, keepdims=True)
    # in units of the largest, since fourth powers overflow for outputs beyond 1e77
    squares = (sizes / xp.where(largest > 0, largest, 1.0)) ** 2
    total = squares.sum(axis=axes)
    mean = (squares**2).sum(axis=axes) / xp.where(total > 0, total, 1.0)
    return xp.sqrt(mean) * largest.reshape(mean.shape)


def _sum_zero_basis(p: int) -> FloatArray:
    """Orthonormal basis of the vectors that sum to zero, shape (p, p-1)."""
    basis: FloatArray = scipy.linalg.helmert(p).T
    return basis


def _check_regular(gram: Array, n_units: int, p: int, paired: bool) -> None:
    if p < 2:
        return
    spectrum = namespace(gram).linalg.eigvalsh(gram)
    if bool((spectrum[..., 0] <= SINGULAR * spectrum[..., -1]).any()):
        kind = "pairs of coalitions" if paired else "coalitions"
        raise SingularSystemError(
            f"{n_units} {kind} leave the least squares of KernelSHAP singular for {p} players: at least "
            f"{p - 1} independent ones are needed, and a few times more in each group or resample. "
            "Raise `budget`, lower `n_draws`, use fewer groups, or use estimator='permutation'."
        )
