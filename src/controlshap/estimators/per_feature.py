"""The paper's Shapley sampling: every player has permutations of its own, two evaluations a term.

Kept for comparison with the paper; walks give all players a term from the same evaluations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._arrays import ranks
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.estimators.base import Estimator, Evaluator, UnitDraws, check_draws
from controlshap.estimators.permutation import sample_permutations
from controlshap.statistics.terms import MeanTerms


@final
@dataclass(frozen=True)
class PerFeature(Estimator):
    """Shapley sampling player by player.

    Parameters
    ----------
    paired : bool
        Use each permutation and its reverse.
    n_draws : int
        Draws averaged for each coalition.
    shares_draws : bool
        Use the same draw for S and S + j. `False` redraws for S + j, which adds noise; it is what the paper's
        correlated experiments did, and changes nothing but noise.
    closes_sum : bool
        Spread the gap to f(x) - v(0) over the values; the paper does not.
    own_draws : bool
        Draw again for every player and for a permutation and its reverse, as the paper's experiments did; by default
        all terms of a unit have the same draws.
    """

    paired: bool = True
    n_draws: int = 1
    shares_draws: bool = True
    closes_sum: bool = True
    own_draws: bool = False

    def __post_init__(self) -> None:
        check_draws(self.n_draws)

    @property
    def efficient(self) -> bool:
        """Whether values sum to f(x) - v(0), as `closes_sum` sets it."""
        return self.closes_sum

    @property
    def redraws_when_joined(self) -> bool:
        """The opposite of `shares_draws`."""
        return not self.shares_draws

    @property
    def draws_own_rows(self) -> bool:
        """Whether each player has draws of its own, as `own_draws` sets it."""
        return self.own_draws

    def unit_draws(self, n_players: int) -> int:
        """One set of draws, or one for each player and direction."""
        return self.n_draws * (n_players * (2 if self.paired else 1) if self.own_draws else 1)

    def unit_cost(self, n_players: int, *, finite: bool) -> int:  # noqa: ARG002
        """Two evaluations for each player and direction (fewer where an end is met)."""
        return self.n_draws * (4 if self.paired else 2) * n_players

    def sample(self, n_players: int, n_units: int, rng: np.random.Generator) -> IntArray:
        """An independent permutation for every unit and player, shape (u, players, players)."""
        flat = sample_permutations(n_players, n_units * n_players, rng)
        return flat.reshape(n_units, n_players, n_players)

    def terms(self, game: Evaluator, design: IntArray, draws: UnitDraws) -> MeanTerms:
        """`v(S + j) - v(S)` for the players before j and, paired, for those after j."""
        place = ranks(design)  # (u, j, player)
        own = np.einsum("ujj->uj", place)[:, :, None]
        sets = [place < own, place > own] if self.paired else [place < own]
        joined = np.eye(design.shape[-1], dtype=bool)
        other = draws.rows if draws.spare is None else draws.spare
        gains = []
        for direction, members in enumerate(sets):
            without = self._values(game, members, draws.rows, draws, direction)
            gains.append(self._values(game, members | joined, other, draws, direction) - without)
        contributions = sum(gains[1:], gains[0]) / len(gains)
        base = np.broadcast_to(draws.base, (len(design), 1, *draws.base.shape))
        return MeanTerms(np.concatenate([contributions, base], axis=1))

    def _values(
        self, game: Evaluator, coalitions: BoolArray, rows: FloatArray, draws: UnitDraws, direction: int
    ) -> FloatArray:
        """Values `(u, players, outputs, functions)`; the ends are not evaluated where they are known."""
        sizes, p = coalitions.sum(axis=2), coalitions.shape[2]
        values = np.empty((*sizes.shape, *game.at_x.shape))
        values[sizes == p] = game.at_x
        unknown = sizes < p
        if draws.values is not None:
            values[sizes == 0] = self._of_players(draws.values, p, direction)[sizes == 0].mean(axis=1)
            unknown &= sizes > 0
        by_draw = game.coalition_values(coalitions[unknown][:, None], self._of_players(rows, p, direction)[unknown])
        values[unknown] = by_draw[:, 0].mean(axis=1)
        return values

    def _of_players(self, array: FloatArray, n_players: int, direction: int) -> FloatArray:
        """Draws of each player `(u, players, n_draws, ...)`, from those of the unit `(u, draws, ...)`."""
        if not self.own_draws:
            return np.broadcast_to(array[:, None], (len(array), n_players, *array.shape[1:]))
        return array.reshape(len(array), n_players, -1, self.n_draws, *array.shape[2:])[:, :, direction]
