"""How far a call is: a function, lines of JSON, a bar on a terminal, nothing when piped."""

import json
import os
import pty
import subprocess
import sys
import termios

import numpy as np
import pytest

import controlshap as cs

BACKGROUND = np.random.default_rng(0).normal(size=(20, 12))
X = np.random.default_rng(1).normal(size=(5, 12))


def model(rows):
    return np.tanh(rows.sum(axis=1))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_function_is_told_after_every_row(n_jobs):
    seen = []
    found = cs.explain(model, X, BACKGROUND, budget=300, rng=0, n_jobs=n_jobs, progress=seen.append)
    assert [one.rows_done for one in seen] == [1, 2, 3, 4, 5]
    assert {one.n_rows for one in seen} == {5}
    assert seen[-1].n_evaluations == found.n_evaluations.sum()
    assert seen[-1].seconds_left == 0.0
    assert seen[0].largest_error == pytest.approx(found.standard_errors[0].max())
    assert seen[-1].largest_error == pytest.approx(found.standard_errors.max())


def test_lines_of_json(capsys):
    cs.explain(model, X, BACKGROUND, budget=300, rng=0, progress="json")
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [one["rows_done"] for one in told] == [1, 2, 3, 4, 5]
    assert all(one["evaluations_per_second"] > 0 for one in told)


def test_other_words_are_refused():
    with pytest.raises(cs.InvalidArgumentError, match=r"`progress` must be None, True, False, 'json' or a function"):
        cs.explain(model, X, BACKGROUND, budget=300, progress="bar")


CODE = """
import time
import numpy as np
import controlshap as cs
rng = np.random.default_rng(0)

def slow(rows):
    time.sleep(0.12)
    return np.tanh(rows.sum(axis=1))

cs.explain(slow, rng.normal(size=(20, 12)), rng.normal(size=(20, 12)), budget=200, rng=0, control="none")
"""


@pytest.mark.slow
def test_a_bar_comes_up_on_a_terminal_and_nothing_when_piped():
    piped = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert (piped.stdout, piped.stderr) == ("", "")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    with subprocess.Popen([sys.executable, "-c", CODE], stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        try:
            while chunk := os.read(ours, 4096):
                seen += chunk
        except OSError:  # the other side is closed
            pass
        assert process.wait() == 0
    text = seen.decode()
    assert "evaluations/s" in text
    assert "20/20" in text
