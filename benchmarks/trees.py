"""Exact values of trees: our time over that of shap.TreeExplainer, and over our own with fewer background rows.

    python benchmarks/trees.py [--trees 100 1000] [--background 100 1000 10000] [--rows 1 100] [--kinds lightgbm ...]

Processor time of one thread, explainers made beforehand and called once before the clock starts; shap (interventional)
is timed with 100 background rows, to which its time is proportional. `ready` is the time that the first call takes
more than the second: background rows are counted then. `gap` is the largest difference of values over the largest
value.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import controlshap as cs

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


def timed(call) -> tuple[float, object]:
    began = time.process_time()
    result = call()
    return time.process_time() - began, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--background", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 100])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import shap

    X, y = make_data(N_TRAIN + max(options.background) + max(options.rows))
    print(
        "| model | trees | background | rows | ready, ms | ours, ms a row | shap at 100, ms a row | over shap | gap |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for kind in options.kinds:
        for n_trees in options.trees:
            model = fit(kind, n_trees, X[:N_TRAIN], y[:N_TRAIN])
            theirs = shap.TreeExplainer(model, X[N_TRAIN : N_TRAIN + 100], feature_perturbation="interventional")
            of_shap = {n: timed(lambda n=n, t=theirs: t.shap_values(X[-n:])) for n in options.rows}
            for n_background in options.background:
                explainer = cs.Explainer(model, X[N_TRAIN : N_TRAIN + n_background])
                explainer.plan()
                first, _ = timed(lambda e=explainer: e(X[-1:], rng=0))
                for n in options.rows:
                    ours, explanation = timed(lambda e=explainer, n=n: e(X[-n:], rng=0))
                    assert (explanation.status == "exact").all()
                    seconds, values = of_shap[n]
                    gap = np.abs(explanation.values - values).max() / np.abs(values).max()
                    shown = f"{gap:.0e}" if n_background == 100 else ""
                    print(
                        f"| {kind} | {n_trees} | {n_background} | {n} | {1e3 * (first - ours / n):.0f} | "
                        f"{1e3 * ours / n:.2f} | {1e3 * seconds / n:.2f} | {ours / seconds:.2f} | {shown} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
