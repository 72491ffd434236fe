"""`explain_on_device`: all rows of a torch module at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch

from controlshap._errors import BudgetTooSmallError, InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.controls.d_matrices import DMatrices, d_matrices
from controlshap.controls.taylor import Taylor
from controlshap.engine.device.enumeration import enumerate_on_device
from controlshap.engine.device.evaluation import (
    TERM_COPIES,
    TERMS_SHARE,
    Evaluator,
    free_bytes,
    most_rows,
)
from controlshap.engine.device.result import DeviceResult
from controlshap.engine.device.rows import Conditioner
from controlshap.engine.device.support import control_name, is_enumerated
from controlshap.engine.device.together import evaluate_rows, explain_group
from controlshap.engine.device.visits import Visits
from controlshap.engine.device.walks import Ground
from controlshap.models.torch_module import evaluation_mode
from controlshap.problem import Problem
from controlshap.values.gaussian import GaussianImputer
from controlshap.values.marginal import MarginalImputer


def explain_on_device(
    module: Any,
    rows: FloatArray,
    imputer: MarginalImputer | GaussianImputer,
    *,
    budget: int,
    entropy: int,
    control: Literal["auto", "none", "taylor"] = "auto",
    coefficient: Literal["auto", "units", "folds"] = "auto",
    closes_sum: bool = True,
    at_background: FloatArray | None = None,
    cache: dict[str, Any] | None = None,
    device: str | None = None,
    chunk_rows: int | None = None,
    first_row: int = 0,
) -> DeviceResult:
    """Shapley values of many rows by paired walks, on the device of the module.

    Parameters
    ----------
    module : torch.nn.Module
        Called in evaluation mode, without gradients, on its own device and in its own type.
    rows : ndarray of shape (rows, columns)
    imputer : MarginalImputer or GaussianImputer
        The value function, bound to background and players.
    budget : int
        Most evaluations of each row.
    entropy : int
        Where random numbers start; results do not depend on `chunk_rows`, and on the device only by rounding.
    control : {"auto", "none", "taylor"}
        "auto" is "taylor" for a Gaussian, and "none" for independent features, where a pair of walks integrates a
        quadratic function by itself.
    coefficient, closes_sum
        As for `Explainer` and `Permutation`.
    at_background : ndarray of shape (n, outputs), optional
        The module on the imputer's finite draws (at its center, where draws are random), where it is known already.
    cache : dict, optional
        Of the explainer; keeps the D matrices.
    device : str, optional
        Where the module is expected to be; it is never moved.
    chunk_rows : int, optional
        Rows that go through the module at once; halved when memory runs out.
    first_row : int
        Number of the first row, for random numbers and errors.
    """
    evaluator = Evaluator.of(module, device)
    p = imputer.players.n_players
    finite = imputer.finite_draws is not None
    cost = 2 * (p - 1) + (0 if finite else 1)
    n_units = _affordable(budget, cost, p)
    replaced = imputer.with_replacement
    uses_taylor = control == "taylor" or (control == "auto" and isinstance(imputer, GaussianImputer))
    if uses_taylor:
        _refuse_missing(rows, imputer)
    with evaluation_mode(module), torch.no_grad():
        ground = _ground(evaluator, imputer, n_units, entropy, at_background, replaced=replaced)
        matrices = _matrices(imputer, cache) if uses_taylor else None
        parts: list[dict[str, Any]] = []
        n_outputs = ground.evaluator.n_outputs or 1
        chunk = _first_chunk(chunk_rows, ground, n_outputs, uses_taylor)
        for start, stop in _groups(len(rows), ground, n_outputs, uses_taylor):
            part, chunk = explain_group(
                ground, imputer, rows[start:stop], first_row + start, chunk, matrices,
                uses_taylor=uses_taylor, closes_sum=closes_sum, by_folds=coefficient != "units",
            )  # fmt: skip
            parts += part
    joined: dict[str, Any] = {
        name: None if parts[0][name] is None else np.concatenate([part[name] for part in parts]) for name in parts[0]
    }
    return DeviceResult(
        **joined,
        n_evaluations=1 + n_units * cost,
        n_units=n_units,
        complete=finite and ground.visits.share >= 1.0,
        control="Taylor" if uses_taylor else "",
        device=str(evaluator.device),
        dtype=str(evaluator.dtype).removeprefix("torch."),
        chunk_rows=chunk * cost,
    )


def explain_problem(
    problem: Problem,
    rows: FloatArray,
    *,
    budget: int,
    entropy: int,
    device: str | None = None,
    chunk_rows: int | None = None,
    first_row: int = 0,
) -> DeviceResult:
    """With the settings of an explainer and what it keeps; `wants_device` has said that they fit.

    Exact by enumeration where estimator="auto" and the budget covers all coalitions with the whole background.
    """
    imputer = problem.imputer
    if not isinstance(imputer, (MarginalImputer, GaussianImputer)):
        raise TypeError(f"no rows of {type(imputer).__name__} on the device")
    at_background = problem.base.values[:, :, 0]
    if isinstance(imputer, MarginalImputer) and is_enumerated(problem, budget):
        return enumerate_on_device(
            problem.model.source, rows, imputer, at_background=at_background, device=device, chunk_rows=chunk_rows,
            first_row=first_row,
        )  # fmt: skip
    return explain_on_device(
        problem.model.source,
        rows,
        imputer,
        budget=budget,
        entropy=entropy,
        control=control_name(problem),
        coefficient=problem.coefficient,
        closes_sum=True if problem.estimator is None else problem.estimator.efficient,
        at_background=at_background,
        cache=problem.cache,
        device=device,
        chunk_rows=chunk_rows,
        first_row=first_row,
    )


def _affordable(budget: int, cost: int, p: int) -> int:
    if p < 2:
        raise InvalidArgumentError("`explain_on_device` needs two players or more; one has f(x) - v(0).")
    n_units = (budget - 1) // cost
    if n_units < 2:
        needed = 1 + 2 * cost
        raise BudgetTooSmallError(
            f"`budget` must be at least {needed} evaluations a row for {p} players with Permutation (1 for the row, "
            f"2 units of {cost}); got {budget}.",
            needed,
        )
    return n_units


def _refuse_missing(rows: FloatArray, imputer: MarginalImputer | GaussianImputer) -> None:
    background = imputer.finite_draws
    if not np.isfinite(rows).all() or (background is not None and not np.isfinite(background).all()):
        raise InvalidArgumentError(
            "`control='taylor'` needs finite rows and a finite background, but there are missing values. "
            "Use control='none', or impute them."
        )


def _matrices(imputer: MarginalImputer | GaussianImputer, cache: dict[str, Any] | None) -> DMatrices | None:
    """Those of the explainer, made once."""
    if not isinstance(imputer, GaussianImputer):
        return None
    cache = {} if cache is None else cache
    found = cache.get("d_matrices")
    if not isinstance(found, DMatrices):
        taylor = Taylor()
        found = cache["d_matrices"] = d_matrices(imputer, taylor.n_permutations, taylor.seed)
    return found


def _ground(
    evaluator: Evaluator,
    imputer: MarginalImputer | GaussianImputer,
    n_units: int,
    entropy: int,
    at_background: FloatArray | None,
    *,
    replaced: bool,
) -> Ground:
    """Everything that explained rows share, on the device; the background is evaluated unless it is known."""
    device = evaluator.device
    conditioner = Conditioner.of(imputer, device) if isinstance(imputer, GaussianImputer) else None
    finite = imputer.finite_draws
    draws = torch.as_tensor(imputer.center[None] if finite is None else finite, dtype=torch.float64, device=device)
    if at_background is not None:
        at_draws = torch.as_tensor(at_background, dtype=torch.float64, device=device)
    else:
        at_draws = evaluate_rows(evaluator, conditioner, draws, "background row", 0)
    evaluator = Evaluator(evaluator.module, device, evaluator.dtype, int(at_draws.shape[1]))
    visits = Visits.independent(n_units) if finite is None or replaced else Visits.in_cycles(len(finite), n_units)
    owner = torch.as_tensor(imputer.players.owner, device=device)
    if finite is None:
        draws = at_draws = None
    return Ground(evaluator, owner, imputer.players.n_players, draws, at_draws, conditioner, visits, replaced, entropy)


def _first_chunk(chunk_rows: int | None, ground: Ground, n_outputs: int, control: bool) -> int:
    """Units to evaluate at once."""
    columns = len(ground.owner)
    doubles = (2 if control or ground.conditioner else 1) * columns * (4 if ground.conditioner else 1) + 6 * n_outputs
    return max(1, most_rows(chunk_rows, ground.evaluator.device, doubles) // ground.unit_cost)


def _groups(n_rows: int, ground: Ground, n_outputs: int, control: bool) -> Iterator[tuple[int, int]]:
    """Explained rows whose terms fit together into memory, with what the analysis makes of them."""
    doubles = ground.visits.n_units * (ground.n_players + 1) * n_outputs * (2 if control else 1) * TERM_COPIES
    doubles += 4 * len(ground.draws) if ground.finite else 0
    step = max(1, int(TERMS_SHARE * free_bytes(ground.evaluator.device) // (8 * doubles)))
    for start in range(0, n_rows, step):
        yield start, min(n_rows, start + step)
