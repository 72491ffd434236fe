"""The rows of one call: read, planned, explained here or spread over processes, put together."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from controlshap._errors import InvalidArgumentError, NotConvergedWarning
from controlshap._types import AnyArray, FloatArray
from controlshap._version import __version__
from controlshap.data.table import RowName, read_row_names
from controlshap.engine.choice import describe_learning, learns_across_rows, raise_default
from controlshap.engine.parallel import ordered_map
from controlshap.engine.plan import Plan, check_plan, make_plan, refuse_budget, refuse_guarantee, refuse_interactions
from controlshap.engine.progress import ProgressLike, Reporter
from controlshap.engine.row import explain_row
from controlshap.functions.base import KnownFunction, RowGames
from controlshap.limits import Limits
from controlshap.models.model import is_torch_module
from controlshap.problem import Assembly, Problem
from controlshap.results.collect import KEPT, RowResult, histories, limit_kept, make_explanation, stack_rows
from controlshap.results.explanation import Explanation
from controlshap.sampling.kept import Recording
from controlshap.statistics.stopping import Stopping

if TYPE_CHECKING:
    from controlshap.engine.generations import Lesson, NumberedRow

#: Seconds before a call shows a bar.
DELAY = 2.0

#: Rows that go to the model together, and to a form that explains many rows at once.
ROWS_AT_ONCE = 128

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def explain_rows(
    assembly: Assembly,
    X: Any,
    first: int,
    stopping: Stopping,
    entropy: int,
    settings: dict[str, Any],
    *,
    n_jobs: int = 1,
    keep: bool | None = None,
    device: str | None = None,
    progress: ProgressLike = False,
    lesson: Lesson | None = None,
) -> Explanation:
    """Explain rows whose numbers, and so their random streams, start at `first`; a `lesson` is used and continued."""
    rows, names = assembly.read_rows(X), read_row_names(X)
    stopping = raise_default(assembly.draft(), stopping)
    problem = ready_problem(assembly, stopping)
    if device is not None and n_jobs != 1:
        raise InvalidArgumentError(f"`n_jobs={n_jobs}` and `device` exclude each other. Leave one of them out.")
    on_device, unused = False, None
    if lesson is None:
        on_device, unused = _takes_device(device, problem, stopping, keep, n_jobs)
    if on_device:
        found = _explain_on_device(assembly, problem, rows, first, stopping, entropy, settings, device, progress)
        return replace(found, row_numbers=np.arange(first, first + len(rows)), row_names=names)
    # evaluations that will not be returned are not kept at all
    kept = math.inf if keep else 0 if keep is False else KEPT
    if lesson is not None and lesson.function is not None:
        problem = replace(problem, shared=lesson.function)
    explain = partial(_explain_item, entropy, stopping, kept)
    results = _explain_items(explain, problem, stopping, list(enumerate(rows, start=first)), n_jobs, lesson)
    results_of_rows = limit_kept(_report_progress(results, Reporter(progress, len(rows), 0, DELAY)), keep)
    warn_unfinished(results_of_rows, stopping, names or range(first, first + len(rows)))
    settings = settings | assembly.evaluated_once | ({} if unused is None else {"device_unused": unused})
    data = assembly.encoding.data(rows)
    explanation = collect_rows(assembly, problem, stack_rows(results_of_rows, settings), data, entropy, settings)
    history = tuple(histories(results_of_rows)) if stopping.staged else None
    return replace(explanation, history=history, row_numbers=np.arange(first, first + len(rows)), row_names=names)


def _explain_items(
    explain: Callable[[Problem, Plan, int, NumberedRow], RowResult],
    problem: Problem,
    stopping: Stopping,
    items: list[NumberedRow],
    n_jobs: int,
    lesson: Lesson | None,
) -> Iterator[RowResult]:
    """Results of numbered rows: generation by generation, many at once by the form of the model, or one by one."""
    plan = make_plan(problem, stopping)
    if stopping.online and lesson is None and learns_across_rows(problem, plan.controls):
        from controlshap.engine.generations import explain_in_generations

        def explain_generation(of_generation: Problem, n_shared: int, some: list[NumberedRow]) -> Iterator[RowResult]:
            own = make_plan(of_generation, stopping)
            return ordered_map(partial(explain, of_generation, own, n_shared), some, n_jobs)

        return explain_in_generations(problem, items, explain_generation)
    alone = partial(explain, problem, plan, 0 if lesson is None else lesson.n_shared)
    results = _first_here(alone, items, n_jobs)
    if plan.form is not None:
        from controlshap.engine.exact import games_of_form

        games = games_of_form(problem, plan.form)
        if games is not None:
            parts = [items[at : at + ROWS_AT_ONCE] for at in range(0, len(items), ROWS_AT_ONCE)]
            together = partial(_explain_together, problem, plan.form, games, alone)
            results = chain.from_iterable(_first_here(together, parts, n_jobs))
    return results if lesson is None else map(lesson.add, results)


def _takes_device(
    device: str | None, problem: Problem, stopping: Stopping, keep: bool | None, n_jobs: int
) -> tuple[bool, str | None]:
    """Whether all rows are explained at once on the device of a torch module, and why not if it is on a GPU."""
    if device is None and not is_torch_module(problem.model.source):
        return False, None
    from controlshap.engine.device.support import wants_device, why_unused

    wanted = wants_device(device, problem, stopping, keep, n_jobs)
    return wanted, None if wanted else why_unused(problem, stopping, keep, n_jobs)


def describe_call(assembly: Assembly, limits: Limits, stopping: Stopping) -> dict[str, Any]:
    """All settings of a call, for its result to keep."""
    model = assembly.model
    rest = {
        "refinements": 0, "n_background": assembly.n_background, "version": __version__, "model": model.name,
        "quantity": model.quantity, "libraries": assembly.libraries,
        "background_digest": assembly.background_digest,
    }  # fmt: skip
    arrangement = assembly.raw_players.arrangement
    if arrangement is not None and arrangement.groups:
        names = assembly.raw_players.names
        rest["player_groups"] = {name: [names[player] for player in members] for name, members in arrangement.groups}
    return assembly.description | limits.describe(stopping) | rest


def plan_rows(assembly: Assembly, stopping: Stopping, rows: FloatArray | None) -> Plan:
    """The plan of a call, with a note on rows that would be treated differently."""
    stopping = raise_default(assembly.draft(), stopping)
    problem = ready_problem(assembly, stopping)
    n_rows = 0 if rows is None else len(rows)
    if is_torch_module(problem.model.source):
        from controlshap.engine.device.support import plan_for_device

        plan, together = plan_for_device(problem, stopping)
    else:
        plan, together = make_plan(problem, stopping), False
    learning = () if together else describe_learning(problem, plan.controls, n_rows, online=stopping.online)
    stated = assembly.settings["seconds_per_evaluation"]
    plan = replace(plan, notes=(*plan.notes, *learning), seconds=None if stated is None else float(stated))
    if together or rows is None or len(rows) == 0:
        if plan.form is None:  # refuse what would be refused for any row
            check_plan(problem, plan, problem.background[0])
        return replace(plan, n_rows=n_rows)
    of_rows = [plan.for_row(problem, x) for x in rows]
    if plan.form is None:
        for x, of_row in zip(rows, of_rows, strict=True):
            check_plan(problem, of_row, x)
    plan, notes = of_rows[0], list(plan.notes)
    n_other = sum(other.estimator != plan.estimator for other in of_rows)
    if n_other:
        notes.append(f"{n_other} of {len(rows)} rows get another estimator than the first, which this is about")
    n_other = sum(o.estimator == plan.estimator and o.controls != plan.controls for o in of_rows)
    if n_other:
        notes.append(
            f"{n_other} of {len(rows)} rows get other controls (missing values, or out of a shared surrogate's reach)"
        )
    return replace(plan, notes=tuple(notes), n_rows=len(rows))


def ready_problem(assembly: Assembly, stopping: Stopping) -> Problem:
    """The problem with f(background), after refusing a budget that no row could be explained with."""
    if stopping.online and assembly.controls is not None:
        raise InvalidArgumentError(
            f"`surrogate='online'` needs control='auto'; got control={assembly.settings['control']!r}, which says what "
            "controls each row. Leave one of them out."
        )
    asked: dict[str, Any] = {
        "interactions": stopping.interactions, "by_pairs": stopping.by_pairs, "output_range": stopping.output_range,
    }  # fmt: skip
    draft = replace(assembly.draft(), **asked)
    refuse_interactions(draft, stopping)
    if draft.form is None:
        refuse_budget(draft, stopping)
    problem = replace(assembly.problem(), **asked)
    if stopping.output_range is None:
        return problem
    refuse_guarantee(problem)
    return replace(problem, model=replace(problem.model, output_range=stopping.output_range))


def collect_rows(
    assembly: Assembly,
    problem: Problem,
    attributes: dict[str, Any],
    data: AnyArray,
    entropy: int,
    settings: dict[str, Any],
) -> Explanation:
    """The attributes of rows as an `Explanation`."""
    return make_explanation(
        attributes,
        problem.base.sampling_error(assembly.n_background),
        assembly.raw_players,
        data=data,
        column_names=assembly.column_names,
        output_names=assembly.model.output_names,
        entropy=entropy,
        settings=settings,
    )


def _explain_on_device(
    assembly: Assembly,
    problem: Problem,
    rows: FloatArray,
    first: int,
    stopping: Stopping,
    entropy: int,
    settings: dict[str, Any],
    device: str | None,
    progress: ProgressLike,
) -> Explanation:
    """All rows of a torch module at once."""
    from controlshap.engine.device.explain import explain_problem  # imports torch

    reporter = Reporter(progress, len(rows), 0, DELAY)
    if stopping.online:
        from controlshap.engine.device.online import explain_online

        result = explain_online(problem, rows, stopping=stopping, entropy=entropy, device=device)
    else:
        result = explain_problem(problem, rows, stopping=stopping, entropy=entropy, device=device, first_row=first)
    settings = settings | assembly.evaluated_once | result.where
    explanation = collect_rows(assembly, problem, result.attributes(), rows, entropy, settings)
    largest = float(explanation.standard_errors.max(initial=0.0))
    reporter.add(len(rows), int(explanation.n_evaluations.sum()), largest)
    reporter.close()
    return explanation


def continue_rows(
    problem: Problem,
    items: list[tuple[int, FloatArray, Stopping, Recording]],
    entropy: int,
    *,
    n_jobs: int,
    online: bool,
) -> list[RowResult]:
    """Go on with rows from their recordings; all were planned for the same budget.

    Rows that learn (`online`) are continued generation by generation, each controlled by a function fitted to all
    evaluations of earlier rows, old and new.
    """
    if not items:
        return []
    planned = items[0][2]
    plan = make_plan(problem, planned)
    if not online or not learns_across_rows(problem, plan.controls):
        return limit_kept(_first_here(partial(_continue_item, problem, plan, entropy), items, n_jobs), keep=True)
    from controlshap.engine.generations import explain_in_generations

    continuations = {number: (stopping, recording) for number, _, stopping, recording in items}

    def explain(of_generation: Problem, n_shared: int, some: list[NumberedRow]) -> Iterator[RowResult]:
        task = partial(_continue_item, of_generation, make_plan(of_generation, planned), entropy, n_shared=n_shared)
        return ordered_map(task, [(number, row, *continuations[number]) for number, row in some], n_jobs)

    rows = [(number, row) for number, row, *_ in items]
    return limit_kept(explain_in_generations(problem, rows, explain), keep=True)


def warn_unfinished(results: Sequence[RowResult], stopping: Stopping, names: Sequence[RowName]) -> None:
    """Say once which rows spent their budget or time before they reached what was asked for."""
    unfinished = [k for k, result in enumerate(results) if result.status in ("budget reached", "time reached")]
    if not stopping.looks or not unfinished:
        return
    which = f"Row {names[unfinished[0]]}"
    if len(unfinished) > 1:
        which = f"{len(unfinished):,} of {len(results):,} rows (the first: row {names[unfinished[0]]})"
    largest = max(results[k].largest_error for k in unfinished)
    spent = max(results[k].n_evaluations for k in unfinished)
    warnings.warn(
        f"{which} did not reach {stopping.goals} within the limits; the largest standard error is {largest:.3g} after "
        f"{spent:,} evaluations. Raise `budget` or `time_limit`, ask for less, or go on with `explainer.refine`.",
        NotConvergedWarning,
        stacklevel=4,
    )


def _report_progress(results: Iterator[RowResult], reporter: Reporter) -> Iterator[RowResult]:
    try:
        for result in results:
            reporter.add(1, result.n_evaluations, result.largest_error)
            yield result
    finally:
        reporter.close()


def _first_here(task: Callable[[_Item], _Result], items: list[_Item], n_jobs: int) -> Iterator[_Result]:
    """Map in order, the first item in this process: what it computes once (D matrices) goes to the workers, too."""
    yield from ordered_map(task, items[:1], 1)
    yield from ordered_map(task, items[1:], n_jobs)


def _explain_together(
    problem: Problem,
    form: KnownFunction,
    games: RowGames,
    alone: Callable[[tuple[int, FloatArray]], RowResult],
    items: list[tuple[int, FloatArray]],
) -> list[RowResult]:
    """Rows of a form that explains many at once, from one model call; rows where it fails are explained one by one."""
    from controlshap.engine.exact import explain_together

    rows = np.stack([row for _, row in items])
    where = f"rows {items[0][0]} to {items[-1][0]} themselves"
    predictions = problem.model(problem.imputer.to_inputs(rows), n_outputs=problem.base.n_outputs, where=where)
    results_of_rows = explain_together(problem, form, games, rows, predictions)
    return [alone(item) if result is None else result for item, result in zip(items, results_of_rows, strict=True)]


def _explain_item(
    entropy: int, stopping: Stopping, kept: float, problem: Problem, plan: Plan, n_shared: int, item: NumberedRow
) -> RowResult:
    number, row = item
    recording = Recording(records=kept > 0, most_bytes=kept)
    return explain_row(problem, plan, row, number, entropy, stopping, recording, n_shared)


def _continue_item(
    problem: Problem, plan: Plan, entropy: int, item: tuple[int, FloatArray, Stopping, Recording], n_shared: int = 0
) -> RowResult:
    number, row, stopping, recording = item
    return explain_row(problem, plan, row, number, entropy, stopping, recording, n_shared)
