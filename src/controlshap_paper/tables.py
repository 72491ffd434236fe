"""Table 1 side by side with ours, as CSV and Markdown.

`details.csv` is kept: lines whose estimates are no longer there stay, so that a run of many sessions adds up.
"""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._types import IntArray
from controlshap_paper.cells import METHODS, TABLE_METHODS, Cell, Size, all_cells
from controlshap_paper.markdown import render
from controlshap_paper.published import published
from controlshap_paper.runs import Estimates, is_done, read
from controlshap_paper.statistics import bias_z, summarise, top_players, variance_reduction
from controlshap_paper.truth import read_truth, truth_name

COLUMNS = ("data", "model", "estimator", "features", "method", "variance_reduction", "rank_reduction", "bias_z", "mse")


@dataclass(frozen=True)
class Line:
    """One cell and method; reductions in percent against the uncontrolled estimates of the paper's sampling.

    `own_reduction` is against the method's own uncontrolled estimates, `uncontrolled_z` the bias of these;
    `variance_error` and `rank_error` are Monte Carlo errors.
    """

    data: str
    model: str
    estimator: str
    features: str
    method: str
    variance_reduction: float
    rank_reduction: float
    bias_z: float
    mse: float
    variance_error: float
    rank_error: float
    rank_before: float
    rank_after: float
    own_reduction: float
    uncontrolled_z: float
    evaluations: float
    published_variance: float
    published_rank: float
    rows: int
    runs: int
    coalitions: int
    seed: int

    @property
    def cell(self) -> Cell:
        """Its cell."""
        return Cell(self.data, self.model, self.estimator, self.features)


def write_tables(raw: Path, out: Path, size: Size, seed: int) -> list[Line]:
    """All tables: of what is there, and of what an earlier run with these settings has left in `details.csv`."""
    out.mkdir(parents=True, exist_ok=True)
    details = out / "details.csv"
    known = {(line.cell, line.method): line for line in read_lines(details) if _same(line, size, seed)}
    for cell in all_cells():
        for method in TABLE_METHODS:
            line = _line(raw, cell, method, size, seed)
            if line is not None:
                known[cell, method] = line
    lines = [known[cell, m] for cell in all_cells() for m in TABLE_METHODS if (cell, m) in known]
    names = [field.name for field in fields(Line)]
    _write_csv(details, names, [asdict(line) for line in lines])
    _write_csv(out / "table1.csv", COLUMNS, [asdict(line) for line in lines])
    (out / "table1.md").write_text(render({(line.cell, line.method): line for line in lines}, size))
    _write_covariances(raw, out / "covariances.csv", size, seed)
    return lines


def read_lines(file: Path) -> list[Line]:
    """What `details.csv` holds; nothing where there is none."""
    if not file.is_file():
        return []
    kinds: dict[str, Any] = {"str": str, "float": float, "int": int}
    with file.open(newline="") as stored:
        return [
            Line(**{field.name: kinds[str(field.type)](row[field.name]) for field in fields(Line)})
            for row in csv.DictReader(stored)
        ]


def _same(line: Line, size: Size, seed: int) -> bool:
    return (line.rows, line.runs, line.coalitions, line.seed) == (size.n_rows, size.n_runs, size.n_coalitions, seed)


def _line(raw: Path, cell: Cell, method: str, size: Size, seed: int) -> Line | None:
    """None where something is missing."""
    source = "paper" if cell.same_as_paper(method) else method
    names = [truth_name(cell), f"{cell.name}-paper", f"{cell.name}-{source}"]
    if not all(is_done(raw, name, size, seed) for name in names):
        return None
    truth, errors = read_truth(cell, raw)
    plain, found = read(raw, names[1]).uncontrolled, read(raw, names[2])
    s = summarise(plain, found.controlled, truth, errors, same_rows=cell.model != "forest")
    known = published(cell)
    return Line(
        cell.data, cell.model, cell.estimator, cell.features, method, s.variance_reduction, s.rank_reduction, s.bias_z,
        s.mse, s.variance_error, s.rank_error, s.rank_before, s.rank_after,
        variance_reduction(found.uncontrolled, found.controlled, top_players(truth)),
        bias_z(found.uncontrolled, truth, errors), float(found.n_evaluations.mean()), known.variance, known.rank,
        size.n_rows, size.n_runs, size.n_coalitions, seed,
    )  # fmt: skip


def _write_covariances(raw: Path, file: Path, size: Size, seed: int) -> None:
    """KernelSHAP with the paper's three covariances: reduction in percent, and share of values made worse."""
    header = ("data", "model", "features", "covariance", "variance_reduction", "share_made_worse", "share_refused")
    stored: dict[tuple[str, ...], dict[str, Any]] = {}
    if file.is_file():
        with file.open(newline="") as old:
            stored = {tuple(row[name] for name in header[:4]): dict(row) for row in csv.DictReader(old)}
    for cell in (c for c in all_cells() if c.estimator == "kernelshap" and is_done(raw, truth_name(c), size, seed)):
        top = top_players(read_truth(cell, raw)[0])
        for method in ("paper", *METHODS[3:]):
            if not is_done(raw, f"{cell.name}-{method}", size, seed):
                continue
            runs = read(raw, f"{cell.name}-{method}")
            reduction = _reduction_of_some(runs, top)
            key = (cell.data, cell.model, cell.features, "least_squares" if method == "paper" else method)
            stored[key] = dict(zip(header, (*key, reduction, _made_worse(runs), _refused(runs)), strict=True))
    _write_csv(file, header, [stored[key] for key in sorted(stored)])


def _reduction_of_some(runs: Estimates, top: IntArray) -> float:
    """As `statistics.variance_reduction`, over the runs that were not refused."""
    before, after = np.nanvar(runs.uncontrolled, axis=0), np.nanvar(runs.controlled, axis=0)
    return float(100.0 * np.median(np.nanmedian(1.0 - (after / before)[:, top], axis=0)))


def _made_worse(runs: Estimates) -> float:
    return float(np.mean(np.nanvar(runs.controlled, axis=0) > np.nanvar(runs.uncontrolled, axis=0)))


def _refused(runs: Estimates) -> float:
    """Share of explanations without an answer: some group of coalitions left the least squares singular."""
    return float(np.mean(np.isnan(runs.base_values)))


def _write_csv(file: Path, header: tuple[str, ...] | list[str], rows: list[dict[str, Any]]) -> None:
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, header, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})
