"""Results on disk, as the command line needs them: a summary of all rows, and a report of as many as a page bears."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.datasets.loading import load_parts
from controlshap.datasets.manifest import read_manifest
from controlshap.datasets.part_file import part_path
from controlshap.report import write_report
from controlshap.storage.explanations import load

#: Most rows of a report (more where one part has more).
REPORT_ROWS = 5000


@dataclass(frozen=True)
class ResultSummary:
    """What a result holds.

    Attributes
    ----------
    n_rows : int
    statuses : dict of str to int
        Rows of each status.
    median_gain : float
        What the control bought, median over rows; infinite where it left no error.
    """

    n_rows: int
    statuses: dict[str, int]
    median_gain: float


def summarise_result(folder: Path) -> ResultSummary:
    """Read part after part; all of them need not fit into memory."""
    statuses: Counter[str] = Counter()
    gains = []
    for part in _parts_there(folder):
        explanation = load_parts(folder, [part])
        statuses.update(explanation.status.tolist())
        gains.append(explanation.gain)
    every = np.concatenate(gains)
    # sorted by hand: the mean of two infinite numbers is one, but numpy warns about it
    return ResultSummary(len(every), dict(sorted(statuses.items())), float(np.sort(every)[(len(every) - 1) // 2]))


def report_result(folder: Path, path: Path, *, title: str | None = None, partial: bool = False) -> Path:
    """Write the report of a result; of a large one, of rows from all over it."""
    if not (folder / "manifest.json").is_file():
        return write_report(load(folder), path, title=title)
    told = read_manifest(folder)
    there = _parts_there(folder)
    n_parts = int(told["n_parts"])
    if len(there) < n_parts and not (partial and there):
        raise InvalidArgumentError(
            f"`RESULT`: {n_parts - len(there)} of {n_parts} parts are missing in {str(folder)!r}. Run the same command "
            "again to finish it" + (", or give --partial to see the others." if there else ".")
        )
    n_rows = int(told["n_rows"])
    step = max(1, -(-n_rows // REPORT_ROWS))
    explanation = load_parts(folder, there[::step] if len(there) > 1 else there)
    if len(explanation) < n_rows and title is None:
        title = f"Shapley values of {len(explanation):,} of {n_rows:,} rows"
    return write_report(explanation, path, title=title)


def _parts_there(folder: Path) -> list[int]:
    n_parts = int(read_manifest(folder)["n_parts"])
    return [part for part in range(n_parts) if part_path(folder, part).is_file()]
