"""Data sets on a real dask cluster of two processes, whose workers, scheduler and client get killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import cloudpickle
import dask
import distributed
import numpy as np
import pytest

import controlshap as cs
from controlshap.datasets import DatasetResult, Progress, RunStoppedError, dask_cluster

pytestmark = pytest.mark.slow

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not find this file

N_COLUMNS = 4
N_ROWS, PART_ROWS = 40, 4
MARK = 1e6
CALL: dict[str, Any] = {"budget": 60, "rng": 4, "part_rows": PART_ROWS}
SETTINGS: dict[str, Any] = {"estimator": "permutation", "control": "none", "seconds_per_evaluation": 1e-6}


def make_model(at_mark: Callable[[], None] | None = None, pause: float = 0.0) -> Callable[[Any], Any]:
    """A model that does something when it meets the marked row."""

    def model(rows: Any) -> Any:
        if at_mark is not None and (rows[:, 0] == MARK).any():
            at_mark()
        time.sleep(pause)
        values = np.where(rows == MARK, 0.0, rows)
        return np.tanh(values.sum(axis=1)) + values[:, 0] * values[:, 1] * values[:, 2]

    return model


def make_explainer(model: Any = None) -> cs.Explainer:
    return cs.Explainer(model or make_model(), np.random.default_rng(0).normal(size=(5, N_COLUMNS)), **SETTINGS)


def make_rows(mark: int | None = None) -> Any:
    rows = np.random.default_rng(1).normal(size=(N_ROWS, N_COLUMNS))
    if mark is not None:
        rows[mark, 0] = MARK
    return rows


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run(model: Any, rows: Any, out: Path, **more: Any) -> DatasetResult:
    return make_explainer(model).explain_dataset(rows, out, **(CALL | more))


def assert_undisturbed(out: Path, rows: Any) -> None:
    """Same bits as one call."""
    found = cs.load(out)
    direct = make_explainer()(rows, budget=CALL["budget"], rng=CALL["rng"], keep=False)
    for field in fields(cs.Explanation):
        x, y = getattr(found, field.name), getattr(direct, field.name)
        assert x.tobytes() == y.tobytes() if isinstance(x, np.ndarray) else x == y, field.name


def parts_in(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (out / "parts").glob("part-*")}


@pytest.fixture(scope="module")
def two_workers() -> Iterator[distributed.Client]:
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=":0",
            death_timeout=60,
        ) as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        yield client


def test_a_cluster_gives_the_bits_of_one_call(two_workers: distributed.Client, tmp_path: Path) -> None:
    seen: list[Progress] = []
    result = run(None, make_rows(), tmp_path / "out", scheduler=two_workers, progress=seen.append)
    assert (result.n_done, result.failed) == (N_ROWS // PART_ROWS, ())
    assert_undisturbed(tmp_path / "out", make_rows())
    assert seen[-1].rows_done == N_ROWS
    assert not two_workers.futures, "nothing is held"
    # the same from files, which workers read themselves, by the scheduler's address
    rows = tmp_path / "rows.csv"
    np.savetxt(rows, make_rows(), delimiter=",", header="a,b,c,d", comments="", fmt="%.17g")
    run(None, rows, tmp_path / "files", scheduler=two_workers.scheduler.address)
    assert cs.load(tmp_path / "files").values.tobytes() == cs.load(tmp_path / "out").values.tobytes()


def test_a_cluster_learns_like_one_process(two_workers: distributed.Client, tmp_path: Path) -> None:
    call = CALL | {"surrogate": "online", "budget": 200}
    found = []
    for name, scheduler in (("cluster", two_workers), ("here", None)):
        explainer = cs.Explainer(
            make_model(), np.random.default_rng(0).normal(size=(5, N_COLUMNS)), "independent", "permutation"
        )
        explainer.explain_dataset(make_rows(), tmp_path / name, scheduler=scheduler, **call)
        found.append(cs.load(tmp_path / name))
    assert found[0].values.tobytes() == found[1].values.tobytes()
    assert "SharedSurrogate" in found[0].method[-1]


def test_a_part_that_kills_workers_is_reported_and_the_rest_completes(
    two_workers: distributed.Client, tmp_path: Path
) -> None:
    out, rows = tmp_path / "out", make_rows(mark=9)
    with pytest.warns(cs.ControlShapWarning, match=r"1 of 10 parts failed; the first, rows 8 to 11.*KilledWorker"):
        result = run(make_model(die), rows, out, scheduler=two_workers)
    assert [(one.part, one.rows) for one in result.failed] == [(2, (8, 12))]
    assert result.n_done == 9
    assert json.loads((out / "failed.json").read_text())["failed"][0]["part"] == 2
    before = parts_in(out)
    result = run(make_model(), rows, out, scheduler=two_workers)
    assert (result.n_done, result.failed) == (10, ())
    assert {name: parts_in(out)[name] for name in before} == before, "only what was missing was done"
    assert_undisturbed(out, rows)


def complain() -> None:
    raise ArithmeticError("no such colour")


def test_a_model_that_raises_is_a_failed_part_at_once(two_workers: distributed.Client, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def note_and_complain() -> None:
        with log.open("a") as file:
            file.write("tried\n")
        complain()

    with pytest.warns(cs.ControlShapWarning, match="no such colour"):
        result = run(make_model(note_and_complain), make_rows(mark=39), tmp_path / "out", scheduler=two_workers)
    assert [one.part for one in result.failed] == [9]
    assert log.read_text() == "tried\n", "trying again would be in vain"
    assert result.n_done == 9


def test_a_worker_killed_from_outside(two_workers: distributed.Client, tmp_path: Path) -> None:
    out, finished = tmp_path / "out", {}

    def kill_one(progress: Progress) -> None:
        if not finished:
            finished.update(parts_in(out))
            pids = two_workers.run(os.getpid)
            os.kill(next(iter(pids.values())), signal.SIGKILL)

    result = run(make_model(pause=0.01), make_rows(), out, scheduler=two_workers, progress=kill_one)
    assert finished
    assert (result.n_done, result.failed) == (10, ())
    assert {name: parts_in(out)[name] for name in finished} == finished, "finished work was not done again"
    assert_undisturbed(out, make_rows())


CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_dataset_cluster import make_model, make_rows, run

run(make_model(pause=0.02), make_rows(), Path(sys.argv[2]), scheduler=sys.argv[3])
"""


