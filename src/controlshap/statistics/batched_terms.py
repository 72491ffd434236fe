"""Terms of many units, merged into batches; the units themselves are not kept.

A mean of means is a mean. Of a regression the sums of a (target - a' phi_0) over batches are kept, with phi_0 the
solution of the first units. With G the weighted mean of a a' over all units and L = Q (Q' G Q)^-1 Q',

    phi = phi_1 + L U,    U the weighted mean of a (target - a' phi_1)

solves the normal equations, whatever phi_1 is, and phi_1 + L U_k for the units of batch k are values whose weighted
mean it is. To make phi_1 equal phi, so that residuals are those of the solution, a (a' (phi_1 - phi_0)) is subtracted
from each batch: this takes the regressors alone, which are made again from their streams. Units of a row that is
visited more often than others count less; with equal weights the solution would lean towards such a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np
import scipy.linalg

from controlshap._types import FloatArray
from controlshap.statistics.batches import Batches
from controlshap.statistics.terms import LeastSquaresTerms, MeanTerms, Terms, mean_by_squares
from controlshap.statistics.visits import UnitIds

Regressors = Callable[[], Iterable[tuple[UnitIds, FloatArray]]]
"""Makes the regressors of all units again, in parts."""


class Merged(Protocol):
    """Terms that are added to batches."""

    batches: Batches

    def add(self, units: UnitIds, terms: Terms) -> None:
        """Add the terms of some units."""

    def terms(self, regressors: Regressors, weights: FloatArray) -> Terms:
        """One term for each batch, from the regressors of all units again, and the weight of a unit of each block."""


def start_batches(batches: Batches, first: Terms, n_units: int) -> Merged:
    """Empty batches; a regression is linearised at the solution of the first units."""
    if isinstance(first, LeastSquaresTerms):
        return MergedSquares.start_from(batches, first.first(n_units))
    return MergedMeans(batches)


@dataclass
class MergedMeans:
    """Batches of walks, and of other units whose estimate is a mean."""

    batches: Batches

    def add(self, units: UnitIds, terms: Terms) -> None:
        """Sum the terms."""
        if not isinstance(terms, MeanTerms):
            raise TypeError(f"{type(terms).__name__} are no terms of a mean")
        self.batches.add(units, terms.values)

    def terms(self, regressors: Regressors, weights: FloatArray) -> MeanTerms:  # noqa: ARG002
        """Means of batches."""
        return MeanTerms(self.batches.means())


@dataclass(frozen=True)
class LinearisedTerms:
    """Values of batches whose weighted mean solves the regression of KernelSHAP.

    Attributes
    ----------
    values : ndarray of shape (n, c, o, f)
    lift : ndarray of shape (p, p)
        L above.
    slope : ndarray of shape (c,)
        Derivative of every component with respect to v(0).
    by_draw : ndarray of shape (p, draws, o)
        Mean of a times each draw's target, where all units have the same draws; else without draws.
    gram : ndarray of shape (p, p)
        G above.
    n_behind : int
        Units in all batches.
    """

    constrained: ClassVar[bool] = True

    values: FloatArray
    lift: FloatArray
    slope: FloatArray
    by_draw: FloatArray
    gram: FloatArray
    n_behind: int

    n_fitted = 0
    is_whole = False

    @property
    def n_units(self) -> int:
        """Number of batches."""
        return len(self.values)

    @property
    def n_players(self) -> int:
        """Number of players."""
        return len(self.lift)

    def solve(self, weights: FloatArray) -> FloatArray:
        """Weighted means of the values."""
        return np.tensordot(weights, self.values, axes=1)

    def pseudo_values(self, weights: FloatArray) -> FloatArray:  # noqa: ARG002 (linear by now)
        """The values themselves."""
        return self.values

    def residual_pseudo_values(self, weights: FloatArray) -> FloatArray:
        """Corrected for the p - 1 coefficients that were fitted to the same units."""
        center = self.solve(weights[None])
        correction = np.sqrt(self.n_behind / max(1, self.n_behind - self.n_players + 1))
        result: FloatArray = center + correction * (self.values - center)
        return result

    def base_slope(self, weights: FloatArray) -> FloatArray:  # noqa: ARG002 (of all units alike)
        """The slope of all units together."""
        return self.slope

    def draw_solutions(self, weights: FloatArray, at_x: FloatArray, at_draws: FloatArray) -> FloatArray:  # noqa: ARG002
        """Solve with the sums of each draw."""
        p, total = self.n_players, at_x - at_draws  # (draws, o)
        even = total / p
        residual = self.by_draw - self.gram.sum(axis=1)[:, None, None] * even
        solution = np.concatenate([even + np.tensordot(self.lift, residual, axes=1), at_draws[None]])
        return solution.transpose(1, 0, 2)

    def jump_if_unseen(self, weights: FloatArray) -> FloatArray:
        """The mean value by squares, times a bound on the influence of a unit: regressors are within 1/2 of a mean."""
        values = mean_by_squares(self.solve(weights[None])[0, :-1, :, 0], (-2,))
        result: FloatArray = values * np.abs(self.lift).sum(axis=1).max() / (2.0 * self.n_behind)
        return result

    def count_speaking(self) -> None:
        """None: every coalition tells something about every player."""

    def with_controls(self, sums: FloatArray, for_errors: FloatArray | None = None) -> LinearisedTerms:  # noqa: ARG002
        """Beside controls of known value 0, from means of a times their targets `(n, p, o, controls)`."""
        controls = np.zeros((len(sums), *self.values.shape[1:3], sums.shape[3]))
        controls[:, :-1] = np.einsum("ij,njof->niof", self.lift, sums)
        return replace(self, values=np.concatenate([self.values, controls], axis=3))


@dataclass
class MergedSquares:
    """Batches of regression rows.

    Attributes
    ----------
    start : ndarray of shape (p, o, f)
        phi_0.
    base : ndarray of shape (o, f)
        v(0).
    by_draw : ndarray of shape (p, draws, o)
        Sum over units of a times the targets of each draw.
    """

    batches: Batches
    start: FloatArray
    base: FloatArray
    paired: bool
    by_draw: FloatArray
    n_units: int = 0

    @classmethod
    def start_from(cls, batches: Batches, first: LeastSquaresTerms) -> MergedSquares:
        """Empty sums, with phi_0 from some units."""
        n, n_draws, n_outputs = first.draw_targets.shape[:3]
        p = first.n_players
        start = first.solve(np.full((1, n), 1.0 / n))[0, :p]
        by_draw = np.zeros((p, n_draws if batches.n_blocks == 1 else 0, n_outputs))
        return cls(batches, start, first.base, first.paired, by_draw)

    def add(self, units: UnitIds, terms: Terms) -> None:
        """Sum what the normal equations need."""
        if not isinstance(terms, LeastSquaresTerms):
            raise TypeError(f"{type(terms).__name__} are no rows of a regression")
        a = terms.regressors
        residuals = terms.targets - np.tensordot(a, self.start, axes=1)
        self.batches.add(units, a[:, :, None, None] * residuals[:, None])
        if self.by_draw.shape[1]:
            self.by_draw += np.tensordot(a, terms.draw_targets[..., 0], axes=([0], [0]))
        self.n_units += len(a)

    def terms(self, regressors: Regressors, weights: FloatArray) -> LinearisedTerms:
        """Values of batches."""
        p = len(self.start)
        gram, mean = np.zeros((p, p)), np.zeros(p)
        for units, a in regressors():
            scaled = weights[units.block, None] * a
            gram += scaled.T @ a
            mean += scaled.sum(axis=0)
        lift = _lift(gram)
        pooled = np.tensordot(weights, self.batches.sums.sum(axis=1), axes=1)
        change = np.tensordot(lift, pooled, axes=1)  # phi_1 - phi_0
        moved = self.batches.empty_like()
        for units, a in regressors():
            moved.add(units, a[:, :, None, None] * np.tensordot(a, change, axes=1)[:, None])
        means = self.batches.means() - moved.means()
        values = np.empty((len(means), p + 1, *means.shape[2:]))
        values[:, :p] = self.start + change + np.einsum("ij,njof->niof", lift, means)
        values[:, p] = self.base
        # targets of pairs do not hold v(0), others hold it once, and the total is v(all) - v(0)
        of_base = gram.sum(axis=1) / p - (0.0 if self.paired else mean)
        slope = np.append(lift @ of_base - 1.0 / p, 1.0)
        return LinearisedTerms(values, lift, slope, self.by_draw / self.n_units, gram, self.n_units)


def _lift(gram: FloatArray) -> FloatArray:
    """Q (Q' G Q)^-1 Q', which solves for values that sum to 0."""
    basis = scipy.linalg.helmert(len(gram)).T
    result: FloatArray = basis @ np.linalg.solve(basis.T @ gram @ basis, basis.T)
    return result
