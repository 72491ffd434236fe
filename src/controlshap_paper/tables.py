"""Table 1 side by side with ours, as CSV and Markdown.

`details.csv` is kept: lines whose estimates are no longer there stay, so that a run of many sessions adds up.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from controlshap_paper.cells import ESTIMATORS, FEATURES, METHODS, TABLE_METHODS, Cell, Size, all_cells
from controlshap_paper.data import NAMES as DATA
from controlshap_paper.data import IntArray
from controlshap_paper.models import NAMES as MODELS
from controlshap_paper.published import published
from controlshap_paper.runs import CellEstimates, is_done, read_estimates, read_truth, truth_name
from controlshap_paper.statistics import bias_z, summarise, top_players, variance_reduction

COLUMNS = ("data", "model", "estimator", "features", "method", "variance_reduction", "rank_reduction", "bias_z", "mse")
COVARIANCE_COLUMNS = (
    "data", "model", "features", "covariance", "variance_reduction", "share_made_worse", "share_refused",
)  # fmt: skip
#: Monte Carlo errors of a difference beyond which it wants a reason.
WANTS_A_REASON = 2.5
#: Mean squared error below which values are exact up to rounding.
EXACT = 1e-20


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
        """The cell of the table."""
        return Cell(self.data, self.model, self.estimator, self.features)


Lines = Mapping[tuple[Cell, str], Line]


def write_tables(raw: Path, out: Path, size: Size, seed: int) -> list[Line]:
    """Write all tables, of saved estimates and of what earlier runs with these settings left in `details.csv`."""
    out.mkdir(parents=True, exist_ok=True)
    details = out / "details.csv"
    settings = (size.n_rows, size.n_runs, size.n_coalitions, seed)
    kept = [line for line in read_lines(details) if (line.rows, line.runs, line.coalitions, line.seed) == settings]
    by_cell = {(line.cell, line.method): line for line in kept}
    pairs = [(cell, method) for cell in all_cells() for method in TABLE_METHODS]
    for cell, method in pairs:
        line = _make_line(raw, cell, method, size, seed)
        if line is not None:
            by_cell[cell, method] = line
    lines = [by_cell[pair] for pair in pairs if pair in by_cell]
    rows = [asdict(line) for line in lines]
    _write_csv(details, [field.name for field in fields(Line)], rows)
    _write_csv(out / "table1.csv", COLUMNS, rows)
    (out / "table1.md").write_text(render(by_cell, size))
    _write_covariances(raw, out / "covariances.csv", size, seed)
    return lines


def read_lines(file: Path) -> list[Line]:
    """The lines of a `details.csv`; none where there is no file."""
    if not file.is_file():
        return []
    types: dict[str, Any] = {"str": str, "float": float, "int": int}
    with file.open(newline="") as stored:
        return [
            Line(**{field.name: types[str(field.type)](row[field.name]) for field in fields(Line)})
            for row in csv.DictReader(stored)
        ]


def _make_line(raw: Path, cell: Cell, method: str, size: Size, seed: int) -> Line | None:
    """The line of a cell and method, or None where an estimate is missing."""
    source = "paper" if cell.same_as_paper(method) else method
    names = [truth_name(cell), f"{cell.name}-paper", f"{cell.name}-{source}"]
    if not all(is_done(raw, name, size, seed) for name in names):
        return None
    truth, errors = read_truth(cell, raw)
    plain, estimates = read_estimates(raw, names[1]).uncontrolled, read_estimates(raw, names[2])
    summary = summarise(plain, estimates.controlled, truth, errors, same_rows=cell.model != "forest")
    known = published(cell)
    return Line(
        **asdict(cell),
        method=method,
        **asdict(summary),
        own_reduction=variance_reduction(estimates.uncontrolled, estimates.controlled, top_players(truth)),
        uncontrolled_z=bias_z(estimates.uncontrolled, truth, errors),
        evaluations=float(estimates.n_evaluations.mean()),
        published_variance=known.variance,
        published_rank=known.rank,
        rows=size.n_rows,
        runs=size.n_runs,
        coalitions=size.n_coalitions,
        seed=seed,
    )


def _write_covariances(raw: Path, file: Path, size: Size, seed: int) -> None:
    """KernelSHAP with the paper's three covariances: reduction in percent, and share of values made worse."""
    stored: dict[tuple[str, ...], dict[str, Any]] = {}
    if file.is_file():
        with file.open(newline="") as old:
            stored = {tuple(row[name] for name in COVARIANCE_COLUMNS[:4]): dict(row) for row in csv.DictReader(old)}
    cells = [cell for cell in all_cells() if cell.estimator == "kernelshap"]
    for cell in (cell for cell in cells if is_done(raw, truth_name(cell), size, seed)):
        top = top_players(read_truth(cell, raw)[0])
        for method in ("paper", *METHODS[3:]):
            if is_done(raw, f"{cell.name}-{method}", size, seed):
                key = (cell.data, cell.model, cell.features, "least_squares" if method == "paper" else method)
                numbers = _compare_covariance(read_estimates(raw, f"{cell.name}-{method}"), top)
                stored[key] = dict(zip(COVARIANCE_COLUMNS, (*key, *numbers), strict=True))
    _write_csv(file, COVARIANCE_COLUMNS, [stored[key] for key in sorted(stored)])


