"""The result of a run over a data set, and the explanation read from its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from controlshap._checks import as_path
from controlshap._errors import InvalidArgumentError
from controlshap._files import DamagedFileError, read_sealed
from controlshap.datasets.layout import PartLayout
from controlshap.datasets.manifest import part_bounds, read_manifest
from controlshap.datasets.part_file import part_path
from controlshap.datasets.stored import StoredExplanation, StoredParts
from controlshap.results.explanation import Explanation
from controlshap.results.wording import count_noun, format_number

#: Bytes of parts that are read at once; of more, each array when it is asked for.
AT_ONCE = 64 * 2**20


@dataclass(frozen=True)
class FailedPart:
    """A part that could not be explained.

    Attributes
    ----------
    part : int
    rows : tuple of int
        First row, and the one after the last.
    reason : str
    """

    part: int
    rows: tuple[int, int]
    reason: str


@dataclass(frozen=True, repr=False)
class DatasetResult:
    """Summary of a run over a data set.

    Attributes
    ----------
    path : Path
        The folder; `controlshap.load(path)` reads it.
    n_rows, n_parts : int
        Size of the whole data set.
    n_done : int
        Parts that are finished.
    failed : tuple of FailedPart
        Parts that could not be explained; a second run tries them again.
    n_evaluations : int
        Model evaluations behind all finished parts, including those of earlier runs.
    seconds : float
        Duration of this run.
    largest_error : float
        Largest standard error of a value in finished parts; 0 where all are exact.
    """

    path: Path
    n_rows: int
    n_parts: int
    n_done: int
    failed: tuple[FailedPart, ...]
    n_evaluations: int
    seconds: float
    largest_error: float = 0.0

    def __repr__(self) -> str:
        failed = f"; {count_noun(len(self.failed), 'part')} failed, see .failed" if self.failed else ""
        error = f", largest standard error {format_number(self.largest_error, 2)}" if self.largest_error > 0 else ""
        return (
            f"DatasetResult: {self.n_done} of {count_noun(self.n_parts, 'part')} of {count_noun(self.n_rows, 'row')}, "
            f"{count_noun(self.n_evaluations, 'model evaluation')}, {self.seconds:,.0f} s{error}{failed}; "
            f"controlshap.load({str(self.path)!r}) reads it"
        )


def load_dataset(path: str | Path, *, allow_partial: bool = False) -> Explanation:
    """Read what `explain_dataset` wrote.

    Of parts of more than 64 MB together, each array is read when it is first asked for, and so must stay where it is;
    `explanation[rows]` reads the parts that hold these rows.

    Parameters
    ----------
    path : str or Path
        The folder.
    allow_partial : bool
        Whether to read the finished rows when others are missing; otherwise that is an error.
    """
    folder = as_path(path, "path")
    manifest = read_manifest(folder)
    n_parts = len(part_bounds(manifest)) - 1
    done = [part for part in range(n_parts) if part_path(folder, part).is_file()]
    if len(done) < n_parts and not (allow_partial and done):
        missing = [str(part) for part in range(n_parts) if part not in set(done)]
        listed = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        way_out = ", or controlshap.datasets.load_dataset(path, allow_partial=True) for the others" if done else ""
        raise InvalidArgumentError(
            f"`path`: {len(missing)} of {n_parts} parts are missing in {str(folder)!r} ({listed})"
            f"{_describe_failures(folder)}. Run the same `explain_dataset` again to finish them{way_out}."
        )
    return load_parts(folder, done)


def load_parts(folder: Path, parts: Sequence[int]) -> Explanation:
    """Read the explanation of some parts, all of which must be finished."""
    manifest = read_manifest(folder)
    bounds = part_bounds(manifest).tolist()
    layout, output_names = PartLayout.from_json(manifest["layout"]), manifest["output_names"]
    about = {
        "feature_names": layout.players,
        "column_names": layout.columns,
        "output_names": None if output_names is None else tuple(output_names),
        "player_columns": tuple(tuple(columns) for columns in manifest["player_columns"]),
        "entropy": int(manifest["entropy"]),
        "settings": manifest["settings"],
        "kept_names": layout.kept,
    }
    stored = StoredParts(
        tuple(part_path(folder, part).absolute() for part in parts),
        tuple((bounds[part], bounds[part + 1]) for part in parts),
        layout,
        manifest["hash"],
        about,
    )
    if stored.n_bytes > AT_ONCE:
        stored.check()
        return StoredExplanation(stored)
    return Explanation.concat([stored.explain(number) for number in range(len(parts))])


def _describe_failures(folder: Path) -> str:
    """Summarise failed.json as half a sentence; empty where there is none."""
    if not (folder / "failed.json").is_file():
        return ""
    try:
        failed = read_sealed(folder / "failed.json")["failed"]
    except DamagedFileError:
        return "; failed.json, which says why, is damaged"
    return f"; {len(failed)} failed, part {failed[0]['part']} by {failed[0]['reason'][:120]}"
