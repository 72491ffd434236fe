"""Independent features: absent columns come from one whole background row (interventional SHAP)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.players import Players
from controlshap.values.base import Imputer, ValueFunction, prefix_masks


@final
@dataclass(frozen=True)
class Marginal(ValueFunction):
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

    mixes_columns = True
    handles_missing = True
    draws_background = True

    def bind(
        self,
        background: FloatArray,
        players: Players,
        feature_names: tuple[str, ...],  # noqa: ARG002
    ) -> MarginalImputer:
        """Keep the background; there is nothing to estimate."""
        return MarginalImputer(players, background, self.replace)


@final
@dataclass(frozen=True)
class MarginalImputer(Imputer):
    """Rows that take x on the coalition and b elsewhere."""

    players: Players
    finite_draws: FloatArray
    with_replacement: bool = False

    mixes_columns = True
    handles_missing = True
    has_device_rows = True
    known_values = "of draws"

    @cached_property
    def center(self) -> FloatArray:
        """Mean of the background."""
        mean: FloatArray = self.finite_draws.mean(axis=0)
        return mean

    def sample(self, n_rows: int, rng: np.random.Generator) -> FloatArray:
        """Background rows, drawn with replacement."""
        return self.finite_draws[rng.integers(0, len(self.finite_draws), n_rows)]

    def coalition_rows(self, x: FloatArray, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """Mix x and b by column."""
        return _mix(self.players.expand(coalitions), x, draws)

    def walk_rows(self, x: FloatArray, permutations: IntArray, draws: FloatArray) -> FloatArray:
        """Mix x and b for every prefix."""
        return _mix(prefix_masks(permutations, self.players.owner), x, draws)


def _mix(revealed: BoolArray, x: FloatArray, draws: FloatArray) -> FloatArray:
    """`x` where revealed `(u, k, columns)`, the draws `(u, d, columns)` elsewhere: `(u, k, d, columns)`, in C order."""
    rows = np.empty((*revealed.shape[:2], *draws.shape[1:]))
    rows[:] = draws[:, None]
    np.copyto(rows, x, where=revealed[:, :, None])
    return rows
