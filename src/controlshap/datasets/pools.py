"""Pools that explain parts: this process, or local worker processes. `dask_cluster` has a third."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Protocol

from controlshap._errors import InvalidArgumentError
from controlshap._imports import require
from controlshap.datasets.part import DatasetJob, PartOutcome, PartTask, run_part
from controlshap.engine.parallel import pickling

#: Seconds after which a worker checks again whether its parent is alive.
CHECK_SECONDS = 1.0
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "BLIS_NUM_THREADS")


class Pool(Protocol):
    """Explains parts, several at a time."""

    @property
    def window(self) -> int:
        """Parts that may be under way at a time."""

    @property
    def deaths_allowed(self) -> int:
        """Lost workers after which a part that ran alone is given up."""

    def submit(self, task: PartTask) -> None:
        """Start a part."""

    def wait(self) -> list[PartOutcome]:
        """Wait until at least one part has ended, and return what has."""

    def close(self, *, broken: bool) -> None:
        """Release the workers; at once if the run was `broken` off."""


class SerialPool:
    """Explains parts in this process, one after the other."""

    window = 1
    deaths_allowed = 1

    def __init__(self, job: DatasetJob) -> None:
        self._job = job
        self._waiting: deque[PartTask] = deque()

    def submit(self, task: PartTask) -> None:
        """Keep the part for `wait`."""
        self._waiting.append(task)

    def wait(self) -> list[PartOutcome]:
        """Explain the next part."""
        return [run_part(self._job, self._waiting.popleft())]

    def close(self, *, broken: bool) -> None:
        """Do nothing: there are no workers."""


class ProcessPool:
    """Explains parts in local processes (loky), each of which loads the job once and has one BLAS thread."""

    deaths_allowed = 1  # a part that runs alone has been among those of a dead process before

    def __init__(self, job: DatasetJob, n_jobs: int) -> None:
        joblib = require("joblib", extra="parallel", feature=f"`n_jobs={n_jobs}`", otherwise="or use n_jobs=1")
        from joblib.externals import loky
        from joblib.externals.loky import cloudpickle_wrapper as cloudpickle

        self._loky = loky
        self._n_jobs = joblib.cpu_count() if n_jobs == -1 else n_jobs
        self.window = 2 * self._n_jobs
        self._folder = tempfile.TemporaryDirectory(prefix="controlshap-")
        self._file = Path(self._folder.name) / "job.pickle"
        try:
            with pickling(f"n_jobs={n_jobs}"):
                self._file.write_bytes(cloudpickle.dumps(job))
        except BaseException:
            self._folder.cleanup()
            raise
        self._executor: Any = None
        self._futures: dict[Any, int] = {}

    def submit(self, task: PartTask) -> None:
        """Give the part to the processes; after a death, start new ones."""
        if self._executor is None:
            limits = dict.fromkeys(_THREADS, "1")
            self._executor = self._loky.ProcessPoolExecutor(
                self._n_jobs, initializer=load_job, initargs=(str(self._file), os.getpid()), env=limits
            )
        self._futures[self._executor.submit(run_loaded, task)] = task.part

    def wait(self) -> list[PartOutcome]:
        """Wait for the next parts to end. A dead process ends all that were under way."""
        done, _ = self._loky.wait(list(self._futures), return_when="FIRST_COMPLETED")
        if any(isinstance(future.exception(), self._loky.BrokenProcessPool) for future in done):
            done, _ = self._loky.wait(list(self._futures))
            self._executor.shutdown(wait=True, kill_workers=True)
            self._executor = None
        outcomes = []
        for future in done:
            part = self._futures.pop(future)
            error = future.exception()
            if error is None:
                outcomes.append(future.result())
            elif isinstance(error, self._loky.BrokenProcessPool):
                outcomes.append(PartOutcome(part, "lost", "its worker process died"))
            else:
                raise error
        return outcomes

    def close(self, *, broken: bool) -> None:
        """End the processes."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, kill_workers=broken)
        self._folder.cleanup()


_LOADED: list[DatasetJob | Exception] = []


def load_job(path: str, parent: int) -> None:
    """Load the job, once in each process; the process ends with its parent, which may be killed."""
    from joblib.externals.loky import cloudpickle_wrapper as cloudpickle

    threading.Thread(target=_end_with, args=(parent, Path(path).parent), daemon=True).start()
    try:
        _LOADED[:] = [cloudpickle.loads(Path(path).read_bytes())]
    except Exception as error:  # noqa: BLE001, raised by the first part: a process that dies here gives no reason
        _LOADED[:] = [error]


def _end_with(parent: int, folder: Path) -> None:
    while os.getppid() == parent:
        time.sleep(CHECK_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)  # nobody else is left to do so
    os._exit(1)


def run_loaded(task: PartTask) -> PartOutcome:
    """Explain one part with the job that was loaded."""
    job = _LOADED[0]
    if isinstance(job, Exception):
        raise InvalidArgumentError(
            f"`n_jobs`: the model could not be loaded in another process ({type(job).__name__}: {job}). Use n_jobs=1, "
            "or define it in a module that can be imported."
        )
    return run_part(job, task)
