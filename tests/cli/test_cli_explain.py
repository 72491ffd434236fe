"""`controlshap explain`: what it writes, what it says where, what its options do."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from cli_cases import EXPLAIN, FUNCTION, NAMES, X, files, here, process, run

import controlshap as cs

FIXTURES = (files, here)  # pytest finds them by their names


@pytest.mark.slow
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
    kept = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert kept == told | {"result": ".", "report": "report.html"}, "no way to the folder, which may be moved"
    assert str(tmp_path) not in json.dumps(kept)
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


def test_an_order_and_a_hierarchy_come_from_files(here, tmp_path):
    (tmp_path / "order.json").write_text('[["age", "sex"], ["rate", "debt", "years"]]', encoding="utf-8")
    (tmp_path / "hierarchy.json").write_text('{"person": ["age", "sex"], "money": ["rate", "debt"]}', encoding="utf-8")
    out = tmp_path / "out"
    files = ("--order", tmp_path / "order.json", "--hierarchy", tmp_path / "hierarchy.json")
    done = run(*EXPLAIN, "--out", out, *files, "--budget", 300, "--rows", "0:2", "--no-report")
    assert done.exit_code == 0, done.output
    assert cs.load(out).by_group().feature_names == ("person", "money", "years")


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
    from model_file_cases import columns_onnx

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


@pytest.mark.slow
def test_several_processes_give_the_same_bits(here, tmp_path):
    command = ("explain", "cli_model:predict", *FUNCTION, "--budget", 100, "--part-rows", 4)
    assert run(*command, "--out", tmp_path / "one").exit_code == 0
    done = process(*command, "--jobs", 2, "--out", tmp_path / "two", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(cs.load(tmp_path / "one").values, cs.load(tmp_path / "two").values)


@pytest.mark.slow
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


@pytest.mark.slow
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
