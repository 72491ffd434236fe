"""The reproduction of the paper: its parts by hand, a small cell of each kind end to end."""

import csv
import io
import os
import struct
import subprocess
import sys
import zipfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from controlshap import InvalidArgumentError
from controlshap_paper import command, driver, tables
from controlshap_paper.cells import TABLE_METHODS, Cell, Size, all_cells, budget_of, make_explainer, n_groups
from controlshap_paper.data import NAMES as DATA
from controlshap_paper.data import data_folder, load, simulate
from controlshap_paper.download import SOURCES, DownloadError, fetch, lay_out, open_url
from controlshap_paper.driver import PaperTask, all_tasks, run_tasks
from controlshap_paper.figures import draw_all
from controlshap_paper.models import fit_network, load_network, make_model
from controlshap_paper.published import explained_rows, published
from controlshap_paper.runs import SCHEMA, exact_estimates, is_done, prepare, read_estimates, run_cell, save
from controlshap_paper.statistics import (
    bias_z,
    mean_squared_error,
    rank_reduction,
    summarise,
    top_players,
    variance_reduction,
)

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("CONTROLSHAP_DATA", ROOT.parent / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not FOLDER.is_dir() and not os.environ.get("CI"), reason="the paper's data are not part of the project"
)
TINY = Size(2, 4, 120, 2000)


# ------------------------------------------------------------------------------------------------ published, and data


def test_all_sixty_published_cells_agree_with_the_printed_table():
    assert len(all_cells()) == 60
    # the rows of the printed table, in the order of our data sets
    printed = {
        ("logistic", "shapley_sampling", "independent"): [(10, 6), (76, 57), (75, 57), (33, 13), (83, 60)],
        ("network", "kernelshap", "independent"): [(22, 15), (25, 8), (86, 55), (-1, 1), (80, 45)],
        ("forest", "kernelshap", "correlated"): [(54, 31), (1, -2), (17, 9), (3, -1), (22, 10)],
    }
    for (model, estimator, features), numbers in printed.items():
        for data, (variance, rank) in zip(DATA, numbers, strict=True):
            known = published(Cell(data, model, estimator, features))
            assert abs(known.variance - variance) <= 0.51
            assert abs(known.rank - rank) <= 0.51
    assert len({published(cell) for cell in all_cells()}) == 60
    credit = published(Cell("credit", "network", "kernelshap", "correlated"))
    assert (credit.variance, credit.rank) == (87.137, 59.627)
    assert published(Cell("simulated", "logistic", "shapley_sampling", "independent")).variance == 9.775


def test_explained_rows_are_the_published_ones_or_drawn_with_a_seed():
    data = simulate()
    assert explained_rows(data, "logistic", 40)[:3].tolist() == [241, 559, 1177]
    forest = explained_rows(data, "forest", 40)
    assert len(set(forest.tolist())) == 40
    assert forest.max() < len(data.test)
    assert (explained_rows(data, "forest", 6) == forest[:6]).all()


def test_the_simulated_set_is_generated_as_published():
    data = simulate()
    assert data.encoded.shape == (10_000, 10)
    assert_allclose(data.encoded[0, :3], [-0.48900694, 0.46068986, -1.10509338], atol=1e-8)
    assert data.target.mean() == 0.5002
    correlation = np.corrcoef(data.encoded.T)
    # 10,000 rows: a correlation of r has standard error (1 - r^2) / 100
    assert np.abs(np.diag(correlation, 1) - 0.5).max() < 0.04
    assert np.abs(np.diag(correlation, 2) - 0.25).max() < 0.05


@needs_data
def test_the_generated_set_is_the_file():
    import pandas as pd

    table = pd.read_csv(FOLDER / "simulated.csv.gz")
    data = simulate()
    assert_allclose(data.encoded, table[list(data.columns)].to_numpy(), atol=1e-6)
    assert (data.target == table["y"].to_numpy()).all()


