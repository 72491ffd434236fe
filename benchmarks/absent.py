"""What "absent" means, measured: skewed data, what controls save, coverage, naming the right description.

    python benchmarks/absent.py [--part description|efficiency|coverage|distribution|naming|peer]

Each part is written to its own section of results/absent.md; "peer" needs shapiq.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections import Counter
from importlib import metadata
from pathlib import Path

import numpy as np
from absent_errors import measure_distribution
from scipy.stats import norm

import controlshap as cs
from controlshap.estimators.enumeration import all_coalitions, shapley_values
from controlshap.testing import (
    allowed_orders,
    causal_quadratic_game,
    conditional_map,
    copula_sum_game,
    empirical_game,
    gaussian_quadratic_game,
    marginal_game,
    mixture_quadratic_game,
    shapley_by_definition,
    values_over,
)

RESULT = Path(__file__).resolve().parent / "results" / "absent.md"
TITLE = "# What absent means: measured\n\nMade by `python benchmarks/absent.py`, one thread.\n"


def describe(title, about, columns):
    """The head of a section: what it shows, and the columns of its table."""
    names = columns.split(" | ")
    return f"## {title}\n\n{' '.join(about.split())}\n\n| {columns} |\n|{'---|' * len(names)}\n"


def correlated_factor(n_columns, rho):
    """Factor of equal correlations."""
    return np.linalg.cholesky((1.0 - rho) * np.eye(n_columns) + rho)


# ------------------------------------------------------------------------------------------------------- description

MARGINS = {
    "lognormal": np.exp,
    "exponential": lambda z: -np.log(norm.sf(z)),
    "Burr": lambda z: (norm.sf(z) ** (-1 / 2.0) - 1.0) ** (1 / 3.0),
    "Gaussian": lambda z: z,
}


def describe_skewed(n_sets=3, n_rows=3, n_train=1000):
    """Error of values under either description against the true copula, whose coalitions are simulated at length."""
    p, n_draws = 4, 40_000
    factor, coalitions = correlated_factor(p, 0.7), all_coalitions(4)
    slope = np.array([1.0, -0.8, 0.6, 0.9])
    noise = np.random.default_rng(0).standard_normal((n_draws // 2, p)) @ factor.T
    noise = np.concatenate([noise, -noise])
    lines = []
    for name, margin in MARGINS.items():
        scale = margin(norm.ppf(0.75)) - margin(norm.ppf(0.25))

        def model(rows, scale=scale):
            standard = rows / scale
            return np.tanh(0.5 * standard @ slope) + 0.2 * np.tanh(standard[:, 0] * standard[:, 1])

        squares, seconds = {"correlated": 0.0, "copula": 0.0}, {"correlated": 0.0, "copula": 0.0}
        for number in range(n_sets):
            rng = np.random.default_rng(number)
            train = margin(rng.standard_normal((n_train, p)) @ factor.T)
            scores = rng.standard_normal((n_rows, p)) @ factor.T
            for z in scores:
                table = []
                for members in coalitions:
                    revealed = np.flatnonzero(members)
                    rows = noise + (z - noise) @ conditional_map(factor @ factor.T, revealed).T
                    rows[:, revealed] = z[revealed]
                    table.append(model(margin(rows)).mean())
                truth = shapley_values(np.array(table))
                for features in squares:
                    explainer = cs.Explainer(model, train, features=features)
                    began = time.process_time()
                    found = explainer(margin(z), budget=20_000, rng=number)
                    seconds[features] += time.process_time() - began
                    squares[features] += ((found.values[0] - truth) ** 2).sum()
        ratio, own = squares["correlated"] / squares["copula"], seconds["copula"] / seconds["correlated"]
        error = np.sqrt(squares["copula"] / (n_sets * n_rows * p))
        lines.append(f"| {name} | {ratio:.1f} | {np.sqrt(ratio):.1f} | {error:.4f} | {own:.2f} |")
    head = describe(
        "Copula and Gaussian",
        f"""`--part description`: values of {n_rows} rows of 4 columns (correlation 0.7 of normal scores) in
        each of {n_sets} data sets of {n_train:,} rows, 20,000 evaluations a row, against the true
        values from 40,000 draws for every coalition. Mean squared error and root mean squared error
        of `"correlated"` over those of `"copula"`, the latter's root mean squared error, and
        processor time of `"copula"` over that of `"correlated"`.""",
        "margins | squared error, ratio | error, ratio | copula's error | time",
    )
    return head + "\n".join(lines)


# -------------------------------------------------------------------------------------------------------- efficiency


def smooth_network(p):
    """A network of 8 units."""
    rng = np.random.default_rng(7)
    weights, scales = rng.normal(size=(p, 8)) / np.sqrt(p), rng.normal(size=8)
    return lambda rows: np.tanh(rows @ weights) @ scales


def smooth_score(p):
    """A function of one score, and a product beside it."""
    slope = np.random.default_rng(7).normal(size=p) / np.sqrt(p)
    return lambda rows: np.tanh(rows @ slope + 0.1 * rows[:, 0] * rows[:, 1])


def clusters(p, n):
    """Two clusters with relations of their own."""
    rng, factor = np.random.default_rng(3), correlated_factor(p, 0.5)
    signs = np.where(np.arange(p) % 2 == 0, 1.0, -1.0)
    first = rng.random(n) < 0.5
    noise = rng.standard_normal((n, p)) @ factor.T
    return np.where(first[:, None], noise + 1.5 * signs, noise * signs - 1.5)


def gaussian_sampler(mean, covariance):
    """A user's sampler that knows the Gaussian."""
    factor, maps = np.linalg.cholesky(covariance), {}

    def draw(x, revealed, n, rng):
        key = revealed.tobytes()
        if key not in maps:
            maps[key] = conditional_map(covariance, np.flatnonzero(revealed))
        rows = mean + rng.standard_normal((n, len(x))) @ factor.T
        rows = rows + (x - rows) @ maps[key].T
        rows[:, revealed] = x[revealed]
        return rows

    return draw


