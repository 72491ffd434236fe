"""Names of arguments and attributes in other libraries, shap first of all, and what to write here."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from controlshap._checks import check_whole, is_whole, suggest
from controlshap._errors import ControlShapWarning, InvalidArgumentError

#: What others call arguments of an explainer or of its call, and the way out here.
ARGUMENTS = {
    "nsamples": "Use budget=nsamples * len(background) + 1 in the call, model evaluations for each row.",
    "max_evals": "Use budget= in the call, model evaluations for each row.",
    "seed": "Use rng= in the call.",
    "random_state": "Use rng= in the call.",
    "silent": "Use progress=False in the call.",
    "l1_reg": "Leave it out: no feature is dropped.",
    "check_additivity": "Leave it out: the values always add up.",
    "batch_size": "Use `memory_limit=` of `Explainer`.",
    "link": "Use output='margin' for the model's own margin, or KernelExplainer(link='logit').",
    "feature_names": "Use a frame as `background`: its columns are the names.",
    "masker": "Use `background`: rows, which absent features are taken from.",
    "data": "Use `background`: rows, which absent features are taken from.",
    "algorithm": "Use `estimator`, or leave it out: it is chosen by budget and players.",
}
#: What explainers of shap have as attributes, and where it is here.
ATTRIBUTES = {
    "shap_values": "Use `explainer(X).values`; `cs.KernelExplainer` has shap's methods",
    "expected_value": "Use `explanation.base_values` of `explanation = explainer(X)`; it has one for each row",
}

#: What a result of shap has as attributes, and where it is here.
RESULT_ATTRIBUTES = {
    "shap_values": "Use `explanation.values`",
    "expected_value": "Use `explanation.base_values`, one for each row",
    "sum": "Use `explanation.values.sum(...)`, or `explanation.to_shap()` for an Explanation of shap",
    "mean": "Use `explanation.summary()`, which has means with errors",
    "abs": "Use `explanation.summary()`, which has mean absolute values with errors",
    "shape": "Use `explanation.values.shape`",
    "to_csv": "Use `explanation.save('values.csv')`, or `explanation.to_frame()`",
    "to_dict": "Use `explanation.to_frame()`, or `explanation.export(folder)` for JSON",
    "cohorts": "Use `explanation.plot.cohorts(labels)`",
}
_EXACT = "Use `controlshap.Explainer`: values of trees and linear models are exact there."
_ANY = "Use `controlshap.Explainer`, or `controlshap.KernelExplainer` for shap's calls."
_PLOT = "Use `explanation.plot`, or shap's own plots with `explanation.to_shap()`."
#: What the module of shap has, and what to write here.
MODULE_NAMES = {
    "TreeExplainer": _EXACT, "LinearExplainer": _EXACT, "AdditiveExplainer": _EXACT, "GPUTreeExplainer": _EXACT,
    "ExactExplainer": _ANY, "PermutationExplainer": _ANY, "SamplingExplainer": _ANY, "PartitionExplainer": _ANY,
    "DeepExplainer": _ANY, "GradientExplainer": _ANY,
    "plots": _PLOT, "summary_plot": _PLOT, "force_plot": _PLOT, "dependence_plot": _PLOT, "decision_plot": _PLOT,
    "bar_plot": _PLOT, "initjs": "Leave it out: plots need no JavaScript.",
    "sample": "Use shap.sample, or frame.sample(100).", "kmeans": "Use shap.kmeans, which KernelExplainer takes.",
    "maskers": "Use `background`: rows, which absent features are taken from.",
}  # fmt: skip


def refuse_arguments(function: str, given: Iterable[str], known: Iterable[str], way_out: str = "") -> None:
    """Raise for an argument that a function does not have, with the way out in place of the table's if there is one."""
    name = min(given, default=None)
    if name is not None:
        hint = way_out or ARGUMENTS.get(name)
        raise TypeError(
            f"{function}() got an unexpected keyword argument {name!r}{f'. {hint}' if hint else suggest(name, known)}"
        )


def refuse_attribute(owner: Any, name: str, elsewhere: Mapping[str, str]) -> Any:
    """Raise for an attribute that an object does not have, with the way out where another library has it."""
    if name not in elsewhere:
        return object.__getattribute__(owner, name)  # the usual error, or that of a property
    raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}. {elsewhere[name]}.")


def read_budget(other: dict[str, Any], budget: int | None, n_background: int, known: Iterable[str]) -> int:
    """The budget that shap's `max_evals` stands for; raises for all other names."""
    unknown = set(other) - {"max_evals"}
    way_out = ""
    if unknown and min(unknown) == "nsamples":
        n_coalitions = other["nsamples"]
        is_number = is_whole(n_coalitions) and n_coalitions >= 1
        needed = n_coalitions * n_background + 1 if is_number else f"nsamples * {n_background} + 1"
        way_out = f"Use budget={needed}, model evaluations for each row."
    refuse_arguments("Explainer.__call__", unknown, known, way_out)
    if budget is not None:
        raise InvalidArgumentError(f"`max_evals` and `budget={budget!r}` both limit the evaluations. Give `budget`.")
    found = check_whole("max_evals", other["max_evals"], 1, "coalitions") * n_background + 1
    warnings.warn(
        f"`max_evals` counts coalitions, each evaluated on the {n_background:,} background rows; taken as "
        f"budget={found}. Write `budget=` in new code: it counts model evaluations for each row.",
        ControlShapWarning,
        stacklevel=3,
    )
    return found
