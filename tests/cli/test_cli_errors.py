"""What the command line says when something goes wrong, with which exit code, and what is kept."""

import json
import signal
import subprocess
import sys
import time

import pytest
from cli_cases import EXPLAIN, FUNCTION, X, files, here, process, run

FIXTURES = (files, here)  # pytest finds them by their names

WRONG = [
    (("model.skops", "empty.csv", "--background", "background.csv"), "`DATA`: 'empty.csv' is empty"),
    (("model.skops", "header.csv", "--background", "background.csv"), "`DATA`: 'header.csv' holds no rows"),
    (("model.skops", "data.csv", "--background", "empty.csv"), "`--background`: 'empty.csv' is empty"),
    (("model.skops", "data.csv", "--background", "half.parquet"), "`--background`: 'half.parquet' cannot be read"),
    (("model.skops", "data.csv", "--background", "none.csv"), "`--background`: there is no file"),
    (("half.skops", *FUNCTION), "damaged"),
    (("data.csv", *FUNCTION), "not a model file"),
    (("none.onnx", *FUNCTION), "there is no file 'none.onnx'"),
    (("no_such_module:predict", *FUNCTION), "no module 'no_such_module'"),
    (("cli_model:predict", "data.csv", "--background", "background.csv"), "only in DATA: 'target'"),
    (("cli_model:predict", *FUNCTION[:3], "--drop", "tarket"), "neither file has 'tarket'"),
    (("model.skops", *FUNCTION[:3], "--drop", "age"), "lacks columns that the model takes: 'age'"),
    (("arrays.skops", *FUNCTION[:3], "--columns", "age,debt"), "takes 5 columns, but there are 2"),
    (("cli_model:never", *FUNCTION), "the model failed on background rows 0 to 39 (40 rows): ValueError: no rows"),
    (("model.skops", *FUNCTION, "--rows", "5:50"), "within the 12 rows"),
    (("model.skops", *FUNCTION, "--groups", "wrong.json"), "must hold names and lists"),
    (("model.skops", *FUNCTION, "--groups", "broken.json"), "is not JSON"),
    (("model.skops", *FUNCTION, "--order", "broken.json"), "`--order`: 'broken.json' is not JSON"),
    (("model.skops", *FUNCTION, "--hierarchy", "wrong.json"), "`hierarchy`"),
    (("model.skops", *FUNCTION, "--estimator", "best"), "`estimator` must be one of"),
    (("model.skops", *FUNCTION, "--control", "taylor,best"), "`control` must be one of"),
    (("model.skops", *FUNCTION, "--budget", "0"), "`budget`"),
    (("model.skops", *FUNCTION, "--stop", "soon"), "`stop` must be"),
    (("model.skops", *FUNCTION, "--jobs", "0"), "`n_jobs`"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_an_error_is_one_line_on_stderr_and_exit_code_1(arguments, message, here, tmp_path):
    done = run("explain", *arguments, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if "left out" not in line]
    assert len(lines) == 1
    assert lines[0].startswith("controlshap: ")
    assert message in lines[0]


def test_exit_codes_of_the_real_process(files, tmp_path):
    wrong_use = process("explain", "model.skops", "data.csv", cwd=files)
    assert (wrong_use.returncode, wrong_use.stdout) == (2, "")
    assert wrong_use.stderr == "controlshap: Missing option '--background'. (see controlshap explain --help)\n"
    whole = process("explain", "cli_model:never", *FUNCTION, "--out", tmp_path / "out", "--traceback", cwd=files)
    assert whole.returncode == 1
    assert "Traceback" in whole.stderr
    assert 'raise ValueError("no' in whole.stderr
    assert whole.stderr.splitlines()[-1].startswith("controlshap: the model failed")


def test_failed_parts_are_told_and_the_others_kept(here, tmp_path):
    X[:12].assign(age=[*X.age[:11], 101.0]).to_csv(tmp_path / "data.csv", index=False)
    command = ("explain", "cli_model:not_all", tmp_path / "data.csv", "--background", "background.csv",
               "--budget", 60, "--part-rows", 5, "--out", tmp_path / "out")  # fmt: skip
    done = run(*command, "--json")
    assert done.exit_code == 3
    told = json.loads(done.stdout)
    assert (told["rows"], told["parts"], told["parts_done"]) == (10, 3, 2)
    assert told["failed"][0]["rows"] == [10, 12]
    assert done.stderr.count("\n") == 1
    assert "1 of 3 parts failed; the first, rows 10 to 11: ValueError: too old" in done.stderr
    assert (tmp_path / "out" / "report.html").is_file()
    chosen = run(*command[:-1], tmp_path / "chosen", "--rows", "9:12", "--part-rows", 1, "--json")
    assert [one["rows"] for one in json.loads(chosen.stdout)["failed"]] == [[11, 12]]
    none = run(*command[:-1], tmp_path / "none", "--rows", "11")
    assert none.exit_code == 1
    assert "No row could be explained" in none.stderr
    assert none.stderr.count("\n") == 1
    # the report of a result that is not whole
    assert "1 of 3 parts are missing" in run("report", tmp_path / "out").stderr
    assert run("report", tmp_path / "out", "--partial", "--out", tmp_path / "r.html").exit_code == 0
    assert "10 of 12 rows" in (tmp_path / "r.html").read_text()


@pytest.mark.seconds
def test_an_interrupt_keeps_what_is_finished(files, tmp_path):
    command = [sys.executable, "-m", "controlshap", "explain", "cli_model:slow", *FUNCTION, "--budget", "500",
               "--part-rows", "1", "--out", str(tmp_path / "out")]  # fmt: skip
    running = subprocess.Popen(command, cwd=files, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and running.poll() is None and not list(tmp_path.glob("out/parts/part-*")):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert stdout == ""
    assert stderr == "controlshap: interrupted; what was finished is kept, and the same command goes on from it\n"
    assert list((tmp_path / "out").glob("parts/part-*"))


def test_warnings_are_lines_without_file_names(here, tmp_path):
    done = run(*EXPLAIN, "--out", tmp_path / "one", "--budget", 60, "--tolerance", 1e-6)
    lines = done.stderr.splitlines()[1:]
    assert len(lines) == 1
    assert lines[0].startswith("controlshap: warning: ")
    assert ".py" not in done.stderr
    done = run("explain", "cli_model:warns", *FUNCTION, "--out", tmp_path / "two", "--budget", 60)
    assert done.exit_code == 0
    assert set(done.stderr.splitlines()) == {"controlshap: warning (UserWarning): look out"}


def test_a_damaged_result_is_told_and_left_as_it_is(here, tmp_path):
    out = tmp_path / "out"
    command = (*EXPLAIN, "--out", out, "--budget", 60, "--part-rows", 6)
    assert run(*command).exit_code == 0
    part = out / "parts" / "part-000001.parquet"
    part.write_bytes(part.read_bytes()[:200])
    for again in (run(*command), run("report", out)):
        assert again.exit_code == 1
        assert "damaged" in again.stderr
    (out / "manifest.json").write_text('{"kind"')
    for again in (run(*command), run("report", out)):
        assert again.exit_code == 1
        assert "manifest" in again.stderr
    assert (out / "parts" / "part-000000.parquet").is_file()


def test_a_report_that_cannot_be_written_is_told_before_the_work(here, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = run(*EXPLAIN, "--out", tmp_path / "out", "--budget", 60)
    assert done.exit_code == 1
    assert "needs jinja2: pip install 'controlshap[report]', or give --no-report" in done.stderr
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_into_a_folder_of_something_else(here, tmp_path):
    (tmp_path / "thesis.tex").write_text("important")
    done = run(*EXPLAIN, "--out", tmp_path, "--budget", 60)
    assert done.exit_code == 1
    assert "not empty" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.tex"]
