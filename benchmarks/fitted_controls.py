"""Controls on trial against the ridge alone: error, coverage and own time of "auto" with and without them.

    python benchmarks/fitted_controls.py [--only EXPRESSION] [--rows 2] [--seeds 4] [--budgets 500,2000,10000]

The 22 kinds of `efficiency_kinds.py` (the first half was looked at while the rule was set) and the ten of
`fitted_kinds.py`, 100 background rows. Both runs have the same seeds and design. Coverage is that of 95 %
intervals, over players that matter. Own time is processor time of an explanation less that of the model alone.
Writes results/fitted_controls.md, but for `--only`.

    python benchmarks/fitted_controls.py --trials [--only EXPRESSION] [--rows 2] [--budgets 500,2000,10000]

counts the trials that would have been decided otherwise with other rules of stopping them and other numbers of cuts,
and prints what trees leave where they stand their trial (over the first line), and the time.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
from efficiency_cases import kind_case
from efficiency_kinds import HELD_BACK, TUNED, make_kind
from efficiency_truth import find_truth
from fitted_kinds import NAMES, make_model

import controlshap as cs
from controlshap.controls import shallow_trees
from controlshap.controls.base import FoldedRows
from controlshap.crossfitting import fit
from controlshap.engine import choice

HERE = Path(__file__).resolve().parent
N_BACKGROUND = 100
#: Values below this share of the largest are not asked for coverage: their errors are rounding or nothing.
MATTERS = 1e-3


def problems(names: list[str], n_rows: int) -> Iterator[tuple[str, object, np.ndarray, np.ndarray, np.ndarray]]:
    """Name, model, background, rows and exact values (or those of a long run)."""
    for name in names:
        if name not in NAMES:
            case = kind_case(name)
            truth = find_truth(case, f"kind {name}", N_BACKGROUND, n_rows, HERE / ".cache").values
            yield name, case.model, case.background(N_BACKGROUND), case.rows[:n_rows], truth
            continue
        model, X = make_model(name)
        background, rows = X[:N_BACKGROUND], X[-n_rows:]
        file = HERE / ".cache" / f"truth fitted {name} {N_BACKGROUND} {n_rows}.npy"
        if not file.is_file():
            file.parent.mkdir(exist_ok=True)
            every = 1 + N_BACKGROUND * 2 ** X.shape[1]
            found = cs.Explainer(lambda some, model=model: model(some), background)(rows, budget=every, rng=0)
            assert (found.status == "exact").all()
            np.save(file, found.values)
        yield name, model, background, rows, np.load(file)


def measure(model: object, background: np.ndarray, rows: np.ndarray, truth: np.ndarray, budget: int, n_seeds: int):
    """Mean squared error, coverage, smallest coverage of a player, ratio of variances, own milliseconds, method."""
    explainer = cs.Explainer(model, background)
    errors, inside, said, seconds, methods = [], [], [], 0.0, set()
    for x, values in zip(rows, truth, strict=True):
        before = time.process_time()
        found = explainer(np.tile(x, (n_seeds, 1)), budget=budget, rng=1)
        seconds += time.process_time() - before
        before = time.process_time()
        model(np.tile(x, (budget, 1)))
        seconds -= n_seeds * (time.process_time() - before)
        errors.append(((found.values - values) ** 2).mean())
        said.append((found.standard_errors**2).mean())
        low, high = found.confidence_interval(0.95)
        matters = np.abs(values) > MATTERS * np.abs(values).max()
        inside.append(((low <= values) & (values <= high))[:, matters].mean())
        methods |= {part for method in found.method for part in method.split(" + ")[1:]}
    own = 1e3 * max(0.0, seconds) / (n_seeds * len(rows))
    extra = [name for name in ("Kernel", "Polynomial", "ShallowTrees") if name in methods]
    ratio = float(np.sqrt(np.mean(said) / np.mean(errors)))
    return float(np.mean(errors)), float(np.mean(inside)), ratio, own, ", ".join(extra)


def compare_trials(names: list[str], n_rows: int, budgets: list[int]) -> None:
    """Decisions of other rules of stopping a trial, and other numbers of cuts, on the evaluations of the same rows."""
    checks, cuts = shallow_trees.CHECKS, shallow_trees.MOST_CUTS
    rules = {f"rows {n}, to the end": (n, (), cuts) for n in (400, 300)}
    rules |= {f"rows 300, to the end, {n} cuts": (300, (), n) for n in (15, 31)}
    rules |= {f"rows {n}": (n, checks, cuts) for n in (400, 300, 200)}
    rules |= {"rows 300, 1.2 at half": (300, ((0.5, 1.2),), cuts), "rows 300, 1.0 at half": (300, ((0.5, 1.0),), cuts)}
    decided: dict[str, list[set[str]]] = {name: [] for name in rules}
    left: dict[str, list[float]] = {name: [] for name in rules}
    seconds = dict.fromkeys(rules, 0.0)
    keep = fit.keep_useful

    def try_all(learners, data, n_folds):
        if any(learner.on_trial for learner in learners):
            for name, (n_tried, of_trees, n_cuts) in rules.items():
                outputs = np.stack([one.outputs for one in data], axis=1)
                again = FoldedRows.of_outputs(data[0].rows, outputs, data[0].fold)
                began = time.process_time()
                other = mock.patch.multiple(shallow_trees, CHECKS=of_trees, MOST_CUTS=n_cuts)
                with mock.patch.multiple(fit, TRIAL_ROWS=n_tried), other:
                    decided[name].append({type(kept).__name__ for kept in keep(learners, again, n_folds)})
                seconds[name] += time.process_time() - began
                measured = [item for one in again for item in one.memo.items() if "leaves" in item[0]]
                shares = [share for key, share in measured if "ShallowTrees" in repr(key)]
                left[name].append(sum(shares) if shares else np.nan)
        return tuple(learner for learner in learners if not learner.on_trial)

    with mock.patch.object(fit, "keep_useful", try_all):
        for name in names:
            model, X = make_model(name) if name in NAMES else make_kind(name)[:2]
            for budget in budgets:
                cs.Explainer(lambda some, model=model: model(some), X[:N_BACKGROUND])(X[-n_rows:], budget=budget, rng=1)
    first = decided["rows 400, to the end"]
    columns = ["rule", "quadratic stands", "decided otherwise", "trees stand", "decided otherwise", "trees leave"]
    print(f"| {' | '.join(columns)} | ms a trial |")
    print("|---" * 7 + "|")
    stood = [number for number, one in enumerate(first) if "ShallowTrees" in one]
    for name, found in decided.items():
        cells = [name]
        for control in ("Polynomial", "ShallowTrees"):
            pairs = [(control in one, control in other) for one, other in zip(found, first, strict=True)]
            cells += [f"{sum(one for one, _ in pairs)}", f"{sum(one != other for one, other in pairs)}"]
        times = np.array(left[name])[stood] / np.array(left["rows 400, to the end"])[stood]
        cells.append(f"{np.exp(np.log(times).mean()):.2f}" if np.isfinite(times).all() else "-")
        print(f"| {' | '.join(cells)} | {1e3 * seconds[name] / len(found):.1f} |")


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--budgets", default="500,2000,10000")
    parser.add_argument("--only", default="", help="kinds whose name matches this expression")
    parser.add_argument("--trials", action="store_true", help="compare rules of stopping a trial; nothing is written")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    budgets = [int(budget) for budget in arguments.budgets.split(",")]
    names = [name for name in (*TUNED, *HELD_BACK, *NAMES) if re.search(arguments.only, name)]
    if arguments.trials:
        compare_trials(names, arguments.rows, budgets)
        return
    size = f"{arguments.rows} rows x {arguments.seeds} seeds, {N_BACKGROUND} background rows"
    columns = ["kind, players", "evaluations", "ridge over auto", "coverage, ridge", "auto"]
    columns += ["reported over observed, ridge", "auto", "ms, ridge", "auto", "kept"]
    lines = [
        "# Controls on trial",
        "",
        f"`python benchmarks/fitted_controls.py`: {size}. Mean squared error of the ridge alone over",
        'that of "auto", coverage of 95 % intervals in %, reported over observed error (root mean squares), own',
        "milliseconds a row, and what stood its trial in some run (Kernel: a pilot left the walks). The first",
        f"{len(TUNED)} kinds were looked at; the last {len(NAMES)} are of `fitted_kinds.py`.",
        "",
        f"| {' | '.join(columns)} |",
        "|---" * len(columns) + "|",
    ]
    gains: dict[str, list[float]] = {"Looked at": [], "Held back": [], "Further": []}
    by_budget: dict[int, list[tuple[float, float, float]]] = {budget: [] for budget in budgets}
    for name, model, background, rows, truth in problems(names, arguments.rows):
        kind = "Looked at" if name in TUNED else "Held back" if name in HELD_BACK else "Further"
        for budget in budgets:
            with mock.patch.object(choice, "choose_on_trial", return_value=()):
                old = measure(model, background, rows, truth, budget, arguments.seeds)
            new = measure(model, background, rows, truth, budget, arguments.seeds)
            gains[kind].append(old[0] / max(new[0], 1e-300))
            by_budget[budget].append((np.log(gains[kind][-1]), old[3], new[3]))
            cells = f"{gains[kind][-1]:.2f} | {100 * old[1]:.0f} | {100 * new[1]:.0f} | {old[2]:.2f} | {new[2]:.2f}"
            lines.append(f"| {name} | {budget:,} | {cells} | {old[3]:.0f} | {new[3]:.0f} | {new[4]} |")
            print(lines[-1], flush=True)
    lines.append("")
    for kind, values in gains.items():
        if values:
            low = f"smallest {min(values):.2f}, below 0.9 in {sum(v < 0.9 for v in values)} of {len(values)}"
            middle = f"in the geometric mean {np.exp(np.mean(np.log(values))):.2f}, median {np.median(values):.2f}"
            lines.append(f"{kind}: {middle}, largest {max(values):.1f}, {low}.")
    for budget, values in by_budget.items():
        gain, before, after = np.mean(values, axis=0)
        times = f"own milliseconds a row {before:.1f} with the ridge alone, {after:.1f} with trials"
        lines.append(f"{budget:,} evaluations: in the geometric mean {np.exp(gain):.2f}, {times}.")
    text = "\n".join(lines) + "\n"
    print(text)
    if not arguments.only:
        (HERE / "results" / "fitted_controls.md").write_text(text)


if __name__ == "__main__":
    main()
