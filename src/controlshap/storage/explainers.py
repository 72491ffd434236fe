"""An explainer on disk: background, settings and what was computed once; never the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._files import read_folder, write_folder
from controlshap.controls.d_matrices import DMatrices
from controlshap.data.columns import Category, Column, Flagged, Number
from controlshap.data.encoding import Encoding
from controlshap.data.frames import FrameMaker, Kind
from controlshap.problem import Assembly
from controlshap.storage.explanations import decode, encode


def save_assembly(assembly: Assembly, path: Path) -> Path:
    """Write to a folder."""
    arrays: dict[str, Any] = {"background": assembly.background, "owner": assembly.raw_players.owner}
    header: dict[str, Any] = {
        "encoding": _encoding_header(assembly.encoding, arrays),
        "player_names": list(assembly.players.names),
        "n_background": assembly.n_background,
        "settings": {name: encode(value, arrays, name) for name, value in assembly.settings.items()},
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
        encoding = _encoding_from(header["encoding"])
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


_GAPS = {"nan": np.nan, "none": None}


def _encoding_header(encoding: Encoding, arrays: dict[str, Any]) -> dict[str, Any]:
    columns: list[dict[str, Any]] = []
    for column in encoding.columns:
        told: dict[str, Any] = {"kind": type(column).__name__, "name": column.labels[0]}
        if isinstance(column, Number):
            told["whole"] = column.whole
        elif isinstance(column, Flagged):
            told["fill"] = column.fill
        elif isinstance(column, Category):
            gap = "nan" if isinstance(column.missing, float) else "none" if column.missing is None else "frame"
            levels = [encode(level, arrays, f"column {column.name}") for level in column.levels[: column.n_seen]]
            told |= {"name": column.name, "levels": levels, "shares": list(column.shares), "missing": gap}
        columns.append(told)
    maker = encoding.maker
    if maker is None:
        return {"columns": columns, "library": None}
    kinds = [
        {"values": one.values, "dtype": one.dtype, "ordered": one.ordered, "null": one.null,
         "levels": None if one.levels is None else [encode(level, arrays, "levels") for level in one.levels]}
        for one in maker.kinds
    ]  # fmt: skip
    return {"columns": columns, "library": maker.package, "names": list(maker.columns), "kinds": kinds}


def _encoding_from(header: dict[str, Any]) -> Encoding:
    columns: list[Column] = []
    for told in header["columns"]:
        if told["kind"] == "Number":
            columns.append(Number(told["name"], told["whole"]))
        elif told["kind"] == "Flagged":
            columns.append(Flagged(told["name"], told["fill"]))
        else:
            missing = _frame_gap() if told["missing"] == "frame" else _GAPS[told["missing"]]
            columns.append(Category(told["name"], tuple(told["levels"]), tuple(told["shares"]), missing))
    if header["library"] is None:
        return Encoding(tuple(columns))
    kinds = tuple(
        Kind(one["values"], one["dtype"], None if one["levels"] is None else tuple(one["levels"]), one["ordered"],
             one["null"])
        for one in header["kinds"]
    )  # fmt: skip
    names = tuple(tuple(name) if isinstance(name, list) else name for name in header["names"])  # of several levels
    return Encoding(tuple(columns), FrameMaker(header["library"], names, kinds))


def _frame_gap() -> Any:
    """What pandas puts where a value is missing in its own types."""
    import pandas

    return pandas.NA
