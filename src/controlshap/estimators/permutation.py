"""Shapley sampling by walks: a permutation reveals one player after the other (the paper's equation 3).

A unit is one walk and, by default, its reverse, with the same draw: all players get a term from 2 (p - 1)
evaluations, since both ends are known. A pair is exact for games with at most two-way interactions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.estimators.base import Estimator, Evaluator, RowMaker, UnitDraws, base_values, check_draws
from controlshap.statistics.terms import MeanTerms

if TYPE_CHECKING:
    from controlshap.data.arrangement import Arrangement


@final
@dataclass(frozen=True)
class Permutation(Estimator):
    """Permutation walks.

    Parameters
    ----------
    paired : bool
        Walk each permutation in both directions (antithetic pairs).
    n_draws : int
        Draws averaged in each unit.
    closes_sum : bool
        Spread the remaining gap to f(x) - v(0) over the values.
    arrangement
        Which permutations there are; set by an explainer with `order` or `hierarchy`. In pairs whatever may stand in
        any order is turned round.
    """

    paired: bool = True
    n_draws: int = 1
    closes_sum: bool = True
    arrangement: Arrangement | None = field(default=None, repr=False)

    takes_fitted_controls = True
    takes_arrangements = True
    gives_interactions = True

    def __post_init__(self) -> None:
        check_draws(self.n_draws)

    @property
    def has_distinct_coalitions(self) -> bool:  # type: ignore[override]
        """Unless walk and reverse meet, between the components of an order."""
        return self.arrangement is None or not self.paired

    @property
    def has_device_form(self) -> bool:  # type: ignore[override]
        """Whether units are pairs of walks with one draw."""
        return self.paired and self.n_draws == 1

    @property
    def efficient(self) -> bool:
        """Whether values sum to f(x) - v(0), as `closes_sum` sets it."""
        return self.closes_sum

    def evaluates_base(self, *, finite: bool) -> bool:
        """Whether v_b(0), where a walk starts, is not known beforehand."""
        return not finite

    def unit_cost(self, n_players: int, *, finite: bool) -> int:
        """Inner points of the walks, and v_b(0) where it is not known."""
        walks = 2 if self.paired else 1
        return self.n_draws * (walks * (n_players - 1) + (0 if finite else 1))

    def sample(self, n_players: int, n_units: int, rng: np.random.Generator) -> IntArray:
        """Uniform permutations `(n_units, players)`."""
        return sample_permutations(n_players, n_units, rng, self.arrangement)

    def terms(self, game: Evaluator, design: IntArray, draws: UnitDraws) -> MeanTerms:
        """Contributions along the walk, averaged over both directions."""
        at_draws = base_values(game, draws)
        values = game.walk_values(design, draws.rows, at_draws)
        contributions = walk_contributions(design, values)
        if self.paired:
            reverse = reverse_permutations(design, self.arrangement)
            backwards = walk_contributions(reverse, game.walk_values(reverse, draws.rows, at_draws))
            contributions = 0.5 * (contributions + backwards)
        base = values[:, 0] if draws.values is None else np.broadcast_to(draws.base, values[:, 0].shape)
        return MeanTerms(np.concatenate([contributions, base[:, None]], axis=1), n_walks=2 if self.paired else 1)

    def unit_rows(self, imputer: RowMaker, x: FloatArray, design: IntArray, draws: FloatArray) -> FloatArray:
        """Rows of the walk and, paired, of its reverse."""
        orders = (design, reverse_permutations(design, self.arrangement)) if self.paired else (design,)
        return np.concatenate([imputer.walk_rows(x, order, draws) for order in orders], axis=1)

    def coalition_weights(self, design: IntArray) -> tuple[BoolArray, FloatArray]:
        """Each prefix is uniform among the coalitions of its size."""
        p, places = design.shape[1], np.argsort(design, axis=1)
        sizes = np.arange(1, p)[None, :, None]
        walks = (places, p - 1 - places) if self.paired else (places,)
        coalitions = np.concatenate([place[:, None] < sizes for place in walks], axis=1)
        return coalitions, np.full(coalitions.shape[:2], 1.0 / len(walks))


def sample_permutations(
    n_players: int, n_units: int, rng: np.random.Generator, arrangement: Arrangement | None = None
) -> IntArray:
    """Independent uniform permutations, shape (n_units, n_players); of an arrangement where there is one."""
    if arrangement is not None:
        return arrangement.sample(n_units, rng)
    return rng.permuted(np.tile(np.arange(n_players), (n_units, 1)), axis=1)


def reverse_permutations(permutations: IntArray, arrangement: Arrangement | None = None) -> IntArray:
    """From the end, or with all that may stand in any order turned round."""
    return permutations[:, ::-1] if arrangement is None else arrangement.reverse(permutations)


def walk_contributions(permutations: IntArray, values: FloatArray) -> FloatArray:
    """Contribution of each player at its place `(u, players, ...)`, from values `(u, players + 1, ...)` along walks."""
    added = values[:, 1:] - values[:, :-1]
    contributions = np.empty(added.shape)
    np.put_along_axis(contributions, permutations.reshape(*permutations.shape, *[1] * (values.ndim - 2)), added, axis=1)
    return contributions
