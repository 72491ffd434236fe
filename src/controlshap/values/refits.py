"""The distribution of absent features fitted again to parts of the background, for a jackknife."""

from __future__ import annotations

from dataclasses import dataclass

from controlshap._errors import InvalidArgumentError
from controlshap._random import EXPLAINER_ENTROPY, Purpose, stream
from controlshap._types import FloatArray
from controlshap.data.players import Players
from controlshap.values.base import Imputer, ValueFunction

#: Blocks of rows: the variance has 19 degrees of freedom.
N_BLOCKS = 20
#: Fewest rows of a block, so that no fit rests on a handful.
FEWEST_ROWS = 2
#: Rows of all coalitions that one fit may have, where they are weighted: all fits take some tenths of a second.
MOST_WEIGHTED = 400_000


@dataclass(frozen=True)
class Refits:
    """The value function fitted again without each block of the background."""

    imputers: tuple[Imputer, ...]

    @classmethod
    def of(
        cls,
        value_function: ValueFunction,
        imputer: Imputer,
        background: FloatArray,
        players: Players,
        names: tuple[str, ...],
    ) -> Refits:
        """The fits; value functions that estimate nothing that a block of rows could change are refused."""
        if not imputer.is_refitted:
            raise InvalidArgumentError(
                "`distribution_errors=True`: no distribution is fitted to the background with these `features`, or "
                "not one whose draws follow the fit (draws='background', a sampler of your own). Leave it out; "
                "features='independent' has `background_standard_errors`."
            )
        n = len(background)
        if n < FEWEST_ROWS * N_BLOCKS:
            raise InvalidArgumentError(
                f"`distribution_errors=True` fits again without each of {N_BLOCKS} blocks of background rows, and "
                f"needs at least {FEWEST_ROWS * N_BLOCKS} rows; got {n}. Give more rows, or leave it out."
            )
        if imputer.n_weighted is not None and 2**players.n_players * n > MOST_WEIGHTED:
            raise InvalidArgumentError(
                f"`distribution_errors=True`: {players.n_players} players and {n:,} background rows are too many for "
                "rows that are weighted coalition by coalition. Leave it out, or use groups, or fewer rows."
            )
        blocks = stream(EXPLAINER_ENTROPY, Purpose.DISTRIBUTION).permutation(n) % N_BLOCKS
        return cls(tuple(value_function.bind(background[blocks != k], players, names) for k in range(N_BLOCKS)))
