"""Plans and explainers as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controlshap.engine.plan import Plan
    from controlshap.problem import Assembly


def describe_assembly(assembly: Assembly, defaults: Mapping[str, Any]) -> Iterable[str]:
    """Lines on the model, the background and the settings of an explainer that are not their defaults."""
    model, n_players = assembly.model, assembly.players.n_players
    names = [repr(name) for name in model.output_names or ()]
    of_classes = f" of class{'es' if len(names) > 1 else ''} {', '.join(names[:5])}" if names else ""
    absent = "ignore the revealed ones" if assembly.imputer.mixes_columns else "are conditioned on the revealed ones"
    changed = [
        f"{name}={value!r}"
        for name, value in assembly.description.items()
        if name != "features" and value not in (defaults[name], repr(defaults[name]))
    ]
    yield f"Explainer of {model.name}: {model.quantity or 'model output'}{of_classes}"
    yield (
        f"  background  {assembly.n_background:,} rows, {len(assembly.column_names):,} columns, {n_players:,} players"
    )
    yield f"  features    {assembly.description['features']}: absent features {absent}"
    yield f"  settings    {', '.join(changed) or 'defaults'}"
    if assembly.shared is not None:
        yield f"  surrogate   shared by all rows, fitted to {assembly.shared.n_evaluations:,} evaluations"


def describe_plan(plan: Plan) -> Iterable[str]:
    """Lines that say what is done, what it costs and why."""
    if plan.form is not None:
        yield f"exact       {plan.form.name}: closed-form values, 1 evaluation a row; where it fails:"
    controls = " + ".join(_short(control) for control in plan.controls if not control.on_trial) or "none"
    parts = {"estimator": _short(plan.estimator), "control": controls, "variance": _short(plan.variance)}
    for name, what in parts.items():
        yield f"{name:<11} {what}: {plan.reasons.get(name, 'as asked for')}"
    tried = [control for control in plan.controls if control.on_trial]
    if tried:
        names = " and ".join(type(control).__name__ for control in tried)
        n_rows = min(plan.budget, max(control.max_rows for control in tried))
        yield f"on trial    {names}: used where folds show a gain; fitted to at most {n_rows:,} evaluations"
    if plan.alternative is not None:
        yield f"{'pilot':<11} the first walks decide whether {_short(plan.alternative)} gets the remaining evaluations"
    yield from plan.notes
    each = plan.most_evaluations
    if plan.is_exact and plan.form is None:
        yield f"evaluations {each:,} a row, all coalitions: no sampling error{_in_all(plan, each)}"
    else:
        yield from _describe_sampling(plan)
    if plan.seconds is not None and math.isfinite(plan.seconds):
        rows = max(1, plan.n_rows)
        most = "" if plan.is_exact or plan.form is not None else "at most "
        of_rows = f"{rows:,} rows" if rows > 1 else "a row"
        total = describe_seconds(each * rows * plan.seconds)
        yield f"time        {most}about {total} of the model for {of_rows}, at {plan.seconds:.2g} s an evaluation"
    elif plan.n_rows > 1 and each > 1:
        yield "time        not known: Explainer(..., seconds_per_evaluation=...) says how long the model takes"


def describe_seconds(seconds: float) -> str:
    """A duration to two digits or so: `0.3 s`, `45 s`, `12 min`, `3 h 20 min`, `4.2 days`."""
    if seconds < 60:
        return f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes / 1440:.1f} days"


def _describe_sampling(plan: Plan) -> Iterable[str]:
    """The evaluations of a row that is sampled."""
    costs = plan.costs
    spent = ["1 for the row"]
    spent += [f"{costs.derivatives:,} for derivatives"] if costs.derivatives else []
    spent += [f"{plan.n_base_draws:,} for the base value"] if plan.n_base_draws else []
    spent += [f"{plan.n_units:,} units of {costs.unit:,}"]
    yield f"evaluations at most {plan.budget:,} a row: {', '.join(spent)}{_in_all(plan, plan.budget)}"


def _in_all(plan: Plan, each: int) -> str:
    """The total cost of all rows, where they were given."""
    return f"; {each * plan.n_rows:,} for {plan.n_rows:,} rows" if plan.n_rows > 1 else ""


def _short(strategy: Any) -> str:
    """A strategy with those of its settings that are not the default: "Kernel(n_draws=50, reuse=True)"."""
    if not is_dataclass(strategy):
        return f"{type(strategy).__name__}()"
    changed = [f for f in fields(strategy) if f.init and f.repr and not _is_default(strategy, f)]
    settings = ", ".join(f"{f.name}={getattr(strategy, f.name)!r}" for f in changed)
    return f"{type(strategy).__name__}({settings if len(settings) <= 60 else '...'})"


def _is_default(strategy: Any, declared: Field[Any]) -> bool:
    default = declared.default if declared.default_factory is MISSING else declared.default_factory()
    return bool(getattr(strategy, declared.name) is default or getattr(strategy, declared.name) == default)
