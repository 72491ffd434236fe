"""Absent columns come from a function of the user's: a flow, a forest, a simulator.

A draw carries a seed in a column of its own, the last. The row of a coalition is what the function returns with a
generator of that seed, so that all coalitions of a unit share their random numbers, and a row can be made again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias, final

import numpy as np

from controlshap._checks import is_real, show
from controlshap._errors import InvalidArgumentError
from controlshap._types import BoolArray, FloatArray
from controlshap.data.players import Players
from controlshap.values.base import Imputer, ValueFunction

Draw: TypeAlias = "Callable[[FloatArray, BoolArray, int, np.random.Generator], FloatArray]"

#: Seeds are whole numbers that a double holds exactly.
SEEDS = 2**53
#: Rows and generators that a sampler is tried with, once.
TRIED_ROWS, TRIED_SEEDS = 3, 4
#: Bytes of rows of one explained row that are kept, for the surrogates to be shown them without another call.
KEPT_BYTES = 64 * 2**20


@final
@dataclass(frozen=True, eq=False, repr=False)
class Sampler(ValueFunction):
    """Ask a function of yours for the absent columns.

    Parameters
    ----------
    draw : callable
        `draw(x, revealed, n, rng)` returns `n` independent rows of shape (n, columns): x in the revealed columns, and
        in the others draws given these. `x` (columns,) holds numbers in the order of the columns of the background,
        `revealed` (columns,) truth values, and `rng` is a numpy Generator, the only source of randomness. It is called
        for one row of the model at a time.
    known_draws : float
        Known values of surrogates are simulated with so many draws for each evaluation of the model. More of them
        reduce the error further where the surrogate fits well; 0 takes no surrogates.
    """

    draw: Draw
    known_draws: float = 4.0

    takes_categories = False

    def __post_init__(self) -> None:
        if not callable(self.draw):
            raise InvalidArgumentError(
                f"`draw` must be a function draw(x, revealed, n, rng) that returns n rows; got {show(self.draw)}."
            )
        if not is_real(self.known_draws) or not 0 <= self.known_draws < np.inf:
            raise InvalidArgumentError(
                f"`known_draws` must be a number of draws for each evaluation, 0 or more; got {show(self.known_draws)}."
            )

    def __repr__(self) -> str:
        name = getattr(self.draw, "__qualname__", None) or repr(self.draw)
        return f"Sampler({name}, known_draws={self.known_draws:g})"

    def bind(self, background: FloatArray, players: Players, feature_names: tuple[str, ...]) -> SamplerImputer:
        """Try the function on a row of the background."""
        x, revealed = background[0].copy(), np.arange(len(feature_names)) % 2 == 0
        tried = []
        for seed in range(TRIED_SEEDS):
            twice = [
                ask(self.draw, x, revealed, TRIED_ROWS, np.random.default_rng(seed), feature_names) for _ in range(2)
            ]
            if not np.array_equal(twice[0], twice[1]):
                raise InvalidArgumentError(
                    "`draw` returned different rows for generators of the same seed. Take all randomness from the "
                    "`rng` that it is given."
                )
            tried.append(twice[0])
        if len(feature_names) > 1 and all(np.array_equal(rows, tried[0]) for rows in tried[1:]):
            raise InvalidArgumentError(
                f"`draw` returned the same rows for {TRIED_SEEDS} different generators. Draw the absent columns with "
                "the `rng` that it is given; values to fill in without chance are a background of one row with "
                "features='independent'."
            )
        return SamplerImputer(players, background, self.draw, feature_names, float(self.known_draws))


@final
@dataclass(frozen=True)
class SamplerImputer(Imputer):
    """Rows of a function, with their seeds; those of one explained row are kept while it is explained."""

    players: Players
    background: FloatArray
    draw: Draw
    feature_names: tuple[str, ...]
    simulated_rows: float
    kept: dict[tuple[float, bytes], FloatArray] | None = field(default=None, repr=False)

    @property
    def center(self) -> FloatArray:
        """A row to show the model first: the mean of the background."""
        mean: FloatArray = self.background.mean(axis=0)
        return mean

    def for_row(self, x: FloatArray) -> tuple[SamplerImputer, FloatArray]:
        """The same with rows of its own to keep."""
        return replace(self, kept={}), x

    def sample(self, n_rows: int, rng: np.random.Generator) -> FloatArray:
        """Rows of which nothing is revealed, with their seeds."""
        seeds = rng.integers(0, SEEDS, n_rows).astype(float)
        nothing = np.zeros(self.players.n_columns, dtype=bool)
        rows = [self._row(self.background[0], nothing, seed) for seed in seeds]
        return np.concatenate([np.reshape(rows, (n_rows, self.players.n_columns)), seeds[:, None]], axis=1)

    def coalition_rows(self, x: FloatArray, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """One call for each coalition and draw that is not kept."""
        revealed = self.players.expand(coalitions)
        rows = np.empty((*coalitions.shape[:2], draws.shape[1], len(x)))
        for unit, of_unit in enumerate(revealed):
            for place, mask in enumerate(of_unit):
                if mask.all() or not mask.any():
                    rows[unit, place] = x if mask.all() else draws[unit, :, :-1]
                    continue
                rows[unit, place] = [self._row(x, mask, draw[-1]) for draw in draws[unit]]
        return rows

    def _row(self, x: FloatArray, revealed: BoolArray, seed: float) -> FloatArray:
        key = (float(seed), revealed.tobytes())
        if self.kept is not None and key in self.kept:
            return self.kept[key]
        row: FloatArray = ask(self.draw, x, revealed, 1, np.random.default_rng(int(seed)), self.feature_names)[0]
        if self.kept is not None and len(self.kept) < KEPT_BYTES // (8 * len(x) + 200):
            self.kept[key] = row
        return row

    def describe_price(self, n_evaluations: int) -> str:
        """Calls of the function."""
        n_known = int(self.simulated_rows * n_evaluations)
        return (
            f"draws       about {n_evaluations:,} for the evaluations of a row, at most {n_known:,} for the known "
            "values of surrogates, and 256 to begin with"
        )


def ask(
    draw: Draw, x: FloatArray, revealed: BoolArray, n: int, rng: np.random.Generator, feature_names: tuple[str, ...]
) -> FloatArray:
    """Rows of a user's function `(n, columns)`, checked."""
    rows = draw(x.copy(), revealed.copy(), n, rng)
    try:
        rows = np.array(rows, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"`draw` must return an array of numbers of shape ({n}, {len(x)}); got {show(rows)}."
        ) from error
    if rows.shape != (n, len(x)):
        raise InvalidArgumentError(
            f"`draw` must return n rows of all columns, here an array of shape ({n}, {len(x)}); got {rows.shape}. "
            "Return the revealed columns, too."
        )
    if not np.isfinite(rows).all():
        raise InvalidArgumentError(
            f"`draw` returned NaN or infinite numbers in the column {_first(~np.isfinite(rows), feature_names)!r}."
        )
    changed = (rows != x) & revealed
    if changed.any():
        raise InvalidArgumentError(
            f"`draw` changed the revealed column {_first(changed, feature_names)!r}. Rows must be x to the bit where "
            "`revealed` is true: end with rows[:, revealed] = x[revealed]."
        )
    return rows


def _first(where: BoolArray, feature_names: tuple[str, ...]) -> str:
    return feature_names[int(np.argwhere(where)[0, 1])]
