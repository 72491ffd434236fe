"""Interactions against enumeration: coverage of intervals, own time, exact pairs of trees, peers at equal evaluations.

    python benchmarks/interactions.py [--runs 40] [--part coverage|time|peers|trees]

Each part is written to its own section of results/interactions.md. Peers are compared where shapiq 1.8 (and, for trees,
woodelf-explainer) is installed. Nothing was chosen by what products and rules, 6 or 14 players show.
"""

from __future__ import annotations

import argparse
import contextlib
import io
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
PEER_PLAYERS, COALITIONS, PEER_ROWS = 12, (200, 500, 1500), 3
#: Rows of the forest whose exact pairs are timed.
TREE_ROWS, MORE_ROWS = 20, 120

ABOUT_COVERAGE = """\
## Coverage

`python benchmarks/interactions.py --part coverage`: {runs} runs of one row, {n} background rows, against enumerated
interactions. Coverage of 95 % intervals over pairs and runs, and of whole rows by simultaneous intervals, %; runs with
a wrong certified top set or sign, %; reported over observed errors, and observed errors over the size of the
interactions (root mean squares).

{summary}

| players | model | estimator | control | evaluations | coverage | rows | wrong | reported / observed | error / size |
|---|---|---|---|---|---|---|---|---|---|
"""

ABOUT_TIME = """\
## Own time

`python benchmarks/interactions.py --part time`: processor time of a call with interactions over that of the same call
without, one row of 20 players, {n} background rows, the least of {runs} runs each. The network takes next to no time
itself; the forest of 100 trees is a bare function.

| model | estimator | evaluations | without, ms | with, ms | ratio |
|---|---|---|---|---|---|
"""

ABOUT_TREES = """\
## Exact pairs of trees

`python benchmarks/interactions.py --part trees`: interactions of a forest of 100 trees of depth 6, 30 columns, 100
background rows: processor seconds for {rows} rows with all that is prepared for them, the least of 5 runs, and by how
much {more} rows take longer, divided by the difference of rows; largest difference from ours. Ours explains the values,
too, and checks the form that was read from the model. Versions: {versions}.

| what | {rows} rows, s | a further row, ms | difference |
|---|---|---|---|
"""

