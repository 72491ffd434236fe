"""Tables, models and a module in a folder, and the command line in this process or in its own."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import skops.io
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from controlshap.cli.commands import commands

RNG = np.random.default_rng(0)
NAMES = ["age", "debt", "rate", "sex", "years"]
X = pd.DataFrame(RNG.normal(size=(90, 5)), columns=NAMES)
Y = ((X.age * X.debt + X.rate) > 0).astype(int)
MODULE = """
import time, warnings
import numpy as np

def predict(rows):
    return np.tanh(rows["age"] * rows["debt"] + rows["rate"] * rows["sex"] * rows["years"])

def of_arrays(rows):
    return np.tanh(rows[:, 0] * rows[:, 1] * rows[:, 2])

def slow(rows):
    time.sleep(0.2)  # an interrupt comes in time on a busy machine, too
    return predict(rows)

def never(rows):
    raise ValueError("no\\nrows please")

def not_all(rows):
    if (rows["age"] > 100).any():
        raise ValueError("too\\nold")
    return predict(rows)

def warns(rows):
    warnings.warn("look\\nout", UserWarning)
    return predict(rows)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Tables with an outcome that is not for the model, models, and a module, in one folder."""
    folder = tmp_path_factory.mktemp("files")
    X.assign(target=Y)[:12].to_csv(folder / "data.csv", index=False)
    X.assign(target=Y)[:12].to_parquet(folder / "data.parquet")
    X.assign(target=Y)[:12].to_feather(folder / "data.arrow")
    X[12:52].to_parquet(folder / "background.parquet")
    X[12:52].to_csv(folder / "background.csv", index=False)
    network = MLPClassifier((6,), activation="tanh", solver="lbfgs", alpha=1.0, max_iter=900, random_state=0)
    skops.io.dump(network.fit(X, Y), folder / "model.skops")
    skops.io.dump(LogisticRegression().fit(X.to_numpy(), Y), folder / "arrays.skops")
    (folder / "cli_model.py").write_text(MODULE)
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text(",".join(NAMES) + "\n")
    (folder / "half.parquet").write_bytes((folder / "background.parquet").read_bytes()[:500])
    (folder / "half.skops").write_bytes((folder / "model.skops").read_bytes()[:500])
    (folder / "groups.json").write_text('{"money": ["debt", "rate"]}')
    (folder / "wrong.json").write_text('{"money": "debt"}')
    (folder / "broken.json").write_text("{")
    return folder


@pytest.fixture
def here(files, monkeypatch):
    monkeypatch.chdir(files)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield files
    sys.modules.pop("cli_model", None)


def run(*arguments):
    """In this process."""
    return CliRunner().invoke(commands, [str(one) for one in arguments])


def process(*arguments, cwd, **settings):
    """The real thing."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "controlshap", *(str(one) for one in arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, **settings)


EXPLAIN = ("explain", "model.skops", "data.csv", "--background", "background.parquet")
FUNCTION = ("data.csv", "--background", "background.parquet", "--drop", "target")
