"""Known values that are simulated: what the shortcuts save, and what they cost in error.

    python benchmarks/known_values.py [--data FOLDER] [--budget 10000] [--rows 8]

Correlated features, more players than are enumerated, defaults. Writes results/known_values.md; its first table alone
with `--only shortcuts`, its second with `--only budgets`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import paper_data

import controlshap as cs
from controlshap.crossfitting import known_gaussian, known_simulated, network_walks
from controlshap.crossfitting.known_gaussian import GaussianControls
from controlshap_paper.models import NAMES, make_model

RESULTS = Path(__file__).resolve().parent / "results"
#: Every permutation for every function, and the defaults: one in so many comes first, and so many for a difference.
SETTINGS = {"all": (1, 1), "default": (known_simulated.FIRST, network_walks.FOLLOWED)}
BUDGETS = (10_000, 40_000, 160_000, 640_000)
TITLE_OF_BUDGETS = "## Errors by budget"


def measure(explainer: cs.Explainer, rows, budget: int, known: list[float]) -> tuple[float, float, float]:
    """Seconds a row, mean square of the standard errors, and of the known values' errors."""
    explainer(rows[:1], budget=budget, rng=0, keep=False)
    known.clear()
    began = time.perf_counter()
    explanation = explainer(rows, budget=budget, rng=1, keep=False)
    seconds = (time.perf_counter() - began) / len(rows)
    return seconds, float((explanation.standard_errors**2).mean()), float(np.mean(known))


def by_shortcut(folder, budget: int, n_rows: int) -> list[str]:
    """Every permutation for every function, and the default."""
    known: list[float] = []
    original = GaussianControls.roots

    def watched(reference: GaussianControls, n_controls: int):
        roots = original(reference, n_controls)
        known.append(float((roots.rows[:, :-1] ** 2).sum(axis=0).max(axis=-1).mean()))
        return roots

    GaussianControls.roots = watched  # type: ignore[method-assign]
    lines = [
        "# Known values that are simulated",
        "",
        f"`python benchmarks/known_values.py`: correlated features, {budget:,} evaluations, "
        f"{n_rows} rows, defaults. Time of a row when the known values of every fold's function are simulated "
        "from all permutations, over that with the default (differences from the first fold's, and no more "
        "permutations than needed); the standard error with the default over that with all; and the share of the "
        "variance that the error of known values has, with all and with the default (over 100 %: what closes the sum "
        "takes some of it away again).",
        "",
        "| model | data | players | time, all / default | standard error, default / all "
        "| share, all | share, default |",
        "|---|---|---|---|---|---|---|",
    ]
    for model_name in NAMES:
        for name in ("bank", "brca", "credit"):
            data = paper_data.load(name, folder)
            model = make_model(model_name, data, folder)
            encoded = model_name == "forest"
            background = data.encoded[data.train] if encoded else data.X_train
            rows = (data.encoded[data.test] if encoded else data.X_test)[:n_rows]
            explainer = cs.Explainer(
                model, background, features="correlated", groups=data.several, max_background=len(background),
                seconds_per_evaluation=1e-6,
            )  # fmt: skip
            found = {}
            for setting, (known_simulated.FIRST, network_walks.FOLLOWED) in SETTINGS.items():
                found[setting] = measure(explainer, rows, budget, known)
            every, default = found["all"], found["default"]
            shares = [f"{100 * of_known / variance:.2f} %" for _, variance, of_known in (every, default)]
            ratio = np.sqrt(default[1] / every[1])
            cells = [model_name, name, str(len(data.groups)), f"{every[0] / default[0]:.2f}", f"{ratio:.3f}", *shares]
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    return lines


def by_budget(folder, n_rows: int) -> list[str]:
    """Where the model is its fit: permutations that grow with the walks of the model, and as many at every budget."""
    data = paper_data.load("credit", folder)
    model = make_model("logistic", data, folder)
    explainer = cs.Explainer(
        model, data.X_train, features="correlated", groups=data.several, max_background=len(data.X_train),
        seconds_per_evaluation=1e-6,
    )  # fmt: skip
    lines = [
        TITLE_OF_BUDGETS,
        "",
        "`python benchmarks/known_values.py --only budgets`: logistic regression on credit, correlated features, "
        f"{n_rows} rows. Root mean square of the standard errors over that of 10,000 evaluations, when permutations "
        "grow with the walks of the model beyond 1,000 (the default), and when they do not; and the time of a row, "
        "the first over the second.",
        "",
        "| evaluations | standard error, growing | standard error, as many | time, growing / as many |",
        "|---|---|---|---|",
    ]
    many, first = known_gaussian.MANY_WALKS, 0.0
    explainer(data.X_test[:1], budget=BUDGETS[0], rng=0, keep=False)  # the first row has more to do
    for budget in BUDGETS:
        found = []
        for known_gaussian.MANY_WALKS in (many, np.inf):
            began = time.perf_counter()
            errors = explainer(data.X_test[:n_rows], budget=budget, rng=1, keep=False).standard_errors
            found.append((np.sqrt((errors**2).mean()), time.perf_counter() - began))
        known_gaussian.MANY_WALKS = many
        (growing, seconds), (fixed, others) = found
        first = first or fixed
        lines.append(f"| {budget:,} | {growing / first:.2f} | {fixed / first:.2f} | {seconds / others:.2f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    paper_data.add_data_argument(parser)
    parser.add_argument("--budget", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--only", choices=("shortcuts", "budgets"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = paper_data.data_folder(arguments.data)
    file = RESULTS / "known_values.md"
    stored = (file.read_text() if file.is_file() else "").partition(TITLE_OF_BUDGETS)
    first, second = stored[0].rstrip("\n"), "".join(stored[1:]).rstrip("\n")
    if arguments.only != "budgets":
        first = "\n".join(by_shortcut(folder, arguments.budget, arguments.rows))
    if arguments.only != "shortcuts":
        second = "\n".join(by_budget(folder, arguments.rows))
    RESULTS.mkdir(exist_ok=True)
    file.write_text(f"{first}\n\n{second}\n")


if __name__ == "__main__":
    main()
