"""What columns that few background rows differ in do to a fitted control, and to errors.

    python benchmarks/rare_rows.py [--replications 300] [--only ridge|device|data] [--data FOLDER]

Replications of one row against enumerated values. Two of six columns are 1 in 2 % and in 0.8 % of 800 background rows,
and 0 in the row that is explained. The same on `device="cpu"` beside the usual path. Then rows of the paper's one-hot
data against exact values. Written to results/rare_rows.md; `--only` writes one of the three tables anew.
"""

from __future__ import annotations

import argparse
import re
import warnings
from pathlib import Path

import numpy as np
import paper_data

import controlshap as cs
from controlshap.statistics import analysis, coefficients, crossfit
from controlshap.testing import marginal_game, shapley_by_definition
from controlshap_paper.models import make_model

RESULTS = Path(__file__).resolve().parent / "results"
N_ROWS, SHARES = 800, (0.02, 0.008)
#: Of each data set, to be explained.
ROWS = 40
X = np.array([0.3, -0.2, 0.5, 0.1, 0.0, 0.0])
#: Without bounds on corrections to a prior, and with the library's.
BOUNDS = {"no": (1e9, 1e9), "yes": (coefficients.MOST_CORRECTION, crossfit.OF_NORMAL)}

ABOUT = """\
# Rare columns and a fitted control

`python benchmarks/rare_rows.py`: {n} replications of one row, pairs of walks, `control="ridge"`, {n_rows} background
rows. Two of six columns are 1 in 2 % and in 0.8 % of these and 0 in the row explained.

- bounded: corrections to the coefficient's prior as in the library, or without bounds;
- gain: variance without control over that with it, all values together;
- reported / observed: errors of all values together;
- worse: explanations whose reported error is larger than without control;
- coverage of 95 % intervals, %: columns that are not rare, then the rare ones, with how many walks met a 1 on average.

| walks | bounded | gain | reported / observed | worse, % | coverage | 2 % | 0.8 % |
|---|---|---|---|---|---|---|---|
"""

ABOUT_DEVICE = """
## On a device

{n} replications of the same row with the model as a torch module, pairs of walks: row by row, and all at once with
`device="cpu"`. Coverage of 95 % intervals, %: columns that are not rare, then the rare ones; reported over observed
errors of all values together.

| evaluations | control | path | coverage | 2 % | 0.8 % | reported / observed |
|---|---|---|---|---|---|---|
"""

ABOUT_DATA = """
## One-hot data

Logistic regressions as bare callables, {n} rows 5 times each against exact values, 2,000 background rows, pairs of
walks. Coverage of 95 % intervals, all players together and the lowest of a player, and reported over observed errors
(root mean squares): by the units alone, and as the library reports them, with what the units have not met.

| data | evaluations | control | units alone | lowest | reported / observed | all | lowest | reported / observed |
|---|---|---|---|---|---|---|---|---|
"""


