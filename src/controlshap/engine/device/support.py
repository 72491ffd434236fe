"""Which explanations the device path can make. Does not import torch."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.controls import Taylor
from controlshap.engine.plan import choose_estimator
from controlshap.estimators import Enumeration, Permutation
from controlshap.models.torch_module import is_torch_module
from controlshap.problem import Problem
from controlshap.statistics.stopping import Stopping
from controlshap.values.gaussian import GaussianImputer
from controlshap.values.marginal import MarginalImputer
from controlshap.variances import Analytic


def why_not(problem: Problem, stopping: Stopping, keep: bool | None = None) -> str | None:
    """A short reason against the device path for these settings; None where there is none."""
    if not is_torch_module(problem.model.source):
        return "the model is not a torch module whose inputs are the columns themselves (numbers without gaps)"
    return _against_design(problem, stopping) or _against_call(stopping, keep) or _against_controls(problem)


def _against_design(problem: Problem, stopping: Stopping) -> str | None:
    if problem.players.n_players < 2:
        return "one player needs no sampling"
    if not isinstance(problem.imputer, (MarginalImputer, GaussianImputer)):
        return f"absent features follow {type(problem.imputer).__name__}"
    if problem.form is not None:
        return "the module has exact values"
    estimator = problem.estimator
    if is_enumerated(problem, stopping.budget) and not isinstance(problem.imputer, MarginalImputer):
        return "coalitions of conditioned features are enumerated"
    if estimator is not None and not (
        isinstance(estimator, Permutation) and estimator.paired and estimator.n_draws == 1
    ):
        return f"the estimator is {estimator!r}, not Permutation()"
    if problem.variance is not None and not isinstance(problem.variance, Analytic):
        return f"the variance is {problem.variance!r}, not Analytic()"
    return None


def _against_call(stopping: Stopping, keep: bool | None) -> str | None:
    if stopping.looks or stopping.time_limit is not None:
        return "rows are to stop on their own (`tolerance`, `stop` or `time_limit`)"
    if keep:
        return "`keep=True` is to keep what the model said"
    if stopping.staged:
        return "`history=True` looks at each row after stages"
    return None


def _against_controls(problem: Problem) -> str | None:
    controls = problem.controls
    if controls is not None and not all(isinstance(one, Taylor) and one == Taylor() for one in controls):
        return f"the control is {controls!r}, not 'auto', 'taylor' or 'none'"
    if controls is not None and len(controls) > 1:
        return "there is more than one control"
    if problem.shared is not None:
        return "there is a shared surrogate"
    if controls is None and problem.seconds == np.inf:
        return "control='thorough' fits functions to each row"
    return None


def is_enumerated(problem: Problem, budget: int) -> bool:
    """Whether "auto" has all coalitions evaluated."""
    return problem.estimator is None and isinstance(choose_estimator(problem, budget), Enumeration)


def control_name(problem: Problem) -> Literal["auto", "none", "taylor"]:
    """The control as `explain_on_device` takes it."""
    if problem.controls is None:
        return "auto"
    return "taylor" if problem.controls else "none"


def wants_device(device: Any, problem: Problem, stopping: Stopping, keep: bool | None = None) -> bool:
    """Whether to take the device path: where the module is on a GPU, or wherever it was asked for.

    `device` is None (a GPU only, and only where the settings allow it), or "cpu" or "cuda" (always; settings that do
    not allow it are an error).
    """
    if device is not None and not (isinstance(device, str) and re.fullmatch(r"(cpu|cuda)(:\d+)?", device)):
        raise InvalidArgumentError(f"`device` must be None, 'cpu' or 'cuda' (or 'cuda:1'); got {device!r}.")
    reason = why_not(problem, stopping, keep)
    if device is not None:
        if reason is not None:
            raise InvalidArgumentError(
                f"`device={device!r}` explains many rows of a torch module at once by paired walks, but {reason}. "
                "Leave `device` out, or change that setting."
            )
        return True
    if reason is not None:
        return False
    for parameter in problem.model.source.parameters():
        if parameter.is_floating_point():
            return bool(parameter.device.type == "cuda")
    return False
