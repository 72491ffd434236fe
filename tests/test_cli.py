"""The command line: what it writes, what it says where, exit codes. The real process where that matters."""

import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import controlshap as cs
from controlshap import InvalidArgumentError
from controlshap.command_columns import choose_columns, split_names
from controlshap.command_inputs import parse_rows
from controlshap.commands import commands
from controlshap.model_files import LoadedModel

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
    time.sleep(0.02)
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


# ------------------------------------------------------------------------------------------------ explain


def test_a_run_writes_a_result_and_a_report_and_says_so_on_stdout_only(files, tmp_path):
    done = process(*EXPLAIN, "--out", tmp_path / "out", "--budget", 300, "--json", cwd=files)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "controlshap: columns left out: target\n"  # no bar, no warnings: not a terminal
    assert done.stdout.count("\n") == 1
    told = json.loads(done.stdout)
    explainer = cs.Explainer(skops.io.load(files / "model.skops", trusted=_types(files)), X[12:52])
    expected = explainer(X[:12], budget=300, rng=0)
    found = cs.load(tmp_path / "out")
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.standard_errors, expected.standard_errors)
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == told
    assert told["result"] == str(tmp_path / "out")
    assert Path(told["report"]).read_text().startswith("<!")
    assert (told["rows"], told["first_row"], told["failed"], told["rng"]) == (12, 0, [], 0)
    assert told["evaluations"] == expected.n_evaluations.sum()
    assert told["statuses"] == {"budget reached": 12}
    assert told["median_gain"] > 0
    assert told["columns"] == NAMES
    assert told["columns_left_out"] == ["target"]
    assert told["background"] == {"rows": 40, "of": 40, "seed": None}
    assert told["model"]["kind"] == "skops"
    assert told["model"]["sha256"] in (tmp_path / "out" / "manifest.json").read_text()


def _types(files):
    return skops.io.get_untrusted_types(file=files / "model.skops")


def test_files_of_every_kind_give_the_same_numbers(here, tmp_path):
    found = []
    for number, (data, background) in enumerate(
        [("data.csv", "background.csv"), ("data.parquet", "background.parquet"), ("data.arrow", "background.csv")]
    ):
        out = tmp_path / str(number)
        done = run("explain", "model.skops", data, "--background", background, "--out", out, "--budget", 100)
        assert done.exit_code == 0, done.output
        found.append(cs.load(out).values)
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found[2], found[0])


def test_the_same_command_goes_on_and_another_one_is_refused_without_loss(here, tmp_path):
    out = tmp_path / "out"
    command = (*EXPLAIN, "--out", out, "--budget", 100, "--part-rows", 4)
    assert run(*command).exit_code == 0
    first = cs.load(out)
    (out / "parts" / "part-000001.parquet").unlink()
    kept = (out / "parts" / "part-000000.parquet").stat().st_mtime_ns
    again = run(*command)
    assert again.exit_code == 0, again.output
    assert (out / "parts" / "part-000000.parquet").stat().st_mtime_ns == kept
    np.testing.assert_array_equal(cs.load(out).values, first.values)
    for change in (("--rng", 1), ("--budget", 101), ("--control", "none")):
        other = run(*command, *change)
        assert other.exit_code == 1
        assert "holds another run" in other.stderr
    other = run("explain", "cli_model:predict", *FUNCTION, "--out", out, "--budget", 100, "--part-rows", 4)
    assert other.exit_code == 1
    assert "model_hash" in other.stderr
    np.testing.assert_array_equal(cs.load(out).values, first.values)


