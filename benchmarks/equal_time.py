"""Error at equal time, and the time of an explanation over the model's own, for fast and slow models.

    .venv-peers/bin/python benchmarks/equal_time.py [--quick] [--part independent]

20 players, 100 background rows; a network of ten tanh units, whose exact values are known, features independent and
correlated. What a contender's own code takes does not depend on how slow the model is, so own time (all but the time
inside the model), evaluations and squared errors are measured once along a ladder of budgets; with a model of 1, 10,
100 or 1,000 microseconds a row the time of a row is `own + evaluations * cost`. The sum is checked against real models,
made slow by work of numpy in proportion to rows, for ours at 1, 10 and 100 microseconds.

Ours is taken at 2,000 evaluations, told how long the model takes (`seconds_per_evaluation=`).
A peer's error at the same time is interpolated between its budgets (in logarithms,
beyond the largest by 1/time), with all of the background or a fifth of it, whichever is better with hindsight; a peer
that cannot finish its smallest budget in that time is left out. Peers get f(background) and f(x) free of charge, as
ours does. One row alone pays for its explainer, 20 rows of a call share it.
Processor time of one thread. Writes `results/equal_time.md`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from efficiency_peers import lightshap, shap_kernel, shap_permutation, shapiq
from threadpoolctl import threadpool_limits

import controlshap as cs
from controlshap.crossfitting.known_gaussian import simulate_networks
from controlshap.data.players import resolve_players
from controlshap.functions.network import Network

RESULTS = Path(__file__).resolve().parent / "results" / "equal_time.md"
CACHE = Path(__file__).resolve().parent / ".cache"
N_PLAYERS, N_BACKGROUND, BUDGET, N_ROWS = 20, 100, 2_000, 20
COSTS = (1e-6, 1e-5, 1e-4, 1e-3)
LADDER = (2_000, 8_400, 33_600)
PEERS = {
    "shap kernel": shap_kernel,
    "shap permutation": shap_permutation,
    "lightshap kernel": partial(lightshap, "kernel"),
    "lightshap permutation": partial(lightshap, "permutation"),
    "shapiq KernelSHAP": partial(shapiq, "KernelSHAP", {"pairing_trick": True}),
    "shapiq PolySHAP": partial(shapiq, "PolySHAP", {"terms_share": 0.8}),
    "shapiq RegressionMSR": partial(shapiq, "RegressionMSR", {"index": "SV", "proxy_model": "linear"}),
}


class Timed:
    """A model that knows how long it took and how many rows it was given; the background and x are known to it."""

    def __init__(self, model, known: np.ndarray) -> None:
        self.model, self.known, self.said = model, known, model(known)
        self.seconds, self.n_rows = 0.0, 0

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        began = time.process_time()
        if rows.shape == self.known.shape and (rows == self.known).all():
            said = self.said.copy()
        else:
            said, self.n_rows = self.model(rows), self.n_rows + len(rows)
        self.seconds += time.process_time() - began
        return said


class Slow:
    """A model that takes so many seconds a row: exponentials of an array that stays in the processor's cache."""

    def __init__(self, model, seconds: float) -> None:
        self.model, self.block = model, np.linspace(-1.0, 1.0, 4096)
        self.out, self.per_row = np.empty(4096), 0
        rows = np.zeros((2_000, N_PLAYERS))
        began = time.process_time()
        for _ in range(20):
            model(rows)
        base = (time.process_time() - began) / (20 * len(rows))
        began = time.process_time()
        for _ in range(5_000):
            np.exp(self.block, out=self.out)
        self.per_row = max(0, int((seconds - base) / ((time.process_time() - began) / (5_000 * 4096))))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        whole, rest = divmod(self.per_row * len(rows), len(self.block))
        for _ in range(whole):
            np.exp(self.block, out=self.out)
        np.exp(self.block[:rest], out=self.out[:rest])
        return self.model(rows)


class Case:
    """The network, its data and its exact values."""

    def __init__(self, features: str, n_rows: int) -> None:
        rng, p = np.random.default_rng(0), N_PLAYERS
        weights, scales = rng.normal(size=(10, p)) / np.sqrt(p), rng.normal(size=10)
        self.features = features
        self.background, self.rows = rng.normal(size=(N_BACKGROUND, p)), rng.normal(size=(n_rows, p))
        if features == "correlated":
            self.background = self.background @ (np.eye(p) + 0.3 * rng.normal(size=(p, p)))
        # tanh(z) = 2 sigmoid(2 z) - 1
        function = Network(-scales.sum(), np.zeros(p), 2.0 * weights, np.zeros(10), 2.0 * scales)
        self.model = lambda rows: np.tanh(rows @ weights.T) @ scales
        names = tuple(f"x{j}" for j in range(p))
        players = resolve_players(None, names)
        if features == "independent":
            self.truth = np.array([function.mean_values(x, self.background, players) for x in self.rows])
            return
        imputer = cs.GaussianConditional().bind(self.background, players, names)
        # 6,000 pairs of permutations: a thousandth of the squared errors
        several = [simulate_networks(imputer, x, [function], rng, None, None, 0.0)[0] for x in self.rows]
        self.truth = np.array([one.mean[:-1] for one in several])

    def explainer(self, model, **settings) -> cs.Explainer:
        return cs.Explainer(model, self.background, features=self.features, **settings)


