"""An ordered map over rows: serial, or in joblib processes. Results do not depend on the number of workers."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from controlshap._checks import is_whole, show
from controlshap._errors import InvalidArgumentError
from controlshap._imports import require

#: Processes that an operating system commonly allows.
MOST_JOBS = 2**15
#: The process that imported this module; any other was forked from it.
_IMPORTED_IN = os.getpid()

Item = TypeVar("Item")
Result = TypeVar("Result")


def check_jobs(n_jobs: Any) -> int:
    """Check a number of processes; 1 in a process that may have no children of its own (a daemon, such as a pool's)."""
    if not is_whole(n_jobs) or n_jobs == 0 or not -1 <= n_jobs <= MOST_JOBS:
        raise InvalidArgumentError(f"`n_jobs` must be a positive number, or -1 for all cores; got {show(n_jobs)}.")
    return 1 if multiprocessing.current_process().daemon else int(n_jobs)


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int) -> Iterator[Result]:
    """Apply a function to items and yield the results in order, with one BLAS thread each, so that the bits agree."""
    if n_jobs == 1:
        with one_blas_thread():
            for item in items:
                yield function(item)
        return
    joblib, _ = (
        require(package, extra="parallel", feature=f"`n_jobs={n_jobs}`", otherwise="or use n_jobs=1")
        for package in ("joblib", "cloudpickle")
    )
    with tempfile.TemporaryDirectory(prefix="controlshap-") as folder:
        path = _write_function(function, Path(folder))
        if _is_child():
            yield from _map_in_own_pool(partial(_apply, path), items, joblib.cpu_count() if n_jobs == -1 else n_jobs)
            return
        with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
            parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator", max_nbytes="1M", mmap_mode="r")
            yield from parallel(joblib.delayed(_apply)(path, item) for item in items)


def _is_child() -> bool:
    """Whether another process of Python made this one.

    joblib keeps its workers for later calls. In a forked process these belong to the parent and never answer, and a
    child of multiprocessing waits for its own ones before it ends.
    """
    return os.getpid() != _IMPORTED_IN or multiprocessing.parent_process() is not None


def _map_in_own_pool(function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int) -> Iterator[Result]:
    """An ordered map over processes that end with it."""
    from joblib.externals.loky import ProcessPoolExecutor

    executor, done = ProcessPoolExecutor(n_jobs), False
    try:
        yield from executor.map(function, items)
        done = True
    finally:
        executor.shutdown(wait=True, kill_workers=not done)


def _write_function(function: Callable[[Any], Any], folder: Path) -> str:
    """Write what all items share (model, background) to a file, which each worker reads once."""
    import cloudpickle

    path = folder / f"{uuid.uuid4().hex}.pickle"
    with path.open("wb") as file, pickling("n_jobs"):
        cloudpickle.dump(function, file)
    return str(path)


@contextmanager
def pickling(argument: str) -> Iterator[None]:
    """Turn an error of pickling into one that names the argument and the way out; let errors of the disk through."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise InvalidArgumentError(
            f"`{argument}`: the model cannot be sent to other processes ({type(error).__name__}: {error}). Use "
            "n_jobs=1, or a model without open files, locks and connections."
        ) from error


@lru_cache(maxsize=1)
def _read_function(path: str) -> Callable[[Any], Any]:
    with Path(path).open("rb") as file:
        function: Callable[[Any], Any] = pickle.load(file)
    return function


def _apply(path: str, item: Any) -> Any:
    try:
        with one_blas_thread():
            return _read_function(path)(item)
    except Exception as error:
        if _can_travel(error):
            raise
        replacement = RuntimeError(f"{type(error).__name__}: {error}")  # the original error would break the whole pool
        for note in getattr(error, "__notes__", ()):
            replacement.add_note(note)
        raise replacement from None


def _can_travel(error: Exception) -> bool:
    """Whether an exception can be unpickled; one whose class takes other arguments than its message cannot."""
    import cloudpickle

    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:  # noqa: BLE001, since its class may raise anything
        return False
    return True


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread, where threadpoolctl is installed."""
    controller = _controller(len(sys.modules))
    if controller is None:
        return nullcontext()
    limits: AbstractContextManager[Any] = controller.limit(limits=1, user_api="blas")
    return limits


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> Any:  # noqa: ARG001
    """The loaded BLAS libraries, searched again (3 ms) only after an import may have loaded another one."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
