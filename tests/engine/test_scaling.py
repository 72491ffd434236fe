"""Cost grows as it should: counted work here, times in `benchmarks/scaling.py`, which is run with tiny sizes."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scaling_cases
import scaling_report
from scaling_cases import AXES, EXPLANATIONS, Problem, Setting, TimedModel, make_explainer, make_rows

import controlshap as cs
from controlshap.controls import d_matrices, taylor
from controlshap.data.players import resolve_players
from controlshap.values.base import MarginalImputer
from controlshap.values.gaussian import GaussianImputer

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = pytest.mark.parametrize("setting", EXPLANATIONS, ids=lambda s: f"{s.features}-{s.estimator}-{s.control}")


# --- the benchmark itself ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scaling")
    command = [sys.executable, str(ROOT / "benchmarks" / "scaling.py"), "--small", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder, done


def tables(text):
    """Section, heading and rows of every table."""
    found = []
    for section in text.split("\n## ")[1:]:
        for block in re.findall(r"(?:^\|.*\n)+", section, flags=re.MULTILINE):
            lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
            found.append((section.split("\n")[0], lines[0], lines[2:]))
    return found


def test_every_axis_has_a_table_of_times_and_one_of_memory(small_run):
    folder, done = small_run
    text = (folder / "scaling.md").read_text()
    assert text.strip() == done.stdout.strip()
    found = tables(text)
    assert [name for name, _, _ in found] == [axis.title for axis in AXES for _ in range(2)]
    for axis, of_time, of_memory in zip(AXES, found[::2], found[1::2], strict=True):
        for _, head, rows in (of_time, of_memory):
            sizes = [f"{size:,}" for size in axis.small]
            first = head.index(sizes[0])
            assert head[first : first + len(sizes)] == sizes
            assert [row[0] for row in rows] == [setting.features for setting in axis.settings]
            assert all(len(row) == len(head) for row in rows)
            assert all(float(cell) >= 0 for row in rows for cell in row[first : first + len(sizes)])
            spans = {row[head.index("over")] for row in rows}
            assert spans == {f"{axis.small[1]:,} to {axis.small[2]:,}"}
        _, head, rows = of_time
        for row in rows:
            cells = dict(zip(head, row, strict=True))
            assert np.isfinite(float(cells["exponent"]))
            # of three tiny sizes the last two are the upper half
            assert cells["last step"] == cells["exponent"]
            assert float(cells["limit"]) == axis.limit
            assert cells["within"] == ("yes" if float(cells["exponent"]) <= axis.limit + 0.1 else "no")
        _, head, rows = of_memory
        assert all(re.fullmatch(r"flat|-?\d+\.\d\d", row[head.index("exponent")]) for row in rows)
    assert re.search(r"(All|\d+ of) \d+ exponents of time are within their limits", text)


def test_the_picture_is_drawn(small_run):
    image = (small_run[0] / "scaling.png").read_bytes()
    assert image.startswith(b"\x89PNG")
    assert len(image) > 20_000


def test_the_full_ranges_are_those_promised():
    ranges = {axis.name: (axis.sizes[0], axis.sizes[-1]) for axis in AXES}
    assert ranges == {
        "players": (10, 500), "background": (10, 10_000), "rows": (1, 10_000), "evaluations": (1_000, 100_000),
        "columns": (10, 500),
    }  # fmt: skip
    assert {axis.name: axis.limit for axis in AXES if axis.limit == 1} == {"background": 1, "rows": 1, "evaluations": 1}
    for axis in AXES[:4]:
        assert {setting.features for setting in axis.settings} == {"independent", "correlated"}


def make_line(power, memory):
    axis = AXES[3]
    found = tuple(
        {"total": 1e-6 * size**power + 0.5, "model": 0.5, "once": 0.0, "evaluations": size, "memory": memory(size)}
        for size in axis.sizes
    )
    return scaling_report.Line(axis, axis.settings[0], axis.sizes, found)


def test_a_power_law_gives_its_exponent_and_quadratic_growth_is_named():
    linear = make_line(1.0, lambda size: 3.0)
    quadratic = make_line(2.0, lambda size: 1e-3 * size)
    assert linear.upper == (10_000, 30_000, 100_000)
    assert linear.exponent == pytest.approx(1.0, abs=1e-6)
    assert linear.memory_exponent == 0.0
    assert linear.within
    assert quadratic.exponent == pytest.approx(2.0, abs=1e-6)
    assert quadratic.memory_exponent == pytest.approx(1.0, abs=1e-6)
    assert not quadratic.within
    assert scaling_report.verdict([linear]) == "All 1 exponents of time are within their limits."
    told = scaling_report.verdict([linear, quadratic])
    assert told.startswith("1 of 2 exponents")
    assert "evaluations, independent, permutation, none: 2.00" in told


def test_a_steep_last_step_is_named_though_the_fit_is_within():
    line = make_line(0.0, lambda size: 0.0)
    seconds = [1.0, 1.0, 1.0, 1.0, 10.0]
    found = tuple(one | {"total": total, "model": 0.0} for one, total in zip(line.found, seconds, strict=True))
    steep = scaling_report.Line(line.axis, line.setting, line.sizes, found)
    assert steep.exponent < 1.1 < steep.last_exponent
    assert "last step alone: evaluations, independent, permutation, none: 1.91" in scaling_report.verdict([steep])


# --- counted work -----------------------------------------------------------------------------------------------------


def count_work(setting, n_rows, budget, monkeypatch):
    """Model calls and rows, and walks and coalitions whose rows were built, without what is spent once."""
    built = {"walks": 0, "coalitions": 0}
    with monkeypatch.context() as patch:
        for imputer in (GaussianImputer, MarginalImputer):
            for name, method in (("walks", "walk_rows"), ("coalitions", "coalition_rows")):
                patch.setattr(imputer, method, counted(getattr(imputer, method), name, built))
        problem = Problem(n_players=12, n_background=40, n_rows=n_rows, budget=budget)
        model = TimedModel(problem.n_players)
        explainer = make_explainer(setting, problem, model)
        rows = make_rows(n_rows + 1, problem.n_players, 3)
        explainer(rows[:1], budget=budget, rng=0)
        model.clear()
        built.update(walks=0, coalitions=0)
        explainer(rows[1:], budget=budget, rng=0)
    return {"calls": model.n_calls, "rows": model.n_rows, **built}


def counted(method, name, built):
    def counting(self, x, design, draws):
        built[name] += int(np.prod(design.shape[:-1]))
        return method(self, x, design, draws)

    return counting


@SETTINGS
def test_twice_the_rows_are_twice_the_work(setting, monkeypatch):
    once = count_work(setting, 2, 400, monkeypatch)
    twice = count_work(setting, 4, 400, monkeypatch)
    assert once["calls"] > 0
    assert once["walks"] + once["coalitions"] > 0
    assert twice == {name: 2 * number for name, number in once.items()}


@SETTINGS
def test_twice_the_evaluations_are_at_most_twice_the_work(setting, monkeypatch):
    once = count_work(setting, 1, 4_000, monkeypatch)
    twice = count_work(setting, 1, 8_000, monkeypatch)
    for name, number in once.items():
        # one unit more for what the smaller budget did not divide into
        assert twice[name] <= 2 * number + 24, name
    assert twice["calls"] == once["calls"]  # under the memory limit all units go to the model together


def gaussian_imputer(n_columns):
    names = tuple(f"x{i}" for i in range(n_columns))
    return cs.GaussianConditional().bind(make_rows(60, n_columns, 2), resolve_players(None, names), names)


def test_permutations_of_d_matrices_are_as_many_as_asked_for_and_no_more(monkeypatch):
    imputer, factored = gaussian_imputer(15), []
    original = GaussianImputer.walk_factors
    monkeypatch.setattr(
        GaussianImputer,
        "walk_factors",
        lambda self, permutations: factored.append(len(permutations)) or original(self, permutations),
    )
    for n_permutations in (200, 400):
        factored.clear()
        assert d_matrices.d_matrices(imputer, n_permutations).n_permutations == n_permutations
        assert sum(factored) == n_permutations


def test_d_matrices_are_made_once_for_all_rows(monkeypatch):
    made = []
    original = taylor.d_matrices
    monkeypatch.setattr(taylor, "d_matrices", lambda *args: made.append(1) or original(*args))
    problem = Problem(n_players=12, n_background=40, n_rows=3, budget=400)
    setting = Setting("correlated", "permutation", "taylor")
    explainer = make_explainer(setting, problem, TimedModel(12))
    for seed in range(2):
        explainer(make_rows(problem.n_rows, 12, 3), budget=problem.budget, rng=seed)
    assert len(made) == 1


def test_rows_of_a_walk_need_one_factor_of_the_columns(monkeypatch):
    shapes = []
    original = np.linalg.cholesky
    for n_columns in (20, 40):
        imputer = gaussian_imputer(n_columns)
        imputer.walk_rows(np.zeros(n_columns), np.arange(n_columns)[None], np.ones((1, 1, n_columns)))  # what is kept
        with monkeypatch.context() as patch:
            patch.setattr(np.linalg, "cholesky", lambda matrix: shapes.append(matrix.shape) or original(matrix))
            permutations = np.stack([np.random.default_rng(i).permutation(n_columns) for i in range(6)])
            imputer.walk_rows(np.zeros(n_columns), permutations, np.ones((6, 1, n_columns)))
        assert sum(shape[0] for shape in shapes) == 6
        assert {shape[1:] for shape in shapes} == {(n_columns + 1, n_columns + 1)}  # the columns, and the draw
        shapes.clear()


def test_a_measurement_counts_the_model_apart():
    found = scaling_cases.measure("evaluations", EXPLANATIONS[0], 500)
    assert set(found) == {"total", "model", "once", "evaluations", "memory"}
    assert 0 < found["model"] < found["total"]
    assert 480 < found["evaluations"] <= 500