def measure_ours(case: Case, budget: int, n_rows: int, seeds: int, **settings) -> tuple[float, float, float]:
    """Own seconds a row, evaluations a row and squared error, of calls of `n_rows` rows each."""
    own, n, squares = [], [], []
    for seed in range(seeds):
        for start in range(0, len(case.rows), n_rows):
            part = slice(start, start + n_rows)
            model = Timed(case.model, case.background)
            began = time.process_time()
            found = case.explainer(model, **settings)(case.rows[part], budget=budget, rng=seed)
            spent = time.process_time() - began - model.seconds
            own.append(spent / len(found.values))
            n.append(found.n_evaluations.mean())
            squares.append(((found.values - case.truth[part]) ** 2).mean())
    return float(np.median(own)), float(np.mean(n)), float(np.mean(squares))


def measure_peer(case: Case, peer, budget: int, n_background: int, n_rows: int, seeds: int):
    """The same of a peer, row by row; None where the budget is too small for it."""
    own, n, squares = [], [], []
    for seed in range(seeds):
        for x, truth in zip(case.rows[:n_rows], case.truth[:n_rows], strict=True):
            part = np.random.default_rng(seed).permutation(N_BACKGROUND)[:n_background]
            model = Timed(case.model, case.background[part])
            began = time.process_time()
            try:
                values = peer(model, case.background[part], x, [[j] for j in range(N_PLAYERS)], budget, seed)
            except (ValueError, IndexError, np.linalg.LinAlgError):
                return None  # too few coalitions
            spent = time.process_time() - began - model.seconds
            if values is None or not np.isfinite(values).all():
                return None
            own.append(spent)
            n.append(model.n_rows)
            squares.append(((values - truth) ** 2).mean())
    return float(np.median(own)), float(np.mean(n)), float(np.mean(squares))


def error_at(points: list[tuple[float, float, float]], seconds: float, cost: float) -> float:
    """Squared error at a time, from own times, evaluations and squared errors along a ladder; infinite below it."""
    times = np.array([own + n * cost for own, n, _ in points])
    best = np.minimum.accumulate([error for *_, error in points])
    if not len(times) or seconds < times[0]:
        return np.inf
    if seconds >= times[-1]:
        return float(best[-1] * times[-1] / seconds)
    return float(np.exp(np.interp(np.log(seconds), np.log(times), np.log(best))))


