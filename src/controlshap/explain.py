"""The one-liner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlshap._random import RngLike
from controlshap.explainer import Explainer
from controlshap.explanation import Explanation
from controlshap.progress import ProgressLike


def explain(
    model: Any,
    X: Any,
    background: Any,
    *,
    budget: int | None = None,
    tolerance: float | None = None,
    stop: str | Sequence[str] | None = None,
    level: float = 0.95,
    absolute_tolerance: float | None = None,
    time_limit: float | None = None,
    rng: RngLike = None,
    n_jobs: int = 1,
    keep: bool | None = None,
    history: bool = False,
    device: str | None = None,
    progress: ProgressLike = None,
    **settings: Any,
) -> Explanation:
    """Explain rows of `X` in one call: `Explainer(model, background, **settings)(X, ...)`.

    Parameters
    ----------
    model, X, background
        As for `Explainer` and its call.
    budget, tolerance, stop, level, absolute_tolerance, time_limit, rng, n_jobs, keep, history, device, progress
        As for the call of an `Explainer`.
    **settings
        Arguments of `Explainer`; an unknown one is an error.
    """
    explainer = Explainer(model, background, **settings)
    return explainer(
        X, budget=budget, tolerance=tolerance, stop=stop, level=level, absolute_tolerance=absolute_tolerance,
        time_limit=time_limit, rng=rng, n_jobs=n_jobs, keep=keep, history=history, device=device, progress=progress,
    )  # fmt: skip
