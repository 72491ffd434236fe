"""What a run over a data set says: its progress, a bar on a terminal, warnings, what to install."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from dataset_cases import CALL, make_explainer, make_rows, write

import controlshap as cs
from controlshap.datasets import DatasetResult, FailedPart, Progress, open_source


def test_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    explainer, rows, seen = make_explainer(), make_rows(), []
    explainer.explain_dataset(rows, tmp_path / "a", part_rows=5, progress=seen.append, **CALL)
    assert [one.rows_done for one in seen] == [5, 10, 15, 20, 23]
    assert all(isinstance(one, Progress) and one.n_rows == 23 for one in seen)
    assert seen[0].seconds_left > 0 == seen[-1].seconds_left
    assert seen[-1].evaluations_per_second > 0
    assert capsys.readouterr() == ("", "")
    explainer.explain_dataset(rows, tmp_path / "b", part_rows=5, **CALL)
    explainer.explain_dataset(rows, tmp_path / "c", part_rows=5, progress=False, **CALL)
    assert capsys.readouterr() == ("", ""), "silent where nobody looks"
    explainer.explain_dataset(rows, tmp_path / "d", part_rows=5, progress="json", **CALL)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["rows_done"] for line in lines] == [5, 10, 15, 20, 23]
    explainer.explain_dataset(rows, tmp_path / "e", part_rows=5, progress=True, **CALL)
    assert "23/23" in capsys.readouterr().err


def test_a_bar_on_a_terminal(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from dataset_cases import CALL, make_explainer, make_rows\n"
        "make_explainer().explain_dataset(make_rows(), sys.argv[2], part_rows=5, **CALL)\n"
    )
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    command = [sys.executable, "-c", script, str(Path(__file__).parents[1]), str(tmp_path / "out")]
    subprocess.run(command, stderr=other, check=True, timeout=120)
    os.close(other)
    assert b"23/23" in os.read(main, 100_000)
    os.close(main)


def test_warnings_of_many_rows_are_one(tmp_path: Path) -> None:
    with pytest.warns(cs.NotConvergedWarning, match="5 warnings, the first: 5 of 5 rows .*row 0") as caught:
        make_explainer().explain_dataset(make_rows(), tmp_path / "out", part_rows=5, tolerance=1e-9, **CALL)
    assert len(caught) == 1


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(make_rows(), tmp_path / "rows.csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(cs.MissingExtraError, match=r"controlshap\[parquet\]"):
        open_source(path)
    with pytest.raises(cs.MissingExtraError, match=r"controlshap\[parquet\]"):
        make_explainer().explain_dataset(make_rows(), tmp_path / "out")


def test_a_result_says_how_it_ended_and_how_to_read_it() -> None:
    failed = (FailedPart(1, (6, 12), "no"),)
    result = DatasetResult(Path("out"), 12, 2, 1, failed, 3000, 4.2)
    assert repr(result) == (
        "DatasetResult: 1 of 2 parts of 12 rows, 3,000 model evaluations, 4 s; 1 part failed, see .failed; "
        "controlshap.load('out') reads it"
    )


def test_the_largest_error_of_a_run_counts_the_parts_of_earlier_ones(tmp_path: Path) -> None:
    explainer, call = make_explainer(), {"budget": 40, "rng": 0, "part_rows": 6}
    first = explainer.explain_dataset(make_rows(), tmp_path / "out", **call)
    again = explainer.explain_dataset(make_rows(), tmp_path / "out", **call)
    assert again.largest_error == first.largest_error == cs.load(tmp_path / "out").standard_errors.max() > 0
    assert f"largest standard error {first.largest_error:.2g};" in repr(again)
