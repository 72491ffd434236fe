"""Ratios, their intervals, the tables and the picture of the efficiency benchmark."""

from __future__ import annotations

import csv
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from efficiency_cases import Cell
from efficiency_peers import KERNEL, OURS, PEERS, PLAIN, THOROUGH
from efficiency_plot import draw

RESULTS = Path(__file__).resolve().parent / "results"
#: Errors below this share of the largest value are rounding (some peers work in single precision, or put a large weight
#: in place of a constraint): both exact is a ratio of 1.
ROUNDING = 1e-6
N_BOOTSTRAP = 4000
#: A cell is worse than a contender when the whole interval of its ratio lies below this.
WORSE = 0.95
#: Largest error of a long run, as a share of the best contender's error.
TRUTH_SHARE = 0.05
Records = dict[tuple[str, str], dict[str, Any]]


@dataclass(frozen=True)
class Ratio:
    """Mean squared error of a contender over ours in one cell."""

    cell: Cell
    contender: str
    setting: str
    median: float
    low: float
    high: float
    error: float
    our_error: float
    both_exact: bool
    seconds: float
    evaluations: float

    def __str__(self) -> str:
        if self.both_exact:
            return "exact"
        return _short(self.median)


def _short(number: float) -> str:
    if number > 1e6:
        return "> 1e6"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def compare(cell: Cell, contender: str, records: Records, base: str = OURS) -> Ratio | None:
    """Median over rows of the ratio, with a bootstrap over rows and seeds; the contender's best setting."""
    ours, other = records.get((cell.name, base)), records.get((cell.name, contender))
    if ours is None or other is None or not other["errors"]:
        return None
    floor = (ROUNDING * np.array(ours["scale"])[:, None]) ** 2
    ours_errors = np.maximum(ours["errors"][""], floor)
    settings = {name: np.maximum(errors, floor) for name, errors in other["errors"].items()}
    best = min(settings, key=lambda name: np.log(settings[name].mean(axis=1)).mean())
    errors = settings[best]
    rng = np.random.default_rng(0)
    n_rows, n_seeds = errors.shape
    rows = rng.integers(0, n_rows, (N_BOOTSTRAP, n_rows, 1))
    seeds = rng.integers(0, n_seeds, (N_BOOTSTRAP, n_rows, n_seeds))
    drawn = np.median(errors[rows, seeds].mean(axis=2) / ours_errors[rows, seeds].mean(axis=2), axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    by_row, ours_by_row = errors.mean(axis=1), ours_errors.mean(axis=1)
    spent = {k: other[k][best] if isinstance(other[k], dict) else other[k] for k in ("seconds", "evaluations")}
    return Ratio(
        cell=cell,
        contender=contender,
        setting=best,
        median=float(np.median(by_row / ours_by_row)),
        low=float(low),
        high=float(high),
        error=float(np.median(by_row)),
        our_error=float(np.median(ours_by_row)),
        both_exact=bool((errors <= floor).all() and (ours_errors <= floor).all()),
        **spent,
    )


def rough_truths(chosen: list[Cell], records: Records) -> list[str]:
    """Cells whose long run is not much better than the best contender."""
    found = []
    for cell in chosen:
        of_cell = [record for (name, _), record in records.items() if name == cell.name and record["errors"]]
        if not of_cell:
            continue
        smallest = np.min([np.mean(e, axis=1) for record in of_cell for e in record["errors"].values()], axis=0)
        share = np.median(np.array(of_cell[0]["truth_errors"]) / np.maximum(smallest, 1e-300))
        if share > TRUTH_SHARE:
            found.append(f"{cell.name}: {100 * share:.0f} %")
    return found


def write(chosen: list[Cell], records: Records, size: tuple[int, int], name: str | None, command: str) -> None:
    """Print the report; write it, the figures of each cell and the picture under a name, without one into the cache."""
    names = [PLAIN, *PEERS, KERNEL]
    ratios = [r for cell in chosen for name in names if (r := compare(cell, name, records)) is not None]
    text = "\n".join(_lines(chosen, records, ratios, size, name or "efficiency", command)) + "\n"
    print(text)
    folder = RESULTS if name else Path(__file__).resolve().parent / ".cache"
    folder.mkdir(exist_ok=True)
    (folder / f"{name or 'efficiency'}.md").write_text(text)
    _write_csv(folder / f"{name or 'efficiency'}.csv", ratios)
    draw(folder / f"{name or 'efficiency'}.png", chosen, ratios)


def _lines(
    chosen: list[Cell], records: Records, ratios: list[Ratio], size: tuple[int, int], name: str, command: str
) -> list[str]:
    found = {(r.cell.name, r.contender): r for r in ratios}
    lines = [
        "# Efficiency" if name == "efficiency" else f"# {name.replace(chr(95), chr(32)).capitalize()}",
        "",
        f"`{command}`, {size[0]} rows x {size[1]} seeds, Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in ("shap", "shapiq", "lightshap", "scikit-learn"))
        + ". Mean squared error of a contender over ours at equal model evaluations, median over rows: above 1 we are "
        "better. Models are bare callables; one-hot blocks are one player for everybody. Errors below a millionth of "
        "the largest value count as exact.",
        "",
        f"![Ratios of all cells]({name}.png)",
        "",
    ]
    if any(cell.target is not None for cell in chosen):
        lines += ["## Figures to reach", "", *_targets(chosen, found, records), ""]
    lines += ["## The best contender of each cell", "", *_best(chosen, found), "", "## Worse than a contender", ""]
    worse = [r for r in ratios if r.high < WORSE]
    n_cells = len({r.cell.name for r in ratios})
    lines.append(
        f"{len({r.cell.name for r in worse})} of {n_cells} cells have a 95 % interval of some ratio below {WORSE} "
        "(paired bootstrap over rows and seeds); both exact passes."
    )
    lines += ["", *(["| cell | contender | ratio | interval |", "|---|---|---|---|"] if worse else [])]
    lines += [
        f"| {r.cell.name} | {r.contender} {r.setting} | {r} | {_short(r.low)} to {_short(r.high)} |"
        for r in sorted(worse, key=lambda r: r.median)
    ]
    for section in dict.fromkeys(cell.section for cell in chosen):
        lines += ["", f"## {section[0].upper()}{section[1:]}", ""]
        lines += _section([cell for cell in chosen if cell.section == section], found)
    lines += ["", "## Ours", "", *_ours(chosen, records)]
    if rough := rough_truths(chosen, records):
        lines += ["", "## Rough truths", ""]
        lines.append(f"Error of the long run above {100 * TRUTH_SHARE:.0f} % of the best contender's error: ")
        lines += ["", *(f"- {line}" for line in rough)]
    return [*lines, "", "## How", "", *NOTES]


def _best(chosen: list[Cell], found: dict[tuple[str, str], Ratio]) -> list[str]:
    """The best contender's error over ours: median over cells, and the cells in which it is ahead."""
    of_cells = {}
    for cell in chosen:
        peers = [found[cell.name, peer] for peer in PEERS if (cell.name, peer) in found]
        if peers:
            of_cells[cell.name] = min(peers, key=lambda ratio: ratio.median)
    if not of_cells:
        return ["No contender was measured."]
    ratios = np.array([ratio.median for ratio in of_cells.values()])
    lines = [
        f"The best of all contenders' settings, with hindsight: median over {len(ratios)} cells "
        f"{_short(np.median(ratios))}, smallest {_short(ratios.min())}, below 1 in {int((ratios < 1).sum())}, at least "
        f"5 in {int((ratios >= 5).sum())}.",
        "",
    ]
    for section in dict.fromkeys(cell.section for cell in chosen):
        part = np.array([of_cells[c.name].median for c in chosen if c.section == section and c.name in of_cells])
        if len(part):
            lines.append(f"- {section}: median {_short(np.median(part))}, smallest {_short(part.min())}")
    behind = sorted((r for r in of_cells.values() if r.median < 1.0), key=lambda r: r.median)
    if behind:
        lines += ["", "| ahead of ours | contender | ratio | interval |", "|---|---|---|---|"]
    lines += [
        f"| {r.cell.name} | {r.contender} {r.setting} | {r} | {_short(r.low)} to {_short(r.high)} |" for r in behind
    ]
    return lines


def _targets(chosen: list[Cell], found: dict[tuple[str, str], Ratio], records: Records) -> list[str]:
    lines = [
        '| cell | against | figure | "thorough" | "auto" | interval of "auto" | |',
        "|---|---|---|---|---|---|---|",
    ]
    for cell in chosen:
        against = KERNEL if cell.correlated else "shap kernel"
        ratio = found.get((cell.name, against))
        if cell.target is None or ratio is None:
            continue
        interval = f"{_short(ratio.low)} to {_short(ratio.high)}"
        slow = compare(cell, against, records, THOROUGH)
        verdict = "yes" if ratio.median >= cell.target else "**no**"
        if verdict != "yes" and slow is not None and slow.median >= cell.target:
            verdict = 'by "thorough"'
        slow = slow or ""
        lines.append(f"| {cell.name} | {against} | {cell.target:,.0f} | {slow} | {ratio} | {interval} | {verdict} |")
    n_reached = sum(line.endswith("| yes |") for line in lines)
    n_slowly = sum(line.endswith('| by "thorough" |') for line in lines)
    explained = (
        f'{n_reached} of {len(lines) - 2} are reached with everything left to "auto", which fits what takes no longer '
        f'than the model itself; {n_slowly} more with control="thorough", which fits a network and trees and takes '
        "seconds for each explanation (it is measured where auto misses)."
    )
    return [explained, "", *lines]


def _section(part: list[Cell], found: dict[tuple[str, str], Ratio]) -> list[str]:
    names = [PLAIN, KERNEL] if part[0].correlated else [PLAIN, *PEERS]
    lines = [
        "| model | evaluations | background | " + " | ".join(names) + " |",
        "|---|---|---|" + "---|" * len(names),
    ]
    for cell in part:
        shown = [str(found.get((cell.name, name), "")) for name in names]
        background = "Gaussian" if cell.correlated else f"{cell.n_background:,}"
        lines.append(f"| {cell.case} | {cell.budget:,} | {background} | {' | '.join(shown)} |")
    return lines


def _ours(chosen: list[Cell], records: Records) -> list[str]:
    lines = [
        "Median over rows and players of reported over observed standard error; milliseconds of an explanation, and of "
        "the model alone for as many rows in one batch.",
        "",
        "| cell | method | truth | reported / observed | ms | ms of the model |",
        "|---|---|---|---|---|---|",
    ]
    for cell in chosen:
        record = records.get((cell.name, OURS))
        if record is None:
            continue
        calibration = "exact" if record["calibration"] is None else f"{record['calibration']:.2f}"
        lines.append(
            f"| {cell.name} | {'; '.join(record['method'])} | {record['truth']} | {calibration} | "
            f"{1e3 * record['seconds']:.0f} | {1e3 * record['model_seconds']:.1f} |"
        )
    known = [c for cell in chosen if (r := records.get((cell.name, OURS))) and (c := r["calibration"]) is not None]
    biases = [
        f"{cell.case} {np.sqrt(np.mean(z**2)):.2f}" for cell in chosen if (z := _bias(cell, records)) is not None
    ]  # fmt: skip
    if known:
        lines += ["", f"Median reported / observed over cells: {np.median(known):.2f}."]
    if biases:
        lines += [
            "",
            "Correlated features have no exact values here. Difference of the means of ours and of KernelSHAP over its "
            f"standard error, root mean square (about 1 when both are right): {', '.join(biases)}.",
        ]
    return lines


def _bias(cell: Cell, records: Records) -> np.ndarray | None:
    """Differences of means in standard errors, for correlated cells."""
    ours, other = records.get((cell.name, OURS)), records.get((cell.name, KERNEL))
    if ours is None or other is None:
        return None
    variances = np.array(ours["mean_variances"]) + np.array(other["mean_variances"])
    return (np.array(ours["means"]) - np.array(other["means"])) / np.sqrt(np.maximum(variances, 1e-300))


NOTES = [
    "- Truth: exact from the trees of the fitted model, exact by enumeration of all coalitions, or 25 runs of 50,000 "
    "evaluations with other seeds.",
    "- Evaluations: f on the background and f(x) are free for all; a coalition costs one for each background row.",
    "- The permutation explainer of shap skips evaluations where x and background agree, and gets more walks for it.",
    "- Where the budget does not cover the background many times, every peer gets the best of several sizes of sampled "
    "background (all of it among them, unless the budget is less than one pass: a walk and its reverse for each row), "
    "and everywhere the best of its settings, both with hindsight for each cell: lightshap by kernel or permutations "
    "(its most exact form that fits), PolySHAP of order 2, or paired of order up to 3 (with at most 0.8 terms for each "
    "coalition), RegressionMSR with boosted or linear proxy. `shapiq.KernelSHAP` is paired, ProxySHAP has a boosted "
    "proxy and is adjusted, OddSHAP is as it comes. Empty cells: the budget is too small for the peer.",
    "- With correlated features: variance over seeds of `cs.Kernel(n_draws=10)` without control over ours, a Gaussian "
    "fitted to all training rows.",
    "- `no control` is `explanation.uncontrolled_values` of the same runs.",
]


def _write_csv(file: Path, ratios: list[Ratio]) -> None:
    with file.open("w", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(
            ["section", "model", "evaluations", "background", "contender", "setting", "ratio", "low", "high", "target",
             "error", "our_error", "seconds", "spent"]
        )  # fmt: skip
        for r in ratios:
            main = r.contender == (KERNEL if r.cell.correlated else "shap kernel")
            figures = [f"{v:.4g}" for v in (r.median, r.low, r.high)]
            table.writerow(
                [r.cell.section, r.cell.case, r.cell.budget, "" if r.cell.correlated else r.cell.n_background,
                 r.contender, r.setting, *figures, (r.cell.target or "") if main else "", f"{r.error:.4g}",
                 f"{r.our_error:.4g}", f"{r.seconds:.4g}", f"{r.evaluations:.0f}"]
            )  # fmt: skip