def efficiency_cells(p, background):
    """Settings of explainers for each meaning of absent."""
    thirds = [list(range(3)), list(range(3, 6)), list(range(6, p))]
    draw = gaussian_sampler(background.mean(axis=0), np.cov(background.T))
    return {
        "mixture": {"features": cs.Mixture(2)},
        "copula": {"features": "copula"},
        "sampler": {"features": cs.Sampler(draw)},
        "causal": {"features": cs.Causal(thirds, [True, False, False])},
        "order": {"order": thirds},
        "order, correlated": {"order": thirds, "features": "correlated"},
        "order, causal": {"order": thirds, "features": cs.Causal(thirds, [True, False, False])},
        "hierarchy": {"hierarchy": thirds},
        "hierarchy, correlated": {"hierarchy": thirds, "features": "correlated"},
    }


def compare_efficiency(n_runs=6, n_rows=1, budget=10_000, p=10):
    """Variance of values over runs without control, over that with it: both are unbiased."""
    background, lines = clusters(p, 400), []
    rows = background[:n_rows] + 0.3
    for name, settings in efficiency_cells(p, background).items():
        ratios, seconds = [], []
        for model in (smooth_score(p), smooth_network(p)):
            spread = {}
            for control in ("auto", "none"):
                explainer = cs.Explainer(model, background, control=control, estimator="permutation", **settings)
                began = time.process_time()
                runs = [
                    np.concatenate([explainer(row, budget=budget, rng=seed).values for row in rows])
                    for seed in range(n_runs)
                ]
                seconds.append((time.process_time() - began) / (n_runs * n_rows))
                spread[control] = np.var(runs, axis=0, ddof=1).mean()
            ratios.append(spread["none"] / spread["auto"])
        lines.append(
            f"| {name} | {ratios[0]:.1f} | {ratios[1]:.1f} | {max(seconds[::2]):.2f} | {max(seconds[1::2]):.2f} |"
        )
        print(lines[-1], flush=True)
    head = describe(
        "What the default control saves",
        f"""`--part efficiency`: variance of the values over {n_runs} runs with walks and no control, over that
        with the default control, {budget:,} evaluations; tanh of a score with a product, and a
        network of 8 tanh units, of {p} columns; {n_rows} rows explained one at a time, 400
        background rows in two clusters. Seconds of processor time a row.""",
        "absent | a score and a product | a network | seconds with | without",
    )
    return head + "\n".join(lines)


# ---------------------------------------------------------------------------------------------------------- coverage


