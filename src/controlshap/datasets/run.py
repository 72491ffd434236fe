"""`explain_dataset`: rows of any number to a folder of Parquet parts, resumable, here or on a cluster."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._checks import at_least
from controlshap._errors import ControlShapWarning, InvalidArgumentError
from controlshap._files import write_json
from controlshap._parallel import check_jobs
from controlshap._progress import ProgressLike, Reporter, check_progress
from controlshap._random import RngLike, resolve_entropy
from controlshap._version import __version__
from controlshap.data.columns import Category
from controlshap.datasets import manifest as manifests
from controlshap.datasets.files import import_pyarrow
from controlshap.datasets.layout import layout_of
from controlshap.datasets.lock import alone_in
from controlshap.datasets.loop import Ended, run_parts, say_how_to_finish
from controlshap.datasets.part import Job, Task
from controlshap.datasets.part_file import part_evaluations, part_path
from controlshap.datasets.pools import Here, Pool, Processes
from controlshap.datasets.probe import probe_seconds
from controlshap.datasets.result import DatasetResult, FailedPart, RunStoppedError
from controlshap.datasets.setup import (
    background_predictions,
    choose_part_rows,
    explainer_identity,
    look_into,
    make_manifest,
    plain_numbers,
)
from controlshap.datasets.sources import RowSource, check_rows, open_source
from controlshap.engine.rows import describe_call
from controlshap.limits import Limits
from controlshap.problem import Assembly
from controlshap.storage.explainers import save_assembly

#: Workers that a cluster is taken to have where parts are cut for it.
MANY_WORKERS = 100


def explain_dataset(
    explainer: Assembly,
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
    progress: ProgressLike = None,
) -> DatasetResult:
    """Explain a data set of any size, part by part, into a folder; the same call again finishes what is missing.

    A killed process, worker or scheduler, a full disk or an interrupt loses the parts under way and nothing else, and
    the result has the same bits as that of an undisturbed run. The folder refuses another model, background, source,
    seed or setting. Row k of the source uses random stream k, as in one call of the explainer on all rows.

    Parameters
    ----------
    explainer : Assembly
        What an `Explainer` was assembled from.
    source : str, Path, frame or ndarray
        A CSV, Parquet or Arrow file, a folder or glob of such files, or rows in memory. Columns that the background
        does not have (an identifier, the outcome) are left out.
    out : str or Path
        The folder. Workers of a cluster must see it (and the files of `source`) under the same path.
    limits : Limits
    rng : int, Generator, SeedSequence or None
        As for a call; None draws fresh entropy in the first run and goes on with it in later ones.
    n_jobs : int
        Local processes; -1 for one a core. With 1, rows are explained in this process, which a model that kills its
        process takes along; with 2 or more such a part is found out and reported.
    scheduler : str or dask.distributed.Client, optional
        A cluster instead. Start its workers with one thread each and a death timeout:
        `dask worker ADDRESS --nworkers 16 --nthreads 1 --death-timeout 60`.
    rows : tuple of int, optional
        Explain only the rows from the first of these numbers up to the second. They keep their numbers, and so have
        the values that they have in a run over all rows.
    part_rows : int, optional
        Most rows of a part. By default 50, or more where rows are cheap; one part for each of several files.
    model_hash : str, optional
        A fingerprint of the model (of its file, say), compared beside its predictions on the background.
    progress : {None, True, False, "json"} or callable
        None shows a bar on a terminal and in notebooks; "json" writes a line on stderr after every part; a function
        gets a `Progress`.

    Returns
    -------
    DatasetResult
        What there is, and which parts failed. `controlshap.load(out)` reads the explanation.
    """
    began = time.perf_counter()
    import_pyarrow("`explain_dataset`")
    check_progress(progress)
    n_jobs = check_jobs(n_jobs)
    if scheduler is not None and n_jobs != 1:
        raise InvalidArgumentError(f"`n_jobs={n_jobs}` and `scheduler` exclude each other. Leave one of them out.")
    if part_rows is not None:
        part_rows = at_least("part_rows", part_rows, 1, "rows of a part")
    if model_hash is not None and not isinstance(model_hash, str):
        raise InvalidArgumentError(f"`model_hash` must be a string; got {type(model_hash).__name__}.")
    stopping = limits.stopping(explainer.players.n_players)
    call = limits.describe(stopping) | {"budget": limits.budget}
    folder = Path(out).resolve()
    before = look_into(folder)
    given = open_source(
        source, part_rows or (None if before is None else before["part_rows"]), columns=_wanted(explainer),
        texts=_texts(explainer),
    )  # fmt: skip
    if rows is not None:
        given = given.between(*check_rows(rows, given.n_rows))
    entropy = int(before["entropy"]) if before is not None and rng is None else resolve_entropy(rng)

    mine = explainer.copy(dict(explainer.cache) if before is None else manifests.measured(folder / "explainer"))
    settings = describe_call(mine, limits, stopping)
    identity = {
        "version": __version__, "call": plain_numbers(call), "entropy": str(entropy), "model_hash": model_hash,
        "explainer": explainer_identity(mine), "source": given.describe(),
    }  # fmt: skip
    if before is not None:
        sizes = {"part_rows": before["part_rows"]}, {"part_rows": part_rows or before["part_rows"]}
        manifests.refuse_other_run(before["identity"] | sizes[0], identity | sizes[1], folder)
    predictions = background_predictions(mine, stopping)
    if before is not None:
        first = manifests.read_predictions(folder)
        manifests.refuse_other_model(first, predictions, folder)
        mine.set_background_predictions(first)
    assert mine._problem is not None
    settings |= {
        "n_background_evaluations": mine.n_background_evaluations,
        "n_surrogate_evaluations": mine.n_surrogate_evaluations,
    }
    if model_hash is not None:
        settings["model_hash"] = model_hash
    layout = layout_of(mine, mine._problem.base.n_outputs)
    run = "" if before is None else before["hash"]
    job = Job(run, mine, None if given.travels else given, stopping, entropy, settings, layout, folder)
    with alone_in(folder):
        if look_into(folder) != before:
            raise InvalidArgumentError(
                f"`out`: another process has begun a run in {str(folder)!r}. Run again to go on."
            )
        (folder / "parts").mkdir(parents=True, exist_ok=True)
        if before is None:
            seconds = probe_seconds(job)
            if part_rows is None and len(given.file_rows) == 1:
                given = given.recut(
                    choose_part_rows(seconds, given.n_rows, n_jobs if scheduler is None else MANY_WORKERS)
                )
            run = manifests.run_hash(identity | {"part_rows": given.part_rows})
            job = replace(job, run=run, source=None if given.travels else given)
            save_assembly(mine, folder / "explainer")
            np.save(folder / "predictions.npy", predictions)
            write_json(folder / "manifest.json", make_manifest(identity, job, given))
        return _run(job, given, n_jobs, scheduler, progress, began)


def _run(
    job: Job, source: RowSource, n_jobs: int, scheduler: Any, progress: ProgressLike, began: float
) -> DatasetResult:
    folder, bounds = job.folder, source.bounds
    there = np.array([part_path(folder, part).is_file() for part in range(source.n_parts)])
    sizes = np.diff(bounds)
    spent = sum(part_evaluations(part_path(folder, int(i)), job.run, int(sizes[i])) for i in np.flatnonzero(there))
    ended = Ended()
    reporter = Reporter(progress, source.n_rows, int(sizes[there].sum()))

    def tasks() -> Iterator[Task]:
        for part in np.flatnonzero(~there).tolist():
            held = source.read_part(part) if source.travels else None
            yield Task(part, int(bounds[part]), int(bounds[part + 1]), held)

    def tell(task: Task, n_evaluations: int, failed: bool) -> None:
        reporter.add(task.last - task.first, n_evaluations, skipped=failed)

    if not there.all():
        pool = _make_pool(job, n_jobs, scheduler)
        finished = False
        try:
            run_parts(pool, job, tasks(), tell, ended)
            finished = True
        except RunStoppedError as error:
            raise say_how_to_finish(error, folder, source.n_parts) from error
        finally:
            reporter.close()
            pool.close(broken=not finished)
            # a disk that is full is told by the error that is on its way
            with nullcontext() if finished else suppress(OSError):
                _record_failed(folder, ended.failed)
    changed = source.changed_files()
    if changed:
        raise InvalidArgumentError(
            f"`source`: {changed[0]!r} was written to or removed while it was being explained, so that parts may be of "
            f"either version. Remove {str(folder)!r} and run again, from a copy that nobody writes to."
        )
    for kind, (n, text) in ended.warned.items():
        warnings.warn(f"{n} time(s), the first: {text}", kind, stacklevel=3)
    n_done = int(there.sum()) + ended.n_done
    if n_done == source.n_parts:
        for left in (folder / "parts").glob(".part-*"):  # of workers that were killed
            left.unlink(missing_ok=True)
    if ended.failed:
        one = ended.failed[0]
        warnings.warn(
            f"{len(ended.failed)} of {source.n_parts} parts failed; the first, rows {one.rows[0]} to "
            f"{one.rows[1] - 1}: {one.reason}. The others are done; failed.json has all of them, and the "
            "same call tries them again.",
            ControlShapWarning,
            stacklevel=3,
        )
    return DatasetResult(
        folder, source.n_rows, source.n_parts, n_done, tuple(ended.failed), spent + ended.n_evaluations,
        time.perf_counter() - began,
    )  # fmt: skip


def _make_pool(job: Job, n_jobs: int, scheduler: Any) -> Pool:
    if scheduler is not None:
        from controlshap.datasets.dask_cluster import Cluster

        return Cluster(job, scheduler)
    return Here(job) if n_jobs == 1 else Processes(job, n_jobs)


def _wanted(explainer: Assembly) -> tuple[str, ...] | None:
    return explainer.column_names if explainer.is_frame else None


def _texts(explainer: Assembly) -> tuple[str, ...]:
    """Columns whose levels are names in the background."""
    return tuple(
        column.name
        for column in explainer.encoding.columns
        if isinstance(column, Category) and all(level is None or isinstance(level, str) for level in column.levels)
    )


def _record_failed(folder: Path, failed: list[FailedPart]) -> None:
    path = folder / "failed.json"
    if failed:
        told = [{"part": one.part, "rows": list(one.rows), "reason": one.reason} for one in failed]
        write_json(path, {"failed": told})
    else:
        path.unlink(missing_ok=True)
