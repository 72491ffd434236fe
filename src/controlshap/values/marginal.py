"""Independent features: absent columns come from one whole background row (interventional SHAP)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from controlshap._arrays import ranks
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.players import Players


@final
@dataclass(frozen=True)
class Marginal:
    """Take the columns of absent players from a background row, all from the same one.

    The features need not be independent for the values to be well defined; the name says that their
    dependence is not used. NaN is passed on to the model as it is.

    Parameters
    ----------
    replace : bool
        Draw background rows with replacement, as the paper does, instead of visiting them in shuffled cycles, which
        has less noise.
    """

    replace: bool = False

    def bind(
        self,
        background: FloatArray,
        players: Players,
        feature_names: tuple[str, ...],  # noqa: ARG002
    ) -> MarginalImputer:
        """Nothing to estimate."""
        return MarginalImputer(background, players, self.replace)


@final
@dataclass(frozen=True)
class MarginalImputer:
    """Rows that take x on the coalition and b elsewhere."""

    background: FloatArray
    players: Players
    replace: bool = False

    @property
    def finite_draws(self) -> FloatArray:
        """The background."""
        return self.background

    @cached_property
    def center(self) -> FloatArray:
        """Mean of the background."""
        mean: FloatArray = self.background.mean(axis=0)
        return mean

    def sample(self, n_rows: int, rng: np.random.Generator) -> FloatArray:
        """Background rows, drawn with replacement."""
        return self.background[rng.integers(0, len(self.background), n_rows)]

    def coalition_rows(self, x: FloatArray, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """Mix x and b by column."""
        return mixed(self.players.expand(coalitions), x, draws)

    def walk_rows(self, x: FloatArray, permutations: IntArray, draws: FloatArray) -> FloatArray:
        """Mix x and b for every prefix."""
        return mixed(prefix_masks(permutations, self.players), x, draws)

    def to_inputs(self, rows: FloatArray) -> FloatArray:
        """The rows themselves."""
        return rows

    def check(self, rows: FloatArray, feature_names: tuple[str, ...]) -> None:
        """Every row will do."""

    def workspace(self, *, walk: bool) -> int:  # noqa: ARG002
        """Nothing but the rows."""
        return 0


def mixed(revealed: BoolArray, x: FloatArray, draws: FloatArray) -> FloatArray:
    """X where revealed `(u, k, columns)`, the draws `(u, d, columns)` elsewhere: `(u, k, d, columns)`, in C order."""
    u, k, c = revealed.shape
    rows = np.empty((u, k, draws.shape[1], c))
    rows[:] = draws[:, None]
    np.copyto(rows, x, where=revealed[:, :, None])
    return rows


def prefix_masks(permutations: IntArray, players: Players) -> BoolArray:
    """Revealed columns `(u, players - 1, columns)` of the prefixes 1 to players - 1."""
    by_column = ranks(permutations)[:, players.owner]
    lengths = np.arange(1, players.n_players)
    return by_column[:, None, :] < lengths[None, :, None]
