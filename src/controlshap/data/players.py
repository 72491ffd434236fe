"""Players and columns: who receives a Shapley value, and which model inputs belong to whom.

A player is one column or a group of columns. Groups are resolved here, once; everything behind
this file sees players only, and asks `Players` for the columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import AnyArray, BoolArray, FloatArray, IntArray

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
    """

    owner: IntArray
    names: tuple[str, ...]

    @property
    def n_players(self) -> int:
        """How many values an explanation has."""
        return len(self.names)

    @property
    def n_columns(self) -> int:
        """How many inputs the model has."""
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
        """Coalitions `(..., n_players)` as masks `(..., n_columns)`."""
        return coalitions[..., self.owner]

    def sum_columns(self, by_column: FloatArray) -> FloatArray:
        """Add `(n_columns, ...)` within players, giving `(n_players, ...)`."""
        if not self.is_grouped:
            return by_column
        order = np.argsort(self.owner, kind="stable")
        starts = np.cumsum(self.sizes) - self.sizes
        total: FloatArray = np.add.reduceat(by_column[order], starts, axis=0)
        return total

    def column_order(self, permutations: IntArray) -> IntArray:
        """Permutations of players `(n, n_players)` as permutations of columns, groups adjacent."""
        ranks = np.argsort(permutations, axis=1)
        return np.argsort(ranks[:, self.owner], axis=1, kind="stable")


def resolve_players(groups: Groups, feature_names: Sequence[str]) -> Players:
    """Turn the user's groups into a partition of the columns.

    Columns in no group are single players; a group stands at the place of its first column.
    """
    n_columns = len(feature_names)
    if groups is None:
        return Players(np.arange(n_columns), tuple(feature_names))
    if not isinstance(groups, (Mapping, Sequence)):
        raise InvalidArgumentError(
            f"`groups` must be a dict of lists of columns, or a list of such lists; got {type(groups).__name__}."
        )
    named = list(groups.items()) if isinstance(groups, Mapping) else [(None, g) for g in groups]
    position = {name: i for i, name in enumerate(feature_names)}
    group_of: dict[int, int] = {}
    for number, (name, members) in enumerate(named):
        label = f"group {name!r}" if name is not None else f"group {number}"
        if isinstance(members, str) or not hasattr(members, "__len__") or len(members) == 0:
            raise InvalidArgumentError(
                f"`groups`: {label} must be a non-empty list of columns; got {members!r}. "
                "Leave single columns out: they are players of their own."
            )
        for member in members:
            column = _resolve_column(member, position, n_columns, label)
            if column in group_of:
                raise InvalidArgumentError(
                    f"`groups`: groups must not overlap, but column {feature_names[column]!r} is named "
                    f"twice (again in {label}). Keep it in one group."
                )
            group_of[column] = number
    owner = np.empty(n_columns, dtype=np.int64)
    player_of_group: dict[int, int] = {}
    names: list[str] = []
    for column in range(n_columns):
        group = group_of.get(column)
        if group is None or group not in player_of_group:
            if group is not None:
                player_of_group[group] = len(names)
            name = feature_names[column] if group is None else named[group][0]
            if name is None:
                name = _joined_name(feature_names, [c for c, g in group_of.items() if g == group])
            owner[column] = len(names)
            names.append(str(name))
        else:
            owner[column] = player_of_group[group]
    if len(set(names)) < len(names):
        twice = sorted({n for n in names if names.count(n) > 1})
        raise InvalidArgumentError(
            f"`groups`: every player needs a name of its own, but {twice} stand for several. "
            "Rename the group or the column."
        )
    return Players(owner, tuple(names))


def _resolve_column(member: object, position: Mapping[str, int], n_columns: int, label: str) -> int:
    if isinstance(member, (int, np.integer)) and not isinstance(member, bool):
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


def _joined_name(feature_names: Sequence[str], columns: Sequence[int]) -> str:
    names = [feature_names[c] for c in columns]
    return " + ".join(names) if len(names) <= 3 else f"{names[0]} + {len(names) - 1} more"


def is_one_hot(block: AnyArray) -> bool:
    """Whether exactly one of the columns is 1, and the others 0, in every row."""
    try:
        numbers = block.astype(float)
    except (TypeError, ValueError):
        return False
    return bool(np.isin(numbers, (0.0, 1.0)).all() and (numbers.sum(axis=1) == 1).all())


def one_hot_players(players: Players, background: AnyArray) -> tuple[int, ...]:
    """Players of several columns of which exactly one is 1, and the others 0, in every row."""
    several = [player for player, columns in enumerate(players.columns) if len(columns) > 1]
    return tuple(player for player in several if is_one_hot(background[:, players.columns[player]]))
