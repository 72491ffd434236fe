"""What is known of fitted functions, against which their units are held: the controls' values come from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.crossfitting.simulated import (
    Simulated,
    draw_walks,
    has_conditional_mean,
    mean_coalitions,
    mean_walks,
    simulate_networks,
    simulate_walks,
)
from controlshap.estimators import Permutation
from controlshap.estimators.base import UnitDraws
from controlshap.functions.base import KnownFunction
from controlshap.functions.network import Network
from controlshap.sampling.game import FunctionGame
from controlshap.statistics.terms import LeastSquaresTerms, MeanTerms, Terms
from controlshap.statistics.two_stage import Roots
from controlshap.values.gaussian import GaussianImputer


class Reference(Protocol):
    """Known values of all functions of all folds."""

    @property
    def n_players(self) -> int:
        """Players."""

    def controls(self, fold: int, terms: Terms, design: Any, drawn: IntArray | None) -> FloatArray:
        """Two controls for each function: `(u, components, outputs, 2 functions)`, or targets `(u, draws, ...)`.

        `drawn` (u, draws) are the background rows of the units, where there is a background to draw from.
        """

    def roots(self, n_controls: int) -> Roots:
        """Root of the error of the controls' known values."""


@dataclass(frozen=True)
class SimulatedReference:
    """Values simulated without model calls, and conditional means where they are known.

    Attributes
    ----------
    functions, simulated : for each fold, output and function
    weights : ndarray of shape (folds,)
        Share of the units that each fold has.
    """

    functions: Sequence[tuple[tuple[KnownFunction, ...], ...]]
    simulated: list[list[list[Simulated]]]
    weights: FloatArray
    x: FloatArray
    imputer: GaussianImputer
    paired: bool

    @classmethod
    def of(
        cls,
        functions: Sequence[tuple[tuple[KnownFunction, ...], ...]],
        weights: FloatArray,
        x: FloatArray,
        imputer: GaussianImputer,
        memory_limit: int,
        rng: np.random.Generator,
        *,
        paired: bool,
        tolerances: FloatArray | None = None,
        n_walks: float = 0.0,
    ) -> SimulatedReference:
        """Simulate all functions, networks from the same permutations and the rest from the same walks.

        `tolerances` (outputs,) are variances of known values that are small enough; with many walks of the model more
        is simulated.
        """
        every = (f for of_fold in functions for of_output in of_fold for f in of_output)
        flat = list({id(f): f for f in every}.values())  # a shared function is the same in every fold
        networks = [f for f in flat if isinstance(f, Network) and has_conditional_mean(f, imputer)]
        rest = [f for f in flat if not has_conditional_mean(f, imputer)]
        by_function: dict[int, Simulated] = {}
        if networks:
            of_output = {id(f): o for of in functions for o, fs in enumerate(of) for f in fs}
            # the same fit to other folds leads: that of the first fold, with its output and its place
            first = {id(f): functions[0][o][n] for of in functions for o, fs in enumerate(of) for n, f in enumerate(fs)}
            numbers = {id(f): number for number, f in enumerate(networks)}
            leaders = np.array([numbers.get(id(first[id(f)]), number) for number, f in enumerate(networks)])
            enough = None if tolerances is None else tolerances[[of_output[id(f)] for f in networks]]
            found = simulate_networks(imputer, x, networks, rng, leaders, enough, n_walks)
            by_function |= {id(f): one for f, one in zip(networks, found, strict=True)}
        if rest:
            game = FunctionGame.of((tuple(rest),), x, imputer, memory_limit)

            def walk(permutations: IntArray, draws: FloatArray) -> FloatArray:
                unknown = UnitDraws(draws, None, None, np.zeros_like(game.at_x))
                return Permutation().terms(game, permutations, unknown).values[:, :, 0]

            by_function |= {id(f): one for f, one in zip(rest, simulate_walks(walk, imputer, rng), strict=True)}
        simulated = [[[by_function[id(f)] for f in of_output] for of_output in of_fold] for of_fold in functions]
        return cls(functions, simulated, weights, x, imputer, paired)

    @property
    def n_players(self) -> int:
        """Players."""
        return self.imputer.players.n_players

    def controls(self, fold: int, terms: Terms, design: Any, drawn: IntArray | None) -> FloatArray:  # noqa: ARG002
        """What units miss of the mean over draws, and how that differs from the simulated value."""
        walked = unit_values(terms)
        within, between = np.zeros_like(walked), np.zeros_like(walked)
        for output, of_output in enumerate(self.functions[fold]):
            for number, function in enumerate(of_output):
                known = self.simulated[fold][output][number].mean
                of_unit = walked[:, :, output, number]
                target = known
                if isinstance(terms, LeastSquaresTerms):
                    target = (terms.regressors @ known[:-1])[:, None]
                    of_unit = of_unit if terms.paired else of_unit - known[-1]
                middle = target
                if isinstance(function, Network) and has_conditional_mean(function, self.imputer):
                    middle = self._mean_over_draws(function, terms, design, known, of_unit.shape)
                within[:, :, output, number] = of_unit - middle
                between[:, :, output, number] = middle - target
        if self.imputer.finite_draws is not None and isinstance(terms, MeanTerms):
            within[:, -1] = between[:, -1] = 0.0  # v(0) is known then
        return interleaved(within, between)

    def takes_walks(self, fold: int) -> bool:
        """Whether a fold's functions are networks of so few units that their scores cost less than rows."""
        every = [f for of_output in self.functions[fold] for f in of_output]
        networks = [f for f in every if isinstance(f, Network) and has_conditional_mean(f, self.imputer)]
        return len(networks) == len(every) and sum(len(f.weights) + 1 for f in networks) <= len(self.x)

    def walk_controls(self, fold: int, permutations: IntArray, draws: FloatArray) -> FloatArray:
        """As `controls`, of walks with draws `(u, d, columns)`."""
        networks = cast("list[Network]", [f for of_output in self.functions[fold] for f in of_output])
        drawn, middle = draw_walks(self.imputer, self.x, permutations, draws, networks)
        if self.paired:
            backwards = draw_walks(self.imputer, self.x, permutations[:, ::-1], draws, networks)
            drawn, middle = 0.5 * (drawn + backwards[0]), 0.5 * (middle + backwards[1])
        known = np.stack([one.mean for of_output in self.simulated[fold] for one in of_output], axis=1)
        middle[:, -1] = known[-1]
        shape = (*drawn.shape[:2], len(self.functions[fold]), -1)
        return interleaved((drawn - middle).reshape(shape), (middle - known).reshape(shape))

    def _mean_over_draws(
        self, function: Network, terms: Terms, design: Any, known: FloatArray, shape: tuple[int, ...]
    ) -> FloatArray:
        if isinstance(terms, LeastSquaresTerms):
            coalitions: BoolArray = np.stack([design, ~design], axis=1) if terms.paired else design[:, None]
            values = mean_coalitions(self.imputer, self.x, coalitions, [function])[..., 0]
            targets = 0.5 * (values[:, 0] - values[:, 1]) if terms.paired else values[:, 0] - known[-1]
            return np.broadcast_to(targets[:, None], shape)
        walks = mean_walks(self.imputer, self.x, design, [function])[:, :, 0]
        if self.paired:
            backwards = mean_walks(self.imputer, self.x, design[:, ::-1], [function])[:, :, 0]
            walks = 0.5 * (walks + backwards)
        return np.concatenate([walks, np.full((len(walks), 1), known[-1])], axis=1)

    def roots(self, n_controls: int) -> Roots:
        """Scatter of the replications, in the control that holds units against the simulated value."""
        n_outputs = len(self.functions[0])
        rows = np.zeros((len(self.simulated[0][0][0].values), self.n_players + 1, n_outputs, n_controls))
        for weight, of_fold, functions in zip(self.weights, self.simulated, self.functions, strict=True):
            for output, of_output in enumerate(of_fold):
                for number, one in enumerate(of_output):
                    integrated = has_conditional_mean(functions[output][number], self.imputer)
                    # common permutations: the folds' errors add up
                    rows[:, :, output, 2 * number + integrated] -= weight * one.root_rows
        if self.imputer.finite_draws is not None:
            rows[:, -1] = 0.0
        n = len(rows)
        return Roots(rows, np.zeros(n, dtype=np.int64), np.array([n - 1.0]))


def unit_values(terms: Terms) -> FloatArray:
    """What units say: terms `(u, components, ...)`, or targets of draws `(u, draws, ...)`."""
    if isinstance(terms, LeastSquaresTerms):
        return terms.draw_targets
    if isinstance(terms, MeanTerms):
        return terms.values
    raise TypeError(f"unknown terms {type(terms).__name__}")


def interleaved(first: FloatArray, second: FloatArray) -> FloatArray:
    """Two controls of each function side by side, and 0 where a function's values were out of reach."""
    both = np.stack([first, second], axis=-1).reshape(*first.shape[:-1], -1)
    finite = np.isfinite(both).all(axis=tuple(range(both.ndim - 1)))
    return np.where(finite, both, 0.0)