def test_a_killed_client(two_workers: distributed.Client, tmp_path: Path) -> None:
    out, script = tmp_path / "out", tmp_path / "client.py"
    script.write_text(textwrap.dedent(CLIENT))
    here = str(Path(__file__).parent)
    client = subprocess.Popen([sys.executable, str(script), here, str(out), two_workers.scheduler.address])
    try:
        wait_for(lambda: len(parts_in(out)) >= 2)
    finally:
        client.kill()
        client.wait()
    n_left = 10 - len(parts_in(out))
    assert n_left > 0, "the client was killed too late for this test to say anything"
    result = run(make_model(), make_rows(), out, scheduler=two_workers)
    assert result.n_done == 10
    assert_undisturbed(out, make_rows())


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A scheduler in a process of its own."""
    file = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    process = subprocess.Popen([*command, "--no-dashboard", "--scheduler-file", str(file)], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: file.is_file() and file.read_text().endswith("}"))
        yield process, json.loads(file.read_text())["address"]
    finally:
        process.kill()
        process.wait()


def test_a_killed_scheduler(scheduler: tuple[subprocess.Popen[bytes], str], tmp_path: Path) -> None:
    process, address = scheduler
    out = tmp_path / "out"
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--host", "127.0.0.1", "--nthreads", "1"]
    worker = subprocess.Popen(
        [*command, "--no-nanny", "--no-dashboard", "--death-timeout", "5"], stderr=subprocess.DEVNULL, cwd=tmp_path
    )

    def kill_it(progress: Progress) -> None:
        process.kill()

    try:
        began = time.monotonic()
        with pytest.raises(RunStoppedError, match=r"scheduler was lost.*of 10 parts are done.*run the same again"):
            run(make_model(pause=0.02), make_rows(), out, scheduler=address, progress=kill_it)
        assert time.monotonic() - began < 60
        assert 1 <= len(parts_in(out)) < 10, "cancelled futures are not finished parts"
        worker.wait(60)  # the death timeout
    finally:
        worker.kill()
        worker.wait()
    done = parts_in(out)
    result = run(make_model(), make_rows(), out)  # one code path: finished here, without a cluster
    assert result.n_done == 10
    assert {name: parts_in(out)[name] for name in done} == done
    assert_undisturbed(out, make_rows())


def test_a_cancelled_future_counts_as_done_for_dask(two_workers: distributed.Client) -> None:
    """The trap itself: if this fails, dask has changed, and the driver may be simpler."""
    future = two_workers.submit(time.sleep, 1, pure=False)
    two_workers.cancel([future], force=True)
    wait_for(future.done)
    assert future.status == "cancelled"


def test_no_workers(
    scheduler: tuple[subprocess.Popen[bytes], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "WORKERLESS", 0.5)
    monkeypatch.setattr(dask_cluster, "COUNT_AFTER", 0.2)
    with pytest.raises(RunStoppedError, match=r"no workers.*0 of 10 parts are done"):
        run(make_model(), make_rows(), tmp_path / "out", scheduler=scheduler[1])


class Unloadable:
    """Cannot be made again elsewhere."""

    def __call__(self, rows: Any) -> Any:
        return rows.sum(axis=1)

    def __reduce__(self) -> Any:
        return complain, ()


def test_a_model_that_workers_cannot_load(two_workers: distributed.Client, tmp_path: Path) -> None:
    with pytest.raises(cs.InvalidArgumentError, match=r"could not be loaded on a worker.*no such colour.*Install"):
        run(Unloadable(), make_rows(), tmp_path / "out", scheduler=two_workers)
    assert run(make_model(), make_rows(), tmp_path / "other", scheduler=two_workers).n_done == 10


def test_threads_that_would_idle_are_named(tmp_path: Path) -> None:
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=":0"
        ) as local,
        distributed.Client(local, set_as_default=False) as client,
        pytest.warns(cs.ControlShapWarning, match="--nthreads 1"),
    ):
        run(make_model(), make_rows(), tmp_path / "out", scheduler=client)
    assert_undisturbed(tmp_path / "out", make_rows())


def test_schedulers_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT", 0.5)
    for scheduler, message in (
        ("tcp://127.0.0.1:9", "there is none at"),
        (3, "must be an address"),
        ("x://y", "none at"),
    ):
        with pytest.raises(cs.InvalidArgumentError, match=message):
            run(make_model(), make_rows(), tmp_path / "out", scheduler=scheduler)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(cs.MissingExtraError, match=r"controlshap\[cluster\]"):
        run(make_model(), make_rows(), tmp_path / "out", scheduler="tcp://127.0.0.1:9")
