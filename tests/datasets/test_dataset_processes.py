"""Processes that come and go: two clients in one folder, what cannot be sent, what is left behind."""

from __future__ import annotations

import glob
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import controlshap as cs
from controlshap.datasets.manifest import lock_folder
from controlshap.engine.parallel import ordered_map

pytestmark = pytest.mark.slow

BACKGROUND = np.random.default_rng(0).normal(size=(6, 3))
ROWS = np.random.default_rng(1).normal(size=(6, 3))
CALL = {"budget": 60, "rng": 0}


class OddError(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class Unloadable:
    """Pickled, but loaded nowhere else."""

    def __call__(self, rows):
        return rows[:, 0] * rows[:, 1]

    def __reduce__(self):
        return eval, ("1 / 0",)


class Locked:
    """Cannot be pickled."""

    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, rows):
        with self.lock:
            return rows[:, 0] * rows[:, 1]


def complains(rows):
    if (rows[:, 0] == ROWS[4, 0]).any():
        raise OddError("this", "that")
    return rows[:, 0] * rows[:, 1]


def make_explainer(model):
    return cs.Explainer(model, BACKGROUND, estimator="permutation", control="none", seconds_per_evaluation=1e-6)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary files go: nothing may be left there."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.glob("controlshap-*"))


def test_one_run_in_a_folder_at_a_time(tmp_path):
    out = tmp_path / "out"
    with lock_folder(out, None), pytest.raises(cs.InvalidArgumentError, match="another process is at work"):
        make_explainer(Unloadable()).explain_dataset(ROWS, out, **CALL)
    assert list(out.iterdir()) == []
    assert make_explainer(Unloadable()).explain_dataset(ROWS, out, **CALL).n_done == 1


def test_a_run_that_was_begun_meanwhile_is_not_overwritten(tmp_path):
    out = tmp_path / "out"
    began = []

    def begins_another(rows):
        if not began:
            began.append(True)
            make_explainer(Locked()).explain_dataset(ROWS, out, budget=60, rng=1)
        return rows[:, 0] * rows[:, 1]

    with pytest.raises(cs.InvalidArgumentError, match="another process has begun a run"):
        make_explainer(begins_another).explain_dataset(ROWS, out, **CALL)
    assert cs.load(out).entropy == 1


def test_a_model_that_cannot_be_sent_says_so(tmp_path, temporary):
    lock = threading.Lock()
    with pytest.raises(cs.InvalidArgumentError, match=r"`n_jobs`: the model cannot be sent .*TypeError.*lock"):
        list(ordered_map(lambda x: (x, lock), [1], 2))
    with pytest.raises(cs.InvalidArgumentError, match="`n_jobs=2`: the model cannot be sent to other processes"):
        make_explainer(Locked()).explain_dataset(ROWS, tmp_path / "out", n_jobs=2, **CALL)


def test_a_model_that_cannot_be_loaded_there_says_so_at_once(tmp_path, temporary):
    with pytest.raises(cs.InvalidArgumentError, match=r"could not be loaded in another process .ZeroDivisionError"):
        make_explainer(Unloadable()).explain_dataset(ROWS, tmp_path / "out", n_jobs=2, part_rows=1, **CALL)


def test_an_exception_that_does_not_travel_is_told(temporary):
    with pytest.raises(RuntimeError, match="OddError: this and that") as caught:
        make_explainer(complains)(ROWS, n_jobs=2, **CALL)
    assert "the model raised this on row 4" in caught.value.__notes__[0]


@pytest.mark.filterwarnings("ignore:.*tasks which were still being processed")
def test_an_abandoned_generator_leaves_nothing(temporary):
    squares = ordered_map(lambda x: x * x, range(40), 2)
    assert next(squares) == 0
    squares.close()


def test_workers_of_a_killed_client_remove_its_files(tmp_path):
    script = tmp_path / "client.py"
    script.write_text(
        "import time, numpy as np, controlshap as cs\n"
        "def model(rows):\n"
        "    time.sleep(0.02)\n"
        "    return rows[:, 0] * rows[:, 1]\n"
        "rows = np.random.default_rng(0).normal(size=(40, 3))\n"
        "explainer = cs.Explainer(model, rows[:6], estimator='permutation', control='none')\n"
        "explainer.explain_dataset(rows, 'out', budget=60, rng=0, n_jobs=2, part_rows=1)\n"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    client = subprocess.Popen(
        [sys.executable, script], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    parts = str(tmp_path / "out" / "parts" / "part-*")
    until = time.monotonic() + 60
    while not glob.glob(parts) and time.monotonic() < until:
        time.sleep(0.05)
    assert list(tmp_path.glob("controlshap-*"))
    client.send_signal(signal.SIGKILL)
    client.wait()
    while list(tmp_path.glob("controlshap-*")) and time.monotonic() < until:
        time.sleep(0.1)
    assert not list(tmp_path.glob("controlshap-*"))
    assert Path(glob.glob(parts)[0]).is_file()
