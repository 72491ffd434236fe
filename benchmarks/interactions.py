"""Interactions against enumeration: coverage of intervals, what controls leave, peers at equal evaluations.

    python benchmarks/interactions.py [--runs 40] [--part coverage|peers]

Each part is written to its own section of results/interactions.md. Peers are compared where shapiq is installed.
"""

from __future__ import annotations

import argparse
import time
from importlib import metadata
from math import comb
from pathlib import Path

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor

import controlshap as cs
from controlshap.estimators.enumeration import all_coalitions
from controlshap.interactions.index import index_terms, pair_numbers

RESULTS = Path(__file__).resolve().parent / "results"
N_PLAYERS, N_BACKGROUND = 10, 100
#: Beside peers: players, and coalitions over the whole background.
PEER_PLAYERS, COALITIONS = 12, (200, 500, 1500)

ABOUT_COVERAGE = """\
## Coverage

`python benchmarks/interactions.py --part coverage`: {runs} runs of one row of {p} players, {n} background rows, against
enumerated interactions. Coverage of 95 % intervals over pairs and runs, and of whole rows by simultaneous intervals, %;
runs with a wrong certified top set or sign, %; reported over observed errors, and observed errors over the size of the
interactions (root mean squares); and the time of a call with interactions over that of the same call without.

| model | estimator | control | evaluations | coverage | rows | wrong | reported / observed | error / size | time |
|---|---|---|---|---|---|---|---|---|---|
"""

ABOUT_PEERS = """\
## Peers

`python benchmarks/interactions.py --part peers`: mean squared error of the paired KernelSHAP-IQ of shapiq {version}
(order 2) over ours at equal evaluations, {runs} seeds, one row of {p} players; each of its coalitions takes the whole
background of {n} rows. Ours with the defaults, by walks, and by walks with `control="network"` (2 seeds).

| model | coalitions | auto | walks | walks, network |
|---|---|---|---|---|
"""


