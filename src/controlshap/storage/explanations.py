"""Results and explainers on disk: arrays (npz, without pickle) and JSON with a schema number, in one folder."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._files import read_folder, write_folder
from controlshap.controls import SharedSurrogate
from controlshap.data.columns import LARGEST_WHOLE, is_missing
from controlshap.functions.base import Sum
from controlshap.functions.network import Network
from controlshap.functions.polynomial import Quadratic
from controlshap.functions.trees import TreeFunction
from controlshap.models.derivatives import FiniteDifferences
from controlshap.results.explanation import Explanation
from controlshap.results.history import History
from controlshap.strategies import CONTROLS, ESTIMATORS, VALUE_FUNCTIONS, VARIANCES

_STRATEGIES = {
    cls.__name__: cls for table in (VALUE_FUNCTIONS, ESTIMATORS, CONTROLS, VARIANCES) for cls in table.values()
} | {cls.__name__: cls for cls in (FiniteDifferences, SharedSurrogate, Network, Quadratic, TreeFunction, Sum)}


_ARRAYS = (
    "values", "standard_errors", "base_values", "base_standard_errors", "uncontrolled_values",
    "uncontrolled_standard_errors", "variance_reduction", "degrees_of_freedom", "covariance", "n_evaluations",
    "status", "method", "controls", "look_shares", "complete",
)  # fmt: skip
_HISTORY = ("n_evaluations", "values", "standard_errors")
_HEADER = ("feature_names", "column_names", "output_names", "player_columns", "settings", "stages")


def save_explanation(explanation: Explanation, folder: Path) -> Path:
    """Write an explanation."""
    header = {name: getattr(explanation, name) for name in _HEADER}
    header["entropy"] = str(explanation.entropy)  # may exceed what JSON readers keep
    header["n_kept"] = None if explanation.evaluations is None else len(explanation.evaluations)
    arrays = {name: getattr(explanation, name) for name in _ARRAYS}
    header["levels"] = pack_data(explanation.data, arrays)
    header["has_history"] = explanation.history is not None
    for row, one in enumerate(explanation.history or ()):
        for name in _HISTORY:
            arrays[f"history.{row}.{name}"] = getattr(one, name)
    if explanation.background_standard_errors is not None:
        arrays["background_standard_errors"] = explanation.background_standard_errors
    if explanation.evaluations is not None:
        arrays |= {f"evaluations.{row}": outputs for row, outputs in enumerate(explanation.evaluations)}
    return write_folder(folder, "explanation", header, arrays)


def pack_data(data: Any, arrays: dict[str, Any]) -> list[list[Any] | str | None] | None:
    """Put the explained rows among the arrays; returns the levels of columns that are not doubles.

    Names, numbers, truth values, None and NaN come back as they were, other objects as their names.
    """
    if data.dtype.kind == "f":
        arrays["data"] = data
        return None
    packed = np.empty(data.shape)
    levels: list[list[Any] | str | None] = []
    for column in range(data.shape[1]):
        values = data[:, column].tolist()
        if all(type(value) is float for value in values):
            packed[:, column] = values
            levels.append(None)
            continue
        if all(type(value) is int and abs(value) <= LARGEST_WHOLE for value in values):
            packed[:, column] = values
            levels.append("whole")
            continue
        told = [_told(value) for value in values]
        number: dict[str, int] = {}  # by what is written: 1, true and "1" are three levels, NaN is one
        texts = [json.dumps(value) for value in told]
        packed[:, column] = [number.setdefault(text, len(number)) for text in texts]
        levels.append([json.loads(text) for text in number])
    arrays["data"] = packed
    return levels


def _told(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return None if is_missing(value) else str(value)


def unpack_data(packed: Any, levels: list[list[Any] | str | None] | None) -> Any:
    """The opposite of `pack_data`."""
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


def load(path: str | Path) -> Explanation:
    """Read an explanation that `Explanation.save`, `Explainer.explain_dataset` or the command line wrote.

    Parameters
    ----------
    path : str or Path
        The folder.
    """
    folder = Path(path)
    if (folder / "manifest.json").is_file():
        from controlshap.datasets import load_dataset

        return load_dataset(folder)
    header, arrays = read_folder(folder, "explanation")
    missing = [name for name in (*_ARRAYS, "data") if name not in arrays] + [n for n in _HEADER if n not in header]
    if missing:
        raise InvalidArgumentError(f"`path`: the explanation in {str(path)!r} lacks {missing}; it is damaged.")
    names, n_kept = header["output_names"], header.get("n_kept")
    wanted = None if n_kept is None else [f"evaluations.{row}" for row in range(n_kept)]
    if wanted is not None and not set(wanted) <= set(arrays):
        raise InvalidArgumentError(f"`path`: the explanation in {str(path)!r} lacks evaluations; it is damaged.")
    return Explanation(
        **{name: arrays[name] for name in _ARRAYS},
        feature_names=tuple(header["feature_names"]),
        column_names=tuple(header["column_names"]),
        output_names=tuple(names) if names is not None else None,
        player_columns=tuple(tuple(columns) for columns in header["player_columns"]),
        entropy=int(header["entropy"]),
        settings=header["settings"],
        background_standard_errors=arrays.get("background_standard_errors"),
        evaluations=None if wanted is None else tuple(arrays[name] for name in wanted),
        stages=tuple(tuple(stages) for stages in header["stages"]),
        data=unpack_data(arrays["data"], header.get("levels")),
        history=_read_history(arrays, len(arrays["values"])) if header.get("has_history") else None,
    )


def _read_history(arrays: dict[str, Any], n_rows: int) -> tuple[History, ...]:
    return tuple(History(*(arrays[f"history.{row}.{name}"] for name in _HISTORY)) for row in range(n_rows))


def encode(value: Any, arrays: dict[str, Any], name: str) -> Any:
    """A setting as JSON; arrays go to `arrays`. Objects of the user's own have no such form."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
        return {"tuple": [encode(item, arrays, f"{name}.{i}") for i, item in enumerate(value)]}
    if isinstance(value, (list, tuple)):
        return [encode(item, arrays, f"{name}.{i}") for i, item in enumerate(value)]
    if type(value).__name__ in _STRATEGIES and dataclasses.is_dataclass(value):
        fields = {f.name: encode(getattr(value, f.name), arrays, f"{name}.{f.name}") for f in dataclasses.fields(value)}
        return {"strategy": type(value).__name__, "fields": fields}
    raise InvalidArgumentError(
        f"`{name}` cannot be saved: {type(value).__name__} is an object of your own. Make the explainer anew instead."
    )


def decode(value: Any, arrays: dict[str, Any]) -> Any:
    """The opposite of `encode`."""
    if isinstance(value, dict) and "array" in value:
        return arrays[value["array"]]
    if isinstance(value, dict) and "strategy" in value:
        fields = {name: decode(item, arrays) for name, item in value["fields"].items()}
        return _STRATEGIES[value["strategy"]](**fields)
    if isinstance(value, dict) and "tuple" in value:
        return tuple(decode(item, arrays) for item in value["tuple"])
    if isinstance(value, list):
        return [decode(item, arrays) for item in value]
    return value
