"""The demo runs from an empty folder, with nothing but the installed package, and leaves what it promises."""

import subprocess
import sys

import numpy as np
import pytest

import controlshap as cs
from controlshap.cli import demo

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-W", "error", "-m", "controlshap.cli.demo"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    return folder / "demo_output", result


def test_it_prints_a_table_with_errors_and_a_conclusion(finished):
    _, result = finished
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    numbers = [line for line in lines if line.count("±") == 2 and "times" in line]
    assert len(numbers) == 2 * demo.N_ROWS * demo.N_SHOWN
    # Aligned: every line of numbers has its signs of error in the same two places.
    assert len({tuple(i for i, sign in enumerate(line) if sign == "±") for line in numbers}) == 1
    conclusion = [line for line in lines if line.startswith("Conclusion: ")]
    assert len(conclusion) == 1
    assert conclusion[0].endswith(".")


def test_the_saved_explanations_load_and_the_control_helped(finished):
    folder, _ = finished
    for features, least in (("independent", 1.2), ("correlated", 2.0)):
        explanation = cs.load(folder / f"explanation_{features}")
        assert explanation.values.shape == (demo.N_ROWS, 10)
        assert explanation.feature_names[0] == "worst radius"
        assert (explanation.n_evaluations <= demo.BUDGET).all()
        assert np.median(demo.variance_factor(explanation)) > least


def test_the_picture_is_a_png_of_readable_size(finished):
    folder, _ = finished
    content = (folder / "demo.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert width >= 1100
    assert height >= 650


def test_the_report_is_there(finished):
    folder, result = finished
    assert "worst perimeter" in (folder / "report.html").read_text(encoding="utf-8")
    assert "report.html" in result.stdout


def test_the_picture_shows_every_feature_with_both_errors(finished, monkeypatch, tmp_path):
    import matplotlib.pyplot as plt

    folder, _ = finished
    explanation = cs.load(folder / "explanation_correlated")
    repeated = explanation.values[:1] + np.linspace(-1, 1, 5)[:, None] * explanation.standard_errors[:1]
    errors = np.repeat(explanation.standard_errors[:1], 5, axis=0)
    figures = []
    monkeypatch.setattr(plt, "close", figures.append)
    demo.picture(explanation, demo.Reruns(repeated, repeated, errors, errors), tmp_path / "one.png")
    left, right = figures[0].axes
    assert {label.get_text() for label in left.get_yticklabels()} == set(explanation.feature_names)
    assert len(left.containers) == 2
    assert len(right.patches) == 2 * len(explanation.feature_names)
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["without control", "with control"]
    assert left.get_xlabel()
    assert right.get_xlabel()
    monkeypatch.undo()
    plt.close(figures[0])


def test_a_missing_package_is_named_with_the_way_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(cs.MissingExtraError, match=r"matplotlib.*pip install 'controlshap\[sklearn,plots,report\]'"):
        demo.main(["--out", "never_made"])