def test_options_reach_the_explainer(here, tmp_path):
    out = tmp_path / "out"
    done = run(
        *EXPLAIN, "--out", out, "--features", "correlated", "--estimator", "kernel", "--control", "taylor,ridge",
        "--groups", "groups.json", "--budget", 3000, "--stop", "top 1", "--stop", "signs", "--level", 0.8,
        "--rows", "2:4", "--rng", 7, "--no-report",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = cs.load(out)
    assert found.feature_names == ("age", "money", "sex", "years")
    assert (found.settings["features"], found.settings["estimator"]) == ("correlated", "kernel")
    assert found.settings["stop"] == ["top 1", "signs"]
    assert found.settings["level"] == 0.8
    assert found.entropy == 7
    assert "Taylor" in found.controls[0]
    np.testing.assert_allclose(np.asarray(found.data, dtype=float), X[2:4])
    assert not (out / "report.html").exists()
    assert "2 rows explained" in done.stdout


def test_a_large_background_is_sampled_with_a_stated_seed(here, tmp_path):
    command = (*EXPLAIN, "--budget", 60, "--rows", "0", "--max-background", 10, "--background-seed", 4)
    done = run(*command, "--out", tmp_path / "one", "--json")
    assert "controlshap: background: 10 of 40 rows sampled, seed 4\n" in done.stderr
    assert json.loads(done.stdout)["background"] == {"rows": 10, "of": 40, "seed": 4}
    run(*command, "--out", tmp_path / "two")
    np.testing.assert_array_equal(cs.load(tmp_path / "one").values, cs.load(tmp_path / "two").values)
    run(*command, "--out", tmp_path / "three", "--background-seed", 5)
    assert not np.array_equal(cs.load(tmp_path / "one").values, cs.load(tmp_path / "three").values)


def test_a_function_gets_frames_or_arrays_and_an_estimator_what_it_was_fitted_on(here, tmp_path):
    done = run("explain", "cli_model:of_arrays", *FUNCTION, "--out", tmp_path / "one", "--budget", 60)
    assert done.exit_code == 1
    assert "it gets pandas frames, --arrays gives it arrays" in done.stderr
    done = run("explain", "cli_model:of_arrays", *FUNCTION, "--out", tmp_path / "one", "--budget", 60, "--arrays")
    assert done.exit_code == 0, done.output
    assert cs.load(tmp_path / "one").feature_names == tuple(NAMES)
    done = run("explain", "arrays.skops", *FUNCTION, "--out", tmp_path / "two")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""  # scikit-learn would warn about names
    assert set(cs.load(tmp_path / "two").status) == {"exact"}


def test_an_onnx_model_with_columns_of_text(tmp_path, monkeypatch):
    from test_model_files import columns_onnx

    columns_onnx(tmp_path / "model.onnx")
    frame = pd.DataFrame({"name": list("abcd"), "job": ["clerk", "cook"] * 2, "children": [0, 1, 2, 3], "debt": 0.5})
    frame.to_csv(tmp_path / "data.csv", index=False)
    frame.to_parquet(tmp_path / "background.parquet")
    monkeypatch.chdir(tmp_path)
    done = run("explain", "model.onnx", "data.csv", "--background", "background.parquet", "--out", "out")
    assert done.exit_code == 0, done.output
    assert "left out: name" in done.stderr
    found = cs.load("out")
    assert found.feature_names == ("debt", "job", "children")
    np.testing.assert_allclose(found.values[:, 1], [1, -1, 1, -1], atol=1e-6)
    np.testing.assert_allclose(found.values[:, 2], [-1.5, -0.5, 0.5, 1.5], atol=1e-6)


def test_several_processes_give_the_same_bits(here, tmp_path):
    command = ("explain", "cli_model:predict", *FUNCTION, "--budget", 100, "--part-rows", 4)
    assert run(*command, "--out", tmp_path / "one").exit_code == 0
    done = process(*command, "--jobs", 2, "--out", tmp_path / "two", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(cs.load(tmp_path / "one").values, cs.load(tmp_path / "two").values)


def test_a_cluster_whose_workers_do_not_see_the_module(here, tmp_path, monkeypatch):
    from distributed import LocalCluster

    command = ("explain", "cli_model:predict", *FUNCTION, "--budget", 60, "--rows", ":6", "--part-rows", 3)
    assert run(*command, "--out", tmp_path / "near").exit_code == 0
    monkeypatch.chdir(tmp_path)  # where workers are started
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(here)])
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        done = process(*command, "--scheduler", cluster.scheduler_address, "--out", tmp_path / "far", cwd=here)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(cs.load(tmp_path / "far").values, cs.load(tmp_path / "near").values)


# ------------------------------------------------------------------------------------------------ what goes wrong


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


# ------------------------------------------------------------------------------------------------ a terminal


