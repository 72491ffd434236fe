"""Exact values of trees: our time over that of shap.TreeExplainer and of woodelf-explainer.

    python benchmarks/trees.py [--trees 100 1000] [--background 100 1000 10000] [--rows 1 1000] [--kinds lightgbm ...]

Processor time of one thread, explainers made beforehand and called once before the clock starts; one row alone is the
median of 20 of them. shap (interventional) is timed with 100 background rows, to which its time is proportional, and on
at most 100 rows; woodelf, which keeps nothing between calls, once, on lightgbm with the same background as ours, where
it is installed. `model` is the time of the model's
own `predict` on the rows, which we ask for and the others do not. `ready` is the time that the first call takes more
than the second: background rows are counted then. Gaps are largest differences of values over the largest value.
Writes `results/trees.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import time
import warnings
from pathlib import Path

import numpy as np

import controlshap as cs

RESULTS = Path(__file__).resolve().parent / "results" / "trees.md"
KINDS = ("lightgbm", "xgboost", "forest")
N_COLUMNS, N_TRAIN = 20, 2_000


def make_data(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, N_COLUMNS))
    y = X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + np.sin(3 * X[:, 3]) * X[:, 4] + 0.3 * rng.normal(size=n_rows)
    return X, y


def fit(kind: str, n_trees: int, X: np.ndarray, y: np.ndarray):
    if kind == "lightgbm":
        from lightgbm import LGBMRegressor

        return LGBMRegressor(n_estimators=n_trees, verbose=-1, n_jobs=1).fit(X, y)
    if kind == "xgboost":
        from xgboost import XGBRegressor

        return XGBRegressor(n_estimators=n_trees, n_jobs=1).fit(X, y)
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(n_estimators=n_trees, max_depth=8, random_state=0).fit(X, y)


def timed(call, rows: np.ndarray, *, once: bool = False) -> tuple[float, object]:
    """Seconds a row, and what was returned for all of them; a single row is the median of 20."""
    if len(rows) > 1 or once:
        began = time.process_time()
        result = call(rows)
        return (time.process_time() - began) / len(rows), result
    seconds = []
    for _ in range(20):
        began = time.process_time()
        result = call(rows)
        seconds.append(time.process_time() - began)
    return float(np.median(seconds)), result


def show(number: float, digits: int) -> str:
    return "" if np.isnan(number) else f"{number:.{digits}f}"


def gap_of(values: np.ndarray, others: np.ndarray) -> str:
    return f"{np.abs(values[: len(others)] - others).max() / np.abs(values).max():.0e}"


def woodelf_of(model, background: np.ndarray, n_columns: int):
    """Its values as a function of rows, called once; None where it is not installed."""
    if importlib.util.find_spec("woodelf") is None:
        return None
    import pandas as pd
    from woodelf import WoodelfExplainer

    names = [str(column) for column in range(n_columns)]
    explainer = WoodelfExplainer(model, pd.DataFrame(background, columns=names))

    def explain(rows: np.ndarray) -> np.ndarray:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return np.asarray(explainer.shap_values(pd.DataFrame(rows, columns=names)))

    return explain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--background", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 1000])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import shap

    X, y = make_data(N_TRAIN + max(options.background) + max(options.rows))
    lines = [
        "| model | trees | background | rows | ready, ms | model, ms a row | ours, ms a row | shap at 100, ms a row "
        "| woodelf, ms a row | over shap | over woodelf | gap to shap | gap to woodelf |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind in options.kinds:
        for n_trees in options.trees:
            model = fit(kind, n_trees, X[:N_TRAIN], y[:N_TRAIN])
            theirs = shap.TreeExplainer(model, X[N_TRAIN : N_TRAIN + 100], feature_perturbation="interventional")
            of_shap = {n: timed(theirs.shap_values, X[-n:][:100]) for n in options.rows}
            for n_background in options.background:
                background = X[N_TRAIN : N_TRAIN + n_background]
                explainer = cs.Explainer(model, background)
                woodelf = woodelf_of(model, background, N_COLUMNS) if kind == "lightgbm" else None
                explainer.plan()
                began = time.process_time()
                explainer(X[-1:], rng=0)
                first = time.process_time() - began
                for n in options.rows:
                    rows = X[-n:]
                    ours, explanation = timed(lambda rows, e=explainer: e(rows, rng=0), rows)
                    assert (explanation.status == "exact").all()
                    alone = timed(model.predict, rows)[0]
                    cells = [kind, n_trees, n_background, n, f"{1e3 * (first - ours):.0f}", f"{1e3 * alone:.3f}"]
                    of_woodelf, values = (
                        timed(woodelf, rows, once=True) if woodelf else (np.nan, explanation.values[:0])
                    )
                    cells += [show(1e3 * t, 3) for t in (ours, of_shap[n][0], of_woodelf)]
                    cells += [show(ours / t, 2) for t in (of_shap[n][0], of_woodelf)]
                    same = n_background == 100
                    cells += [gap_of(explanation.values, of_shap[n][1]) if same else ""]
                    cells += [gap_of(explanation.values, values) if len(values) else ""]
                    lines.append("| " + " | ".join(map(str, cells)) + " |")
                    print(lines[-1], flush=True)
    title = (
        f"`python benchmarks/trees.py`, shap {shap.__version__}, numpy {np.__version__}, one thread, processor time."
    )
    RESULTS.write_text("\n".join(["# Exact values of trees", "", title, "", *lines, ""]))


if __name__ == "__main__":
    main()
