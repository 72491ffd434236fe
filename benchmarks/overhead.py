"""What an explanation costs beside the model: against plain loops, and against the model alone.

    python benchmarks/overhead.py [--data FOLDER] [--repeats 5] [--profile]

Processor time of one thread (which other work on the machine does not disturb), medians over repeats that
alternate between the two sides of a ratio, all in one run. Writes `results/overhead.md`.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import baseline
import numpy as np
from paper_data import PaperData, add_data_argument, data_folder, load
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import controlshap as cs
from controlshap.controls.d_matrices import d_matrices
from controlshap.data.players import resolve_players

RESULTS = Path(__file__).resolve().parent / "results" / "overhead.md"
N_COALITIONS, N_DRAWS = 1000, 10
BUDGET = 10_000  # of the forest
LIMITS = {"independent": 1 / 20, "correlated": 1 / 50}


def seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def medians(actions: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median time of each action; they take turns, so that a slow spell of the machine meets all of them."""
    return [float(m) for m in np.median([[seconds(action) for action in actions] for _ in range(repeats)], axis=0)]


class Setting:
    """A data set with its value functions, and a model."""

    def __init__(self, data: PaperData, model: object, n_background: int | None = None) -> None:
        self.data, self.background = data, data.X_train[:n_background]
        self.model = model.fit(data.X_train, data.y_train)
        self.x = data.X_test[0]
        self.mean = self.background.mean(axis=0)
        self.covariance = baseline.floored(np.cov(self.background, rowvar=False, bias=True))
        self.value_functions = {
            "independent": cs.Marginal(),
            "correlated": cs.GaussianConditional(mean=self.mean, covariance=self.covariance),
        }

    def explainer(
        self, features: str, model: object, estimator: object, control: str, coefficient: str = "auto"
    ) -> cs.Explainer:
        return cs.Explainer(
            model,
            self.background,
            features=self.value_functions[features],
            estimator=estimator,
            control=control,
            groups=self.data.several or None,
            coefficient=coefficient,
        )

    def loops(self, features: str) -> tuple[Callable[[int], baseline.Result], float]:
        """The baseline as a function of the seed, and the one-off time of its D matrices per permutation."""
        x, background = self.x, self.background
        columns = [np.array(c) for c in resolve_players(self.data.several, self.data.columns).columns]
        chance = self.model.predict_proba(x[None])[0, 1]
        slope = chance * (1 - chance)
        gradient = slope * self.model.coef_[0]
        hessian = slope * (1 - 2 * chance) * np.outer(self.model.coef_[0], self.model.coef_[0])
        one_off = 0.0
        if features == "independent":
            known, change = baseline.known_independent(gradient, hessian, x, background, columns)
            base = self.model.predict_proba(background)[:, 1].mean()

            def surrogate(row: np.ndarray) -> float:
                gap = row - x
                return chance + gradient @ gap + 0.5 * gap @ hessian @ gap

            def draw(revealed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
                return baseline.draws_independent(x, revealed, background, N_DRAWS, rng)

        else:
            rng, few = np.random.default_rng(0), 100
            start = time.process_time()
            matrices = baseline.d_matrices(self.covariance, columns, few, rng)
            one_off = (time.process_time() - start) / few
            known = baseline.known_correlated(gradient, matrices, x, self.mean)
            change = -gradient @ (x - self.mean)
            rows = rng.multivariate_normal(self.mean, self.covariance, size=10_000)
            base = self.model.predict_proba(rows)[:, 1].mean()

            def surrogate(row: np.ndarray) -> float:
                return chance + gradient @ (row - x)

            def draw(revealed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
                return baseline.draws_correlated(x, revealed, self.mean, self.covariance, N_DRAWS, rng)

        def explain(seed: int) -> baseline.Result:
            return baseline.kernel_shap(
                lambda row: self.model.predict_proba(row[None])[0, 1],
                surrogate, x, columns, draw, base, chance + change, known, N_COALITIONS, np.random.default_rng(seed),
            )  # fmt: skip

        return explain, one_off


def budget_of_the_paper(credit: Setting, features: str) -> int:
    """The budget that buys 500 pairs of 10 draws beside f(x) and, for draws from a Gaussian, an estimate of v(0).

    The derivatives of a logistic regression cost nothing.
    """
    wanted = N_COALITIONS * N_DRAWS
    budget = wanted + 1
    while True:
        calls: list[int] = []

        def counted(rows: np.ndarray, calls: list[int] = calls) -> np.ndarray:
            calls.append(len(rows))
            return rows[:, 0]

        credit.explainer(features, counted, cs.Kernel(n_draws=N_DRAWS), "none")(credit.x[None], budget=budget, rng=0)
        if max(calls) == wanted:  # the coalitions are evaluated in one call, the largest
            return budget
        budget += wanted - max(calls)


def against_loops(credit: Setting, repeats: int, profile: bool) -> list[str]:
    lines = [
        "| features | coefficient | loops, s | controlshap, s | fraction | limit | loops agree (rms z) | "
        "one-off D matrices, s (loops, s) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    # The paper takes the coefficient from the same units; the default may do more.
    for features, coefficient in [(f, c) for f in LIMITS for c in ("units", "auto")]:
        limit = LIMITS[features]
        explainer = credit.explainer(features, credit.model, cs.Kernel(n_draws=N_DRAWS), "taylor", coefficient)
        loops, per_permutation = credit.loops(features)
        rows = credit.x[None]
        budget = budget_of_the_paper(credit, features)
        first = seconds(lambda e=explainer, r=rows, b=budget: e(r, budget=b, rng=0))
        explanation = explainer(rows, budget=budget, rng=0)
        slow, fast = medians(
            [lambda f=loops: f(1), lambda e=explainer, r=rows, b=budget: e(r, budget=b, rng=1)], repeats
        )
        other = loops(1)
        # Both sides without control: their known values come from different simulations of the D matrices.
        gap = explanation.uncontrolled_values[0] - other.uncontrolled_values
        error = np.hypot(explanation.uncontrolled_standard_errors[0], other.uncontrolled_standard_errors)
        one_off = f"{first - fast:.2f} ({2000 * per_permutation:.0f})" if per_permutation else "none"
        lines.append(
            f"| {features} | {coefficient} | {slow:.3f} | {fast:.4f} | 1/{slow / fast:.0f} | 1/{1 / limit:.0f} | "
            f"{np.sqrt(np.mean((gap / error) ** 2)):.2f} | {one_off} |"
        )
        if profile:
            profiler = cProfile.Profile()
            profiler.enable()
            for seed in range(10):
                explainer(rows, budget=budget, rng=seed)
            profiler.disable()
            pstats.Stats(profiler).sort_stats("tottime").print_stats(22)
    return lines


def against_the_forest(setting: Setting, repeats: int) -> list[str]:
    """Time of an explanation over the time of the forest alone on the very batches it was asked for."""
    forest, rows, lines = setting.model, setting.x[None], []
    settings = {"budget": BUDGET, "rng": 0}
    for estimator in (cs.Permutation(), cs.Kernel(n_draws=N_DRAWS), cs.Kernel()):
        draws = "" if estimator.n_draws == 1 else f", {estimator.n_draws} draws"
        for features in LIMITS:
            batches: list[np.ndarray] = []

            def recording(rows: np.ndarray, batches: list[np.ndarray] = batches) -> np.ndarray:
                batches.append(rows.copy())
                return forest.predict_proba(rows)[:, 1]

            recorder = setting.explainer(features, recording, estimator, "none")
            recorder(rows, **settings)
            batches.clear()  # the background, evaluated once per explainer
            recorder(rows, **settings)
            explainer = setting.explainer(features, lambda rows: forest.predict_proba(rows)[:, 1], estimator, "none")
            explainer(rows, **settings)
            alone, whole = medians(
                [
                    lambda b=batches: [forest.predict_proba(part) for part in b],
                    lambda e=explainer: e(rows, **settings),
                ],
                repeats,
            )
            name = f"{type(estimator).__name__}{draws}"
            lines.append(
                f"| {setting.data.name} | {len(setting.data.columns)} | {name} | {features} | "
                f"{sum(map(len, batches))} | {len(batches)} | {alone:.3f} | {whole:.3f} | {whole / alone:.2f} | 1.5 |"
            )
    return lines


def matrices_of_100_columns(repeats: int) -> list[str]:
    """D matrices of 100 single columns: the time per permutation must fall as permutations share a batch."""
    rng = np.random.default_rng(0)
    c = 100
    background = rng.standard_normal((2 * c, c)) @ rng.standard_normal((c, c)) + rng.standard_normal((2 * c, c))
    names = tuple(f"x{i}" for i in range(c))
    players = resolve_players(None, names)
    imputer = cs.GaussianConditional().bind(background, players, names)
    few = 5
    loop = medians([lambda: baseline.d_matrices(np.cov(background.T, bias=True), list(players.columns), few, rng)], 1)[
        0
    ]
    lines = ["| permutations | time, s | ms per permutation |", "|---|---|---|"]
    for n in (40, 200, 1000, 5000):
        spent = medians([lambda n=n: d_matrices(imputer, n)], repeats)[0]
        lines.append(f"| {n} | {spent:.2f} | {1000 * spent / n:.2f} |")
    lines.append(f"| {few}, loops over players | {loop:.2f} | {1000 * loop / few:.1f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_argument(parser)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="print where the time of the first table goes")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", cs.SingularCovarianceWarning)
    with threadpool_limits(limits=1):
        text = report(data_folder(arguments.data), arguments.repeats, arguments.profile)
    print(text)
    RESULTS.write_text(text)


def report(folder: Path, repeats: int, profile: bool) -> str:
    credit = Setting(load("credit", folder), LogisticRegression(max_iter=1000))
    forests = [
        "| data | columns | estimator | features | rows | batches | model alone, s | explanation, s | ratio | limit |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in ("credit", "brca", "bank"):
        setting = Setting(load(name, folder), RandomForestClassifier(100, random_state=0), n_background=1000)
        forests += against_the_forest(setting, repeats)
    return "\n\n".join(
        [
            f"# Overhead\n\n`python benchmarks/overhead.py`, numpy {np.__version__}, controlshap {cs.__version__}, one "
            f"thread, medians of {repeats} repeats of processor time.",
            "## The paper's settings against plain loops\n\n1000 coalitions of 10 draws, credit data (20 players, 59 "
            "columns), logistic regression, Taylor control; `baseline.py` is the loop.",
            "\n".join(against_loops(credit, repeats, profile)),
            "## A forest of 100 trees: explanation over model alone\n\nUp to 10,000 evaluations, no control; the model "
            "alone sees the same rows in the same batches. Trees of more training rows are deeper and slower.",
            "\n".join(forests),
            "## D matrices of 100 columns",
            "\n".join(matrices_of_100_columns(max(1, repeats // 2))) + "\n",
        ]
    )


if __name__ == "__main__":
    main()