def climb(case: Case, peer, n_rows: int, seeds: int) -> list[list[tuple[float, float, float]]]:
    """Ladders with all of the background and with a fifth of it."""
    ladders = []
    for n_background in (N_BACKGROUND, N_BACKGROUND // 5):
        found = [measure_peer(case, peer, budget, n_background, n_rows, seeds) for budget in LADDER]
        ladders.append([point for point in found if point is not None])
    return ladders


def table(features: str, quick: bool) -> list[str]:
    """Lines of the table of one kind of features."""
    case, seeds, few = Case(features, 10 if quick else N_ROWS), 1, 1 if quick else 2
    names = ["no control", *(PEERS if features == "independent" else ["KernelSHAP of ours, 10 draws"])]
    ladders: dict[str, list[list[tuple[float, float, float]]]] = {}
    for name in names:
        if name in PEERS:
            ladders[name] = climb(case, PEERS[name], few, seeds)
        else:
            settings = {"control": "none"}
            if name != "no control":
                settings["estimator"] = cs.Kernel(n_draws=10)
            ladders[name] = [[measure_ours(case, budget, len(case.rows), 1, **settings) for budget in LADDER]]
        print(features, name, [len(ladder) for ladder in ladders[name]], flush=True)
    lines = [
        f"## {features.capitalize()} features",
        "",
        "| microseconds a row | rows | own time, ms a row | time over the model's | " + " | ".join(names) + " |",
        "|---" * (4 + len(names)) + "|",
    ]
    worse = []
    for n_rows in (1, N_ROWS):
        single = Case(features, 5) if n_rows == 1 else case
        for cost in COSTS:
            told = {"seconds_per_evaluation": cost}
            own, n, error = measure_ours(single, BUDGET, n_rows, 3 if n_rows == 1 else 1, **told)
            if n_rows == 1:
                error = measure_ours(case, BUDGET, len(case.rows), 1, **told)[2]  # the same, from more rows
            seconds, cells = own + n * cost, []
            for name in names:
                theirs = min(error_at(ladder, seconds, cost) for ladder in ladders[name])
                cells.append("-" if np.isinf(theirs) else f"{theirs / error:.2f}")
                if theirs < error:
                    worse.append(f"{1e6 * cost:g} microseconds, {n_rows} rows: {name} ({theirs / error:.2f})")
            line = [f"{1e6 * cost:g}", str(n_rows), f"{1e3 * own:.1f}", f"{seconds / (n * cost):.2f}", *cells]
            lines.append("| " + " | ".join(line) + " |")
            print(lines[-1], flush=True)
    lines += ["", "Better than ours: " + ("; ".join(worse) if worse else "none") + "."]
    return [*lines, "", *check(case)]


def check(case: Case) -> list[str]:
    """Real models of some speeds, against the sum of own time and evaluations."""
    lines = ["| model, microseconds a row | measured, ms a row | over the model alone |", "|---|---|---|"]
    for cost in COSTS[:3]:
        model = Slow(case.model, cost)
        timed = Timed(model, case.background)
        explainer = case.explainer(timed, seconds_per_evaluation=cost)
        explainer(case.rows[:1], budget=BUDGET, rng=0)
        timed.seconds, timed.n_rows, began = 0.0, 0, time.process_time()
        explainer(case.rows[1:11], budget=BUDGET, rng=0)
        spent = time.process_time() - began
        per_row = 1e6 * timed.seconds / timed.n_rows
        lines.append(f"| {per_row:.2f} | {100 * spent:.1f} | {spent / timed.seconds:.2f} |")
    return lines


def trees_as_functions(quick: bool) -> list[str]:  # noqa: ARG001
    """A lightgbm of 100 trees, called as a function: the time of an explanation over the model's."""
    from lightgbm import LGBMRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_200, N_PLAYERS))
    y = X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + np.sin(3 * X[:, 3]) * X[:, 4]
    booster = LGBMRegressor(n_estimators=100, verbose=-1, n_jobs=1).fit(X[:2_000], y[:2_000]).booster_
    lines = ["## 100 trees of lightgbm, called as a function", ""]
    lines += ["| features | rows | over the model alone | where its time is stated |", "|---|---|---|---|"]
    for features in ("independent", "correlated"):
        for n_rows in (1, N_ROWS):
            model, cells = Timed(lambda rows: booster.predict(rows, num_threads=1), X[2_000:2_100]), []
            for stated in (False, True):
                told = {"seconds_per_evaluation": model.seconds / model.n_rows} if stated else {}
                explainer = cs.Explainer(model, X[2_000:2_100], features=features, **told)
                explainer(X[-1:], budget=BUDGET, rng=0)
                model.seconds, model.n_rows, began = 0.0, 0, time.process_time()
                explainer(X[-n_rows:], budget=BUDGET, rng=0)
                cells.append(f"{(time.process_time() - began) / model.seconds:.2f}")
            lines.append(f"| {features} | {n_rows} | {' | '.join(cells)} |")
    return lines


PARTS = {
    "independent": partial(table, "independent"),
    "correlated": partial(table, "correlated"),
    "trees": trees_as_functions,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows; nothing is written")
    parser.add_argument("--part", choices=list(PARTS), help="measure this part again, and keep the others")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    parts: list[str] = []
    CACHE.mkdir(exist_ok=True)
    with threadpool_limits(limits=1):
        for name, measure in PARTS.items():
            kept = CACHE / f"equal_time_{name}.md"
            if options.quick or options.part in (None, name):
                kept.write_text("\n".join(measure(options.quick)))
            parts += [kept.read_text() if kept.exists() else f"({name} features are to be measured)", ""]
        lines = [
            "# Error at equal time",
            "",
            f"`python benchmarks/equal_time.py`, numpy {np.__version__}, one thread, processor time; {N_PLAYERS} "
            f"players, {N_BACKGROUND} background rows, a network of ten tanh units; ours is told how long the model "
            "takes. Squared error of a contender at "
            f"the time that ours takes for {BUDGET:,} evaluations, over ours: above 1 we are better, `-` where a "
            "contender cannot finish in that time.",
            "",
            *parts,
        ]
    print("\n".join(lines))
    if not options.quick:
        RESULTS.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
