"""Results as tables for other programs: one tidy file, or a folder for an experiment tracker."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._errors import InvalidArgumentError, MissingExtraError
from controlshap._files import replacing, write_json
from controlshap._imports import require
from controlshap.data.table import is_missing, is_number
from controlshap.results.axes import label_rows

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


def tidy_columns(explanation: Explanation) -> dict[str, Any]:
    """Columns of the tidy table: one entry for each row, player and output."""
    several = explanation.values.ndim == 3
    rows, players = explanation.values.shape[:2]
    outputs = explanation.values.shape[2] if several else 1
    low, high = explanation.confidence_interval(0.95)
    index = np.indices((rows, players, outputs)).reshape(3, -1)
    columns: dict[str, Any] = {
        "row": np.array(label_rows(explanation), dtype=object)[index[0]],
        "feature": np.array(explanation.feature_names, dtype=object)[index[1]],
    }
    if several or explanation.output_names:
        names = explanation.output_names or tuple(str(i) for i in range(outputs))
        columns["output"] = np.array(names, dtype=object)[index[2]]
    for name, array in (
        ("value", explanation.values),
        ("standard_error", explanation.standard_errors),
        ("low", low),
        ("high", high),
        ("uncontrolled_value", explanation.uncontrolled_values),
        ("uncontrolled_standard_error", explanation.uncontrolled_standard_errors),
        ("variance_reduction", explanation.variance_reduction),
    ):
        columns[name] = array.reshape(-1)
    columns["feature_value"] = explanation.player_data()[index[0], index[1]]
    for number, name in enumerate(explanation.kept_names):
        assert explanation.kept is not None
        of_rows = np.array([entries[number] for entries in explanation.kept] + [None], dtype=object)[:-1]
        columns[name if name not in columns else f"kept {name}"] = of_rows[index[0]]
    return columns


def write_table(explanation: Explanation, path: Path) -> Path:
    """Write the tidy table as CSV, Parquet or Arrow, by the ending of the name."""
    columns = tidy_columns(explanation)
    writers: dict[str, Callable[[dict[str, Any], Path], None]] = {
        ".csv": _write_csv, ".parquet": _write_parquet, ".arrow": _write_arrow, ".feather": _write_arrow,
    }  # fmt: skip
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise InvalidArgumentError(
            f"`path` must end in .csv, .parquet, .arrow or .feather for a table; got {path.name!r}. Leave the ending "
            "out for a folder that `controlshap.load` reads."
        )
    with replacing(path) as temporary:
        writer(columns, temporary)
    return path


def _write_csv(columns: dict[str, Any], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        written = {name: np.asarray(column).tolist() for name, column in columns.items()}
        written["feature_value"] = _without_gaps(written["feature_value"])
        rows = zip(*written.values(), strict=True)
        writer.writerows([_as_text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


def _as_text(cell: str) -> str:
    """Text that no spreadsheet takes for a formula, which could act: an apostrophe is put first."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def _write_parquet(columns: dict[str, Any], path: Path) -> None:
    table = _arrow_table(columns)
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, path, compression="zstd")


def _write_arrow(columns: dict[str, Any], path: Path) -> None:
    table = _arrow_table(columns)
    import pyarrow.feather

    pyarrow.feather.write_feather(table, str(path))


def _arrow_table(columns: dict[str, Any]) -> Any:
    pyarrow = require("pyarrow", extra="parquet", feature="`path`: a Parquet or Arrow file")
    # data of features that are numbers in one row and names in another become text
    shown = _without_gaps(columns["feature_value"].tolist())
    convert = float if all(is_number(value) for value in shown) else str
    entries = [None if value is None else convert(value) for value in shown]
    others = {name: column for name, column in columns.items() if name != "feature_value"}
    arrays = {name: pyarrow.array(np.asarray(column).tolist()) for name, column in others.items()}
    return pyarrow.table(arrays | {"feature_value": pyarrow.array(entries)})


def _without_gaps(values: list[Any]) -> list[Any]:
    """Values with None for each that is missing, to be written as an empty cell or null."""
    return [None if is_missing(value) else value for value in values]


def metrics(explanation: Explanation) -> dict[str, float]:
    """Finite numbers that describe a run, in one flat dictionary for an experiment tracker."""
    summary = explanation.summary()
    gain = explanation.gain[np.isfinite(explanation.gain)]
    numbers = {
        "rows": float(len(explanation)),
        "players": float(len(explanation.feature_names)),
        "evaluations": float(explanation.n_evaluations.sum()),
        "largest_standard_error": float(explanation.standard_errors.max()),
        "rows_not_converged": float(np.isin(explanation.status, ("budget reached", "time reached")).sum()),
        "rows_exact": float((explanation.status == "exact").sum()),
    }
    if len(gain):
        numbers["median_gain"] = float(np.median(gain))
    importance = summary.mean_absolute if summary.mean_absolute.ndim == 1 else summary.mean_absolute.sum(axis=1)
    return numbers | {
        f"mean_absolute.{name}": float(value) for name, value in zip(explanation.feature_names, importance, strict=True)
    }


def export(explanation: Explanation, folder: Path) -> Path:
    """Write the result, a tidy table, metrics and settings into one folder."""
    explanation.save(folder)
    try:
        write_table(explanation, folder / "values.parquet")
    except MissingExtraError:
        write_table(explanation, folder / "values.csv")
    write_json(folder / "metrics.json", metrics(explanation))
    settings = explanation.settings | {"rng": str(explanation.entropy)}
    write_json(folder / "params.json", {name: str(value) for name, value in settings.items()})
    return folder