def test_a_terminal_gets_a_bar_with_the_time_left(files, tmp_path):
    import fcntl
    import pty
    import termios

    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    command = [sys.executable, "-m", "controlshap", "explain", "cli_model:predict", *FUNCTION, "--budget", "60",
               "--part-rows", "4", "--out", str(tmp_path / "out")]  # fmt: skip
    with subprocess.Popen(command, cwd=files, stdout=subprocess.PIPE, stderr=terminal, text=True) as running:
        os.close(terminal)
        shown = b""
        while True:
            try:
                more = os.read(controller, 4096)
            except OSError:  # the other side is closed
                break
            if not more:
                break
            shown += more
        stdout = running.stdout.read()
    os.close(controller)
    assert running.returncode == 0
    text = shown.decode()
    assert "12/12" in text
    assert "<" in text  # gone<left
    assert "evaluations/s" in text
    assert stdout.startswith("12 rows explained")


# ------------------------------------------------------------------------------------------------ other commands


def test_report_of_a_saved_explanation(tmp_path):
    cs.explain(lambda rows: rows[:, 0], X.to_numpy()[:2], X.to_numpy()[10:20], rng=0).save(tmp_path / "saved")
    done = run("report", tmp_path / "saved", "--title", "A & B", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"report": str(tmp_path / "saved" / "report.html")}
    assert "A &amp; B" in (tmp_path / "saved" / "report.html").read_text()
    done = run("report", tmp_path)
    assert done.exit_code == 1
    assert "holds no saved explanation" in done.stderr


def test_a_report_of_many_rows_shows_rows_from_all_over(here, tmp_path, monkeypatch):
    from controlshap import command_results

    assert run(*EXPLAIN, "--out", tmp_path / "out", "--budget", 60, "--part-rows", 1).exit_code == 0
    monkeypatch.setattr(command_results, "REPORT_ROWS", 4)
    shown = []
    monkeypatch.setattr(command_results, "write_report", lambda one, path, **settings: shown.append((one, settings)))
    run("report", tmp_path / "out", "--out", tmp_path / "r.html")
    explanation, settings = shown[0]
    np.testing.assert_allclose(np.asarray(explanation.data, dtype=float), X[:12:3])
    assert settings["title"] == "Shapley values of 4 of 12 rows"


def test_benchmark_of_the_built_in_problem():
    done = run("benchmark", "--budget", 700, "--rows", 2, "--seeds", 2, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    ours, plain, shap = told["methods"]
    assert shap["method"] == "shap.KernelExplainer"
    assert ours["squared_error_over_ours"] == ours["seconds_over_ours"] == 1
    assert plain["squared_error_over_ours"] > 3
    assert shap["squared_error_over_ours"] > 3
    assert plain["evaluations_a_row"] <= 700
    assert 600 <= shap["evaluations_a_row"] <= 710
    assert told["truth"]["budget"] == 35_000
    assert 0 < told["truth"]["standard_error_over_our_error"] < 0.5


def test_benchmark_of_a_model_of_ones_own(here):
    command = ("benchmark", "arrays.skops", *FUNCTION, "--rows", 2, "--seeds", 2, "--budget", 500)
    done = run(*command)
    assert done.exit_code == 0, done.output
    assert "Errors are taken against exact values." in done.stdout
    assert "no error" in done.stdout  # a logistic regression is explained exactly
    assert "shap.KernelExplainer" in done.stdout
    done = run(*command, "--features", "correlated", "--groups", "groups.json")
    assert done.exit_code == 0, done.output
    assert "Without shap.KernelExplainer: it explains independent features only." in done.stdout
    done = run("benchmark", "arrays.skops")
    assert done.exit_code == 2
    assert "or none of them" in done.stderr


def test_demo_hands_over(monkeypatch, tmp_path):
    from controlshap import demo

    seen = []
    monkeypatch.setattr(demo, "main", seen.append)
    assert run("demo", "--out", tmp_path).exit_code == 0
    assert seen == [["--out", str(tmp_path)]]


def test_help_tells_every_command_and_the_exit_codes():
    text = run("--help").stdout
    for name in ("demo", "explain", "report", "benchmark", "reproduce"):
        assert name in text
        assert run(name, "--help").exit_code == 0
    for page in (text, run("explain", "--help").stdout):
        assert "3 finished but some parts failed, 130" in " ".join(page.split())


def test_without_click_one_line_says_what_to_install():
    code = "import sys; sys.modules['click'] = None; from controlshap.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "controlshap: the command line needs click and tqdm: pip install 'controlshap[cli]'\n"


# ------------------------------------------------------------------------------------------------ columns and rows


def loaded(names=None, number=None):
    return LoadedModel(None, "", "function", names, number)


def test_columns_by_the_names_of_the_model_in_its_order():
    chosen = choose_columns(["id", "b", "a"], ["a", "b", "y"], loaded(("b", "a"), 2))
    assert chosen.names == ("b", "a")
    assert chosen.left_out == ("id", "y")
    assert choose_columns(["a", "b"], ["b", "a"], loaded(("a", "b")), columns=("b", "a")).names == ("a", "b")


def test_names_in_which_lightgbm_wrote_underscores_for_spaces(tmp_path, monkeypatch):
    import lightgbm

    frame = X.rename(columns={"age": "age in years", "debt": "all  debt"})
    data = lightgbm.Dataset(frame, Y)
    lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, data, 3).save_model(tmp_path / "m.txt")
    frame[["rate", *frame.columns.drop("rate")]].to_csv(tmp_path / "data.csv", index=False)
    monkeypatch.chdir(tmp_path)
    done = run("explain", "m.txt", "data.csv", "--background", "data.csv", "--out", "out", "--rows", ":2")
    assert done.exit_code == 0, done.output
    found = cs.load("out")
    assert found.feature_names == tuple(frame.columns)
    predicted = lightgbm.Booster(model_file="m.txt").predict(frame[:2])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, predicted)