ABOUT_PEERS = """\
## Peers

`python benchmarks/interactions.py --part peers`: mean squared error of peers of shapiq {version} over ours at equal
evaluations, {runs} seeds, {n_rows} rows of {p} players; each of their coalitions takes the whole background of {n}
rows. KernelSHAP-IQ with paired coalitions, ProxySHAP with its adjustment and 5 folds, both of order 2; ours with the
defaults. The last column is that of the better peer.

| model | coalitions | KernelSHAP-IQ | ProxySHAP | better peer |
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
        "products": lambda some: some[:, 0] * some[:, 1] * some[:, 2] + some[:, 3] * some[:, 4] + some[:, 5],
        "rules": lambda some: 1.0 * ((some[:, 0] > 0) & (some[:, 1] > 0)) - 0.5 * ((some[:, 2] > 0) & (some[:, 3] < 0)),
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
    first, second = pair_numbers(found.index.shape[1])
    estimates = found.index[0, first, second]
    return sets or bool((np.sign(estimates[order]) != np.sign(truth[order]))[ranking.signs[0]].any())


def measure(explainer, x, truth, budget, runs):
    """Figures of one cell."""
    pairs = (0, *pair_numbers(len(x)))
    inside, rows, wrong, errors, reported = [], [], [], [], []
    for run in range(runs):
        found = explainer(x[None], budget=budget, rng=run, interactions=2).interactions
        error = found.index[pairs] - truth
        low, high = (bound[pairs] for bound in found.confidence_interval(0.95))
        all_low, all_high = (bound[pairs] for bound in found.confidence_interval(0.95, simultaneous=True))
        inside.append(((low <= truth) & (truth <= high)).mean())
        # a pair that is 0 by all that there is may be 0 to rounding
        rows.append(((all_low <= truth + 1e-12) & (truth - 1e-12 <= all_high)).all())
        wrong.append(is_wrong(found, truth))
        errors.append(error**2)
        reported.append(found.standard_errors[pairs] ** 2)
    observed = np.sqrt(np.mean(errors))
    shares = (100 * np.mean(part) for part in (inside, rows, wrong))
    return *shares, np.sqrt(np.mean(reported)) / observed, observed / np.sqrt(np.mean(truth**2))


#: Players, estimator, control, evaluations.
WHOLE = cs.Kernel(n_draws=N_BACKGROUND, reuse=True)
CELLS = [
    *((10, kind, "ridge", budget) for kind in ("permutation", "kernel") for budget in (1000, 4000)),
    (10, "permutation", "none", 2000), (10, WHOLE, "auto", 20_000), (10, WHOLE, "auto", 50_000),
    (6, "permutation", "ridge", 500), (6, "kernel", "ridge", 500), (6, WHOLE, "auto", 5000),
    (14, "permutation", "ridge", 4000), (14, "kernel", "ridge", 4000), (14, WHOLE, "auto", 30_000),
]  # fmt: skip


def coverage(runs):
    """The table of coverage."""
    lines, figures = [], []
    for p in (10, 6, 14):
        models, background, x = make_models(p)
        for name, model in models.items():
            truth = exact_pairs(enumerate_game(model, x, background))
            remembered = Remembered(model)
            for players, estimator, control, budget in CELLS:
                if players != p:
                    continue
                fast = model if estimator is not WHOLE else remembered
                explainer = cs.Explainer(fast, background, estimator=estimator, control=control)
                found = measure(explainer, x, truth, budget, runs)
                figures.append(found)
                label = {"permutation": "walks", "kernel": "KernelSHAP"}.get(estimator, "whole background")
                numbers = "{:.1f} | {:.0f} | {:.0f} | {:.2f} | {:.3f}".format(*found)
                lines.append(f"| {p} | {name} | {label} | {control} | {budget:,} | {numbers} |")
                print(lines[-1], flush=True)
    inside, rows, wrong, *_ = np.array(figures).T
    summary = (
        f"{len(lines)} cells: coverage from {inside.min():.1f} to {inside.max():.1f}, within 93 to 98 in "
        f"{((inside >= 93) & (inside <= 98)).sum()} and below 93 in {(inside < 93).sum()}; whole rows below 93 in "
        f"{(rows < 93).sum()}, {rows.mean():.1f} on average; wrong certificates above 5 % in {(wrong > 5).sum()}, "
        f"{wrong.mean():.2f} % on average."
    )
    return ABOUT_COVERAGE.format(runs=runs, n=N_BACKGROUND, summary=summary) + "\n".join(lines) + "\n"


def own_time(runs):
    """The table of own time."""
    rng = np.random.default_rng(7)
    background, x, weights = rng.normal(size=(N_BACKGROUND, 20)), rng.normal(size=(1, 20)), rng.normal(size=(20, 8))
    forest = RandomForestRegressor(100, max_depth=8, random_state=0).fit(
        rows := rng.normal(size=(1500, 20)), rows[:, 0] * rows[:, 1] + rows[:, 2]
    )
    models = {
        "network": lambda some: np.tanh(0.3 * some @ weights).sum(axis=1),
        "forest": lambda some: forest.predict(some),
    }
    lines = []
    for name, model in models.items():
        for settings, budget in (
            ({}, 10_000), ({}, 50_000), ({"estimator": "permutation"}, 20_000), ({"estimator": "kernel"}, 5000),
        ):  # fmt: skip
            explainer = cs.Explainer(model, background, **settings)
            least = np.full(2, np.inf)
            for run in range(min(runs, 5)):
                for number, asked in enumerate((None, 2)):
                    began = time.process_time()
                    method = explainer(x, budget=budget, rng=run, interactions=asked).method[0]
                    least[number] = min(least[number], time.process_time() - began)
            without, together = 1000 * least
            lines.append(
                f"| {name} | {method} | {budget:,} | {without:.0f} | {together:.0f} | {together / without:.2f} |"
            )
            print(lines[-1], flush=True)
    return ABOUT_TIME.format(runs=min(runs, 5), n=N_BACKGROUND) + "\n".join(lines) + "\n"


def trees(runs):  # noqa: ARG001, as for the other parts
    """The table of exact pairs of trees."""
    import pandas
    from shapiq.tree import InterventionalTreeSHAPIQ
    from woodelf import WoodelfExplainer

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 30))
    model = RandomForestRegressor(100, max_depth=6, random_state=0).fit(rows, rows[:, 0] * rows[:, 1] + rows[:, 2])
    background, explained = rows[:100], rows[1000 : 1000 + MORE_ROWS]
    names = [f"x{i}" for i in range(30)]
    first, second = pair_numbers(30)

    def ours(some):
        found = cs.Explainer(model, background)(some, interactions=2, rng=0, progress=False)
        assert set(found.status) == {"exact"}
        return found.interactions.index[:, first, second]

    def woodelf(some):
        frame, frame_rows = (pandas.DataFrame(part, columns=names) for part in (background, some))
        with contextlib.redirect_stdout(None), contextlib.redirect_stderr(io.StringIO()):
            return (
                2.0 * np.asarray(WoodelfExplainer(model, frame).shap_interaction_values(frame_rows))[:, first, second]
            )

    def shapiq(some):
        explainer = InterventionalTreeSHAPIQ(model, background, max_order=2, index="SII")
        found = [explainer.explain_function(row) for row in some]
        return np.array([[one[(i, j)] for i, j in zip(first, second, strict=True)] for one in found])

    lines, reference = [], ours(explained)
    for name, run in (("ours", ours), ("woodelf-explainer", woodelf), ("shapiq, interventional trees", shapiq)):
        least = np.full(2, np.inf)
        for _ in range(5):
            for number, some in enumerate((explained[:TREE_ROWS], explained)):
                began = time.process_time()
                values = run(some)
                least[number] = min(least[number], time.process_time() - began)
        further = 1000.0 * (least[1] - least[0]) / (MORE_ROWS - TREE_ROWS)
        lines.append(f"| {name} | {least[0]:.3f} | {further:.2f} | {np.abs(values - reference).max():.1e} |")
        print(lines[-1], flush=True)
    versions = ", ".join(f"{one} {metadata.version(one)}" for one in ("shapiq", "woodelf-explainer", "scikit-learn"))
    return ABOUT_TREES.format(rows=TREE_ROWS, more=MORE_ROWS, versions=versions) + "\n".join(lines) + "\n"


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

    models, background, some_row = make_models(PEER_PLAYERS)
    others = np.random.default_rng(8).normal(size=(PEER_ROWS - 1, PEER_PLAYERS))
    first, second = pair_numbers(PEER_PLAYERS)
    lines = []
    for name in ("tanh network", "boosting", "forest"):
        model, cases = models[name], []
        for x in (some_row, *others):
            table = enumerate_game(model, x, background)
            cases.append((x, table - table[0], exact_pairs(table), Remembered(model)))
        for n_coalitions in COALITIONS:
            squares = {"kernel": [], "proxy": [], "ours": []}
            for x, shifted, truth, remembered in cases:

                def game(coalitions, shifted=shifted):
                    return shifted[coalitions.astype(np.int64) @ (1 << np.arange(PEER_PLAYERS))]

                explainer = cs.Explainer(remembered, background)
                for seed in range(runs):
                    settings = {"n": PEER_PLAYERS, "max_order": 2, "random_state": seed, "pairing_trick": True}
                    made = {
                        "kernel": shapiq.KernelSHAPIQ(index="SII", **settings),
                        "proxy": shapiq.ProxySHAP(index="k-SII", adjustment=True, k_folds=5, **settings),
                    }
                    for kind, peer in made.items():  # of order 2, k-SII and SII of pairs are the same
                        found = peer.approximate(n_coalitions, game)
                        values = np.array([found[(i, j)] for i, j in zip(first, second, strict=True)])
                        squares[kind].append(np.mean((values - truth) ** 2))
                    budget = (n_coalitions - 2) * N_BACKGROUND + 1
                    own = explainer(x[None], budget=budget, rng=seed, interactions=2)
                    squares["ours"].append(np.mean((own.interaction_indices[0] - truth) ** 2))
            kernel, proxy, ours = (np.mean(squares[kind]) for kind in ("kernel", "proxy", "ours"))
            ratios = (kernel / ours, proxy / ours, min(kernel, proxy) / ours)
            lines.append(f"| {name} | {n_coalitions} | " + " | ".join(f"{ratio:.3g}" for ratio in ratios) + " |")
            print(lines[-1], flush=True)
    about = ABOUT_PEERS.format(
        runs=runs, p=PEER_PLAYERS, n=N_BACKGROUND, n_rows=PEER_ROWS, version=metadata.version("shapiq")
    )
    return about + "\n".join(lines) + "\n"


def write(part, text):
    """Replace one section of the file of results, or add it."""
    path = RESULTS / "interactions.md"
    head = "# Interactions\n"
    sections = path.read_text().split("\n## ")[1:] if path.exists() else []
    kept = [f"## {section.strip()}\n" for section in sections if not section.startswith(part)]
    path.write_text("\n".join([head, *sorted([*kept, text])]))


PARTS = {
    "coverage": ("Coverage", coverage), "time": ("Own time", own_time), "peers": ("Peers", peers),
    "trees": ("Exact pairs of trees", trees),
}  # fmt: skip


def main():
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--part", choices=list(PARTS))
    options = parser.parse_args()
    for part, (title, make) in PARTS.items():
        if options.part in (None, part):
            write(title, make(options.runs))


if __name__ == "__main__":
    main()
