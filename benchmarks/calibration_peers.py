"""The error figures that other explainers give, held against what happens: lightshap's, and shap's `error_bounds`."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from calibration_cases import MODELS, find_truth, make_model, rows_and_background
from scipy.stats import norm

#: Enough for several rounds over the whole background: nobody's error has to cover a part of it.
BUDGETS = (10_000,)


def available() -> list[str]:
    """Names of what can be measured here."""
    found = [kind for kind, package in (("lightshap kernel", "lightshap"), ("lightshap permutation", "lightshap"),
             ("shap permutation", "shap")) if importlib.util.find_spec(package)]  # fmt: skip
    return [f"{kind}, {model}, {budget:,}" for kind, model, budget in product(found, MODELS, BUDGETS)]


def measure(name: str, replications: int, cache: Path) -> list[dict[str, Any]]:
    """Coverage and reported over observed error of one explainer, with single columns as players.

    Neither knows groups, so that the truth is that of ten players.
    """
    warnings.simplefilter("ignore")
    kind, model_name, told = name.split(", ")
    budget = int(told.replace(",", ""))
    model, (rows, background) = make_model(model_name), rows_and_background("independent")
    truth = _truth(model_name, cache)
    explain: Callable[..., tuple[np.ndarray, np.ndarray]] = {"lightshap": _lightshap, "shap": _shap}[kind.split()[0]]
    squares, variances, covered = (np.zeros(truth.shape) for _ in range(3))
    critical = norm.ppf(0.975)
    for number in range(replications):
        row = number % len(rows)
        values, errors = explain(kind, model, background, rows[row], budget, number)
        squares[row] += (values - truth[row]) ** 2
        variances[row] += errors**2
        covered[row] += np.abs(values - truth[row]) <= critical * errors
    return [{
        "cell": name, "replications": replications, "variance": "own", "peer": kind, "model": model_name,
        "budget": budget, "coverage": float(covered.sum() / (replications * truth.shape[1])),
        "ratio": float(np.median(np.sqrt(variances / squares))), "runs": replications,
    }]  # fmt: skip


def _truth(model: str, cache: Path) -> np.ndarray:
    import controlshap as cs

    file = cache / f"calibration {model} single columns.npy"
    if not file.is_file():
        find_truth(model, "independent", cache)  # makes the folder
        rows, background = rows_and_background("independent")
        found = cs.Explainer(make_model(model), background)(rows, budget=2 ** rows.shape[1] * len(background), rng=0)
        np.save(file, found.values)
    return np.load(file)


def _lightshap(
    kind: str, model: Any, background: np.ndarray, x: np.ndarray, budget: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """As many sampling rounds as the budget pays for; lightshap takes its errors over them."""
    from lightshap import explain_any

    p = len(x)
    if kind.endswith("permutation"):
        each, method = 2 * (p - 1) * len(background), {"method": "permutation", "how": "sampling"}
    else:
        each, method = 2 * p * len(background), {"method": "kernel", "how": "sampling"}
    found = explain_any(
        model, x[None], bg_X=background, max_iter=budget // each, tol=1e-12, random_state=seed, verbose=False,
        **method,
    )  # fmt: skip
    return np.asarray(found.shap_values).reshape(p), np.asarray(found.standard_errors).reshape(p)


def _shap(
    _kind: str, model: Any, background: np.ndarray, x: np.ndarray, budget: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """`shap.explainers.Permutation(error_bounds=True)`: a standard deviation over permutations."""
    import shap

    p = len(x)
    rounds = budget // (2 * p * len(background))
    masker = shap.maskers.Independent(background, max_samples=len(background))
    explainer = shap.explainers.Permutation(model, masker, seed=seed)
    found = explainer(x[None], max_evals=rounds * (2 * p + 1), error_bounds=True, silent=True)
    return np.asarray(found.values).reshape(p), np.asarray(found.error_std).reshape(p)
