"""Ordered map over rows: serial, or joblib processes. Results do not depend on the number of workers."""

from __future__ import annotations

import pickle
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._optional import require

Item = TypeVar("Item")
Result = TypeVar("Result")


def check_jobs(n_jobs: Any) -> int:
    """A number of workers."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0 or n_jobs < -1:
        raise InvalidArgumentError(f"`n_jobs` must be a positive number, or -1 for all cores; got {n_jobs!r}.")
    return int(n_jobs)


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int) -> Iterator[Result]:
    """`map` that keeps the order; one thread of BLAS in each worker, so that the bits agree."""
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
        shipped = _ship(function, Path(folder))
        with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
            parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator", max_nbytes="1M", mmap_mode="r")
            yield from parallel(joblib.delayed(_limited)(shipped, item) for item in items)


def _ship(function: Callable[[Any], Any], folder: Path) -> str:
    """Write what all tasks share (model, background) to a file, which each worker reads once: no copy for each task."""
    import cloudpickle

    path = folder / f"{uuid.uuid4().hex}.pickle"
    with path.open("wb") as file, sending("n_jobs"):
        cloudpickle.dump(function, file)
    return str(path)


@contextmanager
def sending(argument: str) -> Iterator[None]:
    """Say what it means that something cannot be pickled."""
    try:
        yield
    except OSError:  # of the disk
        raise
    except Exception as error:
        raise InvalidArgumentError(
            f"`{argument}`: the model cannot be sent to other processes ({type(error).__name__}: {error}). Use "
            "n_jobs=1, or a model without open files, locks and connections."
        ) from error


@lru_cache(maxsize=1)
def _received(path: str) -> Callable[[Any], Any]:
    with Path(path).open("rb") as file:
        function: Callable[[Any], Any] = pickle.load(file)
    return function


def _limited(shipped: str, item: Any) -> Any:
    try:
        with one_blas_thread():
            return _received(shipped)(item)
    except Exception as error:
        if _travels(error):
            raise
        told = RuntimeError(f"{type(error).__name__}: {error}")  # or the whole pool breaks, and nobody learns of it
        for note in getattr(error, "__notes__", ()):
            told.add_note(note)
        raise told from None


def _travels(error: Exception) -> bool:
    """Whether an exception comes back from another process; one whose class wants other arguments does not."""
    import cloudpickle

    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:  # noqa: BLE001, whatever its class does
        return False
    return True


def one_blas_thread() -> AbstractContextManager[Any]:
    """One BLAS thread where threadpoolctl is there to ask for it."""
    controller = _controller(len(sys.modules))
    if controller is None:
        return nullcontext()
    limits: AbstractContextManager[Any] = controller.limit(limits=1, user_api="blas")
    return limits


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> Any:  # noqa: ARG001
    """The loaded BLAS libraries; looked for again (3 ms) only after an import may have loaded one more."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
