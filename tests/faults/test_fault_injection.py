"""Every write, rename, sync and read of a small run fails in turn, is cut short, or is the last thing that happens.

As in SQLite's tests: the n-th operation is disturbed, for n = 1, 2, ... until a run gets through undisturbed. After
each fault the same call finishes with the same contents, or says what is wrong. Runs that are killed are processes of
their own, which end on the spot: nothing is cleaned up.
"""

import errno
import os
import pathlib
import sys
import warnings
from collections import Counter

import numpy as np
import pytest
from pyarrow import parquet

import controlshap as cs
from controlshap._files import is_unfinished

BACKGROUND = np.random.default_rng(0).normal(size=(5, 3))
ROWS = np.random.default_rng(1).normal(size=(6, 3))
CALL = {"budget": 40, "rng": 3}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="kills are tried in forked processes"),
]


def model(rows):
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


def explainer():
    return cs.Explainer(model, BACKGROUND, estimator="permutation", control="none")


class Faults:
    """Counts operations on files, and disturbs the n-th."""

    def __init__(self, monkeypatch, kind, n):
        self.kind, self.n, self.count = kind, n, 0
        self.fired = False
        for owner, name in (
            (pathlib.Path, "replace"),
            (os, "fsync"),
            (pathlib.Path, "mkdir"),
            (pathlib.Path, "write_text"),
            (np, "savez_compressed"),
            (np, "save"),
            (parquet.ParquetWriter, "write_table"),
            (parquet.ParquetWriter, "close"),
            (parquet, "ParquetFile"),
            (pathlib.Path, "read_text"),
            (np, "load"),
        ):
            monkeypatch.setattr(owner, name, self.disturbed(getattr(owner, name), name))

    def disturbed(self, function, name):
        def wrapped(*args, **kwargs):
            self.count += 1
            if self.count != self.n:
                return function(*args, **kwargs)
            self.fired = True
            if self.kind == "fails":
                raise OSError(errno.ENOSPC, "No space left on device")
            if self.kind == "is short" and name in ("replace", "write_text"):
                path = args[0]
                result = function(*args, **kwargs) if name == "write_text" else None
                os.truncate(path, path.stat().st_size // 2)
                return result if name == "write_text" else function(*args, **kwargs)
            if self.kind == "is the last":
                os._exit(9)
            result = function(*args, **kwargs)
            if self.kind == "is followed by a kill":
                os._exit(9)
            return result

        return wrapped


def run_dataset(folder):
    explainer().explain_dataset(ROWS, folder / "out", part_rows=2, **CALL)


def load_dataset(folder):
    return cs.load(folder / "out").values.tobytes() + cs.load(folder / "out").covariance.tobytes()


def run_saving(folder):
    """Over what an earlier call has saved."""
    cs.explain(model, ROWS, BACKGROUND, **CALL).save(folder / "saved")
    explainer().save(folder / "explainer")


def load_saved(folder):
    values = cs.Explainer.load(folder / "explainer", model)(ROWS, **CALL).values
    return cs.load(folder / "saved").values.tobytes() + values.tobytes()


JOBS = {"explain_dataset": (run_dataset, load_dataset), "save": (run_saving, load_saved)}
KINDS = ("fails", "is short", "is the last", "is followed by a kill")


def disturb(job, kind, n, folder):
    """Whether the n-th operation was reached; errors of the disturbed run are of the library, or the disk's own."""
    if "kill" in kind or kind == "is the last":
        child = os.fork()
        if child == 0:
            with pytest.MonkeyPatch.context() as patch:
                Faults(patch, kind, n)
                job(folder)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch, kind, n)
        try:
            job(folder)
        except cs.ControlShapError:
            pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return faults.fired


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", JOBS)
def test_every_operation_disturbed(name, kind, tmp_path, capsys):
    job, load = JOBS[name]
    (tmp_path / "whole").mkdir()
    job(tmp_path / "whole")
    expected = load(tmp_path / "whole")
    outcomes = Counter()
    for n in range(1, 500):
        folder = tmp_path / str(n)
        folder.mkdir()
        if name == "save":
            job(folder)
        reached = disturb(job, kind, n, folder)
        outcomes[finish(job, load, folder, expected)] += 1
        if not reached:
            break
    else:
        pytest.fail("the run never got through")
    with capsys.disabled():
        sys.stdout.write(f" {name}, {kind}: {dict(outcomes)}")
    assert n > 10
    assert set(outcomes) <= ({"same", "refused"} if kind == "is short" else {"same"}), outcomes


def finish(job, load, folder, expected):
    """The same call again, and what is read then."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", cs.ControlShapWarning)
        try:
            job(folder)
            found = load(folder)
        except cs.InvalidArgumentError as error:
            return "refused" if "damaged" in str(error) else str(error)
    left = [path for path in folder.rglob(".*") if is_unfinished(path.name)]
    assert not left or load is load_saved, left
    return "same" if found == expected else "other"


@pytest.mark.parametrize("n", range(1, 12))
def test_reading_that_fails_says_so_and_can_be_repeated(n, tmp_path):
    run_dataset(tmp_path)
    expected = load_dataset(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch, "fails", n)
        said = ""
        try:
            load_dataset(tmp_path)
        except cs.InvalidArgumentError as error:
            said = str(error)
    assert ("No space left" in said) == faults.fired, said
    assert load_dataset(tmp_path) == expected
