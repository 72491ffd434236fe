"""The paper's Shapley sampling: every player has permutations of its own, two evaluations a term.

Kept for comparison with the paper; walks give all players a term from the same evaluations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.estimators.protocol import Evaluator, UnitDraws
from controlshap.estimators.terms import MeanTerms
from controlshap.estimators.walks import check_draws, gather_means
from controlshap.samplers.permutation import ranks, sample_permutations


@final
@dataclass(frozen=True)
class PerFeature:
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
    """

    paired: bool = True
    n_draws: int = 1
    shares_draws: bool = True
    closes_sum: bool = True

    def __post_init__(self) -> None:
        check_draws(self.n_draws)

    @property
    def is_least_squares(self) -> bool:
        """A mean."""
        return False

    @property
    def settles_draws(self) -> bool:
        """Most coalitions stay open."""
        return False

    @property
    def needs_spare_draws(self) -> bool:
        """When S and S + j do not share."""
        return not self.shares_draws

    def draws_base(self, *, finite: bool) -> bool:  # noqa: ARG002
        """The base value plays no part in the terms."""
        return False

    def unit_cost(self, n_players: int, *, finite: bool) -> int:  # noqa: ARG002
        """Two evaluations for each player and direction (fewer where an end is met)."""
        return self.n_draws * (4 if self.paired else 2) * n_players

    def fewest_units(self, n_players: int) -> int:  # noqa: ARG002
        """Two, to have a variance."""
        return 2

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
        found = []
        for members in sets:
            without = self._values(game, members, draws.rows, draws)
            found.append(self._values(game, members | joined, other, draws) - without)
        contributions = sum(found[1:], found[0]) / len(found)
        base = np.broadcast_to(draws.base, (len(design), 1, *draws.base.shape))
        return MeanTerms(np.concatenate([contributions, base], axis=1))

    def _values(self, game: Evaluator, coalitions: BoolArray, rows: FloatArray, draws: UnitDraws) -> FloatArray:
        """Values `(u, k, outputs, functions)`; the ends are not evaluated where they are known."""
        u, k, p = coalitions.shape
        sizes = coalitions.sum(axis=2)
        values = np.empty((u, k, *game.at_x.shape))
        values[sizes == p] = game.at_x
        open_ = sizes < p
        if draws.values is not None:
            empty_unit = np.nonzero(sizes == 0)[0]
            values[sizes == 0] = draws.values[empty_unit].mean(axis=1)
            open_ &= sizes > 0
        unit, place = np.nonzero(open_)
        found = game.coalition_values(coalitions[unit, place][:, None], rows[unit])
        values[unit, place] = found[:, 0].mean(axis=1)
        return values

    def gather(self, parts: Sequence[MeanTerms]) -> MeanTerms:
        """Stack."""
        return gather_means(parts)
