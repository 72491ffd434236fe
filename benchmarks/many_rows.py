"""A million rows through `explain_dataset` and `load`: memory, time, and what is left behind.

    python benchmarks/many_rows.py [rows ...]

A Parquet file of 5 columns and a linear model, whose values are exact: what is measured is everything but sampling,
for which see `rows_memory.py`. One process. Every case has processes of its own, one that explains and one that loads,
whose peak resident memory is what the system counts. Open descriptors and temporary files are counted before and after.
Takes about a quarter of an hour. Writes `results/many_rows.md`.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
from pyarrow import parquet
from sklearn.linear_model import LinearRegression

import controlshap as cs

RESULTS = Path(__file__).resolve().parent / "results" / "many_rows.md"
CASES = (10_000, 100_000, 1_000_000)
N_COLUMNS, N_BACKGROUND, BLOCK = 5, 10, 10_000
NAMES = [f"x{i}" for i in range(N_COLUMNS)]


def write_rows(path: Path, n_rows: int) -> None:
    """The file, in blocks: the writer's memory would count, too."""
    rng = np.random.default_rng(1)
    schema = pa.schema([(name, pa.float64()) for name in NAMES])
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, n_rows, BLOCK):
            block = rng.normal(size=(N_COLUMNS, min(BLOCK, n_rows - start)))
            writer.write_table(pa.table(dict(zip(NAMES, block, strict=True)), schema=schema))


def some_rows() -> pandas.DataFrame:
    return pandas.DataFrame(np.random.default_rng(0).normal(size=(100, N_COLUMNS)), columns=NAMES)


def make_model() -> LinearRegression:
    rows, noise = some_rows(), np.random.default_rng(1).normal(size=100)
    return LinearRegression().fit(rows, rows @ np.linspace(-1.0, 1.0, N_COLUMNS) + noise)


def make_explainer() -> cs.Explainer:
    return cs.Explainer(make_model(), some_rows()[:N_BACKGROUND])


def peak() -> float:
    """Peak resident memory of this process in MB."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / 2**20 if sys.platform == "darwin" else size / 2**10


def left() -> tuple[int, int]:
    """Open descriptors of this process, and names in the folder for temporary files."""
    return len(os.listdir("/dev/fd")), len(os.listdir(tempfile.gettempdir()))


def explain(folder: Path, n_rows: int) -> dict[str, Any]:
    """Memory after a data set of one row, and after all rows."""
    write_rows(folder / "rows.parquet", n_rows)
    write_rows(folder / "one.parquet", 1)
    explainer = make_explainer()
    explainer.explain_dataset(folder / "one.parquet", folder / "first", rng=0, progress=False)
    before, started, began = left(), peak(), time.perf_counter()
    result = explainer.explain_dataset(folder / "rows.parquet", folder / "out", rng=0, progress=False)
    seconds = time.perf_counter() - began
    on_disk = sum(path.stat().st_size for path in (folder / "out" / "parts").iterdir()) / 2**20
    assert result.n_done == result.n_parts
    return {"before": started, "peak": peak(), "seconds": seconds, "on_disk": on_disk, "left": left() == before}


def load(folder: Path, n_rows: int) -> dict[str, Any]:
    """Memory and time of `load`, of some rows, of all values, and of a summary, one after the other."""
    small = cs.load(folder / "first")
    small.summary()
    before, found, began = left(), {"before": peak()}, time.perf_counter()
    explanation = cs.load(folder / "out")
    found |= {"load": peak(), "load_seconds": time.perf_counter() - began}
    rows = explanation[np.linspace(0, n_rows - 1, 20).astype(int)]
    found |= {"rows": peak()}
    predicted = make_model().predict(pandas.DataFrame(rows.data, columns=NAMES))
    assert np.allclose(rows.values.sum(axis=1) + rows.base_values, predicted)
    began = time.perf_counter()
    values = explanation.values
    found |= {"values": peak(), "values_seconds": time.perf_counter() - began, "values_mb": values.nbytes / 2**20}
    explanation.summary()
    return found | {"summary": peak(), "left": left() == before}


def in_a_process(what: str, folder: Path, n_rows: int) -> dict[str, Any]:
    command = [sys.executable, __file__, what, str(folder), str(n_rows)]
    environment = os.environ | {"TMPDIR": str(folder / "temporary")}
    (folder / "temporary").mkdir(exist_ok=True)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def table(cases: tuple[int, ...]) -> Iterator[str]:
    yield "# A million rows"
    yield ""
    yield f"`python benchmarks/many_rows.py`: a Parquet file with {N_COLUMNS} columns, a linear model (exact values),"
    yield f"{N_BACKGROUND} background rows, one process. Peak resident memory in MB, each column after what stands"
    yield 'left of it; "nothing left": as many open descriptors and temporary files after as before.'
    yield ""
    yield "`explain_dataset`:"
    yield ""
    yield "| rows | after one row | after all | on disk, MB | seconds | nothing left |"
    yield "|---|---|---|---|---|---|"
    loaded = []
    for n_rows in cases:
        with tempfile.TemporaryDirectory() as name:
            found = in_a_process("explain", Path(name), n_rows)
            loaded.append((n_rows, in_a_process("load", Path(name), n_rows)))
        yield (
            f"| {n_rows:,} | {found['before']:.0f} | {found['peak']:.0f} | {found['on_disk']:.1f} | "
            f"{found['seconds']:.0f} | {'yes' if found['left'] else 'NO'} |"
        )
    yield ""
    yield "`load`:"
    yield ""
    yield (
        "| rows | before | `load` | its seconds | 20 rows | `values` | their size, MB | their seconds | `summary()` | "
        "nothing left |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for n_rows, found in loaded:
        yield (
            f"| {n_rows:,} | {found['before']:.0f} | {found['load']:.0f} | {found['load_seconds']:.2f} | "
            f"{found['rows']:.0f} | {found['values']:.0f} | {found['values_mb']:.1f} | {found['values_seconds']:.2f} | "
            f"{found['summary']:.0f} | {'yes' if found['left'] else 'NO'} |"
        )


def main() -> None:
    if sys.argv[1:2] in (["explain"], ["load"]):
        case = {"explain": explain, "load": load}[sys.argv[1]]
        print(json.dumps(case(Path(sys.argv[2]), int(sys.argv[3]))))
        return
    lines = []
    for line in table(tuple(map(int, sys.argv[1:])) or CASES):
        print(line, flush=True)
        lines.append(line)
    if not sys.argv[1:]:
        RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
