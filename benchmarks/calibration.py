"""Do the errors hold? Coverage of 95 % intervals, reported over observed errors, and wrong certificates.

    .venv-peers/bin/python benchmarks/calibration.py --jobs 2          (or any environment with scikit-learn)
    python benchmarks/calibration.py --only "forest, independent" --replications 100

Every cell of `calibration_cases.py` is run 400 times (4 rows, 100 times each); one run is analysed by every variance
method that fits its design (grouped errors need units drawn at random, and runs of their own). With shap and lightshap
installed, their own error figures are measured beside ours. Finished work is kept in benchmarks/.cache; `--fresh`
measures again. Writes results/calibration.md, .csv and .png (`calibration_report.py`), with `--only` into the cache.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import time
import traceback
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import calibration_peers
import calibration_report
import numpy as np
from calibration_cases import PLAYERS, Cell, cells, find_truth, make_explainer, rows_and_background

import controlshap as cs
from controlshap.engine import row as engine
from controlshap.results.ranking import rank
from controlshap.statistics.analysis import Analysis, analyse

CACHE = Path(__file__).resolve().parent / ".cache"
LEVEL = 0.95
Record = dict[str, Any]


class Tally:
    """Sums over the replications of a cell, for one way to get errors."""

    def __init__(self, truth: np.ndarray) -> None:
        self.truth = truth
        self.scale = np.abs(truth).max()
        self.squares, self.variances, self.covered, self.used = (np.zeros(truth.shape) for _ in range(4))
        self.wrong, self.certified, self.runs, self.evaluations = 0, 0, 0, 0.0

    def add(self, row: int, run: cs.Explanation) -> None:
        """One replication."""
        values, errors = run.values[0], run.standard_errors[0]
        low, high = run.confidence_interval(LEVEL)
        truth = self.truth[row]
        known = (errors > 1e-12 * self.scale) | (np.abs(values - truth) > 1e-9 * self.scale)
        self.used[row] += known
        self.squares[row] += np.where(known, (values - truth) ** 2, 0.0)
        self.variances[row] += np.where(known, errors**2, 0.0)
        self.covered[row] += known & (low[0] <= truth) & (truth <= high[0])
        found = rank(run, LEVEL)
        self.certified += bool(found.separated[0].any())
        self.wrong += not _right(found, truth)
        self.runs += 1
        self.evaluations += float(run.n_evaluations[0])

    def record(self) -> Record:
        """What the table needs."""
        used = self.used > 0
        observed, reported = np.sqrt(self.squares[used]), np.sqrt(self.variances[used])
        ratios = reported / np.where(observed > 0, observed, 1.0)
        return {
            "coverage": float(self.covered.sum() / self.used.sum()) if used.any() else None,
            "ratio": float(np.median(ratios)) if used.any() else None,
            "certified": self.certified / self.runs,
            "wrong": self.wrong / self.runs,
            "evaluations": self.evaluations / self.runs,
            "runs": self.runs,
        }


def _right(found: cs.Ranking, truth: np.ndarray) -> bool:
    """Whether every certified top set of a single row is one."""
    size = np.abs(truth)[found.order[0]]
    return all(size[: k + 1].min() >= size[k + 1 :].max() for k in np.flatnonzero(found.separated[0]))


def methods(cell: Cell) -> dict[str, dict[str, Any]]:
    """For each design of units the variance methods that fit its runs."""
    if cell.stop:
        return {"auto": {"auto": None}}
    own: dict[str, Any] = {"bootstrap": cs.Bootstrap()}
    own |= {"analytic": cs.Analytic()} if cell.estimator == "permutation" else {"least_squares": cs.LeastSquares()}
    grouped = {"grouped": cs.Grouped()}
    return {"auto": own | grouped} if cell.features == "correlated" else {"auto": own, "grouped": grouped}


@contextmanager
def captured(samples: list[tuple[Any, ...]]) -> Any:
    """Keep what the engine's last analysis of a row was given."""

    def keep(sample: Any, variance: Any, known: Any, rng: Any, *, by_folds: bool) -> Analysis:
        samples[:] = [(sample, known, by_folds)]
        return analyse(sample, variance.roots, known, rng, by_folds=by_folds)

    engine.analyse = keep
    try:
        yield
    finally:
        engine.analyse = analyse


