"""`explain_dataset`: rows of any number to a folder of Parquet parts, resumable, here or on a cluster."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._checks import as_path, check_whole, show
from controlshap._errors import BudgetTooSmallError, ControlShapWarning, InvalidArgumentError, RunStoppedError
from controlshap._files import hash_json, remove_unfinished, write_sealed
from controlshap._random import RngLike, resolve_entropy
from controlshap._types import FloatArray, IntArray
from controlshap._version import __version__
from controlshap.data.categories import Category
from controlshap.datasets import manifest as manifests
from controlshap.datasets.files import import_pyarrow
from controlshap.datasets.layout import PartLayout, kept_kinds
from controlshap.datasets.lessons import learn_from_parts, remove_lessons
from controlshap.datasets.loop import RunTotals, add_way_out, describe_way_out, run_parts
from controlshap.datasets.part import DatasetJob, PartTask, explain_rows
from controlshap.datasets.part_file import part_path, part_totals
from controlshap.datasets.pools import Pool, ProcessPool, SerialPool
from controlshap.datasets.result import DatasetResult, FailedPart
from controlshap.datasets.sources import DEFAULT_ROWS, MOST_ROWS, RowSource, check_rows, open_source
from controlshap.engine.generations import Generation
from controlshap.engine.parallel import check_jobs
from controlshap.engine.progress import ProgressLike, Reporter, check_progress
from controlshap.engine.rows import describe_call, ready_problem
from controlshap.limits import Limits
from controlshap.problem import Assembly
from controlshap.statistics.stopping import Stopping

#: Workers that a cluster is assumed to have where its parts are cut.
CLUSTER_WORKERS = 100
#: Seconds that a part of cheap rows should take.
PART_SECONDS = 20.0
#: Evaluations by which the time of a row is measured.
PROBE_BUDGET = 2_000
#: Background rows whose predictions identify a model where the background itself is not evaluated.
IDENTIFYING_ROWS = 100


def explain_dataset(
    assembly: Assembly,
    source: Any,
    out: str | Path,
    limits: Limits,
    *,
    rng: RngLike = None,
    n_jobs: int = 1,
    scheduler: Any = None,
    rows: tuple[int, int] | None = None,
    part_rows: int | None = None,
    model_hash: str | None = None,
    keep: str | Sequence[str] | None = None,
    progress: ProgressLike = None,
) -> DatasetResult:
    """`Explainer.explain_dataset`, which describes the arguments, for what an explainer was assembled from."""
    began = time.perf_counter()
    import_pyarrow("`explain_dataset`")
    check_progress(progress)
    n_jobs = _check_workers(n_jobs, scheduler)
    if part_rows is not None:
        part_rows = check_whole("part_rows", part_rows, 1, "rows of a part")
    if model_hash is not None and not isinstance(model_hash, str):
        raise InvalidArgumentError(f"`model_hash` must be a string; got {type(model_hash).__name__}.")
    stopping = limits.stopping(assembly.players.n_players)
    folder = as_path(out, "out").resolve()
    earlier = manifests.find_manifest(folder)
    sizes_before = part_rows or (None if earlier is None else earlier["part_rows"])
    opened = _open_rows(assembly, source, sizes_before, rows, _check_keep(keep))
    job, identity, predictions = _prepare_job(
        assembly, opened, folder, limits, stopping, earlier, rng, part_rows, model_hash
    )
    with manifests.lock_folder(folder, earlier):
        if earlier is None:
            n_workers = n_jobs if scheduler is None else CLUSTER_WORKERS
            job, opened = _begin(job, opened, identity, predictions, part_rows, n_workers)
        try:
            totals = _run_missing_parts(job, opened, n_jobs, scheduler, progress)
        finally:
            opened.close()
        _finish(opened, folder, totals)
    return DatasetResult(
        folder, opened.n_rows, opened.n_parts, totals.n_done, tuple(totals.failed), totals.n_evaluations,
        time.perf_counter() - began, totals.largest_error,
    )  # fmt: skip


def _check_workers(n_jobs: Any, scheduler: Any) -> int:
    checked = check_jobs(n_jobs)
    if scheduler is not None and checked != 1:
        raise InvalidArgumentError(f"`n_jobs={checked}` and `scheduler` exclude each other. Leave one of them out.")
    return checked


def _check_keep(keep: Any) -> tuple[str, ...]:
    """Names of columns to keep: one, or a list of them."""
    names = (keep,) if isinstance(keep, str) else tuple(keep or ()) if isinstance(keep, (list, tuple)) else None
    if keep is not None and (names is None or not all(isinstance(name, str) for name in names)):
        raise InvalidArgumentError(f"`keep` must be a column of `source`, or a list of columns; got {show(keep)}.")
    names = names or ()
    if len(set(names)) < len(names):
        raise InvalidArgumentError(f"`keep` must name each column once; got {list(names)}.")
    return names


def _open_rows(
    assembly: Assembly, source: Any, part_rows: int | None, rows: tuple[int, int] | None, keep: tuple[str, ...]
) -> RowSource:
    """Open the rows to explain, with the columns of the background and those to keep."""
    if keep and not assembly.is_frame:
        raise InvalidArgumentError(
            "`keep` names columns, and the background is an array, which has none. Pass the background as a frame."
        )
    # levels that are names in the background are names in the rows, even where they read like numbers
    texts = [
        column.name
        for column in assembly.encoding.columns
        if isinstance(column, Category) and all(level is None or isinstance(level, str) for level in column.levels)
    ]
    numbers = [c.labels[0] for c in assembly.encoding.columns if not isinstance(c, Category)]
    columns = assembly.column_names if assembly.is_frame else None
    opened = open_source(source, part_rows, columns=columns, texts=texts, numbers=numbers, keep=keep)
    # columns of an array have no names
    if not opened.kept and len(opened.columns) != len(assembly.column_names):
        raise InvalidArgumentError(
            f"`source` has {len(opened.columns)} columns but the background has {len(assembly.column_names)}; both "
            "need one value per model input."
        )
    return opened if rows is None else opened.between(*check_rows(rows, opened.n_rows))


def _prepare_job(
    assembly: Assembly,
    source: RowSource,
    folder: Path,
    limits: Limits,
    stopping: Stopping,
    earlier: dict[str, Any] | None,
    rng: RngLike,
    part_rows: int | None,
    model_hash: str | None,
) -> tuple[DatasetJob, dict[str, Any], FloatArray]:
    """Make the job of all parts, unless another run began the folder.

    Returns it with what identifies the run, and with predictions that identify the model.
    """
    entropy = int(earlier["entropy"]) if earlier is not None and rng is None else resolve_entropy(rng)
    # the run keeps what it computes, and uses nothing that other calls have computed since it began
    cache, before = (dict(assembly.cache), None) if earlier is None else manifests.read_files(folder, earlier)
    assembly = assembly.copy(cache)
    identity = {
        "version": __version__, "call": _describe_call(limits, stopping), "entropy": str(entropy),
        "model_hash": model_hash, "explainer": manifests.identify_explainer(assembly), "source": source.describe(),
    }  # fmt: skip
    if earlier is not None:
        sizes = {"part_rows": earlier["part_rows"]}, {"part_rows": part_rows or earlier["part_rows"]}
        manifests.refuse_other_run(earlier["identity"] | sizes[0], identity | sizes[1], folder)
    predictions = _predict_background(assembly, stopping)
    if before is not None:
        manifests.refuse_other_model(folder, before, predictions)
        assembly.set_background_predictions(before)
    settings = _describe_run(assembly, limits, stopping, model_hash)
    kinds = kept_kinds(source.read_part(0), source.kept) if source.kept else ()
    layout = PartLayout.of(assembly, assembly.problem().base.n_outputs, source.kept, kinds)
    run = "" if earlier is None else earlier["hash"]
    job = DatasetJob(run, assembly, None if source.travels else source, stopping, entropy, settings, layout, folder)
    return job, identity, predictions


def _describe_call(limits: Limits, stopping: Stopping) -> dict[str, Any]:
    """The limits as they were given, with Python numbers, which JSON can write."""
    call = limits.describe(stopping) | {"budget": limits.budget}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in call.items()}


def _predict_background(assembly: Assembly, stopping: Stopping) -> FloatArray:
    """Predictions `(rows, outputs)` that identify the model: f(background) where that is needed anyway."""
    problem = ready_problem(assembly, stopping)
    if problem.base.finite:
        return problem.base.values[:, :, 0]
    inputs = problem.imputer.to_inputs(assembly.background[:IDENTIFYING_ROWS])
    return assembly.model(inputs, n_outputs=problem.base.n_outputs, where="background rows")


def _describe_run(assembly: Assembly, limits: Limits, stopping: Stopping, model_hash: str | None) -> dict[str, Any]:
    """Settings that the explanation keeps."""
    settings = describe_call(assembly, limits, stopping) | assembly.evaluated_once
    return settings if model_hash is None else settings | {"model_hash": model_hash}


def _begin(
    job: DatasetJob,
    source: RowSource,
    identity: dict[str, Any],
    predictions: FloatArray,
    part_rows: int | None,
    n_workers: int,
) -> tuple[DatasetJob, RowSource]:
    """Cut the rows by the time that they take, and write the manifest."""
    seconds = _measure_seconds(job)
    if part_rows is None and len(source.file_rows) == 1:
        source = source.recut(choose_part_rows(seconds, source.n_rows, n_workers))
    run = hash_json(identity | {"part_rows": source.part_rows})
    job = replace(job, run=run, source=None if source.travels else source)
    manifest = {
        "kind": manifests.KIND,
        "schema": manifests.SCHEMA,
        "version": __version__,
        "hash": run,
        "entropy": str(job.entropy),
        "n_rows": source.n_rows,
        "n_parts": source.n_parts,
        "part_rows": source.part_rows,
        "rows": [int(source.bounds[0]), int(source.bounds[-1])],
        "file_rows": list(source.file_rows),
        "layout": job.layout.to_json(),
        "output_names": job.assembly.model.output_names,
        "player_columns": [[int(c) for c in columns] for columns in job.assembly.raw_players.columns],
        "settings": job.settings,
        "identity": identity,
        "files": manifests.write_files(job.folder, job.assembly, predictions),
    }
    write_sealed(job.folder / "manifest.json", manifest)
    return job, source


def _measure_seconds(job: DatasetJob) -> float:
    """Seconds that a row may take, by a background row, because the model has already accepted it."""
    row, budget = job.assembly.encoding(job.assembly.background[:1]), PROBE_BUDGET
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ControlShapWarning)
        while True:
            short = replace(job, stopping=replace(job.stopping, budget=min(budget, job.stopping.budget)))
            began = time.perf_counter()
            try:
                explanation = explain_rows(short, row, 0)
                break
            except BudgetTooSmallError as error:
                if budget >= job.stopping.budget:
                    raise
                budget = max(error.needed, 2 * budget)
    seconds = time.perf_counter() - began
    if explanation.status[0] == "budget reached":
        seconds *= max(1.0, job.stopping.budget / explanation.n_evaluations[0])
    return seconds


def choose_part_rows(seconds: float, n_rows: int, n_workers: int) -> int:
    """Rows of a part: as many as take `PART_SECONDS`, but enough parts for all workers; 50 or more."""
    by_time = int(PART_SECONDS / max(seconds, 1e-6))
    by_workers = n_rows // (8 * max(n_workers, 4))
    part_rows = min(by_time, by_workers, MOST_ROWS)
    return max(DEFAULT_ROWS, part_rows // DEFAULT_ROWS * DEFAULT_ROWS)


def _run_missing_parts(
    job: DatasetJob, source: RowSource, n_jobs: int, scheduler: Any, progress: ProgressLike
) -> RunTotals:
    """Explain the parts that have no file yet."""
    folder, bounds, sizes = job.folder, source.bounds, np.diff(source.bounds)
    done = np.array([part_path(folder, part).is_file() for part in range(source.n_parts)])
    earlier = [
        part_totals(part_path(folder, part), job.run, (int(bounds[part]), int(bounds[part + 1])))
        for part in np.flatnonzero(done).tolist()
    ]
    spent, errors = [n for n, _ in earlier], [error for _, error in earlier]
    totals = RunTotals(int(done.sum()), sum(spent), max(errors, default=0.0))
    if done.all():
        return totals
    reporter = Reporter(progress, source.n_rows, int(sizes[done].sum()))

    def tasks(parts: IntArray) -> Iterator[PartTask]:
        for part in parts[~done[parts]].tolist():
            rows = source.read_part(part) if source.travels else None
            yield PartTask(part, int(bounds[part]), int(bounds[part + 1]), rows)

    def report(task: PartTask, n_evaluations: int, failed: bool, error: float | None) -> None:
        reporter.add(task.end - task.first, n_evaluations, error, skipped=failed)

    pool = _make_pool(job, n_jobs, scheduler)
    finished = False
    try:
        for generation, parts in _generations(source.n_parts, online=job.stopping.online):
            run_parts(pool, job, tasks(parts), report, totals)
            if generation is not None and parts[-1] + 1 < source.n_parts:
                learn_from_parts(job.assembly.problem(), folder, job.run, source.part_rows, generation)
        finished = True
    except RunStoppedError as error:
        raise add_way_out(error, folder, source.n_parts) from error
    except KeyboardInterrupt as interrupt:
        way_out = f"`explain_dataset` was interrupted. {describe_way_out(folder, source.n_parts)}"
        # of whatever class it is: the command line has one for SIGTERM; where it struck helps nobody
        raise type(interrupt)(way_out) from None
    finally:
        reporter.close()
        pool.close(broken=not finished)
        # where the disk is full, the error under way reports it
        with nullcontext() if finished else suppress(OSError):
            _record_failed(folder, totals.failed)
    return totals


def _generations(n_parts: int, *, online: bool) -> Iterator[tuple[Generation | None, IntArray]]:
    """Parts that may be explained at once: all of them, or generation by generation."""
    if not online:
        yield None, np.arange(n_parts)
        return
    start = 0
    while start < n_parts:
        generation = Generation.of(start)
        end = n_parts if generation.end is None else min(generation.end, n_parts)
        yield generation, np.arange(start, end)
        start = end


def _make_pool(job: DatasetJob, n_jobs: int, scheduler: Any) -> Pool:
    if scheduler is not None:
        from controlshap.datasets.dask_cluster import DaskPool

        return DaskPool(job, scheduler)
    return SerialPool(job) if n_jobs == 1 else ProcessPool(job, n_jobs)


def _record_failed(folder: Path, failed: list[FailedPart]) -> None:
    """Write failed.json, or remove that of an earlier run."""
    path = folder / "failed.json"
    if failed:
        write_sealed(path, {"failed": [asdict(part) for part in failed]})
    else:
        path.unlink(missing_ok=True)


def describe_failed(failed: Sequence[FailedPart], n_parts: int) -> str:
    """How many parts failed, and why the first did, without a full stop."""
    first, reason = failed[0], " ".join(failed[0].reason.split()).rstrip(".")
    return f"{len(failed)} of {n_parts} parts failed; the first, rows {first.rows[0]} to {first.rows[1] - 1}: {reason}"


def _finish(source: RowSource, folder: Path, totals: RunTotals) -> None:
    """Refuse a source that has changed meanwhile, for good; remove what killed workers left, and warn."""
    changed = source.changed_files()
    if changed:
        reason = (
            f"`source`: {changed[0]!r} was written to or removed while it was being explained, so that parts may be of "
            f"either version. Remove {str(folder)!r} and run again, from a copy that nobody writes to."
        )
        write_sealed(folder / "manifest.json", manifests.read_manifest(folder) | {"unusable": reason})
        raise InvalidArgumentError(reason)
    if totals.n_done == source.n_parts:
        remove_lessons(folder)
        for room in (folder, folder / "parts", folder / "explainer"):
            remove_unfinished(room)
    for kind, (n, message) in totals.warned.items():
        warnings.warn(message if n == 1 else f"{n} warnings, the first: {message}", kind, stacklevel=4)
    if totals.failed:
        others = "The others are done." if totals.n_done else "No row is explained."
        warnings.warn(
            f"{describe_failed(totals.failed, source.n_parts)}. {others} failed.json has them all, and the same call "
            "tries them again.",
            ControlShapWarning,
            stacklevel=4,
        )
