"""Error of other explainers over ours at equal model evaluations: every model, budget, background and peer.

    python3 dev.py peers                                     once: makes .venv-peers (Python 3.12)
    .venv-peers/bin/python benchmarks/efficiency.py --jobs 2
    .venv-peers/bin/python benchmarks/efficiency.py --quick --only "tanh credit"

Models are bare callables (`efficiency_cases.py`), peers are functions of one signature (`efficiency_peers.py`), errors
are mean squares over players against exact values or a long run (`efficiency_truth.py`). Finished work is kept in
benchmarks/.cache and not done again; `--fresh` measures everything again, `--fresh ours` the contenders that match;
`--finished` leaves out cells that are not complete yet.
Writes results/efficiency.md, .csv and .png (`efficiency_report.py`, `efficiency_plot.py`), with `--quick` or `--only`
into the cache instead, but for `--publish` (results/efficiency_kinds.md says how it was made).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import shlex
import sys
import time
import traceback
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import efficiency_report
import numpy as np
import paper_data
from efficiency_cases import Case, Cell, cells, make_case
from efficiency_peers import KERNEL, OURS, PEERS, PLAIN, THOROUGH, Counter, Peer, splits
from efficiency_truth import Truth, find_truth

import controlshap as cs

CACHE = Path(__file__).resolve().parent / ".cache"
#: Cells in which control="thorough" is measured as well: it takes seconds for each explanation.
SLOW = ("tanh brca", "tanh census", "forest simulated", "svr diabetes", "relu friedman")
Record = dict[str, Any]
Task = tuple[Cell, str]


def contenders(cell: Cell, *, thorough: bool) -> list[str]:
    """Who is measured in a cell; our estimate without control comes with ours."""
    if cell.correlated:
        return [OURS, KERNEL]
    slow = thorough and cell.case in SLOW and cell.budget == 10_000 and cell.n_background == 100
    return [OURS, *([THOROUGH] if slow else []), *PEERS]


def measure(task: Task, size: tuple[int, int], folder: str | None) -> list[Record]:
    """Errors of one contender in one cell; a failure is told and leaves the others alone."""
    warnings.simplefilter("ignore")
    try:
        return _measure(task, size, folder)
    except Exception:  # noqa: BLE001
        print(f"FAILED {task[0].name}: {task[1]}\n{traceback.format_exc()}", flush=True)
        return []


def _measure(task: Task, size: tuple[int, int], folder: str | None) -> list[Record]:
    cell, contender = task
    n_rows, n_seeds = size
    case = make_case(cell.case, folder)
    head: Record = {"cell": cell.name, "contender": contender, "rows": n_rows, "seeds": n_seeds}
    if cell.correlated:
        return _measure_correlated(head, cell, case)
    truth = find_truth(case, cell.case, cell.n_background, n_rows, CACHE)
    head |= {"scale": np.abs(truth.values).max(axis=1).tolist(), "truth": truth.kind}
    head["truth_errors"] = truth.errors.tolist()
    if contender == OURS:
        return _measure_ours(head, cell, case, truth, "auto")
    if contender == THOROUGH:
        return _measure_ours(head, cell, case, truth, "thorough")[:1]
    return [_measure_peer(head, cell, case, truth)]


def _measure_ours(head: Record, cell: Cell, case: Case, truth: Truth, control: str) -> list[Record]:
    """Ours with everything else left to "auto", and the values without control of the same runs."""
    background = case.background(cell.n_background)
    explainer = cs.Explainer(case.model, background, groups=case.groups, control=control)
    start = time.perf_counter()
    runs = [
        explainer(np.tile(x, (head["seeds"], 1)), budget=cell.budget, rng=1) for x in case.rows[: head["rows"]]
    ]  # fmt: skip
    seconds = (time.perf_counter() - start) / (head["rows"] * head["seeds"])
    errors = [((run.values - values) ** 2).mean(axis=1) for run, values in zip(runs, truth.values, strict=True)]
    plain = [((r.uncontrolled_values - values) ** 2).mean(axis=1) for r, values in zip(runs, truth.values, strict=True)]
    mixed = background[np.random.default_rng(0).integers(0, len(background), cell.budget)]
    head |= {
        "seconds": seconds,
        "model_seconds": _seconds(partial(case.model, mixed)),
        "evaluations": float(np.mean([run.n_evaluations.mean() for run in runs])),
        "method": sorted({str(method) for run in runs for method in run.method}),
        "calibration": _calibration(runs, truth),
    }
    return [
        {**head, "errors": {"": np.array(errors).tolist()}},
        {**head, "contender": PLAIN, "errors": {"": np.array(plain).tolist()}},
    ]


def _calibration(runs: list[cs.Explanation], truth: Truth) -> float | None:
    """Median over rows and players of reported over observed standard error; None where all is exact."""
    ratios: list[float] = []
    for run, values in zip(runs, truth.values, strict=True):
        observed = np.sqrt(((run.values - values) ** 2).mean(axis=0))
        known = observed > efficiency_report.ROUNDING * np.abs(values).max()
        ratios += (np.sqrt((run.standard_errors**2).mean(axis=0))[known] / observed[known]).tolist()
    return float(np.median(ratios)) if ratios else None


def _measure_peer(head: Record, cell: Cell, case: Case, truth: Truth) -> Record:
    """A peer with every setting and split of the budget; which of them is best, the report sees."""
    background = case.background(cell.n_background)
    errors, seconds, evaluations = {}, {}, {}
    for setting, peer in PEERS[head["contender"]].items():
        for n in splits(cell.budget, cell.n_background, len(case.players)):
            counter = Counter(case.model)
            start = time.perf_counter()
            found = _replicate(peer, counter, background, n, case, cell.budget, truth, head["seeds"])
            if found is None:
                continue
            name = f"{setting} {n} rows".strip()
            errors[name] = found
            n_runs = len(found) * len(found[0])
            seconds[name] = (time.perf_counter() - start) / n_runs
            evaluations[name] = counter.n_rows / n_runs
    return {**head, "errors": errors, "seconds": seconds, "evaluations": evaluations}


def _replicate(
    peer: Peer, model: Counter, background: np.ndarray, n: int, case: Case, budget: int, truth: Truth, n_seeds: int
) -> list[list[float]] | None:
    """Errors `(rows, seeds)`; None where the budget is too small for the peer."""
    errors: list[list[float]] = []
    for x, exact in zip(case.rows, truth.values, strict=False):
        errors.append([])
        for seed in range(n_seeds):
            part = background[np.random.default_rng(seed).permutation(len(background))[:n]]
            try:
                values = peer(model, part, x, case.players, budget, seed)
            except (ValueError, np.linalg.LinAlgError):
                return None  # too few coalitions for it
            if values is None or not np.isfinite(values).all():
                return None
            errors[-1].append(float(((values - exact) ** 2).mean()))
    return errors


def _measure_correlated(head: Record, cell: Cell, case: Case) -> list[Record]:
    """Variances over seeds: ours, or KernelSHAP of 10 draws per coalition without control."""
    settings: dict[str, Any] = {"features": "correlated", "groups": case.groups}
    if head["contender"] == KERNEL:
        settings |= {"estimator": cs.Kernel(n_draws=10), "control": "none"}
    explainer = cs.Explainer(case.model, case.pool, **settings)
    explainer(case.rows[:1], budget=cell.budget, rng=0)  # what is computed once for an explainer
    start = time.perf_counter()
    runs = [
        explainer(np.tile(x, (head["seeds"], 1)), budget=cell.budget, rng=1) for x in case.rows[: head["rows"]]
    ]  # fmt: skip
    head["seconds"] = (time.perf_counter() - start) / (head["rows"] * head["seeds"])
    head["scale"] = [float(np.abs(run.values).max()) for run in runs]
    head["truth"], head["truth_errors"] = "variance over seeds", [0.0] * len(runs)
    head["evaluations"] = float(np.mean([run.n_evaluations.mean() for run in runs]))
    head["means"] = [run.values.mean(axis=0).tolist() for run in runs]
    head["mean_variances"] = [(run.values.var(axis=0, ddof=1) / len(run)).tolist() for run in runs]
    found = [{**head, "errors": {"": [_squares(run.values) for run in runs]}}]
    if head["contender"] == OURS:
        ratios = [np.sqrt((r.standard_errors**2).mean(axis=0)) / r.values.std(axis=0, ddof=1) for r in runs]
        mixed = case.pool[np.random.default_rng(0).integers(0, len(case.pool), cell.budget)]
        found[0] |= {
            "model_seconds": _seconds(partial(case.model, mixed)),
            "method": sorted({str(method) for run in runs for method in run.method}),
            "calibration": float(np.median(ratios)),
        }
        plain = {"": [_squares(run.uncontrolled_values) for run in runs]}
        found.append({**head, "contender": PLAIN, "errors": plain})
    return found


def _squares(values: np.ndarray) -> list[float]:
    """Squared distances of runs from their mean, so scaled that they average to the variance."""
    n = len(values)
    return (((values - values.mean(axis=0)) ** 2).mean(axis=1) * n / (n - 1)).tolist()


def _seconds(call: Any) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def read_records(file: Path) -> dict[tuple[str, str, int, int], Record]:
    """What was measured before; a later line replaces an earlier one."""
    if not file.is_file():
        return {}
    records = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
    return {(r["cell"], r["contender"], r["rows"], r["seeds"]): r for r in records}


def _truth_task(item: tuple[str, int], n_rows: int, folder: str | None) -> None:
    warnings.simplefilter("ignore")
    name, n_background = item
    find_truth(make_case(name, folder), name, n_background, n_rows, CACHE)


def main() -> None:
    """Measure what is missing, then write table and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    paper_data.add_data_argument(parser)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--rows", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="2 rows and 3 seeds")
    parser.add_argument("--only", default="", help="cells whose name matches this expression")
    parser.add_argument("--publish", metavar="NAME", help="write results/NAME.md and .csv, also of some cells")
    parser.add_argument("--thorough", action="store_true", help='control="thorough", too, in some cells: takes long')
    parser.add_argument("--finished", action="store_true", help="leave out cells that some peer still lacks")
    parser.add_argument("--fresh", nargs="?", const=".", help="measure again (contenders that match an expression)")
    arguments = parser.parse_args()
    size = (2, 3) if arguments.quick else (arguments.rows, arguments.seeds)
    command = " ".join(["benchmarks/efficiency.py", *map(shlex.quote, sys.argv[1:])])
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # read by the processes, which do all the work
    CACHE.mkdir(exist_ok=True)
    file = CACHE / "efficiency.jsonl"
    chosen = [cell for cell in cells() if re.search(arguments.only, cell.name)]
    known = read_records(file)
    if arguments.finished:
        others = {cell.name: [c for c in contenders(cell, thorough=False) if c != OURS] for cell in chosen}
        chosen = [cell for cell in chosen if all((cell.name, other, *size) in known for other in others[cell.name])]
    tasks = [
        (cell, contender)
        for cell in chosen
        for contender in contenders(cell, thorough=arguments.thorough)
        if (arguments.fresh and re.search(arguments.fresh, contender))
        or (cell.name, contender, *size) not in known
    ]  # fmt: skip
    tasks.sort(key=lambda task: task[1] == THOROUGH)  # the slowest last
    truths = sorted({(cell.case, cell.n_background) for cell, _ in tasks if not cell.correlated})
    start = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        for _ in pool.imap_unordered(partial(_truth_task, n_rows=size[0], folder=arguments.data), truths):
            pass
        print(f"{len(truths)} truths, {time.perf_counter() - start:.0f} s; {len(tasks)} tasks", flush=True)
        run = partial(measure, size=size, folder=arguments.data)
        for done, records in enumerate(pool.imap_unordered(run, tasks), start=1):
            with file.open("a") as out:
                out.writelines(json.dumps(record) + "\n" for record in records)
            for record in records:
                known[record["cell"], record["contender"], *size] = record
                line = f"{record['cell']}: {record['contender']}"
                print(f"{done}/{len(tasks)}, {time.perf_counter() - start:.0f} s: {line}", flush=True)
    found = {key[:2]: record for key, record in known.items() if key[2:] == size}
    name = arguments.publish or (None if arguments.quick or arguments.only else "efficiency")
    efficiency_report.write(chosen, found, size, name, command)


if __name__ == "__main__":
    main()