def make_models(n_players=N_PLAYERS):
    """A network, boosting and a forest as bare functions."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(1500, n_players))
    weights, scales = rng.normal(size=(n_players, 8)), rng.normal(size=8)
    target = rows[:, 0] * rows[:, 1] + np.sin(2.0 * rows[:, 2]) * rows[:, 3] + rows[:, 4]
    forest = RandomForestRegressor(50, max_depth=8, random_state=0).fit(rows, target)
    boosting = GradientBoostingClassifier(random_state=0).fit(rows, target > 0)
    models = {
        "tanh network": lambda some: np.tanh(0.4 * some @ weights) @ scales,
        "boosting": lambda some: boosting.predict_proba(some)[:, 1],
        "forest": lambda some: forest.predict(some),
    }
    return models, rows[:N_BACKGROUND], rows[-1]


def enumerate_game(model, x, background):
    """Values of all coalitions."""
    return np.array([model(np.where(coalition, x, background)).mean() for coalition in all_coalitions(len(x))])


def exact_pairs(table):
    """Interactions of all pairs from the values of all coalitions."""
    p = int(np.log2(len(table)))
    inner = all_coalitions(p)[1:-1]
    weights = np.array([1.0 / comb(p, size) for size in inner.sum(axis=1)])
    return index_terms(inner[None], weights[None], (table[1:-1] - 0.5 * (table[0] + table[-1]))[None])[0]


def is_wrong(found, truth):
    """Whether a certified top set or sign of the only row is wrong."""
    ranking = found.ranking(0.95)
    order, true_order = ranking.order[0], np.argsort(-np.abs(truth), kind="stable")
    sets = any(set(order[: k + 1]) != set(true_order[: k + 1]) for k in np.flatnonzero(ranking.separated[0]))
    first, second = pair_numbers(N_PLAYERS)
    estimates = found.index[0, first, second]
    return sets or bool((np.sign(estimates[order]) != np.sign(truth[order]))[ranking.signs[0]].any())


def measure(explainer, x, truth, budget, runs):
    """One line of the table of coverage."""
    pairs = (0, *pair_numbers(N_PLAYERS))
    inside, rows, wrong, errors, reported = [], [], [], [], []
    times = np.zeros(2)
    for run in range(runs):
        for number, asked in enumerate((None, 2)):
            began = time.process_time()
            explanation = explainer(x[None], budget=budget, rng=run, interactions=asked)
            times[number] += time.process_time() - began
        found = explanation.interactions
        error = found.index[pairs] - truth
        low, high = (bound[pairs] for bound in found.confidence_interval(0.95))
        all_low, all_high = (bound[pairs] for bound in found.confidence_interval(0.95, simultaneous=True))
        inside.append(((low <= truth) & (truth <= high)).mean())
        rows.append(((all_low <= truth) & (truth <= all_high)).all())
        wrong.append(is_wrong(found, truth))
        errors.append(error**2)
        reported.append(found.standard_errors[pairs] ** 2)
    observed = np.sqrt(np.mean(errors))
    return (
        f"{100 * np.mean(inside):.1f} | {100 * np.mean(rows):.0f} | {100 * np.mean(wrong):.0f} | "
        f"{np.sqrt(np.mean(reported)) / observed:.2f} | {observed / np.sqrt(np.mean(truth**2)):.3f} | "
        f"{times[1] / times[0]:.1f}"
    )


def coverage(runs):
    """The table of coverage."""
    models, background, x = make_models()
    whole = cs.Kernel(n_draws=N_BACKGROUND, reuse=True)
    cells = [
        ("walks", "permutation", "ridge", 1000), ("walks", "permutation", "ridge", 4000),
        ("KernelSHAP", "kernel", "ridge", 1000),
        ("KernelSHAP", "kernel", "ridge", 4000), ("whole background", whole, "auto", 20_000),
        ("whole background", whole, "auto", 50_000),
    ]  # fmt: skip
    lines = []
    for name, model in models.items():
        truth = exact_pairs(enumerate_game(model, x, background))
        for label, estimator, control, budget in cells:
            fast = model if estimator is not whole else Remembered(model)
            explainer = cs.Explainer(fast, background, estimator=estimator, control=control)
            found = measure(explainer, x, truth, budget, runs)
            lines.append(f"| {name} | {label} | {control} | {budget:,} | {found} |")
            print(lines[-1], flush=True)
    return ABOUT_COVERAGE.format(runs=runs, p=N_PLAYERS, n=N_BACKGROUND) + "\n".join(lines) + "\n"


class Remembered:
    """A model that looks up rows it has seen: runs over the whole background share their coalitions."""

    def __init__(self, model):
        self.model, self.known = model, {}

    def __call__(self, rows):
        keys = [row.tobytes() for row in rows]
        new = [number for number, key in enumerate(keys) if key not in self.known]
        if new:
            self.known.update(zip([keys[number] for number in new], self.model(rows[new]), strict=True))
        return np.array([self.known[key] for key in keys])


def peers(runs):
    """The table of peers."""
    import shapiq

    models, background, x = make_models(PEER_PLAYERS)
    first, second = pair_numbers(PEER_PLAYERS)
    lines = []
    for name, model in models.items():
        table = enumerate_game(model, x, background)
        truth, shifted = exact_pairs(table), table - table[0]

        def game(coalitions, shifted=shifted):
            return shifted[coalitions.astype(np.int64) @ (1 << np.arange(PEER_PLAYERS))]

        for n_coalitions in COALITIONS:
            errors = []
            for seed in range(runs):
                peer = shapiq.KernelSHAPIQ(
                    n=PEER_PLAYERS, max_order=2, index="SII", pairing_trick=True, random_state=seed
                ).approximate(n_coalitions, game)
                errors.append([(peer[(i, j)] - t) ** 2 for i, j, t in zip(first, second, truth, strict=True)])
            ratios = []
            remembered = Remembered(model)
            for settings in (
                {},
                {"estimator": "permutation"},
                {"estimator": "permutation", "control": "network"},
            ):
                explainer = cs.Explainer(remembered, background, **settings)
                own, few = [], min(runs, 2) if "control" in settings else runs
                for seed in range(few):
                    budget = (n_coalitions - 2) * N_BACKGROUND + 1
                    found = explainer(x[None], budget=budget, rng=seed, interactions=2)
                    own.append((found.interaction_indices[0] - truth) ** 2)
                ratios.append(np.mean(errors) / np.mean(own))
            lines.append(f"| {name} | {n_coalitions} | " + " | ".join(f"{ratio:.3g}" for ratio in ratios) + " |")
            print(lines[-1], flush=True)
    about = ABOUT_PEERS.format(runs=runs, p=PEER_PLAYERS, n=N_BACKGROUND, version=metadata.version("shapiq"))
    return about + "\n".join(lines) + "\n"


def write(part, text):
    """Replace one section of the file of results, or add it."""
    path = RESULTS / "interactions.md"
    head = "# Interactions\n"
    sections = path.read_text().split("\n## ")[1:] if path.exists() else []
    kept = [f"## {section.strip()}\n" for section in sections if not section.startswith(part)]
    path.write_text("\n".join([head, *sorted([*kept, text])]))


def main():
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--part", choices=["coverage", "peers"])
    options = parser.parse_args()
    for part, make in (("coverage", coverage), ("peers", peers)):
        if options.part in (None, part):
            write(part.capitalize(), make(options.runs))


if __name__ == "__main__":
    main()
