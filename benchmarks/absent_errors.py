"""Errors because the distribution of absent features was estimated: rows from known distributions, many backgrounds.

A part of `absent.py`.
"""

from __future__ import annotations

import time

import numpy as np

import controlshap as cs

N_COLUMNS, BUDGET = 6, 3000
HEAD = """\
## The distribution was estimated

`--part distribution`: a network of 8 tanh units of {p} columns, {budget:,} evaluations, {runs} backgrounds from a known
distribution (given to the explainer, or fitted to 20,000 rows for the true values). Values of one row inside their 95 %
intervals, %: as they are, and with `background=True`, also of the player with the least;
`distribution_standard_errors` over what values scatter by beyond sampling (root mean squares over players); processor
time with them over that without.
They are not known in runs whose control explains less than half of the evaluations' variance, which are left out.

| absent | background rows | known | without | with | least player | reported / observed | time |
|---|---|---|---|---|---|---|---|
"""


def draw_rows(kind, n, rng):
    """Rows that the description fits."""
    mixing = np.eye(N_COLUMNS) + 0.5 * np.random.default_rng(1).normal(size=(N_COLUMNS, N_COLUMNS))
    scores = rng.normal(size=(n, N_COLUMNS)) @ mixing
    if kind == "copula":
        return np.exp(0.5 * scores / np.linalg.norm(mixing, axis=0))
    if kind == "mixture":
        first = rng.random(n) < 0.5
        return np.where(first[:, None], scores + 2.0, 0.7 * scores[:, ::-1] - 2.0)
    return scores


KINDS = {
    "correlated": "correlated", "copula": "copula", "mixture": cs.Mixture(n_components=2),
    "causal": cs.Causal([[0, 1], [2, 3], [4, 5]]), "empirical": "empirical",
}  # fmt: skip


def network(rows):
    """A smooth model."""
    rng = np.random.default_rng(7)
    weights, scales = rng.normal(size=(N_COLUMNS, 8)) / np.sqrt(N_COLUMNS), rng.normal(size=8)
    return np.tanh(rows @ weights) @ scales


def measure_distribution(n_runs=60, sizes=(200, 1000)):
    """Coverage of the values of the population."""
    lines = []
    for kind, features in KINDS.items():
        x = draw_rows(kind, 1, np.random.default_rng(77))
        for n in sizes:
            if kind == "empirical" and n > sizes[0]:
                continue
            backgrounds = [draw_rows(kind, n, np.random.default_rng((5, run))) for run in range(n_runs)]
            found, seconds = [], np.zeros(2)
            for run, background in enumerate(backgrounds):
                for asked in (0, 1):
                    began = time.process_time()
                    explainer = cs.Explainer(network, background, features=features, distribution_errors=bool(asked))
                    one = explainer(x, budget=BUDGET, rng=run)
                    seconds[asked] += time.process_time() - began
                found += [] if one.distribution_standard_errors is None else [one]
            values, own, other = (
                np.stack([getattr(one, name)[0] for one in found])
                for name in ("values", "standard_errors", "distribution_standard_errors")
            )
            observed = np.maximum(values.var(axis=0, ddof=1) - (own**2).mean(axis=0), 0.0)
            reported = (other**2).mean(axis=0)
            ratio, covered = np.sqrt(reported.sum() / observed.sum()), ["", "", ""]
            if kind != "empirical":  # which has no distribution that it fits
                large = cs.Explainer(network, draw_rows(kind, 20_000, np.random.default_rng(6)), features=features)
                truth = large(x, budget=100_000, rng=0).values
                for place in (0, 1):
                    bounds = np.array([one.confidence_interval(background=bool(place)) for one in found])[:, :, 0]
                    inside = (bounds[:, 0] <= truth) & (truth <= bounds[:, 1])
                    covered[place] = f"{100 * inside.mean():.1f}"
                covered[2] = f"{100 * inside.mean(axis=0).min():.0f}"
            known, times = f"{len(found)} of {n_runs}", seconds[1] / seconds[0]
            shares = f"{covered[0]} | {covered[1]} | {covered[2]} | {ratio:.2f}"
            lines.append(f"| {kind} | {n:,} | {known} | {shares} | {times:.1f} |")
            print(lines[-1], flush=True)
    return HEAD.format(p=N_COLUMNS, budget=BUDGET, runs=n_runs) + "\n".join(lines)
