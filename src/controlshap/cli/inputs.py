"""Inputs of the command line: rows to explain, a background that fits into memory, columns, groups."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.datasets.sources import RowSource, open_source
from controlshap.models.files import LoadedModel

#: Rows read at a time; smaller parts would make sampling from a large file slow.
ROWS_AT_ONCE = 10_000
_WAY_OUT = "Say which the model takes with --columns a,b,c, or leave some out with --drop a,b."


@dataclass(frozen=True)
class SampledBackground:
    """The background of a run.

    Attributes
    ----------
    n_rows : int
        Rows of the file.
    seed : int or None
        Seed of the sample; None if all rows are used.
    """

    frame: Any
    n_rows: int
    seed: int | None

    def describe(self) -> str:
        """Return a sentence."""
        if self.seed is None:
            return f"background: all {self.n_rows:,} rows"
        return f"background: {len(self.frame):,} of {self.n_rows:,} rows sampled, seed {self.seed}"


@dataclass(frozen=True)
class ChosenColumns:
    """The model's columns in its order, and the columns of the files that are not used."""

    names: tuple[str, ...]
    left_out: tuple[str, ...]


def open_rows(path: str, argument: str) -> RowSource:
    """Open a file, folder or glob; errors name the argument of the command."""
    with _name_argument(argument):
        return open_source(path, ROWS_AT_ONCE)


def read_background(source: RowSource, columns: tuple[str, ...], most: int, seed: int) -> SampledBackground:
    """Read all rows of some columns, or a sample without replacement."""
    with _name_argument("--background"):
        frame = source.sample(most, seed)[list(columns)]
    return SampledBackground(frame, source.n_rows, seed if len(frame) < source.n_rows else None)


def read_between(source: RowSource, start: int, stop: int) -> Any:
    """Read the rows from `start` up to `stop` as one frame."""
    import pandas

    bounds = np.asarray(source.bounds)
    frames = [
        source.read_part(part).iloc[max(start - bounds[part], 0) : stop - bounds[part]]
        for part in range(source.n_parts)
        if bounds[part] < stop and bounds[part + 1] > start
    ]
    return pandas.concat(frames, ignore_index=True)


def parse_rows(text: str, n_rows: int) -> tuple[int, int]:
    """Parse `--rows 10:20`, `:20`, `10:` or `7` to the first row and the one after the last."""
    match = re.fullmatch(r"\s*(\d*)\s*(:?)\s*(\d*)\s*", text)
    if match is None or not (match[1] or match[2]) or (match[3] and not match[2]):
        raise InvalidArgumentError(f"`--rows` must be 10:20, :20, 10: or one number; got {text!r}.")
    start = int(match[1] or 0)
    stop = (int(match[3]) if match[3] else n_rows) if match[2] else start + 1
    if not start < stop <= n_rows:
        raise InvalidArgumentError(
            f"`--rows` must lie within the {n_rows:,} rows there are (0:{n_rows}); got {text!r}."
        )
    return start, stop


def read_json(path: Path | None, option: str) -> Any:
    """Read a file of an option."""
    if path is None:
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError, OSError) as error:
        raise InvalidArgumentError(f"`{option}`: {path.name!r} is not JSON ({error}).") from error


def read_groups(path: Path | None) -> dict[str, list[str]] | None:
    """Read `--groups`: JSON, names of groups to lists of columns."""
    if path is None:
        return None
    groups: dict[str, list[str]] = read_json(path, "--groups")
    well_formed = isinstance(groups, dict) and all(
        isinstance(columns, list) and all(isinstance(column, str) for column in columns) for columns in groups.values()
    )
    if not well_formed:
        raise InvalidArgumentError(
            f'`--groups`: {path.name!r} must hold names and lists of columns, as {{"Job": ["Job_a", "Job_b"]}}.'
        )
    return groups


def split_names(text: str | None) -> tuple[str, ...]:
    """Split `a,b,c` into names."""
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgumentError(f"A column can be named once only; {_list(twice)} came twice.")
    return names


def choose_columns(
    data: Sequence[str],
    background: Sequence[str],
    model: LoadedModel,
    *,
    columns: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> ChosenColumns:
    """Choose the columns of the files that are the model's inputs.

    A model that names its columns decides by these names, and other columns are left out. Otherwise both files must
    have the same columns in the same order, after `drop`, or `columns` names them. Whatever is ambiguous is an error.
    """
    if columns and drop:
        raise InvalidArgumentError("`--columns` and `--drop` say the same thing; give one of them.")
    files = _drop_columns({"DATA": data, "--background": background}, drop)
    if model.feature_names is not None:
        wanted = _match_model_names(model, columns, files["--background"])
    else:
        wanted = tuple(columns) or _find_common_columns(files)
    for file, names in files.items():
        _refuse_missing_columns(file, names, wanted, "--columns names" if columns else "the model takes")
    if model.n_columns not in (None, len(wanted)):
        raise InvalidArgumentError(
            f"The model takes {model.n_columns} columns, but there are {len(wanted)}: {_list(wanted)}. {_WAY_OUT}"
        )
    every = dict.fromkeys(name for names in files.values() for name in names)
    return ChosenColumns(wanted, tuple(name for name in every if name not in wanted))


def _drop_columns(files: dict[str, Sequence[str]], drop: Sequence[str]) -> dict[str, list[str]]:
    unknown = [name for name in drop if not any(name in names for names in files.values())]
    if unknown:
        raise InvalidArgumentError(f"`--drop`: neither file has {_list(unknown)}.")
    return {file: [name for name in names if name not in drop] for file, names in files.items()}


def _match_model_names(model: LoadedModel, columns: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that the model has for its columns, as the background file spells them."""
    own = model.feature_names or ()
    if type(model.model).__module__.startswith("lightgbm."):  # which writes underscores for spaces
        written = {re.sub(r"\s", "_", name): name for name in names}
        own = tuple(written.get(name, name) for name in own)
    if columns and set(columns) != set(own):
        odd = sorted(set(columns) ^ set(own))
        raise InvalidArgumentError(f"`--columns` and the model's own names differ: {_list(odd)}. Leave --columns out.")
    return own


def _find_common_columns(files: dict[str, list[str]]) -> tuple[str, ...]:
    """Return the columns of both files, which must be the same in the same order."""
    data, background = files.values()
    only = {
        "DATA": [name for name in data if name not in background],
        "--background": [name for name in background if name not in data],
    }
    if any(only.values()):
        differences = "; ".join(f"only in {file}: {_list(names)}" for file, names in only.items() if names)
        raise InvalidArgumentError(
            f"`DATA` and `--background` must have the same columns; {differences}. {_WAY_OUT}"
        )  # fmt: skip
    if data != background:
        raise InvalidArgumentError(
            "`DATA` and `--background` have the same columns in another order, and the model does not name its own. "
            "Give the order that it takes with --columns a,b,c."
        )
    return tuple(background)


def _refuse_missing_columns(file: str, names: Sequence[str], wanted: Sequence[str], reason: str) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        others = [name for name in names if name not in wanted]
        raise InvalidArgumentError(
            f"`{file}` lacks columns that {reason}: {_list(missing)}."
            + (f" It has others: {_list(others)}." if others else "")
        )


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


@contextmanager
def _name_argument(argument: str) -> Iterator[None]:
    try:
        yield
    except InvalidArgumentError as error:
        raise InvalidArgumentError(str(error).replace("`source`", f"`{argument}`")) from error
