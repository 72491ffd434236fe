"""How the command line ends: by SIGTERM, by a model that ends the program, by input made to break it."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import controlshap as cs

pytestmark = pytest.mark.slow

ROWS = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["a", "b", "c"])
MODULE = """
import sys, time
import numpy as np

def predict(rows):
    return np.tanh(rows["a"] * rows["b"] + rows["c"])

def slow(rows):
    time.sleep(0.02)
    return predict(rows)

def leaves(rows):
    sys.exit(0)
"""
DEEP = "[" * 1_000_000


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    ROWS[:20].to_csv(folder / "data.csv", index=False)
    ROWS[20:].to_csv(folder / "background.csv", index=False)
    ROWS.assign(a=np.where(ROWS.a > 0, "01", "02"))[20:].to_parquet(folder / "names.parquet")
    ROWS.assign(a=np.where(ROWS.a > 0, "01", "02"))[:20].to_csv(folder / "names.csv", index=False)
    (folder / "ending_model.py").write_text(MODULE)
    (folder / "named_model.py").write_text('def predict(rows):\n    return rows["b"] * (rows["a"] == "01")\n')
    (folder / "ending_script.py").write_text("import sys\ndef predict(rows):\n    return rows['a']\nsys.exit(0)\n")
    (folder / "deep.json").write_text('{"learner": ' + DEEP)
    (folder / "other.json").write_text('{"other": ' + DEEP)
    return folder


def command(model, out, *more, data="data.csv", background="background.csv"):
    return [sys.executable, "-m", "controlshap", "explain", model, data, "--background", background, "--no-report",
            "--out", str(out), *map(str, more)]  # fmt: skip


def run(files, *arguments, **settings):
    return subprocess.run(command(*arguments, **settings), cwd=files, capture_output=True, text=True, timeout=120)


WRONG = [
    ("ending_model:leaves", (), "the model ended the program by sys.exit(0)"),
    ("ending_script:predict", (), "importing 'ending_script' failed by SystemExit: 0"),
    ("deep.json", (), "the process that tried to load it crashed"),
    ("ending_model:predict", ("--groups", "other.json"), "`--groups`: 'other.json' is not JSON"),
    ("ending_model:predict", ("--scheduler", "nonsense"), "`scheduler`: there is none at 'nonsense'"),
    ("ending_model:predict", ("--seconds-per-evaluation", "-1"), "`seconds_per_evaluation`"),
]


@pytest.mark.parametrize(("model", "more", "message"), WRONG, ids=[message[:30] for *_, message in WRONG])
def test_nothing_ends_without_a_line_and_an_exit_code(model, more, message, files, tmp_path):
    done = run(files, model, tmp_path / "out", *more)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert message in done.stderr


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_terminated_run_is_left_in_order_and_goes_on(jobs, files, tmp_path):
    arguments = ("--budget", 40, "--estimator", "permutation", "--control", "none", "--part-rows", 1)
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    running = subprocess.Popen(
        command("ending_model:slow", tmp_path / "out", *arguments, "--jobs", jobs),
        cwd=files, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and running.poll() is None and not list(tmp_path.glob("out/parts/part-*")):
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 143
    assert stderr == "controlshap: terminated; what was finished is kept, and the same command goes on from it\n"
    assert not list(tmp_path.glob("controlshap-*"))
    assert run(files, "ending_model:slow", tmp_path / "out", *arguments).returncode == 0
    assert not list(tmp_path.glob("out/parts/.part-*"))
    whole = run(files, "ending_model:predict", tmp_path / "whole", *arguments)
    assert whole.returncode == 0
    assert cs.load(tmp_path / "out").values.tobytes() == cs.load(tmp_path / "whole").values.tobytes()


def test_some_rows_have_their_values_and_names_that_are_digits_stay_names(files, tmp_path):
    arguments = ("--budget", 30, "--estimator", "permutation", "--seconds-per-evaluation", 1e-6)
    settings = {"data": "names.csv", "background": "names.parquet"}
    assert run(files, "named_model:predict", tmp_path / "all", *arguments, **settings).returncode == 0
    some = run(files, "named_model:predict", tmp_path / "some", *arguments, "--rows", "5:9", "--json", **settings)
    assert json.loads(some.stdout)["first_row"] == 5
    every, found = cs.load(tmp_path / "all"), cs.load(tmp_path / "some")
    assert set(found.data[:, 0]) <= {"01", "02"}
    assert found.values.tobytes() == every.values[5:9].tobytes()
