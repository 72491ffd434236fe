"""The other commands: report, benchmark, demo, help."""

import json
import subprocess
import sys

import numpy as np
import pytest
from cli_cases import EXPLAIN, FUNCTION, X, files, here, run

import controlshap as cs

FIXTURES = (files, here)  # pytest finds them by their names


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
    from controlshap.cli import explain as explain_command

    assert run(*EXPLAIN, "--out", tmp_path / "out", "--budget", 60, "--part-rows", 1).exit_code == 0
    monkeypatch.setattr(explain_command, "REPORT_ROWS", 4)
    shown = []
    monkeypatch.setattr(explain_command, "write_report", lambda one, path, **settings: shown.append((one, settings)))
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
    from controlshap.cli import demo

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


def test_without_a_command_the_help_stands_alone():
    code = "from controlshap.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: controlshap ")
    commands = done.stderr.partition("Commands:")[2]
    assert "..." not in commands
    assert "(see controlshap" not in commands


def test_without_click_one_line_says_what_to_install():
    code = "import sys; sys.modules['click'] = None; from controlshap.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "controlshap: the command line needs click and tqdm: pip install 'controlshap[cli]'\n"


@pytest.mark.parametrize("package", ["click", "controlshap.cli.commands"])
def test_an_interrupt_while_packages_are_imported_is_one_line(package):
    """Before, a traceback: importing takes a second or two, and Ctrl-C is as likely then."""
    code = f"""
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {package!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from controlshap.cli.main import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "controlshap: interrupted\n")


def test_plan_says_what_explain_would_do_and_how_long_it_takes(here):
    command = ("plan", "model.skops", "data.csv", "--background", "background.csv", "--budget", 500)
    done = run(*command, "--seconds-per-evaluation", 0.01)
    assert done.exit_code == 0, done.output
    assert "evaluations at most 500 a row" in done.stdout
    assert "; 6,000 for 12 rows" in done.stdout
    assert "time        at most about 1 min of the model for 12 rows, at 0.01 s an evaluation" in done.stdout
    assert "background  40 rows, evaluated once" in done.stdout
    done = run(*command, "--rows", "0:5", "--json")
    told = json.loads(done.stdout)
    assert (told["rows"], told["evaluations_a_row"], told["measured"]) == (5, 500, True)
    assert told["seconds_per_evaluation"] > 0
    assert told["evaluations"] == 5 * 500 + 40


def test_a_class_and_kept_columns_from_the_command_line(here, tmp_path):
    done = run(
        "explain", "model.skops", "data.csv", "--background", "background.csv", "--out", tmp_path / "out",
        "--budget", 300, "--of-class", 0, "--keep", "target", "--no-report",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = cs.load(tmp_path / "out")
    assert found.output_labels == ("probability of class 0",)
    assert found.kept_names == ("target",)
    assert found.row_names == tuple(found.kept[row][0] for row in range(12))
