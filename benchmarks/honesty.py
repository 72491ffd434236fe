"""Does every player of every row have an error that means what it says, on games made to break it?

    python benchmarks/honesty.py --jobs 2                       all games, all cells; writes results/honesty.md
    python benchmarks/honesty.py --only "labels" --runs 60 --budgets 2000
    python benchmarks/honesty.py --half tuned

Every cell explains the same row many times, each time with random numbers of its own, and is judged by

- coverage of 95 % intervals over live players (those whose value or error is not 0), the worst single player, and whole
  rows with `simultaneous=True`;
- reported over observed error: the median and the lowest over live players;
- values with an error of 0 that are wrong;
- what `ranking(0.95)` and `stop="signs"` certify and is wrong, as a share of runs;
- values that the explanation itself marks as not reliable, where it has such a mark.

Games that were used to choose the rules ("tuned") and games that were held back are told apart (`honesty_games.py`).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import warnings
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from honesty_games import GAMES, game

import controlshap as cs

RESULTS = Path(__file__).resolve().parent / "results"
BUDGETS = (200, 500, 2_000, 10_000)
#: Settings of an `Explainer` beside the defaults, by name.
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "no control": {"control": "none"},
    "walks": {"estimator": "permutation"},
    "walks, no control": {"estimator": "permutation", "control": "none"},
    "kernel": {"estimator": "kernel"},
    "kernel, no control": {"estimator": "kernel", "control": "none"},
    "correlated": {"features": "correlated"},
}


@dataclass(frozen=True)
class Cell:
    """A game, settings, a budget, and perhaps a rule to stop by."""

    game: str
    settings: str
    budget: int
    stop: str = ""


@dataclass(frozen=True)
class Judgement:
    """What was measured in a cell; shares are of 1."""

    coverage: float
    worst: float
    whole: float
    ratio: float
    lowest_ratio: float
    zero_and_wrong: float
    certified: float
    wrong: float
    unreliable: float
    relative_error: float
    method: str

    @property
    def faults(self) -> list[str]:
        """Which targets are missed."""
        rules = {
            "coverage": self.coverage < 0.93,
            "player": self.worst < 0.85,
            "whole rows": self.whole < 0.93,
            "error 0": self.zero_and_wrong > 0,
            "certificates": self.wrong > 0.05,
            "too small": self.ratio < 0.9,
            "too wide": self.ratio > 1.4,
        }
        return [name for name, broken in rules.items() if broken]


def judge(cell: Cell, runs: int) -> Judgement | str:
    """Explain the row of a game many times; the library's refusal is its message."""
    problem = game(cell.game)
    truth = problem.truth
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            explainer = cs.Explainer(problem.model, problem.background, **SETTINGS[cell.settings])
            limits: dict[str, Any] = {"stop": cell.stop} if cell.stop else {}
            found = explainer(np.tile(problem.x, (runs, 1)), budget=cell.budget, rng=1, keep=False, **limits)
        except cs.ControlShapError as error:
            return f"{type(error).__name__}: {error}"
    shape = (runs, *truth.shape)
    values, errors = found.values.reshape(shape), found.standard_errors.reshape(shape)
    scale = np.abs(truth).max()
    live = (errors > 0).any(axis=0) | (np.abs(values - truth) > 1e-9 * scale).any(axis=0)
    if not live.any():
        return "exact"
    inside, together = (
        ((low.reshape(shape) <= truth + 1e-9 * scale) & (truth - 1e-9 * scale <= high.reshape(shape)))
        for low, high in (found.confidence_interval(0.95), found.confidence_interval(0.95, simultaneous=True))
    )
    reliable = getattr(found, "reliable", np.ones(found.values.shape, dtype=bool)).reshape(shape)
    observed = np.sqrt(((values - truth) ** 2).mean(axis=0))
    ratio = (errors.mean(axis=0) / np.where(observed > 0, observed, 1.0))[live & (observed > 1e-9 * scale)]
    by_player = inside.mean(axis=0)[live]
    certified, wrong = count_certificates(found, values, truth, cell.stop)
    return Judgement(
        coverage=float(by_player.mean()),
        worst=float(by_player.min()),
        whole=float(together.all(axis=1).mean()),
        ratio=float(np.median(ratio)) if len(ratio) else 1.0,
        lowest_ratio=float(ratio.min()) if len(ratio) else 1.0,
        zero_and_wrong=float(((errors == 0) & (np.abs(values - truth) > 1e-9 * scale)).mean()),
        certified=certified,
        wrong=wrong,
        unreliable=float(1.0 - reliable.mean()),
        relative_error=float(np.sqrt((observed**2).sum() / (truth**2).sum())),
        method=str(found.method[0]),
    )


