"""One part on disk: a Parquet file with a line for each row, written under a temporary name first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._files import replacing
from controlshap._types import FloatArray
from controlshap.data.columns import is_missing
from controlshap.datasets.files import import_pyarrow
from controlshap.datasets.layout import LISTS, Layout
from controlshap.results.explanation import Explanation

#: Key of the run's hash in the metadata of a part.
HASH = b"controlshap.run"


def part_path(folder: Path, part: int) -> Path:
    """Where a part is."""
    return folder / "parts" / f"part-{part:06d}.parquet"


def write_part(path: Path, pieces: Iterable[tuple[int, Explanation]], layout: Layout, run: str) -> int:
    """Write explanations with the numbers of their first rows; returns their evaluations. All or nothing."""
    pa = import_pyarrow("`explain_dataset`")
    from pyarrow import parquet

    schema = layout.schema(pa, {HASH: run.encode()})
    n_evaluations = 0
    with (
        replacing(path) as temporary,
        # a dictionary of doubles would make 0.0 of -0.0
        parquet.ParquetWriter(
            temporary, schema, compression="zstd", use_dictionary=["status", "method", "controls"]
        ) as writer,
    ):
        for first, explanation in pieces:
            writer.write_table(_to_table(pa, explanation, first, layout, schema))
            n_evaluations += int(explanation.n_evaluations.sum())
    return n_evaluations


def part_evaluations(path: Path, run: str, n_rows: int) -> int:
    """Evaluations behind a part that is there; an error where it is not of this run."""
    pa = import_pyarrow("`explain_dataset`")
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            told = (file.schema_arrow.metadata or {}).get(HASH, b"").decode()
            rows = file.metadata.num_rows
            column = file.read(columns=["n_evaluations"]).column(0) if told == run else None
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidArgumentError(
            f"`out`: {path.name!r} is damaged ({error}). Remove that file, and run again."
        ) from error
    if column is None or rows != n_rows:
        raise InvalidArgumentError(
            f"`out`: {path.name!r} is of another run (hash {told[:12] or 'none'}, {rows} rows; here {run[:12]}, "
            f"{n_rows} rows). Remove that file, or use another folder."
        )
    return int(pa.compute.sum(column).as_py())


def read_parts(paths: Sequence[Path], layout: Layout, run: str) -> dict[str, Any]:
    """All arrays of an `Explanation`, of the parts one after the other."""
    pa = import_pyarrow("`load`")
    from pyarrow import parquet

    try:
        tables = [parquet.read_table(path, partitioning=None) for path in paths]
        odd = [
            p.name for p, t in zip(paths, tables, strict=True) if (t.schema.metadata or {}).get(HASH) != run.encode()
        ]
        if odd:
            raise InvalidArgumentError(f"`path`: {odd[0]!r} is of another run. Remove that file, and run again.")
        table = pa.concat_tables(tables)
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidArgumentError(f"`path`: a part is damaged ({error}). Remove that file, and run again.") from error
    n, p, outputs = table.num_rows, len(layout.players), len(layout.outputs or ("",))
    place = {name: at for at, name in enumerate(table.column_names)}
    found: dict[str, Any] = {}

    def wide(names: Sequence[str]) -> FloatArray:
        return np.column_stack([table.column(place[name]).to_numpy() for name in names])

    for attribute, names in layout.per_player.items():
        found[attribute] = wide(names).reshape((n, p) if layout.outputs is None else (n, p, outputs))
    for attribute, names in layout.per_row.items():
        found[attribute] = wide(names)[:, 0] if layout.outputs is None else wide(names)
    for name in LISTS:
        column = table.column(place[name])
        if column.null_count:
            found[name] = None
            continue
        flat = column.combine_chunks().flatten().to_numpy()
        if name == "covariance":
            found[name] = _full(flat.reshape(n, outputs, -1), p, single=layout.outputs is None)
        else:
            found[name] = flat.reshape(found["values"].shape)
    for name in ("status", "method", "controls"):
        found[name] = np.array(table.column(place[name]).to_pylist(), dtype=np.str_)
    found["row_numbers"] = table.column(place["row"]).to_numpy()
    found["n_evaluations"] = table.column(place["n_evaluations"]).to_numpy()
    found["look_shares"] = table.column(place["look_share"]).to_numpy()
    found["complete"] = table.column(place["complete"]).to_numpy()
    found["stages"] = tuple(tuple(stages) for stages in table.column(place["stages"]).to_pylist())
    data = np.empty((n, len(layout.columns)), dtype=object if layout.has_objects else float)
    for number, name in enumerate(layout.columns):
        column = table.column(place[f"data:{name}"])
        data[:, number] = column.to_numpy() if layout.kinds[number] == "double" else column.to_pylist()
    return found | {"data": data}


def _to_table(pa: Any, explanation: Explanation, first: int, layout: Layout, schema: Any) -> Any:
    n = len(explanation)
    arrays: list[Any] = [np.arange(first, first + n), explanation.status.tolist(), explanation.n_evaluations]
    for attribute, names in (layout.per_row | layout.per_player).items():
        arrays += list(getattr(explanation, attribute).reshape(n, len(names)).T)
    for number, kind in enumerate(layout.kinds):
        arrays.append(_data_column(explanation.data[:, number], kind))
    arrays += [explanation.method.tolist(), explanation.controls.tolist()]
    arrays += [explanation.look_shares, explanation.complete, [list(stages) for stages in explanation.stages]]
    for name in LISTS:
        array = getattr(explanation, name)
        if array is not None and name == "covariance":
            array = _half(array)
        arrays.append(_lists(pa, array, n))
    columns = [
        array if isinstance(array, pa.Array) else pa.array(array, type=field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _data_column(values: Any, kind: str) -> Any:
    if kind == "double":
        return values.astype(float)
    known = [None if is_missing(value) else value for value in values.tolist()]
    return [None if value is None else str(value) for value in known] if kind == "string" else known


def _lists(pa: Any, array: FloatArray | None, n: int) -> Any:
    """One list of numbers for each row."""
    kind = pa.list_(pa.float64())
    if array is None:
        return pa.nulls(n, kind)
    flat = np.ascontiguousarray(array).reshape(n, -1)
    offsets = np.arange(n + 1, dtype=np.int32) * flat.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(flat.reshape(-1), pa.float64()))


def _half(covariance: FloatArray) -> FloatArray:
    """The lower triangle; all of it where rounding made the halves differ."""
    if not np.array_equal(covariance, np.swapaxes(covariance, -1, -2)):
        return covariance
    half: FloatArray = covariance[(..., *np.tril_indices(covariance.shape[-1]))]
    return half


def _full(half: FloatArray, p: int, *, single: bool) -> FloatArray:
    """The opposite of `_half`."""
    full = half.reshape(*half.shape[:2], p, p) if half.shape[2] == p * p else np.empty((*half.shape[:2], p, p))
    if half.shape[2] != p * p:
        rows, columns = np.tril_indices(p)
        full[:, :, rows, columns] = half
        full[:, :, columns, rows] = half
    return full[:, 0] if single else full
