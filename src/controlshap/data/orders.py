"""`order=` and `hierarchy=` as the user gives them, made an arrangement of players."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from controlshap._checks import is_whole, show
from controlshap._errors import InvalidArgumentError
from controlshap.data.arrangement import Arrangement, Child, Node
from controlshap.data.players import Players, join_names

Order: TypeAlias = "Sequence[Sequence[str | int] | str | int] | None"
"""`[["age", "sex"], ["education"], ["income"]]`: components, the first comes first."""
Hierarchy: TypeAlias = "Mapping[str, Any] | Sequence[Any] | None"
"""`{"person": ["age", "sex"], "money": {"income": [...], "wealth": [...]}}`, or nested lists."""


@dataclass
class Reader:
    """Finds players by the names or positions of columns, or by names of groups, and remembers where they were named.

    Attributes
    ----------
    argument : str
        What messages are about.
    """

    argument: str
    players: Players
    column_names: tuple[str, ...]

    def __post_init__(self) -> None:
        self._of_name = {name: number for number, name in enumerate(self.players.names)}
        self._of_column = dict(zip(self.column_names, self.players.owner.tolist(), strict=True))
        self._place: dict[int, tuple[str, bool]] = {}

    def read(self, entry: Any, place: str) -> int | None:
        """The player of an entry; None for a further column of a group that was named in this place."""
        whole, player = False, None
        if isinstance(entry, str) and entry in self._of_name:
            whole, player = True, self._of_name[entry]
        elif isinstance(entry, str) and entry in self._of_column:
            player = self._of_column[entry]
        elif is_whole(entry) and 0 <= entry < len(self.column_names):
            player = int(self.players.owner[entry])
            whole = self.players.sizes[player] == 1
        if player is None:
            raise InvalidArgumentError(self._unknown(entry, place))
        name, before = self.players.names[player], self._place.get(player)
        if before is None:
            self._place[player] = (place, whole)
            return player
        if before[0] == place and not (whole or before[1]):
            return None
        if before[0] == place:
            raise InvalidArgumentError(f"`{self.argument}`: {name!r} is named twice in {place}. Name it once.")
        why = (
            "the group would come apart"
            if self.players.sizes[player] > 1
            else "a player cannot come before and after itself"
            if self.argument == "order"
            else "a player is in one group"
        )
        raise InvalidArgumentError(
            f"`{self.argument}`: {name!r} is named in {before[0]} and in {place}, but {why}. Keep it in one of them."
        )

    def left_out(self) -> list[int]:
        """Players that were not named."""
        return [player for player in range(self.players.n_players) if player not in self._place]

    def _unknown(self, entry: Any, place: str) -> str:
        if is_whole(entry):
            return (
                f"`{self.argument}`: {place} names column {show(entry)}, but positions run from 0 to "
                f"{len(self.column_names) - 1}."
            )
        known = list(dict.fromkeys([*self.players.names, *self.column_names]))
        near = [name for name in known if str(entry).lower() in name.lower()][:3]
        hint = f"Did you mean one of {near}?" if near else f"The names are {known[:8]}."
        return f"`{self.argument}`: {place} names {show(entry)}, which is no column or group. {hint}"


def read_arrangement(
    order: Order, hierarchy: Hierarchy, players: Players, column_names: tuple[str, ...]
) -> Arrangement:
    """The arrangement of players by an order, a hierarchy or both."""
    components = None if order is None else read_order(order, players, column_names)
    blocks: list[Child] = list(range(players.n_players))
    groups: list[tuple[str, tuple[int, ...]]] = []
    if hierarchy is not None:
        blocks, groups = _read_hierarchy(hierarchy, players, column_names)
    if components is None:
        return Arrangement(Node(tuple(blocks)), tuple(groups))
    parts = [_blocks_within(component, blocks, players) for component in components]
    children = tuple(part[0] if len(part) == 1 else Node(tuple(part)) for part in parts)
    root = Node(children, ordered=True)
    if len(children) == 1:
        root = children[0] if isinstance(children[0], Node) else Node(children)
    return Arrangement(root, tuple(groups))


def read_order(
    order: Order, players: Players, column_names: tuple[str, ...], argument: str = "order"
) -> list[list[int]]:
    """The players of each component."""
    if isinstance(order, (str, Mapping)) or not isinstance(order, Sequence) or len(order) == 0:
        raise InvalidArgumentError(
            f"`{argument}` must be a list of lists of columns, those that come first at the front; got {show(order)}. "
            'Write for example [["age", "sex"], ["income"]].'
        )
    reader, components = Reader(argument, players, column_names), []
    for number, component in enumerate(order, start=1):
        entries = [component] if isinstance(component, str) or is_whole(component) else component
        if isinstance(entries, Mapping) or not isinstance(entries, Sequence) or len(entries) == 0:
            raise InvalidArgumentError(
                f"`{argument}`: component {number} must be a non-empty list of columns; got {show(component)}."
            )
        found = [reader.read(entry, f"component {number}") for entry in entries]
        components.append([player for player in found if player is not None])
    missing = [players.names[player] for player in reader.left_out()]
    if missing:
        raise InvalidArgumentError(
            f"`{argument}` must name every column or group; {missing[:8]} {'is' if len(missing) == 1 else 'are'} "
            "missing. What has no place of its own may share one with others."
        )
    return components


def _blocks_within(component: list[int], blocks: list[Child], players: Players) -> list[Child]:
    """The top blocks of a hierarchy that lie in a component of an order."""
    inside, own = [], set(component)
    for block in blocks:
        members = set(block.members.tolist()) if isinstance(block, Node) else {block}
        if members & own and not members <= own:
            first, second = players.names[min(members & own)], players.names[min(members - own)]
            raise InvalidArgumentError(
                f"`hierarchy` and `order` contradict each other: {first!r} and {second!r} stand together in a group, "
                "but are in different components. Split the group, or join the components."
            )
        if members <= own:
            inside.append(block)
    return inside


def _read_hierarchy(
    hierarchy: Hierarchy, players: Players, column_names: tuple[str, ...]
) -> tuple[list[Child], list[tuple[str, tuple[int, ...]]]]:
    """Blocks at the top, in the order of their first players, and those that have several players or a name."""
    if isinstance(hierarchy, str) or not isinstance(hierarchy, (Mapping, Sequence)):
        raise InvalidArgumentError(
            "`hierarchy` must be a dict of lists of columns, which may hold dicts in turn, or nested lists; got "
            f"{show(hierarchy)}."
        )
    if len(hierarchy) == 0:
        raise InvalidArgumentError("`hierarchy` is empty; leave it out, or name a group.")
    reader = Reader("hierarchy", players, column_names)
    named = list(hierarchy.items()) if isinstance(hierarchy, Mapping) else [(None, one) for one in hierarchy]
    blocks, groups = [], []
    for number, (name, content) in enumerate(named):
        label = f"group {number if name is None else name!r}"
        block = _read_block(content, label, reader, (id(hierarchy),))
        if block is None:
            continue
        blocks.append(block)
        if name is not None or isinstance(block, Node):
            members = tuple(block.members.tolist()) if isinstance(block, Node) else (block,)
            groups.append(
                (str(name) if name is not None else join_names([players.names[player] for player in members]), members)
            )
    alone = reader.left_out()
    return [*blocks, *alone], [*groups, *((players.names[player], (player,)) for player in alone)]


def _read_block(content: Any, label: str, reader: Reader, above: tuple[int, ...]) -> Child | None:
    """A group and what it holds; None for a further column of a player that was named."""
    if isinstance(content, str) or is_whole(content):
        if label.endswith("'"):
            raise InvalidArgumentError(
                f"`hierarchy`: {label} must be a non-empty list of columns; got {show(content)}. Write [{content!r}]."
            )
        return reader.read(content, label)
    if id(content) in above:
        raise InvalidArgumentError(f"`hierarchy`: {label} contains itself. Groups must end in columns.")
    if not isinstance(content, (Mapping, Sequence)) or len(content) == 0:
        raise InvalidArgumentError(f"`hierarchy`: {label} must be a non-empty list of columns; got {show(content)}.")
    above = (*above, id(content))
    found: list[Child | None] = []
    if isinstance(content, Mapping):
        found = [_read_block(inner, f"group {name!r}", reader, above) for name, inner in content.items()]
    else:
        for inner in content:
            alone = isinstance(inner, str) or is_whole(inner)
            found.append(reader.read(inner, label) if alone else _read_block(inner, f"{label} (inner)", reader, above))
    children = tuple(child for child in found if child is not None)
    return children[0] if len(children) == 1 else Node(children)
