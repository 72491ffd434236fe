"""Captum on the same module, background and number of evaluations, as one would use it.

Captum replaces absent features by one baseline. A background of M rows is therefore either M baselines of one repeated
row (`ShapleyValueSampling`), or part of the function that is explained: the mean over all M rows, or one row drawn at
random each time (`KernelShap`). The function takes masks of ones and zeros.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


class WeightedLeastSquares:
    """What Captum's KernelShap fits by scikit-learn, for machines without it."""

    def fit(self, train_data: Any, **_: Any) -> dict[str, float]:
        inputs, outputs, weights = (torch.cat(part).double().cpu() for part in zip(*train_data, strict=True))
        design = torch.cat([torch.ones(len(inputs), 1, dtype=torch.float64), inputs], dim=1)
        root = weights.flatten().sqrt()[:, None]
        self.coefficients = torch.linalg.lstsq(design * root, outputs.flatten()[:, None] * root).solution[1:, 0]
        return {"train_time": 0.0}

    def representation(self) -> Any:
        return self.coefficients[None]


def mask_function(module: Any, x: Any, background: Any, *, whole: bool) -> Callable[[Any], Any]:
    """Values of masks `(n, columns)`: the mean over the background, or one background row each."""

    def of_all(masks: Any) -> Any:
        rows = torch.where(masks[:, None] > 0.5, x, background[None])
        return module(rows.flatten(0, 1)).reshape(len(masks), -1).mean(dim=1)

    def of_one(masks: Any) -> Any:
        chosen = background[torch.randint(len(background), (len(masks),), device=masks.device)]
        return module(torch.where(masks > 0.5, x, chosen)).flatten()

    return of_all if whole else of_one


def kernel_shap(module: Any, x: Any, background: Any, budget: int, *, whole: bool) -> np.ndarray:
    from captum.attr import KernelShap

    explainer = KernelShap(mask_function(module, x, background, whole=whole))
    try:
        import sklearn  # noqa: F401
    except ImportError:
        explainer.interpretable_model = WeightedLeastSquares()
    samples = budget // len(background) if whole else budget
    found = explainer.attribute(
        torch.ones_like(x)[None], baselines=0.0, n_samples=samples, perturbations_per_eval=samples,
        return_input_shape=False,
    )  # fmt: skip
    return found.flatten().double().cpu().numpy()


def permutation_sampling(module: Any, x: Any, background: Any, budget: int) -> np.ndarray:
    """Values `(rows, columns)` of rows `(rows, columns)`, all in one call: every row with every background row."""
    from captum.attr import ShapleyValueSampling

    rows, (n, c) = x[:, None].expand(-1, len(background), -1), background.shape
    found = ShapleyValueSampling(lambda inputs: module(inputs).flatten()).attribute(
        rows.flatten(0, 1), baselines=background.repeat(len(x), 1), n_samples=max(1, budget // (n * c)),
        perturbations_per_eval=c if len(x) == 1 else 1,
    )  # fmt: skip
    return found.reshape(len(x), n, c).double().mean(dim=1).cpu().numpy()


def compare(
    module: Any, rows: Any, background: Any, budget: int, truth: np.ndarray, finish: Callable[[], None]
) -> list[dict[str, Any]]:
    """Time and mean squared error of each way, against `truth` of the first rows."""
    some = rows[: len(truth)]
    ways: list[tuple[str, Callable[[], np.ndarray]]] = [
        ("Captum KernelShap, mean over the background",
         lambda: np.stack([kernel_shap(module, x, background, budget, whole=True) for x in some])),
        ("Captum KernelShap, one background row a sample",
         lambda: np.stack([kernel_shap(module, x, background, budget, whole=False) for x in some])),
        ("Captum ShapleyValueSampling, row by row",
         lambda: np.concatenate([permutation_sampling(module, x[None], background, budget) for x in some])),
        (f"Captum ShapleyValueSampling, {len(rows)} rows in one call (with the same permutations)",
         lambda: permutation_sampling(module, rows, background, budget)),
    ]  # fmt: skip
    found = []
    with torch.no_grad():
        permutation_sampling(module, some[:1], background, budget)  # warm
        for name, way in ways:
            torch.manual_seed(0)
            finish()
            began = time.perf_counter()
            values = way()
            finish()
            seconds = (time.perf_counter() - began) / len(values)
            error = float(((values[: len(truth)] - truth) ** 2).mean())
            found.append({"name": name, "seconds_per_row": seconds, "mean_squared_error": error})
    return found