def _compare_covariance(runs: CellEstimates, top: IntArray) -> tuple[float, float, float]:
    """The reduction in percent over runs with an answer, the share of values made worse, the share without an answer.

    A run has no answer where a group of coalitions left the least squares singular.
    """
    before, after = np.nanvar(runs.uncontrolled, axis=0), np.nanvar(runs.controlled, axis=0)
    reduction = 100.0 * np.median(np.nanmedian(1.0 - (after / before)[:, top], axis=0))
    return float(reduction), float(np.mean(after > before)), float(np.mean(np.isnan(runs.base_values)))


def _write_csv(file: Path, header: tuple[str, ...] | list[str], rows: list[dict[str, Any]]) -> None:
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, header, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})


# ------------------------------------------------------------------------------------------------------------ Markdown

_TITLES = {"logistic": "Logistic regression", "network": "Neural network", "forest": "Random forest"}
_SETTINGS = [(estimator, features) for features in FEATURES for estimator in ESTIMATORS]
_INTRODUCTION = """# Table 1, side by side

`controlshap reproduce`: {rows} rows, {runs} runs, {coalitions} coalitions; {there} of {wanted} results are there.

Reduction of variance | of rank changes in percent, against the uncontrolled estimates of the paper's sampling with the
same number of evaluations: as published; with the paper's settings; with shared noise (only correlated Shapley sampling
has noise to share, elsewhere it is the paper's); with the library's defaults. ± is the Monte Carlo error. A star marks
a reduction that differs from the published one by more than {limit} errors of a difference;
`docs/reproduction.md` gives the reasons."""
_BIAS = """
## Bias and error

Root mean square z score of the mean over runs against the true values (1 is no bias, 0 is exact); mean squared
error."""
_GAIN = """
## What the default gains

Mean squared error of the paper's settings over that of the default with as many evaluations; "exact" where the default
has no error.{scores}"""


def render(lines: Lines, size: Size) -> str:
    """The page `table1.md`."""
    wanted = len(all_cells()) * len(TABLE_METHODS)
    text = [_INTRODUCTION.format(rows=size.n_rows, runs=size.n_runs, coalitions=size.n_coalitions, there=len(lines),
                                 wanted=wanted, limit=WANTS_A_REASON)]  # fmt: skip
    for model in MODELS:
        text += ["", f"## {_TITLES[model]}", "", *_header("setting", "method")]
        for setting in _SETTINGS:
            known = [published(cell) for cell in _cells(model, setting)]
            cells = [f"{reduction.variance:.1f} \\| {reduction.rank:.1f}" for reduction in known]
            text.append(_row([_name(setting), "published", *cells]))
            for method in TABLE_METHODS:
                cells = _fill(lines, model, setting, method, _show_reductions)
                text.append(_row(["", method.replace("_", " "), *cells]))
    text += [_BIAS, "", *_header("model", "setting", "method")]
    for model in MODELS:
        for setting in _SETTINGS:
            for method in TABLE_METHODS:
                cells = _fill(lines, model, setting, method, lambda line: f"{line.bias_z:.2f}; {line.mse:.1e}")
                text.append(_row([model, _name(setting), method.replace("_", " "), *cells]))
    text += [_GAIN.format(scores=_describe_scores(lines)), "", *_header("model", "setting")]
    for model in MODELS:
        for setting in _SETTINGS:
            cells = [_show_gain(lines, cell) for cell in _cells(model, setting)]
            text.append(_row([model, _name(setting), *cells]))
    return "\n".join(text) + "\n"


def differs(ours: float, known: float, error: float) -> bool:
    """Whether a reduction differs from the published one by more than the Monte Carlo error of both."""
    return abs(ours - known) > WANTS_A_REASON * 2**0.5 * max(error, 0.1)


def _cells(model: str, setting: tuple[str, str]) -> list[Cell]:
    return [Cell(data, model, *setting) for data in DATA]


def _fill(lines: Lines, model: str, setting: tuple[str, str], method: str, show: Callable[[Line], str]) -> list[str]:
    wanted = [lines.get((cell, method)) for cell in _cells(model, setting)]
    return ["not run" if line is None else show(line) for line in wanted]


def _show_reductions(line: Line) -> str:
    variance, rank = line.variance_reduction, line.rank_reduction
    stars = ["", ""]
    if line.method == "paper":
        stars[0] = "*" if differs(variance, line.published_variance, line.variance_error) else ""
        stars[1] = "*" if differs(rank, line.published_rank, line.rank_error) else ""
    return f"{variance:.1f} ± {line.variance_error:.1f}{stars[0]} \\| {rank:.1f} ± {line.rank_error:.1f}{stars[1]}"


def _show_gain(lines: Lines, cell: Cell) -> str:
    paper, default = lines.get((cell, "paper")), lines.get((cell, "default"))
    if paper is None or default is None:
        return "not run"
    if default.mse < EXACT:
        return "exact"
    ratio = paper.mse / default.mse
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"


def _describe_scores(lines: Lines) -> str:
    scores = [line.bias_z for line in lines.values() if line.method == "default" and line.mse >= EXACT]
    if not scores:
        return ""
    return f" In {len(scores)} cells it has one, with z scores of {min(scores):.2f} to {max(scores):.2f}."


def _name(setting: tuple[str, str]) -> str:
    estimator, features = setting
    return f"{'Shapley sampling' if estimator == 'shapley_sampling' else 'KernelSHAP'}, {features}"


def _header(*names: str) -> list[str]:
    return [_row([*names, *DATA]), "|---" * (len(DATA) + len(names)) + "|"]


def _row(parts: list[str]) -> str:
    return "| " + " | ".join(parts) + " |"
