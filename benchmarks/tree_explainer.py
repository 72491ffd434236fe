"""How far shap's TreeExplainer, and ours, are from the definition: values of trees over a background, by enumeration.

    .venv-peers/bin/python benchmarks/tree_explainer.py

Six columns, so that all 64 coalitions can be listed; 50 background rows, 40 rows to explain, and interventional values
(`feature_perturbation="interventional"`), which are those of the definition with independent features. Prints and
writes results/tree_explainer.md.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import controlshap as cs
from controlshap.testing import marginal_game, shapley_by_definition

RESULTS = Path(__file__).resolve().parent / "results"
N_COLUMNS, N_BACKGROUND, N_ROWS = 6, 50, 40
REGRESSORS = (GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor, ExtraTreesRegressor)
CLASSIFIERS = (GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier)


def data(*, labels: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows and what is to be predicted."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, N_COLUMNS))
    y = 3.0 * X[:, 0] * X[:, 1] + 2.0 * np.sin(2.0 * X[:, 2]) + X[:, 3] * (X[:, 4] > 0) + 0.3 * rng.normal(size=600)
    return X, (y > 0).astype(int) if labels else y


def differences(kind: type) -> tuple[str, float, float, float]:
    """Largest difference from the definition of TreeExplainer's values and of ours, and the largest value."""
    import shap

    labels = kind in CLASSIFIERS
    X, y = data(labels=labels)
    fitted = kind(random_state=0).fit(X, y)
    background, rows = X[:N_BACKGROUND], X[-N_ROWS:]

    def model(some: np.ndarray) -> np.ndarray:
        return fitted.predict_proba(some)[:, 1] if labels else fitted.predict(some)

    columns = [(j,) for j in range(N_COLUMNS)]
    exact = np.array(
        [shapley_by_definition(marginal_game(model, x, background, columns), N_COLUMNS)[:, 0] for x in rows]
    )
    output = "probability" if labels else "raw"
    explainer = shap.TreeExplainer(fitted, background, model_output=output, feature_perturbation="interventional")
    theirs = np.asarray(explainer.shap_values(rows, check_additivity=False))
    theirs = theirs[..., 1] if theirs.ndim == 3 else theirs
    ours = cs.Explainer(fitted, background)(rows, rng=0).values
    ours = ours[..., -1] if ours.ndim == 3 else ours
    return output, np.abs(theirs - exact).max(), np.abs(ours - exact).max(), np.abs(exact).max()


def main() -> None:
    """Measure, print and write the table."""
    warnings.simplefilter("ignore")
    import shap

    lines = [
        "# TreeExplainer and the definition",
        "",
        f"`python benchmarks/tree_explainer.py`, shap {shap.__version__}: {N_COLUMNS} columns, {N_BACKGROUND} "
        f"background rows, {N_ROWS} rows to explain. Largest difference from values by enumeration of the model.",
        "",
        "| model of scikit-learn | output | shap.TreeExplainer | controlshap | largest value |",
        "|---|---|---|---|---|",
    ]
    for kind in (*REGRESSORS, *CLASSIFIERS):
        output, theirs, ours, size = differences(kind)
        lines.append(f"| {kind.__name__} | {output} | {theirs:.2g} | {ours:.1g} | {size:.2g} |")
        print(lines[-1], flush=True)
    (RESULTS / "tree_explainer.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
