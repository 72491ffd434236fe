"""The columns of a part: their names and types, and the attributes of an explanation as such columns and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from controlshap._types import FloatArray
from controlshap.data.categories import Category
from controlshap.data.table import as_row_name, is_missing
from controlshap.datasets.sources import take_columns
from controlshap.problem import Assembly
from controlshap.results.axes import field_names
from controlshap.results.explanation import Explanation

#: Key of the run's hash in the metadata of a part.
HASH = b"controlshap.run"
#: Attributes of an `Explanation` in columns of text.
TEXTS = ("status", "method", "controls")
#: Attributes in columns with one number or flag for each row, and the names of these columns.
SCALARS = {
    "row_numbers": "row", "n_evaluations": "n_evaluations", "look_shares": "look_share", "complete": "complete",
}  # fmt: skip
#: Attributes in columns with a list of numbers for each row: all arrays over players that have no wide columns.
LISTS = tuple(
    name
    for name in field_names(Explanation, axis="players")
    if name in field_names(Explanation, axis="rows") and name not in ("values", "standard_errors")
)
#: The same over pairs of players; empty unless interactions were asked for.
PAIRS = field_names(Explanation, axis="pairs")


@dataclass(frozen=True)
class PartLayout:
    """Names and types of the columns of a part.

    Attributes
    ----------
    outputs : tuple of str or None
        None for one output; numbers where several have no names.
    columns : tuple of str
        Columns of the explained rows.
    kinds : tuple of {"double", "string", "bool", "int64"}
        Types of these columns.
    kept, kept_kinds : tuple of str
        Columns that are kept beside the values, and their types.
    """

    players: tuple[str, ...]
    outputs: tuple[str, ...] | None
    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    kept: tuple[str, ...] = ()
    kept_kinds: tuple[str, ...] = ()

    @classmethod
    def of(cls, assembly: Assembly, n_outputs: int, kept: tuple[str, ...], kept_kinds: tuple[str, ...]) -> PartLayout:
        """The layout of the results of an explainer."""
        outputs = None
        if n_outputs > 1:
            outputs = assembly.model.output_names or ()
            if len(set(outputs)) < n_outputs:  # none, or some of them equal
                outputs = tuple(str(output) for output in range(n_outputs))
        kinds = tuple(
            _level_kind(column.levels) if isinstance(column, Category) else "double"
            for column in assembly.encoding.columns
        )
        return cls(assembly.players.names, outputs, assembly.column_names, kinds, kept, kept_kinds)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> PartLayout:
        """Read what `to_json` wrote."""
        tuples: dict[str, Any] = {name: None if names is None else tuple(names) for name, names in fields.items()}
        return cls(**tuples)

    def to_json(self) -> dict[str, Any]:
        """Describe the layout for the manifest."""
        return asdict(self)

    @property
    def wide(self) -> dict[str, list[str]]:
        """Attributes in columns of numbers, such as `value:Age`; `value:Age:output` where there are several outputs.

        With several outputs a colon within a name has a backslash before it, since the two names could not be told
        apart otherwise.
        """
        several = self.outputs is not None
        ends = [f":{_escape(output)}" for output in self.outputs] if self.outputs is not None else [""]
        players = [_escape(player) if several else player for player in self.players]
        return {
            "base_values": [f"base_value{end}" for end in ends],
            "base_standard_errors": [f"base_error{end}" for end in ends],
            "values": [f"value:{player}{end}" for player in players for end in ends],
            "standard_errors": [f"error:{player}{end}" for player in players for end in ends],
        }

    def schema(self, run: str) -> Any:
        """The Arrow schema of a part: first what people read, then what an `Explanation` needs besides."""
        import pyarrow as pa

        types = {"double": pa.float64(), "string": pa.string(), "bool": pa.bool_(), "int64": pa.int64()}
        columns: dict[str, Any] = {"row": types["int64"], "status": types["string"], "n_evaluations": types["int64"]}
        columns |= {name: types["double"] for names in self.wide.values() for name in names}
        columns |= {f"data:{name}": types[kind] for name, kind in zip(self.columns, self.kinds, strict=True)}
        columns |= {f"kept:{name}": types[kind] for name, kind in zip(self.kept, self.kept_kinds, strict=True)}
        columns |= {"method": types["string"], "controls": types["string"]}
        columns |= {"look_share": types["double"], "complete": types["bool"]}
        # "element" is the name that Parquet gives to what lists hold
        columns |= {"stages": pa.list_(pa.field("element", pa.int64()))}
        columns |= dict.fromkeys((*LISTS, *PAIRS), pa.list_(pa.field("element", pa.float64())))
        return pa.schema(list(columns.items()), {HASH: run.encode()})

    def columns_of(self, name: str) -> tuple[str, ...]:
        """Columns that hold an attribute."""
        if name == "data":
            return tuple(f"data:{column}" for column in self.columns)
        if name in ("kept", "row_names"):
            return tuple(f"kept:{column}" for column in self.kept)
        known = (*TEXTS, *LISTS, *PAIRS, "stages")
        return tuple(self.wide.get(name, ())) or ((SCALARS[name],) if name in SCALARS else (name,) * (name in known))

    def to_table(self, explanation: Explanation, first: int, schema: Any) -> Any:
        """Rows of an explanation, of which the first has this number, as an Arrow table."""
        import pyarrow as pa

        n = len(explanation)
        columns: dict[str, Any] = {name: getattr(explanation, name).tolist() for name in TEXTS}
        columns |= {name: getattr(explanation, attribute) for attribute, name in SCALARS.items()}
        columns |= {"row": np.arange(first, first + n), "stages": [list(stages) for stages in explanation.stages]}
        for attribute, names in self.wide.items():
            columns |= dict(zip(names, getattr(explanation, attribute).reshape(n, len(names)).T, strict=True))
        for number, (name, kind) in enumerate(zip(self.columns, self.kinds, strict=True)):
            columns[f"data:{name}"] = _data_column(explanation.data[:, number], kind)
        for number, name in enumerate(self.kept):
            assert explanation.kept is not None
            columns[f"kept:{name}"] = [entries[number] for entries in explanation.kept]
        for name in LISTS:
            array = getattr(explanation, name)
            columns[name] = _lists(_pack(array) if name == "covariance" else array, n)
        columns |= {name: _lists(getattr(explanation, name), n) for name in PAIRS}
        return pa.table([pa.array(columns[field.name], type=field.type) for field in schema], schema=schema)

    def decode(self, table: Any, name: str) -> Any:
        """An attribute of the rows of a table; None where it was not kept."""
        n, p, outputs = table.num_rows, len(self.players), len(self.outputs or ("",))
        per_output = () if self.outputs is None else (outputs,)
        if name == "data":
            return _decode_data(table, self)
        if name in ("kept", "row_names"):
            return _decode_kept(table, self, name)
        if name == "stages":
            return tuple(tuple(stages) for stages in table.column(name).to_pylist())
        if name in TEXTS:
            return np.array(table.column(name).to_pylist(), dtype=np.str_)
        if name in SCALARS:
            return table.column(SCALARS[name]).to_numpy()
        if name in self.wide:
            columns = [table.column(column).to_numpy() for column in self.wide[name]]
            of_row = per_output if name.startswith("base") else (p, *per_output)
            return np.column_stack(columns).reshape(n, *of_row)
        if (name not in LISTS and name not in PAIRS) or table.column(name).null_count:
            return None
        flat = table.column(name).combine_chunks().flatten().to_numpy()
        if name == "covariance":
            return _unpack(flat.reshape(n * outputs, -1), p).reshape(n, *per_output, p, p)
        if name == "shared_factors":
            return flat.reshape(n, -1, p, *per_output)
        return flat.reshape(n, p if name in LISTS else p * (p - 1) // 2, *per_output)


def _escape(name: str) -> str:
    return name.replace("\\", "\\\\").replace(":", "\\:")


def _data_column(values: Any, kind: str) -> Any:
    if kind == "double":
        return values.astype(float)
    levels = [None if is_missing(value) else value for value in values.tolist()]
    return [None if level is None else str(level) for level in levels] if kind == "string" else levels


def _level_kind(levels: tuple[Any, ...]) -> str:
    """The type that holds all levels of a category; objects of other kinds are written by their names."""
    known = [level for level in levels if level is not None]
    if known and all(isinstance(level, bool) for level in known):
        return "bool"
    return "int64" if known and all(isinstance(level, int) for level in known) else "string"


def _lists(array: FloatArray | None, n: int) -> list[FloatArray] | list[None]:
    """One list of numbers for each row."""
    return [None] * n if array is None else list(np.ascontiguousarray(array).reshape(n, -1))


def _pack(covariance: FloatArray) -> FloatArray:
    """The lower triangle `(..., p (p + 1) / 2)`; all of the matrix where rounding made the halves differ."""
    if not np.array_equal(covariance, np.swapaxes(covariance, -1, -2)):
        return covariance
    packed: FloatArray = covariance[(..., *np.tril_indices(covariance.shape[-1]))]
    return packed


def _unpack(packed: FloatArray, p: int) -> FloatArray:
    """Matrices `(n, p, p)` from the rows that `_pack` made."""
    if packed.shape[1] == p * p:
        return packed.reshape(-1, p, p)
    rows, columns = np.tril_indices(p)
    full = np.empty((len(packed), p, p))
    full[:, rows, columns] = packed
    full[:, columns, rows] = packed
    return full


def _decode_data(table: Any, layout: PartLayout) -> Any:
    data = np.empty((table.num_rows, len(layout.columns)), dtype=float if set(layout.kinds) <= {"double"} else object)
    for number, (name, kind) in enumerate(zip(layout.columns, layout.kinds, strict=True)):
        column = table.column(f"data:{name}")
        data[:, number] = column.to_numpy() if kind == "double" else column.to_pylist()
    return data


def _decode_kept(table: Any, layout: PartLayout, name: str) -> Any:
    """Entries of the columns that were kept, or of the first where it names the rows; None where none were."""
    if not layout.kept:
        return None
    columns = [table.column(f"kept:{column}").to_pylist() for column in layout.kept]
    if name == "kept":
        return tuple(zip(*columns, strict=True))
    return tuple("missing" if entry is None else as_row_name(entry) for entry in columns[0])


def kept_kinds(frame: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Types that columns of a frame are kept with: "double", "bool", "int64", or "string" for dates and all else."""
    return tuple(map(_kind, take_columns(frame, names).dtypes))


def read_kept(frame: Any, names: Sequence[str], kinds: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
    """The entries of each row in columns of these names and types; None where one is missing."""
    taken = take_columns(frame, names)
    columns = [
        [_entry(value, kind) for value in taken[column].to_list()]
        for column, kind in zip(taken.columns, kinds, strict=True)
    ]
    return tuple(zip(*columns, strict=True))


def _kind(dtype: Any) -> str:
    name = str(dtype).lower()
    if name.startswith("bool"):
        return "bool"
    if name.startswith(("int", "uint")) and not name.startswith("uint64"):
        return "int64"
    return "double" if name.startswith(("float", "double")) else "string"


def _entry(value: Any, kind: str) -> Any:
    if is_missing(value):
        return None
    return str(value) if kind == "string" else {"bool": bool, "int64": int, "double": float}[kind](value)
