"""Shapley sampling by walks: a permutation reveals one player after the other (the paper's equation 3).

A unit is one walk and, by default, its reverse, with the same draw: all players get a term from 2 (p - 1)
evaluations, since both ends are known. A pair is exact for games with at most two-way interactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray, IntArray
from controlshap.estimators.base import Evaluator, UnitDraws, own_base
from controlshap.estimators.permutation_sampling import sample_permutations
from controlshap.statistics.terms import MeanTerms


@final
@dataclass(frozen=True)
class Permutation:
    """Permutation walks.

    Parameters
    ----------
    paired : bool
        Walk each permutation in both directions (antithetic pairs).
    n_draws : int
        Draws averaged in each unit.
    closes_sum : bool
        Spread the remaining gap to f(x) - v(0) over the values.
    """

    paired: bool = True
    n_draws: int = 1
    closes_sum: bool = True

    def __post_init__(self) -> None:
        check_draws(self.n_draws)

    @property
    def is_least_squares(self) -> bool:
        """A mean."""
        return False

    @property
    def settles_draws(self) -> bool:
        """A walk leaves the rest of the coalitions open."""
        return False

    @property
    def needs_spare_draws(self) -> bool:
        """One draw serves the whole walk."""
        return False

    def draws_base(self, *, finite: bool) -> bool:
        """A walk starts at f(b)."""
        return not finite

    def unit_cost(self, n_players: int, *, finite: bool) -> int:
        """Inner points of the walks, and f(b) where it is not known."""
        walks = 2 if self.paired else 1
        return self.n_draws * (walks * (n_players - 1) + (0 if finite else 1))

    def fewest_units(self, n_players: int) -> int:  # noqa: ARG002
        """Two, to have a variance."""
        return 2

    def sample(self, n_players: int, n_units: int, rng: np.random.Generator) -> IntArray:
        """Uniform permutations."""
        return sample_permutations(n_players, n_units, rng)

    def terms(self, game: Evaluator, design: IntArray, draws: UnitDraws) -> MeanTerms:
        """Contributions along the walk, averaged over both directions."""
        at_draws = own_base(game, draws)
        contributions = walk_contributions(game, design, draws.rows, at_draws)
        if self.paired:
            backwards = walk_contributions(game, design[:, ::-1], draws.rows, at_draws)
            contributions = 0.5 * (contributions + backwards)
        base = np.broadcast_to(draws.base, at_draws[:, 0].shape) if draws.values is not None else at_draws.mean(1)
        return MeanTerms(np.concatenate([contributions, base[:, None]], axis=1))

    def gather(self, parts: Sequence[MeanTerms]) -> MeanTerms:
        """Stack."""
        return gather_means(parts)


def walk_contributions(game: Evaluator, permutations: IntArray, rows: FloatArray, at_draws: FloatArray) -> FloatArray:
    """What each player adds at its place, `(u, players, outputs, functions)`."""
    values = game.walk_values(permutations, rows, at_draws)
    added = np.diff(values, axis=1)
    places = np.argsort(permutations, axis=1)
    return np.take_along_axis(added, places[:, :, None, None], axis=1)


def gather_means(parts: Sequence[MeanTerms]) -> MeanTerms:
    """Terms of several batches as one."""
    if len(parts) == 1:
        return parts[0]
    return MeanTerms(np.concatenate([part.values for part in parts]))


def check_draws(n_draws: int) -> None:
    """At least one draw."""
    if isinstance(n_draws, bool) or not isinstance(n_draws, (int, np.integer)) or n_draws < 1:
        raise InvalidArgumentError(f"`n_draws` must be a whole number of at least 1; got {n_draws!r}.")