def test_a_missing_set_is_refused_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.delenv("CONTROLSHAP_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert data_folder() is None
    with pytest.raises(InvalidArgumentError, match="--data FOLDER"):
        load("bank", None)
    with pytest.raises(InvalidArgumentError, match="there are none in"):
        data_folder(tmp_path)
    with pytest.raises(InvalidArgumentError, match="must be one of"):
        load("iris", None)


@pytest.mark.parametrize("source", ["fitted", pytest.param("published", marks=needs_data)])
def test_derivatives_of_the_network_are_its_differences(source):
    if source == "fitted":
        rng = np.random.default_rng(0)
        data = simulate()
        few = type(data)("few", data.encoded[:300], data.target[:300], np.arange(250), np.arange(250, 300),
                         data.columns, data.groups, data.mean, data.std)  # fmt: skip
        network = fit_network(few)
        assert ((network(few.X_test) > 0.5) == few.y_test).mean() > 0.8
        x = rng.normal(size=10)
    else:
        network = load_network("credit", FOLDER)
        x = load("credit", FOLDER).X_test[0]
    step = 1e-5
    moves = step * np.eye(len(x))
    numeric = (network(x + moves) - network(x - moves)) / (2 * step)
    assert_allclose(network.gradient(x), numeric, atol=1e-8)
    second = np.stack([(network.gradient(x + move) - network.gradient(x - move)) / (2 * step) for move in moves])
    assert_allclose(network.hessian(x), second, atol=1e-8)


def zipped(name, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def as_published(url):
    """What the archives hold, made from the files here."""
    import pandas as pd

    if "bank" in url:
        table = pd.read_csv(FOLDER / "bank.csv.gz", keep_default_na=False)
        return zipped("bank.zip", zipped("bank-full.csv", table.to_csv(sep=";", index=False)))
    if "adult" in url:
        table = pd.read_csv(FOLDER / "census.csv.gz", keep_default_na=False)
        table.insert(2, "fnlwgt", 1)
        table.insert(3, "education", "HS-grad")
        table["Income>50K"] = table["Income>50K"].map({"yes": ">50K", "no": "<=50K"})
        lines = (", ".join(map(str, row)) for row in table.itertuples(index=False, name=None))
        return zipped("adult.data", "\n".join(lines) + "\n")
    if "german" in url:
        table = pd.read_csv(FOLDER / "credit.csv")
        return zipped("SouthGermanCredit.asc", table.set_axis(range(21), axis=1).to_csv(sep=" ", index=False))
    return (FOLDER / "brca.csv").read_bytes()


@needs_data
def test_downloaded_sets_are_those_of_the_folder(tmp_path):
    asked = []
    fetch(tmp_path, lambda url: asked.append(url) or as_published(url))
    for name in SOURCES:
        found, known = load(name, tmp_path), load(name, FOLDER)
        assert found.columns == known.columns
        assert found.groups == known.groups
        assert (found.encoded == known.encoded).all()
        assert (found.target == known.target).all()
        assert (found.train == known.train).all()
        assert (found.test == known.test).all()
    fetch(tmp_path, lambda url: pytest.fail("it is there already"))
    assert len(asked) == 4


def test_a_download_that_is_not_what_it_was_is_refused(tmp_path):
    with pytest.raises(DownloadError, match="cannot be read"):
        fetch(tmp_path, lambda url: b"<html>moved</html>")
    two = "a;b\n" + "\n".join(";".join(["1"] * 17) for _ in range(2))
    short = zipped("bank.zip", zipped("bank-full.csv", two))
    with pytest.raises(DownloadError, match="2 rows; 45211 were published"):
        lay_out("bank", SOURCES["bank"], short, tmp_path)
    with pytest.raises(DownloadError, match="cannot be reached"):
        fetch(tmp_path / "none", lambda url: open_url("file:///no/such/file"))
    assert not list(tmp_path.glob("*.json"))


# ------------------------------------------------------------------------------------------------------- statistics


def runs_with(variances, truth, n=4):
    """Runs `(n, rows, players)` whose variance over runs is exactly the given one, around the truth."""
    pattern = np.array([1.0, -1.0] * (n // 2))[:, None, None]
    return truth + pattern * np.sqrt(variances)


def test_variance_reduction_is_the_median_of_medians():
    truth = np.array([[3.0, 2.0, 1.0], [-3.0, 2.0, 1.0], [3.0, 2.0, 0.5]])
    before = runs_with(np.ones((3, 3)), truth)
    after = runs_with(np.array([[0.1, 0.5, 0.0], [0.2, 0.6, 0.0], [0.9, 0.7, 0.0]]), truth)
    assert top_players(truth, 2).tolist() == [0, 1]
    # medians over rows: 1 - 0.2 and 1 - 0.6; their median
    assert_allclose(variance_reduction(before, after, top_players(truth, 2)), 100 * (0.8 + 0.4) / 2)
    assert_allclose(variance_reduction(before, after, top_players(truth, 3)), 80.0)


def test_rank_reduction_is_the_mean_over_rows_of_percent():
    assert rank_reduction(np.array([10.0, 20.0, 0.0]), np.array([5.0, 20.0, 3.0])) == 25.0
    assert rank_reduction(np.zeros(2), np.zeros(2)) == 0.0


def test_bias_is_told_in_standard_errors():
    rng = np.random.default_rng(0)
    truth = np.zeros((40, 20))
    runs = rng.normal(size=(50, 40, 20))
    # 800 z scores with mean square 1: the standard error of their root mean square is about 1 / sqrt(2 * 800)
    assert abs(bias_z(runs, truth, np.zeros_like(truth)) - 1.0) < 5 / np.sqrt(1600)
    shifted = bias_z(runs + 1.0, truth, np.zeros_like(truth))  # negative control: a shift of sqrt(50) standard errors
    assert abs(shifted - np.sqrt(50)) < 0.5
    uncertain = bias_z(runs, truth + 1.0, np.ones_like(truth))  # a truth that may be off by as much
    assert uncertain < 1.2
    assert bias_z(np.zeros((5, 2, 2)), np.zeros((2, 2)), np.zeros((2, 2))) == 0.0
    assert bias_z(np.zeros((5, 2, 2)), np.ones((2, 2)), np.zeros((2, 2))) == np.inf
    one = np.array([[[1.0, 2.0]], [[3.0, 2.0]]])  # means 2 and 2, variances 2 and 0
    none = np.zeros((1, 2))
    assert mean_squared_error(one, np.array([[2.0, 2.0]]), none) == 1.0
    # a bias of 3 in the first: 9 - 2/2 more, over two values; a truth that may be off by as much takes it away
    assert mean_squared_error(one, np.array([[5.0, 2.0]]), none) == 1.0 + (9 - 1) / 2
    assert mean_squared_error(one, np.array([[5.0, 2.0]]), np.array([[3.0, 0.0]])) == 1.0


def test_a_summary_has_errors_that_shrink_with_runs():
    rng = np.random.default_rng(1)
    truth = np.zeros((10, 6))
    few = summarise(rng.normal(size=(10, 10, 6)), 0.5 * rng.normal(size=(10, 10, 6)), truth, truth)
    many = summarise(rng.normal(size=(200, 10, 6)), 0.5 * rng.normal(size=(200, 10, 6)), truth, truth)
    assert abs(many.variance_reduction - 75.0) < 4 * many.variance_error
    assert many.variance_error < few.variance_error
    assert abs(many.rank_before - many.rank_after) < 1.0


# ----------------------------------------------------------------------------------------------------- cells and tasks


def test_methods_that_differ_are_run_and_only_those():
    noisy = Cell("credit", "network", "shapley_sampling", "correlated")
    assert noisy.methods() == ("paper", "shared_noise", "default")
    kernel = Cell("credit", "network", "kernelshap", "correlated")
    assert kernel.methods() == ("paper", "default", "bootstrap", "grouped")
    assert kernel.same_as_paper("shared_noise")
    names = [task.name for task in all_tasks()]
    assert len(names) == len(set(names))
    assert len([n for n in names if n.startswith("truth")]) == 30
    assert all(task.cost(Size()) > task.cost(Size.quick()) for task in all_tasks("paper|truth|default"))
    assert n_groups(1000, 20) == 20
    assert n_groups(300, 20) == 6


@pytest.mark.parametrize("estimator", ["shapley_sampling", "kernelshap"])
@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_the_budget_buys_the_coalitions_asked_for(estimator, features):
    cell = Cell("simulated", "logistic", estimator, features)
    data = simulate()
    explainer = make_explainer(cell, "paper", make_model("logistic", data, None), data, TINY, 0, 0)
    budget = budget_of(cell, explainer, data, 120)
    found = explainer(data.X_test[:20], budget=budget, rng=0)
    unit = 40 if estimator == "shapley_sampling" else 20
    of_base = max(16, budget // 11) if features == "correlated" else 0
    assert (budget - 1 - of_base) // unit == 60
    assert (found.n_evaluations <= budget).all()
    spent = budget_of(cell, explainer, data, 120, spent=True)
    base = of_base if estimator == "shapley_sampling" else 0  # enters no value
    # 60 units of 20 permutations: a known end in one of ten, four (two) a unit on average
    assert abs(found.n_evaluations.mean() - base - spent) < 0.01 * spent


@pytest.mark.parametrize("model", ["logistic", "network", "forest"])
def test_small_cells_of_each_kind_end_to_end(model, tmp_path):
    only = f"(truth-)?simulated-{model}"
    tasks = all_tasks(only)
    assert not run_tasks(tasks, TINY, None, 3, tmp_path / "raw", 1)
    lines = tables.write_tables(tmp_path / "raw", tmp_path, TINY, 3)
    assert len(lines) == 12
    for line in lines:
        assert np.isfinite([line.variance_reduction, line.rank_reduction, line.mse]).all()
        if line.method == "default" and line.features == "correlated":
            paper = next(x for x in lines if x.cell == line.cell and x.method == "paper")
            assert line.mse < paper.mse
        # 20 values from four runs: a root mean square z beyond 4 is no accident
        assert line.bias_z < 4.0
    with (tmp_path / "table1.csv").open() as file:
        header = next(csv.reader(file))
    assert header == ["data", "model", "estimator", "features", "method", "variance_reduction", "rank_reduction",
                      "bias_z", "mse"]  # fmt: skip
    page = (tmp_path / "table1.md").read_text()
    assert "not run" in page
    gains = page.split("## What the default gains")[1]
    mse = {(line.features, line.method): line.mse for line in lines if line.estimator == "kernelshap"}
    if mse["correlated", "default"] > 0:
        ratio = mse["correlated", "paper"] / mse["correlated", "default"]
        shown = f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"
    else:  # few players: the default is exact
        shown = "exact"
    assert f"| {model} | KernelSHAP, correlated | {shown} | not run" in gains
    assert ("exact" in gains.partition("|")[2]) == (model != "network")
    n_sampled = {"network": 4, "forest": 2, "logistic": 0}[model]
    assert (f"In {n_sampled} cells it has one" in gains) == (n_sampled > 0)


@needs_data
def test_grouped_columns_end_to_end():
    for estimator, features in (("shapley_sampling", "correlated"), ("kernelshap", "independent")):
        cell = Cell("credit", "network", estimator, features)
        found = run_cell(cell, "paper", Size(2, 2, 150, 1000), FOLDER, 0)
        assert found.controlled.shape == (2, 2, 20)
        assert (found.controlled.var(axis=0) > 0).all()
        assert (np.median(found.anticipated) > 0.3).all()


def test_the_same_seed_gives_the_same_table_and_finished_work_is_skipped(tmp_path, monkeypatch):
    settings = {"quick": False, "jobs": 1, "only": "simulated-logistic.*correlated", "seed": 5}
    monkeypatch.setattr(command, "Size", lambda: TINY)
    for name, jobs in (("one", 1), ("two", 2)):
        assert command.reproduce(out=tmp_path / name, **(settings | {"jobs": jobs}))
    first, second = tmp_path / "one", tmp_path / "two"
    assert (first / "table1.csv").read_bytes() == (second / "table1.csv").read_bytes()
    assert len(list((first / "figures").glob("*.png"))) == len(list((first / "figures").glob("*.svg"))) > 0

    ran = []
    monkeypatch.setattr(driver, "run_and_save", lambda *arguments: ran.append(arguments) or 0.0)
    monkeypatch.setattr(driver, "find_truth", lambda *arguments: ran.append(arguments) or 0.0)
    assert command.reproduce(out=first, **settings)
    assert ran == []
    half = first / "raw" / "simulated-logistic-kernelshap-correlated-paper.json"
    half.unlink()  # as if the run had ended between the two files
    command.reproduce(out=first, **settings)
    assert len(ran) == 1
    # another seed is another result, and is not mixed with this one
    assert not is_done(first / "raw", "simulated-logistic-kernelshap-correlated-default", TINY, 6)
    table = (first / "table1.csv").read_bytes()
    with pytest.raises(InvalidArgumentError, match=r"results of other settings \(seed 5 there, 6 now"):
        command.reproduce(out=first, **(settings | {"seed": 6}))
    assert (first / "table1.csv").read_bytes() == table
    monkeypatch.setattr(command, "data_folder", lambda given: None)
    assert command.reproduce(out=first, report=True, **settings)  # no data are needed for that


def test_lines_of_earlier_runs_are_kept(tmp_path):
    tasks = all_tasks("simulated-logistic-kernelshap-independent-(paper|default)|truth-simulated-logistic-indep")
    run_tasks(tasks, TINY, None, 0, tmp_path / "raw", 1)
    before = tables.write_tables(tmp_path / "raw", tmp_path, TINY, 0)
    assert len(before) == len(TABLE_METHODS)
    for file in (tmp_path / "raw").iterdir():
        file.unlink()
    assert len(tables.write_tables(tmp_path / "raw", tmp_path, TINY, 0)) == len(before)
    assert tables.write_tables(tmp_path / "raw", tmp_path, Size(3, 4, 120), 0) == []  # of another size


def test_figures_of_earlier_runs_are_kept(tmp_path):
    """A run that holds one of two results does not draw over a figure of both."""
    tasks = all_tasks("simulated-logistic-kernelshap-(in|correl).*-(paper|default)|truth-simulated-logistic")
    raw, figures = tmp_path / "raw", tmp_path / "figures"
    run_tasks(tasks, TINY, None, 0, raw, 1)

    def draw():
        drawn = draw_all(raw, figures, TINY, 0, tables.write_tables(raw, tmp_path, TINY, 0))
        return drawn, (figures / "variance_reductions_logistic.png").read_bytes()

    first, both = draw()
    for file in raw.glob("simulated-logistic-kernelshap-correlated*"):
        file.unlink()
    second, kept = draw()
    assert kept == both
    assert second < first
    (tmp_path / "details.csv").unlink()  # Negative control: nothing says that there was more
    (tmp_path / "table1.csv").unlink()
    assert draw()[1] != both


def test_a_task_that_fails_is_told_and_the_others_go_on(tmp_path, monkeypatch):
    def broken(cell, *arguments):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(driver, "run_and_save", broken)
    tasks = [PaperTask(Cell("simulated", "logistic", "kernelshap", "independent"), m) for m in ("paper", "truth")]
    told = []
    failed = run_tasks(tasks, TINY, None, 0, tmp_path, 1, told.append)
    assert [outcome.error for outcome in failed] == ["RuntimeError: out of luck"]
    assert len(told) == 2
    assert is_done(tmp_path, "truth-simulated-logistic-independent", TINY, 0)


def test_a_result_that_was_being_replaced_does_not_count(tmp_path, monkeypatch):
    about = {"schema": SCHEMA, "seed": 0, "size": asdict(TINY)}
    save(tmp_path, "one", {"values": np.zeros(2)}, about)
    assert is_done(tmp_path, "one", TINY, 0)
    monkeypatch.setattr("controlshap_paper.runs.json.dumps", lambda *a, **k: pytest.exit)  # dies between the files
    with pytest.raises(TypeError):
        save(tmp_path, "one", {"values": np.ones(2)}, about | {"seed": 1})
    assert not is_done(tmp_path, "one", TINY, 0)


def test_exact_values_are_not_computed_twice(tmp_path):
    cell = Cell("simulated", "logistic", "kernelshap", "independent")
    assert not run_tasks([PaperTask(cell, "truth")], TINY, None, 0, tmp_path, 1)
    known, run = exact_estimates(cell, TINY, 0, tmp_path), run_cell(cell, "default", TINY, None, 0)
    for name in known.__dataclass_fields__:
        assert_allclose(getattr(known, name), getattr(run, name), rtol=0, atol=1e-12)
    assert exact_estimates(Cell("simulated", "logistic", "kernelshap", "correlated"), TINY, 0, tmp_path) is None


def test_what_a_line_needs_is_run_with_it():
    names = {task.name for task in all_tasks("credit-network-kernelshap-correlated-default")}
    cell = "credit-network-kernelshap-correlated"
    assert names == {f"{cell}-default", f"{cell}-paper", "truth-credit-network-correlated"}
    assert [task.name for task in all_tasks("truth-bank-forest-corr")] == ["truth-bank-forest-correlated"]


def test_estimates_come_back_as_they_were_saved(tmp_path):
    cell = Cell("simulated", "logistic", "kernelshap", "correlated")
    prepare.cache_clear()
    found = run_cell(cell, "grouped", Size(2, 2, 300, 1000), None, 0)
    arrays = {name: getattr(found, name) for name in found.__dataclass_fields__}
    save(tmp_path, "one", arrays, {})
    again = read_estimates(tmp_path, "one")
    for name, array in arrays.items():
        assert_allclose(getattr(again, name), array, equal_nan=True)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["reproduce", "--only", "no such task"], 1, "matches none"),
        (["reproduce", "--only", "["], 1, "must be a regular expression"),
        (["reproduce", "--jobs", "0"], 2, "jobs"),
        (["reproduce", "--data", "."], 1, "there are none in"),
        (["nothing"], 2, "nothing"),
    ],
)
def test_the_command_line_tells_what_is_wrong_in_one_line(arguments, code, told, tmp_path):
    command_line = [sys.executable, "-m", "controlshap", *arguments]
    found = subprocess.run(command_line, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert found.returncode == code
    assert told in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


def test_help_names_the_options():
    command_line = [sys.executable, "-m", "controlshap", "reproduce", "--help"]
    found = subprocess.run(command_line, capture_output=True, text=True, check=True)
    assert all(option in found.stdout for option in ("--quick", "--data", "--out", "--jobs"))


def test_a_terminal_sees_the_time_left_and_a_pipe_does_not(tmp_path):
    fcntl, pty, termios = (pytest.importorskip(name) for name in ("fcntl", "pty", "termios"))
    arguments = ["reproduce", "--quick", "--only", "simulated-logistic-kernelshap-correlated-paper", "--jobs", "1"]
    command_line = [sys.executable, "-m", "controlshap", *arguments, "--out"]
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))  # a terminal of 120 columns
    with subprocess.Popen([*command_line, str(tmp_path / "a")], stderr=writer) as running:
        os.close(writer)
        shown = b""
        while True:
            try:
                part = os.read(reader, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        assert running.wait() == 0
    os.close(reader)
    assert b"left" in shown
    assert b"100%" in shown
    piped = subprocess.run([*command_line, str(tmp_path / "b")], capture_output=True, text=True, check=True)
    assert piped.stderr == ""
