"""Known values that are simulated: what the shortcuts save, and what they cost in error.

    python benchmarks/known_values.py [--data FOLDER] [--budget 10000] [--rows 8]

Correlated features, more players than are enumerated, defaults. Writes results/known_values.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import paper_data

import controlshap as cs
from controlshap.references import SimulatedReference
from controlshap.reproduce.models import NAMES, make_model
from controlshap.surrogates import simulated

RESULTS = Path(__file__).resolve().parent / "results"
#: Every permutation for every function, and the defaults: one in so many comes first, and so many for a difference.
SETTINGS = {"all": (1, 1), "default": (simulated.FIRST, simulated.FOLLOWED)}


def measure(explainer: cs.Explainer, rows, budget: int, known: list[float]) -> tuple[float, float, float]:
    """Seconds a row, mean square of the standard errors, and of the known values' errors."""
    explainer(rows[:1], budget=budget, rng=0, keep=False)
    known.clear()
    began = time.perf_counter()
    explanation = explainer(rows, budget=budget, rng=1, keep=False)
    seconds = (time.perf_counter() - began) / len(rows)
    return seconds, float((explanation.standard_errors**2).mean()), float(np.mean(known))


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    paper_data.add_data_argument(parser)
    parser.add_argument("--budget", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=8)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = paper_data.data_folder(arguments.data)
    known: list[float] = []
    original = SimulatedReference.roots

    def watched(reference: SimulatedReference, n_controls: int):
        roots = original(reference, n_controls)
        known.append(float((roots.rows[:, :-1] ** 2).sum(axis=0).max(axis=-1).mean()))
        return roots

    SimulatedReference.roots = watched  # type: ignore[method-assign]
    lines = [
        "# Known values that are simulated",
        "",
        f"`python benchmarks/known_values.py`: correlated features, {arguments.budget:,} evaluations, "
        f"{arguments.rows} rows, defaults. Time of a row when the known values of every fold's function are simulated "
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
            rows = (data.encoded[data.test] if encoded else data.X_test)[: arguments.rows]
            explainer = cs.Explainer(
                model, background, features="correlated", groups=data.several, max_background=len(background),
                seconds_per_evaluation=1e-6,
            )  # fmt: skip
            found = {}
            for setting, (simulated.FIRST, simulated.FOLLOWED) in SETTINGS.items():
                found[setting] = measure(explainer, rows, arguments.budget, known)
            every, default = found["all"], found["default"]
            shares = [f"{100 * of_known / variance:.2f} %" for _, variance, of_known in (every, default)]
            ratio = np.sqrt(default[1] / every[1])
            cells = [model_name, name, str(len(data.groups)), f"{every[0] / default[0]:.2f}", f"{ratio:.3f}", *shares]
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "known_values.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
