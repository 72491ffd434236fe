"""The columns of a part file: what people read first, then what an `Explanation` needs besides."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from controlshap.data.columns import Category
from controlshap.results.axes import field_names
from controlshap.results.explanation import Explanation

if TYPE_CHECKING:
    from controlshap.problem import Assembly

#: List columns: all arrays of the players of a row that have no wide columns.
LISTS = tuple(
    name
    for name in field_names(Explanation, axis="players")
    if name in field_names(Explanation, axis="rows") and name not in ("values", "standard_errors")
)


@dataclass(frozen=True)
class Layout:
    """Names and types that are the same in all parts.

    Attributes
    ----------
    players : tuple of str
    outputs : tuple of str or None
        None for one output; numbers where several have no names.
    columns : tuple of str
        Of the explained rows.
    kinds : tuple of {"double", "string", "bool", "int64"}
        Types of the explained rows.
    """

    players: tuple[str, ...]
    outputs: tuple[str, ...] | None
    columns: tuple[str, ...]
    kinds: tuple[str, ...]

    def names(self, *prefixes: str) -> list[str]:
        """Column names such as `value:Age`, or `value:Age:output` where there are several outputs."""
        ends = [""] if self.outputs is None else [f":{output}" for output in self.outputs]
        return [f"{prefix}{end}" for prefix in prefixes for end in ends]

    @property
    def per_player(self) -> dict[str, list[str]]:
        """Wide columns of values and errors."""
        return {
            "values": self.names(*(f"value:{player}" for player in self.players)),
            "standard_errors": self.names(*(f"error:{player}" for player in self.players)),
        }

    @property
    def per_row(self) -> dict[str, list[str]]:
        """Wide columns of the base value and its error."""
        return {"base_values": self.names("base_value"), "base_standard_errors": self.names("base_error")}

    @property
    def has_objects(self) -> bool:
        """Whether some columns of the explained rows are categories."""
        return any(kind != "double" for kind in self.kinds)

    def to_json(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Layout:
        """The opposite."""
        outputs = told["outputs"]
        return cls(
            tuple(told["players"]),
            None if outputs is None else tuple(outputs),
            tuple(told["columns"]),
            tuple(told["kinds"]),
        )

    def schema(self, pa: Any, metadata: dict[bytes, bytes] | None = None) -> Any:
        """The Arrow schema of a part."""
        text = pa.string()
        fields = [pa.field("row", pa.int64()), pa.field("status", text)]
        fields += [pa.field("n_evaluations", pa.int64())]
        for names in (*self.per_row.values(), *self.per_player.values()):
            fields += [pa.field(name, pa.float64()) for name in names]
        types = {"double": pa.float64(), "string": text, "bool": pa.bool_(), "int64": pa.int64()}
        fields += [pa.field(f"data:{name}", types[kind]) for name, kind in zip(self.columns, self.kinds, strict=True)]
        fields += [pa.field("method", text), pa.field("controls", text)]
        fields += [pa.field("look_share", pa.float64()), pa.field("complete", pa.bool_())]
        fields += [pa.field("stages", pa.list_(pa.int64()))]
        fields += [pa.field(name, pa.list_(pa.float64())) for name in LISTS]
        return pa.schema(fields, metadata)


def layout_of(explainer: Assembly, n_outputs: int) -> Layout:
    """The layout of this explainer's results."""
    outputs = None
    if n_outputs > 1:
        outputs = explainer.model.output_names or tuple(str(output) for output in range(n_outputs))
    kinds = tuple(
        _level_kind(column.levels) if isinstance(column, Category) else "double"
        for column in explainer.encoding.columns
    )
    return Layout(explainer.players.names, outputs, explainer.column_names, kinds)


def _level_kind(levels: tuple[Any, ...]) -> str:
    """The type that holds all levels; objects of other kinds are written by their names."""
    known = [level for level in levels if level is not None]
    if known and all(isinstance(level, bool) for level in known):
        return "bool"
    return "int64" if known and all(isinstance(level, int) for level in known) else "string"
