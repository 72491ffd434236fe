"""One part on disk: a Parquet file with a line for each row, and columns that are the same in all parts of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._files import replacing
from controlshap._types import FloatArray
from controlshap.data.columns import Category, is_missing
from controlshap.datasets.files import import_pyarrow
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


@dataclass(frozen=True)
class PartLayout:
    """Names and types of the columns of a part.

    Attributes
    ----------
    players : tuple of str
    outputs : tuple of str or None
        None for one output; numbers where several have no names.
    columns : tuple of str
        Columns of the explained rows.
    kinds : tuple of {"double", "string", "bool", "int64"}
        Types of these columns.
    """

    players: tuple[str, ...]
    outputs: tuple[str, ...] | None
    columns: tuple[str, ...]
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, assembly: Assembly, n_outputs: int) -> PartLayout:
        """The layout of the results of an explainer."""
        outputs = None
        if n_outputs > 1:
            outputs = assembly.model.output_names or tuple(str(output) for output in range(n_outputs))
        kinds = tuple(
            _level_kind(column.levels) if isinstance(column, Category) else "double"
            for column in assembly.encoding.columns
        )
        return cls(assembly.players.names, outputs, assembly.column_names, kinds)

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
        """Attributes in columns of numbers, such as `value:Age`; `value:Age:output` where there are several outputs."""
        ends = [""] if self.outputs is None else [f":{output}" for output in self.outputs]
        return {
            "base_values": [f"base_value{end}" for end in ends],
            "base_standard_errors": [f"base_error{end}" for end in ends],
            "values": [f"value:{player}{end}" for player in self.players for end in ends],
            "standard_errors": [f"error:{player}{end}" for player in self.players for end in ends],
        }

    def schema(self, run: str) -> Any:
        """The Arrow schema of a part: first what people read, then what an `Explanation` needs besides."""
        import pyarrow as pa

        types = {"double": pa.float64(), "string": pa.string(), "bool": pa.bool_(), "int64": pa.int64()}
        columns: dict[str, Any] = {"row": types["int64"], "status": types["string"], "n_evaluations": types["int64"]}
        columns |= {name: types["double"] for names in self.wide.values() for name in names}
        columns |= {f"data:{name}": types[kind] for name, kind in zip(self.columns, self.kinds, strict=True)}
        columns |= {"method": types["string"], "controls": types["string"]}
        columns |= {"look_share": types["double"], "complete": types["bool"], "stages": pa.list_(pa.int64())}
        columns |= dict.fromkeys(LISTS, pa.list_(pa.float64()))
        return pa.schema(list(columns.items()), {HASH: run.encode()})


def part_path(folder: Path, part: int) -> Path:
    """The file of a part."""
    return folder / "parts" / f"part-{part:06d}.parquet"


def write_part(path: Path, pieces: Iterable[tuple[int, Explanation]], layout: PartLayout, run: str) -> int:
    """Write explanations, each with the number of its first row, and return their evaluations. All or nothing."""
    import_pyarrow("`explain_dataset`")
    from pyarrow import parquet

    schema = layout.schema(run)
    n_evaluations = 0
    with (
        replacing(path) as temporary,
        # a dictionary of doubles would make 0.0 of -0.0
        parquet.ParquetWriter(temporary, schema, compression="zstd", use_dictionary=list(TEXTS)) as writer,
    ):
        for first, explanation in pieces:
            writer.write_table(_to_table(explanation, first, layout, schema))
            n_evaluations += int(explanation.n_evaluations.sum())
    return n_evaluations


def part_evaluations(path: Path, run: str, n_rows: int) -> int:
    """Evaluations behind a finished part; an error where it is not of this run."""
    pa = import_pyarrow("`explain_dataset`")
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            written = (file.schema_arrow.metadata or {}).get(HASH, b"").decode()
            rows = file.metadata.num_rows
            column = file.read(columns=["n_evaluations"]).column(0) if written == run else None
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidArgumentError(
            f"`out`: {path.name!r} is damaged ({error}). Remove that file, and run again."
        ) from error
    if column is None or rows != n_rows:
        raise InvalidArgumentError(
            f"`out`: {path.name!r} is of another run (hash {written[:12] or 'none'}, {rows} rows; here {run[:12]}, "
            f"{n_rows} rows). Remove that file, or use another folder."
        )
    return int(pa.compute.sum(column).as_py())


def read_parts(paths: Sequence[Path], layout: PartLayout, run: str) -> dict[str, Any]:
    """All attributes of an `Explanation` that have rows, from the parts one after the other."""
    table = _read_tables(paths, run)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    n, p, outputs = table.num_rows, len(layout.players), len(layout.outputs or ("",))
    per_output = () if layout.outputs is None else (outputs,)
    attributes: dict[str, Any] = {name: np.array(columns[name].to_pylist(), dtype=np.str_) for name in TEXTS}
    attributes |= {attribute: columns[name].to_numpy() for attribute, name in SCALARS.items()}
    attributes["stages"] = tuple(tuple(stages) for stages in columns["stages"].to_pylist())
    for attribute, names in layout.wide.items():
        shape = (n, *per_output) if attribute.startswith("base") else (n, p, *per_output)
        attributes[attribute] = np.column_stack([columns[name].to_numpy() for name in names]).reshape(shape)
    for name in LISTS:
        if columns[name].null_count:
            attributes[name] = None
            continue
        flat = columns[name].combine_chunks().flatten().to_numpy()
        if name == "covariance":
            attributes[name] = _unpack(flat.reshape(n * outputs, -1), p).reshape(n, *per_output, p, p)
        else:
            attributes[name] = flat.reshape(n, p, *per_output)
    data = np.empty((n, len(layout.columns)), dtype=float if set(layout.kinds) <= {"double"} else object)
    for number, (name, kind) in enumerate(zip(layout.columns, layout.kinds, strict=True)):
        column = columns[f"data:{name}"]
        data[:, number] = column.to_numpy() if kind == "double" else column.to_pylist()
    return attributes | {"data": data}


def _read_tables(paths: Sequence[Path], run: str) -> Any:
    pa = import_pyarrow("`load`")
    from pyarrow import parquet

    tables = []
    try:
        for path in paths:
            table = parquet.read_table(path, partitioning=None)
            if (table.schema.metadata or {}).get(HASH) != run.encode():
                raise InvalidArgumentError(f"`path`: {path.name!r} is of another run. Remove that file, and run again.")
            tables.append(table)
        return pa.concat_tables(tables)
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidArgumentError(f"`path`: a part is damaged ({error}). Remove that file, and run again.") from error


def _to_table(explanation: Explanation, first: int, layout: PartLayout, schema: Any) -> Any:
    import pyarrow as pa

    n = len(explanation)
    columns: dict[str, Any] = {name: getattr(explanation, name).tolist() for name in TEXTS}
    columns |= {name: getattr(explanation, attribute) for attribute, name in SCALARS.items()}
    columns |= {"row": np.arange(first, first + n), "stages": [list(stages) for stages in explanation.stages]}
    for attribute, names in layout.wide.items():
        columns |= dict(zip(names, getattr(explanation, attribute).reshape(n, len(names)).T, strict=True))
    for number, (name, kind) in enumerate(zip(layout.columns, layout.kinds, strict=True)):
        columns[f"data:{name}"] = _data_column(explanation.data[:, number], kind)
    for name in LISTS:
        array = getattr(explanation, name)
        columns[name] = _lists(_pack(array) if name == "covariance" else array, n)
    return pa.table([pa.array(columns[field.name], type=field.type) for field in schema], schema=schema)


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