def count_certificates(found: cs.Explanation, values: Any, truth: Any, stop: str) -> tuple[float, float]:
    """Shares of runs that certified something, and something wrong: signs if these were asked for, else the order."""
    if stop == "signs":
        done = found.status == "converged"
        wrong = (np.sign(values) != np.sign(truth)).any(axis=(1, 2))
        return float(done.mean()), float((done & wrong).mean())
    if truth.shape[1] > 1:
        return 0.0, 0.0
    ranking = found.ranking(0.95)
    size = np.abs(truth[:, 0])
    certified = wrong = 0
    for row in range(len(values)):
        order = np.argsort(-np.abs(values[row, :, 0]), kind="stable")
        cuts = np.flatnonzero(np.asarray(ranking.separated[row]).reshape(-1))
        certified += bool(len(cuts))
        wrong += any(size[order[: k + 1]].min() < size[order[k + 1 :]].max() - 1e-12 for k in cuts)
    return certified / len(values), wrong / len(values)


def cells(names: list[str], budgets: tuple[int, ...], settings: list[str]) -> list[Cell]:
    """All cells, cheap ones first."""
    found = [Cell(name, setting, budget) for budget in budgets for name in names for setting in settings]
    found += [Cell(name, "no control", 10_000, "signs") for name in names]
    return sorted(found, key=lambda cell: cell.budget)


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression on the names of games")
    parser.add_argument("--half", choices=("tuned", "held back"))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--budgets", type=int, nargs="*", default=BUDGETS)
    parser.add_argument("--settings", nargs="*", default=["default", "no control"], choices=list(SETTINGS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="where to write; by default results/honesty.md for complete runs")
    options = parser.parse_args()
    names = [name for name in GAMES if re.search(options.only, name)]
    if options.half:
        names = [name for name in names if GAMES[name][0] == (options.half == "tuned")]
    todo = cells(names, tuple(options.budgets), options.settings)
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        judged = []
        for cell, found in zip(todo, pool.imap(partial(judge, runs=options.runs), todo), strict=True):
            judged.append((cell, found))
            print(line(cell, found), flush=True)
    text = report(judged, options.runs)
    print(text)
    complete = not options.only and not options.half and tuple(options.budgets) == BUDGETS
    out = options.out or (RESULTS / "honesty.md" if complete else None)
    if out is not None:
        out.write_text(text)
        records = [asdict(cell) | (asdict(f) if isinstance(f, Judgement) else {"note": f}) for cell, f in judged]
        out.with_suffix(".json").write_text(json.dumps(records, indent=1))


def line(cell: Cell, found: Judgement | str) -> str:
    """A line of the table."""
    half = "tuned" if GAMES[cell.game][0] else "held back"
    name = f"| {cell.game} | {half} | {cell.settings}{', until ' + cell.stop if cell.stop else ''} | {cell.budget:,} |"
    if isinstance(found, str):
        return f"{name} {found.split(':')[0]} | | | | | | | | |"
    return (
        f"{name} {100 * found.coverage:.0f} ({100 * found.worst:.0f}; {100 * found.whole:.0f}) | {found.ratio:.2f} | "
        f"{found.lowest_ratio:.2f} | {100 * found.zero_and_wrong:.1f} | {100 * found.certified:.0f}, "
        f"{100 * found.wrong:.0f} | {100 * found.unreliable:.0f} | {found.relative_error:.3f} | {found.method} | "
        f"{', '.join(found.faults)} |"
    )


def report(judged: list[tuple[Cell, Judgement | str]], runs: int) -> str:
    """The page: counts for each half, then every cell."""
    lines = [
        "# Honest errors on games made to break them", "", f"`python benchmarks/honesty.py`, {runs} runs a cell.", "",
        "| games | cells | refused or exact | coverage below 93 % | a player below 85 % | whole rows below 93 % | "
        "error 0 beside a wrong value | wrong certificates above 5 % | reported/observed below 0.9 | above 1.4 | "
        "not reliable |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for half, flag in (("tuned", True), ("held back", False)):
        mine = [found for cell, found in judged if GAMES[cell.game][0] == flag]
        done = [found for found in mine if isinstance(found, Judgement)]
        names = ("coverage", "player", "whole rows", "error 0", "certificates", "too small", "too wide")
        counts = [sum(name in found.faults for found in done) for name in names]
        share = np.mean([found.unreliable for found in done]) if done else 0.0
        lines.append(
            f"| {half} | {len(done)} | {len(mine) - len(done)} | {' | '.join(map(str, counts))} | {share:.1%} |"
        )
    lines += [
        "", "Coverage of live players (worst player; whole rows) in %; reported over observed error, median and "
        "lowest; values with error 0 that are wrong in %; runs that certified something, and something wrong, in %; "
        "values marked as not reliable in %; root mean square error over the size of the values.", "",
        "| game | half | settings | evaluations | coverage | ratio | lowest | error 0 | certified, wrong | not "
        "reliable | error | method | misses |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    lines += [line(cell, found) for cell, found in judged]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
