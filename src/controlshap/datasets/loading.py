"""An explanation from a folder of parts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from controlshap._errors import InvalidArgumentError
from controlshap.datasets.layout import Layout
from controlshap.datasets.manifest import read_manifest
from controlshap.datasets.part_file import part_path, read_parts
from controlshap.results.explanation import Explanation


def load_dataset(path: str | Path, *, allow_partial: bool = False) -> Explanation:
    """Read what `explain_dataset` wrote.

    Parameters
    ----------
    path : str or Path
        The folder.
    allow_partial : bool
        Whether to read the rows that are there when others are missing; otherwise that is an error.
    """
    folder = Path(path)
    told = read_manifest(folder)
    n_parts = int(told["n_parts"])
    paths = [part_path(folder, part) for part in range(n_parts)]
    there = [one for one in paths if one.is_file()]
    missing = [part for part, one in enumerate(paths) if not one.is_file()]
    if missing and not (allow_partial and there):
        some = ", ".join(str(part) for part in missing[:5]) + (", ..." if len(missing) > 5 else "")
        way_out = ", or load_dataset(path, allow_partial=True) for the others" if there else ""
        raise InvalidArgumentError(
            f"`path`: {len(missing)} of {n_parts} parts are missing in {str(folder)!r} ({some}){_failures(folder)}. "
            f"Run the same `explain_dataset` again to finish them{way_out}."
        )
    return load_parts(folder, [part for part in range(n_parts) if part not in set(missing)])


def load_parts(folder: Path, parts: Sequence[int]) -> Explanation:
    """The explanation of some parts, all of which must be there."""
    told = read_manifest(folder)
    layout, names = Layout.from_json(told["layout"]), told["output_names"]
    return Explanation(
        **read_parts([part_path(folder, part) for part in parts], layout, told["hash"]),
        feature_names=layout.players,
        column_names=layout.columns,
        output_names=None if names is None else tuple(names),
        player_columns=tuple(tuple(columns) for columns in told["player_columns"]),
        entropy=int(told["entropy"]),
        settings=told["settings"],
    )


def _failures(folder: Path) -> str:
    """What failed.json says, in few words."""
    try:
        failed = json.loads((folder / "failed.json").read_text())["failed"]
    except (FileNotFoundError, ValueError, KeyError):
        return ""
    one = failed[0]
    return f"; {len(failed)} failed, part {one['part']} by {one['reason'][:120]}"