def coverage_cells():
    """Explainers of quadratics with their exact values."""
    rng = np.random.default_rng(11)
    p, columns = 6, [[c] for c in range(6)]
    slope, bend = rng.normal(size=(1, p)), 0.2 * rng.normal(size=(1, p, p))
    background = clusters(p, 200)
    x, thirds = background[0] + 0.5, [[0, 1], [2, 3], [4, 5]]
    flags = [True, False, False]

    def quadratic(rows):
        return (rows @ slope.T + np.einsum("ni,oij,nj->no", rows, bend, rows))[:, 0]

    def make(**settings):
        return cs.Explainer(quadratic, background, **{"estimator": "permutation"} | settings)

    mixed = make(features=cs.Mixture(2))
    parts = mixed.assembly.imputer.parts
    means, covariances = [q.moments.mean for q in parts], [q.moments.covariance for q in parts]
    game = mixture_quadratic_game(slope, bend, x, mixed.assembly.imputer.weights, means, covariances, columns)
    cells = {"mixture": (mixed, shapley_by_definition(game, p))}
    moments = make(features="correlated").assembly.imputer.moments
    gaussian = gaussian_quadratic_game(slope, bend, x, moments.mean, moments.covariance, columns)
    draw = gaussian_sampler(moments.mean, moments.covariance)
    cells["sampler"] = (make(features=cs.Sampler(draw)), shapley_by_definition(gaussian, p))
    cells["correlated"] = (make(features="correlated"), shapley_by_definition(gaussian, p))
    effects = causal_quadratic_game(slope, bend, x, moments.mean, moments.covariance, thirds, flags, columns)
    cells["causal"] = (make(features=cs.Causal(thirds, flags)), shapley_by_definition(effects, p))
    ordered, grouped = allowed_orders(p, components=thirds), allowed_orders(p, groups=thirds)
    cells["order, causal"] = (make(features=cs.Causal(thirds, flags), order=thirds), values_over(effects, ordered))
    cells["order, correlated"] = (make(features="correlated", order=thirds), values_over(gaussian, ordered))
    cells["hierarchy, correlated"] = (make(features="correlated", hierarchy=thirds), values_over(gaussian, grouped))
    near = empirical_game(quadratic, x, background, columns, 0.1)
    cells["empirical"] = (make(features="empirical"), shapley_by_definition(near, p))
    parts = [lambda v, c=c: (np.tanh(v) * slope[0, c] + bend[0, c, c] * v**2)[:, None] for c in range(p)]
    additive = cs.Explainer(  # whose copula has an oracle
        lambda rows: sum(part(rows[:, c])[:, 0] for c, part in enumerate(parts)), background, features="copula",
        estimator="permutation",
    )  # fmt: skip
    cells["copula, a sum"] = (additive, shapley_by_definition(copula_sum_game(parts, x, background, columns), p))
    marginal = marginal_game(quadratic, x, background, columns)
    cells["order"] = (make(order=thirds), values_over(marginal, ordered))
    cells["hierarchy"] = (make(hierarchy=thirds), values_over(marginal, grouped))
    return x, cells


def measure_coverage(n_runs=200, budgets=(300, 1500)):
    """Share of values inside their intervals, and reported over observed errors."""
    x, cells = coverage_cells()
    lines = []
    for name, (explainer, truth) in cells.items():
        for budget in budgets:
            runs = n_runs if budget == budgets[0] else n_runs // 2
            found = [explainer(x, budget=budget, rng=seed) for seed in range(runs)]  # one at a time: none learns
            values = np.concatenate([one.values for one in found])
            errors = np.concatenate([one.standard_errors for one in found])
            intervals = [one.confidence_interval(0.95) for one in found]
            inside = np.mean([(low <= truth[:, 0]) & (truth[:, 0] <= high) for low, high in intervals])
            observed = np.sqrt(((values - truth[:, 0]) ** 2).mean(axis=0))
            ratio = np.median(np.sqrt((errors**2).mean(axis=0)) / np.where(observed > 1e-12, observed, np.inf))
            lines.append(f"| {name} | {budget:,} | {100 * inside:.1f} | {ratio:.2f} |")
            print(lines[-1], flush=True)
    head = describe(
        "Coverage",
        f"""`--part coverage`: one row of a quadratic of 6 columns, {n_runs} runs ({n_runs // 2} with the larger
        budget), walks with the default control, against exact values by definition. Values inside
        their 95 % intervals, %, and reported over observed error (median over players).""",
        "absent | evaluations | coverage | reported / observed",
    )
    return head + "\n".join(lines)


# ------------------------------------------------------------------------------------------------------------ naming


def naming_cells(p=6):
    """Rows that a description generates, a model, and what is asked."""
    factor = correlated_factor(p, 0.8)

    def gaussian(rng, n):
        return rng.standard_normal((n, p)) @ factor.T

    def skewed(rng, n):
        return np.exp(gaussian(rng, n))

    def mixed(rng, n):
        signs = np.where(np.arange(p) % 2 == 0, 1.0, -1.0)
        noise = gaussian(rng, n)
        return np.where(rng.random((n, 1)) < 0.5, noise + 1.5 * signs, noise * signs - 1.5)

    def independent(rng, n):
        return rng.standard_normal((n, p))

    def total(rows):
        return np.tanh(rows.sum(axis=1) / 4 - 1)

    weights = np.linspace(-1.0, 1.0, p)

    def contrast(rows):
        return np.tanh(rows @ weights)

    return {
        "Gaussian": (gaussian, total, ["independent", "correlated"], "correlated"),
        "lognormal, correlated": (skewed, total, ["independent", "correlated", "copula"], "copula"),
        "two clusters": (
            mixed,
            contrast,
            ["independent", "correlated", "copula", "mixture"],
            "mixture",
        ),
        "independent": (independent, contrast, ["independent", "correlated", "copula"], "independent"),
    }


