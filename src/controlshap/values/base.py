"""The base classes of value functions, and the simplest one: independent features.

One formula serves both cases of the paper: for a draw b and a coalition S,

    row(S) = b + A_S (x - b)

with `A_S` the selection of the columns of S (independent), or `Sigma[:,S] Sigma[S,S]^-1` (correlated,
pathwise conditioning). A draw defines a whole game: v_b(0) = f(b), v_b(all) = f(x).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, final

import numpy as np

from controlshap._arrays import prefix_masks, ranks
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.players import Players


class Imputer(ABC):
    """A value function bound to a background and players; subclass it to write your own.

    `sample` draws rows b, and `coalition_rows` turns each draw into the row of a coalition: x on its columns, and
    absent features elsewhere. The row of the empty coalition is the draw itself, and that of all players is x.
    """

    #: The players of coalitions.
    players: Players
    #: The rows b there are, `(n, columns)`; None where they come from a distribution.
    finite_draws: FloatArray | None = None
    #: Whether finite draws are taken at random rather than in cycles.
    with_replacement: bool = False
    #: Whether rows take x on the coalition and b elsewhere, column by column.
    mixes_columns: bool = False
    #: Whether rows are affine in x - b, so that D matrices exist.
    linear_in_x: bool = False
    #: Whether rows may hold NaN.
    handles_missing: bool = False
    #: Whether a GPU can make the rows: finite draws mixed by column, or the Gaussian's.
    has_device_rows: bool = False
    #: Rows that `weighted_rows` has for every coalition; None where there is no finite number of them.
    n_weighted: int | None = None
    #: How the Shapley values of a fitted function are known without model evaluations: in closed form for each draw,
    #: from weighted sums of columns that are normal given a coalition, or simulated from the rows of this class.
    known_values: Literal["of draws", "of normal scores", "simulated"] = "simulated"
    #: Rows that simulating known values makes for each evaluation of the model, if rows are expensive; 0 for no fitted
    #: functions at all, None where rows cost next to nothing.
    simulated_rows: float | None = None

    #: Whether the distribution is fitted to the background, and fits to nearly the same rows give nearly the same rows
    #: for equal random numbers.
    is_refitted: bool = False
    #: Whether rows are scores whose meaning is fitted to the background as well.
    scores_are_fitted: bool = False

    @property
    def has_normal_inputs(self) -> bool:
        """Whether model inputs are normal given a coalition, with x on it."""
        return False

    @property
    @abstractmethod
    def center(self) -> FloatArray:
        """Mean of the draws, `(columns,)`."""

    @abstractmethod
    def sample(self, n_rows: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws `(n_rows, columns)`, which may have further columns of its own, such as a random number."""

    @abstractmethod
    def coalition_rows(self, x: FloatArray, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """Rows `(u, k, d, columns)` for coalitions `(u, k, players)` and draws `(u, d, columns)`."""

    def walk_rows(self, x: FloatArray, permutations: IntArray, draws: FloatArray) -> FloatArray:
        """Rows `(u, players - 1, d, columns)` of the prefixes 1 to players - 1 of each permutation."""
        return self.coalition_rows(x, prefix_masks(ranks(permutations), self.players.n_players), draws)

    def weighted_rows(self, x: FloatArray, coalitions: BoolArray) -> tuple[FloatArray, FloatArray]:
        """All rows `(k, n, columns)` that coalitions `(k, players)` may have, and their probabilities `(k, n)`."""
        raise NotImplementedError(f"{type(self).__name__} has no weighted rows")

    @property
    def scale(self) -> FloatArray:
        """Units of the columns, `(columns,)`, in which D matrices are computed."""
        return np.ones(self.players.n_columns)

    def add_walk_maps(self, permutations: IntArray, total: FloatArray) -> None:
        """Add to `total` `(players, columns, columns)` how each player moves a row that is affine in x - b.

        Along a permutation revealing player j moves the row by `(A_after - A_before) (x - b)`, in units of `scale`.
        """
        c = self.players.n_columns
        # With x = 0 and b = -scale e_i the rows are b + scale A_S e_i: column i of A_S.
        draws = -np.diag(self.scale)
        rows = self.walk_rows(np.zeros(c), permutations, np.broadcast_to(draws, (len(permutations), c, c)))
        ends = np.broadcast_to(np.stack([draws, np.zeros((c, c))]), (len(rows), 2, c, c))
        steps = np.diff(np.concatenate([ends[:, :1], rows, ends[:, 1:]], axis=1), axis=1) / self.scale
        np.add.at(total, permutations, steps.swapaxes(2, 3))

    def for_row(self, x: FloatArray) -> tuple[Imputer, FloatArray]:
        """The imputer for one explained row, and that row as it sees it; itself and x, unless rows are latent."""
        return self, x

    def to_inputs(self, rows: FloatArray) -> FloatArray:
        """Model inputs of rows `(n, columns)`; surrogates see the rows themselves."""
        return rows

    def read_rows(self, rows: FloatArray, of: Imputer) -> FloatArray:  # noqa: ARG002
        """Rows `(n, columns)` of another fit to nearly the same background, as surrogates of this one see them."""
        return rows

    def check(self, rows: FloatArray, feature_names: tuple[str, ...]) -> None:  # noqa: B027 (most accept every row)
        """Refuse explained rows that this value function cannot hold."""

    def describe_price(self, n_evaluations: int) -> str:  # noqa: ARG002
        """The cost of the rows of so many evaluations, beside that of the model, if it is worth a line; else empty."""
        return ""

    def workspace(self, *, walk: bool) -> int:  # noqa: ARG002
        """Doubles needed beside the rows themselves, for each walk or each coalition."""
        return 0


class ValueFunction(ABC):
    """Settings of a value function, bound to data once per explainer."""

    #: Whether rows take x on the coalition and b elsewhere, column by column.
    mixes_columns: bool = False
    #: Whether the background may hold NaN.
    handles_missing: bool = False
    #: Whether columns may be categories, which then are blocks of scores.
    takes_categories: bool = True

    @property
    def draws_background(self) -> bool:
        """Whether b is a row of the background, so that a large background is sampled."""
        return False

    @abstractmethod
    def bind(self, background: FloatArray, players: Players, feature_names: tuple[str, ...]) -> Imputer:
        """Estimate what the value function needs from the background."""


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
        places = ranks(permutations)[:, self.players.owner]
        return _mix(prefix_masks(places, self.players.n_players), x, draws)


def _mix(revealed: BoolArray, x: FloatArray, draws: FloatArray) -> FloatArray:
    """`x` where revealed `(u, k, columns)`, the draws `(u, d, columns)` elsewhere: `(u, k, d, columns)`, in C order."""
    rows = np.empty((*revealed.shape[:2], *draws.shape[1:]))
    rows[:] = draws[:, None]
    np.copyto(rows, x, where=revealed[:, :, None])
    return rows
