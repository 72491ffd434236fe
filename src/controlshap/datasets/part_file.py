"""One part on disk: a Parquet file with a line for each row, and columns that are the same in all parts of a run.

Its pages carry checksums for any reader. Its metadata hold the run, and a digest of the contents of each column as they
were before they were encoded, which is compared with what comes out: damage to headers and footers is noticed as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._files import DamagedFileError, replacing
from controlshap._types import FloatArray
from controlshap.data.categories import Category
from controlshap.data.table import is_missing
from controlshap.datasets.files import import_pyarrow
from controlshap.problem import Assembly
from controlshap.results.axes import field_names
from controlshap.results.explanation import Explanation

#: Key of the run's hash in the metadata of a part.
HASH = b"controlshap.run"
#: Key of the digests of its columns, one after the other.
DIGESTS = b"controlshap.columns"
#: Bytes of such a digest: damage goes unnoticed with probability 2**-64.
DIGEST_BYTES = 8
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


def part_path(folder: Path, part: int) -> Path:
    """The file of a part."""
    return folder / "parts" / f"part-{part:06d}.parquet"


def write_part(path: Path, pieces: Iterable[tuple[int, Explanation]], layout: PartLayout, run: str) -> int:
    """Write explanations, each with the number of its first row, and return their evaluations. All or nothing."""
    import_pyarrow("`explain_dataset`")
    from pyarrow import parquet

    schema = layout.schema(run)
    digests = ColumnDigests(schema)
    n_evaluations = 0
    with (
        replacing(path) as temporary,
        # a dictionary of doubles would make 0.0 of -0.0
        parquet.ParquetWriter(
            temporary, schema, compression="zstd", use_dictionary=list(TEXTS), write_page_checksum=True
        ) as writer,
    ):
        for first, explanation in pieces:
            table = _to_table(explanation, first, layout, schema)
            digests.add(table)
            writer.write_table(table)
            n_evaluations += int(explanation.n_evaluations.sum())
        writer.add_key_value_metadata({DIGESTS: b"".join(digests.by_column())})
    return n_evaluations


class ColumnDigests:
    """Digests of the contents of columns, to which rows are added a table at a time."""

    def __init__(self, schema: Any) -> None:
        self.names = [f"{field.name} {field.type}".encode() for field in schema]
        # of what is there (or how long it is), and of the values: how rows are cut into tables makes no difference
        self.hashes = [(hashlib.sha256(), hashlib.sha256()) for _ in schema]

    def add(self, table: Any) -> None:
        """Add the rows of a table."""
        for pair, column in zip(self.hashes, table.columns, strict=True):
            for digest, contents in zip(pair, _column_bytes(column), strict=True):
                digest.update(contents)

    def by_column(self) -> list[bytes]:
        """The digest of each column, in hexadecimal digits."""
        parts = [
            hashlib.blake2b(name + b"".join(digest.digest() for digest in pair), digest_size=DIGEST_BYTES)
            for name, pair in zip(self.names, self.hashes, strict=True)
        ]
        return [part.hexdigest().encode() for part in parts]


def _column_bytes(column: Any) -> tuple[bytes, bytes]:
    """Which values of a column are there, or how long they are (-1 for null); and the values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_list(column.type):
        return pc.list_value_length(column).fill_null(-1).to_numpy().tobytes(), pc.list_flatten(
            column
        ).to_numpy().tobytes()
    if pa.types.is_string(column.type):
        texts = (text for text in column.to_pylist() if text is not None)
        return pc.binary_length(column).fill_null(-1).to_numpy().tobytes(), "".join(texts).encode()
    present = pc.drop_null(column)
    return column.is_valid().to_numpy().tobytes(), present.to_numpy().tobytes()


def part_totals(path: Path, run: str, rows: tuple[int, int]) -> tuple[int, float]:
    """Evaluations of a finished part and its largest error.

    All of the part is read; it is an error where that is damaged or not of this run.
    """
    pa = import_pyarrow("`explain_dataset`")
    table = read_part(path, run, rows, "out")
    errors = [pa.compute.max(table.column(name)).as_py() for name in table.column_names if name.startswith("error:")]
    return int(pa.compute.sum(table.column("n_evaluations")).as_py()), float(max(errors))


def read_part(
    path: Path,
    run: str,
    rows: tuple[int, int],
    argument: str,
    schema: Any = None,
    names: Sequence[str] | None = None,
) -> Any:
    """The table of a part, or columns of it; it must be of this run, have these rows, and be what was written."""
    from pyarrow import parquet

    with _translated_errors(path, argument):
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            written, metadata = file.schema_arrow, file.metadata.metadata or {}
            if metadata.get(HASH) != run.encode():
                raise InvalidArgumentError(
                    f"`{argument}`: {path.name!r} is of another run. Remove that file, and run again."
                )
            wanted = written.names if names is None else list(dict.fromkeys(["row", *names]))
            # a name with a dot is taken for a part of a nested column, and selects others that begin like it
            table = file.read(columns=wanted, use_threads=False).select(wanted)
        if schema is not None and not written.equals(schema):
            raise DamagedFileError("its columns are not those of the run")
        digests = ColumnDigests(table.schema)
        digests.add(table)
        if dict(zip(wanted, digests.by_column(), strict=True)).items() - _written_digests(written, metadata).items():
            raise DamagedFileError("its contents do not match their digests")
    numbers = table.column("row").to_numpy()
    if not np.array_equal(numbers, np.arange(*rows)):
        raise InvalidArgumentError(
            f"`{argument}`: {path.name!r} must hold the rows {rows[0]} to {rows[1] - 1}, and holds others: it is the "
            "file of another part. Remove it, and run again."
        )
    return table


def _written_digests(schema: Any, metadata: dict[bytes, bytes]) -> dict[str, bytes]:
    """Digests of the columns as they were written; none where the file has others than columns."""
    digests, digits = metadata.get(DIGESTS, b""), 2 * DIGEST_BYTES
    if len(digests) != digits * len(schema):
        raise DamagedFileError("its contents do not match their digests")
    return {name: digests[digits * k : digits * (k + 1)] for k, name in enumerate(schema.names)}


@contextmanager
def _translated_errors(path: Path, argument: str) -> Iterator[None]:
    """Say in one error that a part is damaged, whatever its reader raised."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError, DamagedFileError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        reason = " ".join(str(error).split())[:200]
        raise InvalidArgumentError(
            f"`{argument}`: {path.name!r} is damaged ({reason}). Remove that file, and run again."
        ) from error


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
    for number, name in enumerate(layout.kept):
        assert explanation.kept is not None
        columns[f"kept:{name}"] = [entries[number] for entries in explanation.kept]
    for name in LISTS:
        array = getattr(explanation, name)
        columns[name] = _lists(_pack(array) if name == "covariance" else array, n)
    columns |= {name: _lists(getattr(explanation, name), n) for name in PAIRS}
    return pa.table([pa.array(columns[field.name], type=field.type) for field in schema], schema=schema)


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