def name_descriptions(n_runs=100):
    """How often the generating description is named, another one, or none."""
    lines = []
    for name, (generate, model, features, right) in naming_cells().items():
        named = Counter()
        for seed in range(n_runs):
            rng = np.random.default_rng(seed)
            train, test = generate(rng, 1000), generate(rng, 1000)
            best = cs.compare_features(model, train, test, features, budget=20_000, rng=seed).best
            named["none" if best is None else "right" if best == right else "wrong"] += 1
        lines.append(f"| {name} | {', '.join(features)} | {named['right']} | {named['none']} | {named['wrong']} |")
        print(lines[-1], flush=True)
    head = describe(
        "Naming a description",
        f"""`--part naming`: `compare_features` with 1,000 rows to fit, 1,000 to judge and 20,000 evaluations,
        {n_runs} simulations. How often it names the description that the rows come from, cannot
        tell, and names another. Independent rows are described by all three, so that it cannot be
        told.""",
        "rows | asked | named | cannot tell | wrong",
    )
    return head + "\n".join(lines)


# -------------------------------------------------------------------------------------------------------------- peer


def compare_peer(n_runs=10, budget=10_000, p=10):
    """Mean squared error of shapiq's copula imputer under paired KernelSHAP over ours, at equal evaluations."""
    import shapiq
    from shapiq.imputer import GaussianCopulaImputer

    factor, model = correlated_factor(p, 0.5), smooth_network(p)
    rng = np.random.default_rng(5)
    background = np.exp(0.5 * rng.standard_normal((500, p)) @ factor.T)
    x, lines = background[0] * 1.2, []
    explainer = cs.Explainer(model, background, features="copula")
    ours = np.concatenate([explainer(x, budget=budget, rng=seed).values for seed in range(n_runs)])
    for n_draws in (10, 30, 100):
        theirs = []
        for seed in range(n_runs):
            imputer = GaussianCopulaImputer(model, background, x, sample_size=n_draws, random_state=seed)
            approximator = shapiq.KernelSHAP(p, pairing_trick=True, random_state=seed)
            found = approximator.approximate(budget // n_draws, imputer)
            theirs.append([found[(player,)] for player in range(p)])
        # each around its own mean: their copula has other margins, so that its values are others
        ratio = np.var(theirs, axis=0, ddof=1).mean() / np.var(ours, axis=0, ddof=1).mean()
        shift = np.sqrt(((np.mean(theirs, axis=0) - ours.mean(axis=0)) ** 2).mean())
        lines.append(f"| {n_draws} | {budget // n_draws:,} | {ratio:.0f} | {shift:.3f} |")
        print(lines[-1], flush=True)
    spread = np.sqrt(np.var(ours, axis=0, ddof=1).mean())
    head = describe(
        "Beside shapiq",
        f"""`--part peer`: the copula imputer of shapiq {metadata.version("shapiq")} with its paired KernelSHAP
        and `features="copula"` with defaults, {budget:,} evaluations, {n_runs} runs of one row of
        {p} lognormal columns, a smooth network, 500 background rows. Variance of their values over
        that of ours (a standard deviation of {spread:.2g}), and how far the means of both lie
        apart.""",
        "draws a coalition | coalitions | variance over ours | apart",
    )
    return head + "\n".join(lines)


PARTS = {
    "description": describe_skewed,
    "efficiency": compare_efficiency,
    "coverage": measure_coverage,
    "distribution": measure_distribution,
    "naming": name_descriptions,
    "peer": compare_peer,
}


def write(section):
    """Put a section in the place of that with its heading."""
    text = RESULT.read_text(encoding="utf-8") if RESULT.exists() else TITLE
    heading = section.split("\n", 1)[0]
    text = re.sub(rf"\n{re.escape(heading)}\n.*?(?=\n## |\Z)", "", text, flags=re.DOTALL)
    RESULT.write_text(text.rstrip("\n") + "\n\n" + section.rstrip("\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS)
    chosen = parser.parse_args().part
    warnings.simplefilter("ignore", cs.ControlShapWarning)
    for part in [chosen] if chosen else PARTS:
        made = PARTS[part]()
        print(made)
        write(made)
