"""What rows learn from the rows before them: errors of surrogate="online" by generation, their coverage, and time.

    python benchmarks/generations.py [--data FOLDER] [--only NAME ...] [--rows 63] [--out benchmarks/results]

At 1,000 evaluations a row and 100 background rows, against the default row by row with the same seeds. The truth comes
from a model's own exact form, from all coalitions, or from a run of 20 times the evaluations, whose variance is taken
off mean squares and added to the errors that coverage is judged by. The first 31 rows are explained with further seeds,
so that small generations have something to count. What is learned and how was chosen on the problems that are not
marked as held back. Networks of the paper are left out where their data are not there. Each problem is kept in
`benchmarks/.cache`; the table is of all that are there.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMRegressor
from paper_data import add_data_argument, load, load_network
from scipy.stats import t as student
from sklearn.datasets import load_breast_cancer, load_diabetes, make_friedman1
from sklearn.ensemble import RandomForestRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import controlshap as cs
from controlshap_paper.data import data_folder

BUDGET, N_BACKGROUND, LONG = 1_000, 100, 20
#: Rows that are explained with further seeds, and how many of these.
FIRST_ROWS, SEEDS = 31, 3
CACHE = Path(__file__).parent / ".cache" / "generations"


@dataclass(frozen=True)
class Case:
    """A model as a bare function, rows to explain, background, and how the truth is found."""

    predict: Callable[[Any], Any]
    X: Any
    background: Any
    exact: Any = None
    groups: Any = None
    features: str = "independent"


def _split(X: Any, seed: int = 0) -> tuple[Any, Any]:
    order = np.random.default_rng(seed).permutation(len(X))
    return X[order[N_BACKGROUND:]], X[order[:N_BACKGROUND]]


def _of_paper(name: str, folder: Path | None, features: str = "independent") -> Case | None:
    if folder is None:
        return None
    data, network = load(name, folder), load_network(name, folder)
    order = np.random.default_rng(0).permutation(len(data.X_train))
    rows = np.concatenate([data.X_test, data.X_train[order[N_BACKGROUND:]]])
    return Case(network, rows, data.X_train[order[:N_BACKGROUND]], groups=data.several, features=features)


def _diabetes(model: Any, *, exact: bool) -> Case:
    X, y = load_diabetes(return_X_y=True)
    fitted = model.fit(X, y)
    rows, background = _split(X)
    return Case(lambda r: fitted.predict(r), rows, background, exact=fitted if exact else None)


def _cancer() -> Case:
    X, y = load_breast_cancer(return_X_y=True)
    fitted = make_pipeline(StandardScaler(), SVR(C=10.0)).fit(X, y)
    rows, background = _split(X)
    return Case(lambda r: fitted.predict(r), rows, background, exact=fitted)


def _friedman() -> Case:
    X, y = make_friedman1(2_000, n_features=12, random_state=0)
    fitted = RandomForestRegressor(100, max_depth=8, random_state=0).fit(X, y)
    rows, background = _split(X)
    return Case(lambda r: fitted.predict(r), rows, background, exact=fitted)


def _waved() -> Case:
    X = np.random.default_rng(0).normal(size=(600, 10))
    rows, background = _split(X)

    def model(r: Any) -> Any:
        return (
            np.sin(r[:, 0] + r[:, 1] * r[:, 2]) + np.tanh(r[:, 3] * r[:, 4] - r[:, 5]) * r[:, 6] + 0.3 * r.sum(axis=1)
        )

    return Case(model, rows, background)


def _network() -> MLPRegressor:
    return make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=(32, 32), alpha=1.0, max_iter=3000, random_state=0)
    )


#: Name, whether it was held back, and how it is made.
PROBLEMS: dict[str, tuple[bool, Callable[[Path | None], Case | None]]] = {
    "credit network": (False, lambda folder: _of_paper("credit", folder)),
    "bank network": (False, lambda folder: _of_paper("bank", folder)),
    "census network": (False, lambda folder: _of_paper("census", folder)),
    "sines and products": (False, lambda _: _waved()),
    "diabetes, 2 layers": (True, lambda _: _diabetes(_network(), exact=False)),
    "diabetes, boosting": (True, lambda _: _diabetes(LGBMRegressor(n_estimators=100, verbose=-1), exact=True)),
    "cancer, RBF machine": (True, lambda _: _cancer()),
    "Friedman, forest": (True, lambda _: _friedman()),
    "brca network": (True, lambda folder: _of_paper("brca", folder)),
    "bank network, correlated": (True, lambda folder: _of_paper("bank", folder, "correlated")),
}


def find_truth(case: Case, n_rows: int) -> tuple[Any, Any]:
    """Values, and the variances that they have where they come from a long run."""
    X = case.X[:n_rows]
    if case.exact is not None:
        found = cs.Explainer(case.exact, case.background, groups=case.groups)(X)
        assert set(found.status) == {"exact"}, found.status
        return found.values, np.zeros(found.values.shape)
    explainer = cs.Explainer(case.predict, case.background, case.features, groups=case.groups)
    few = explainer.players.n_players <= 10 and case.features == "independent"
    budget = 1 + N_BACKGROUND * 2**explainer.players.n_players if few else LONG * BUDGET
    found = explainer(X, budget=budget, rng=10_000, keep=False)
    return found.values, found.standard_errors**2


def measure(case: Case, n_rows: int) -> dict[str, Any]:
    """Squared errors and coverage by generation, with seconds, of both ways."""
    n_rows = min(n_rows, len(case.X))
    truth, extra = find_truth(case, n_rows)
    explainer = cs.Explainer(case.predict, case.background, case.features, groups=case.groups)
    explainer(case.X[:2], budget=BUDGET, rng=0)
    squares: dict[str, list[Any]] = {"alone": [], "online": []}
    covered, seconds, numbers = [], {}, []
    for seed in range(1 + SEEDS):
        n = n_rows if seed == 0 else min(FIRST_ROWS, n_rows)
        for kind in squares:
            began = time.process_time()
            surrogate = "online" if kind == "online" else None
            found = explainer(case.X[:n], budget=BUDGET, rng=seed, keep=False, surrogate=surrogate)
            seconds.setdefault(kind, time.process_time() - began)
            gaps = found.values - truth[:n]
            squares[kind].append((gaps**2 - extra[:n]).mean(axis=1))
            if kind == "online":
                reach = student.ppf(0.975, found.degrees_of_freedom) * np.sqrt(found.standard_errors**2 + extra[:n])
                covered.append(np.abs(gaps) <= reach + 1e-9 * np.abs(truth).max())
        numbers.append(np.arange(n))
    number = np.floor(np.log2(np.concatenate(numbers) + 1)).astype(int)
    inside = np.concatenate(covered)
    alone, online = (np.concatenate(squares[kind]) for kind in ("alone", "online"))
    last = slice(15, n_rows)
    return {
        "rows": n_rows,
        "players": explainer.players.n_players,
        "ratios": [float(alone[number == g].mean() / online[number == g].mean()) for g in range(number.max() + 1)],
        "coverage": [float(inside[number == g].mean()) for g in range(number.max() + 1)],
        "counts": [int((number == g).sum()) for g in range(number.max() + 1)],
        "ratio": float(squares["alone"][0].mean() / squares["online"][0].mean()),
        "later": float(squares["alone"][0][last].mean() / squares["online"][0][last].mean()),
        "worst_player": float(inside.mean(axis=0).min()),
        "covered": float(inside.mean()),
        "seconds": {kind: round(s / n_rows, 4) for kind, s in seconds.items()},
    }


def write_table(out: Path) -> None:
    """The table of all problems that are kept."""
    found = {name: json.loads(_kept(name).read_text()) for name in PROBLEMS if _kept(name).is_file()}
    n = max(len(one["ratios"]) for one in found.values())
    head = [f"{2**g - 1} to {2 ** (g + 1) - 2}" for g in range(n)]
    lines = [
        "# Learning across rows",
        "",
        "Printed by `python benchmarks/generations.py`: 1,000 evaluations a row, 100 background rows; * marks problems "
        "that were held back.",
        "",
        'Mean squared error of the default, row by row, over that of `surrogate="online"`, by number of the row:',
        "",
        "| problem | players | rows | "
        + " | ".join(head)
        + " | all | from row 15 on | own seconds a row, alone and online |",
        "|---" * (n + 6) + "|",
    ]
    for name, one in found.items():
        marked = name + (" *" if PROBLEMS[name][0] else "")
        ratios = " | ".join(f"{r:.2f}" for r in one["ratios"]) + " |" * (n - len(one["ratios"]))
        times = f"{one['seconds']['alone']:.3f}, {one['seconds']['online']:.3f}"
        numbers = f"{ratios} | {one['ratio']:.2f} | {one['later']:.2f}"
        lines.append(f"| {marked} | {one['players']} | {one['rows']} | {numbers} | {times} |")
    medians = [float(np.median([one[key] for one in found.values()])) for key in ("ratio", "later")]
    held = [one for name, one in found.items() if PROBLEMS[name][0]]
    lines += [
        "",
        f"The median problem has {medians[0]:.2f} over all rows, {medians[1]:.2f} from row 15 on"
        + (f" (held back: {np.median([one['later'] for one in held]):.2f})" if held else "")
        + f"; the worst has {min(one['ratio'] for one in found.values()):.2f}.",
        "",
        "How often intervals of 95 % hold the true value, in percent (the first 31 rows with four seeds):",
        "",
        "| problem | " + " | ".join(head) + " | all | worst player |",
        "|---" * (n + 3) + "|",
    ]
    for name, one in found.items():
        marked = name + (" *" if PROBLEMS[name][0] else "")
        shares = " | ".join(f"{100 * c:.1f}" for c in one["coverage"]) + " |" * (n - len(one["coverage"]))
        lines.append(f"| {marked} | {shares} | {100 * one['covered']:.1f} | {100 * one['worst_player']:.1f} |")
    (out / "generations.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def _kept(name: str) -> Path:
    return CACHE / f"{name.replace(' ', '_').replace(',', '')}.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_argument(parser)
    parser.add_argument("--only", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--rows", type=int, default=63)
    parser.add_argument("--fresh", action="store_true", help="measure again what is kept")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = data_folder(arguments.data)
    CACHE.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        if _kept(name).is_file() and not arguments.fresh:
            continue
        case = PROBLEMS[name][1](folder)
        if case is None:
            print(f"{name}: left out, the paper's data are not there")
            continue
        _kept(name).write_text(json.dumps(measure(case, arguments.rows)))
        print(name, _kept(name).read_text(), flush=True)
    write_table(arguments.out)


if __name__ == "__main__":
    main()
