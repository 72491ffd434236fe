"""Data sets whose parts learn from the parts before them: workers, kills and damage change nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_cases import CountedModel, assert_same_bits, make_explainer, make_rows, marked, model

import controlshap as cs

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.slow

CALL: dict[str, Any] = {"budget": 200, "rng": 4, "part_rows": 4, "surrogate": "online", "progress": False}
#: Generations of 1, 2 and 4 parts of four rows; the last part has three.
ROWS = make_rows(27)


def explain(out: Path, rows: Any = ROWS, function: Any = model, **call: Any) -> cs.Explanation:
    result = make_explainer(function, control="auto").explain_dataset(rows, out, **(CALL | call))
    assert not result.failed
    return cs.load(out)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> cs.Explanation:
    return explain(tmp_path_factory.mktemp("whole") / "out")


def test_later_parts_are_taught_and_earlier_ones_are_as_they_would_be(undisturbed: cs.Explanation) -> None:
    alone = make_explainer(control="auto")(ROWS, budget=200, rng=4, keep=False)
    assert undisturbed.values[:4].tobytes() == alone.values[:4].tobytes()
    assert "SharedSurrogate" not in undisturbed.method[3]
    assert all("SharedSurrogate" in method for method in undisturbed.method[4:])
    ratio = (alone.standard_errors**2).mean(axis=1) / (undisturbed.standard_errors**2).mean(axis=1)
    assert np.median(ratio[12:]) > 1.2


def test_workers_do_not_matter(undisturbed: cs.Explanation, tmp_path: Path) -> None:
    assert_same_bits(explain(tmp_path / "out", n_jobs=2), undisturbed)
    assert sorted(path.name for path in (tmp_path / "out" / "functions").iterdir()) == ["000001", "000002"]
    assert not (tmp_path / "out" / "lessons").exists()


CLIENT = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from dataset_cases import CountedModel, make_explainer, marked, tell_and_wait
from test_dataset_learning import CALL, ROWS

if __name__ == "__main__":
    make_explainer(CountedModel(tell_and_wait), control="auto").explain_dataset(marked(ROWS, 21), sys.argv[3], **CALL)
"""


def test_a_killed_run_goes_on_with_the_same_functions(tmp_path: Path) -> None:
    out, script = tmp_path / "out", tmp_path / "client.py"
    script.write_text(CLIENT)
    here = Path(__file__).parent
    with subprocess.Popen(
        [sys.executable, str(script), str(here.parent), str(here), str(out)], stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        client.stdout.readline()  # within the sixth part, which has the second function
        until = time.monotonic() + 60
        while len(list((out / "parts").glob("part-*"))) < 5 and time.monotonic() < until:
            time.sleep(0.05)
        client.kill()
    functions = {path: path.stat().st_mtime_ns for path in (out / "functions").rglob("*.*")}
    assert len(functions) == 4
    found = explain(out, marked(ROWS, 21), CountedModel())
    assert {path: path.stat().st_mtime_ns for path in (out / "functions").rglob("*.*")} == functions
    assert_same_bits(found, explain(tmp_path / "whole", marked(ROWS, 21), CountedModel()))


@pytest.mark.parametrize("name", ["function.npz", "function.json"])
def test_a_damaged_function_is_noticed(name: str, tmp_path: Path) -> None:
    explain(tmp_path / "out", rows=ROWS[:8])
    (tmp_path / "out" / "parts" / "part-000001.parquet").unlink()
    path = tmp_path / "out" / "functions" / "000001" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.warns(cs.ControlShapWarning, match="1 of 2 parts failed"):
        result = make_explainer(control="auto").explain_dataset(ROWS[:8], tmp_path / "out", **CALL)
    assert "damaged" in result.failed[0].reason


def test_another_way_of_learning_is_another_run(tmp_path: Path) -> None:
    explain(tmp_path / "out", rows=ROWS[:8])
    with pytest.raises(cs.InvalidArgumentError, match="holds another run; these differ: call, surrogate"):
        explain(tmp_path / "out", rows=ROWS[:8], surrogate=None)
    with pytest.raises(cs.InvalidArgumentError, match="needs control='auto'"):
        make_explainer(control="ridge").explain_dataset(ROWS, tmp_path / "other", **CALL)