def test_columns_by_the_files_or_by_the_options():
    assert choose_columns(["a", "b"], ["a", "b"], loaded()).names == ("a", "b")
    assert choose_columns(["a", "y", "b"], ["a", "b"], loaded(), drop=("y",)).names == ("a", "b")
    chosen = choose_columns(["a", "y", "b"], ["b", "a"], loaded(), columns=("b", "a"))
    assert (chosen.names, chosen.left_out) == (("b", "a"), ("y",))
    assert split_names(" a, b ,") == ("a", "b")


@pytest.mark.parametrize(
    ("data", "background", "model", "options", "message"),
    [
        ("ab", "abc", loaded(), {}, "only in --background: 'c'.*--drop"),
        ("abd", "abc", loaded(), {}, "only in DATA: 'd'; only in --background: 'c'"),
        ("ab", "ba", loaded(), {}, "another order"),
        ("ab", "ab", loaded(("a", "c")), {}, "`DATA` lacks columns that the model takes: 'c'.*others: 'b'"),
        ("ac", "ab", loaded(("a", "c")), {}, "`--background` lacks columns that the model takes: 'c'"),
        ("ab", "ab", loaded(("a", "b")), {"columns": ("a",)}, "the model's own names differ: 'b'"),
        ("ab", "ab", loaded(number=3), {}, "takes 3 columns, but there are 2: 'a', 'b'"),
        ("ab", "ab", loaded(), {"columns": ("a",), "drop": ("b",)}, "give one of them"),
        ("ab", "ab", loaded(), {"columns": ("a", "z")}, "lacks columns that --columns names: 'z'"),
        ("abcdefghijk", "z", loaded(), {}, "and 3 more"),
    ],
)
def test_columns_that_do_not_match_are_named(data, background, model, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        choose_columns(list(data), list(background), model, **options)


def test_a_column_named_twice_is_an_error():
    with pytest.raises(InvalidArgumentError, match="'a' came twice"):
        split_names("a,b,a")


@pytest.mark.parametrize(
    ("text", "rows"), [("2:5", (2, 5)), (":5", (0, 5)), ("5:", (5, 9)), ("3", (3, 4)), (":", (0, 9))]
)
def test_rows_are_chosen_by_number(text, rows):
    assert parse_rows(text, 9) == rows


@pytest.mark.parametrize("text", ["", "a", "1:2:3", "-1", "5:5", "5:4", "9", "0:10", "1 2"])
def test_rows_that_are_not_there_are_an_error(text):
    with pytest.raises(InvalidArgumentError, match="`--rows` must"):
        parse_rows(text, 9)
