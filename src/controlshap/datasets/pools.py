"""Who explains parts: this process, or local worker processes. A cluster is another such pool (`cluster.py`)."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from controlshap._errors import InvalidArgumentError
from controlshap._optional import require
from controlshap._parallel import sending
from controlshap.datasets.part import Job, Outcome, Task, run_part

#: Seconds between looks of a worker at whether it is still needed.
LOOK = 1.0


class Pool(Protocol):
    """Takes parts and says what became of them.

    Attributes
    ----------
    window : int
        Parts that may be under way at a time.
    deaths_allowed : int
        Lost workers after which a part that was alone is given up.
    """

    @property
    def window(self) -> int:
        """Parts that may be under way at a time."""

    @property
    def deaths_allowed(self) -> int:
        """Lost workers after which a part that was alone is given up."""

    def submit(self, task: Task) -> None:
        """Begin with a part."""

    def wait(self) -> list[Outcome]:
        """What has ended; waits until something has."""

    def close(self, *, broken: bool) -> None:
        """Let go of the workers; at once where the run is `broken` off."""


class Here:
    """In this process, one part after the other."""

    window = 1
    deaths_allowed = 1

    def __init__(self, job: Job) -> None:
        self._job = job
        self._waiting: deque[Task] = deque()

    def submit(self, task: Task) -> None:
        """Keep it for `wait`."""
        self._waiting.append(task)

    def wait(self) -> list[Outcome]:
        """Do the next one."""
        return [run_part(self._job, self._waiting.popleft())]

    def close(self, *, broken: bool) -> None:
        """Nothing to let go."""


class Processes:
    """Local processes (loky), each of which loads the job once; one BLAS thread in each."""

    deaths_allowed = 1  # it took a process along before, and then another when it was alone

    def __init__(self, job: Job, n_jobs: int) -> None:
        joblib = require("joblib", extra="parallel", feature=f"`n_jobs={n_jobs}`", otherwise="or use n_jobs=1")
        from joblib.externals import loky
        from joblib.externals.loky import cloudpickle_wrapper as cloudpickle

        self._loky = loky
        self._n_jobs = joblib.cpu_count() if n_jobs == -1 else n_jobs
        self.window = 2 * self._n_jobs
        self._folder = tempfile.TemporaryDirectory(prefix="controlshap-")
        self._file = Path(self._folder.name) / "job.pickle"
        try:
            with sending(f"n_jobs={n_jobs}"):
                self._file.write_bytes(cloudpickle.dumps(job))
        except BaseException:
            self._folder.cleanup()
            raise
        self._executor: Any = None
        self._futures: dict[Any, int] = {}

    def submit(self, task: Task) -> None:
        """Give it to the processes; new ones are started after a death."""
        if self._executor is None:
            limits = dict.fromkeys(_THREADS, "1")
            self._executor = self._loky.ProcessPoolExecutor(
                self._n_jobs, initializer=load_job, initargs=(str(self._file), os.getpid()), env=limits
            )
        self._futures[self._executor.submit(run_loaded, task)] = task.part

    def wait(self) -> list[Outcome]:
        """Whatever has ended. A dead process ends all that was under way."""
        done, _ = self._loky.wait(list(self._futures), return_when="FIRST_COMPLETED")
        if any(isinstance(future.exception(), self._loky.BrokenProcessPool) for future in done):
            done, _ = self._loky.wait(list(self._futures))
            self._executor.shutdown(wait=True, kill_workers=True)
            self._executor = None
        found = []
        for future in done:
            part = self._futures.pop(future)
            error = future.exception()
            if error is None:
                found.append(future.result())
            elif isinstance(error, self._loky.BrokenProcessPool):
                found.append(Outcome(part, "lost", "its worker process died"))
            else:
                raise error
        return found

    def close(self, *, broken: bool) -> None:
        """End the processes."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, kill_workers=broken)
        self._folder.cleanup()


_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "BLIS_NUM_THREADS")
_LOADED: list[Job | Exception] = []


def load_job(path: str, parent: int) -> None:
    """Once in each process; it ends with the one that started it, which may be killed."""
    from joblib.externals.loky import cloudpickle_wrapper as cloudpickle

    threading.Thread(target=_end_with, args=(parent, Path(path).parent), daemon=True).start()
    try:
        _LOADED[:] = [cloudpickle.loads(Path(path).read_bytes())]
    except Exception as error:  # noqa: BLE001, told by the first part: a process that dies here would say nothing
        _LOADED[:] = [error]


def _end_with(parent: int, folder: Path) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK)
    shutil.rmtree(folder, ignore_errors=True)  # nobody else is left to do so
    os._exit(1)


def run_loaded(task: Task) -> Outcome:
    """One part with the job that was loaded."""
    job = _LOADED[0]
    if isinstance(job, Exception):
        raise InvalidArgumentError(
            f"`n_jobs`: the model could not be loaded in another process ({type(job).__name__}: {job}). Use n_jobs=1, "
            "or define it in a module that can be imported."
        )
    return run_part(job, task)


MakePool = Callable[[Job], Pool]
