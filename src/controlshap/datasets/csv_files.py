"""CSV files, read by pyarrow in two passes: one decides the types of the columns over all rows, one reads the rows."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controlshap._errors import InvalidArgumentError
from controlshap.datasets.files import FileColumn, TableFile, refuse_twice, unreadable

#: Bytes parsed together; where a row is longer, the second number.
BLOCK, LONGEST_ROW = 2**18, 2**25
#: What counts as missing, also in columns of text: the list that pandas uses.
NULLS = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip
#: How files that are no CSV begin.
MAGIC = ((b"PAR1", "a Parquet"), (b"ARROW1", "an Arrow"), (b"\x1f\x8b", "a gzip"), (b"PK", "a zip"))
#: Types of columns in order of preference: the first that holds all values. Text where none does, also for dates.
PREFERRED = ("int64", "bool", "double")


class CsvFile(TableFile):
    """A CSV file (tabs in .tsv); to read an earlier row, it starts again."""

    kind = "CSV"

    def __init__(self, path: Path) -> None:
        self.path, self._block = path, BLOCK
        try:
            columns, n_rows = self._scan()
        except _LongRowError:
            self._block = LONGEST_ROW
            columns, n_rows = self._scan()
        super().__init__(path, columns, [n_rows])

    def stream(self, chunk: int, columns: dict[str, FileColumn]) -> Generator[Any]:  # noqa: ARG002, there is one
        """Yield record batches with these columns, in their types."""
        import pyarrow as pa

        types = {name: column.type for name, column in columns.items() if not pa.types.is_null(column.type)}
        return self._read(list(columns), types)

    def find_text(self, name: str) -> tuple[int, str] | None:
        """Number and contents of the first cell of a column that is no number."""
        import pyarrow as pa

        row = 0
        for batch in self._read([name], {name: pa.string()}):
            texts = batch.column(0)
            if not _all_parse(texts, "double"):
                cells = (cell for cell in enumerate(texts.to_pylist(), row) if cell[1] is not None)
                return next((at, text) for at, text in cells if not _all_parse(pa.array([text]), "double"))
            row += batch.num_rows
        return None

    def _scan(self) -> tuple[dict[str, FileColumn], int]:
        """Columns with their types, decided over all rows, and the number of rows."""
        import pyarrow as pa

        names = self._read_header()
        kinds: dict[str, tuple[str, ...]] = dict.fromkeys(names, PREFERRED)
        filled, gaps, n_rows = set(), set(), 0
        for batch in self._read(names, dict.fromkeys(names, pa.string())):
            n_rows += batch.num_rows
            for name, texts in zip(names, batch.columns, strict=True):
                if texts.null_count:
                    gaps.add(name)
                if texts.null_count < len(texts):
                    filled.add(name)
                    kinds[name] = tuple(kind for kind in kinds[name] if _all_parse(texts, kind))
        columns = {}
        for name in names:
            kind = [*kinds[name], "string"][0] if name in filled else "null"
            columns[name] = FileColumn(pa.type_for_alias(kind), name in gaps)
        return columns, n_rows

    def _read_header(self) -> list[str]:
        """Names of the columns."""
        with self.path.open("rb") as file:
            start = file.read(8)
        for magic, kind in MAGIC:
            if start.startswith(magic):
                raise unreadable(self.path, "CSV", f"it is {kind} file; rename or unpack it")
        with self._translated_errors():
            names: list[str] = self._open([], {}).schema.names
        refuse_twice(self.path, "CSV", names)
        if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
            reason = "its columns are not separated by commas; save it with commas, or tabs as .tsv"
            raise unreadable(self.path, "CSV", reason)
        return names

    def _read(self, names: list[str], types: dict[str, Any]) -> Generator[Any]:
        with self._translated_errors(), self._open(names, types) as reader:
            yield from reader

    def _open(self, names: list[str], types: dict[str, Any]) -> Any:
        from pyarrow import csv

        delimiter = "\t" if self.path.suffix.lower() == ".tsv" else ","
        return csv.open_csv(
            self.path,
            read_options=csv.ReadOptions(use_threads=False, block_size=self._block),
            parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                include_columns=names,
                column_types=types,
                null_values=NULLS,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            reason = str(error)
            if "Empty CSV" in reason:
                raise InvalidArgumentError(
                    f"`source`: {self.path.name!r} holds no lines. Give a file with a header and rows."
                ) from error
            if "straddl" in reason:
                reason = f"a quote is not closed, or a row has more than {self._block:,} bytes"
                raise _LongRowError(str(unreadable(self.path, "CSV", reason))) from error
            if isinstance(error, UnicodeDecodeError) or "UTF8" in reason:
                reason = "it is not UTF-8 text; save it in that encoding"
            raise unreadable(self.path, "CSV", reason) from error


class _LongRowError(InvalidArgumentError):
    """A row does not fit into a block."""


def _all_parse(texts: Any, kind: str) -> bool:
    """Whether all texts are values of a type, as pyarrow's CSV reader takes them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == "bool":
        words = pa.array(["0", "1", "true", "True", "TRUE", "false", "False", "FALSE", None])
        return bool(pc.all(pc.is_in(texts, words)).as_py())
    try:
        pc.cast(pc.utf8_trim(texts, " \t"), kind)
    except pa.ArrowInvalid:
        return False
    return True
