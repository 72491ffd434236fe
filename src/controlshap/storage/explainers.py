"""An explainer on disk: background, settings and results computed once for all rows; never the model."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._files import read_folder, write_folder
from controlshap._imports import require
from controlshap.controls import SharedSurrogate
from controlshap.controls.d_matrices import DMatrices
from controlshap.data.categories import Category
from controlshap.data.encoding import Column, Encoding, Flagged, Number
from controlshap.data.frames import FrameMaker, Kind
from controlshap.data.table import is_missing
from controlshap.functions.base import Sum
from controlshap.functions.level_trees import LevelTrees
from controlshap.functions.network import Network
from controlshap.functions.polynomial import Quadratic
from controlshap.functions.trees import TreeFunction
from controlshap.functions.waves import Waves
from controlshap.models.derivatives.finite_differences import FiniteDifferences
from controlshap.problem import Assembly
from controlshap.strategies import CONTROLS, ESTIMATORS, VALUE_FUNCTIONS, VARIANCES
from controlshap.values import Causal

#: Classes whose objects can be saved, by their fields.
_CLASSES = {
    type(one).__name__: type(one)
    for table in (VALUE_FUNCTIONS, ESTIMATORS, CONTROLS, VARIANCES)
    for one in (make() for make in table.values())
} | {
    cls.__name__: cls
    for cls in (
        Causal, FiniteDifferences, SharedSurrogate, Network, Waves, Quadratic, TreeFunction, LevelTrees, Sum,
        Number, Flagged, Category, FrameMaker, Kind,
    )
}  # fmt: skip


def save_assembly(assembly: Assembly, path: Path, *, describe_own: bool = True) -> Path:
    """Write what an explainer was assembled from to a folder.

    Strategies of the user's own are described by their repr, not stored; with `describe_own=False` they are
    refused.
    """
    arrays: dict[str, Any] = {"background": assembly.background, "owner": assembly.raw_players.owner}
    header: dict[str, Any] = {
        "columns": [encode(_as_in_background(c), arrays, f"column {c.labels[0]}") for c in assembly.encoding.columns],
        "maker": encode(assembly.encoding.maker, arrays, "columns"),
        "player_names": list(assembly.players.names),
        "n_background": assembly.n_background,
        "settings": {name: encode(value, arrays, name, describe_own) for name, value in assembly.settings.items()},
        "shared": encode(assembly.shared, arrays, "shared"),
    }
    matrices = assembly.cache.get("d_matrices")
    if isinstance(matrices, DMatrices):
        arrays["d_matrices"] = matrices.matrices
        header["d_permutations"] = matrices.n_permutations
    return write_folder(path, "explainer", header, arrays)


def load_assembly(path: Path, model: Any) -> Assembly:
    """Read what `save_assembly` wrote."""
    header, arrays = read_folder(path, "explainer")
    try:
        settings = {name: decode(value, arrays) for name, value in header["settings"].items()}
        rows, owner = arrays["background"], arrays["owner"]
        groups = {name: np.flatnonzero(owner == j).tolist() for j, name in enumerate(header["player_names"])}
        columns = tuple(decode(column, arrays) for column in header["columns"])
        encoding = Encoding(columns, decode(header["maker"], arrays))
        n_background = int(header["n_background"])
        matrices, shared = arrays.get("d_matrices"), decode(header["shared"], arrays)
        cache = {} if matrices is None else {"d_matrices": DMatrices(matrices, int(header["d_permutations"]))}
    except KeyError as error:
        raise InvalidArgumentError(f"`path`: the explainer in {str(path)!r} lacks {error}; it is damaged.") from error
    assembly = Assembly(model, encoding(rows), groups, settings)
    assembly.cache.update(cache)
    assembly.n_background = n_background
    assembly.shared = shared
    return assembly


def _as_in_background(column: Column) -> Column:
    """The column without levels of categories that rows to explain brought in."""
    if isinstance(column, Category):
        return dataclasses.replace(column, levels=column.levels[: column.n_seen])
    return column


def encode(value: Any, arrays: dict[str, Any], name: str, describe_own: bool = False) -> Any:
    """A setting as JSON, with its arrays in `arrays`; objects of the user's own are refused, or described."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if is_missing(value):
        return {"missing": "pandas"}
    if isinstance(value, (list, tuple)):
        items = [encode(item, arrays, f"{name}.{i}", describe_own) for i, item in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, dict):
        pairs = [
            [encode(key, arrays, f"{name} key"), encode(item, arrays, f"{name}.{i}", describe_own)]
            for i, (key, item) in enumerate(value.items())
        ]
        return {"mapping": pairs}
    known = _CLASSES.get(type(value).__name__) is type(value)  # not a class of the user's with the same name
    if known and dataclasses.is_dataclass(value):
        fields = {f.name: encode(getattr(value, f.name), arrays, f"{name}.{f.name}") for f in dataclasses.fields(value)}
        return {"class": type(value).__name__, "fields": fields}
    kind = type(value).__name__
    if not describe_own:
        raise InvalidArgumentError(
            f"`{name}` cannot be saved: {kind} is an object of your own. Make a new explainer instead."
        )
    if " at 0x" in repr(value):
        raise InvalidArgumentError(
            f"`{name}`: {kind} prints as {value!r}, which does not tell it from another when a run is resumed. Give "
            "it a `__repr__` with its settings, or make it a dataclass."
        )
    return {"own": repr(value)}


def decode(value: Any, arrays: dict[str, Any]) -> Any:
    """The setting that `encode` turned into JSON."""
    if isinstance(value, list):
        return [decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "tuple" in value:
        return tuple(decode(item, arrays) for item in value["tuple"])
    if "mapping" in value:
        return {decode(key, arrays): decode(item, arrays) for key, item in value["mapping"]}
    if "own" in value:
        raise InvalidArgumentError(
            f"`path`: the explainer was made with an object of your own, {value['own']}, which is not stored. Make a "
            "new explainer with it; `explain_dataset` then goes on with the run in this folder."
        )
    if "missing" in value:
        return require("pandas", extra="frames", feature="This explainer").NA
    return _CLASSES[value["class"]](**{name: decode(item, arrays) for name, item in value["fields"].items()})
