"""`explain_on_device`: all rows of a torch module at once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
import torch

from controlshap._arrays import concat
from controlshap._errors import BudgetTooSmallError, InvalidArgumentError, NotConvergedWarning
from controlshap._types import FloatArray, IntArray
from controlshap.controls.base import EvaluatedRows
from controlshap.controls.d_matrices import EXACT_PLAYERS, DMatrices, d_matrices
from controlshap.controls.ridge import RIDGE
from controlshap.controls.shared import SharedSurrogate
from controlshap.controls.taylor import Taylor
from controlshap.crossfitting.fit import FEWEST_UNITS
from controlshap.crossfitting.known_simulated import REPLICATIONS
from controlshap.engine.device.designs import Designs
from controlshap.engine.device.enumeration import enumerate_on_device
from controlshap.engine.device.evaluation import (
    TERM_COPIES,
    TERMS_SHARE,
    DeviceEvaluator,
    evaluate_rows,
    free_bytes,
    most_rows,
)
from controlshap.engine.device.result import DeviceResult
from controlshap.engine.device.rows import Conditioner
from controlshap.engine.device.stages import Method, explain_group
from controlshap.engine.device.support import control_name, is_enumerated
from controlshap.engine.device.surrogate import DeviceWaves
from controlshap.engine.device.walks import DeviceData
from controlshap.estimators import Estimator, Kernel, Permutation
from controlshap.models.torch_module import evaluation_mode
from controlshap.problem import Problem
from controlshap.statistics.stopping import Stopping
from controlshap.values.base import Imputer
from controlshap.values.gaussian import GaussianImputer
from controlshap.values.normal_parts import NormalParts
from controlshap.variances import Analytic, LeastSquares


def explain_on_device(
    module: Any,
    rows: FloatArray,
    imputer: Imputer,
    *,
    stopping: Stopping,
    entropy: int,
    control: Literal["auto", "none", "taylor", "ridge"] = "auto",
    by_coalitions: bool = False,
    surrogate: SharedSurrogate | None = None,
    coefficient: Literal["auto", "units", "folds"] = "auto",
    efficient: bool = True,
    at_background: FloatArray | None = None,
    cache: dict[str, Any] | None = None,
    device: str | None = None,
    chunk_rows: int | None = None,
    first_row: int = 0,
    n_shared: int = 0,
) -> DeviceResult:
    """Shapley values of many rows by paired walks or KernelSHAP, on the device of the module.

    Parameters
    ----------
    module : torch.nn.Module
        Called in evaluation mode, without gradients, on its own device and in its own type.
    rows : ndarray of shape (rows, columns)
    imputer : Imputer
        The value function, bound to background and players; it has rows that a device can make.
    stopping : Stopping
        Most evaluations of each row, and what to stop for before.
    entropy : int
        Where random numbers start; results do not depend on `chunk_rows`, and on the device only by rounding.
    control : {"auto", "none", "taylor", "ridge"}
        "auto" is "taylor" for a Gaussian, "ridge" for coalitions, and "none" for walks with independent features,
        where a pair of walks integrates a quadratic function by itself.
    by_coalitions : bool
        Whether units are pairs of coalitions, each with one background row (`Kernel()`).
    surrogate : SharedSurrogate or None
        The control that "auto" takes instead, with a form for devices.
    coefficient, efficient
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
    n_shared : int
        Evaluations that each row hands back, for later ones to learn from.
    """
    evaluator = DeviceEvaluator.of(module, device)
    shared = surrogate if control == "auto" else None
    uses_taylor = control == "taylor" or (control == "auto" and shared is None and not imputer.mixes_columns)
    estimator: Estimator = Kernel() if by_coalitions else Permutation()
    n_units = _affordable(stopping.budget, imputer, estimator)
    fits = control == "ridge" or (control == "auto" and by_coalitions)
    fits = fits and n_units >= FEWEST_UNITS
    if uses_taylor or shared is not None or fits:
        _refuse_missing(rows, imputer)
    with evaluation_mode(module), torch.no_grad():
        common = make_data(evaluator, imputer, entropy, at_background, shared)
        common = replace(common, by_coalitions=by_coalitions, fits=fits, n_shared=n_shared)
        method = Method(
            imputer, uses_taylor, _matrices(imputer, cache, uses_taylor=uses_taylor, shared=shared), efficient,
            coefficient != "units", stopping, n_units, LeastSquares() if by_coalitions else Analytic(),
            _designs(common, imputer, at_background, n_units),
            _fewest(estimator, imputer) if by_coalitions else FEWEST_UNITS if fits else 2,
        )  # fmt: skip
        n_outputs = common.evaluator.n_outputs or 1
        chunk = _first_chunk(chunk_rows, common, n_outputs, uses_taylor)
        parts = []
        for start, stop in _groups(len(rows), common, method, n_outputs):
            part, chunk = explain_group(common, method, rows[start:stop], first_row + start, chunk)
            parts.append(part)
    arrays: dict[str, Any] = {name: concat([part[name] for part in parts], axis=0) for name in parts[0]}
    converged, used, alpha = (arrays.pop(name) for name in ("converged", "n_units", "alpha"))
    inputs, outputs = (arrays.pop(name, None) for name in ("shared_inputs", "shared_outputs"))
    stages, name = method.stages, _name_control(uses_taylor=uses_taylor, fits=fits, shared=shared)
    controls = [f"{name} {mean:.2f}" for mean in alpha.mean(axis=(1, 2))] if name else [""] * len(rows)
    until = {n: tuple(stage for stage in stages if stage <= n) for n in set(used.tolist())}
    result = DeviceResult(
        **arrays,
        n_evaluations=1 + used * common.unit_cost,
        status=np.where(converged, "converged", "budget reached"),
        method=np.full(len(rows), " + ".join([type(estimator).__name__, *([name] if name else [])])),
        controls=np.array(controls),
        alpha_fraction=np.full(len(rows), method.alpha_fraction),
        stages=tuple(until[n] for n in used.tolist()),
        device=str(evaluator.device),
        dtype=str(evaluator.dtype).removeprefix("torch."),
        chunk_rows=chunk * common.unit_cost,
        evaluated=None if inputs is None else EvaluatedRows(np.concatenate(inputs), np.concatenate(outputs)),
    )
    if stopping.looks and not converged.all():
        _warn_unfinished(result, stopping, first_row + np.flatnonzero(~converged))
    return result


def explain_problem(
    problem: Problem,
    rows: FloatArray,
    *,
    stopping: Stopping,
    entropy: int,
    device: str | None = None,
    chunk_rows: int | None = None,
    first_row: int = 0,
    n_shared: int = 0,
) -> DeviceResult:
    """`explain_on_device` with the settings and the cache of an explainer, which fit by `wants_device`.

    Exact by enumeration where estimator="auto" and the budget covers all coalitions with the whole background.
    """
    imputer = problem.imputer
    at_background = problem.base.values[:, :, 0]
    if imputer.mixes_columns and is_enumerated(problem, stopping):
        return enumerate_on_device(
            problem.model.source, rows, imputer, at_background=at_background, device=device, chunk_rows=chunk_rows,
            first_row=first_row,
        )  # fmt: skip
    return explain_on_device(
        problem.model.source,
        rows,
        imputer,
        stopping=stopping,
        entropy=entropy,
        control=control_name(problem),
        by_coalitions=problem.estimator is not None and problem.estimator.is_least_squares,
        surrogate=problem.shared,
        coefficient=problem.coefficient,
        efficient=True if problem.estimator is None else problem.estimator.efficient,
        at_background=at_background,
        cache=problem.cache,
        device=device,
        chunk_rows=chunk_rows,
        first_row=first_row,
        n_shared=n_shared,
    )


def _name_control(*, uses_taylor: bool, fits: bool, shared: SharedSurrogate | None) -> str:
    """The name of the control, empty for none."""
    if uses_taylor or fits:
        return "Taylor" if uses_taylor else type(RIDGE).__name__
    return "" if shared is None else type(shared).__name__


def _fewest(estimator: Estimator, imputer: Imputer) -> int:
    """Fewest units of a row: two, for an error; as many as a regression needs."""
    return max(2, estimator.fewest_units(imputer.players.n_players))


def _affordable(budget: int, imputer: Imputer, estimator: Estimator) -> int:
    """Units that a budget pays for."""
    p, fewest = imputer.players.n_players, _fewest(estimator, imputer)
    if p < 2:
        raise InvalidArgumentError("`explain_on_device` needs two players or more; one has f(x) - v(0).")
    cost = estimator.unit_cost(p, finite=imputer.finite_draws is not None)
    n_units = (budget - 1) // cost
    if n_units < fewest:
        needed = 1 + fewest * cost
        raise BudgetTooSmallError(
            f"`budget` must be at least {needed} evaluations a row for {p} players with {type(estimator).__name__} "
            f"(1 for the row, {fewest} units of {cost}); got {budget}.",
            needed,
        )
    return n_units


def _refuse_missing(rows: FloatArray, imputer: Imputer) -> None:
    background = imputer.finite_draws
    if not np.isfinite(rows).all() or (background is not None and not np.isfinite(background).all()):
        raise InvalidArgumentError(
            "The control needs finite rows and a finite background, but there are missing values. "
            "Use control='none', or impute them."
        )


def _warn_unfinished(result: DeviceResult, stopping: Stopping, rows: IntArray) -> None:
    """Warn of rows that did not reach their goals, with the way out."""
    others = f" and {len(rows) - 1} others" if len(rows) > 1 else ""
    largest = np.sqrt(result.variances[:, :-1]).max()
    warnings.warn(
        f"Row {rows[0]}{others} spent the budget of {stopping.budget} evaluations before reaching {stopping.goals}; "
        f"the largest standard error is {largest:.3g}. Raise `budget`, or ask for less.",
        NotConvergedWarning,
        stacklevel=3,
    )


def _matrices(
    imputer: Imputer, cache: dict[str, Any] | None, *, uses_taylor: bool, shared: SharedSurrogate | None
) -> DMatrices | None:
    """The D matrices of the explainer for the control of correlated features, made once."""
    if imputer.mixes_columns or not (uses_taylor or shared):
        return None
    cache = {} if cache is None else cache
    if shared is not None and imputer.players.n_players > EXACT_PLAYERS:
        from controlshap.crossfitting.known_gaussian import MOST_PAIRS
        from controlshap.crossfitting.network_walks import score_matrices

        return score_matrices(cast("NormalParts", imputer), 2 * MOST_PAIRS, cache)
    if not isinstance(cache.get("d_matrices"), DMatrices):
        taylor = Taylor()
        cache["d_matrices"] = d_matrices(imputer, taylor.n_permutations, taylor.seed)
    matrices: DMatrices = cache["d_matrices"]
    return matrices


def make_data(
    evaluator: DeviceEvaluator,
    imputer: Imputer,
    entropy: int,
    at_background: FloatArray | None,
    shared: SharedSurrogate | None = None,
) -> DeviceData:
    """Everything that explained rows share, on the device; the background is evaluated unless it is known."""
    device = evaluator.device
    conditioner = None if imputer.mixes_columns else Conditioner.of(cast("GaussianImputer", imputer), device)
    replaced = imputer.with_replacement
    finite = imputer.finite_draws
    draws = torch.as_tensor(imputer.center[None] if finite is None else finite, dtype=torch.float64, device=device)
    if at_background is not None:
        at_draws = torch.as_tensor(at_background, dtype=torch.float64, device=device)
    else:
        at_draws = evaluate_rows(evaluator, conditioner, draws, "background row", 0)
    evaluator = DeviceEvaluator(evaluator.module, device, evaluator.dtype, int(at_draws.shape[1]))
    owner = torch.as_tensor(imputer.players.owner, device=device)
    if finite is None:
        draws = at_draws = None
    surrogate = None if shared is None else DeviceWaves.of(shared, device, evaluator.dtype)
    return DeviceData(
        evaluator, owner, imputer.players.n_players, draws, at_draws, conditioner, replaced, entropy, None, surrogate
    )


def _designs(common: DeviceData, imputer: Imputer, at_background: FloatArray | None, n_units: int) -> Designs | None:
    """The changes of the model that decide which background rows are taken all; None where none can be."""
    if not common.in_cycles or len(common.draws) < 2:
        return None
    known = common.at_draws.cpu().numpy() if at_background is None else np.asarray(at_background, dtype=float)
    return Designs(cast("FloatArray", imputer.finite_draws), known, imputer.players, n_units)


def _first_chunk(chunk_rows: int | None, common: DeviceData, n_outputs: int, control: bool) -> int:
    """Units to evaluate at once."""
    columns = len(common.owner)
    doubles = (2 if control or common.conditioner else 1) * columns * (4 if common.conditioner else 1) + 6 * n_outputs
    return max(1, most_rows(chunk_rows, common.evaluator.device, doubles) // common.unit_cost)


def _groups(n_rows: int, common: DeviceData, method: Method, n_outputs: int) -> Iterator[tuple[int, int]]:
    """Explained rows whose terms fit together into memory, with what the analysis makes of them."""
    n_functions = 1 + method.uses_taylor + common.n_controls
    doubles = method.n_units * (common.n_players + 1) * n_outputs * n_functions * TERM_COPIES
    doubles += (4 + len(common.owner)) * len(common.draws) if common.finite else 0
    if common.keeps:
        doubles += 3 * method.n_units * common.unit_cost * n_outputs
    if common.fits:
        doubles += 16 * len(common.draws) * common.n_players * n_outputs * RIDGE.n_folds
    if common.surrogate is not None:  # and what is known of it for each row
        n_known = len(common.draws) if common.finite else REPLICATIONS
        doubles += 4 * n_known * (common.n_players + 1) * n_outputs
    step = max(1, int(TERMS_SHARE * free_bytes(common.evaluator.device) // (8 * doubles)))
    for start in range(0, n_rows, step):
        yield start, min(n_rows, start + step)
