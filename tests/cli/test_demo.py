"""The demo runs from an empty folder, with nothing but the installed package, and leaves what it promises."""

import re
import subprocess
import sys

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
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert result.returncode == 0, result.stderr
    return folder / "demo_output", result


def test_it_says_what_it_explains_and_how_far_reruns_scatter(finished):
    _, result = finished
    assert result.stderr == ""
    assert "probability of class 'malignant'" in result.stdout
    ranges = re.findall(r"([+-]\d\.\d+) to ([+-]\d\.\d+) +([+-]\d\.\d+) to ([+-]\d\.\d+)", result.stdout)
    assert len(ranges) == demo.N_SHOWN
    widths = [(float(b) - float(a), float(d) - float(c)) for a, b, c, d in ranges]
    assert all(ours < theirs for ours, theirs in widths)
    assert len(re.findall(r"^Conclusion: .*\.$", result.stdout, re.MULTILINE)) == 1


def test_the_explanation_loads(finished):
    explanation = cs.load(finished[0] / "explanation")
    assert explanation.values.shape == (demo.N_REPORT, 30)
    assert explanation.output_labels == ("probability of class 'malignant'",)
    assert (explanation.n_evaluations <= demo.BUDGET).all()


def test_the_picture_is_a_png_of_readable_size(finished):
    content = (finished[0] / "demo.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert width >= 1100
    assert height >= 650


def test_the_report_is_there(finished):
    assert "worst perimeter" in (finished[0] / "report.html").read_text(encoding="utf-8")


def test_a_missing_package_is_named_before_the_work(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(cs.MissingExtraError, match=r"controlshap\[demo\]"):
        demo.main(["--shap", "--out", str(tmp_path)])
