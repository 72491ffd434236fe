"""Which explanations the device path can make. Does not import torch."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.controls.ridge import LogisticRidge
from controlshap.controls.taylor import Taylor
from controlshap.crossfitting.known_marginal import MOST_ROWS
from controlshap.engine.choice import choose_estimator
from controlshap.engine.plan import Plan, make_plan
from controlshap.estimators import Permutation
from controlshap.models.model import is_torch_module
from controlshap.problem import Problem
from controlshap.statistics.stopping import Stopping

if TYPE_CHECKING:
    from controlshap.controls.base import Control
    from controlshap.controls.shared import SharedSurrogate


#: Said of other models.
NO_MODULE = "the model is not a torch module whose inputs are the columns themselves (numbers without gaps)"


def why_not(problem: Problem, stopping: Stopping, keep: bool | None = None, n_jobs: int = 1) -> str | None:
    """A short reason against the device path for these settings; None where there is none."""
    if not is_torch_module(problem.model.source):
        return NO_MODULE
    if n_jobs != 1:
        return "`n_jobs` spreads the rows over processes"
    if stopping.online and problem.shared is not None:
        return "`surrogate='online'` goes on from a function that was fitted before"
    if stopping.time_limit is not None:
        return "`time_limit` is for each row alone"
    if keep:
        return "`keep=True` is to keep what the model said"
    if stopping.staged:
        return "`history=True` looks at each row after stages"
    if stopping.output_range is not None:
        return "`guarantee='finite'` needs the terms of each unit"
    if stopping.interactions:
        return "`interactions=2` needs what units evaluated"
    against = _against_problem(problem) or _against_estimator(problem, stopping) or _against_control(problem)
    return against or (_against_learning(problem) if stopping.online else None)


def _against_learning(problem: Problem) -> str | None:
    """Why rows do not learn from each other there."""
    if problem.estimator is not None and problem.estimator.is_least_squares:
        return "KernelSHAP has a ridge there, and no other control"
    return _against_features(problem)


def _against_problem(problem: Problem) -> str | None:
    if problem.players.n_players < 2:
        return "one player needs no sampling"
    if problem.players.arrangement is not None:
        return "`order` or `hierarchy` restrict the permutations"
    if not problem.imputer.has_device_rows:
        return f"absent features follow {type(problem.imputer).__name__}"
    if problem.form is not None:
        return "the module has exact values"
    return None


def _against_estimator(problem: Problem, stopping: Stopping) -> str | None:
    estimator, variance = problem.estimator, problem.variance
    if is_enumerated(problem, stopping) and problem.correlated:
        return "coalitions of conditioned features are enumerated"
    if estimator is not None and not estimator.has_device_form:
        return f"the estimator is {estimator!r}, not Permutation() or Kernel()"
    kernel = estimator is not None and estimator.is_least_squares
    if variance is not None and not (variance.has_device_form and variance.is_least_squares == kernel):
        return f"the variance is {variance!r}, not {'LeastSquares' if kernel else 'Analytic'}()"
    if kernel and not problem.imputer.mixes_columns:
        return "KernelSHAP of conditioned features draws a base value for each row"
    return None


def _against_control(problem: Problem) -> str | None:
    controls = problem.controls
    if controls is not None and not all(control.has_device_form for control in controls):
        return f"the control is {controls!r}, not 'auto', 'ridge', 'taylor' or 'none'"
    if controls is not None and len(controls) > 1:
        return "there is more than one control"
    if problem.refits is not None:
        return "errors of the distribution need fitted functions"
    if controls is None and problem.seconds == np.inf:
        return "control='thorough' fits functions to each row"
    kernel = problem.estimator is not None and problem.estimator.is_least_squares
    if kernel and (problem.shared is not None or control_name(problem) == "taylor"):
        return "KernelSHAP has a ridge there, and no other control"
    if control_name(problem) == "ridge" or (kernel and controls is None):
        return _against_ridge(problem)
    return None if problem.shared is None or controls is not None else _against_surrogate(problem, problem.shared)


def _against_ridge(problem: Problem) -> str | None:
    """Why a ridge is not fitted to each row there."""
    if not problem.imputer.mixes_columns or problem.imputer.with_replacement:
        return "a ridge for each row needs independent features and a background in cycles"
    if len(problem.base.rows) > MOST_ROWS:
        return f"the values of a ridge for each row take all of more than {MOST_ROWS} background rows"
    return None


def _against_surrogate(problem: Problem, shared: SharedSurrogate) -> str | None:
    if not all(function.has_device_form for function in shared.functions):
        return "the shared surrogate is not one that was fitted on a device"
    return _against_features(problem)


def _against_features(problem: Problem) -> str | None:
    """Why the values of cosines are not known."""
    if problem.imputer.mixes_columns:
        few = problem.imputer.finite_draws is not None and len(problem.imputer.finite_draws) <= MOST_ROWS
        return None if few else f"the values of a shared surrogate take all of more than {MOST_ROWS} background rows"
    return None if problem.imputer.has_normal_inputs else "the shared surrogate needs draws from a Gaussian"


def is_enumerated(problem: Problem, stopping: Stopping) -> bool:
    """Whether "auto" has all coalitions evaluated."""
    if problem.estimator is not None:
        return False
    return choose_estimator(problem, stopping.design_budget, early=stopping.early).exact_per_draw


def control_name(problem: Problem) -> Literal["auto", "none", "taylor", "ridge"]:
    """The control as `explain_on_device` takes it."""
    if problem.controls is None:
        return "auto"
    if not problem.controls:
        return "none"
    return "ridge" if problem.controls[0].is_fitted else "taylor"


def plan_for_device(problem: Problem, stopping: Stopping) -> tuple[Plan, bool]:
    """The plan of any model, and whether it is a module on a GPU whose rows go there together."""
    if not is_torch_module(problem.model.source) or not _is_on_gpu(problem.model.source):
        return make_plan(problem, stopping), False
    reason = why_not(problem, stopping)
    if reason is not None:
        return _with_note(make_plan(problem, stopping), f"not used, which takes far longer: {reason}"), False
    asked = problem
    if not is_enumerated(problem, stopping):
        problem = replace(problem, estimator=problem.estimator or Permutation(), controls=_controls_there(problem))
    plan = make_plan(problem, stopping)
    reasons = dict(plan.reasons)
    for name in ("estimator", "controls"):
        if getattr(asked, name) is None and name.removesuffix("s") not in reasons:
            reasons[name.removesuffix("s")] = "what the device has"
    learning = ", later ones with what earlier ones taught" if stopping.online else ""
    return _with_note(replace(plan, reasons=reasons), f"all rows at once on the GPU{learning}"), True


def _controls_there(problem: Problem) -> tuple[Control, ...]:
    """The controls of `control_name`."""
    if problem.controls is not None:
        return problem.controls
    if problem.shared is not None:
        return (problem.shared,)
    if problem.estimator is not None and problem.estimator.is_least_squares:
        return (LogisticRidge(),)
    return () if problem.imputer.mixes_columns else (Taylor(),)


def _with_note(plan: Plan, note: str) -> Plan:
    return replace(plan, notes=(*plan.notes, f"device      {note}"))


def learns_on_device(device: Any, problem: Problem, learner: Control | None) -> bool:
    """Whether to fit a shared surrogate on the device; `device` as for `wants_device`."""
    _check_name(device)
    reason: str | None = "a learner is named" if learner is not None else None
    if reason is None and not is_torch_module(problem.model.source):
        reason = NO_MODULE
    if reason is None:
        reason = _against_problem(problem) or _against_features(problem)
    if device is not None and reason is not None:
        raise InvalidArgumentError(
            f"`device={device!r}` fits cosines to a torch module for many rows at once, but {reason}. Leave `device` "
            "out, or change that setting."
        )
    return device is not None or (reason is None and _is_on_gpu(problem.model.source))


def wants_device(device: Any, problem: Problem, stopping: Stopping, keep: bool | None = None, n_jobs: int = 1) -> bool:
    """Whether to take the device path: where the module is on a GPU, or wherever it was asked for.

    `device` is None (a GPU only, and only where the settings allow it), or "cpu" or "cuda" (always; settings that do
    not allow it are an error).
    """
    _check_name(device)
    reason = why_not(problem, stopping, keep, n_jobs)
    if device is not None:
        if reason is not None:
            raise InvalidArgumentError(
                f"`device={device!r}` explains many rows of a torch module at once by paired walks, but {reason}. "
                "Leave `device` out, or change that setting."
            )
        return True
    return reason is None and _is_on_gpu(problem.model.source)


def why_unused(problem: Problem, stopping: Stopping, keep: bool | None, n_jobs: int) -> str | None:
    """Why a module on a GPU is explained row by row; None for other models."""
    on_gpu = is_torch_module(problem.model.source) and _is_on_gpu(problem.model.source)
    return why_not(problem, stopping, keep, n_jobs) if on_gpu else None


def _check_name(device: Any) -> None:
    if device is not None and not (isinstance(device, str) and re.fullmatch(r"(cpu|cuda)(:\d+)?", device)):
        raise InvalidArgumentError(f"`device` must be None, 'cpu' or 'cuda' (or 'cuda:1'); got {device!r}.")


def _is_on_gpu(module: Any) -> bool:
    """Whether the first parameter of a module that is a floating-point number is on a GPU."""
    first = next((one for one in module.parameters() if one.is_floating_point()), None)
    return first is not None and bool(first.device.type == "cuda")
