"""Which columns of the files are the model's inputs. What is not certain is an error that names the way out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlshap._errors import InvalidArgumentError
from controlshap.models.files import LoadedModel

_WAY_OUT = "Say which the model takes with --columns a,b,c, or leave some out with --drop a,b."


@dataclass(frozen=True)
class ChosenColumns:
    """The model's columns in its order, and those of the files that are not used."""

    names: tuple[str, ...]
    left_out: tuple[str, ...]


def split_names(text: str | None) -> tuple[str, ...]:
    """`a,b,c` as names."""
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgumentError(f"A column can be named once only; {_listed(twice)} came twice.")
    return names


def choose_columns(
    data: Sequence[str],
    background: Sequence[str],
    model: LoadedModel,
    *,
    columns: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> ChosenColumns:
    """The columns to explain.

    A model that names its columns decides by these names; others in the files are left out. Otherwise both files
    must have the same columns in the same order, after `drop`, or `columns` says which.
    """
    if columns and drop:
        raise InvalidArgumentError("`--columns` and `--drop` say the same thing; give one of them.")
    unknown = [name for name in drop if name not in data and name not in background]
    if unknown:
        raise InvalidArgumentError(f"`--drop`: neither file has {_listed(unknown)}.")
    left = {"DATA": [n for n in data if n not in drop], "--background": [n for n in background if n not in drop]}
    wanted = _wanted(_as_in_files(model, left["--background"]), tuple(columns), left)
    for where, names in left.items():
        missing = [name for name in wanted if name not in names]
        if missing:
            extra = [name for name in names if name not in wanted]
            raise InvalidArgumentError(
                f"`{where}` lacks columns that "
                + ("--columns names" if columns else "the model takes")
                + f": {_listed(missing)}."
                + (f" It has others: {_listed(extra)}." if extra else "")
            )
    if model.n_columns is not None and len(wanted) != model.n_columns:
        raise InvalidArgumentError(
            f"The model takes {model.n_columns} columns, but there are {len(wanted)}: {_listed(wanted)}. {_WAY_OUT}"
        )
    unused = [n for n in dict.fromkeys((*left["DATA"], *left["--background"])) if n not in wanted]
    return ChosenColumns(tuple(wanted), tuple(unused))


def _as_in_files(model: LoadedModel, names: Sequence[str]) -> LoadedModel:
    """Undo that lightgbm writes underscores for spaces in names; the files have the names as they were."""
    if model.feature_names is None or not type(model.model).__module__.startswith("lightgbm."):
        return model
    written = {re.sub(r"\s", "_", name): name for name in names}
    return replace(model, feature_names=tuple(written.get(name, name) for name in model.feature_names))


def _wanted(model: LoadedModel, columns: tuple[str, ...], left: dict[str, list[str]]) -> Sequence[str]:
    if model.feature_names is not None:
        if columns and set(columns) != set(model.feature_names):
            odd = sorted(set(columns) ^ set(model.feature_names))
            raise InvalidArgumentError(
                f"`--columns` and the model's own names differ: {_listed(odd)}. Leave --columns out."
            )
        return model.feature_names
    if columns:
        return columns
    ours, theirs = left.values()
    if set(ours) != set(theirs):
        said = [
            f"only in {where}: {_listed([n for n in names if n not in other])}"
            for where, names, other in (("DATA", ours, theirs), ("--background", theirs, ours))
            if set(names) - set(other)
        ]
        raise InvalidArgumentError(
            f"`DATA` and `--background` must have the same columns; {'; '.join(said)}. {_WAY_OUT}"
        )
    if ours != theirs:
        raise InvalidArgumentError(
            "`DATA` and `--background` have the same columns in another order, and the model does not name its own. "
            "Give the order that it takes with --columns a,b,c."
        )
    return theirs


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
