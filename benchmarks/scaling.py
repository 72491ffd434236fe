"""How time and memory grow with players, background rows, explained rows, evaluations and columns.

    python benchmarks/scaling.py [--jobs 2] [--small] [--out FOLDER] [--only AXIS]

Every case has a process of its own, with one thread. About 10 minutes with two processes at a time, of which the
largest takes 5 GB. Writes `results/scaling.md` and `results/scaling.png`; --small takes seconds, and writes only where
--out says. What is measured is in `scaling_cases.py`, the exponents, tables and picture are in `scaling_report.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from scaling_cases import AXES, BY_NAME, Axis, Setting, measure
from scaling_report import Line, draw, report

RESULTS = Path(__file__).resolve().parent / "results"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--only", choices=list(BY_NAME), action="append", help="these axes only; needs --out")
    parser.add_argument("--cases", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cases:
        for axis, setting, size in json.load(sys.stdin):
            print(json.dumps(measure(axis, Setting(**setting), size)), flush=True)
        return
    if arguments.only and not arguments.out:
        parser.error("--only needs --out: the results of all axes are kept together")
    axes = [axis for axis in AXES if not arguments.only or axis.name in arguments.only]
    lines = list(run(axes, arguments.jobs, small=arguments.small))
    text = report(lines)
    print(text)
    folder = arguments.out or (None if arguments.small else RESULTS)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "scaling.md").write_text(text)
        draw(folder / "scaling.png", lines)


def run(axes: list[Axis], jobs: int, *, small: bool) -> Iterator[Line]:
    """All cases, measured; small ones share a process for each axis (their memory then means little)."""
    cases = [
        (axis, setting, size)
        for axis in axes
        for setting in axis.settings
        for size in axis.sizes_of(setting, small=small)
    ]
    groups = [[case for case in cases if case[0] is axis] for axis in axes] if small else [[case] for case in cases]
    with ThreadPoolExecutor(jobs) as pool:
        found = [result for results in pool.map(in_process, groups) for result in results]
    results = {(axis.name, *case): result for (axis, *case), result in zip(cases, found, strict=True)}
    for axis in axes:
        for setting in axis.settings:
            sizes = axis.sizes_of(setting, small=small)
            yield Line(axis, setting, sizes, tuple(results[axis.name, setting, size] for size in sizes))


def in_process(cases: list[tuple[Axis, Setting, int]]) -> list[dict[str, float]]:
    """Measure cases in a fresh process, one after the other."""
    told = [(axis.name, asdict(setting), size) for axis, setting, size in cases]
    done = subprocess.run(
        [sys.executable, __file__, "--cases"], input=json.dumps(told), stdout=subprocess.PIPE, text=True,
        env=os.environ | ONE_THREAD, check=True,
    )  # fmt: skip
    for (axis, setting, size), line in zip(cases, done.stdout.splitlines(), strict=True):
        print(axis.name, *asdict(setting).values(), size, line, file=sys.stderr, flush=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    main()
