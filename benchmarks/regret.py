"""Regret of "auto": its mean squared error over that of the best of our own designs, on models of many kinds.

    python benchmarks/regret.py [--quick] [--only EXPRESSION] [--rows 2] [--seeds 5]

22 models (`efficiency_kinds.py`), 100 background rows, 500 to 10,000 evaluations. Designs are asked for by name and the
control is left to "auto"; the best is taken with hindsight from the same runs, so that noise raises every figure (10
runs of a cell: by about 30 %). Coverage is that of 95 % intervals, over players that matter. Truth is exact (trees, all
coalitions) or a long run, and is kept in benchmarks/.cache. `--quick` takes 3 minutes where truth is known. Writes
results/regret.md, but for `--quick` and `--only`.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from pathlib import Path

import numpy as np
from efficiency_cases import Case, kind_case
from efficiency_kinds import HELD_BACK, TUNED
from efficiency_truth import find_truth

import controlshap as cs

HERE = Path(__file__).resolve().parent
N_BACKGROUND, BUDGETS = 100, (500, 2000, 10_000)
#: Values below this share of the largest are not asked for coverage: their errors are rounding or nothing.
MATTERS = 1e-3


def designs(n_background: int) -> dict[str, dict]:
    """Our own designs, by name."""
    return {
        "auto": {},
        "single walks": {"estimator": cs.Permutation(paired=False)},
        "pairs of walks": {"estimator": cs.Permutation()},
        "KernelSHAP, one row": {"estimator": cs.Kernel()},
        "KernelSHAP, all rows": {
            "estimator": cs.Kernel(n_draws=n_background, reuse=True),
            "control": [cs.CoalitionProcess(), cs.CoalitionProcess(start=None)],
        },
    }  # fmt: skip


def measure(
    case: Case, truth: np.ndarray, budget: int, settings: dict, n_seeds: int
) -> tuple[float, float, str] | None:
    """Mean squared error, coverage and method; None where the budget does not suffice."""
    explainer = cs.Explainer(case.model, case.background(N_BACKGROUND), **settings)
    errors, inside, methods = [], [], set()
    for x, values in zip(case.rows, truth, strict=False):
        try:
            found = explainer(np.tile(x, (n_seeds, 1)), budget=budget, rng=1)
        except (cs.BudgetTooSmallError, cs.SingularSystemError):
            return None
        errors.append(((found.values - values) ** 2).mean())
        low, high = found.confidence_interval(0.95)
        matters = np.abs(values) > MATTERS * np.abs(values).max()
        inside.append(((low <= values) & (values <= high))[:, matters].mean())
        methods |= set(found.method)
    return float(np.mean(errors)), float(np.mean(inside)), ", ".join(sorted(methods))


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="500 and 2,000 evaluations, 3 seeds")
    parser.add_argument("--only", default="", help="cells ('relu 12, 2000') that match this expression")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds, budgets = (3, BUDGETS[:2]) if arguments.quick else (arguments.seeds, BUDGETS)
    columns = list(designs(N_BACKGROUND))
    size = f"{arguments.rows} rows x {seeds} seeds, {N_BACKGROUND} background rows"
    lines = [
        "# Regret",
        "",
        f"`python benchmarks/regret.py`: {size}. Mean squared error over the smallest of the line, and in brackets the",
        f"coverage of 95 % intervals in %. The first {len(HELD_BACK)} kinds were held back while the rules were set.",
        "",
        f"| kind, players | evaluations | {' | '.join(columns)} | auto took |",
        "|---" * (len(columns) + 3) + "|",
    ]
    regrets: dict[bool, list[float]] = {True: [], False: []}
    start = time.perf_counter()
    for name in (*HELD_BACK, *TUNED):
        wanted = [budget for budget in budgets if re.search(arguments.only, f"{name}, {budget}")]
        if not wanted:
            continue
        case = kind_case(name)
        truth = find_truth(case, f"kind {name}", N_BACKGROUND, arguments.rows, HERE / ".cache").values
        for budget in wanted:
            found = {n: measure(case, truth, budget, s, seeds) for n, s in designs(N_BACKGROUND).items()}
            least = min(cell[0] for cell in found.values() if cell is not None)
            cells = ["" if c is None else f"{c[0] / max(least, 1e-300):.2f} ({100 * c[1]:.0f})" for c in found.values()]
            took = found["auto"][2] if found["auto"] is not None else ""
            regrets[name in HELD_BACK].append(found["auto"][0] / max(least, 1e-300) if found["auto"] else np.nan)
            lines.append(f"| {name} | {budget:,} | {' | '.join(cells)} | {took} |")
            print(f"{time.perf_counter() - start:4.0f} s {lines[-1]}", flush=True)
    lines.append("")
    for held, values in regrets.items():
        if values:
            many = f"{np.median(values):.2f}, 90 % {np.quantile(values, 0.9):.2f}, largest {max(values):.1f}"
            over = f"over 1.5 in {sum(v > 1.5 for v in values)} of {len(values)} cells"
            lines.append(f"{'Held back' if held else 'Looked at'}: regret of auto in the median {many}; {over}.")
    text = "\n".join(lines) + "\n"
    print(text)
    if not arguments.only and not arguments.quick:
        (HERE / "results" / "regret.md").write_text(text)


if __name__ == "__main__":
    main()
