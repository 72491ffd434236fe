"""The plugin of dask workers. Imported only where dask.distributed is installed: its plugins are subclasses."""

from __future__ import annotations

from typing import Any

import cloudpickle
from distributed import WorkerPlugin

from controlshap.datasets.part import DatasetJob, PartOutcome, PartTask, run_part
from controlshap.engine.parallel import pickling

_JOBS: dict[str, DatasetJob] = {}


class JobPlugin(WorkerPlugin):  # type: ignore[misc]
    """Loads the job when the run starts, or when a worker joins later."""

    def __init__(self, job: DatasetJob) -> None:
        self.name = f"controlshap-{job.run[:16]}"
        self.run = job.run
        with pickling("scheduler"):
            self.pickled = cloudpickle.dumps(job)

    def setup(self, worker: Any) -> None:  # noqa: ARG002
        """Load the job, once in each worker."""
        _JOBS[self.run] = cloudpickle.loads(self.pickled)

    def teardown(self, worker: Any) -> None:  # noqa: ARG002
        """Drop the job when the run is over."""
        job = _JOBS.pop(self.run, None)
        if job is not None and job.source is not None:
            job.source.close()


def run_on_worker(run: str, task: PartTask) -> PartOutcome:
    """Explain one part with the job that the plugin has loaded."""
    return run_part(_JOBS[run], task)
