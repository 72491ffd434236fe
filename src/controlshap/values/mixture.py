"""Absent columns follow a mixture of Gaussians, conditioned on the revealed ones.

    w_k(x_S) ~ w_k N(x_S; mu_k, Sigma_k)      given component k: b_k + Sigma_k[:,S] Sigma_k[S,S]^-1 (x - b_k)_S

A draw is a number u, uniform between 0 and 1, and standard normal noise. For every coalition u picks the component at
which the running sum of the weights passes it, and the noise makes the draw b_k of every component: all coalitions of a
unit share both. Given its component a linear score of a row is normal, so that means over draws are known in closed
form: those of the components, weighted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, final

import numpy as np
from scipy.special import softmax

from controlshap._checks import is_real, is_whole, show
from controlshap._errors import InvalidArgumentError, SingularCovarianceWarning
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.players import Players
from controlshap.values.base import ValueFunction
from controlshap.values.conditioning import condition
from controlshap.values.em import Components, fit_mixture
from controlshap.values.gaussian import GaussianImputer
from controlshap.values.normal_parts import NormalParts

#: Most components that "auto" tries.
MOST_COMPONENTS = 8


@final
@dataclass(frozen=True)
class Mixture(ValueFunction):
    """Condition a mixture of Gaussians fitted to the background on the revealed columns.

    For data that falls into clusters, or whose relations bend.

    Parameters
    ----------
    n_components : int or "auto"
        Gaussians in the mixture. "auto" takes more of them as long as Bayes' information criterion falls.
    min_eigenvalue : float
        As for `GaussianConditional`, for the correlation of each component.
    """

    n_components: int | Literal["auto"] = "auto"
    min_eigenvalue: float = 1e-4

    def __post_init__(self) -> None:
        if self.n_components != "auto" and (not is_whole(self.n_components) or self.n_components < 1):
            raise InvalidArgumentError(
                f"`n_components` must be a whole number of at least 1, or 'auto'; got {show(self.n_components)}."
            )
        if not is_real(self.min_eigenvalue) or not 0 < self.min_eigenvalue < 1:
            raise InvalidArgumentError(
                f"`min_eigenvalue` must lie between 0 and 1; got {show(self.min_eigenvalue)}. The default is 1e-4."
            )

    def bind(self, background: FloatArray, players: Players, feature_names: tuple[str, ...]) -> MixtureImputer:
        """Fit the mixture."""
        least = 2 if self.n_components == "auto" else 2 * self.n_components
        if len(background) < least:
            raise InvalidArgumentError(
                f"`background` has {len(background)} rows, and Mixture(n_components={self.n_components!r}) needs at "
                f"least {least}. Give more rows, or ask for fewer components."
            )
        found = self._fit(background)
        with warnings.catch_warnings():
            if len(found.weights) > 1:  # columns that go together within a component alone are no fault of the data's
                warnings.simplefilter("ignore", SingularCovarianceWarning)
            parts = tuple(
                GaussianImputer(players, condition(mean, covariance, self.min_eigenvalue, feature_names))
                for mean, covariance in zip(found.means, found.covariances, strict=True)
            )
        return MixtureImputer(players, found.weights, parts)

    def _fit(self, background: FloatArray) -> Components:
        if self.n_components != "auto":
            return fit_mixture(background, self.n_components)
        best = fit_mixture(background, 1)
        for n_components in range(2, min(MOST_COMPONENTS, len(background) // 2) + 1):
            found = fit_mixture(background, n_components)
            if found.criterion(len(background)) >= best.criterion(len(background)):
                break
            best = found
        return best


@final
@dataclass(frozen=True)
class MixtureImputer(NormalParts):
    """Rows of the conditioned components. Draws carry their noise and u in columns of their own, the last.

    Attributes
    ----------
    weights : ndarray of shape (components,)
    parts : tuple of GaussianImputer
    """

    players: Players
    weights: FloatArray
    parts: tuple[GaussianImputer, ...] = ()  # the base class has a property of this name

    is_refitted = True

    @property
    def has_normal_inputs(self) -> bool:
        """Given a component."""
        return True

    @cached_property
    def center(self) -> FloatArray:
        """Mean of the mixture."""
        mean: FloatArray = self.weights @ np.stack([part.center for part in self.parts])
        return mean

    def sample(self, n_rows: int, rng: np.random.Generator) -> FloatArray:
        """Rows of the mixture with their noise and the number u that picked the component."""
        noise, chance = rng.standard_normal((n_rows, self.players.n_columns)), rng.random(n_rows)
        picked = _pick(self.weights, chance)
        rows = np.stack([part.from_noise(noise) for part in self.parts])[picked, np.arange(n_rows)]
        return np.concatenate([rows, noise, chance[:, None]], axis=1)

    def coalition_rows(self, x: FloatArray, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """The row of the component that is picked for each coalition."""
        weights = self.coalition_weights(x, coalitions)
        made = (part.coalition_rows(x, coalitions, own) for part, own in self._own_draws(draws))
        return _choose(made, weights, draws)

    def walk_rows(self, x: FloatArray, permutations: IntArray, draws: FloatArray) -> FloatArray:
        """The same along permutations."""
        weights = self.walk_weights(x, permutations)[:, 1:-1]
        made = (part.walk_rows(x, permutations, own) for part, own in self._own_draws(draws))
        return _choose(made, weights, draws)

    def _own_draws(self, draws: FloatArray) -> list[tuple[GaussianImputer, FloatArray]]:
        """Each component, and its draws `(u, d, columns)` from the noise."""
        c = self.players.n_columns
        return [(part, part.from_noise(draws[..., c : 2 * c])) for part in self.parts]

    def coalition_weights(self, x: FloatArray, coalitions: BoolArray) -> FloatArray:
        """Weights `(u, k, components)` of the components given x on coalitions `(u, k, players)`."""
        revealed = self.players.expand(coalitions)
        masks, which = np.unique(revealed.reshape(-1, len(x)), axis=0, return_inverse=True)
        logs = np.stack([[_log_density(part, x, mask) for mask in masks] for part in self.parts], axis=1)
        weights = softmax(np.log(self.weights) + logs, axis=1)
        return np.asarray(weights[which.reshape(-1)].reshape(*coalitions.shape[:2], -1))

    def walk_weights(self, x: FloatArray, permutations: IntArray) -> FloatArray:
        """Weights `(u, players + 1, components)` at every prefix of permutations."""
        ends = np.cumsum(self.players.sizes[permutations], axis=1)
        ends = np.concatenate([np.zeros((len(ends), 1), dtype=np.int64), ends], axis=1)
        logs = np.zeros((*ends.shape, len(self.parts)))
        for number, part in enumerate(self.parts):
            order, factors = part.walk_factors(permutations)
            gap = ((x - part.moments.mean) / part.moments.scale)[order]
            innovations = np.linalg.solve(factors, gap[:, :, None])[:, :, 0]
            widths = np.diagonal(factors, axis1=1, axis2=2) * part.moments.scale[order]
            steps = -0.5 * innovations**2 - np.log(widths)
            running = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
            logs[..., number] = np.take_along_axis(running, ends, axis=1)
        return np.asarray(softmax(np.log(self.weights) + logs, axis=2))

    def workspace(self, *, walk: bool) -> int:
        """Rows of all components, and their matrices."""
        c, k = self.players.n_columns, len(self.parts)
        return k * (self.parts[0].workspace(walk=walk) + (self.players.n_players * c if walk else c))


def _log_density(part: GaussianImputer, x: FloatArray, revealed: BoolArray) -> float:
    """Log density of x in the revealed columns, but for a constant that all components share."""
    moments = part.moments
    gap = ((x - moments.mean) / moments.scale)[revealed]
    factor = np.linalg.cholesky(moments.correlation[np.ix_(revealed, revealed)])
    widths = np.diag(factor) * moments.scale[revealed]
    return float(-0.5 * (np.linalg.solve(factor, gap) ** 2).sum() - np.log(widths).sum())


def _pick(weights: FloatArray, chance: FloatArray) -> IntArray:
    """The component at which the running sum of weights `(..., components)` passes chance `(...)`."""
    running = np.cumsum(weights, axis=-1)[..., :-1]
    return np.asarray((running <= chance[..., None]).sum(axis=-1))


def _choose(made: Iterable[FloatArray], weights: FloatArray, draws: FloatArray) -> FloatArray:
    """Rows `(u, k, d, columns)` of the components that the draws pick by weights `(u, k, components)`."""
    picked = _pick(weights[:, :, None], draws[:, None, :, -1])
    rows = np.empty((*picked.shape, 0))
    for number, own in enumerate(made):
        rows = own if number == 0 else np.where((picked == number)[..., None], own, rows)
    return rows
