"""KernelSHAP: coalitions from the Shapley kernel, constrained least squares in closed form (the paper's equation 5).

A unit is a coalition and, by default, its complement, with the same draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import BoolArray, FloatArray
from controlshap.estimators.base import Estimator, Evaluator, RowMaker, UnitDraws, check_draws
from controlshap.estimators.distinct_pairs import deal_pairs
from controlshap.statistics.size_strata import n_pairs
from controlshap.statistics.terms import LeastSquaresTerms


@final
@dataclass(frozen=True)
class Kernel(Estimator):
    """KernelSHAP.

    Parameters
    ----------
    paired : bool
        Evaluate each coalition together with its complement.
    n_draws : int
        Draws averaged for each coalition; the number of background rows uses all of them every time, as shap
        does.
    reuse : bool
        Take no pair of coalitions twice: the smallest and the largest sizes whole where their weight pays for it, the
        others without replacement; all pairs together are exact. Needs `paired`, and as many draws as background rows.
    closes_sum : bool
        Spread the gap to f(x) - v(0) that a control leaves over the values; the paper does not.
    """

    paired: bool = True
    n_draws: int = 1
    reuse: bool = False
    closes_sum: bool = True

    is_least_squares = True
    takes_fitted_controls = True
    has_distinct_coalitions = True
    gives_interactions = True

    def __post_init__(self) -> None:
        check_draws(self.n_draws)
        if self.reuse and not self.paired:
            raise InvalidArgumentError("`reuse=True` takes distinct pairs of coalitions; use paired=True.")

    @property
    def has_device_form(self) -> bool:  # type: ignore[override]
        """Pairs with one draw each."""
        return self.paired and self.n_draws == 1 and not self.reuse

    @property
    def efficient(self) -> bool:
        """Whether values sum to f(x) - v(0), as `closes_sum` sets it."""
        return self.closes_sum

    @property
    def without_replacement(self) -> bool:
        """Whether no pair is taken twice, as `reuse` sets it."""
        return self.reuse

    def n_distinct(self, n_players: int) -> float:
        """All pairs, where none is taken twice."""
        return n_pairs(n_players) if self.reuse else math.inf

    def unit_cost(self, n_players: int, *, finite: bool) -> int:  # noqa: ARG002
        """One evaluation for each coalition and draw."""
        return self.n_draws * (2 if self.paired else 1)

    def fewest_units(self, n_players: int) -> int:
        """Several times as many random coalitions as players, to determine them all; fewer of those that differ."""
        return int(min(2 * n_players + 1 if self.reuse else 3 * n_players + 2, self.n_distinct(n_players)))

    def sample(self, n_players: int, n_units: int, rng: np.random.Generator) -> BoolArray:
        """Coalitions `(n_units, players)` from the kernel."""
        if self.reuse:
            return deal_pairs(n_players, n_units, rng)
        return sample_coalitions(n_players, n_units, rng)

    def terms(self, game: Evaluator, design: BoolArray, draws: UnitDraws) -> LeastSquaresTerms:
        """Rows of the regression."""
        total = game.at_x - draws.base
        values = game.coalition_values(self._coalitions(design), draws.rows)  # (u, 1 or 2, d, o, f)
        by_draw = 0.5 * (values[:, 0] - values[:, 1]) if self.paired else values[:, 0] - draws.base
        return LeastSquaresTerms(
            self.regressors(design), by_draw.mean(axis=1), by_draw, total, draws.base, self.paired, self.reuse
        )

    def regressors(self, design: BoolArray) -> FloatArray:
        """Coalitions as numbers, less a half for pairs."""
        return np.asarray(design - 0.5 if self.paired else design.astype(float))

    def unit_rows(self, imputer: RowMaker, x: FloatArray, design: BoolArray, draws: FloatArray) -> FloatArray:
        """Rows of each coalition and, paired, of its complement."""
        return imputer.coalition_rows(x, self._coalitions(design), draws)

    def coalition_weights(self, design: BoolArray) -> tuple[BoolArray, FloatArray]:
        """One over the probability of the size, which a complement shares."""
        coalitions = self._coalitions(design)
        of_sizes = 1.0 / size_probabilities(design.shape[1])
        return coalitions, of_sizes[coalitions.sum(axis=2) - 1] / coalitions.shape[1]

    def _coalitions(self, design: BoolArray) -> BoolArray:
        """Coalitions that each unit evaluates, `(u, 1 or 2, players)`."""
        return np.stack([design, ~design], axis=1) if self.paired else design[:, None]


def size_probabilities(n_players: int) -> FloatArray:
    """Probability of coalition sizes 1 to p - 1, proportional to 1/(s (p - s)) (the paper's equation 4).

    The kernel's `1/(C(p, s) s (p - s))` is the probability of one coalition; there are C(p, s) of a size.
    """
    sizes = np.arange(1, n_players)
    weights = 1.0 / (sizes * (n_players - sizes))
    probabilities: FloatArray = weights / weights.sum()
    return probabilities


def sample_coalitions(n_players: int, n_units: int, rng: np.random.Generator) -> BoolArray:
    """Independent coalitions, neither empty nor full, shape (n_units, n_players)."""
    sizes = 1 + rng.choice(n_players - 1, size=n_units, p=size_probabilities(n_players))
    order = rng.permuted(np.tile(np.arange(n_players), (n_units, 1)), axis=1)
    return order < sizes[:, None]


def canonical_pairs(coalitions: BoolArray) -> BoolArray:
    """For each coalition `(n, players)`: itself or its complement, whichever holds the first player."""
    return np.where(coalitions[:, :1], coalitions, ~coalitions)
