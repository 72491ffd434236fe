"""One part on disk: a Parquet file with a line for each row, and columns that are the same in all parts of a run.

Its pages carry checksums for any reader. Its metadata hold the run, and a digest of the contents of each column as they
were before they were encoded, which is compared with what comes out: damage to headers and footers is noticed as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._files import DamagedFileError, replacing
from controlshap.datasets.files import import_pyarrow
from controlshap.datasets.layout import HASH, TEXTS, PartLayout
from controlshap.results.explanation import Explanation

#: Key of the digests of its columns, one after the other.
DIGESTS = b"controlshap.columns"
#: Bytes of such a digest: damage goes unnoticed with probability 2**-64.
DIGEST_BYTES = 8


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
            table = layout.to_table(explanation, first, schema)
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