def measure(cell: Cell, replications: int) -> list[Record]:
    """All methods of a cell; a failure is told and leaves the others alone."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    found = []
    for design, of_design in methods(cell).items():
        try:
            found += _measure(cell, design, of_design, replications)
        except cs.ControlShapError as error:
            found += [{"variance": name, "failed": type(error).__name__} for name in of_design]
        except Exception:  # noqa: BLE001
            print(f"FAILED {cell.name}\n{traceback.format_exc()}", flush=True)
    seconds = time.perf_counter() - start
    head = {"cell": cell.name, "replications": replications, "seconds": seconds}
    return [head | vars(cell) | record for record in found]


def _measure(cell: Cell, design: str, of_design: dict[str, Any], replications: int) -> list[Record]:
    truth = find_truth(cell.model, cell.features, CACHE)
    rows, _ = rows_and_background(cell.features)
    explainer = make_explainer(cell, variance=cs.Grouped() if design == "grouped" else "auto")
    if [list(columns) for columns in explainer.players.columns] != PLAYERS:
        raise RuntimeError("Players are not in the order that the truth has.")
    goal = _goal(cell.stop)
    tallies = {name: Tally(truth) for name in of_design}
    samples: list[tuple[Any, ...]] = []
    failed: dict[str, str] = {}
    with captured(samples):
        for number in range(replications):
            row = number % len(rows)
            run = explainer(rows[row], budget=cell.budget, rng=number, keep=False, **goal)
            for name, variance in of_design.items():
                if name in failed:
                    continue
                try:
                    tallies[name].add(row, run if variance is None else _analysed(run, variance, samples[0], number))
                except cs.ControlShapError as error:  # refused, so all of its runs are
                    failed[name] = type(error).__name__
    refused = [{"variance": name, "failed": reason} for name, reason in failed.items()]
    return [{"variance": name} | tally.record() for name, tally in tallies.items() if name not in failed] + refused


def _goal(stop: str) -> dict[str, Any]:
    if not stop:
        return {}
    kind, _, value = stop.partition(" ")
    return {"tolerance": float(value)} if kind == "tolerance" else {"stop": stop, "level": LEVEL}


def _analysed(run: cs.Explanation, variance: Any, sample: tuple[Any, ...], seed: int) -> cs.Explanation:
    """The run as another variance method sees it."""
    from dataclasses import replace

    taken, known, by_folds = sample
    found = analyse(taken, variance.roots, known, np.random.default_rng(seed), by_folds=by_folds).controlled
    return replace(
        run,
        values=found.values[None, :-1, 0],
        standard_errors=np.sqrt(found.variances[None, :-1, 0]),
        degrees_of_freedom=found.dof[None, :-1, 0],
        covariance=found.covariances[:1, :-1, :-1],
    )


def read_records(file: Path, replications: int) -> dict[tuple[str, str], Record]:
    """What was measured before; a later line replaces an earlier one."""
    if not file.is_file():
        return {}
    records = [json.loads(line) for line in file.read_text().splitlines()]
    return {(r["cell"], r["variance"]): r for r in records if r["replications"] == replications}


def main() -> None:
    """Measure what is missing, then write table and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--only", default="", help="cells whose name matches this expression")
    parser.add_argument("--fresh", nargs="?", const=".", help="measure again (cells that match an expression)")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # read by the processes, which do all the work
    CACHE.mkdir(exist_ok=True)
    file = CACHE / "calibration.jsonl"
    known = read_records(file, arguments.replications)
    chosen = [cell for cell in cells() if re.search(arguments.only, cell.name)]
    done = {name for name, _ in known}
    fresh = arguments.fresh
    todo = [c for c in chosen if c.name not in done or (fresh and re.search(fresh, c.name))]
    peers = [p for p in calibration_peers.available() if p not in done or (fresh and re.search(fresh, p))]
    tasks = [partial(measure, cell, arguments.replications) for cell in todo]
    if not arguments.only:
        tasks = [partial(calibration_peers.measure, peer, arguments.replications, CACHE) for peer in peers] + tasks
    start = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        for number, records in enumerate(pool.imap(_run, [] if arguments.report else tasks), start=1):
            with file.open("a") as out:
                out.writelines(json.dumps(record) + "\n" for record in records)
            known |= {(record["cell"], record["variance"]): record for record in records}
            told = "; ".join(f"{r['variance']} {r.get('coverage') or 0:.3f} {r.get('ratio') or 0:.2f}" for r in records)
            name = records[0]["cell"] if records else "nothing"
            print(f"{number}/{len(tasks)}, {time.perf_counter() - start:.0f} s: {name}: {told}", flush=True)
    wanted = {cell.name for cell in chosen} | set(calibration_peers.available())
    found = [record for (name, _), record in known.items() if name in wanted]
    missing = [cell.name for cell in chosen if cell.name not in {name for name, _ in known}]
    calibration_report.write(found, missing, arguments.replications, publish=not arguments.only)


def _run(task: Any) -> list[Record]:
    found: list[Record] = task()
    return found


if __name__ == "__main__":
    main()
