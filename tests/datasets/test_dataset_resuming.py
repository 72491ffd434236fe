"""Runs over data sets that are interrupted, run out of disk or are killed, and go on."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dataset_cases import (
    CALL,
    CountedModel,
    assert_same_bits,
    interrupt,
    make_explainer,
    make_rows,
    marked,
    undisturbed,
)

import controlshap as cs
from controlshap.datasets import RunStoppedError, load_dataset
from controlshap.datasets.part_file import part_path
from controlshap.statistics.base_sample import REPEATED

pytestmark = pytest.mark.slow


def test_an_interrupt_loses_the_part_under_way(tmp_path: Path) -> None:
    rows, out = marked(make_rows(), 12), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        make_explainer(CountedModel(interrupt)).explain_dataset(rows, out, part_rows=5, **CALL)
    assert sorted(p.name for p in (out / "parts").iterdir()) == ["part-000000.parquet", "part-000001.parquet"]
    with pytest.raises(cs.InvalidArgumentError, match=r"3 of 5 parts are missing.*\(2, 3, 4\).*allow_partial"):
        cs.load(out)
    assert len(load_dataset(out, allow_partial=True)) == 10
    second = CountedModel()
    result = make_explainer(second).explain_dataset(rows, out, part_rows=5, **CALL)
    assert (result.n_done, result.n_parts) == (5, 5)
    whole = undisturbed(rows, tmp_path / "whole")
    assert_same_bits(cs.load(out), whole)
    assert result.n_evaluations == whole.n_evaluations.sum()
    assert second.n_rows == 8 + REPEATED + whole.n_evaluations[10:].sum(), (
        "the background, rows of it again, and what was missing"
    )
    third = CountedModel()
    make_explainer(third).explain_dataset(rows, out, part_rows=5, **CALL)
    assert third.n_rows == 8 + REPEATED, "nothing is left to do"


def test_a_full_disk_stops_the_run_and_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls, out = os.fsync, [], tmp_path / "out"

    def full(handle: int) -> None:
        calls.append(handle)
        if len(list((out / "parts").glob("part-*"))) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            RunStoppedError, match=r"No space left.*2 of 5 parts are done and kept in .*; run the same again"
        ):
            make_explainer(CountedModel()).explain_dataset(make_rows(), out, part_rows=5, **CALL)
    assert sorted(p.name for p in (out / "parts").iterdir()) == ["part-000000.parquet", "part-000001.parquet"]
    make_explainer(CountedModel()).explain_dataset(make_rows(), out, part_rows=5, **CALL)
    assert_same_bits(cs.load(out), undisturbed(make_rows(), tmp_path / "whole"))


def fail() -> None:
    raise OSError("the model's own file is gone")  # must not look like a full disk


def test_a_model_that_raises_spoils_its_part_only(tmp_path: Path) -> None:
    rows, out = marked(make_rows(), 12), tmp_path / "out"
    with pytest.warns(cs.ControlShapWarning, match="1 of 5 parts failed.*rows 10 to 14.*own file is gone"):
        result = make_explainer(CountedModel(fail)).explain_dataset(rows, out, part_rows=5, **CALL)
    assert result.n_done == 4
    (one,) = result.failed
    assert (one.part, one.rows) == (2, (10, 15))
    assert "the model's own file is gone" in one.reason
    assert json.loads((out / "failed.json").read_text())["failed"][0]["rows"] == [10, 15]
    with pytest.raises(cs.InvalidArgumentError, match=r"1 of 5 parts are missing.*1 failed, part 2 by OSError"):
        cs.load(out)
    result = make_explainer(CountedModel()).explain_dataset(rows, out, part_rows=5, **CALL)
    assert result.failed == ()
    assert not (out / "failed.json").exists()
    assert_same_bits(cs.load(out), undisturbed(rows, tmp_path / "whole"))


def test_a_part_that_kills_its_process_is_found_out(tmp_path: Path) -> None:
    rows, out = marked(make_rows(), 12), tmp_path / "out"

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.warns(cs.ControlShapWarning, match="1 of 5 parts failed"):
        result = make_explainer(CountedModel(die)).explain_dataset(rows, out, part_rows=5, n_jobs=2, **CALL)
    assert [(one.part, one.rows) for one in result.failed] == [(2, (10, 15))]
    assert "died" in result.failed[0].reason
    assert result.n_done == 4
    make_explainer(CountedModel()).explain_dataset(rows, out, part_rows=5, **CALL)
    assert_same_bits(cs.load(out), undisturbed(rows, tmp_path / "whole"))


CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
from dataset_cases import CALL, CountedModel, make_explainer, make_rows, marked, tell_and_wait

if __name__ == "__main__":
    call = CALL | {"part_rows": 5, "n_jobs": int(sys.argv[3])}
    make_explainer(CountedModel(tell_and_wait)).explain_dataset(marked(make_rows(), 22), sys.argv[2], **call)
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_killed_client_can_be_run_again(tmp_path: Path, n_jobs: int) -> None:
    out, script = tmp_path / "out", tmp_path / "client.py"
    script.write_text(CLIENT)
    command = [sys.executable, str(script), str(Path(__file__).parents[1]), str(out), str(n_jobs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        worker = int(client.stdout.readline())  # it is within the last part now
        while len(list((out / "parts").glob("part-*"))) < 4:
            time.sleep(0.05)
        client.kill()
    until = time.monotonic() + 30
    while Path(f"/proc/{worker}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists(), "workers end with their client"
    left = sorted(p.name for p in (out / "parts").iterdir())
    assert left[0].startswith(".part-000004"), "the part under way has a temporary name"
    assert left[1:] == [f"part-{part:06d}.parquet" for part in range(4)]
    rows, second = marked(make_rows(), 22), CountedModel()
    make_explainer(second).explain_dataset(rows, out, part_rows=5, **CALL)
    whole = undisturbed(rows, tmp_path / "whole")
    assert_same_bits(cs.load(out), whole)
    assert second.n_rows == 8 + REPEATED + whole.n_evaluations[20:].sum()
    assert not list((out / "parts").glob(".*"))


def test_a_run_without_a_seed_goes_on_with_its_own(tmp_path: Path) -> None:
    out = tmp_path / "out"
    make_explainer().explain_dataset(make_rows(), out, part_rows=5, budget=120)
    before = cs.load(out)
    part_path(out, 1).unlink()
    make_explainer().explain_dataset(make_rows(), out, budget=120)
    assert_same_bits(cs.load(out), before)
