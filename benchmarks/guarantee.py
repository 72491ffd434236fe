"""Do intervals that rest on the output's range hold, and how wide are they beside Student's t on the same units?

    python benchmarks/guarantee.py                writes results/guarantee.md (some minutes)
    python benchmarks/guarantee.py --runs 20 --units 300
    python benchmarks/guarantee.py --known        widths for known distributions, and what a control would bring

Games of `honesty.py` whose outputs are labels or probabilities; every cell explains its row many times.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from honesty_games import GAMES
from honesty_kinds import KINDS
from scipy.stats import t

import controlshap as cs
from controlshap.statistics.betting import finite_bounds

RESULTS = Path(__file__).resolve().parent / "results"
NAMES = (
    "network labels, 12 players", "forest labels, 8 players", "tree labels, 13 players", "SVM labels, 9 players",
    "three classes, 9 players", "three probabilities", "network probability, 20 players", "AND of 12", "OR of 14",
    "13 background rows, labels", "8 groups, labels", "correlated, step",
)  # fmt: skip
#: Most units times players of a cell, for its time.
MOST_TERMS = 13_000


def judge(name: str, n_units: int, runs: int) -> str | None:
    """A line of the table; None where all coalitions are enumerated, or it takes too long."""
    game = (GAMES | KINDS)[name][1]()
    p = len(game.truth)
    if n_units * p > MOST_TERMS:
        return None
    explainer = cs.Explainer(game.model, game.background, **game.settings)
    rows, budget = np.tile(game.x, (runs, 1)), 1 + n_units * 2 * (p - 1)
    found = explainer(rows, budget=budget, rng=5, keep=False, guarantee="finite", output_range=(0, 1))
    if (found.status == "exact").all():
        return None
    shape = (runs, *game.truth.shape)
    (low, high), (low_all, high_all), student = (
        tuple(end.reshape(shape) for end in ends)
        for ends in (
            found.confidence_interval(guarantee="finite"),
            found.confidence_interval(guarantee="finite", simultaneous=True),
            found.confidence_interval(),
        )
    )
    held = (low <= game.truth + 1e-9) & (game.truth - 1e-9 <= high)
    whole = ((low_all <= game.truth + 1e-9) & (game.truth - 1e-9 <= high_all)).all(axis=(1, 2)).mean()
    width = (high - low).mean(axis=0) / (student[1] - student[0]).mean(axis=0)
    return (
        f"| {name} | {n_units:,} | {100 * held.mean():.1f} ({100 * held.mean(axis=0).min():.0f}; {100 * whole:.0f}) | "
        f"{np.median(width):.2f} | {width.max():.2f} |"
    )


def print_known(n_intervals: int = 400) -> None:
    """Widths over Student's t for units of known distributions within 1, and with a control over without one.

    An ideal control leaves a share of the variance, and terms within 2: a function within the range of the output.
    """
    rng = np.random.default_rng(0)
    kinds: dict[str, Callable[[tuple[int, int]], Any]] = {
        **{f"deviation {sd}": partial(_two_sided, rng, sd) for sd in (0.3, 0.1, 0.05)},
        **{f"jumps of 1 in {share} of the units": partial(_jumps, rng, share) for share in (0.1, 0.02)},
    }
    for name, draw in kinds.items():
        for n in (300, 1000):
            units = draw((n, n_intervals))
            low, high = finite_bounds(units, np.ones(units.shape), 0.05)
            student = 2.0 * t.ppf(0.975, n - 1) * units.std(axis=0, ddof=1).mean() / np.sqrt(n)
            print(f"{name}, {n:,} units: {(high - low).mean() / student:.2f} times as wide as t", flush=True)
    for sd, n in ((sd, n) for sd in (0.3, 0.1) for n in (300, 1000, 5000)):
        plain, *left = (
            np.subtract(*finite_bounds(units, np.full(units.shape, reach), 0.05)[::-1]).mean()
            for units, reach in (
                (_two_sided(rng, sd * np.sqrt(share), (n, n_intervals // 4)), 1.0 if share == 1.0 else 2.0)
                for share in (1.0, 0.5, 0.25)
            )
        )
        half, quarter = (width / plain for width in left)
        print(f"deviation {sd}, {n:,} units, a half or a quarter of the variance left: {half:.2f}, {quarter:.2f}")


def _two_sided(rng: np.random.Generator, sd: float, shape: tuple[int, int]) -> Any:
    """One unit of five differs from 0, to either side."""
    return rng.choice([-1.0, 0.0, 1.0], shape, p=[0.1, 0.8, 0.1]) * sd / np.sqrt(0.2)


def _jumps(rng: np.random.Generator, share: float, shape: tuple[int, int]) -> Any:
    return (rng.random(shape) < share).astype(float)


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--units", type=int, nargs="*", default=[100, 300, 1000])
    options = parser.parse_args()
    if options.known:
        print_known()
        return
    warnings.simplefilter("ignore")
    lines = [
        "# Intervals that rest on the range of the output", "",
        f"`python benchmarks/guarantee.py`: {options.runs} runs of one row in each cell, outputs between 0 and 1, "
        "`guarantee=\"finite\"`. Coverage of 95 % intervals (the worst player; whole rows, of which each output has "
        "95 %), and their width over Student's t with the same units, median and largest over players. A player that "
        "changes outputs by little has intervals as wide as the range and the number of units make them.", "",
        "| game | units | coverage | width over t | largest |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for name in NAMES:
        for n_units in options.units:
            line = judge(name, n_units, options.runs)
            if line is not None:
                lines.append(line)
                print(line, flush=True)
    (RESULTS / "guarantee.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
