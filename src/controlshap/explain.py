"""The one-liner."""

from __future__ import annotations

from typing import Any

from controlshap._random import RngLike
from controlshap.explainer import Explainer
from controlshap.explanation import Explanation


def explain(
    model: Any,
    X: Any,
    background: Any,
    *,
    budget: int | None = None,
    tolerance: float | None = None,
    rng: RngLike = None,
    n_jobs: int = 1,
    **settings: Any,
) -> Explanation:
    """Explain rows of `X` in one call: `Explainer(model, background, **settings)(X, ...)`.

    Parameters
    ----------
    model, X, background
        As for `Explainer` and its call.
    budget, tolerance, rng, n_jobs
        As for the call of an `Explainer`.
    **settings
        Arguments of `Explainer`; an unknown one is an error.
    """
    explainer = Explainer(model, background, **settings)
    return explainer(X, budget=budget, tolerance=tolerance, rng=rng, n_jobs=n_jobs)
