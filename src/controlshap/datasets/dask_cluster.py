"""Parts on a cluster of dask.distributed, used directly.

The explainer travels once, with a plugin that every worker loads, also one that joins later. A bounded window of
futures with small results is under way, and each is released as soon as it is done: a future that is held makes the
cluster repeat its part when the worker that has the result goes away. Whatever a future says, a part is done when its
file is there (`loop.py`).
"""

from __future__ import annotations

import threading
import time
import uuid
import warnings
from typing import Any

from controlshap._errors import ControlShapWarning, InvalidArgumentError, RunStoppedError
from controlshap._imports import require
from controlshap.datasets.part import DatasetJob, PartOutcome, PartTask

#: Seconds without any worker after which a run is given up.
WORKERLESS = 300.0
#: Seconds to find the scheduler.
CONNECT = 15.0
#: Seconds after which the workers are counted again.
COUNT_AFTER = 2.0
#: Parts under way for each worker.
PER_WORKER = 4


class DaskPool:
    """Explains parts on the workers of a dask scheduler."""

    deaths_allowed = 1  # the scheduler itself has tried several workers by then

    def __init__(self, job: DatasetJob, scheduler: Any) -> None:
        distributed = require("distributed", extra="cluster", feature="`scheduler`")
        require("cloudpickle", extra="cluster", feature="`scheduler`")
        from distributed.scheduler import KilledWorker

        from controlshap.datasets.dask_worker import JobPlugin, run_on_worker

        plugin = JobPlugin(job)
        self._distributed, self._killed, self._run_on_worker = distributed, KilledWorker, run_on_worker
        self._run, self._session, self._plugin = job.run, uuid.uuid4().hex[:8], plugin.name
        self._futures: dict[Any, int] = {}
        self._n_submitted = self._n_workers = 0
        self._news = threading.Event()
        self._counted = self._had_workers = time.monotonic()
        self._owns_client = isinstance(scheduler, str)
        self._client = _connect(distributed, scheduler)
        try:
            self._client.register_plugin(plugin)
            self._count_workers()
        except Exception as error:
            self.close(broken=True)
            raise InvalidArgumentError(
                f"`scheduler`: the explainer could not be loaded on a worker ({type(error).__name__}: {error}). "
                "Install controlshap and the packages of the model there, in the same versions."
            ) from error
        threads = max(self._client.nthreads().values(), default=1)
        if threads > 1:
            warnings.warn(
                f"`scheduler`: workers have up to {threads} threads, but each explains one part at a time. Start them "
                "with --nthreads 1, and more of them.",
                ControlShapWarning,
                stacklevel=2,
            )

    @property
    def window(self) -> int:
        """A few parts for each worker; it grows and shrinks with the cluster."""
        return PER_WORKER * max(1, self._n_workers)

    def submit(self, task: PartTask) -> None:
        """Send a part."""
        self._n_submitted += 1
        key = f"controlshap-{self._run[:8]}-{self._session}-{task.part}-{self._n_submitted}"
        try:
            future = self._client.submit(self._run_on_worker, self._run, task, key=key, pure=False)
        except Exception as error:
            raise self._lost_scheduler(error) from error
        self._futures[future] = task.part
        future.add_done_callback(lambda _: self._news.set())

    def wait(self) -> list[PartOutcome]:
        """Wait until futures are done, and return their outcomes."""
        while True:
            done = [future for future in self._futures if future.done()]
            if done:
                return [self._outcome(future) for future in done]
            self._news.wait(COUNT_AFTER)
            self._news.clear()
            if time.monotonic() - self._counted > COUNT_AFTER:
                self._count_workers()

    def close(self, *, broken: bool) -> None:
        """Release all futures; what a worker has begun it finishes."""
        futures, self._futures = list(self._futures), {}
        try:
            if self._client.status == "running":
                if broken and futures:
                    self._client.cancel(futures, force=True)
                self._client.unregister_worker_plugin(self._plugin)
        except Exception as error:
            if not broken:  # the run has ended already, for a reason that matters more
                raise self._lost_scheduler(error) from error
        finally:
            for future in futures:
                future.release()
            if self._owns_client:
                self._client.close(timeout=COUNT_AFTER)

    def _outcome(self, future: Any) -> PartOutcome:
        part = self._futures.pop(future)
        try:
            if future.status == "cancelled":
                # `done()` is true of it, but nothing was done
                raise self._lost_scheduler(None)
            if future.status == "error":
                error = future.exception(timeout=30)
                if isinstance(error, self._killed):
                    return PartOutcome(part, "lost", "its worker died (KilledWorker)")
                raise RunStoppedError(f"a worker could not take part {part} ({type(error).__name__}: {error})")
            outcome: PartOutcome = future.result(timeout=30)
            return outcome
        except (TimeoutError, OSError):
            return PartOutcome(part, "lost", "its worker was lost with the result")
        except self._distributed.CancelledError as error:
            raise self._lost_scheduler(error) from error
        finally:
            future.release()

    def _count_workers(self) -> None:
        """Count the workers; give up where there have been none for `WORKERLESS` seconds."""
        now = self._counted = time.monotonic()
        try:
            self._n_workers = len(self._client.nthreads())
        except Exception as error:
            raise self._lost_scheduler(error) from error
        if self._n_workers:
            self._had_workers = now
        elif now - self._had_workers > WORKERLESS:
            raise RunStoppedError(f"the scheduler has had no workers for {WORKERLESS:.0f} s. Start some")

    def _lost_scheduler(self, error: Exception | None) -> RunStoppedError:
        reason = "" if error is None else f" ({type(error).__name__}: {error})"
        return RunStoppedError(f"the scheduler was lost, or cancelled the parts{reason}. Start it and its workers")


def _connect(distributed: Any, scheduler: Any) -> Any:
    if isinstance(scheduler, distributed.Client):
        if scheduler.asynchronous:
            raise InvalidArgumentError("`scheduler` is an asynchronous Client; pass its address, or a plain Client.")
        return scheduler
    if not isinstance(scheduler, str):
        raise InvalidArgumentError(
            f"`scheduler` must be an address such as 'tcp://127.0.0.1:8786', or a dask.distributed Client; got "
            f"{type(scheduler).__name__}."
        )
    if scheduler.startswith("tls:") and not distributed.Security().get_connection_args("client").get("ssl_context"):
        # a client without certificates would try for half a minute
        raise InvalidArgumentError(
            f"`scheduler`: {scheduler!r} needs certificates. Pass distributed.Client(address, security=Security(...)) "
            "instead of the address, set dask's distributed.comm.tls, or give --tls-ca, --tls-cert and --tls-key."
        )
    try:
        if not scheduler.startswith("inproc:"):
            distributed.comm.get_address_host_port(scheduler)  # a client that was given nonsense takes long to give up
        return distributed.Client(scheduler, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise InvalidArgumentError(
            f"`scheduler`: there is none at {scheduler!r} ({type(error).__name__}: {error}). Start one with `dask "
            "scheduler`, and give the address that it prints."
        ) from error
