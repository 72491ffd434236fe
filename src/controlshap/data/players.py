"""Players, the columns or groups of columns that receive a Shapley value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from controlshap._arrays import Array, namespace, take
from controlshap._checks import is_whole
from controlshap._errors import InvalidArgumentError
from controlshap._types import AnyArray, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from controlshap.data.arrangement import Arrangement

Groups: TypeAlias = "Mapping[str, Sequence[str | int]] | Sequence[Sequence[str | int]] | None"
"""`{"Job": ["Job_admin", ...]}`, or lists of column names or positions; other columns play alone."""


@dataclass(frozen=True)
class Players:
    """A partition of the columns.

    Attributes
    ----------
    owner : ndarray of shape (n_columns,)
        The player of each column.
    names : tuple of str
        One per player.
    arrangement : Arrangement or None
        Which permutations of the players there are, where not all.
    """

    owner: IntArray
    names: tuple[str, ...]
    arrangement: Arrangement | None = None

    @property
    def n_players(self) -> int:
        """Number of players."""
        return len(self.names)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.owner)

    @cached_property
    def columns(self) -> tuple[IntArray, ...]:
        """The columns of each player, in increasing order."""
        return tuple(np.flatnonzero(self.owner == j) for j in range(self.n_players))

    @cached_property
    def sizes(self) -> IntArray:
        """Number of columns of each player."""
        return np.bincount(self.owner, minlength=self.n_players)

    @property
    def is_grouped(self) -> bool:
        """Whether some player has several columns."""
        return self.n_players < self.n_columns

    def expand(self, coalitions: BoolArray) -> BoolArray:
        """Turn coalitions `(..., n_players)` into masks `(..., n_columns)`."""
        return coalitions[..., self.owner]

    def sum_columns(self, by_column: FloatArray) -> FloatArray:
        """Sum an array `(n_columns, ...)` within players, to shape (n_players, ...)."""
        if not self.is_grouped:
            return by_column
        order = np.argsort(self.owner, kind="stable")
        starts = np.cumsum(self.sizes) - self.sizes
        total: FloatArray = np.add.reduceat(by_column[order], starts, axis=0)
        return total

    def column_order(self, permutations: IntArray) -> IntArray:
        """Turn permutations of players `(n, n_players)` into permutations of columns, those of a group adjacent."""
        if not self.is_grouped:
            return permutations  # columns are numbered as their players
        ranks = np.argsort(permutations, axis=1)
        return np.argsort(ranks[:, self.owner], axis=1, kind="stable")

    def count_columns(self, permutations: IntArray) -> IntArray:
        """Columns `(n, n_players + 1)` of the first 0, 1, 2, ... players of permutations."""
        ends = np.zeros((len(permutations), self.n_players + 1), dtype=np.int64)
        np.cumsum(self.sizes[permutations], axis=1, out=ends[:, 1:])
        return ends


def resolve_players(groups: Groups, feature_names: Sequence[str]) -> Players:
    """Turn the user's groups into a partition of the columns.

    Columns in no group are single players; a group takes the place of its first column.
    """
    n_columns = len(feature_names)
    if groups is None:
        return Players(np.arange(n_columns), tuple(feature_names))
    if not isinstance(groups, (Mapping, Sequence)):
        raise InvalidArgumentError(
            f"`groups` must be a dict of lists of columns, or a list of such lists; got {type(groups).__name__}."
        )
    members = _resolve_members(groups, feature_names)
    labels = (
        list(groups) if isinstance(groups, Mapping) else [join_names([feature_names[c] for c in m]) for m in members]
    )
    group_of = {column: group for group, columns in enumerate(members) for column in columns}
    # players are numbered as they are met; a column without group counts as a group of its own
    player_of: dict[int, int] = {}
    owner = [player_of.setdefault(group_of.get(c, -1 - c), len(player_of)) for c in range(n_columns)]
    names = [feature_names[-1 - group] if group < 0 else str(labels[group]) for group in player_of]
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise InvalidArgumentError(
            f"`groups`: every player needs a name of its own, but {repeated} stand for several. "
            "Rename the group or the column."
        )
    return Players(np.array(owner, dtype=np.int64), tuple(names))


def _resolve_members(groups: Groups, feature_names: Sequence[str]) -> list[list[int]]:
    """Return the columns of each group by number; raise if a group is empty or two of them overlap."""
    named = groups.items() if isinstance(groups, Mapping) else enumerate(groups or ())
    position = {name: number for number, name in enumerate(feature_names)}
    members: list[list[int]] = []
    taken: set[int] = set()
    for name, columns in named:
        label = f"group {name!r}"
        if isinstance(columns, str) or not hasattr(columns, "__len__") or len(columns) == 0:
            raise InvalidArgumentError(
                f"`groups`: {label} must be a non-empty list of columns; got {columns!r}. "
                "Leave single columns out: they are players of their own."
            )
        members.append([])
        for reference in columns:
            column = _resolve_column(reference, position, len(feature_names), label)
            if column in taken:
                raise InvalidArgumentError(
                    f"`groups`: groups must not overlap, but column {feature_names[column]!r} is named "
                    f"twice (again in {label}). Keep it in one group."
                )
            taken.add(column)
            members[-1].append(column)
    return members


def _resolve_column(member: object, position: Mapping[str, int], n_columns: int, label: str) -> int:
    if is_whole(member):
        if 0 <= member < n_columns:
            return int(member)
        raise InvalidArgumentError(
            f"`groups`: {label} names column {member}, but positions run from 0 to {n_columns - 1}."
        )
    if isinstance(member, str) and member in position:
        return position[member]
    near = [name for name in position if str(member).lower() in name.lower()][:3]
    hint = f" Did you mean one of {near}?" if near else f" The columns are {list(position)[:8]}."
    raise InvalidArgumentError(f"`groups`: {label} names the unknown column {member!r}.{hint}")


def join_names(names: Sequence[str]) -> str:
    """A name for several features or players together."""
    return " + ".join(names) if len(names) <= 3 else f"{names[0]} + {len(names) - 1} more"


def is_one_hot(block: AnyArray) -> bool:
    """Return whether exactly one of the columns is 1, and the others 0, in every row."""
    try:
        numbers = block.astype(float)
    except (TypeError, ValueError):
        return False
    return bool(np.isin(numbers, (0.0, 1.0)).all() and (numbers.sum(axis=1) == 1).all())


def one_hot_players(players: Players, background: AnyArray) -> tuple[int, ...]:
    """Return the players that have several columns, one-hot in every row."""
    several = [player for player, columns in enumerate(players.columns) if len(columns) > 1]
    return tuple(player for player in several if is_one_hot(background[:, players.columns[player]]))


def differs_from_x(x: Array, rows: Array, players: Players) -> Array:
    """In which rows which players `(..., rows, players)` are not as in x `(..., columns)`; gaps are alike."""
    xp, x = namespace(rows), x[..., None, :]
    columns = (rows != x) & ~(xp.isnan(rows) & xp.isnan(x))
    if not players.is_grouped:
        return columns
    return xp.stack([take(columns, own, axis=-1).any(axis=-1) for own in players.columns], axis=-1)
