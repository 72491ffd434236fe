"""An explanation on disk: a folder with its arrays and a JSON header."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._checks import as_path
from controlshap._errors import InvalidArgumentError
from controlshap._files import read_folder, write_folder
from controlshap.data.table import LARGEST_WHOLE, is_missing
from controlshap.results.explanation import Explanation, History

#: How the names of arrays begin that folders of earlier versions lack.
LATER = ("interaction_", "guaranteed_", "half_", "row_names", "kept")


def save_explanation(explanation: Explanation, folder: Path) -> Path:
    """Write an explanation."""
    header: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for field in fields(explanation):
        value = getattr(explanation, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = value
        elif field.name in ("evaluations", "history") and value is not None:
            header[field.name] = len(value)
            arrays |= _number_arrays(field.name, value)
        else:
            header[field.name] = value
    header["entropy"] = str(explanation.entropy)  # may exceed what JSON readers keep
    arrays["data"], header["levels"] = pack_data(explanation.data)
    return write_folder(folder, "explanation", header, arrays)


def load(path: str | Path) -> Explanation:
    """Read an explanation that `Explanation.save`, `Explainer.explain_dataset` or the command line wrote.

    Parameters
    ----------
    path : str or Path
        The folder.
    """
    folder = as_path(path, "path")
    if (folder / "manifest.json").is_file():
        from controlshap.datasets import load_dataset

        return load_dataset(folder)
    if folder.is_file() or folder.suffix.lower() in (".csv", ".parquet", ".arrow", ".feather"):
        readers = {".csv": "read_csv", ".parquet": "read_parquet", ".arrow": "read_feather", ".feather": "read_feather"}
        reader = readers.get(folder.suffix.lower())
        what = f"is a table: read it with pandas.{reader}(path)" if reader else "is a file"
        raise InvalidArgumentError(
            f"`path`: {str(path)!r} {what}. `controlshap.load` reads folders: those of `explanation.save(folder)`, "
            "whose name has no such ending, and of `explain_dataset`."
        )
    header, arrays = read_folder(folder, "explanation")
    names = [field.name for field in fields(Explanation) if field.name in arrays or field.name in header]
    missing = [f.name for f in fields(Explanation) if f.name not in names and not f.name.startswith(LATER)]
    if missing:
        raise InvalidArgumentError(f"`path`: the explanation in {str(path)!r} lacks {missing}; it is damaged.")
    values = {name: arrays[name] if name in arrays else _as_tuple(header[name]) for name in names}
    values["entropy"] = int(header["entropy"])
    values["data"] = unpack_data(arrays["data"], header["levels"])
    try:
        if header["evaluations"] is not None:
            values["evaluations"] = tuple(arrays[f"evaluations.{row}"] for row in range(header["evaluations"]))
        if header["history"] is not None:
            values["history"] = tuple(_read_history(arrays, row) for row in range(header["history"]))
    except KeyError as error:
        raise InvalidArgumentError(f"`path`: the explanation in {str(path)!r} lacks {error}; it is damaged.") from error
    return Explanation(**values)


def _number_arrays(name: str, rows: tuple[Any, ...]) -> dict[str, Any]:
    """Arrays of `evaluations` or `history`, which have other shapes in each row."""
    if name == "evaluations":
        return {f"{name}.{row}": outputs for row, outputs in enumerate(rows)}
    return {f"{name}.{row}.{f.name}": getattr(past, f.name) for row, past in enumerate(rows) for f in fields(past)}


def _read_history(arrays: dict[str, Any], row: int) -> History:
    return History(**{field.name: arrays[f"history.{row}.{field.name}"] for field in fields(History)})


def _as_tuple(value: Any) -> Any:
    """Lists of JSON as the tuples that they were; settings, a dictionary, are left alone."""
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value


def pack_data(data: Any) -> tuple[Any, list[list[Any] | str | None] | None]:
    """The explained rows as doubles, and the levels of the columns that hold something else.

    Names, numbers, truth values, None and NaN come back as they were, other objects as their names.
    """
    if data.dtype.kind == "f":
        return data, None
    packed = np.empty(data.shape)
    levels: list[list[Any] | str | None] = []
    for column in range(data.shape[1]):
        values = data[:, column].tolist()
        if all(type(value) is float for value in values):
            packed[:, column] = values
            levels.append(None)
        elif all(type(value) is int and abs(value) <= LARGEST_WHOLE for value in values):
            packed[:, column] = values
            levels.append("whole")
        else:
            number: dict[str, int] = {}  # by what is written: 1, true and "1" are three levels, NaN is one
            texts = [json.dumps(_to_json(value)) for value in values]
            packed[:, column] = [number.setdefault(text, len(number)) for text in texts]
            levels.append([json.loads(text) for text in number])
    return packed, levels


def _to_json(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return None if is_missing(value) else str(value)


def unpack_data(packed: Any, levels: list[list[Any] | str | None] | None) -> Any:
    """The data that `pack_data` turned into arrays."""
    if levels is None:
        return packed
    data = np.empty(packed.shape, dtype=object)
    for column, names in enumerate(levels):
        values = packed[:, column]
        if names is None or isinstance(names, str):
            data[:, column] = values if names is None else values.astype(np.int64)
        else:
            data[:, column] = [names[int(number)] for number in values]
    return data