def background():
    """Four normal columns and two rare ones."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(N_ROWS, 6))
    for column, share in zip((4, 5), SHARES, strict=True):
        rows[:, column] = rng.random(N_ROWS) < share
    return rows


def model(rows):
    """A probability in which the rare columns interact with others."""
    score = 2.5 * rows[:, 0] - 1.5 * rows[:, 1] + rows[:, 2] * rows[:, 3] - 2.0
    score = score + 3.0 * rows[:, 4] * (1.0 + rows[:, 1]) - 4.0 * rows[:, 5] * rows[:, 0]
    return 1.0 / (1.0 + np.exp(-score))


def measured(rows, truth, n_walks, bounded, n):
    """A line of the table."""
    coefficients.MOST_CORRECTION, crossfit.OF_NORMAL = BOUNDS[bounded]
    explainer = cs.Explainer(model, rows, estimator="permutation", control="ridge")
    found = explainer(np.tile(X, (n, 1)), budget=1 + n_walks * 10, rng=1)
    variance = found.values.var(axis=0, ddof=1)
    gain = found.uncontrolled_values.var(axis=0, ddof=1).sum() / variance.sum()
    told = (found.standard_errors**2).sum(axis=1)
    worse = (told > (found.uncontrolled_standard_errors**2).sum(axis=1)).mean()
    low, high = found.confidence_interval(0.95)
    inside = 100 * ((low <= truth) & (truth <= high)).mean(axis=0)
    met = [n_walks * share for share in rows[:, 4:].mean(axis=0)]
    cells = [f"{n_walks}", bounded, f"{gain:.2g}", f"{np.sqrt(told.mean() / variance.sum()):.2f}", f"{100 * worse:.0f}"]
    cells += [f"{inside[:4].min():.0f} to {inside[:4].max():.0f}"]
    cells += [f"{inside[4 + k]:.0f} ({met[k]:.1f})" for k in range(2)]
    return "| " + " | ".join(cells) + " |"


def on_device(rows, truth, n):
    """Lines of the table of paths."""
    import torch

    class Module(torch.nn.Module):
        def forward(self, r):
            score = 2.5 * r[:, 0] - 1.5 * r[:, 1] + r[:, 2] * r[:, 3] - 2.0
            return torch.sigmoid(score + 3.0 * r[:, 4] * (1.0 + r[:, 1]) - 4.0 * r[:, 5] * r[:, 0])

    module = Module().double()
    for budget in (200, 500, 2000):
        for control in ("none", "taylor"):
            explainer = cs.Explainer(module, rows, estimator="permutation", control=control)
            for path, device in (("row by row", None), ("device", "cpu")):
                found = explainer(np.tile(X, (n, 1)), budget=budget, rng=1, device=device, keep=False)
                assert ("device" in found.settings) == (device is not None)
                low, high = found.confidence_interval(0.95)
                inside = 100 * ((low <= truth) & (truth <= high)).mean(axis=0)
                reported = (found.standard_errors**2).sum(axis=1).mean()
                observed = ((found.values - truth) ** 2).sum(axis=1).mean()
                cells = [f"{budget:,}", control, path, f"{inside[:4].min():.0f} to {inside[:4].max():.0f}"]
                cells += [f"{part:.0f}" for part in inside[4:]] + [f"{np.sqrt(reported / observed):.2f}"]
                yield "| " + " | ".join(cells) + " |"


def on_data(folder, n):
    """Lines of the second table."""
    whole = analysis.allow_for_jump
    for name in ("bank", "census"):
        data = paper_data.load(name, folder)
        fitted = make_model("logistic", data, folder)
        common = {"groups": data.several, "max_background": 2000}
        rows = data.X_test[:n]
        truth = cs.Explainer(fitted, data.X_train, **common)(rows, rng=0).values
        for budget in (500, 2000):
            for control in ("none", "auto"):
                explainer = cs.Explainer(
                    lambda rows, fitted=fitted: fitted.predict_proba(rows)[:, 1], data.X_train, control=control,
                    estimator="permutation", seconds_per_evaluation=1e-6, **common,
                )  # fmt: skip
                cells = [name, f"{budget:,}", control]
                for allow in (lambda estimate, *_: estimate, whole):
                    analysis.allow_for_jump = allow
                    found = [explainer(rows, budget=budget, rng=k, keep=False) for k in range(5)]
                    inside = [(low <= truth) & (truth <= high) for low, high in map(interval, found)]
                    of_player = 100 * np.mean(inside, axis=(0, 1))
                    told = np.mean([one.standard_errors**2 for one in found])
                    observed = np.mean([(one.values - truth) ** 2 for one in found])
                    cells += [f"{of_player.mean():.0f}", f"{of_player.min():.0f}", f"{np.sqrt(told / observed):.2f}"]
                print("| " + " | ".join(cells) + " |", flush=True)
                yield "| " + " | ".join(cells) + " |"


def interval(explanation):
    """At 95 %, and rounding."""
    low, high = explanation.confidence_interval(0.95)
    return low - 1e-12, high + 1e-12


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=300)
    parser.add_argument("--only", choices=["ridge", "device", "data"])
    paper_data.add_data_argument(parser)
    arguments = parser.parse_args()
    n = arguments.replications
    warnings.simplefilter("ignore")
    rows = background()
    truth = np.ravel(shapley_by_definition(marginal_game(model, X, rows, [[j] for j in range(6)]), 6))

    def with_ridge():
        yield from (measured(rows, truth, n_walks, bounded, n) for n_walks in (80, 200, 600) for bounded in BOUNDS)
        coefficients.MOST_CORRECTION, crossfit.OF_NORMAL = BOUNDS["yes"]

    tables = {
        "ridge": lambda: [*ABOUT.format(n=n, n_rows=N_ROWS).splitlines(), *with_ridge()],
        "device": lambda: [*ABOUT_DEVICE.format(n=n).splitlines(), *on_device(rows, truth, n)],
        "data": lambda: [
            *ABOUT_DATA.format(n=ROWS).splitlines(),
            *on_data(paper_data.data_folder(arguments.data), ROWS),
        ],
    }
    file = RESULTS / "rare_rows.md"
    # the tables in their order, each up to the heading of the next
    texts = re.split(r"(?m)^(?=\n## )", file.read_text())
    for place, (name, make) in enumerate(tables.items()):
        if arguments.only in (None, name):
            texts[place : place + 1] = ["\n".join(make()) + "\n"]
            print(texts[place], flush=True)
    file.write_text("".join(texts))


if __name__ == "__main__":
    main()
