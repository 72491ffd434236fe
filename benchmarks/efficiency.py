"""Mean squared error of shap's KernelExplainer over ours at equal model evaluations: the published tanh networks.

    python benchmarks/efficiency.py [--data FOLDER] [--rows 5] [--seeds 10]

Independent features, 100 background rows, bare callables (nothing is recognised). Truth is a run of 20 times 50,000
evaluations. shap gets its best split of coalitions and background rows at budgets below 10,000, chosen with hindsight.
Writes results/efficiency.md. The other peers, data and models of the full table are not here yet.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from pathlib import Path

import numpy as np
import paper_data
import shap
from shap.utils._legacy import DenseData

import controlshap as cs

RESULTS = Path(__file__).resolve().parent / "results"
N_BACKGROUND = 100
SPLITS = {500: (5, 10, 20, 50), 2000: (10, 20, 50, 100), 10_000: (100,)}
TARGETS = {
    ("credit", 500): 30, ("brca", 500): 60, ("census", 500): 20, ("credit", 2000): 50, ("brca", 2000): 120,
    ("census", 2000): 25, ("credit", 10_000): 150, ("brca", 10_000): 200, ("census", 10_000): 200,
    ("simulated", 10_000): 1000, ("bank", 10_000): 20,
}  # fmt: skip


def shap_error(network, background, data, x, truth, budget, seeds):
    """Smallest mean squared error over the splits of a budget."""
    place = {column: i for i, column in enumerate(data.columns)}
    groups = [np.array([place[c] for c in columns]) for columns in data.groups.values()]
    errors = []
    for n_rows in SPLITS[budget]:
        squares = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            rows = background[rng.permutation(N_BACKGROUND)[:n_rows]]
            np.random.seed(seed)  # noqa: NPY002 (shap draws from the global stream)
            explainer = shap.KernelExplainer(network, DenseData(rows, list(data.groups), groups))
            values = explainer.shap_values(x[None], nsamples=budget // n_rows, l1_reg=False, silent=True)[0]
            squares.append(((values - truth) ** 2).mean())
        errors.append(np.mean(squares))
    return min(errors)


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    paper_data.add_data_argument(parser)
    parser.add_argument("--rows", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("shap").setLevel(logging.ERROR)
    folder = paper_data.data_folder(arguments.data)
    lines = [
        "# Efficiency",
        "",
        f"`python benchmarks/efficiency.py`: {arguments.rows} rows x {arguments.seeds} seeds, shap {shap.__version__}, "
        "medians over rows of ratios of mean squared errors; above 1 we are better. The last column is the median of "
        "reported over observed standard error.",
        "",
        "| data | evaluations | shap / ours | target | no control / ours | ms a row | reported / observed |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in ("credit", "brca", "census", "simulated", "bank"):
        data, network = paper_data.load(name, folder), paper_data.load_network(name, folder)
        background = data.X_train[np.random.default_rng(0).permutation(len(data.X_train))[:N_BACKGROUND]]
        explainer = cs.Explainer(network, background, groups=data.several or None)
        rows = data.X_test[: arguments.rows]
        truths = [explainer(np.tile(x, (20, 1)), budget=50_000, rng=99).values.mean(axis=0) for x in rows]
        for budget in SPLITS:
            peer, plain, calibration, spent = [], [], [], []
            for x, truth in zip(rows, truths, strict=True):
                start = time.perf_counter()
                ours = explainer(np.tile(x, (arguments.seeds, 1)), budget=budget, rng=1)
                spent.append((time.perf_counter() - start) / arguments.seeds)
                error = ((ours.values - truth) ** 2).mean()
                plain.append(((ours.uncontrolled_values - truth) ** 2).mean() / error)
                peer.append(shap_error(network, background, data, x, truth, budget, arguments.seeds) / error)
                observed = np.sqrt(((ours.values - truth) ** 2).mean(axis=0))
                calibration.append(np.median(np.sqrt((ours.standard_errors**2).mean(axis=0)) / observed))
            target = TARGETS.get((name, budget), "")
            lines.append(
                f"| {name} | {budget:,} | {np.median(peer):.0f} | {target} | {np.median(plain):.1f} | "
                f"{1e3 * np.median(spent):.0f} | {np.median(calibration):.2f} |"
            )
            print(lines[-1], flush=True)
    text = "\n".join(lines) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "efficiency.md").write_text(text)


if __name__ == "__main__":
    main()
