"""All coalitions of each draw: exact over a finite background, free of coalition noise for sampled draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._types import BoolArray
from controlshap.estimators.base import Evaluator, UnitDraws, own_base
from controlshap.estimators.exact import all_coalitions, shapley_values
from controlshap.estimators.permutation import gather_means
from controlshap.statistics.terms import MeanTerms


@final
@dataclass(frozen=True)
class Enumeration:
    """Exact Shapley values of each draw's game; a unit is one draw."""

    @property
    def n_draws(self) -> int:
        """One."""
        return 1

    @property
    def is_least_squares(self) -> bool:
        """A mean."""
        return False

    @property
    def settles_draws(self) -> bool:
        """Nothing is left open."""
        return True

    @property
    def closes_sum(self) -> bool:
        """Every draw's values sum to f(x) - f(b)."""
        return True

    @property
    def needs_spare_draws(self) -> bool:
        """One draw serves all coalitions."""
        return False

    def draws_base(self, *, finite: bool) -> bool:
        """f(b) is the value of the empty coalition."""
        return not finite

    def unit_cost(self, n_players: int, *, finite: bool) -> int:
        """All coalitions but the known ends."""
        return int(2**n_players) - (2 if finite else 1)

    def fewest_units(self, n_players: int) -> int:  # noqa: ARG002
        """Two, to have a variance; one over a background of one row is exact."""
        return 1

    def sample(self, n_players: int, n_units: int, rng: np.random.Generator) -> BoolArray:  # noqa: ARG002
        """Nothing is random: the same coalitions for every unit."""
        inner = all_coalitions(n_players)[1:-1]
        return np.broadcast_to(inner, (n_units, *inner.shape))

    def terms(self, game: Evaluator, design: BoolArray, draws: UnitDraws) -> MeanTerms:
        """Shapley values of each draw."""
        at_draws = own_base(game, draws).mean(axis=1)
        u = len(design)
        inner = game.coalition_values(design, draws.rows)[:, :, 0]  # (u, 2^p - 2, o, f)
        table = np.empty((design.shape[1] + 2, u, *at_draws.shape[1:]))
        table[0] = at_draws
        table[1:-1] = inner.swapaxes(0, 1)
        table[-1] = game.at_x
        values = shapley_values(table).swapaxes(0, 1)
        base = np.broadcast_to(draws.base, at_draws.shape) if draws.values is not None else at_draws
        return MeanTerms(np.concatenate([values, base[:, None]], axis=1))

    def gather(self, parts: Sequence[MeanTerms]) -> MeanTerms:
        """Stack."""
        return gather_means(parts)
