"""`n_jobs` in a process that another one made: it ends, with the same bits."""

import multiprocessing
import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="processes are forked"),
]

PROGRAM = """
import multiprocessing, os, sys, tempfile
import numpy as np
import controlshap as cs

explainer = cs.Explainer(lambda rows: np.tanh(rows.sum(axis=1)), np.eye(4), estimator="permutation", control="none")
rows = np.arange(12.0).reshape(3, 4)

def call(n_jobs=2):
    return explainer(rows, budget=100, rng=0, n_jobs=n_jobs).values

def run(n_jobs=2):
    with tempfile.TemporaryDirectory() as folder:
        explainer.explain_dataset(rows, folder + "/out", budget=100, rng=0, n_jobs=n_jobs, part_rows=2)
        return cs.load(folder + "/out").values

def both(_=None):
    return (call().tobytes() + run().tobytes()).hex()

def put(queue):
    queue.put(both())

expected = (call(1).tobytes() + run(1).tobytes()).hex()
context = multiprocessing.get_context("fork")
if sys.argv[1] == "child":
    call()  # joblib has workers now, which belong to this process
    queue = context.SimpleQueue()
    process = context.Process(target=put, args=(queue,))
    process.start()
    assert queue.get() == expected
    process.join()
    assert process.exitcode == 0
else:
    with context.Pool(1) as pool:
        assert pool.map(both, [0]) == [expected]
"""


@pytest.mark.parametrize("kind", ["child", "daemon"])
def test_it_ends_with_the_same_bits(kind, tmp_path):
    """Without the pool of its own a child waited for workers of its parent, or, to end, for its own idle ones."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, script, kind], env=dict(os.environ), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
